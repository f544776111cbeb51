/* functions.c - see the header. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "functions.h"
#include "kprofd/calls.h"
#include "kprofd/dur.h"

#define FOR_MAX (24 * 3600 * KP_NS_PER_S)
#define APPLY_LIMIT (60 * KP_NS_PER_S)

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

int
functions_pattern(const struct cmd *cmd, const char *s, bool any,
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
	return opts_wrong(cmd, "'%s' is no function: give mod:fun/2, "
	    "mod:fun/_, mod, MyApp.Repo.all/2%s", s,
	    any ? ", or _ for all modules" : "");
}

/* On error what was parsed stays, to be freed. */
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
		st = functions_pattern(cmd, list->v[*n], any, &pats[*n]);
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
	st = functions_pattern(cmd, text, false, entry);
	if (st != OPTS_GO_ON)
		return st;
	if (entry->fun == NULL || entry->arity < 0)
		return opts_wrong(cmd, "-entry '%s': give one function, such "
		    "as web:handle/2", text);
	*requests += *requests == 0;
	return OPTS_GO_ON;
}

int
functions_check(const struct cmd *cmd, struct functions_args *a,
    struct injected_opts *o)
{
	int st;

	if (o->talk.target == NULL)
		return opts_wrong(cmd, "-target NODE is missing");
	if (a->duration != NULL && (!kp_dur_parse(a->duration, &a->limit) ||
	    a->limit <= 0 || a->limit > FOR_MAX))
		return opts_wrong(cmd, "-for '%s': give a time such as 10s or "
		    "5m, at most a day", a->duration);
	o->spawned = !a->not_spawned;
	o->apply_limit = a->limit > 0 ? a->limit : APPLY_LIMIT;
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
