/*
 * commands.c - parses a command line, looks the command up in a table, and
 * answers it or hands it to what will answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/commands.h"
#include "daemon/control/in_flight.h"
#include "daemon/control/status.h"
#include "daemon/control/self_metrics.h"
#include "daemon/control/pending_commands.h"

#define SYNCS_MAX 16	/* `kprof dump` at once: as many as clients */

/* A `kprof dump` that waits for the disk. */
struct sync {
	struct commands *cs;
	struct event *done;
	uint64_t client;
	bool ok, busy;
};

struct commands {
	struct commands_parts p;
	struct sync syncs[SYNCS_MAX];
	struct pending_commands waits;
};

/* One line, taken apart. */
struct command {
	bool json;
	char glob[KP_NODE_NAME_MAX + 1];	/* "": all targets */
};

static void
refuse(struct control_client *c, const char *why)
{
	control_answer(c, false, why, strlen(why));
}

/* ---- those about targets ---- */

/* Those that are meant and can be told anything. */
static unsigned
chosen(const struct commands *cs, const struct command *cmd,
    struct target **v)
{
	const struct targets *ts = cs->p.targets;
	struct target *t;
	unsigned n = 0;

	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		if (!t->in_set.over && (cmd->glob[0] == '\0' ||
		    kp_glob(cmd->glob, t->node)))
			v[n++] = t;
	}
	return n;
}

/* Nobody was told; what is wanted of all holds for those that come, too. */
static void
nobody(struct control_client *c, const struct command *cmd,
    enum wait_for want)
{
	static const char *const then[] = { "will pause", "will measure" };
	char text[400];

	if (cmd->glob[0] != '\0') {
		snprintf(text, sizeof(text), "no target matches '%s' (kprof "
		    "status lists them)", cmd->glob);
		refuse(c, text);
	} else if (want == WAIT_CLEARED) {
		refuse(c, "there is no target just now (kprof status)");
	} else {
		snprintf(text, sizeof(text), "there is no target just now: "
		    "those that come %s\n", then[want]);
		control_answer(c, true, text, strlen(text));
	}
}

static void
do_wait(struct commands *cs, struct control_client *c,
    const struct command *cmd, enum wait_for want)
{
	uint64_t numbers[TARGETS_MAX] = { 0 };
	struct target *v[TARGETS_MAX];
	unsigned n = chosen(cs, cmd, v);

	/* Of all there are, and will be. */
	if (cmd->glob[0] == '\0' && want != WAIT_CLEARED)
		targets_pause_new(cs->p.targets, want == WAIT_PAUSED);
	if (n == 0) {
		nobody(c, cmd, want);
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
	pending_add(&cs->waits, cs->p.control, c, want, v, numbers, n);
}

static void
do_pause(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	do_wait(cs, c, cmd, WAIT_PAUSED);
}

static void
do_resume(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	do_wait(cs, c, cmd, WAIT_RESUMED);
}

static void
do_clear_tokens(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	do_wait(cs, c, cmd, WAIT_CLEARED);
}

void
commands_state(struct commands *cs, const struct target *t,
    enum agent_state s, const char *text)
{
	pending_state(&cs->waits, cs->p.control, t, s, text);
}

void
commands_cleared(struct target *t, uint64_t number)
{
	struct commands *cs = t->p.commands;

	pending_cleared(&cs->waits, cs->p.control, t, number);
}

static struct status
status_now(const struct commands *cs, const struct command *cmd)
{
	return (struct status){ .targets = cs->p.targets,
		.glob = cmd->glob[0] != '\0' ? cmd->glob : NULL,
		.store = cs->p.store, .otlp = cs->p.otlp, .o = cs->p.o,
		.up = kp_mono_now() - cs->p.started };
}

static void
do_status(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	const struct status s = status_now(cs, cmd);
	struct kp_buf b;

	kp_buf_init(&b, 1u << 20);
	status_text(&b, &s, cmd->json);
	control_answer(c, b.err == KP_OK, (const char *)b.p, b.len);
	kp_buf_free(&b);
}

static void
do_flight(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	struct kp_buf b;

	kp_buf_init(&b, 1u << 20);
	in_flight_text(&b, cs->p.targets, cmd->glob[0] != '\0' ? cmd->glob : NULL,
	    cmd->json);
	control_answer(c, b.err == KP_OK, (const char *)b.p, b.len);
	kp_buf_free(&b);
}

static void
do_metrics(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	const struct status s = status_now(cs, cmd);
	struct kp_buf b;

	kp_buf_init(&b, 1u << 20);
	self_metrics_text(&b, &s);
	control_answer(c, b.err == KP_OK, (const char *)b.p, b.len);
	kp_buf_free(&b);
}

/* ---- those about all of it ---- */

/* In the loop again, after the writer's thread said that it is on disk. */
static void
on_synced(evutil_socket_t fd, short what, void *ctx)
{
	static const char ok[] = "written\n";
	struct sync *s = ctx;
	struct kp_store_status st;
	struct control_client *c;

	(void)fd, (void)what;
	c = control_client_get(s->cs->p.control, s->client);
	s->busy = false;
	if (c == NULL)
		return;
	if (s->ok) {
		control_answer(c, true, ok, strlen(ok));
		return;
	}
	kp_store_status(s->cs->p.store, &st);
	refuse(c, st.why);
}

/* On the writer's thread. */
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
			targets_rotate(cs->p.targets, kp_moment_now());
			kp_store_sync(cs->p.store, sync_done, &cs->syncs[i]);
			return;
		}
	refuse(c, "too many dumps at once");
}

static void
do_reload(struct commands *cs, struct control_client *c,
    const struct command *cmd)
{
	(void)cmd;
	reload_ask(cs->p.reload, c);
}

/* ---- which ---- */

static const struct {
	const char *name;
	bool takes_json, takes_node;
	void (*run)(struct commands *cs, struct control_client *c,
	    const struct command *cmd);
} commands[] = {
	{ "status", true, true, do_status },
	{ "flight", true, true, do_flight },
	{ "metrics", false, false, do_metrics },
	{ "dump", false, false, do_dump },
	{ "pause", false, true, do_pause },
	{ "resume", false, true, do_resume },
	{ "reload", false, false, do_reload },
	{ "clear-tokens", false, true, do_clear_tokens },
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Words behind the command; false: one is not understood. */
static bool
take_words(struct command *cmd, const char *p, bool json, bool node)
{
	size_t n;

	for (p += strspn(p, " "); *p != '\0'; p += strspn(p, " ")) {
		n = strcspn(p, " ");
		if (json && n == 4 && memcmp(p, "json", n) == 0)
			cmd->json = true;
		else if (node && n > 5 && n - 5 < sizeof(cmd->glob) &&
		    memcmp(p, "node=", 5) == 0)
			snprintf(cmd->glob, sizeof(cmd->glob), "%.*s",
			    (int)(n - 5), p + 5);
		else
			return false;
		p += n;
	}
	return true;
}

void
commands_take(struct commands *cs, struct control_client *c, const char *line)
{
	size_t n = strcspn(line, " ");
	struct command cmd = { .json = false };
	char text[200];

	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (strlen(commands[i].name) != n ||
		    memcmp(commands[i].name, line, n) != 0 ||
		    !take_words(&cmd, line + n, commands[i].takes_json,
		    commands[i].takes_node))
			continue;
		commands[i].run(cs, c, &cmd);
		return;
	}
	snprintf(text, sizeof(text), "unknown command '%.100s'", line);
	refuse(c, text);
}

struct commands *
commands_new(struct event_base *base, const struct commands_parts *parts)
{
	struct commands *cs = calloc(1, sizeof(*cs));

	if (cs == NULL)
		return NULL;
	cs->p = *parts;
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
