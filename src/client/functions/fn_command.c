/*
 * fn_command.c - parses the options and patterns that the commands for functions
 * share, catches signals, and prints -list.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fn_command.h"
#include "text/timefmt.h"
#include "kprofd/fn_name.h"
#include "text/text.h"
#include "profile/node/counters.h"

#define FOR_MAX (24 * 3600 * KP_NS_PER_S)
/* Reading counters stops all schedulers, once for each function. */
#define EVERY_MIN (500 * KP_NS_PER_MS)
#define APPLY_LIMIT (60 * KP_NS_PER_S)
#define APPLY_MAX 4096	/* bytes: each word becomes an atom there */

/* ---- signals ---- */

static int wake[2] = { -1, -1 };

static void
on_signal(int sig)
{
	int saved = errno;
	ssize_t n = write(wake[1], "", 1);

	(void)sig, (void)n;
	errno = saved;
}

int
signals_catch(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal };

	if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0) {
		say("cannot make a pipe: %s", strerror(errno));
		return -1;
	}
	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);
	return wake[0];
}

bool
signals_drain(void)
{
	char bytes[16];
	bool any = false;

	while (read(wake[0], bytes, sizeof(bytes)) > 0)
		any = true;
	return any;
}

/* ---- options ---- */

static int
parse_pattern(const struct cmd *cmd, const char *s, bool any,
    struct kp_mfa_pat *out)
{
	*out = (struct kp_mfa_pat){ .arity = -1 };
	if (any && strcmp(s, "_") == 0) {
		out->mod = strdup("_");
		if (out->mod != NULL)
			return OPTS_GO_ON;
	} else if (kp_mfa_pat_parse(out, s, strlen(s)) == KP_OK) {
		return OPTS_GO_ON;
	}
	return opts_wrong(cmd, "'%s' is not a function: give mod:fun/2, "
	    "mod:fun/_, mod, {mod,fun,2}, MyApp.Repo.all/2%s", s,
	    any ? ", or _ for all modules" : "");
}

/* After an error the patterns parsed before it are to be freed. */
static int
parse_list(const struct cmd *cmd, const struct opt_list *list, bool any,
    const struct kp_mfa_pat **v, size_t *n)
{
	struct kp_mfa_pat *pats = calloc(list->n + 1, sizeof(*pats));
	int st = OPTS_GO_ON;

	if (pats == NULL)
		return EXIT_FAILED;
	*v = pats;
	for (*n = 0; *n < list->n && st == OPTS_GO_ON; (*n)++)
		st = parse_pattern(cmd, list->v[*n], any, &pats[*n]);
	return st;
}

static void
free_list(const struct kp_mfa_pat *v, size_t n)
{
	struct kp_mfa_pat *pats = (struct kp_mfa_pat *)(uintptr_t)v;

	for (size_t i = 0; i < n; i++)
		kp_mfa_pat_free(&pats[i]);
	free(pats);
}

void
functions_free(struct injected_opts *o)
{
	free_list(o->patterns, o->npatterns);
	free_list(o->exclude, o->nexclude);
}

int
functions_entry(const struct cmd *cmd, const char *text,
    struct kp_mfa_pat *entry, size_t *requests)
{
	int st;

	if (text == NULL)
		return *requests == 0 ? OPTS_GO_ON :
		    opts_wrong(cmd, "-requests N goes with -entry FUNCTION");
	if (*requests >= KP_CALLS_REQUESTS_MAX)
		return opts_wrong(cmd, "-requests %zu: at most %u", *requests,
		    KP_CALLS_REQUESTS_MAX - 1);
	st = parse_pattern(cmd, text, false, entry);
	if (st != OPTS_GO_ON)
		return st;
	if (entry->fun == NULL || entry->arity < 0)
		return opts_wrong(cmd, "-entry '%s': give one function, such "
		    "as web:handle/2", text);
	*requests += *requests == 0;
	return OPTS_GO_ON;
}

int
functions_reach(const struct cmd *cmd, struct injected_opts *o)
{
	char why[REACH_WHY_MAX];

	if (o->talk.target == NULL)
		return opts_wrong(cmd, "-target NODE is missing");
	if (!reach_finish(&o->reach, why, sizeof(why)))
		return opts_wrong(cmd, "%s", why);
	o->talk.reach = &o->reach;
	return OPTS_GO_ON;
}

int
functions_for(const struct cmd *cmd, const char *text, kp_dur_ns *t)
{
	if (text == NULL || (kp_dur_parse(text, t) && *t > 0 && *t <= FOR_MAX))
		return OPTS_GO_ON;
	return opts_wrong(cmd, "-for '%s': give a time such as 10s or 5m, at "
	    "most a day", text);
}

int
functions_every(const struct cmd *cmd, const char *text, kp_dur_ns *t)
{
	if (text == NULL || (kp_dur_parse(text, t) && *t >= EVERY_MIN &&
	    *t <= FOR_MAX))
		return OPTS_GO_ON;
	return opts_wrong(cmd, "-every '%s': give a time such as 2s, at least "
	    "half a second", text);
}

int
functions_check(const struct cmd *cmd, struct functions_args *a,
    struct injected_opts *o)
{
	int st = functions_reach(cmd, o);

	if (st == OPTS_GO_ON)
		st = functions_for(cmd, a->duration, &a->limit);
	if (st != OPTS_GO_ON)
		return st;
	if (a->list && o->apply[0] != '\0')
		return opts_wrong(cmd, "-list goes without -apply");
	o->spawned = !a->not_spawned;
	if (strlen(o->apply) > APPLY_MAX)
		return opts_wrong(cmd, "-apply has %zu bytes, more than %d: "
		    "call a function of a module", strlen(o->apply),
		    APPLY_MAX);
	if (o->apply[0] != '\0')
		o->value = a->value;
	o->apply_limit = a->limit > 0 ? a->limit : APPLY_LIMIT;
	o->span = o->apply[0] == '\0' ? a->limit : 0;
	o->max_functions = a->functions;
	o->max_processes = a->processes;
	o->max_memory = (uint64_t)a->memory * MB;
	st = parse_list(cmd, &a->patterns, true, &o->patterns,
	    &o->npatterns);
	if (st == OPTS_GO_ON)
		st = parse_list(cmd, &a->exclude, false, &o->exclude,
		    &o->nexclude);
	return st;
}

/* ---- the start and the end ---- */

int
functions_failed(const char *target, enum kp_err e, const char *why,
    const char *done)
{
	if (e == KP_END)
		say("'%s': interrupted before anything was %s; what was set "
		    "there is taken back", target, done);
	else
		say("%s", why);
	return EXIT_FAILED;
}

enum kp_err
functions_take(struct tracers *ts, kp_mono_ns deadline,
    const struct tracers_sink *sink)
{
	enum kp_err e = tracers_run(ts, deadline, sink);

	if (e != KP_OK && e != KP_ETIMEOUT && e != KP_END)
		return e;
	signals_drain();
	return tracers_end(ts, sink);
}

void
functions_say_lines(struct kp_buf *b)
{
	if (b->len > 1) {
		b->len--;	/* say() ends the last line */
		say("%s", kp_buf_cstr(b));
	}
	kp_buf_free(b);
}

void
functions_say_doubt(const char *target, const struct injected_hello *h)
{
	if (h->doubt != NULL)
		say("'%s': unverified: %s", target, h->doubt);
}

void
functions_say_late(const char *target)
{
	say("'%s' has not yet taken back what was set there, and goes on with "
	    "that", target);
}

void
functions_say_value(const struct functions_args *a,
    const struct injected_hello *h)
{
	struct kp_buf b;

	if (a->quiet || a->value[0] == '\0')
		return;
	kp_buf_init(&b, 8 * INJECTED_VALUE_MAX);
	text_put_lines(&b, a->value, strlen(a->value));
	fprintf(stderr, "kprof: value: %s\n", kp_buf_cstr(&b));
	kp_buf_free(&b);
	if (h->evaluated)
		say("erl_eval has evaluated that: what it calls for it, such "
		    "as of lists, is in the figures too");
}

/* ---- -list ---- */

static int
row_order(const void *a, const void *b, void *names)
{
	return kp_call_fn_order(names, ((const struct kp_counts_row *)a)->fn,
	    ((const struct kp_counts_row *)b)->fn);
}

static int
show_list(const struct kp_counts *p)
{
	const struct kp_call_fn *fn;
	char n[TEXT_MAX];
	struct kp_buf b;

	if (p->nrows > 0)
		qsort_r(p->rows, p->nrows, sizeof(*p->rows), row_order,
		    p->names);
	kp_buf_init(&b, OUTPUT_MAX);
	for (size_t i = 0; i < p->nrows; i++) {
		fn = &p->names->fns[p->rows[i].fn];
		fn_name_put(&b, fn->mod, fn->fun, fn->arity);
		kp_buf_u8(&b, '\n');
	}
	kp_buf_printf(&b, "%s\n", text_counted(n, p->nrows, "function"));
	return show(&b);
}

int
functions_list(const struct injected_opts *o)
{
	struct counters_opts co = { .g = *o, .list = true };
	struct kp_counts p = { .names = kp_call_names_new() };
	char why[INJECTED_TEXT_MAX + 512] = "out of memory";
	struct injected_hello h;
	struct injected *c = NULL;
	int st = EXIT_FAILED;
	enum kp_err e = KP_ENOMEM;

	co.g.processes = "";
	if (p.names != NULL)
		e = counters_start(&c, &co, &h, why, sizeof(why));
	if (e == KP_OK) {
		functions_say_doubt(o->talk.target, &h);
		e = counters_read(c, true, &p, why, sizeof(why));
	}
	if (e == KP_OK)
		st = show_list(&p);
	else
		say("%s", e == KP_END ? "interrupted" : why);
	injected_stop(c, 0);
	kp_counts_free(&p);
	kp_call_names_free(p.names);
	return st;
}
