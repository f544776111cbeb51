/*
 * traces.c - has the targets' agents leave, runs kprof trace, keeps what it prints, and
 * has the agents come back.
 *
 * The child reads the text of tiers.conf in force from a descriptor.  It ends with us: the
 * kernel sends it SIGTERM when kprofd is gone, and the node ends what traces there when
 * the child is gone.  It writes its result, JSON, to a pipe, and remarks to another.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/control/reload.h"
#include "daemon/control/traces.h"
#include "daemon/log.h"
#include "daemon/nodes/targets.h"
#include "text/file_why.h"
#include "text/json.h"
#include "text/text.h"
#include "text/timefmt.h"

#define LEAVE_S 10		/* the longest wait for the agents to leave */
#define SETUP_S 90		/* until all nodes trace, and at the end */
#define KILL_S 15		/* from SIGTERM to SIGKILL */
#define MEMORY_MB "64"		/* that a node may grow by */
#define QUEUE "50000"		/* events that wait in a node */
#define NODES "4000"		/* of the call tree, and so many functions at most */
#define RESULT_MAX (CONTROL_ANSWER_MAX - 64 * 1024)
#define REMARKS_MAX (8u * 1024)
#define TARGETS 32		/* as many as kprof trace takes */
#define NAMES_MAX (TARGETS * (KP_NODE_NAME_MAX + 2))

enum trace_state { LEAVING, TRACING, DONE, FAILED };

struct one {
	uint64_t id;		/* 0: there is none */
	enum trace_state state;
	char *identity;
	char nodes[NAMES_MAX];	/* blanks between them */
	kp_dur_ns time;
	size_t events;
	kp_wall_ns since, until, ended;	/* until: at the latest */
	struct kp_buf result, remarks;
};

struct traces {
	struct event_base *base;
	const struct parts *p;
	struct one v[TRACES_KEPT];
	uint64_t last;		/* the number of the last */
	struct one *now;	/* the one that runs, or NULL */
	struct target *targets[TARGETS];	/* that are away for it */
	unsigned n;
	pid_t child;		/* 0: none */
	bool told;		/* it was told to end */
	struct event *out, *err;	/* its pipes */
	struct event *timer;	/* of the state */
	struct event *turn;	/* does what a report of a target asks for */
	struct event *ended;	/* SIGCHLD */
};

static void
timer_set(struct traces *ts, kp_dur_ns time)
{
	struct timeval tv = { time / KP_NS_PER_S, time % KP_NS_PER_S / 1000 };

	event_add(ts->timer, &tv);
}

/* ---- the child ---- */

enum { ARGS_MAX = 40 + 2 * TARGETS + REACH_ARGS_MAX };

/* Everything is ready before the fork: the other threads may hold any lock. */
struct start {
	const char *argv[ARGS_MAX];
	size_t n;
	char path[4096], time[32], events[32];
	const char *program;
	struct reach_args reach;
	int fds[4];		/* its standard input to error, and tiers.conf */
};

static void
put_args(struct start *s, const char *const *v, size_t n)
{
	memcpy(s->argv + s->n, v, n * sizeof(*v));
	s->n += n;
}

static void
start_args(struct start *s, const struct traces *ts)
{
	const struct one *o = ts->now;
	const char *const first[] = { "kprof", "trace", "_", "-tiers",
		"/proc/self/fd/3", "-identity", o->identity, "-for", s->time,
		"-max-events", s->events, "-max-queue", QUEUE, "-max-memory",
		MEMORY_MB, "-form", "json", "-n", NODES, "-quiet" };

	snprintf(s->time, sizeof(s->time), "%" PRId64 "ms",
	    o->time / KP_NS_PER_MS);
	snprintf(s->events, sizeof(s->events), "%zu", o->events);
	put_args(s, first, sizeof(first) / sizeof(first[0]));
	for (unsigned i = 0; i < ts->n; i++)
		put_args(s, (const char *const[]){ "-target",
		    ts->targets[i]->opts.target }, 2);
	reach_args(&s->reach, &ts->p->o->reach);
	put_args(s, s->reach.v, s->reach.n);
}

/* Above those that the child uses. */
static int
above(int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);

	if (fd >= 0)
		close(fd);
	return high;
}

static int
text_file(const struct conf_file *f)
{
	int fd = memfd_create("tiers.conf", MFD_CLOEXEC);

	if (fd >= 0 && (write(fd, f->text, f->len) != (ssize_t)f->len ||
	    lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* In the child: only what is safe after a fork. */
static void
child_run(struct start *s, pid_t parent)
{
	static const char why[] = "kprofd: cannot run kprof, which traces\n";
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	for (int i = 0; i < 4; i++)
		dup2(s->fds[i], i);
	syscall(SYS_close_range, 4, ~0u, 0);
	execvp(s->program, (char **)(uintptr_t)s->argv);
	n = write(STDERR_FILENO, why, sizeof(why) - 1);
	(void)n;
	_exit(127);
}

static void on_output(evutil_socket_t fd, short what, void *ctx);

/* The reading end of what becomes the child's descriptor, with its event. */
static struct event *
reader(struct traces *ts, int *theirs)
{
	struct event *ev = NULL;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return NULL;
	*theirs = above(fds[1]);
	evutil_make_socket_nonblocking(fds[0]);
	ev = event_new(ts->base, fds[0], EV_READ | EV_PERSIST, on_output, ts);
	if (ev != NULL && event_add(ev, NULL) == 0)
		return ev;
	if (ev != NULL)
		event_free(ev);
	close(fds[0]);
	return NULL;
}

/* False: errno says why. */
static bool
child_start(struct traces *ts)
{
	struct start *s = calloc(1, sizeof(*s));
	pid_t self = getpid();
	bool ok;

	if (s == NULL)
		return false;
	start_args(s, ts);
	for (int i = 0; i < 4; i++)
		s->fds[i] = -1;
	s->program = self_program(s->path, sizeof(s->path), "kprof");
	s->fds[0] = above(open("/dev/null", O_RDONLY | O_CLOEXEC));
	ts->out = reader(ts, &s->fds[1]);
	ts->err = reader(ts, &s->fds[2]);
	s->fds[3] = above(text_file(&ts->p->conf));
	ok = s->fds[0] >= 0 && ts->out != NULL && s->fds[1] >= 0 &&
	    ts->err != NULL && s->fds[2] >= 0 && s->fds[3] >= 0;
	if (ok)
		ts->child = fork();
	if (ok && ts->child == 0)
		child_run(s, self);
	for (int i = 0; i < 4; i++)
		if (s->fds[i] >= 0)
			close(s->fds[i]);
	free(s);
	if (ok && ts->child > 0)
		return true;
	ts->child = 0;
	return false;
}

static void
pipe_close(struct event **ev)
{
	if (*ev == NULL)
		return;
	close(event_get_fd(*ev));
	event_free(*ev);
	*ev = NULL;
}

/* Takes what has come.  False: it is the end. */
static bool
pipe_read(struct event *ev, struct kp_buf *to)
{
	char bytes[16384];
	ssize_t n;

	while ((n = read(event_get_fd(ev), bytes, sizeof(bytes))) > 0)
		if (to->err == KP_OK)
			kp_buf_put(to, bytes, (size_t)n);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void
on_output(evutil_socket_t fd, short what, void *ctx)
{
	struct traces *ts = ctx;
	struct event **ev = ts->out != NULL && fd == event_get_fd(ts->out) ?
	    &ts->out : &ts->err;

	(void)what;
	if (!pipe_read(*ev, ev == &ts->out ? &ts->now->result :
	    &ts->now->remarks))
		pipe_close(ev);
}

/* ---- one trace ---- */

static void
one_free(struct one *o)
{
	free(o->identity);
	kp_buf_free(&o->result);
	kp_buf_free(&o->remarks);
	*o = (struct one){ 0 };
}

/* Each target has an event, with the time that kprofd was away. */
static void
record(struct traces *ts, const char *text)
{
	for (unsigned i = 0; i < ts->n; i++)
		target_record(ts->targets[i], "trace", text);
}

/* Has the child written its result, an object on a line? */
static bool
is_whole(const struct kp_buf *b)
{
	return b->err == KP_OK && b->len > 2 && b->p[0] == '{' &&
	    memcmp(b->p + b->len - 2, "}\n", 2) == 0;
}

/* It has ended: the agents come back. */
/* Does the result, which the child has written, say that a request began? */
static bool
has_begun(const struct kp_buf *result)
{
	static const char key[] = "\"begun\":";
	const char *at = memmem(result->p, result->len, key, sizeof(key) - 1);

	return at != NULL && at[sizeof(key) - 1] != '0';
}

static void
over(struct traces *ts, const char *failed)
{
	struct one *o = ts->now;
	char text[600];

	pipe_close(&ts->out);
	pipe_close(&ts->err);
	event_del(ts->timer);
	if (failed != NULL)
		kp_buf_printf(&o->remarks, "kprof: %s\n", failed);
	o->state = failed == NULL && is_whole(&o->result) ? DONE : FAILED;
	if (o->result.err != KP_OK)
		kp_buf_printf(&o->remarks, "kprof: the result is too large\n");
	o->ended = kp_wall_now();
	snprintf(text, sizeof(text), "%s one request of type '%s': kprofd "
	    "was away for %.1f s (trace %" PRIu64 ")", o->state != DONE ?
	    "could not trace" : has_begun(&o->result) ? "traced" :
	    "waited in vain for", o->identity,
	    (double)(o->ended - o->since) / 1e9, o->id);
	record(ts, text);
	log_info("trace", NULL, "%s", text);
	ts->now = NULL;
	event_active(ts->turn, EV_TIMEOUT, 0);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct traces *ts = ctx;

	(void)fd, (void)what;
	if (ts->now == NULL)
		return;
	if (ts->child == 0) {
		over(ts, "a target did not let kprofd's agent leave in time");
		return;
	}
	kill(ts->child, ts->told ? SIGKILL : SIGTERM);
	ts->told = true;
	timer_set(ts, KILL_S * KP_NS_PER_S);
}

static void
on_child(evutil_socket_t sig, short what, void *ctx)
{
	struct traces *ts = ctx;

	(void)sig, (void)what;
	if (ts->child == 0 || waitpid(ts->child, NULL, WNOHANG) != ts->child)
		return;
	ts->child = 0;
	if (ts->out != NULL)
		pipe_read(ts->out, &ts->now->result);
	if (ts->err != NULL)
		pipe_read(ts->err, &ts->now->remarks);
	over(ts, NULL);
}

/* All agents have left, or all come back: not in the middle of a target's own step. */
static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	struct traces *ts = ctx;
	char why[FILE_WHY_MAX + 60];

	(void)fd, (void)what;
	if (ts->now == NULL) {
		for (unsigned i = 0; i < targets_count(ts->p->targets); i++)
			agent_come_back(targets_at(ts->p->targets, i)->agent);
		ts->n = 0;
		return;
	}
	for (unsigned i = 0; i < ts->n; i++)
		if (agent_state(ts->targets[i]->agent) != AGENT_AWAY)
			return;
	if (ts->now->state != LEAVING)
		return;
	ts->now->state = TRACING;
	ts->told = false;
	if (ts->n == 0) {
		over(ts, "the targets have gone");
	} else if (child_start(ts)) {
		timer_set(ts, ts->now->time + SETUP_S * KP_NS_PER_S);
	} else {
		snprintf(why, sizeof(why), "cannot start kprof: %s",
		    strerror(errno));
		over(ts, why);
	}
}

void
traces_on_state(struct traces *ts, struct target *t, enum agent_state s)
{
	if (s == AGENT_AWAY)
		event_active(ts->turn, EV_TIMEOUT, 0);
	else if (s == AGENT_ENDED)
		traces_gone(ts, t);
}

void
traces_gone(struct traces *ts, const struct target *t)
{
	for (unsigned i = 0; i < ts->n; i++)
		if (ts->targets[i] == t)
			ts->targets[i--] = ts->targets[--ts->n];
	event_active(ts->turn, EV_TIMEOUT, 0);
}

/* ---- what clients see ---- */

/* The child's remarks, a string for each line, without the program's name. */
static void
json_remarks(struct json *j, const struct one *o)
{
	const char *p = (const char *)o->remarks.p, *end = p + o->remarks.len;
	size_t n;

	json_array(j, "remarks");
	for (; p < end; p += n + 1) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));

		n = (size_t)((eol != NULL ? eol : end) - p);
		if (n > 7 && memcmp(p, "kprof: ", 7) == 0)
			json_string_n(j, NULL, p + 7, n - 7);
		else if (n > 0)
			json_string_n(j, NULL, p, n);
	}
	json_end(j);
}

/* The result, an object on a line, is the last member. */
static void
put_one(struct kp_buf *b, const struct one *o)
{
	static const char *const states[] = { "leaving", "tracing", "done",
		"failed" };
	const char *p = o->nodes;
	struct json j;

	json_open(&j, b);
	json_uint(&j, "id", o->id);
	json_string(&j, "identity", o->identity);
	json_array(&j, "nodes");
	for (size_t n; *p != '\0'; p += n + (p[n] == ' ')) {
		n = strcspn(p, " ");
		json_string_n(&j, NULL, p, n);
	}
	json_end(&j);
	json_string(&j, "state", states[o->state]);
	json_time(&j, "since", o->since);
	json_time(&j, "until", o->until);
	json_time(&j, "ended", o->ended);
	json_ms(&j, "away_ms", (o->ended != 0 ? o->ended : kp_wall_now()) -
	    o->since);
	json_remarks(&j, o);
	if (o->state == DONE) {
		kp_buf_str(b, ",\"result\":");
		kp_buf_put(b, o->result.p, o->result.len - 1);
	}
	json_close(&j);
}

static void
answer(struct control_client *c, const struct one *o)
{
	struct kp_buf b;

	kp_buf_init(&b, CONTROL_ANSWER_MAX);
	put_one(&b, o);
	control_answer_buf(c, &b);
}

void
traces_show(struct traces *ts, struct control_client *c, uint64_t id)
{
	char why[200];

	for (struct one *o = ts->v; o < ts->v + TRACES_KEPT && id > 0; o++)
		if (o->id == id) {
			answer(c, o);
			return;
		}
	snprintf(why, sizeof(why), "there is no trace %" PRIu64 ": kprofd keeps "
	    "the last %d, until it ends", id, TRACES_KEPT);
	control_refuse(c, why);
}

/* Why there can be none now; false: there can. */
static bool
refused(const struct traces *ts, const struct trace_opts *o, char *why, size_t n)
{
	char since[TIMEFMT_MAX], until[TIMEFMT_MAX];

	if (ts->now != NULL || ts->n > 0)
		snprintf(why, n, "a request of type '%s' is being traced (trace %"
		    PRIu64 ", on %s, since %s, until %s at the latest): one at "
		    "a time", ts->v[ts->last % TRACES_KEPT].identity, ts->last,
		    ts->v[ts->last % TRACES_KEPT].nodes,
		    timefmt_local(since, ts->v[ts->last % TRACES_KEPT].since),
		    timefmt_local(until, ts->v[ts->last % TRACES_KEPT].until));
	else if (!kp_conf_has_identity(ts->p->conf.conf))
		snprintf(why, n, "'%s' has no identity fun: no request is of type "
		    "'%s'", ts->p->conf.path, o->identity);
	else if (reload_busy(ts->p->reload))
		snprintf(why, n, "tiers.conf is being reloaded: try again");
	else if (targets_stopping(ts->p->targets))
		snprintf(why, n, "kprofd is ending");
	else
		return false;
	return true;
}

/*
 * The targets that match and have been armed; false: too many.  One that was not may still
 * turn out to be one that kprofd cannot profile, which ends it.
 */
static bool
choose(struct traces *ts, const struct trace_opts *o)
{
	enum agent_state s;
	struct target *t;

	ts->n = 0;
	for (unsigned i = 0; i < targets_count(ts->p->targets); i++) {
		t = targets_at(ts->p->targets, i);
		s = agent_state(t->agent);
		if (s < AGENT_CHECKING || s > AGENT_PAUSED || !t->was_armed ||
		    (o->globs != NULL && !kp_globs(o->globs, t->node)))
			continue;
		if (ts->n == TARGETS)
			return false;
		ts->targets[ts->n++] = t;
	}
	return true;
}

/* NULL when out of memory. */
static struct one *
one_new(struct traces *ts, const struct trace_opts *o)
{
	struct one *one = &ts->v[++ts->last % TRACES_KEPT];
	size_t n = 0;

	one_free(one);
	*one = (struct one){ .id = ts->last, .identity = strdup(o->identity),
		.time = o->time, .events = o->events, .since = kp_wall_now() };
	kp_buf_init(&one->result, RESULT_MAX);
	kp_buf_init(&one->remarks, REMARKS_MAX);
	if (one->identity == NULL) {
		one_free(one);
		return NULL;
	}
	one->until = one->since + o->time + (LEAVE_S + SETUP_S + KILL_S) *
	    KP_NS_PER_S;
	for (unsigned i = 0; i < ts->n; i++)
		n += (size_t)snprintf(one->nodes + n, sizeof(one->nodes) - n,
		    "%s%s", i > 0 ? " " : "", ts->targets[i]->node);
	return one;
}

void
traces_begin(struct traces *ts, struct control_client *c,
    const struct trace_opts *o)
{
	struct target *v[TARGETS];
	char why[NAMES_MAX + 600];
	unsigned n;

	if (refused(ts, o, why, sizeof(why))) {
		control_refuse(c, why);
		return;
	}
	if (!choose(ts, o) || ts->n == 0) {
		control_refuse(c, ts->n > 0 ? "these are more than 32 targets: "
		    "name some of them" : "no target of these is attached just "
		    "now (kprof status)");
		ts->n = 0;
		return;
	}
	ts->now = one_new(ts, o);
	if (ts->now == NULL) {
		ts->n = 0;
		control_refuse(c, "out of memory");
		return;
	}
	snprintf(why, sizeof(why), "tracing is paused: one request of type "
	    "'%.100s' is traced whole (trace %" PRIu64 ")", o->identity,
	    ts->now->id);
	timer_set(ts, LEAVE_S * KP_NS_PER_S);
	n = ts->n;
	memcpy(v, ts->targets, sizeof(v));
	for (unsigned i = 0; i < n; i++)
		agent_go_away(v[i]->agent, why);
	answer(c, ts->now);
}

struct traces *
traces_new(struct event_base *base, const struct parts *p)
{
	struct traces *ts = calloc(1, sizeof(*ts));

	if (ts == NULL)
		return NULL;
	ts->base = base;
	ts->p = p;
	ts->timer = event_new(base, -1, 0, on_timer, ts);
	ts->turn = event_new(base, -1, 0, on_turn, ts);
	ts->ended = event_new(base, SIGCHLD, EV_SIGNAL | EV_PERSIST, on_child,
	    ts);
	if (ts->timer == NULL || ts->turn == NULL || ts->ended == NULL ||
	    event_add(ts->ended, NULL) != 0) {
		traces_free(ts);
		return NULL;
	}
	return ts;
}

void
traces_free(struct traces *ts)
{
	struct event *evs[3];

	if (ts == NULL)
		return;
	if (ts->child > 0)
		kill(ts->child, SIGTERM);
	pipe_close(&ts->out);
	pipe_close(&ts->err);
	evs[0] = ts->timer, evs[1] = ts->turn, evs[2] = ts->ended;
	for (size_t i = 0; i < 3; i++)
		if (evs[i] != NULL)
			event_free(evs[i]);
	for (size_t i = 0; i < TRACES_KEPT; i++)
		one_free(&ts->v[i]);
	free(ts);
}
