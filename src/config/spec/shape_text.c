/*
 * shape_text.c - the shape of a call, as it comes from a target, as text.
 *
 * The bytes are untrusted: kprofd/term.h reads them, and what spec.h does not
 * describe is refused.
 */
#include <string.h>

#include "config/spec/spec.h"
#include "kprofd/fn_name.h"
#include "kprofd/term.h"

#define VALUE_TEXT_MAX 300u	/* bytes: a binary with every byte escaped */

static bool
is_false(const struct kp_term *r)
{
	struct kp_term at = *r;

	return kp_term_peek(r) == KP_TERM_ATOM &&
	    kp_span_is(kp_term_atom(&at), "false");
}

/* Skips `false`; returns whether it was there. */
static bool
skip_false(struct kp_term *r)
{
	if (!is_false(r))
		return false;
	kp_term_skip(r);
	return true;
}

/* {Type, TupleSize, MapSize, Value} */
struct leaf {
	int64_t type, elements, keys;	/* -1: none */
	bool shown;
	struct kp_term value;		/* shown: is at it */
};

static int64_t
size_read(struct kp_term *r)
{
	return skip_false(r) ? -1 : kp_term_int(r);
}

static void
leaf_read(struct kp_term *r, struct leaf *x)
{
	*x = (struct leaf){ 0 };
	kp_term_tuple_n(r, 4);
	x->type = kp_term_int(r);
	x->elements = size_read(r);
	x->keys = size_read(r);
	x->shown = !skip_false(r);
	if (!x->shown)
		return;
	kp_term_tuple_n(r, 1);
	x->value = *r;
	kp_term_skip(r);
}

static void
rest_put(struct kp_buf *out, int64_t n, const char *what)
{
	kp_buf_printf(out, "... %lld %s%s", (long long)n, what,
	    n == 1 ? "" : "s");
}

static void
tuple_put(struct kp_buf *out, int64_t n)
{
	kp_buf_u8(out, '{');
	if (n > SHAPE_ELEMENTS)
		rest_put(out, n, "element");
	for (int64_t i = 0; i < n && n <= SHAPE_ELEMENTS; i++)
		kp_buf_str(out, i > 0 ? ", _" : "_");
	kp_buf_u8(out, '}');
}

static void
map_put(struct kp_buf *out, int64_t n)
{
	kp_buf_str(out, "#{");
	if (n > 0)
		rest_put(out, n, "key");
	kp_buf_u8(out, '}');
}

static void
leaf_put(struct kp_buf *out, const struct leaf *x)
{
	static const char *const names[] = { [SHAPE_OTHER] = "bitstring",
		[SHAPE_ATOM] = "atom", [SHAPE_INTEGER] = "integer",
		[SHAPE_FLOAT] = "float", [SHAPE_BINARY] = "binary",
		[SHAPE_PID] = "pid", [SHAPE_PORT] = "port",
		[SHAPE_REFERENCE] = "reference", [SHAPE_FUNCTION] = "fun",
		[SHAPE_LIST] = "list", [SHAPE_NIL] = "[]" };
	struct kp_term value = x->value;

	if (x->shown)
		kp_term_print(&value, out, VALUE_TEXT_MAX);
	else if (x->type == SHAPE_TUPLE)
		tuple_put(out, x->elements);
	else if (x->type == SHAPE_MAP)
		map_put(out, x->keys);
	else if (x->type >= 0 && x->type <= SHAPE_NIL &&
	    names[x->type] != NULL)
		kp_buf_str(out, names[x->type]);
	else
		kp_buf_str(out, "term");
}

/* Begins another part of a tuple or map. */
static void
comma(struct kp_buf *out, bool *first)
{
	if (!*first)
		kp_buf_str(out, ", ");
	*first = false;
}

/* Tag, Elements: of a tuple of n.  text: as that is written. */
static void
elements_text(struct kp_buf *out, struct kp_term *r, struct kp_term tag,
    int64_t n)
{
	bool first = true;
	struct leaf x;

	kp_buf_u8(out, '{');
	kp_term_tuple_n(r, SHAPE_ELEMENTS);
	for (int i = 0; i < SHAPE_ELEMENTS; i++) {
		if (skip_false(r))
			continue;
		leaf_read(r, &x);
		comma(out, &first);
		if (i == 0 && !is_false(&tag))
			kp_term_print(&tag, out, KP_ATOM_TEXT_MAX);
		else
			leaf_put(out, &x);
	}
	if (n > SHAPE_ELEMENTS) {
		comma(out, &first);
		rest_put(out, n, "element");
	}
	kp_buf_u8(out, '}');
}

static void
key_text(struct kp_buf *out, const struct node *key)
{
	struct kp_buf b;
	struct kp_term r;

	kp_buf_init(&b, KP_CONF_SIZE_MAX);
	raw_put(&b, key);
	if (b.err == KP_OK) {
		kp_term_begin_raw(&r, b.p, b.len);
		kp_term_print(&r, out, VALUE_TEXT_MAX);
	}
	kp_buf_free(&b);
}

static void
keys_text(struct kp_buf *out, struct kp_term *r, struct kp_term name,
    const struct shape_keys *keys, int64_t n)
{
	int64_t shown = 0;
	bool first = true;
	struct leaf x;

	kp_buf_str(out, "#{");
	if (!is_false(&name)) {
		comma(out, &first);
		kp_buf_str(out, "'" SHAPE_STRUCT "' := ");
		kp_term_print(&name, out, KP_ATOM_TEXT_MAX);
		shown++;
	}
	kp_term_tuple_n(r, keys->n);
	for (unsigned i = 0; i < keys->n && r->err == KP_OK; i++) {
		if (skip_false(r))
			continue;
		leaf_read(r, &x);
		comma(out, &first);
		key_text(out, keys->v[i]);
		kp_buf_str(out, " := ");
		leaf_put(out, &x);
		shown++;
	}
	if (n > shown) {
		comma(out, &first);
		rest_put(out, n, "key");
	}
	kp_buf_u8(out, '}');
}

/* {Leaf, Tag, Elements, Struct, Head, Keys} */
static void
arg_text(struct kp_buf *out, struct kp_term *r, const struct shape_keys *keys)
{
	struct kp_term tag, elements, name, head, fields;
	struct leaf x, first;

	kp_term_tuple_n(r, 6);
	leaf_read(r, &x);
	tag = *r;
	kp_term_skip(r);
	elements = *r;
	kp_term_skip(r);
	name = *r;
	kp_term_skip(r);
	head = *r;
	kp_term_skip(r);
	fields = *r;
	kp_term_skip(r);
	if (r->err != KP_OK)
		return;
	if (x.type == SHAPE_TUPLE && !is_false(&elements)) {
		elements_text(out, &elements, tag, x.elements);
		r->err = elements.err;
	} else if (x.type == SHAPE_MAP && !is_false(&fields)) {
		keys_text(out, &fields, name, keys, x.keys);
		r->err = fields.err;
	} else if (x.type == SHAPE_LIST && !is_false(&head)) {
		leaf_read(&head, &first);
		kp_buf_u8(out, '[');
		leaf_put(out, &first);
		kp_buf_str(out, " | _]");
		r->err = head.err;
	} else {
		leaf_put(out, &x);
	}
}

/* "shop_handler:init(" */
static void
name_text(struct kp_buf *out, const struct kp_mfa *f)
{
	char text[FN_NAME_MAX], *slash;

	fn_name(text, sizeof(text), f->mod, f->fun, f->arity);
	slash = strrchr(text, '/');
	if (slash != NULL)
		*slash = '\0';
	kp_buf_str(out, text);
	kp_buf_u8(out, '(');
}

enum kp_err
kp_shape_text(const struct kp_conf *c, const struct kp_mfa *f,
    const uint8_t *term, size_t n, struct kp_buf *out)
{
	struct shape_keys keys;
	struct kp_term r;
	uint32_t args;

	shape_keys(&keys, c);
	kp_term_begin_raw(&r, term, n);
	args = kp_term_tuple(&r);
	if (r.err == KP_OK && (args > SHAPE_ARGS_MAX || args > f->arity))
		return KP_EFORMAT;
	name_text(out, f);
	for (uint32_t i = 0; i < args && r.err == KP_OK; i++) {
		if (i > 0)
			kp_buf_str(out, ", ");
		arg_text(out, &r, &keys);
	}
	kp_buf_str(out, f->arity > args ? ", ...)" : ")");
	return r.err != KP_OK ? KP_EFORMAT : out->err;
}
