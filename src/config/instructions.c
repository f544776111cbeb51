/*
 * instructions.c - the table of functions whose calls are instructions, and the
 * warning where a tiers.conf names some.
 */
#include <string.h>

#include "config/conf_ctx.h"
#include "kprofd/fn_name.h"
#include "kprofd/instructions.h"

#define ERL(fun, arity) { "erlang", fun, arity, 0, 0 }

static const struct kp_instruction table[] = {
	/* guard BIFs, and get/1 */
	ERL("self", 0), ERL("length", 1), ERL("element", 2), ERL("abs", 1),
	ERL("binary_part", 2), ERL("binary_part", 3), ERL("bit_size", 1),
	ERL("byte_size", 1), ERL("ceil", 1), ERL("float", 1), ERL("floor", 1),
	ERL("get", 1), ERL("hd", 1), ERL("map_get", 2), ERL("map_size", 1),
	{ "erlang", "max", 2, 26, 0 }, { "erlang", "min", 2, 26, 0 },
	ERL("node", 0), ERL("node", 1), ERL("round", 1), ERL("size", 1),
	ERL("tl", 1), ERL("trunc", 1), ERL("tuple_size", 1),
	/* type tests; is_record/3 where the record's name is a literal */
	ERL("is_atom", 1), ERL("is_binary", 1), ERL("is_bitstring", 1),
	ERL("is_boolean", 1), ERL("is_float", 1), ERL("is_function", 1),
	ERL("is_function", 2), ERL("is_integer", 1),
	{ "erlang", "is_integer", 3, 29, 0 }, ERL("is_list", 1),
	ERL("is_map", 1), ERL("is_map_key", 2), ERL("is_number", 1),
	ERL("is_pid", 1), ERL("is_port", 1),
	{ "erlang", "is_record", 1, 29, 0 }, ERL("is_record", 2),
	ERL("is_record", 3), ERL("is_reference", 1), ERL("is_tuple", 1),
	/* operators */
	ERL("!", 2), ERL("*", 2), ERL("+", 1), ERL("+", 2), ERL("-", 1),
	ERL("-", 2), ERL("/", 2), ERL("/=", 2), ERL("<", 2), ERL("=/=", 2),
	ERL("=:=", 2), ERL("=<", 2), ERL("==", 2), ERL(">", 2), ERL(">=", 2),
	ERL("and", 2), ERL("band", 2), ERL("bnot", 1), ERL("bor", 2),
	ERL("bsl", 2), ERL("bsr", 2), ERL("bxor", 2), ERL("div", 2),
	ERL("not", 1), ERL("or", 2), ERL("rem", 2), ERL("xor", 2),
	{ "maps", "get", 2, 0, 0 }, { "maps", "get", 3, 26, 0 },
	{ "maps", "is_key", 2, 0, 0 }, { "maps", "new", 0, 0, 0 },
	{ "maps", "size", 1, 0, 0 }, { "math", "pi", 0, 0, 0 },
	/* of the loader */
	ERL("apply", 3), { "erlang", "hibernate", 3, 0, 27 },
	{ "erlang", "hibernate", 0, 28, 0 }, ERL("load_nif", 2),
	ERL("yield", 0), { "os", "perf_counter", 0, 0, 0 },
};
#define TABLE_LEN (sizeof(table) / sizeof(table[0]))
_Static_assert(TABLE_LEN <= KP_INSTRUCTIONS_MAX, "room for all of them");

static struct kp_mfa
mfa_of(const struct kp_instruction *i)
{
	return (struct kp_mfa){ i->mod, i->fun, i->arity };
}

bool
kp_is_instruction(const struct kp_mfa *f)
{
	for (size_t i = 0; i < TABLE_LEN; i++)
		if (table[i].arity == f->arity &&
		    strcmp(table[i].mod, f->mod) == 0 &&
		    strcmp(table[i].fun, f->fun) == 0)
			return true;
	return false;
}

static bool
covers(const struct kp_mfa_pat *pats, size_t n, const struct kp_mfa *f)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(pats[i].mod, "_") == 0 ||
		    kp_mfa_pat_covers(&pats[i], f))
			return true;
	return false;
}

struct kp_instructions
kp_instructions(const struct kp_mfa_pat *pats, size_t n,
    const struct kp_mfa_pat *exclude, size_t nexclude, int otp)
{
	struct kp_instructions s = { .n = 0 };
	const struct kp_instruction *r;
	struct kp_mfa f;

	for (r = table; r < table + TABLE_LEN; r++) {
		f = mfa_of(r);
		if ((otp == 0 || (otp >= r->from &&
		    (r->until == 0 || otp <= r->until))) &&
		    covers(pats, n, &f) && !covers(exclude, nexclude, &f))
			s.v[s.n++] = r;
	}
	return s;
}

static void
put_one(struct kp_buf *b, const struct kp_instruction *i)
{
	fn_name_put(b, i->mod, i->fun, i->arity);
	if (i->from > 0)
		kp_buf_printf(b, " (where OTP %d or later compiled them)",
		    i->from);
	else if (i->until > 0)
		kp_buf_printf(b, " (up to OTP %d)", i->until);
}

void
kp_instructions_put(struct kp_buf *b, const struct kp_instructions *s,
    const char *verb)
{
	size_t named = s->n <= KP_INSTRUCTIONS_NAMED + 1 ? s->n :
	    KP_INSTRUCTIONS_NAMED;

	kp_buf_str(b, "calls of ");
	for (size_t i = 0; i < named; i++) {
		kp_buf_str(b, i == 0 ? "" : i + 1 == s->n ? " and " : ", ");
		put_one(b, s->v[i]);
	}
	if (named < s->n)
		kp_buf_printf(b, " and %zu other functions", s->n - named);
	kp_buf_printf(b, " are compiled to instructions: only those by apply or "
	    "of a fun are %s", verb);
}

/* ---- of a tiers.conf ---- */

static void
check(struct conf_ctx *x, const struct kp_mfa_pat *p)
{
	const struct kp_instructions s = kp_instructions(p, 1, NULL, 0, 0);
	struct kp_buf b;

	if (s.n == 0)
		return;
	kp_buf_init(&b, 4 * FN_NAME_MAX);
	kp_instructions_put(&b, &s, "traced");
	diag_warn(x->diags, p->pos, "%s (name the function around them)",
	    kp_buf_cstr(&b));
	kp_buf_free(&b);
}

void
conf_instructions(struct conf_ctx *x)
{
	const struct kp_conf *c = x->conf;

	for (size_t i = 0; i < c->ntiers; i++)
		for (size_t j = 0; j < c->tiers[i].nfns; j++)
			check(x, &c->tiers[i].fns[j]);
	for (size_t i = 0; i < c->nentries; i++)
		check(x, &c->entries[i].fn);
	for (size_t i = 0; i < c->nfinishes; i++)
		check(x, &c->finishes[i]);
}
