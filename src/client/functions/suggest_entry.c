/*
 * suggest_entry.c - makes a proposal with one entry: traces its requests, measures the
 * draft's functions alone, finds the type of a request, and has kprofd check the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/functions/suggest.h"
#include "kprofd/fn_name.h"
#include "text/file_why.h"
#include "text/text.h"

#define TIERS_LEAST 2		/* with which an entry is good */
#define NAMED_LEAST 0.1	/* of the requests' time is in tiers */
#define UPSTREAM 0.2		/* of the best entry's score: worth another trace */
#define UPSTREAMS 2		/* such traces */
#define CHECKS 4		/* each without the functions that the last warned of */
#define REACH_TEXT_MAX 65536u	/* bytes: with more, none are shown */
#define ASKED 8			/* functions that may know a request's type */
#define OWN_TIERS 6		/* beside those of an example */
#define SAID_MAX 65536u		/* bytes of a message */
#define CHECK_FILE "/proc/self/fd/0" /* the proposal, as kprofd -check opens it */

extern char **environ;

/* ---- its requests ---- */

static const struct kp_call_fn *
entry_fn(const struct suggest_run *r)
{
	return &r->all.names->fns[r->entries[r->chosen].fn];
}

static bool
same_fn(const struct kp_call_fn *a, const struct kp_call_fn *b)
{
	return a->arity == b->arity && strcmp(a->fun, b->fun) == 0 &&
	    strcmp(a->mod, b->mod) == 0;
}

/* Does the example name functions of this module? */
static bool
stock_has(const struct kp_conf *c, const char *mod)
{
	for (size_t i = 0; i < c->ntiers; i++)
		for (size_t k = 0; k < c->tiers[i].nfns; k++)
			if (strcmp(c->tiers[i].fns[k].mod, mod) == 0)
				return true;
	return false;
}

/*
 * Does a function of this module call the entry, directly or not?  In a process that
 * serves one request after the other it then looks like work that the last one left.
 */
static bool
is_around(const struct suggest_run *r, const char *mod)
{
	const struct suggest_tree *c = r->all.tree;
	const struct kp_call_fn *fns = r->all.names->fns;

	for (uint32_t i = 1; i < c->nframes; i++) {
		if (c->frames[i].fn != r->entries[r->chosen].fn)
			continue;
		for (uint32_t p = c->frames[i].parent; p != 0; p = c->frames[p].parent)
			if (strcmp(fns[c->frames[p].fn].mod, mod) == 0)
				return true;
	}
	return false;
}

/*
 * Marks functions that get no tier beside those of the example: of modules that the
 * example has, or that call its entry, and of applications that others depend on.
 */
static void
known_mark(const struct suggest_run *r, const struct suggest_calls *c)
{
	const char *mod;

	for (uint32_t i = KP_FN_FIRST; r->stock != NULL && i < c->names->nfns; i++) {
		mod = c->names->fns[i].mod;
		c->fns[i].known = stock_has(r->stock->conf, mod) || is_around(r, mod) ||
		    (!c->fns[i].users && !c->fns[i].waits);
	}
}

/* The tiers of a trace, of whose entry this is the number. */
static int
find_tiers(struct suggest_run *r, const struct suggest_calls *c, uint32_t entry,
    struct suggest_tiers *t)
{
	double rate = suggest_node_rate(&r->node, entry_fn(r));
	const struct suggest_wanted wanted = {
		.hot = rate > 1 ? SUGGEST_HOT_RATE / rate : SUGGEST_HOT_RATE,
		.most = r->stock != NULL ? 1 + OWN_TIERS : SUGGEST_TIERS_MAX,
		.own = r->stock != NULL && r->stock->of->layers };

	known_mark(r, c);
	return suggest_tiers(c->tree, c->fns, entry, wanted, t) == KP_OK ? OPTS_GO_ON :
	    suggest_failed(r, suggest_node_no_memory(&r->node));
}

/* OPTS_GO_ON: it has tiers; EXIT_DONE: it is not one; or failed. */
static int
trace_requests(struct suggest_run *r)
{
	const struct kp_call_fn *fn = entry_fn(r);
	const struct kp_mfa_pat entry = { .mod = fn->mod, .fun = fn->fun,
		.arity = (int)fn->arity };
	double rate = suggest_node_rate(&r->node, fn);
	const struct kp_call_names *names;
	const struct suggest_tree *c;
	char name[FN_NAME_MAX];
	uint32_t in = 0;
	bool nested;
	enum kp_err e;

	suggest_progress(r, "'%s': tracing %u requests of %s at most", r->a->target,
	    SUGGEST_REQUESTS, suggest_entry_name(r, r->chosen, name));
	suggest_calls_free(&r->requests);
	e = suggest_node_trace(&r->node, &entry, rate, r->all.tree, &r->requests);
	if (e != KP_OK)
		return suggest_failed(r, e);
	c = r->requests.tree;
	names = r->requests.names;
	for (uint32_t i = 0; i < names->nfns; i++)
		if (same_fn(&names->fns[i], fn))
			in = i;
	/* Of a framework they may be nested: a router that is forwarded to. */
	if (c->begun == 0 || in == 0 || c->ended * 2 < c->begun ||
	    (c->nested * 10 > c->begun && r->stock == NULL)) {
		nested = c->nested * 10 > c->begun;
		snprintf(r->not_good, sizeof(r->not_good), "%s %s", name,
		    nested ? "calls itself" : r->node.flooded ? "could not be "
		    "followed: too many events waited in the node" :
		    c->begun == 0 || in == 0 ? "was not called again" :
		    "was not seen to return");
		if (r->node.flooded && !nested)
			return EXIT_DONE;	/* it may still be one, or a tier */
		/* Nor is it a tier. */
		r->all.tree->loops[r->entries[r->chosen].fn] = true;
		r->all.fns[r->entries[r->chosen].fn].loop = true;
		r->looped |= c->begun > 0 && in > 0;
		r->loop = r->looped ? r->entries[r->chosen].fn : 0;
		return EXIT_DONE;
	}
	return find_tiers(r, &r->requests, in, &r->tiers);
}

/*
 * While all functions are traced, most of a short call's time is tracing.  So the
 * ways into modules are traced again, alone, and their times decide.
 */
static int
measure(struct suggest_run *r)
{
	const struct kp_call_fn *fn = entry_fn(r);
	const struct kp_mfa_pat entry = { .mod = fn->mod, .fun = fn->fun,
		.arity = (int)fn->arity };
	uint32_t in = r->tiers.v[0].fns[0];	/* the entry's is the first */
	const struct suggest_left *left;
	struct suggest_calls alone;
	struct suggest_tiers t;
	int st = OPTS_GO_ON;
	enum kp_err e;

	suggest_progress(r, "'%s': measuring %u requests", r->a->target,
	    SUGGEST_REQUESTS);
	e = suggest_node_measure(&r->node, &entry, &r->tiers, &r->requests, &alone);
	if (e != KP_OK)
		return suggest_failed(r, e);
	if (alone.tree->begun > 0)
		st = find_tiers(r, &alone, in, &t);
	if (st != OPTS_GO_ON || alone.tree->begun == 0 ||
	    (r->stock == NULL && t.n < TIERS_LEAST)) {
		suggest_calls_free(&alone);	/* the first trace is as good */
		return st;
	}
	/* Helpers are not traced again: that they were left out stays said. */
	for (left = r->tiers.left; left < r->tiers.left + r->tiers.nleft; left++)
		if (left->reason == SUGGEST_HELPER && t.nleft < SUGGEST_LEFT_MAX)
			t.left[t.nleft++] = *left;
	suggest_calls_free(&r->requests);
	r->requests = alone;
	r->tiers = t;
	return OPTS_GO_ON;
}

static double
rate_of(const void *ctx, const struct kp_call_fn *fn)
{
	return suggest_node_rate(ctx, fn);
}

/* ---- the text ---- */

/* As a shell takes them. */
static void
put_reach(struct kp_buf *b, const struct reach *reach)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "abcdefghijklmnopqrstuvwxyz"
				   "0123456789_-./:=@[],+%";
	struct reach_args *a = malloc(sizeof(*a));

	if (a == NULL)
		return;
	reach_args(a, reach);
	for (size_t i = 0; i < a->n; i++) {
		bool plain = a->v[i][strspn(a->v[i], safe)] == '\0';

		kp_buf_str(b, plain ? " " : " '");
		for (const char *p = a->v[i]; *p != '\0'; p++)
			if (*p == '\'')
				kp_buf_str(b, "'\\''");
			else
				kp_buf_u8(b, (uint8_t)*p);
		kp_buf_str(b, plain ? "" : "'");
	}
	free(a);
}

/* Writes the file; or, with asked, a draft: struct suggest_file says what that is. */
static void
put_text(struct suggest_run *r, const uint32_t *asked, size_t nasked)
{
	char date[32];
	struct kp_buf reach;
	time_t now = time(NULL);
	struct tm tm;
	struct suggest_file f = { .node = r->a->target, .date = date,
		.names = r->requests.names, .fns = r->requests.fns, .entries = r->entries,
		.entry_names = r->all.names, .nentries = r->nentries,
		.chosen = r->chosen, .tiers = &r->tiers, .rate = rate_of,
		.ctx = &r->node, .about = kp_buf_cstr(&r->about),
		.verdict = kp_buf_cstr(&r->verdict),
		.clause = kp_buf_cstr(&r->identity),
		.why = kp_buf_cstr(&r->identity_why), .asked = asked,
		.nasked = nasked };

	if (r->stock != NULL) {
		f.stock = r->stock->of;
		f.stock_conf = r->stock->conf;
	}

	kp_buf_init(&reach, REACH_TEXT_MAX);
	put_reach(&reach, &r->a->reach);
	f.reach = kp_buf_cstr(&reach);
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &tm));
	f.paths = r->paths;
	kp_buf_reset(&r->text);
	if (asked != NULL)
		suggest_write_draft(&f, &r->text);
	else
		suggest_write(&f, &r->text);
	kp_buf_free(&reach);
}

/* ---- kprofd -check ---- */

/* Its standard input, output and error are fds; its pid, or -1 with errno. */
static pid_t
check_start(const struct suggest_run *r, const int *fds, kp_dur_ns span,
    bool explain)
{
	char path[4096], duration[32];
	struct reach_args reach;
	const char *argv[16 + REACH_ARGS_MAX] = { "kprofd", "-check", "-log",
		"json", "-tiers", CHECK_FILE, "-target", r->a->target,
		"-duration", duration };
	posix_spawn_file_actions_t fa;
	size_t n = 10;
	pid_t pid;

	snprintf(duration, sizeof(duration), "%lldms",
	    (long long)(span / KP_NS_PER_MS));
	reach_args(&reach, &r->a->reach);
	memcpy(argv + n, reach.v, reach.n * sizeof(*argv));
	n += reach.n;
	if (r->a->library != NULL) {
		argv[n++] = "-probe-library";
		argv[n++] = r->a->library;
	}
	if (r->a->send)
		argv[n++] = "-probe-send";
	if (explain)
		argv[n++] = "-explain";
	if (explain && r->a->values)
		argv[n++] = "-values";
	posix_spawn_file_actions_init(&fa);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_adddup2(&fa, fds[i], i);
	errno = posix_spawnp(&pid, self_program(path, sizeof(path), "kprofd"), &fa,
	    NULL, (char **)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return errno == 0 ? pid : -1;
}

/* Reads on; false at the end.  What is past the limit is not kept. */
static bool
take(int fd, struct kp_buf *b)
{
	char bytes[8192];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	if (b->len + (size_t)n < b->max)
		kp_buf_put(b, bytes, (size_t)n);
	return true;
}

/* Until it has closed its log.  True: a signal came, and was passed on. */
static bool
check_listen(struct suggest_run *r, pid_t pid, int log)
{
	struct pollfd v[2] = { { .fd = log, .events = POLLIN },
		{ .fd = r->node.talk.wake, .events = POLLIN } };
	bool woken = false;

	while (v[0].fd >= 0) {
		if (poll(v, 2, -1) < 0)
			continue;
		if (v[0].revents != 0 && !take(log, &r->check_log))
			v[0].fd = -1;
		if (v[1].fd >= 0 && v[1].revents != 0) {
			v[1].fd = -1;
			woken = true;
			kill(pid, SIGTERM);
		}
	}
	return woken;
}

/*
 * Checks r->text.  KP_OK: r->check_status says how; KP_END: a signal came, and the check
 * has ended.
 */
static enum kp_err
check_text(struct suggest_run *r, kp_dur_ns span, bool explain)
{
	/* Files in memory are gone with us, however we end. */
	int fds[] = { memfd_create("tiers.conf", MFD_CLOEXEC),
		memfd_create("output", MFD_CLOEXEC), -1 }, log[2] = { -1, -1 };
	char *why = r->node.why;
	size_t n = sizeof(r->node.why);
	bool woken = false;
	pid_t pid = -1;
	int st = 0;

	kp_buf_reset(&r->check_out);
	kp_buf_reset(&r->check_log);
	if (fds[0] < 0 || fds[1] < 0 || write(fds[0], r->text.p, r->text.len) !=
	    (ssize_t)r->text.len) {
		snprintf(why, n, "cannot write a temporary file: %s",
		    strerror(errno));
	} else {
		if (pipe2(log, O_CLOEXEC) == 0) {
			fds[2] = log[1];
			pid = check_start(r, fds, span, explain);
		}
		if (pid < 0)
			snprintf(why, n, "cannot run kprofd, which is to check "
			    "the proposal: %s", strerror(errno));
	}
	if (log[1] >= 0)
		close(log[1]);
	if (pid >= 0) {
		woken = check_listen(r, pid, log[0]);
		while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
			;
		lseek(fds[1], 0, SEEK_SET);
		while (take(fds[1], &r->check_out))
			;
	}
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (log[0] >= 0)
		close(log[0]);
	r->check_status = WIFEXITED(st) ? WEXITSTATUS(st) : EXIT_FAILED;
	return pid < 0 ? KP_EIO : woken ? KP_END : KP_OK;
}

/* Copies a JSON text as far as it is plain: \" and \\ are. */
static void
put_json_text(struct kp_buf *b, const char *s)
{
	const char *from = s;

	for (; *s != '\0' && *s != '"'; s++)
		if (*s == '\\' && s[1] != '\0') {
			text_put_n(b, from, (size_t)(s - from));
			from = ++s;
		}
	text_put_n(b, from, (size_t)(s - from));
}

/*
 * Appends to r->verdict the messages of the log that are warnings or errors, one a line.
 * Leaves out those that name the file, those about the probe, and those about requests
 * that did not come meanwhile, which help nobody.
 */
static void
check_messages(struct suggest_run *r)
{
	static const char *const out[] = { "probe of ", "this clause matched none of " };
	const char *line = kp_buf_cstr(&r->check_log), *end, *level, *text;
	struct kp_buf *b = &r->verdict, said;
	bool left_out;

	for (; *line != '\0'; line = *end != '\0' ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		level = strstr(line, "\"level\":\"");
		text = strstr(line, "\"message\":\"");
		if (level == NULL || text == NULL || text > end ||
		    level > text || strncmp(level + 9, "info", 4) == 0)
			continue;
		kp_buf_init(&said, SAID_MAX);
		put_json_text(&said, text + 11);
		left_out = strstr(kp_buf_cstr(&said), CHECK_FILE) != NULL;
		for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
			left_out |= strncmp(kp_buf_cstr(&said), out[i], strlen(out[i])) == 0;
		if (!left_out)
			kp_buf_printf(b, "%s: %s\n", strncmp(level + 9, "error", 5) == 0 ?
			    "error" : "warning", kp_buf_cstr(&said));
		kp_buf_free(&said);
	}
}

/* The line of its output that begins so, without that; NULL: there is none. */
static char *
check_line(struct suggest_run *r, const char *begin)
{
	const char *line = kp_buf_cstr(&r->check_out);
	size_t n = strlen(begin);

	for (; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, begin, n) == 0)
			return strndup(line + n, strcspn(line + n, "\n"));
	return NULL;
}

/* "5 200 events/s, 0.26 % of a scheduler", as kprofd -check writes it: 5200. */
static double
events_of(const char *price)
{
	double n = 0;

	for (; *price == ' ' || (*price >= '0' && *price <= '9'); price++)
		if (*price != ' ')
			n = n * 10 + (*price - '0');
	return n;
}

/* As check_text(), and adds what it takes. */
static enum kp_err
check_run(struct suggest_run *r, kp_dur_ns span, bool explain)
{
	struct suggest_work *w = &r->node.cost.checks;
	double rate, seconds = (double)span / KP_NS_PER_S;
	const struct suggest_tier *t;
	char *price;
	enum kp_err e;

	if (r->text.err != KP_OK) {
		snprintf(r->node.why, sizeof(r->node.why), "the proposal is "
		    "too large");
		return r->text.err;
	}
	e = check_text(r, span, explain);
	price = check_line(r, "about ");
	w->loads++;
	w->processes += r->node.processes;
	w->events += price != NULL ? events_of(price) * seconds : 0;
	free(price);
	for (t = r->tiers.v; t < r->tiers.v + r->tiers.n; t++)
		for (size_t i = 0; i < t->nfns; i++) {
			rate = suggest_node_rate(&r->node,
			    &r->requests.names->fns[t->fns[i]]);
			w->armed += rate > 0 ? rate * seconds : 0;
			w->patterns++;
		}
	return e;
}

/* ---- its file ---- */

/* Functions of tiers that each request calls once: they may know its type. */
static size_t
once_a_request(const struct suggest_run *r, uint32_t *fns)
{
	const struct suggest_tier *t;
	double calls;
	size_t n = 0;

	for (t = r->tiers.v; t < r->tiers.v + r->tiers.n; t++)
		for (size_t i = 0; i < t->nfns && !t->entry && n < ASKED; i++) {
			calls = (double)t->calls[i] / (double)(r->tiers.requests + 1);
			if (calls > 0.9 && calls < 1.1 && r->requests.names->
			    fns[t->fns[i]].arity > 0)
				fns[n++] = t->fns[i];
		}
	return n;
}

/* What the check showed of a function's arguments; NULL: nothing. */
static char *
example_of(struct suggest_run *r, const struct kp_call_fn *fn)
{
	char begin[FN_NAME_MAX + 16] = "example: ", *slash, *example, *whole;
	size_t n = strlen(begin);

	fn_name(begin + n, FN_NAME_MAX, fn->mod, fn->fun, fn->arity);
	slash = strrchr(begin, '/');
	if (slash == NULL)
		return NULL;	/* the name is cut */
	strcpy(slash, "(");
	example = check_line(r, begin);
	if (example == NULL || asprintf(&whole, "%s%s", begin + n, example) < 0)
		whole = NULL;
	free(example);
	return whole;
}

/* Appends a clause for this function's calls. */
static enum suggest_type
clause_for(struct suggest_run *r, const struct kp_call_fn *fn, bool deeper,
    struct kp_buf *clause, struct kp_buf *why)
{
	const struct kp_mfa f = { fn->mod, fn->fun, fn->arity };
	char *example = example_of(r, fn), name[FN_NAME_MAX];
	enum suggest_type type;

	kp_buf_reset(clause);
	kp_buf_reset(why);
	kp_buf_str(why, "The type of a request: ");
	type = suggest_identity(&f, example != NULL ? example : "", clause, why);
	if (deeper)
		kp_buf_printf(why, " of %s", fn_name(name, sizeof(name), fn->mod,
		    fn->fun, fn->arity));
	if (example != NULL) {
		kp_buf_str(why, ".\nOne was ");
		text_put(why, example);
	}
	kp_buf_str(why, ".\n");
	free(example);
	return type;
}

/*
 * Finds the clause of the identity fun.  Where the entry's arguments are the same for
 * all requests, those of a function that each of them calls may not be.  As
 * trace_requests().
 */
static int
find_identity(struct suggest_run *r)
{
	enum suggest_type type, best;
	uint32_t asked[ASKED];
	size_t n = once_a_request(r, asked);
	struct kp_buf clause, why;
	enum kp_err e;

	kp_buf_reset(&r->identity);
	kp_buf_reset(&r->identity_why);
	put_text(r, asked, n);
	suggest_progress(r, "'%s': checking the draft", r->a->target);
	e = check_run(r, r->node.short_span / 2, true);
	if (e != KP_OK)
		return suggest_failed(r, e);
	kp_buf_init(&clause, SUGGEST_CLAUSE_MAX);
	kp_buf_init(&why, SUGGEST_CLAUSE_MAX);
	best = clause_for(r, entry_fn(r), false, &r->identity, &r->identity_why);
	for (size_t i = 0; i < n && best != SUGGEST_WEB; i++) {
		type = clause_for(r, &r->requests.names->fns[asked[i]], true,
		    &clause, &why);
		if (type >= best || (type != SUGGEST_WEB && best < SUGGEST_STRUCT))
			continue;
		best = type;
		kp_buf_reset(&r->identity);
		kp_buf_str(&r->identity, kp_buf_cstr(&clause));
		kp_buf_reset(&r->identity_why);
		kp_buf_str(&r->identity_why, kp_buf_cstr(&why));
	}
	kp_buf_free(&clause);
	kp_buf_free(&why);
	r->paths = best == SUGGEST_WEB;
	return OPTS_GO_ON;
}

/* "web:f/2" in "web:f/2 calls itself", and not in "web:f/21" */
static bool
is_named(const char *said, const char *name)
{
	size_t n = strlen(name);
	const char *at;

	for (at = strstr(said, name); at != NULL; at = strstr(at + 1, name))
		if ((at == said || strchr(" '\n", at[-1]) != NULL) &&
		    (at[n] < '0' || at[n] > '9'))
			return true;
	return false;
}

static void
tier_remove(struct suggest_tiers *t, size_t i)
{
	t->n--;
	memmove(&t->v[i], &t->v[i + 1], (t->n - i) * sizeof(t->v[0]));
}

/* Removes functions that the check warns of, since they do not return. */
static bool
remove_warned(struct suggest_run *r)
{
	const char *said = kp_buf_cstr(&r->verdict);
	const struct kp_call_fn *fn;
	char name[FN_NAME_MAX];
	struct suggest_tier *t;
	bool any = false;

	for (t = r->tiers.v; t < r->tiers.v + r->tiers.n; t++)
		for (size_t i = 0; i < t->nfns && !t->entry; i++) {
			fn = &r->requests.names->fns[t->fns[i]];
			fn_name(name, FN_NAME_MAX, fn->mod, fn->fun,
			    fn->arity);
			if (!is_named(said, name))
				continue;
			any = true;
			t->nfns--;
			memmove(&t->fns[i], &t->fns[i + 1],
			    (t->nfns - i) * sizeof(t->fns[0]));
			memmove(&t->calls[i], &t->calls[i + 1],
			    (t->nfns - i) * sizeof(t->calls[0]));
			i--;
		}
	for (size_t i = r->tiers.n; i-- > 0;)
		if (r->tiers.v[i].nfns == 0)
			tier_remove(&r->tiers, i);
	return any;
}

/* As check_run(); r->verdict has what it said. */
static enum kp_err
check_once(struct suggest_run *r)
{
	enum kp_err e;

	kp_buf_reset(&r->verdict);
	put_text(r, NULL, 0);
	suggest_progress(r, "'%s': checking the proposal", r->a->target);
	e = check_run(r, r->node.short_span, false);
	if (e == KP_OK)
		check_messages(r);
	return e;
}

/* OPTS_GO_ON: the file passes the check. */
static int
check(struct suggest_run *r)
{
	char *price;
	enum kp_err e = check_once(r);

	for (unsigned i = 1; i < CHECKS && e == KP_OK && remove_warned(r); i++)
		e = check_once(r);
	if (e != KP_OK)
		return suggest_failed(r, e);
	if (r->check_status != 0) {
		snprintf(r->not_good, sizeof(r->not_good), "kprofd -check says "
		    "%s", kp_buf_cstr(&r->verdict));
		return EXIT_DONE;
	}
	price = check_line(r, "about ");
	if (price != NULL) {
		kp_buf_str(&r->verdict, "it costs about ");
		text_put(&r->verdict, price);
		kp_buf_u8(&r->verdict, '\n');
	}
	free(price);
	kp_buf_str(&r->verdict, "ok\n");
	put_text(r, NULL, 0);
	return OPTS_GO_ON;
}

/* How often the entry i is called for requests of the chosen one, elsewhere. */
static uint64_t
calls_for(const struct suggest_run *r, size_t i)
{
	const struct kp_call_fn *fn = &r->all.names->fns[r->entries[i].fn], *at;
	const struct suggest_tree *c = r->requests.tree;

	for (uint32_t k = 1; k < c->nframes; k++) {
		at = &r->requests.names->fns[c->frames[k].fn];
		if (c->frames[k].parent == 0 && c->frames[k].total > 0 &&
		    same_fn(at, fn))
			return c->frames[k].calls;
	}
	return 0;
}

/* May requests of another entry be what the chosen one works for? */
static bool
is_upstream(const struct suggest_run *r, size_t other)
{
	const struct suggest_entry *e = &r->entries[r->chosen], *x = &r->entries[other];

	return !x->callback && !x->worker && x->score >= UPSTREAM * e->score &&
	    x->modules * 2 >= e->modules && calls_for(r, other) == 0;
}

/*
 * The chosen entry may do what another one causes, in another process: then that one
 * is chosen.  As trace_requests().
 */
static int
look_upstream(struct suggest_run *r)
{
	size_t first = r->chosen, v[UPSTREAMS], n = 0;
	int st;

	for (size_t i = first + 1; i < r->nentries && n < UPSTREAMS; i++)
		if (is_upstream(r, i))
			v[n++] = i;
	for (size_t i = 0; i < n; i++) {
		r->chosen = v[i];
		st = trace_requests(r);
		if (st == OPTS_GO_ON && calls_for(r, first) * 4 >= r->requests.tree->begun)
			return OPTS_GO_ON;
		if (st != OPTS_GO_ON && (st != EXIT_DONE || (r->looped && !r->traced)))
			return st;
	}
	r->chosen = first;
	return n > 0 ? trace_requests(r) : OPTS_GO_ON;
}

/* Do the tiers hold what requests take, in their processes and others? */
static bool
is_explained(const struct suggest_run *r)
{
	const struct suggest_tiers *t = &r->tiers;
	kp_dur_ns named = 0;

	for (size_t i = 0; i < t->n; i++)
		named += t->v[i].entry ? 0 : t->v[i].own;
	return (double)named >= NAMED_LEAST *
	    (double)(t->total + t->elsewhere);
}

/* ---- of a framework ---- */

/*
 * Its example, with tiers of the application's own modules below its requests.
 * EXIT_DONE: it does not fit.
 */
static int
stock_try(struct suggest_run *r)
{
	int st = r->stock->of->whole ? EXIT_DONE : trace_requests(r);

	if (st == OPTS_GO_ON)
		st = measure(r);
	if (st == OPTS_GO_ON)
		tier_remove(&r->tiers, 0);	/* the entry's */
	else if (st != EXIT_DONE)
		return st;
	suggest_about(r);
	if (st == EXIT_DONE) {	/* it has tiers without that */
		r->tiers = (struct suggest_tiers){ .n = 0 };
		if (!r->stock->of->whole)
			kp_buf_printf(&r->about, "No tiers of the application's own "
			    "modules were looked for: %s.\n", r->not_good);
	}
	return check(r);
}

/* Too little is known of it; it may be the entry all the same. */
static int
doubtful(struct suggest_run *r, const char *why)
{
	snprintf(r->not_good, sizeof(r->not_good), "%s", why);
	if (r->guess == SUGGEST_NO_GUESS) {
		r->guess = r->chosen;
		snprintf(r->doubt, sizeof(r->doubt), "%s", why);
	}
	return EXIT_DONE;
}

int
suggest_entry_try(struct suggest_run *r)
{
	int st;

	kp_buf_reset(&r->about);
	r->stock = suggest_stock_of(&r->node, entry_fn(r));
	if (r->stock != NULL) {
		st = stock_try(r);
		if (st != EXIT_DONE)
			return st;
		suggest_progress(r, "'%s': priv/examples/%s does not fit: %s",
		    r->a->target, r->stock->of->example, r->not_good);
		r->stock = NULL;
		kp_buf_reset(&r->about);
	}
	st = trace_requests(r);

	if (st == OPTS_GO_ON && !r->traced && !r->asked &&
	    r->tiers.n < TIERS_LEAST)
		return doubtful(r, "it calls too little");
	if (st == OPTS_GO_ON && !r->asked)
		st = look_upstream(r);
	if (st == OPTS_GO_ON)
		st = measure(r);
	if (st == OPTS_GO_ON && !r->asked && !is_explained(r))
		return doubtful(r, "hardly any of its time is in functions that it "
		    "calls");
	suggest_about(r);
	if (st == OPTS_GO_ON)
		st = find_identity(r);
	return st == OPTS_GO_ON ? check(r) : st;
}
