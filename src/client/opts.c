/* opts.c - see the header. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/config.h"
#include "opts.h"
#include "text/timefmt.h"

#define COUNT_MAX 1000000u
#define NEAR 2u			/* edits between a name and what was meant */

int
opts_wrong(const struct cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "kprof %s: ", cmd->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see kprof %s -h)\n", cmd->name);
	return EXIT_USAGE;
}

const char *
near_name(const char *name, const void *names, size_t n, size_t stride)
{
	const char *best = NULL, *one;
	unsigned least = NEAR + 1, d;

	for (size_t i = 0; i < n; i++) {
		memcpy(&one, (const char *)names + i * stride, sizeof(one));
		d = kp_name_distance(name, one, NEAR);
		/* two edits turn any name of two letters into any other */
		if (d < least && d < strlen(one)) {
			least = d;
			best = one;
		}
	}
	return best;
}

static void
help_opt(const char *name, const char *arg, const char *help)
{
	char left[64];

	snprintf(left, sizeof(left), "-%s%s%s", name, arg != NULL ? " " : "",
	    arg != NULL ? arg : "");
	printf("  %-20s  %s\n", left, help);
}

static void
help(const struct cmd *cmd, const struct opt *opts, size_t n)
{
	printf("usage: kprof %s%s%s [options]\n\n%c%s.\n", cmd->name,
	    cmd->arg != NULL ? " " : "", cmd->arg != NULL ? cmd->arg : "",
	    toupper((unsigned char)cmd->help[0]), cmd->help + 1);
	if (cmd->more[0] != '\0')
		printf("%s\n", cmd->more);
	printf("\n");
	for (size_t i = 0; i < n; i++)
		if (opts[i].name[0] != '\0')
			help_opt(opts[i].name, opts[i].arg, opts[i].help);
	help_opt("h", NULL, "this help");
	printf("\nexample: %s\n", cmd->example);
}

static bool
set_count(size_t *to, const char *v)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(v, &end, 10);
	if (!isdigit((unsigned char)v[0]) || *end != '\0' || errno != 0 ||
	    n == 0 || n > COUNT_MAX)
		return false;
	*to = (size_t)n;
	return true;
}

static bool
set_choice(int *to, const char *choices, const char *v)
{
	size_t len = strlen(v), n;

	for (int i = 0; len > 0; i++) {
		n = strcspn(choices, ",");
		if (n == len && memcmp(choices, v, n) == 0) {
			*to = i;
			return true;
		}
		if (choices[n] == '\0')
			return false;
		choices += n + 1;
	}
	return false;
}

static int
add_to_list(const struct cmd *cmd, const char *what, struct opt_list *list,
    const char *v)
{
	if (v[0] == '\0')
		return opts_wrong(cmd, "a %s is empty", what);
	if (list->n == OPT_LIST_MAX)
		return opts_wrong(cmd, "more than %d times a %s",
		    OPT_LIST_MAX, what);
	list->v[list->n++] = v;
	return OPTS_GO_ON;
}

/* now: the same for all options, so that ranges given by length abut. */
static int
set_value(const struct cmd *cmd, const struct opt *o, const char *v,
    kp_wall_ns now)
{
	const char *why;

	switch (o->kind) {
	case OPT_TEXT:
		*(const char **)o->to = v;
		if (v[0] != '\0')
			break;
		return opts_wrong(cmd, "-%s: the %s is empty", o->name,
		    o->arg);
	case OPT_COUNT:
		if (set_count(o->to, v))
			break;
		return opts_wrong(cmd, "-%s '%s': not a number from 1 to %u",
		    o->name, v, COUNT_MAX);
	case OPT_WHEN:
		if (timefmt_parse(v, now, o->to))
			break;
		return opts_wrong(cmd, "-%s '%s': give " TIMEFMT_FORMS, o->name,
		    v);
	case OPT_RANGE:
		why = timefmt_parse_range(v, now, o->to);
		if (why == NULL)
			break;
		return opts_wrong(cmd, "-%s '%s': %s", o->name, v, why);
	case OPT_CHOICE:
		if (set_choice(o->to, o->choices, v))
			break;
		return opts_wrong(cmd, "-%s '%s': choose one of %s", o->name,
		    v, o->choices);
	case OPT_LIST:
		return add_to_list(cmd, o->arg, o->to, v);
	case OPT_FLAG:
		break;
	}
	return OPTS_GO_ON;
}

static const struct opt *
opt_find(const struct opt *opts, size_t n, const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(opts[i].name) == len &&
		    memcmp(opts[i].name, name, len) == 0)
			return &opts[i];
	}
	return NULL;
}

static int
unknown(const struct cmd *cmd, const struct opt *opts, size_t n,
    const char *name, size_t len)
{
	const char *near = NULL;
	char copy[64];

	if (len < sizeof(copy)) {
		memcpy(copy, name, len);
		copy[len] = '\0';
		near = near_name(copy, &opts[0].name, n, sizeof(*opts));
	}
	if (near != NULL)
		return opts_wrong(cmd, "unknown option '-%.*s': did you mean "
		    "'-%s'?", (int)len, name, near);
	return opts_wrong(cmd, "unknown option '-%.*s'", (int)len, name);
}

static bool
is_help(const char *name)
{
	return strcmp(name, "h") == 0 || strcmp(name, "help") == 0;
}

/* One option at argv[*i], which moves on past its value. */
static int
parse_opt(const struct cmd *cmd, const struct opt *opts, size_t n, int argc,
    char **argv, int *i, kp_wall_ns now)
{
	const char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1), *v;
	size_t len = strcspn(name, "=");
	const struct opt *o;

	if (is_help(name)) {
		help(cmd, opts, n);
		return EXIT_DONE;
	}
	o = len > 0 ? opt_find(opts, n, name, len) : NULL;
	if (o == NULL)
		return unknown(cmd, opts, n, name, len);
	if (o->kind == OPT_FLAG) {
		if (name[len] == '=')
			return opts_wrong(cmd, "option '-%s' takes no value",
			    o->name);
		*(bool *)o->to = true;
		return OPTS_GO_ON;
	}
	if (name[len] == '=')
		v = name + len + 1;
	else if (*i + 1 < argc)
		v = argv[++*i];
	else
		return opts_wrong(cmd, "option '-%s' needs a value: %s",
		    o->name, o->arg);
	return set_value(cmd, o, v, now);
}

int
opts_parse(const struct cmd *cmd, const struct opt *opts, size_t n, int argc,
    char **argv, const char **arg)
{
	const struct opt *several = opt_find(opts, n, "", 0);
	const char *found = NULL;
	kp_wall_ns now = kp_wall_now();
	bool ended = false;
	int st;

	for (int i = 1; i < argc; i++) {
		if (!ended && strcmp(argv[i], "--") == 0) {
			ended = true;
		} else if (!ended && argv[i][0] == '-' && argv[i][1] != '\0') {
			st = parse_opt(cmd, opts, n, argc, argv, &i, now);
			if (st != OPTS_GO_ON)
				return st;
		} else if (several != NULL) {
			found = argv[i];
			st = add_to_list(cmd, cmd->arg, several->to, found);
			if (st != OPTS_GO_ON)
				return st;
		} else if (cmd->arg == NULL || found != NULL) {
			return opts_wrong(cmd, "unexpected argument '%s'",
			    argv[i]);
		} else {
			found = argv[i];
		}
	}
	if (cmd->arg != NULL && found == NULL)
		return opts_wrong(cmd, "the %s is missing", cmd->arg);
	if (cmd->arg != NULL && several == NULL)
		*arg = found;
	return OPTS_GO_ON;
}
