/* options.c - finds an option in its table and converts its value. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/options.h"
#include "text/text.h"

#define HELP_COLUMN 24	/* where the text of an option begins */

bool
opt_flag(struct opt_parser *p)
{
	*(bool *)p->at->to = true;
	p->adds = true;
	return true;
}

bool
opt_text(struct opt_parser *p)
{
	*(const char **)p->at->to = p->value;
	return p->value[0] != '\0' || OPT_BAD(p, "-%s: the %s is empty",
	    p->at->name, p->at->arg);
}

static bool
number_from(struct opt_parser *p, unsigned least)
{
	char *end;
	long long n = strtoll(p->value, &end, 10);

	if (!isdigit((unsigned char)p->value[0]) || *end != '\0' ||
	    n < least || n > OPT_COUNT_MAX)
		return OPT_BAD(p, "-%s '%s': not a number from %u to %u",
		    p->at->name, p->value, least, OPT_COUNT_MAX);
	*(size_t *)p->at->to = (size_t)n;
	return true;
}

bool
opt_count(struct opt_parser *p)
{
	return number_from(p, 1);
}

bool
opt_number(struct opt_parser *p)
{
	return number_from(p, 0);
}

/* False: it is not one of the choices. */
static bool
choice_from(const char *choices, const char *value, int *which)
{
	const char *c = choices;
	size_t len = strlen(value), n;

	for (int i = 0;; i++, c += n + 1) {
		n = strcspn(c, ",");
		if (n == len && memcmp(c, value, n) == 0) {
			*which = i;
			return true;
		}
		if (c[n] == '\0')
			return false;
	}
}

bool
opt_choice(struct opt_parser *p)
{
	return choice_from(p->at->choices, p->value, p->at->to) ||
	    OPT_BAD(p, "-%s '%s': choose one of %s", p->at->name, p->value,
	    p->at->choices);
}

bool
opt_sort(struct opt_parser *p)
{
	struct opt_order *to = p->at->to;

	to->reverse = p->value[0] == '-';
	return choice_from(p->at->choices, p->value + to->reverse, &to->key) ||
	    OPT_BAD(p, "-%s '%s': choose one of %s (-KEY is the other way "
	    "round)", p->at->name, p->value, p->at->choices);
}

bool
opt_list(struct opt_parser *p)
{
	struct opt_list *list = p->at->to;

	p->adds = true;
	if (p->value[0] == '\0')
		return OPT_BAD(p, "a %s is empty", p->at->arg);
	if (list->n == OPT_LIST_MAX)
		return OPT_BAD(p, "more than %d times a %s", OPT_LIST_MAX,
		    p->at->arg);
	list->v[list->n++] = p->value;
	return true;
}

bool
opt_join(struct opt_parser *p, char between, const char *text)
{
	/* keeps all of them, for programs that look for leaks */
	static struct joined { struct joined *next; char text[]; } *all;
	const char **to = p->at->to;
	/* the first value replaces a default */
	size_t n = p->given[p->at - p->table] ? strlen(*to) + 1 : 0;
	struct joined *j = malloc(sizeof(*j) + n + strlen(text) + 1);

	if (j == NULL)
		return OPT_BAD(p, "out of memory");
	if (n > 0) {
		memcpy(j->text, *to, n - 1);
		j->text[n - 1] = between;
	}
	strcpy(j->text + n, text);
	j->next = all;
	all = j;
	*to = j->text;
	p->adds = true;
	return true;
}

bool
opt_commas(struct opt_parser *p)
{
	return p->value[0] != '\0' ? opt_join(p, ',', p->value) :
	    OPT_BAD(p, "-%s: the %s is empty", p->at->name, p->at->arg);
}

/*
 * Options of earlier versions.  Each was of those tables that have `now`, the option
 * that takes its place.
 */
static const struct old_opt {
	const char *name, *now;
	const char *value;	/* what a flag is a value of now; NULL: its own */
	const char *instead;	/* it is gone: what to do; NULL: it works */
} olds[] = {
	{ "yes", "propose", NULL, NULL },
	{ "totals", "analysis", "totals", NULL },
	{ "no-details", "analysis", "no-details", NULL },
	{ "no-callers", "analysis", "no-callers", NULL },
	{ "n", "refreshes", NULL, NULL },
	{ "reverse", "sort", NULL, "-sort -KEY is the other way round" },
	{ "cols", "analysis", NULL, "an analysis is as wide as the terminal, or "
	    "as $COLUMNS" },
	{ "relative", "form", NULL, "the times of events are since the first of "
	    "them" },
	{ "args-bytes", "args", NULL, "the arguments of a call have 200 bytes of "
	    "text" },
	{ "max-rows", "by", NULL, "100000 rows are kept, and the rest is added up; "
	    "-processes and FUNCTION make them fewer" },
};

static const struct opt *
find(const struct opt_parser *p, const char *name, size_t len)
{
	for (size_t k = 0; len > 0 && k < p->n; k++)
		if (strlen(p->table[k].name) == len &&
		    memcmp(p->table[k].name, name, len) == 0)
			return &p->table[k];
	return NULL;
}

static const struct old_opt *
find_old(const struct opt_parser *p, const char *name, size_t len)
{
	for (size_t k = 0; k < sizeof(olds) / sizeof(olds[0]); k++)
		if (strlen(olds[k].name) == len &&
		    memcmp(olds[k].name, name, len) == 0 &&
		    find(p, olds[k].now, strlen(olds[k].now)) != NULL)
			return &olds[k];
	return NULL;
}

/* What others call an option that is in a table. */
static const char *
other_name(const struct opt_parser *p, const char *name)
{
	static const char *const pairs[][2] = { { "target", "node" },
		{ "node", "target" }, { "last", "since" }, { "duration", "for" },
		{ "for", "duration" }, { "interval", "every" },
		{ "every", "interval" }, { "output", "o" }, { "limit", "n" },
		{ "format", "form" }, { "database", "db" }, { "config", "tiers" } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (strcmp(pairs[i][0], name) == 0 &&
		    find(p, pairs[i][1], strlen(pairs[i][1])) != NULL)
			return pairs[i][1];
	return NULL;
}

static bool
ends_in(const char *arg, const char *end)
{
	size_t n = strlen(arg), m = strlen(end);

	return n > m && strcmp(arg + n - m, end) == 0;
}

void
opt_unexpected(struct opt_parser *p, const char *arg)
{
	size_t digits = strspn(arg, "0123456789.");
	bool number = digits > 0 && arg[digits] == '\0';
	bool span = digits > 0 && !number && strspn(arg, "0123456789.hmsd") ==
	    strlen(arg);
	bool when = digits > 0 && !number && strspn(arg, "0123456789-:.+TZ") ==
	    strlen(arg);
	const struct {
		bool fits;
		const char *names[4];
	} shapes[] = {
		{ strchr(arg, '@') != NULL, { "target", "node" } },
		{ span, { "since", "for", "duration", "every" } },
		{ when, { "since" } },
		{ number, { "n", "refreshes" } },
		{ ends_in(arg, ".conf"), { "tiers" } },
		{ ends_in(arg, ".db") || ends_in(arg, ".sqlite"), { "db" } },
	};
	const char *name;

	kp_buf_printf(&p->why, "unexpected argument '%s'", arg);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (size_t k = 0; k < 4 && shapes[i].fits; k++) {
			name = shapes[i].names[k];
			if (name == NULL || find(p, name, strlen(name)) == NULL)
				continue;
			kp_buf_printf(&p->why, ": did you mean '-%s %s'?", name, arg);
			return;
		}
}

static void
unknown(struct opt_parser *p, const char *name, size_t len)
{
	const char *near = NULL;
	char copy[64];

	if (len < sizeof(copy)) {
		memcpy(copy, name, len);
		copy[len] = '\0';
		if ((strcmp(copy, "cookie") == 0 ||
		    strcmp(copy, "setcookie") == 0) &&
		    find(p, "cookie-file", 11) != NULL) {
			kp_buf_printf(&p->why, "-%s is not an option, because "
			    "every user of the machine sees command lines: "
			    "write the cookie to a file and give "
			    "-cookie-file FILE or set $KPROFD_COOKIE_FILE",
			    copy);
			return;
		}
		near = other_name(p, copy);
		if (near == NULL)
			near = near_name(copy, &p->table[0].name, p->n,
			    sizeof(*p->table), p->near);
	}
	kp_buf_printf(&p->why, "unknown option '-%.*s'", (int)len, name);
	if (near != NULL)
		kp_buf_printf(&p->why, ": did you mean '-%s'?", near);
}

static const char *
name_of(const char *arg)
{
	return arg + (arg[1] == '-' ? 2 : 1);
}

bool
opt_is(const char *arg, const char *name)
{
	return arg[0] == '-' && strcmp(name_of(arg), name) == 0;
}

bool
opt_take(struct opt_parser *p, char **argv, int *i)
{
	const char *name = name_of(argv[*i]);
	const struct old_opt *old = NULL;
	size_t len = strcspn(name, "=");
	bool *given, as_flag;

	p->at = find(p, name, len);
	if (p->at == NULL)
		old = find_old(p, name, len);
	if (p->at == NULL && old == NULL) {
		unknown(p, name, len);
		return false;
	}
	if (old != NULL && old->instead != NULL)
		return OPT_BAD(p, "there is no option -%s any more: %s",
		    old->name, old->instead);
	if (old != NULL)
		p->at = find(p, old->now, strlen(old->now));
	as_flag = p->at->arg == NULL || (old != NULL && old->value != NULL);
	if (as_flag && name[len] == '=')
		return OPT_BAD(p, "option '-%.*s' takes no value", (int)len,
		    name);
	if (old != NULL && old->value != NULL)
		p->value = old->value;
	else if (name[len] == '=')
		p->value = name + len + 1;
	else
		p->value = p->at->arg != NULL ? argv[++*i] : "";
	if (p->value == NULL)
		return OPT_BAD(p, "option '-%s' needs a value: %s",
		    p->at->name, p->at->arg);
	given = &p->given[p->at - p->table];
	p->adds = false;
	if (!p->at->convert(p))
		return false;
	if (*given && !p->adds)
		return OPT_BAD(p, "-%s is given twice: give it once",
		    p->at->name);
	*given = true;
	if (old != NULL)
		kp_buf_printf(&p->why, "-%s is called -%s%s%s now", old->name,
		    old->now, old->value != NULL ? " " : "",
		    old->value != NULL ? old->value : "");
	return true;
}

void
opt_help(struct kp_buf *b, const struct opt *table, size_t n)
{
	char left[64], line[1024];
	bool elsewhere = false;

	for (const struct opt *o = table; o < table + n && !elsewhere; o++) {
		elsewhere = o->name[0] == '\0' && o->arg != NULL;
		if (o->name[0] == '\0' && !elsewhere) {
			if (o->convert == NULL)
				kp_buf_printf(b, "%s%s:\n", o > table ? "\n" :
				    "", o->help);
			continue;
		}
		snprintf(left, sizeof(left), "%s%s%s%s", elsewhere ? "" : "-",
		    o->name, o->arg == NULL || elsewhere ? "" : " ",
		    o->arg != NULL ? o->arg : "");
		snprintf(line, sizeof(line), "  %-*s %s", HELP_COLUMN - 3,
		    left, o->help);
		text_wrap(b, line, OPT_HELP_WIDTH, HELP_COLUMN);
	}
}
