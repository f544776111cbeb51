/*
 * conf.c - turns the forms of a tiers.conf into a struct kp_conf.
 *
 * A table has the keys, each with its setter, which takes the whole form and
 * reports its errors.  Setters go on after an error to find others; a structure
 * with errors is freed at the end.
 */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "config/conf_ctx.h"

struct key {
	const char *name;
	const char *form;	/* for messages */
	void (*set)(struct conf_ctx *x, const struct node *form);
	unsigned opts;		/* elements it may have after its value */
	bool function;		/* its value is a function, or several */
	size_t at;		/* of what set() is to set by x->to */
};

/* ---- what setters share ---- */

void
conf_expected(struct conf_ctx *x, const struct node *v, const char *what)
{
	node_expected(x->diags, v, what);
}

bool
conf_list(struct conf_ctx *x, const struct node *v, const char *what)
{
	if (v->kind == N_LIST && v->tail == NULL)
		return true;
	conf_expected(x, v, what);
	return false;
}

void
conf_each(struct conf_ctx *x, const struct node *list, const char *name,
    uint32_t max, void (*add)(struct conf_ctx *x, const struct node *v))
{
	for (uint32_t i = 0; i < list->n; i++) {
		if (i == max) {
			diag_error(x->diags, list->kid[i]->pos, "found %s %u, "
			    "expected at most %u", name, i + 1, max);
			return;
		}
		add(x, list->kid[i]);
	}
}

size_t
conf_name(struct conf_ctx *x, const struct node *atom, const char *kind,
    const char *const *names, size_t n)
{
	const char *near;

	for (size_t i = 0; i < n; i++)
		if (strcmp(atom->text, names[i]) == 0)
			return i;
	/* kept: a short name with no letter in common is not near. */
	near = near_name(atom->text, names, n, sizeof(*names),
	    (struct near_rule){ .edits = 3, .kept = 1 });
	if (near != NULL)
		diag_error(x->diags, atom->pos, "unknown %s '%s' (did you "
		    "mean '%s'?)", kind, atom->text, near);
	else
		diag_error(x->diags, atom->pos, "unknown %s '%s'", kind,
		    atom->text);
	return n;
}

char *
conf_string(struct conf_ctx *x, const struct node *v, const char *what)
{
	char *s;

	/* "" and [] are one term */
	if (v->kind != N_STR && v->kind != N_BIN && !node_is_nil(v)) {
		conf_expected(x, v, what);
		return NULL;
	}
	if (node_has_nul(v)) {
		diag_error(x->diags, v->pos, "a text with a NUL character is "
		    "of no use here");
		return NULL;
	}
	s = node_string(v);
	x->nomem |= s == NULL;
	return s;
}

bool
conf_has_room(struct conf_ctx *x, enum kp_err room)
{
	x->nomem |= room != KP_OK;
	return room == KP_OK;
}

/* ---- setters ---- */

static void
set_tiers(struct conf_ctx *x, const struct node *form)
{
	conf_tiers(x, form->kid[1]);
}

static void
set_finish(struct conf_ctx *x, const struct node *form)
{
	conf_functions(x, form->kid[1], &x->conf->finishes,
	    &x->conf->nfinishes, KP_ENTRY_MAX);
}

static const struct node *
take_fun(struct conf_ctx *x, const struct node *v, const char *what)
{
	if (v->kind == N_FUN)
		return v;
	conf_expected(x, v, what);
	return NULL;
}

#define FUN "fun ({Module, Function, Args}) -> "

static void
set_identity(struct conf_ctx *x, const struct node *form)
{
	x->identity = take_fun(x, form->kid[1], FUN "Identity; ... end");
}

static void
set_label(struct conf_ctx *x, const struct node *form)
{
	x->label = take_fun(x, form->kid[1], FUN "Label; ... end");
}

static void
set_trace(struct conf_ctx *x, const struct node *form)
{
	x->trace = take_fun(x, form->kid[1], FUN "Traceparent; ... end");
}

static void
set_slo(struct conf_ctx *x, const struct node *form)
{
	x->slo = form->kid[1];
}

/* An integer within bounds. */
static bool
take_int(struct conf_ctx *x, const struct node *v, const char *name,
    int64_t min, int64_t max, int64_t *out)
{
	char what[80];

	snprintf(what, sizeof(what), "%s to be an integer within %lld..%lld",
	    name, (long long)min, (long long)max);
	if (v->kind != N_INT || v->num < min || v->num > max) {
		conf_expected(x, v, what);
		return false;
	}
	*out = v->num;
	return true;
}

/* One of two atoms; true: the first, also after reporting any other term. */
static bool
take_choice(struct conf_ctx *x, const struct node *v, const char *first,
    const char *second)
{
	char what[80];

	if (node_is_atom(v, second))
		return false;
	snprintf(what, sizeof(what), "%s or %s", first, second);
	if (!node_is_atom(v, first))
		conf_expected(x, v, what);
	return true;
}

static void
set_sampling(struct conf_ctx *x, const struct node *form)
{
	static const char what[] = "auto, all, {slices, N}, {one_in, N} or {per_second, N}";
	const struct node *v = form->kid[1];
	struct kp_sampling *s = &x->conf->sampling;
	int64_t n;

	if (node_is_atom(v, "auto")) {
		*s = (struct kp_sampling){ KP_SAMPLE_SLICES, 1 };
	} else if (node_is_atom(v, "all")) {
		*s = (struct kp_sampling){ KP_SAMPLE_ALL, 1 };
	} else if (v->kind != N_TUPLE || v->n != 2 ||
	    v->kid[0]->kind != N_ATOM) {
		conf_expected(x, v, what);
	} else if (node_is_atom(v->kid[0], "one_in")) {
		if (take_int(x, v->kid[1], "one_in", 1, CONF_ONE_IN_MAX, &n))
			*s = (struct kp_sampling){ KP_SAMPLE_ONE_IN,
				(uint32_t)n };
	} else if (node_is_atom(v->kid[0], "slices")) {
		if (take_int(x, v->kid[1], "slices", 1, KP_SLICES_MAX, &n))
			*s = (struct kp_sampling){ KP_SAMPLE_SLICES,
				(uint32_t)n };
	} else if (node_is_atom(v->kid[0], "per_second")) {
		if (take_int(x, v->kid[1], "per_second", 1,
			CONF_PER_SECOND_MAX, &n))
			*s = (struct kp_sampling){ KP_SAMPLE_PER_SECOND,
				(uint32_t)n };
	} else {
		conf_expected(x, v->kid[0], what);
	}
}

static void
set_slow(struct conf_ctx *x, const struct node *form)
{
	x->conf->slow_always = take_choice(x, form->kid[1], "always", "slices");
}

/* Percent of one scheduler, with decimals; above 100 if it has several. */
static void
take_percent(struct conf_ctx *x, const struct node *v, const char *name,
    int max, const char *or_none, double *out)
{
	double p = v->kind == N_INT ? (double)v->num : v->real;
	char what[120];

	snprintf(what, sizeof(what), "%s to be a number within %g..%d (percent "
	    "of one scheduler)%s", name, CONF_PERCENT_MIN, max, or_none);
	if ((v->kind != N_INT && v->kind != N_FLOAT) ||
	    p < CONF_PERCENT_MIN || p > max)
		conf_expected(x, v, what);
	else
		*out = p;
}

static void
set_percent(struct conf_ctx *x, const struct node *form)
{
	if (node_is_atom(form->kid[1], "none"))
		*(double *)x->to = 0;
	else
		take_percent(x, form->kid[1], form->kid[0]->text,
		    CONF_PERCENT_MAX, ", or none", x->to);
}

static void
set_gc(struct conf_ctx *x, const struct node *form)
{
	const struct node *v = form->kid[1];

	x->conf->gc_forced = node_is_atom(v, "force");
	x->conf->gc = x->conf->gc_forced || node_is_atom(v, "true");
	if (!x->conf->gc && !node_is_atom(v, "false"))
		conf_expected(x, v, "true, false or force");
}

bool
kp_conf_gc(const struct kp_conf *c, bool shared)
{
	return c->gc && (shared || c->gc_forced);
}

static void
set_bool(struct conf_ctx *x, const struct node *form)
{
	*(bool *)x->to = take_choice(x, form->kid[1], "true", "false");
}

/* Integers; unit: of the option, in the field's own. */
static const struct limit {
	const char *name;
	int64_t min, max, unit;
	size_t field;		/* in struct kp_conf */
	size_t bytes;
} limits[] = {
#define LIMIT(name, min, max, unit, field) { name, min, max, unit, \
	offsetof(struct kp_conf, field), \
	sizeof(((struct kp_conf *)0)->field) }
	/* of {overload, [...]} */
	LIMIT("max_age_ms", 1, CONF_MS_MAX, KP_NS_PER_MS, overload.max_age),
	LIMIT("max_queue", 100, 10000000, 1, overload.max_queue),
	LIMIT("max_memory_mb", 1, 1048576, 1 << 20, overload.max_memory),
	LIMIT("pause_s", 1, 86400, KP_NS_PER_S, overload.pause),
	LIMIT("max_lag_ms", 1, CONF_MS_MAX, KP_NS_PER_MS, overload.max_lag),
	LIMIT("max_kprofd_mb", 1, 1048576, 1 << 20, overload.max_kprofd),
	LIMIT("max_backlog_percent", 1, 100, 1, overload.max_backlog),
#define OVERLOAD_KEYS 7
	/* options of their own */
	LIMIT("slow_ms", 0, CONF_MS_MAX, KP_NS_PER_MS, slow),
	LIMIT("keep_slowest", 0, CONF_KEEP_MAX, 1, keep_slowest),
	LIMIT("keep_sampled", 0, CONF_KEEP_MAX, 1, keep_sampled),
#undef LIMIT
};

static void
take_limit(struct conf_ctx *x, const struct node *v, const struct limit *l)
{
	char *field = (char *)x->conf + l->field;
	uint32_t small;
	int64_t n;

	if (!take_int(x, v, l->name, l->min, l->max, &n))
		return;
	n *= l->unit;
	small = (uint32_t)n;
	if (l->bytes == sizeof(small))
		memcpy(field, &small, sizeof(small));
	else
		memcpy(field, &n, sizeof(n));
}

static void
set_int(struct conf_ctx *x, const struct node *form)
{
	const struct limit *l = &limits[OVERLOAD_KEYS];

	while (strcmp(l->name, form->kid[0]->text) != 0)
		l++;
	take_limit(x, form->kid[1], l);
}

static void
set_overload(struct conf_ctx *x, const struct node *form)
{
	const struct node *list = form->kid[1], *o;
	const char *names[OVERLOAD_KEYS];
	bool seen[OVERLOAD_KEYS] = { false };
	size_t k;

	for (k = 0; k < OVERLOAD_KEYS; k++)
		names[k] = limits[k].name;
	if (!conf_list(x, list, "a list such as [{max_queue, 20000}]"))
		return;
	for (uint32_t i = 0; i < list->n; i++) {
		o = list->kid[i];
		if (o->kind != N_TUPLE || o->n != 2 ||
		    o->kid[0]->kind != N_ATOM) {
			conf_expected(x, o, "{Limit, Value}");
			continue;
		}
		k = conf_name(x, o->kid[0], "limit", names, OVERLOAD_KEYS);
		if (k == OVERLOAD_KEYS)
			continue;
		if (seen[k])
			diag_error(x->diags, o->pos, "'%s' is given twice",
			    names[k]);
		seen[k] = true;
		take_limit(x, o->kid[1], &limits[k]);
	}
}

/* {per_second, N} or {percent, P}; seen: which of them came before. */
static void
take_stacks(struct conf_ctx *x, const struct node *v, bool seen[2])
{
	static const char *const names[] = { "per_second", "percent" };
	size_t k;
	int64_t n;

	if (v->kind != N_TUPLE || v->n != 2 || v->kid[0]->kind != N_ATOM) {
		conf_expected(x, v, "{per_second, N} or {percent, P}");
		return;
	}
	k = conf_name(x, v->kid[0], "option of stacks", names, 2);
	if (k == 2)
		return;
	if (seen[k])
		diag_error(x->diags, v->pos, "'%s' is given twice", names[k]);
	seen[k] = true;
	if (k == 1)
		take_percent(x, v->kid[1], "percent", CONF_STACKS_PERCENT_MAX, "",
		    &x->conf->stacks.percent);
	else if (take_int(x, v->kid[1], "per_second", 1, CONF_STACKS_MAX, &n))
		x->conf->stacks.per_second = (uint32_t)n;
}

static void
set_stacks(struct conf_ctx *x, const struct node *form)
{
	static const char what[] = "{per_second, N}, [{per_second, N}, "
	    "{percent, P}] or none";
	const struct node *v = form->kid[1];
	bool seen[2] = { false };

	if (node_is_atom(v, "none"))
		return;
	if (v->kind == N_TUPLE) {
		take_stacks(x, v, seen);
	} else if (conf_list(x, v, what)) {
		for (uint32_t i = 0; i < v->n; i++)
			take_stacks(x, v->kid[i], seen);
		if (!seen[0] && x->diags->errors == 0)
			conf_expected(x, v, "{per_second, N} among them");
	}
}

static void
set_foreign_tokens(struct conf_ctx *x, const struct node *form)
{
	x->conf->replace_foreign = !take_choice(x, form->kid[1], "keep",
	    "replace");
}

/*
 * ---- {rewrite, [{"/users/[0-9]+", "/users/:id"}]} ----
 *
 * Patterns are compiled here once, to find bad ones.  regcomp() writes {m,n} out
 * n times and + twice, and nested repetitions multiply: (((a{99}){99}){99}), or
 * an a followed by forty +, would take all memory.  In nested loops it also
 * tries all ways through what is optional: an a followed by twelve times +?
 * takes minutes.  So both the length and the nesting are bounded first.
 */

/* s is at a [: returns the ] that ends it, or the end of the text. */
static const char *
skip_bracket(const char *s)
{
	const char *class;

	s += s[1] == '^';
	s += s[1] == ']';
	while (*++s != '\0' && *s != ']') {
		if (*s != '[' || strchr(":.=", s[1]) == NULL || s[1] == '\0')
			continue;
		class = strchr(s + 2, s[1]);
		s = class != NULL && class[1] == ']' ? class + 1 : s;
	}
	return s;
}

/* *s is at a {: returns the largest number in {m,n}; moves *s to its end. */
static unsigned long
largest(const char **s)
{
	unsigned long most = 1, v = 0;

	for (; (*s)[1] != '\0' && (*s)[1] != '}'; ++*s) {
		v = (*s)[1] >= '0' && (*s)[1] <= '9' ?
		    v * 10 + (unsigned long)((*s)[1] - '0') : 0;
		if (v > CONF_UNROLLED_MAX)
			return v;
		most = v > most ? v : most;
	}
	*s += (*s)[1] == '}';
	return most;
}

struct extent {
	unsigned long chars;	/* with repetitions written out */
	unsigned nest;		/* repetitions of repetitions */
};

static void
repeat(struct extent *e, unsigned long times)
{
	e->chars *= times;
	e->nest++;
}

static void
extent_add(struct extent *to, const struct extent *e)
{
	to->chars += e->chars;
	to->nest = e->nest > to->nest ? e->nest : to->nest;
}

/* Measures a pattern; stops at a value above CONF_UNROLLED_MAX. */
static struct extent
extent(const char *s)
{
	static const struct extent none = { 0, 0 }, one = { 1, 0 };
	struct extent outer[CONF_REWRITE_BYTES_MAX];	/* before each ( */
	struct extent before = none, last = none;	/* in this group */
	size_t depth = 0;

	for (; *s != '\0' && before.chars + last.chars <= CONF_UNROLLED_MAX;
	     s++) {
		if (*s == '+') {
			repeat(&last, 2);
		} else if (*s == '*' || *s == '?') {
			repeat(&last, 1);
		} else if (*s == '{') {
			repeat(&last, largest(&s));
		} else if (*s == '(') {
			extent_add(&before, &last);
			outer[depth++] = before;
			before = last = none;
		} else if (*s == ')' && depth > 0) {
			extent_add(&last, &before);
			before = outer[--depth];
		} else {
			extent_add(&before, &last);
			last = one;
			s = *s == '[' ? skip_bracket(s) : s + (*s == '\\');
		}
		if (*s == '\0')
			break;
	}
	extent_add(&before, &last);
	return before;
}

static bool
pattern_ok(struct conf_ctx *x, const struct node *v, const char *pattern)
{
	struct extent e;
	char why[128];
	regex_t re;
	int err;

	if (*pattern == '\0') {
		conf_expected(x, v, "a regular expression");
		return false;
	}
	if (strlen(pattern) > CONF_REWRITE_BYTES_MAX) {
		diag_error(x->diags, v->pos, "this pattern is longer than %d "
		    "bytes", CONF_REWRITE_BYTES_MAX);
		return false;
	}
	e = extent(pattern);
	if (e.chars > CONF_UNROLLED_MAX) {
		diag_error(x->diags, v->pos, "this pattern is longer than %d "
		    "characters with its repetitions written out",
		    CONF_UNROLLED_MAX);
		return false;
	}
	if (e.nest > CONF_REPEAT_MAX) {
		diag_error(x->diags, v->pos, "this pattern repeats what is "
		    "repeated itself, more than %d deep", CONF_REPEAT_MAX);
		return false;
	}
	err = regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB);
	if (err != 0) {
		regerror(err, &re, why, sizeof(why));
		diag_error(x->diags, v->pos, "bad regular expression: %s", why);
		return false;
	}
	regfree(&re);
	return true;
}

static void
add_rewrite(struct conf_ctx *x, const struct node *v)
{
	struct kp_conf *c = x->conf;
	struct kp_rewrite r = { 0 };
	bool ok;

	if (v->kind != N_TUPLE || v->n != 2) {
		conf_expected(x, v, "{\"pattern\", \"text\"}");
		return;
	}
	r.pattern = conf_string(x, v->kid[0], "a regular expression");
	r.to = conf_string(x, v->kid[1], "a text");
	ok = r.pattern != NULL && pattern_ok(x, v->kid[0], r.pattern);
	if (r.to != NULL && strlen(r.to) > CONF_REWRITE_BYTES_MAX) {
		diag_error(x->diags, v->kid[1]->pos, "this text is longer "
		    "than %d bytes", CONF_REWRITE_BYTES_MAX);
		ok = false;
	}
	if (!ok || r.to == NULL ||
	    !conf_room(x, &c->rewrites, c->nrewrites)) {
		free(r.pattern);
		free(r.to);
		return;
	}
	c->rewrites[c->nrewrites++] = r;
}

static void
set_rewrites(struct conf_ctx *x, const struct node *form)
{
	const struct node *list = form->kid[1];

	if (conf_list(x, list, "a list of {\"pattern\", \"text\"}"))
		conf_each(x, list, "rewrite", CONF_REWRITE_MAX, add_rewrite);
}

/* ---- the file ---- */

static const struct key keys[] = {
	{ "tiers", "{tiers, [{Name, Functions}, ...]}", set_tiers, 0, true, 0 },
	{ "entry", "{entry, Function}", conf_entry, 1, true, 0 },
	{ "finish", "{finish, Function}", set_finish, 0, true, 0 },
	{ "identity", "{identity, fun ... end}", set_identity, 0, false, 0 },
	{ "label", "{label, fun ... end}", set_label, 0, false, 0 },
	{ "trace_id", "{trace_id, fun ... end}", set_trace, 0, false, 0 },
	{ "sampling", "{sampling, How}", set_sampling, 0, false, 0 },
	{ "slow", "{slow, always | slices}", set_slow, 0, false, 0 },
	{ "slow_ms", "{slow_ms, Milliseconds}", set_int, 0, false, 0 },
	{ "keep_slowest", "{keep_slowest, N}", set_int, 0, false, 0 },
	{ "keep_sampled", "{keep_sampled, N}", set_int, 0, false, 0 },
	{ "budget", "{budget, Percent | none}", set_percent, 0, false,
	    offsetof(struct kp_conf, budget) },
	{ "hot_share", "{hot_share, Percent | none}", set_percent, 0, false,
	    offsetof(struct kp_conf, hot_share) },
	{ "gc", "{gc, true | false | force}", set_gc, 0, false, 0 },
	{ "scheduling", "{scheduling, true | false}", set_bool, 0, false,
	    offsetof(struct kp_conf, scheduling) },
	{ "messages", "{messages, true}", set_bool, 0, false,
	    offsetof(struct kp_conf, messages) },
	{ "stacks", "{stacks, {per_second, N}}", set_stacks, 0, false, 0 },
	{ "foreign_tokens", "{foreign_tokens, keep | replace}",
	    set_foreign_tokens, 0, false, 0 },
	{ "overload", "{overload, [{Limit, Value}, ...]}", set_overload,
	    0, false, 0 },
	{ "rewrite", "{rewrite, [{\"pattern\", \"to\"}, ...]}", set_rewrites,
	    0, false, 0 },
	{ "slo", "{slo, [{NameOrTier, Milliseconds, Percent}, ...]}", set_slo,
	    0, false, 0 },
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

/* The key's index.  KEYS, after reporting why, if it cannot be used. */
static size_t
form_key(struct conf_ctx *x, const struct node *f, struct kp_pos seen[KEYS])
{
	const char *names[KEYS];
	size_t k;

	for (k = 0; k < KEYS; k++)
		names[k] = keys[k].name;
	if (f->kind == N_TUPLE && f->n > 0 && f->kid[0]->kind == N_FN) {
		conf_expected(x, f->kid[0], "an option's name");
		return KEYS;
	}
	if (f->kind != N_TUPLE || f->n == 0 || f->kid[0]->kind != N_ATOM) {
		conf_expected(x, f, "{Option, Value}. such as {tiers, [...]}.");
		return KEYS;
	}
	k = conf_name(x, f->kid[0], "option", names, KEYS);
	if (k == KEYS)
		return KEYS;
	if (seen[k].line > 0) {
		diag_error(x->diags, f->pos, "'%s' is given twice: it is "
		    "also on line %u", names[k], seen[k].line);
		return KEYS;
	}
	seen[k] = f->pos;
	if (f->n < 2 || f->n > 2 + keys[k].opts) {
		x->fns_missing |= keys[k].function;
		if (!keys[k].function || !conf_flat_hint(x, f))
			conf_expected(x, f, keys[k].form);
		return KEYS;
	}
	return k;
}

/* What would be timed between slices needs slices, and an end that its entry shows. */
static void
check_slow(struct conf_ctx *x, struct kp_pos at)
{
	const struct kp_conf *c = x->conf;

	if (!c->slow_always)
		return;
	if (c->sampling.kind != KP_SAMPLE_SLICES)
		diag_error(x->diags, at, "{slow, always} is about requests between slices "
		    "of time: it needs {sampling, auto} or {slices, N}");
	if (c->nfinishes > 0)
		diag_error(x->diags, at, "{slow, always} knows no end of a request but its "
		    "entry's: it cannot be used with {finish, Function}");
}

static void
conf_forms(struct conf_ctx *x, const struct form *f)
{
	struct kp_pos seen[KEYS] = { { 0, 0 } };
	size_t k;

	for (; f != NULL; f = f->next) {
		/* A file may be only the list of tiers. */
		if (f->term->kind == N_LIST && seen[0].line == 0) {
			seen[0] = f->term->pos;
			conf_tiers(x, f->term);
			continue;
		}
		k = form_key(x, f->term, seen);
		if (k == KEYS)
			continue;
		x->to = (char *)x->conf + keys[k].at;
		keys[k].set(x, f->term);
	}
	for (k = 0; k < KEYS; k++)
		if (keys[k].set == set_slow)
			check_slow(x, seen[k]);
	x->tiers_seen = seen[0].line > 0;
}

static struct kp_conf *
conf_new(void)
{
	struct kp_conf *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->sampling = (struct kp_sampling){ KP_SAMPLE_SLICES, 1 };
	c->slow = 250 * KP_NS_PER_MS;
	c->keep_slowest = 1;
	c->budget = KP_BUDGET;
	c->hot_share = KP_HOT_SHARE;
	c->stacks.percent = KP_STACKS_SHARE;
	c->overload = (struct kp_overload){ .max_age = KP_NS_PER_S,
		.max_queue = 20000, .max_memory = UINT64_C(64) << 20,
		.pause = 10 * KP_NS_PER_S, .max_lag = 2 * KP_NS_PER_S,
		.max_kprofd = UINT64_C(512) << 20, .max_backlog = 75 };
	return c;
}

static const struct node *
checked(struct conf_ctx *x, const struct node *fun)
{
	return fun != NULL && fun_check(x->conf, fun, x->fns_missing, x->diags) ?
	    fun : NULL;
}

/* The funs are checked last: by then the functions are known. */
static void
conf_funs(struct conf_ctx *x, struct arena *a)
{
	struct kp_funs funs = { .identity = checked(x, x->identity),
		.label = checked(x, x->label), .trace = checked(x, x->trace) };

	if (funs.identity == NULL && funs.label == NULL && funs.trace == NULL)
		return;
	x->conf->funs = malloc(sizeof(funs));
	if (x->conf->funs == NULL) {
		x->nomem = true;
		return;
	}
	funs.arena = *a;
	*a = (struct arena){ 0 };
	*x->conf->funs = funs;
	label_check(x->conf, x->diags);
	trace_check(x->conf, x->fns_missing, x->diags);
}

enum kp_err
kp_conf_parse(struct kp_conf **out, const char *src, size_t n,
    struct kp_diags *diags)
{
	static const struct kp_pos begin = { 1, 1 };
	struct conf_ctx x = { .diags = diags };
	struct arena a = { 0 };
	struct form *forms;
	enum kp_err err = KP_OK;

	*diags = (struct kp_diags){ 0 };
	if (n > KP_CONF_SIZE_MAX) {
		diag_error(diags, begin, "the file has %zu "
		    "bytes, expected at most %u", n, KP_CONF_SIZE_MAX);
		return KP_EFORMAT;
	}
	x.conf = conf_new();
	if (x.conf == NULL)
		return KP_ENOMEM;
	forms = parse_forms(&a, src, n, diags);
	x.fns_missing = diags->errors > 0;
	conf_forms(&x, forms);
	if (!x.tiers_seen && diags->errors == 0)
		diag_error(diags, begin, "no tiers, "
		    "expected {tiers, [{Name, Functions}, ...]}.");
	conf_marks(&x);
	conf_instructions(&x);
	if (!a.failed) {
		conf_funs(&x, &a);
		conf_slo(&x);
	}
	diag_sort(diags);
	if (a.failed || x.nomem)
		err = KP_ENOMEM;
	else if (diags->errors > 0)
		err = KP_EFORMAT;
	if (err == KP_OK)
		*out = x.conf;
	else
		kp_conf_free(x.conf);
	arena_free(&a);
	return err;
}

static void
pats_free(struct kp_mfa_pat *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kp_mfa_pat_free(&v[i]);
	free(v);
}

void
kp_conf_free(struct kp_conf *c)
{
	size_t i, j;

	if (c == NULL)
		return;
	for (i = 0; i < c->ntiers; i++) {
		free(c->tiers[i].name);
		pats_free(c->tiers[i].fns, c->tiers[i].nfns);
	}
	free(c->tiers);
	for (i = 0; i < c->nentries; i++) {
		kp_mfa_pat_free(&c->entries[i].fn);
		for (j = 0; j < c->entries[i].nnodes; j++)
			free(c->entries[i].nodes[j]);
		free(c->entries[i].nodes);
	}
	free(c->entries);
	pats_free(c->finishes, c->nfinishes);
	for (i = 0; i < c->nrewrites; i++) {
		free(c->rewrites[i].pattern);
		free(c->rewrites[i].to);
	}
	free(c->rewrites);
	for (i = 0; i < c->nslo; i++) {
		free(c->slo[i].name);
		free(c->slo[i].text);
	}
	free(c->slo);
	if (c->funs != NULL)
		arena_free(&c->funs->arena);
	free(c->funs);
	free(c);
}
