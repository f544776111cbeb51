/*
 * commands.c - parses a command line, looks the command up in a table, and
 * answers it, or has it answered by reload.c or pending_commands.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/check/check_answer.h"
#include "daemon/control/commands.h"
#include "daemon/control/status.h"
#include "store/running.h"
#include "daemon/check/check_message.h"

#define SYNCS_MAX CONTROL_CLIENTS_MAX	/* `kprof dump` at once */
#define ANSWER_MAX (1u << 20)	/* bytes: kprof takes no more */

/* A `kprof dump` that waits for the disk. */
struct sync {
	struct commands *cs;
	struct event *done;
	uint64_t client;
	bool ok, busy;
};

struct commands {
	const struct parts *p;
	struct sync syncs[SYNCS_MAX];
};

/* A line, parsed. */
struct command {
	enum wait_for want;		/* of commands that wait for targets */
	bool json, stacks;
	const char *globs;	/* blanks between them; NULL: all targets */
	char text[CONTROL_LINE_MAX];	/* the globs */
	size_t bytes;			/* of the text behind the line */
};

static void
refuse(struct control_client *c, const char *why)
{
	control_answer(c, false, why, strlen(why));
}

/* Frees b; an answer that is too large becomes an error. */
static void
answer(struct control_client *c, struct kp_buf *b)
{
	control_answer(c, b->err == KP_OK, (const char *)b->p, b->len);
	kp_buf_free(b);
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
answer_none(struct control_client *c, const struct command *cmd)
{
	static const char *const then[] = { "will pause", "will measure" };
	char text[CONTROL_LINE_MAX + 100];

	if (cmd->globs != NULL) {
		snprintf(text, sizeof(text), "no target matches '%s' (kprof "
		    "status lists them)", cmd->globs);
		refuse(c, text);
	} else if (cmd->want == WAIT_CLEARED) {
		refuse(c, "there is no target just now (kprof status)");
	} else {
		snprintf(text, sizeof(text), "there is no target just now: "
		    "those that come %s\n", then[cmd->want]);
		control_answer(c, true, text, strlen(text));
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

	/* for targets to come, too */
	if (cmd->globs == NULL && want != WAIT_CLEARED)
		targets_pause_new(cs->p->targets, want == WAIT_PAUSED);
	if (n == 0) {
		answer_none(c, cmd);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (want == WAIT_PAUSED)
			agent_pause(v[i]->agent);
		else if (want == WAIT_RESUMED)
			agent_resume(v[i]->agent);
		else if (agent_clear_tokens(v[i]->agent, &numbers[i]) != KP_OK)
			numbers[i] = 0;
	}
	pending_add(cs->p->pending, c, want, v, numbers, n);
}

static void
do_status(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct kp_buf b;

	kp_buf_init(&b, ANSWER_MAX);
	status_text(&b, cs->p, cmd->globs, cmd->json);
	answer(c, &b);
}

static void
do_flight(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct flights *fs = flights_new(cs->p->targets, cmd->globs);
	struct kp_buf b;

	if (fs == NULL) {
		refuse(c, "no memory");
	} else if (cmd->stacks) {
		flight_asks_add(cs->p->flights, c, cmd->globs, cmd->json, fs);
	} else {
		kp_buf_init(&b, ANSWER_MAX);
		flights_text(&b, fs, cmd->json, NULL);
		flights_free(fs);
		answer(c, &b);
	}
}

/* Windows of targets that have stored none yet: kprof shows them meanwhile. */
static void
do_running(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct target *v[TARGETS_MAX];
	unsigned n = matching(cs->p->targets, cmd, v);
	struct kp_window *w;
	uint64_t closed = 0;
	struct kp_buf b;

	for (unsigned i = 0; i < n; i++)
		closed += v[i]->windows;
	kp_buf_init(&b, ANSWER_MAX);
	running_put_head(&b, closed, daemon_window_left(cs->p->daemon));
	for (unsigned i = 0; i < n && b.err == KP_OK; i++) {
		w = v[i]->windows > 0 ? NULL :
		    target_running(v[i], kp_moment_now());
		if (w != NULL)
			running_put(&b, w);
		kp_window_free(w);
	}
	if (b.err == KP_ELIMIT)
		refuse(c, "the running window has too many request types to be "
		    "shown before it is stored");
	else
		control_answer(c, b.err == KP_OK, (const char *)b.p, b.len);
	kp_buf_free(&b);
}

static void
do_metrics(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct kp_buf b;

	(void)cmd;
	kp_buf_init(&b, ANSWER_MAX);
	self_metrics_text(&b, cs->p);
	answer(c, &b);
}

/* ---- commands for the daemon ---- */

/* Runs in the loop, after sync_done(). */
static void
on_synced(evutil_socket_t fd, short what, void *ctx)
{
	static const char ok[] = "written\n";
	struct sync *s = ctx;
	struct kp_store_status st;
	struct control_client *c;

	(void)fd, (void)what;
	c = control_client_get(s->cs->p->control, s->client);
	s->busy = false;
	if (c == NULL)
		return;
	if (s->ok) {
		control_answer(c, true, ok, strlen(ok));
		return;
	}
	kp_store_status(s->cs->p->store, &st);
	refuse(c, st.why);
}

/* Runs on the writer's thread. */
static void
sync_done(void *ctx, bool ok)
{
	struct sync *s = ctx;

	s->ok = ok;
	event_active(s->done, EV_TIMEOUT, 0);
}

static void
do_dump(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	(void)cmd;
	for (int i = 0; i < SYNCS_MAX; i++)
		if (!cs->syncs[i].busy) {
			cs->syncs[i].busy = true;
			cs->syncs[i].client = control_client_id(c);
			targets_rotate(cs->p->targets, kp_moment_now());
			kp_store_sync(cs->p->store, sync_done, &cs->syncs[i]);
			return;
		}
	refuse(c, "too many dumps at once");
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
		refuse(c, "a check needs the text of a tiers.conf");
	else
		control_take(c, cmd->bytes, check_answer_take, cs->p->checks);
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
	{ "running", false, true, false, do_running, 0 },
	{ "metrics", false, false, false, do_metrics, 0 },
	{ "dump", false, false, false, do_dump, 0 },
	{ "pause", false, true, false, do_wait, WAIT_PAUSED },
	{ "resume", false, true, false, do_wait, WAIT_RESUMED },
	{ "reload", false, false, false, do_reload, 0 },
	{ "check", false, false, true, do_check, 0 },
	{ "clear-tokens", false, true, false, do_wait, WAIT_CLEARED },
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

/* "bytes=N", n characters long. */
static bool
take_bytes(const char *p, size_t n, size_t *to)
{
	char *end;

	if (n <= 6 || memcmp(p, "bytes=", 6) != 0 || p[6] < '0' || p[6] > '9')
		return false;
	*to = strtoul(p + 6, &end, 10);
	return end == p + n;
}

/* Reads the words after the command.  False: one is not understood. */
static bool
take_words(struct command *cmd, const char *p, const struct known *k)
{
	char *to = cmd->text;
	size_t n;

	for (p += strspn(p, " "); *p != '\0'; p += strspn(p, " ")) {
		n = strcspn(p, " ");
		if (k->takes_json && n == 4 && memcmp(p, "json", n) == 0) {
			cmd->json = true;
		} else if (k->run == do_flight && n == 6 &&
		    memcmp(p, "stacks", n) == 0) {
			cmd->stacks = true;
		} else if (k->takes_node && n > 5 &&
		    n < (size_t)(cmd->text + sizeof(cmd->text) - to) &&
		    memcmp(p, "node=", 5) == 0) {
			to += sprintf(to, "%s%.*s", to > cmd->text ? " " : "",
			    (int)(n - 5), p + 5);
			cmd->globs = cmd->text;
		} else if (!k->takes_text || !take_bytes(p, n, &cmd->bytes)) {
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
	struct command cmd = { .json = false };
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
	refuse(c, text);
}

struct commands *
commands_new(struct event_base *base, const struct parts *p)
{
	struct commands *cs = calloc(1, sizeof(*cs));

	if (cs == NULL)
		return NULL;
	cs->p = p;
	for (int i = 0; i < SYNCS_MAX; i++) {
		cs->syncs[i].cs = cs;
		cs->syncs[i].done = event_new(base, -1, 0, on_synced,
		    &cs->syncs[i]);
		if (cs->syncs[i].done == NULL) {
			commands_free(cs);
			return NULL;
		}
	}
	return cs;
}

void
commands_free(struct commands *cs)
{
	if (cs == NULL)
		return;
	for (int i = 0; i < SYNCS_MAX; i++)
		if (cs->syncs[i].done != NULL)
			event_free(cs->syncs[i].done);
	free(cs);
}
