/* write.c - names tiers, writes the file, and adds up what kprof suggest took. */
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "kprofd/fn_name.h"
#include "kprofd/waits.h"
#include "suggest/propose.h"
#include "text/text.h"

#define NAME_MAX_BYTES 40
#define COLUMNS 88u

/* ---- names of tiers ---- */

static bool
is_word(const char *s)
{
	return s[0] >= 'a' && s[0] <= 'z' && s[strspn(s, "abcdefghijklmnopqrst"
	    "uvwxyz0123456789_")] == '\0';
}

/* The last part of a module's name, in small letters. */
static void
last_part(const char *mod, char *name, size_t n)
{
	const char *dot = strrchr(mod, '.');
	const char *s = dot != NULL ? dot + 1 : mod;
	size_t i = 0;

	for (; *s != '\0' && i < n - 1; s++)
		if (*s >= 'A' && *s <= 'Z')
			name[i++] = (char)(*s - 'A' + 'a');
		else if (strchr("0123456789_", *s) != NULL ||
		    (*s >= 'a' && *s <= 'z'))
			name[i++] = *s;
	name[i] = '\0';
}

/* shop_basket of the application shop: basket. */
static const char *
without_app(const char *name, const char *app)
{
	size_t n = strlen(app);

	return n > 0 && strncmp(name, app, n) == 0 && name[n] == '_' &&
	    is_word(name + n + 1) ? name + n + 1 : name;
}

static bool
is_reserved(const char *s)
{
	static const char *const words[] = { "after", "and", "andalso", "band",
		"begin", "bnot", "bor", "bsl", "bsr", "bxor", "case", "catch",
		"cond", "div", "else", "end", "fun", "if", "let", "maybe",
		"not", "of", "or", "orelse", "receive", "rem", "try", "when",
		"xor" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(s, words[i]) == 0)
			return true;
	return false;
}

struct named {
	char v[SUGGEST_TIERS_MAX][NAME_MAX_BYTES + 8];
};

static bool
is_taken(const struct suggest_file *f, const struct named *x, size_t n,
    const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(x->v[i], name) == 0)
			return true;
	for (size_t i = 0; f->stock != NULL && i < f->stock_conf->ntiers; i++)
		if (strcmp(f->stock_conf->tiers[i].name, name) == 0)
			return true;
	return false;
}

static void
name_all(const struct suggest_file *f, struct named *x)
{
	const struct suggest_tier *t;
	char name[NAME_MAX_BYTES];
	const char *at;

	for (size_t i = 0; i < f->tiers->n; i++) {
		t = &f->tiers->v[i];
		last_part(t->entry ? "request" : t->by_app ?
		    f->fns[t->fns[0]].app : t->waits ?
		    f->names->fns[t->fns[0]].fun :
		    f->names->fns[t->fns[0]].mod, name, sizeof(name));
		at = t->by_app ? name : without_app(name,
		    f->fns[t->fns[0]].app);
		if (!is_word(at) || is_reserved(at))
			at = "tier";
		snprintf(x->v[i], sizeof(x->v[i]), "%s", at);
		for (unsigned k = 2; is_taken(f, x, i, x->v[i]); k++)
			snprintf(x->v[i], sizeof(x->v[i]), "%s_%u", at, k);
	}
}

/* ---- functions ---- */

/* "Shop.Cart.add/2", as users of Elixir write it; {shop_cart, add, 2} */
static void
put_fn(struct kp_buf *b, const struct kp_call_fn *fn)
{
	char text[FN_NAME_MAX];

	fn_name(text, sizeof(text), fn->mod, fn->fun, fn->arity);
	if (fn_is_elixir(fn->mod) && text[strcspn(text, "\"\\")] == '\0') {
		kp_buf_printf(b, "\"%s\"", text);
		return;
	}
	kp_buf_u8(b, '{');
	kp_atom_print(b, fn->mod);
	kp_buf_str(b, ", ");
	kp_atom_print(b, fn->fun);
	kp_buf_printf(b, ", %u}", fn->arity);
}

static void
put_name(struct kp_buf *b, const struct kp_call_fn *fn)
{
	fn_name_put(b, fn->mod, fn->fun, fn->arity);
}

/* How often requests come; and how often each calls another function. */
static void
put_calls(const struct suggest_file *f, struct kp_buf *b, const struct suggest_tier *t,
    size_t i)
{
	double rate = f->rate(f->ctx, &f->names->fns[t->fns[i]]);
	char text[TEXT_MAX];

	if (t->entry && rate >= 0)
		kp_buf_printf(b, "  %% %s calls/s", text_count(text,
		    (uint64_t)(rate + 0.5)));
	if (!t->entry && f->tiers->requests > 0)
		kp_buf_printf(b, "  %% %s a request", text_average(text,
		    (double)t->calls[i] / (double)f->tiers->requests));
}

/* ---- tiers ---- */

/* Is the worker at work for the caller meanwhile, too? */
static bool
has_worker(const struct suggest_file *f, const struct suggest_tier *t)
{
	const struct kp_call_fn *fn = &f->names->fns[t->fns[0]];
	const struct kp_pool_fn *known = kp_pool_fn(fn->mod, fn->fun);

	return known != NULL && !known->gives;
}

static void
put_tier_why(const struct suggest_file *f, struct kp_buf *b,
    const struct suggest_tier *t)
{
	double all = (double)f->tiers->total;
	char text[TEXT_MAX], own[TEXT_MAX];

	if (f->stock != NULL && f->stock->layers && all > 0)
		kp_buf_printf(b, "    %%%% %s of the requests' time with all that it "
		    "calls,\n    %%%% and %s by itself", text_share(text,
		    (double)t->whole / all), text_share(own,
		    (double)(t->own - t->elsewhere) / all));
	else
		kp_buf_printf(b, "    %%%% %s of the requests' time", text_share(text,
		    all > 0 ? (double)(t->own - t->elsewhere) / all : 0));
	if (t->entry)
		kp_buf_str(b, " is in none of the tiers below");
	if (t->elsewhere > f->tiers->total / 1000 && f->tiers->requests > 0)
		kp_buf_printf(b, "; %s a request in other processes",
		    text_dur(text, t->elsewhere /
		    (kp_dur_ns)f->tiers->requests));
	if (t->pool)
		kp_buf_str(b, "; the way to a pool of processes");
	if (t->waits)
		kp_buf_str(b, has_worker(f, t) ? "; it waits for a worker of a "
		    "pool, and then uses it" : "; it waits for a worker of a pool");
	if (t->more > 0)
		kp_buf_printf(b, "; %zu less used functions are left out",
		    t->more);
	kp_buf_str(b, ".\n");
}

static void
put_tier(const struct suggest_file *f, struct kp_buf *b,
    const struct suggest_tier *t, const char *name, bool last, bool comments)
{
	size_t pad = strlen(name) + 7;

	if (comments)
		put_tier_why(f, b, t);
	kp_buf_printf(b, "    {%s, %s", name, t->nfns > 1 ? "[" : "");
	for (size_t i = 0; i < t->nfns; i++) {
		if (i > 0)
			kp_buf_printf(b, "%*s", (int)pad + 1, "");
		put_fn(b, &f->names->fns[t->fns[i]]);
		kp_buf_str(b, i + 1 < t->nfns ? "," : t->nfns > 1 ? "]}" : "}");
		if (i + 1 == t->nfns && !last)
			kp_buf_u8(b, ',');
		if (comments)
			put_calls(f, b, t, i);
		kp_buf_u8(b, '\n');
	}
	if (comments && !last)
		kp_buf_u8(b, '\n');
}

static void
put_tiers(const struct suggest_file *f, struct kp_buf *b, bool comments)
{
	struct named names;

	name_all(f, &names);
	for (size_t i = 0; i < f->tiers->n; i++)
		put_tier(f, b, &f->tiers->v[i], names.v[i],
		    i + 1 == f->tiers->n && f->stock == NULL, comments);
}

#define TIERS "{tiers, [\n"

/* The example, without its introduction, and with the other tiers before its own. */
static void
put_stock(const struct suggest_file *f, struct kp_buf *b)
{
	const char *tiers = strstr(f->stock->stock, TIERS);

	kp_buf_printf(b, "%%%% priv/examples/%s%s\n" TIERS, f->stock->example,
	    f->tiers->n == 0 ? "" : ", and before its tiers those of the "
	    "application's own modules");
	put_tiers(f, b, true);
	kp_buf_str(b, tiers + strlen(TIERS));
}

/* ---- comments ---- */

/* A paragraph as a comment, broken at blanks. */
static void
put_paragraph(struct kp_buf *b, const char *s, size_t n)
{
	size_t cols = 2, len;

	kp_buf_str(b, "%%");
	for (size_t i = 0; i < n; i += len) {
		for (; i < n && s[i] == ' '; i++)
			;
		for (len = 0; i + len < n && s[i + len] != ' '; len++)
			;
		if (cols > 2 && cols + 1 + len > COLUMNS) {
			kp_buf_str(b, "\n%%");
			cols = 2;
		}
		if (len > 0)
			kp_buf_u8(b, ' ');
		text_put_n(b, s + i, len);
		cols += 1 + len;
	}
	kp_buf_u8(b, '\n');
}

static void
put_lines(struct kp_buf *b, const char *s)
{
	size_t n;

	for (; *s != '\0'; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		put_paragraph(b, s, n);
	}
}

static void
put_left(const struct suggest_file *f, struct kp_buf *b)
{
	static const char *const reasons[] = {
		[SUGGEST_HELPER] = "many modules call it, and it waits for "
		    "nobody: its time is in its callers",
		[SUGGEST_SHORT] = "too little of the time",
		[SUGGEST_QUICK] = "its calls are so short that tracing would "
		    "take as long",
		[SUGGEST_HOT] = "called too often",
		[SUGGEST_ENOUGH] = "there are enough tiers" };
	const struct suggest_left *l;
	char text[TEXT_MAX];
	bool any = false;

	for (size_t i = 0; i < f->tiers->nleft; i++) {
		l = &f->tiers->left[i];
		if (f->fns[l->fn].known)
			continue;
		kp_buf_printf(b, "%s%%%%   ", any ? "" :
		    "%% Considered and left out:\n");
		any = true;
		put_name(b, &f->names->fns[l->fn]);
		if (l->own < f->tiers->total)
			kp_buf_printf(b, " (%s)", text_share(text,
			    (double)l->own / (double)f->tiers->total));
		kp_buf_printf(b, ": %s\n", reasons[l->reason]);
	}
	kp_buf_str(b, any ? "%%\n" : "");
}

static void
put_entries(const struct suggest_file *f, struct kp_buf *b)
{
	const struct suggest_entry *e = &f->entries[f->chosen];
	const struct suggest_entry *x;
	char text[TEXT_MAX];
	double rate;

	kp_buf_str(b, "%% A request is a call of this function: ");
	if (e->framework)
		kp_buf_str(b, "a framework's, of which that is known.\n");
	else if (e->callback)
		kp_buf_str(b, "a server's callback, for want of a better "
		    "one.\n%% Never give it 'exact': it returns the server's "
		    "state.\n");
	else
		kp_buf_str(b, "the outermost in its process\n%% that works "
		    "and waits in turn, and returns.\n");
	for (size_t i = 0; i < f->nentries && i < 5; i++) {
		x = &f->entries[i];
		if (i == f->chosen)
			continue;
		rate = f->rate(f->ctx, &f->entry_names->fns[x->fn]);
		kp_buf_str(b, "%% Also considered: ");
		put_name(b, &f->entry_names->fns[x->fn]);
		if (rate >= 0)
			kp_buf_printf(b, ", %s calls/s", text_count(text,
			    (uint64_t)(rate + 0.5)));
		kp_buf_str(b, x->callback ? ": returns a server's state" :
		    x->worker ? ": works in a pool, for others" :
		    x->waits && x->modules == 0 ? ": only waits" :
		    x->modules < e->modules ? ": calls fewer modules" : "");
		kp_buf_u8(b, '\n');
	}
}

static void
put_entry(const struct suggest_file *f, struct kp_buf *b)
{
	kp_buf_str(b, "{entry, ");
	put_fn(b, &f->entry_names->fns[f->entries[f->chosen].fn]);
	kp_buf_str(b, "}.\n\n");
}

static void
put_identity(const struct suggest_file *f, struct kp_buf *b)
{
	if (f->why[0] != '\0')
		put_lines(b, f->why);
	kp_buf_str(b, "{identity, fun\n");
	if (f->clause[0] != '\0')
		kp_buf_printf(b, "    %s;\n", f->clause);
	kp_buf_str(b, "    (_) -> undefined\nend}.\n\n");
	if (!f->paths)
		return;
	kp_buf_str(b, "%% What varies in a path has to go, or each value is a "
	    "type of its own.\n{rewrite, [\n    {\"[?].*\", \"\"},\n"
	    "    {\"/[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\", \"/:uuid\"},\n"
	    "    {\"/[0-9]+/\", \"/:id/\"},\n    {\"/[0-9]+/\", \"/:id/\"},\n"
	    "    {\"/[0-9]+$\", \"/:id\"},\n"
	    "    {\"/[A-Za-z_.-]+[0-9]{2,}$\", \"/:name\"},\n"
	    "    {\"/[0-9a-fA-F]{16,}\", \"/:hex\"}\n]}.\n\n");
}

/* ---- the file ---- */

/* A clause that fits no call: what would name requests is explained, too. */
static void
put_never(struct kp_buf *b, const struct kp_call_fn *fn)
{
	kp_buf_str(b, "    ({");
	kp_atom_print(b, fn->mod);
	kp_buf_str(b, ", ");
	kp_atom_print(b, fn->fun);
	kp_buf_str(b, ", [");
	for (uint32_t i = 0; i < fn->arity; i++)
		kp_buf_str(b, i == 0 ? "'kprof suggest'" : ", _");
	kp_buf_str(b, "]}) -> 'kprof suggest';\n");
}

void
suggest_write_draft(const struct suggest_file *f, struct kp_buf *b)
{
	kp_buf_str(b, TIERS);
	put_tiers(f, b, false);
	kp_buf_str(b, "]}.\n\n");
	put_entry(f, b);
	kp_buf_str(b, "{identity, fun\n");
	for (size_t i = 0; i < f->nasked; i++)
		put_never(b, &f->names->fns[f->asked[i]]);
	kp_buf_str(b, "    (_) -> undefined\nend}.\n"
	    "{sampling, {per_second, 1000}}.\n");
}

void
suggest_write(const struct suggest_file *f, struct kp_buf *b)
{
	kp_buf_str(b, "%% Proposed by kprof suggest for ");
	text_put(b, f->node);
	kp_buf_printf(b, ", %s.\n%%%%\n", f->date);
	put_lines(b, f->about);
	kp_buf_str(b, "%%\n%%     kprof check FILE -target ");
	text_put(b, f->node);
	text_put(b, f->reach);
	kp_buf_str(b, "     # does it fit?\n%%     kprofd -tiers FILE -target ");
	text_put(b, f->node);
	text_put(b, f->reach);
	kp_buf_str(b, "\n%%\n");
	put_left(f, b);
	if (f->verdict[0] != '\0') {
		kp_buf_str(b, "%% kprof check said:\n");
		put_lines(b, f->verdict);
	}
	kp_buf_u8(b, '\n');
	if (f->stock != NULL) {
		put_stock(f, b);
		return;
	}
	kp_buf_str(b, TIERS);
	put_tiers(f, b, true);
	kp_buf_str(b, "]}.\n\n");
	put_entries(f, b);
	put_entry(f, b);
	put_identity(f, b);
	kp_buf_str(b, "%% All requests are traced while that costs little, else "
	    "all of some slices of time:\n%% then reports are estimates for "
	    "all.\n{sampling, auto}.\n");
}

/* ---- what it took ---- */

/* Each the highest of the figures that were measured with OTP 25, 27 and 29. */
/* To load a module of kprof's, start it, and purge it. */
#define COST_LOAD (10 * KP_NS_PER_MS)
/* To answer about a module, and to make a process that does. */
#define COST_QUESTION (100 * KP_NS_PER_US)
/* To set a pattern, and to take it back. */
#define COST_PATTERN (320 * KP_NS_PER_US)
/* To set a process's flags, and to take them back. */
#define COST_FLAGS (2 * KP_NS_PER_US)
/* A call that the VM counts; and one that it may trace, of 250 to 600 ns. */
#define COST_COUNTED INT64_C(100)	/* ns */
#define COST_ARMED INT64_C(600)
/* An event, until it is sent. */
#define COST_EVENT INT64_C(1700)	/* ns */

/* Counts come from a node: a product may be larger than any time. */
static kp_dur_ns
times(double n, kp_dur_ns each)
{
	double t = n * (double)each;

	return t < (double)(INT64_MAX / 2) ? (kp_dur_ns)t : INT64_MAX / 2;
}

static kp_dur_ns
work_time(const struct suggest_work *w)
{
	kp_dur_ns t = times((double)w->loads, COST_LOAD);

	t = sat_add(t, times((double)w->questions, COST_QUESTION));
	t = sat_add(t, times((double)w->patterns, COST_PATTERN));
	t = sat_add(t, times((double)w->processes, COST_FLAGS));
	t = sat_add(t, times(w->counted, COST_COUNTED));
	t = sat_add(t, times(w->armed, COST_ARMED));
	return sat_add(t, times(w->events, COST_EVENT));
}

kp_dur_ns
suggest_cost_time(const struct suggest_cost *c)
{
	kp_dur_ns t = sat_add(c->sampling, work_time(&c->asked));

	t = sat_add(t, work_time(&c->counts));
	t = sat_add(t, work_time(&c->traces));
	return sat_add(t, work_time(&c->checks));
}

void
suggest_write_cost(const struct suggest_cost *c, kp_dur_ns took, bool all,
    struct kp_buf *b)
{
	kp_dur_ns cost = suggest_cost_time(c);
	char s[TEXT_MAX], t[TEXT_MAX], u[TEXT_MAX], v[TEXT_MAX], x[TEXT_MAX],
	    y[TEXT_MAX], z[TEXT_MAX], w[TEXT_MAX];

	kp_buf_printf(b, "this took %s; in the node it used at most %s of processor "
	    "time, %s of a scheduler: %s to sample stacks (measured), and by an upper "
	    "estimate %s to count calls, %s to trace%s, %s for kprofd -check and %s "
	    "for questions", text_about(s, took), text_dur(t, cost), text_share(u,
	    took > 0 ? (double)cost / (double)took : 0), text_dur(v,
	    c->sampling), text_dur(x, work_time(&c->counts)), text_dur(y,
	    work_time(&c->traces)), all ? ", of all processes for a moment" :
	    "", text_dur(z, work_time(&c->checks)), text_dur(w,
	    work_time(&c->asked)));
}
