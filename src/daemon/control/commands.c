/*
 * commands.c - parses a command line, looks the command up in a table, and
 * answers it, or has it answered by reload.c, check.c or in_flight.c.
 *
 * Commands that targets carry out wait in a table until the last outcome is in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "client/ctl_socket.h"
#include "daemon/check/check.h"
#include "daemon/check/check_message.h"
#include "daemon/control/commands.h"
#include "daemon/control/in_flight.h"
#include "daemon/control/reload.h"
#include "daemon/control/traces.h"
#include "daemon/log.h"
#include "daemon/nodes/targets.h"
#include "kprofd/etf.h"
#include "report/report.h"
#include "store/live_window.h"
#include "text/timefmt.h"

#define CLEAR_S 600		/* the longest wait: it goes through all processes */

enum wait_for { WAIT_PAUSED, WAIT_RESUMED, WAIT_CLEARED };

/* LATER: the target will do it when it is attached again. */
enum outcome { DONE, LATER, FAILED };

struct result {
	enum outcome how;
	char text[700];		/* if not DONE: why */
};

struct wait {
	uint64_t client;
	enum wait_for want;
	bool busy;
	unsigned n, left;	/* targets, and those without an outcome */
	unsigned failed;
	char later[1024], bad[1024];	/* the first text of each; "": none */
	struct {
		const struct target *t;	/* NULL: its outcome is in */
		uint64_t number;	/* of the question, for WAIT_CLEARED */
	} v[TARGETS_MAX];
};

struct commands {
	const struct parts *p;
	struct wait waits[CONTROL_CLIENTS_MAX];
};

/* A line, parsed. */
struct command {
	enum wait_for want;		/* of commands that wait for targets */
	bool json, stacks;
	size_t rows;
	const char *globs;	/* blanks between them; NULL: all targets */
	char text[CONTROL_LINE_MAX];	/* the globs */
	size_t bytes;			/* of the text behind the line */
	const char *mark;	/* in the line, or a request type; NULL: none */
	kp_dur_ns time;			/* of a trace */
	size_t events;
	uint64_t id;			/* 0: of none */
};

/* ---- commands that wait for targets ---- */

/* Is state s an outcome for a client that wants this? */
static bool
result_of(struct result *r, enum wait_for want, const struct target *t,
    enum agent_state s, const char *text)
{
	if (s == AGENT_STOPPING && agent_goes_away(t->agent))
		s = AGENT_AWAY;
	switch (s) {
	case AGENT_PAUSED:
		r->how = DONE;
		return want == WAIT_PAUSED;
	case AGENT_ARMED:
		r->how = DONE;
		return want == WAIT_RESUMED;
	case AGENT_TRIPPED:
		r->how = FAILED;
		snprintf(r->text, sizeof(r->text), "it was overloaded again: "
		    "%s; it resumes by itself", text);
		return want == WAIT_RESUMED;
	case AGENT_CONNECTING:
	case AGENT_AWAY:
	case AGENT_LOST:
		r->how = want == WAIT_CLEARED ? FAILED : LATER;
		snprintf(r->text, sizeof(r->text), "%s", want == WAIT_CLEARED ?
		    "the connection to the target was lost before it "
		    "reported the end" : want == WAIT_PAUSED ?
		    "not attached to the target just now (kprof status): it "
		    "will pause as soon as it is" :
		    "not attached to the target just now (kprof status): it "
		    "will measure as soon as it is");
		return true;
	case AGENT_STOPPING:
	case AGENT_ENDED:
		r->how = FAILED;
		snprintf(r->text, sizeof(r->text), "%s%s%s",
		    t->in_set.sources == 0 ? "it is no longer a target" :
		    "kprofd is ending", text[0] != '\0' ? ": " : "", text);
		return true;
	default:
		return false;
	}
}

/* Answers when all outcomes are in: of one target its text, of several a sum. */
static void
wait_end(struct commands *cs, struct wait *o)
{
	static const char *const done[] = { "paused", "resumed",
		"tokens cleared" };
	struct control_client *c = control_client_get(cs->p->control, o->client);
	bool ok = o->failed == 0;
	const char *why = ok ? o->later : o->bad;
	char text[1200];

	o->busy = false;
	if (c == NULL)
		return;
	if (o->n == 1)
		snprintf(text, sizeof(text), "%s%s", why[0] != '\0' ? why :
		    done[o->want], ok ? "\n" : "");
	else if (ok)
		snprintf(text, sizeof(text), "%s on %u targets%s%s\n",
		    done[o->want], o->n, why[0] != '\0' ? "; " : "", why);
	else
		snprintf(text, sizeof(text), "%s on %u of %u targets; %s",
		    done[o->want], o->n - o->failed, o->n, why);
	control_answer(c, ok, text);
}

/* Takes the outcome on the i-th target. */
static void
wait_take(struct commands *cs, struct wait *o, unsigned i,
    const struct result *r)
{
	const struct target *t = o->v[i].t;
	char *to = r->how == FAILED ? o->bad : o->later;

	o->v[i].t = NULL;
	o->left--;
	o->failed += r->how == FAILED;
	if (r->how != DONE && to[0] == '\0') {
		if (o->n == 1)
			snprintf(to, sizeof(o->bad), "%s", r->text);
		else
			snprintf(to, sizeof(o->bad), "'%s': %s", t->node,
			    r->text);
	}
	if (o->left == 0)
		wait_end(cs, o);
}

/*
 * The client's command was given to these n targets.  numbers: for WAIT_CLEARED,
 * of the questions; 0: that target was not attached.  Answers at once
 * where there is nothing to wait for.
 */
static void
wait_add(struct commands *cs, struct control_client *c, enum wait_for want,
    struct target *const *v, const uint64_t *numbers, unsigned n)
{
	const struct result away = { FAILED, "not attached to the target just "
	    "now (kprof status)" };
	struct wait *o = cs->waits;
	struct result r;

	/* a client that has gone leaves its place */
	while (o < cs->waits + CONTROL_CLIENTS_MAX && o->busy &&
	    control_client_get(cs->p->control, o->client) != NULL)
		o++;
	if (o == cs->waits + CONTROL_CLIENTS_MAX) {
		control_refuse(c, "too many wait already");
		return;
	}
	*o = (struct wait){ .client = control_client_id(c), .want = want,
		.busy = true, .n = n, .left = n };
	for (unsigned i = 0; i < n; i++) {
		o->v[i].t = v[i];
		o->v[i].number = numbers[i];
	}
	for (unsigned i = 0; i < n; i++)
		if (want == WAIT_CLEARED && numbers[i] == 0)
			wait_take(cs, o, i, &away);
		else if (result_of(&r, want, v[i], agent_state(v[i]->agent),
		    ""))
			wait_take(cs, o, i, &r);
}

void
commands_on_state(struct commands *cs, const struct target *t, enum agent_state s,
    const char *text)
{
	struct result r;

	for (struct wait *o = cs->waits; o < cs->waits + CONTROL_CLIENTS_MAX; o++)
		for (unsigned i = 0; o->busy && i < o->n; i++)
			if (o->v[i].t == t &&
			    result_of(&r, o->want, t, s, text))
				wait_take(cs, o, i, &r);
}

static void
on_cleared(void *ctx, uint64_t number, struct kp_term *answer)
{
	struct target *t = ctx;
	struct commands *cs = t->p->commands;
	struct result r = { .how = DONE };

	if (answer == NULL)
		result_of(&r, WAIT_CLEARED, t, AGENT_LOST, "");
	for (struct wait *o = cs->waits; o < cs->waits + CONTROL_CLIENTS_MAX; o++)
		for (unsigned i = 0; o->busy && i < o->n; i++)
			if (o->v[i].t == t && o->want == WAIT_CLEARED &&
			    o->v[i].number == number)
				wait_take(cs, o, i, &r);
}

/* Returns the number of the question; 0: the target is not attached. */
static uint64_t
clear_tokens(struct target *t)
{
	struct kp_buf b;

	if (agent_state(t->agent) < AGENT_ARMED)
		return 0;
	agent_ask_begin(t->agent, &b);
	kp_etf_atom(&b, "clear_tokens");
	return agent_ask(t->agent, &b, on_cleared, t, CLEAR_S);
}

/* ---- commands for targets ---- */

/* The targets that match and have not ended. */
static unsigned
matching(const struct targets *ts, const struct command *cmd,
    struct target **v)
{
	struct target *t;
	unsigned n = 0;

	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		if (!t->in_set.over && (cmd->globs == NULL ||
		    kp_globs(cmd->globs, t->node)))
			v[n++] = t;
	}
	return n;
}

/* Answers where no target matches. */
static void
answer_none(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	static const char *const then[] = { "will pause", "will measure" };
	char text[CONTROL_LINE_MAX + 400];
	const char *names[TARGETS_MAX], *near;
	struct target *all[TARGETS_MAX];
	unsigned n;

	if (cmd->globs != NULL) {
		n = matching(cs->p->targets, &(struct command){ .globs = NULL }, all);
		for (unsigned i = 0; i < n; i++)
			names[i] = all[i]->node;
		near = near_name(cmd->globs, names, n, sizeof(*names),
		    (struct near_rule){ .edits = 2, .share = 3, .kept = 1 });
		snprintf(text, sizeof(text), "no target matches '%s'%s%s%s (kprof "
		    "status lists them)", cmd->globs, near != NULL ?
		    ": did you mean '" : "", near != NULL ? near : "",
		    near != NULL ? "'?" : "");
		control_refuse(c, text);
	} else if (cmd->want == WAIT_CLEARED) {
		control_refuse(c, "there is no target just now (kprof status)");
	} else {
		snprintf(text, sizeof(text), "there is no target just now: "
		    "those that come %s\n", then[cmd->want]);
		control_answer(c, true, text);
	}
}

static void
do_wait(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	enum wait_for want = cmd->want;
	uint64_t numbers[TARGETS_MAX] = { 0 };
	struct target *v[TARGETS_MAX];
	unsigned n = matching(cs->p->targets, cmd, v);
	unsigned again = want == WAIT_RESUMED ?
	    targets_again(cs->p->targets, cmd->globs) : 0;

	/* for targets to come, too */
	if (cmd->globs == NULL && want != WAIT_CLEARED)
		targets_pause_new(cs->p->targets, want == WAIT_PAUSED);
	if (n == 0) {
		if (again > 0)
			control_answer(c, true, "what had failed is tried again\n");
		else
			answer_none(cs, c, cmd);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (want == WAIT_PAUSED)
			agent_pause(v[i]->agent);
		else if (want == WAIT_RESUMED)
			agent_resume(v[i]->agent);
		else
			numbers[i] = clear_tokens(v[i]);
	}
	wait_add(cs, c, want, v, numbers, n);
}

static void
do_status(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct kp_buf b;

	kp_buf_init(&b, CONTROL_ANSWER_MAX);
	status_text(&b, cs->p, cmd->globs, cmd->json);
	control_answer_buf(c, &b);
}

static void
do_flight(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	flight_answer(cs->p->flights, c, &(struct flight_opts){ cmd->globs,
	    cmd->rows, cmd->json, cmd->stacks });
}

/* Replaces what kprof would read by the JSON of its report, for the page. */
static enum kp_err
running_json(struct kp_buf *b, const struct kp_conf *conf)
{
	struct kp_query_tiers tiers = { calloc(conf->ntiers + 1, sizeof(*tiers.v)),
		conf->ntiers, conf->ntiers };
	struct live_windows running = { 0 };
	struct report *r = NULL;
	enum kp_err err = tiers.v == NULL ? KP_ENOMEM :
	    live_windows_read(&running, b->p, b->len);

	for (size_t i = 0; err == KP_OK && i < tiers.n; i++)
		tiers.v[i] = conf->tiers[i].name;
	if (err == KP_OK && running.n > 0)
		err = report_from_running(&tiers, NULL, &running, &r);
	kp_buf_reset(b);
	if (r != NULL)
		report_json(b, r);
	else
		kp_buf_str(b, "{\"running\":false}\n");
	report_free(r);
	live_windows_free(&running);
	free(tiers.v);
	return err;
}

/* Windows of targets that have stored none yet: kprof and the page show them meanwhile. */
static void
do_running(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct target *v[TARGETS_MAX];
	unsigned n = matching(cs->p->targets, cmd, v);
	struct kp_window *w;
	enum kp_err err = KP_OK;
	uint64_t closed = 0;
	struct kp_buf b;

	for (unsigned i = 0; i < n; i++)
		closed += v[i]->windows;
	kp_buf_init(&b, CONTROL_ANSWER_MAX);
	live_windows_put_head(&b, closed, daemon_window_left(cs->p->daemon));
	for (unsigned i = 0; i < n && b.err == KP_OK; i++) {
		w = v[i]->windows > 0 ? NULL :
		    target_running(v[i], kp_moment_now());
		if (w != NULL)
			live_windows_put(&b, w);
		kp_window_free(w);
	}
	if (cmd->json && b.err == KP_OK)
		err = running_json(&b, cs->p->conf.conf);
	if (b.err == KP_ELIMIT || err != KP_OK) {
		control_refuse(c, err == KP_ENOMEM ? "there is no memory to show the "
		    "running window" : "the running window has too many request "
		    "types to be shown before it is stored");
		kp_buf_free(&b);
		return;
	}
	control_answer_buf(c, &b);
}

static void
do_metrics(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct kp_buf b;

	(void)cmd;
	kp_buf_init(&b, CONTROL_ANSWER_MAX);
	self_metrics_text(&b, cs->p);
	control_answer_buf(c, &b);
}

/* ---- commands for the daemon ---- */

/* A `kprof dump` or `mark` that waits for the disk. */
struct dump {
	const struct parts *p;
	uint64_t client;
	const char *done;	/* the answer; static */
};

static void
dump_done(void *what, bool ok)
{
	struct dump *dump = what;
	struct control_client *c = control_client_get(dump->p->control,
	    dump->client);
	struct kp_store_status st;

	kp_store_status(dump->p->store, &st);
	if (c != NULL)
		control_answer(c, ok, ok ? dump->done : st.why);
	free(dump);
}

/* NULL, after refusing: nothing is to be written. */
static struct dump *
dump_new(struct commands *cs, struct control_client *c, const char *done)
{
	struct dump *dump = NULL;

	if (!deferred_may_call(cs->p->deferred))
		control_refuse(c, "too many dumps and marks at once");
	else if ((dump = malloc(sizeof(*dump))) == NULL)
		control_refuse(c, "out of memory");
	else
		*dump = (struct dump){ cs->p, control_client_id(c), done };
	return dump;
}

static void
do_dump(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	const struct kp_moment now = kp_moment_now();
	struct dump *dump;

	if (cmd->stacks && cs->p->conf.conf->stacks.per_second == 0) {
		control_refuse(c, "no stacks are sampled: add {stacks, "
		    "{per_second, 20}} to tiers.conf, and run kprof reload");
		return;
	}
	dump = dump_new(cs, c, "written\n");
	/* Windows are cut short only for a dump that is made. */
	if (dump == NULL)
		return;
	for (unsigned i = 0; i < targets_count(cs->p->targets); i++)
		target_rotate(targets_at(cs->p->targets, i), now);
	deferred_call(cs->p->deferred, dump, dump_done);
}

static void
do_mark(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct kp_happening h = { .at = kp_wall_now(), .node = "",
		.kind = "mark" };
	const char *wrong = ctl_mark_wrong(cmd->mark != NULL ? cmd->mark : "");
	struct target *v[TARGETS_MAX];
	unsigned n = cmd->globs != NULL ? matching(cs->p->targets, cmd, v) : 0;
	struct dump *dump;
	char text[100];

	if (wrong != NULL) {
		snprintf(text, sizeof(text), "the text of a mark %s", wrong);
		control_refuse(c, text);
		return;
	}
	if (cmd->globs != NULL && n == 0) {
		answer_none(cs, c, cmd);
		return;
	}
	dump = dump_new(cs, c, "marked\n");
	if (dump == NULL)
		return;
	for (unsigned i = 0; i < n; i++) {
		log_info("mark", v[i]->node, "mark of '%s': %s", v[i]->node,
		    cmd->mark);
		target_record(v[i], "mark", cmd->mark);
	}
	if (n == 0) {
		log_info("mark", NULL, "mark: %s", cmd->mark);
		snprintf(h.text, sizeof(h.text), "%s", cmd->mark);
		kp_store_happening(cs->p->store, &h);
	}
	deferred_call(cs->p->deferred, dump, dump_done);
}

static void
do_reload(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	(void)cmd;
	reload_ask(cs->p->reload, c);
}

static void
do_check(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	if (cmd->bytes == 0 || cmd->bytes > CHECK_MESSAGE_MAX)
		control_refuse(c, "a check needs the text of a tiers.conf");
	else
		control_take(c, cmd->bytes, cmd->json ? checks_take_json :
		    checks_take, cs->p->checks);
}

static void
do_trace(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	const char *wrong = ctl_mark_wrong(cmd->mark != NULL ? cmd->mark : "");
	char text[100];

	if (wrong != NULL) {
		snprintf(text, sizeof(text), "the name of the request type %s",
		    wrong);
		control_refuse(c, text);
	} else if (cmd->time == 0 || cmd->time > TRACE_FOR_MAX ||
	    cmd->events == 0 || cmd->events > TRACE_EVENTS_MAX) {
		control_refuse(c, "a trace waits for 60 s at most, and takes 1 to "
		    "1000000 events");
	} else {
		traces_begin(cs->p->traces, c, &(struct trace_opts){ cmd->mark,
		    cmd->globs, cmd->time, cmd->events });
	}
}

static void
do_traces(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	traces_show(cs->p->traces, c, cmd->id);
}

/* ---- the table ---- */

static const struct known {
	const char *name;
	bool takes_json, takes_node, takes_text;
	void (*run)(struct commands *cs, struct control_client *c,
	    const struct command *cmd);
	enum wait_for want;
} commands[] = {
	{ "status", true, true, false, do_status, 0 },
	{ "flight", true, true, false, do_flight, 0 },
	{ "running", true, true, false, do_running, 0 },
	{ "metrics", false, false, false, do_metrics, 0 },
	{ "dump", false, false, false, do_dump, 0 },
	{ "mark", false, true, false, do_mark, 0 },
	{ "trace", false, true, false, do_trace, 0 },
	{ "traces", false, false, false, do_traces, 0 },
	{ "pause", false, true, false, do_wait, WAIT_PAUSED },
	{ "resume", false, true, false, do_wait, WAIT_RESUMED },
	{ "reload", false, false, false, do_reload, 0 },
	{ "check", true, false, true, do_check, 0 },
	{ "clear-tokens", false, true, false, do_wait, WAIT_CLEARED },
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Reads the words after the command.  False: one is not understood. */
static bool
take_words(struct command *cmd, const char *p, const struct known *k)
{
	char *to = cmd->text, *end, word[24];
	size_t n;

	for (p += strspn(p, " "); *p != '\0'; p += strspn(p, " ")) {
		n = strcspn(p, " ");
		if (k->takes_json && n == 4 && memcmp(p, "json", n) == 0) {
			cmd->json = true;
		} else if ((k->run == do_flight || k->run == do_dump) && n == 6 &&
		    memcmp(p, "stacks", n) == 0) {
			cmd->stacks = true;
		} else if (k->run == do_flight && n > 2 && p[2] >= '0' &&
		    p[2] <= '9' && memcmp(p, "n=", 2) == 0) {
			cmd->rows = strtoul(p + 2, &end, 10);
			if (end != p + n)
				return false;
		} else if ((k->run == do_mark || k->run == do_trace) &&
		    strncmp(p, "text=", 5) == 0) {
			cmd->mark = p + 5;
			return true;
		} else if (k->run == do_trace && n < 24 && n > 4 &&
		    memcmp(p, "for=", 4) == 0) {
			snprintf(word, sizeof(word), "%.*s", (int)n - 4, p + 4);
			if (!kp_dur_parse(word, &cmd->time))
				return false;
		} else if (k->run == do_trace && n > 7 && p[7] >= '0' &&
		    p[7] <= '9' && memcmp(p, "events=", 7) == 0) {
			cmd->events = strtoul(p + 7, &end, 10);
			if (end != p + n)
				return false;
		} else if (k->run == do_traces && n > 3 && p[3] >= '0' &&
		    p[3] <= '9' && memcmp(p, "id=", 3) == 0) {
			cmd->id = strtoull(p + 3, &end, 10);
			if (end != p + n)
				return false;
		} else if (k->takes_node && n > 5 &&
		    n < (size_t)(cmd->text + sizeof(cmd->text) - to) &&
		    memcmp(p, "node=", 5) == 0) {
			to += sprintf(to, "%s%.*s", to > cmd->text ? " " : "",
			    (int)(n - 5), p + 5);
			cmd->globs = cmd->text;
		} else if (k->takes_text && n > 6 && p[6] >= '0' &&
		    p[6] <= '9' && memcmp(p, "bytes=", 6) == 0) {
			cmd->bytes = strtoul(p + 6, &end, 10);
			if (end != p + n)
				return false;
		} else {
			return false;
		}
		p += n;
	}
	return true;
}

void
commands_take(void *ctx, struct control_client *c, const char *line)
{
	struct commands *cs = ctx;
	size_t n = strcspn(line, " ");
	struct command cmd = { .rows = FLIGHT_ROWS, .time = TRACE_FOR,
		.events = TRACE_EVENTS };
	char text[200];

	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (strlen(commands[i].name) != n ||
		    memcmp(commands[i].name, line, n) != 0 ||
		    !take_words(&cmd, line + n, &commands[i]))
			continue;
		cmd.want = commands[i].want;
		commands[i].run(cs, c, &cmd);
		return;
	}
	snprintf(text, sizeof(text), "unknown command '%.100s'", line);
	control_refuse(c, text);
}

struct commands *
commands_new(const struct parts *p)
{
	struct commands *cs = calloc(1, sizeof(*cs));

	if (cs != NULL)
		cs->p = p;
	return cs;
}

void
commands_free(struct commands *cs)
{
	free(cs);
}
