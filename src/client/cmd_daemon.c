/*
 * cmd_daemon.c - commands that ask the daemon of a database: status, flight,
 * mark, dump, pause, resume, reload and clear-tokens.
 *
 * When no daemon answers, status shows what its database holds, and fails:
 * scripts ask whether it runs.  With -target, clear-tokens needs no daemon.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_msg.h"
#include "client.h"
#include "conn/reach.h"
#include "conn/sync.h"
#include "kprofd/clock.h"
#include "kprofd/etf.h"
#include "report/losses.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"
#include "text/timefmt.h"

/* ---- asking ---- */

#define QUIET (3 * KP_NS_PER_S / 2)	/* before it prints that it waits */

static void
put_lines(struct kp_buf *out, const struct kp_buf *text)
{
	text_put_lines(out, (const char *)text->p, text->len);
	if (text->len > 0 && text->p[text->len - 1] != '\n')
		kp_buf_u8(out, '\n');
}

/* ctx: NULL: notes are not printed. */
static bool
on_note(void *ctx, const char *kind, const struct kp_buf *note)
{
	struct kp_buf b;

	if (strcmp(kind, "note") != 0 || ctx == NULL)
		return strcmp(kind, "note") == 0;
	kp_buf_init(&b, 8 * CTL_ANSWER_MAX);
	put_lines(&b, note);
	fputs(kp_buf_cstr(&b), stderr);
	kp_buf_free(&b);
	return true;
}

static void
on_quiet(void *ctx, const char *path)
{
	(void)ctx;
	say("waiting for kprofd at '%s' to answer", path);
}

bool
daemon_line(char line[CTL_LINE_MAX], const char *command, const char *nodes)
{
	if (ctl_line(line, command, nodes))
		return true;
	say("-node is given too often: a command for kprofd has at most %d "
	    "bytes", CTL_LINE_MAX);
	return false;
}

enum kp_err
daemon_ask(const struct place *p, const char *command, unsigned seconds,
    struct kp_buf *answer, char *why, size_t n)
{
	struct ctl_request r = { .see = "-db, -control", .most = CTL_ANSWER_MAX,
		.patience = seconds > 0 ? seconds : CTL_SILENCE_S,
		.each = seconds == 0, .quiet = seconds == 0 ? QUIET : 0,
		.on_quiet = on_quiet,
		.on_message = on_note, .ctx = seconds == 0 ? &r : NULL };
	char *path = NULL, line[CTL_LINE_MAX + 1];
	enum kp_err err;

	if (p->control == NULL && asprintf(&path, "%s.sock",
	    place_dbs(p).v[0]) < 0) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	r.path = p->control != NULL ? p->control : path;
	r.bytes = line;
	r.n = (size_t)snprintf(line, sizeof(line), "%s\n", command);
	err = ctl_request(&r, answer, why, n);
	free(path);
	return err;
}

/*
 * The same, seconds 0; appends the answer to out: JSON as it is, else as lines
 * without terminal control characters.
 */
static enum kp_err
daemon_put(const struct place *p, const char *command, bool json,
    struct kp_buf *out, char *why, size_t n)
{
	struct kp_buf answer;
	enum kp_err err;

	kp_buf_init(&answer, OUTPUT_MAX);
	err = daemon_ask(p, command, 0, &answer, why, n);
	if (err == KP_OK && json)
		kp_buf_put(out, answer.p, answer.len);
	else if (err == KP_OK)
		put_lines(out, &answer);
	kp_buf_free(&answer);
	return err;
}

/* ---- flight, mark, dump, pause, resume, reload ---- */

int
cmd_ctl(const struct cmd *cmd, int argc, char **argv)
{
	/* only these can be limited to some of the targets */
	bool mark = strcmp(cmd->name, "mark") == 0;
	bool some = mark || strcmp(cmd->name, "pause") == 0 ||
	    strcmp(cmd->name, "resume") == 0;
	bool flight = strcmp(cmd->name, "flight") == 0, json = false,
	    stacks = false;
	struct place p = { .control = NULL }, one;
	const char *node = NULL, *text = NULL, *wrong;
	size_t rows = OPT_UNSET;
	const struct opt opts[] = { OPT_DB_EACH(p), OPT_CONTROL(p),
		OPT_NODE(node), OPT_JSON(json), { "stacks", NULL, "show the "
		"stacks of the processes that they are in", opt_flag, &stacks,
		NULL }, OPT_N("100, the oldest; at most 1000", rows) };
	int st, failed = EXIT_DONE;
	char command[60], line[CTL_LINE_MAX], why[1024];
	struct kp_buf out;

	st = opts_parse(cmd, opts, flight ? 6 : some ? 3 : 2, argc, argv,
	    &text);
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &p);
	if (st != OPTS_GO_ON)
		return st;
	snprintf(command, sizeof(command), "%s%s%s", cmd->name,
	    json ? " json" : "", stacks ? " stacks" : "");
	if (rows != OPT_UNSET)
		snprintf(command + strlen(command), 30, " n=%zu", rows);
	if (mark && (wrong = ctl_mark_wrong(text)) != NULL)
		return opts_wrong(cmd, "the TEXT %s", wrong);
	if (!daemon_line(line, command, node))
		return EXIT_USAGE;
	if (mark && !ctl_line_mark(line, text))
		return opts_wrong(cmd, "-node is given too often");
	kp_buf_init(&out, OUTPUT_MAX);
	for (size_t i = 0; i < place_dbs(&p).n; i++) {
		one = place_at(&p, i);
		if (daemon_put(&one, line, json, &out, why, sizeof(why)) ==
		    KP_OK)
			continue;
		say("%s", why);
		failed = EXIT_FAILED;
	}
	st = show(&out);
	return failed != EXIT_DONE ? failed : st;
}

/* ---- status ---- */

#define RUNS 5
#define EVENTS 10

/* What a database says about its runs. */
struct facts {
	const char *path;
	const char *node;		/* glob; NULL: all */
	kp_wall_ns first, last;		/* of all windows; 0: none */
	struct kp_query_sum window;	/* the nodes' last */
	struct kp_query_runs runs;
	struct kp_query_events events;
};

static void
facts_free(struct facts *f)
{
	kp_query_sum_free(&f->window);
	kp_query_runs_free(&f->runs);
	kp_query_events_free(&f->events);
}

static enum kp_err
facts_read(struct facts *f, struct kp_query *q)
{
	struct kp_query_range r = { .until = INT64_MAX, .node = f->node };
	enum kp_err err;

	err = kp_query_span(q, &f->first, &f->last);
	if (err == KP_OK)
		err = kp_query_runs(q, RUNS, &f->runs);
	if (err == KP_OK)
		err = kp_query_events(q, &r, EVENTS, &f->events);
	if (err == KP_OK && f->last != 0)
		err = kp_query_newest(q, f->node, &r.since);
	if (err == KP_OK && r.since != 0)
		err = kp_query_sum(q, &r, &f->window);
	return err;
}

static bool
is_uncounted(const struct kp_query_sum *s)
{
	return s->entry_calls == 0 && s->losses.n[KP_LOSS_UNCOUNTED] > 0;
}

static void
put_windows(struct kp_buf *b, const struct facts *f)
{
	char ago[TEXT_MAX], n[TEXT_MAX];

	if (f->last == 0) {
		kp_buf_str(b, "windows     none yet\n");
		return;
	}
	kp_buf_str(b, "windows     ");
	timefmt_put_range(b, f->first, f->last);
	kp_buf_u8(b, '\n');
	if (f->window.windows == 0)
		return;		/* -node matches none of them */
	kp_buf_printf(b, "last window ended %s ago: %s measured, ",
	    text_span(ago, kp_wall_now() - f->window.end),
	    text_counted(n, f->window.sampled, "request"));
	if (is_uncounted(&f->window))
		kp_buf_str(b, "entry calls not counted (no agent in the "
		    "target)\n");
	else
		kp_buf_printf(b, "%s counted\n", text_counted(n,
		    f->window.entry_calls, "entry call"));
}

static void
put_runs(struct kp_buf *b, const struct kp_query_runs *runs)
{
	char text[TIMEFMT_MAX > TEXT_MAX ? TIMEFMT_MAX : TEXT_MAX];
	const struct kp_query_run *r;
	struct grid g;

	grid_init(&g);
	grid_col(&g, "run", GRID_RIGHT);
	grid_col(&g, "started", GRID_LEFT);
	grid_col(&g, "ended", GRID_LEFT);
	grid_col(&g, "state", GRID_LEFT);
	grid_col(&g, "version", GRID_LEFT);
	for (size_t i = 0; i < runs->n; i++) {
		r = &runs->v[i];
		snprintf(text, sizeof(text), "%" PRId64, r->id);
		grid_cell(&g, text);
		grid_cell(&g, timefmt_local(text, r->started));
		grid_cell(&g, r->ended != 0 ? timefmt_local(text, r->ended) :
		    "-");
		grid_cell(&g, run_state_text(r));
		grid_cell(&g, r->version);
	}
	kp_buf_u8(b, '\n');
	grid_write(&g, 0, b);
	grid_free(&g);
}

static void
put_events(struct kp_buf *b, const struct kp_query_events *events)
{
	const struct kp_query_event *e;
	char text[TIMEFMT_MAX];
	struct grid g;

	if (events->n == 0)
		return;
	grid_init(&g);
	grid_col(&g, "time", GRID_LEFT);
	grid_col(&g, "node", GRID_LEFT);
	grid_col(&g, "event", GRID_LEFT);
	grid_col(&g, "", GRID_LEFT);
	for (size_t i = 0; i < events->n; i++) {
		e = &events->v[i];
		grid_cell(&g, timefmt_local(text, e->at));
		grid_cell(&g, e->node[0] != '\0' ? e->node : "-");
		grid_cell(&g, e->kind);
		grid_cell(&g, e->text);
	}
	kp_buf_u8(b, '\n');
	grid_write(&g, 0, b);
	grid_free(&g);
}

static void
put_plain(struct kp_buf *b, const struct facts *f, const char *why)
{
	kp_buf_str(b, "kprofd      does not answer: ");
	text_put(b, why);
	kp_buf_str(b, "\ndatabase    ");
	text_put(b, f->path);
	kp_buf_u8(b, '\n');
	put_windows(b, f);
	if (f->runs.n > 0 && f->runs.v[0].failed[0] != '\0') {
		kp_buf_str(b, "last start  failed: ");
		text_put(b, f->runs.v[0].failed);
		kp_buf_u8(b, '\n');
	}
	put_runs(b, &f->runs);
	put_events(b, &f->events);
}

static void
put_json(struct kp_buf *b, const struct facts *f, const char *why)
{
	struct json j;

	json_open(&j, b);
	json_null(&j, "kprofd");
	json_string(&j, "why", why);
	json_string(&j, "database", f->path);
	json_time(&j, "first_window", f->first);
	json_time(&j, "last_window", f->last);
	json_uint(&j, "last_sampled", f->window.sampled);
	if (is_uncounted(&f->window))
		json_null(&j, "last_entry_calls");
	else
		json_uint(&j, "last_entry_calls", f->window.entry_calls);
	runs_json(&j, &f->runs);
	events_json(&j, &f->events);
	json_close(&j);
}

static int
status_from_db(const struct place *p, const char *why, const char *node, bool json)
{
	struct facts f = { .path = place_dbs(p).v[0], .node = node };
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err;

	if (open_db(&q, p) != KP_OK) {
		say("%s", why);
		return EXIT_FAILED;
	}
	kp_buf_init(&b, OUTPUT_MAX);
	err = facts_read(&f, q);
	if (err == KP_OK && json)
		put_json(&b, &f, why);
	else if (err == KP_OK)
		put_plain(&b, &f, why);
	query_show(q, err, &b);
	facts_free(&f);
	kp_query_close(q);
	return EXIT_FAILED;
}

/*
 * Of the daemon, or of its database where it does not answer; that is a failure
 * even if the database can be read.
 */
static int
status(const struct place *p, const char *line, const char *node, bool json)
{
	struct kp_buf out;
	char why[1024];

	kp_buf_init(&out, OUTPUT_MAX);
	if (daemon_put(p, line, json, &out, why, sizeof(why)) == KP_OK)
		return show(&out);
	kp_buf_free(&out);
	return status_from_db(p, why, node, json);
}

int
cmd_status(const struct cmd *cmd, int argc, char **argv)
{
	struct place p = { .control = NULL }, one;
	const char *node = NULL;
	bool json = false;
	const struct opt opts[] = { OPT_JSON(json), OPT_NODE(node),
		OPT_DB_EACH(p), OPT_CONTROL(p) };
	int st, failed = EXIT_DONE;
	char line[CTL_LINE_MAX];

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &p);
	if (st != OPTS_GO_ON)
		return st;
	if (!daemon_line(line, json ? "status json" : "status", node))
		return EXIT_USAGE;
	for (size_t i = 0; i < place_dbs(&p).n; i++) {
		one = place_at(&p, i);
		if (i > 0 && !json)
			printf("\n");
		st = status(&one, line, node, json);
		failed = st != EXIT_DONE ? st : failed;
	}
	return failed;
}

/* ---- clear-tokens ---- */

#define LIMIT (10 * KP_NS_PER_S)

/*
 * Connects to the node as a hidden node and calls seq_trace:reset_trace() there,
 * which removes every sequential trace token, other tools' too, and stops the
 * node meanwhile.  On error `why` is one line for the user.
 */
static enum kp_err
clear_tokens(const char *target, const struct reach *reach, char *why,
    size_t n)
{
	struct dist_sync_opts o = { .target = target, .reach = reach,
		.wake = -1 };
	struct dist_sync *t;
	enum kp_err e = dist_sync_open(&t, &o, why, n);
	struct kp_term r = { 0 }, at;
	struct kp_buf msg;

	if (e != KP_OK)
		return e;
	if (dist_sync_doubt(t) != NULL)
		say("'%s': unverified: %s", target, dist_sync_doubt(t));
	snprintf(why, n, "cannot ask '%s'", target);
	kp_buf_init(&msg, 4096);
	rpc_begin(&msg, dist_sync_ids(t), "seq_trace", "reset_trace");
	kp_etf_nil(&msg);
	rpc_end(&msg);
	e = dist_sync_rpc(t, &msg);
	kp_buf_free(&msg);
	if (e == KP_OK) {
		e = dist_sync_answer(t, kp_mono_now() + LIMIT, &r);
		if (e == KP_ETIMEOUT)
			snprintf(why, n, "no answer from the node");
		else if (e == KP_EIO)
			snprintf(why, n, "the node closed the connection");
	}
	at = r;
	if (e == KP_OK && kp_term_peek(&at) == KP_TERM_TUPLE &&
	    kp_term_tuple(&at) == 2 &&
	    kp_span_is(kp_term_atom(&at), "badrpc")) {
		msg_text(&r, why, n);
		e = KP_EFORMAT;
	}
	dist_sync_close(t);
	return e;
}

int
cmd_clear_tokens(const struct cmd *cmd, int argc, char **argv)
{
	const char *target = NULL, *node = NULL;
	struct reach reach = { .name = NULL };
	struct place p = { .control = NULL };
	const struct opt opts[] = {
		OPT_DB_ONE(p),
		OPT_CONTROL(p),
		OPT_NODE(node),
		{ "target", "NODE", "do it right on this node, without a "
		    "daemon", opt_node, &target, NULL },
		REACH_OPTIONS_OF(reach),
	};
	struct kp_buf answer;
	char why[1024], line[CTL_LINE_MAX];
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (target != NULL && node != NULL)
		return opts_wrong(cmd, "-node goes with a daemon, -target "
		    "without one: choose one");
	if (target == NULL && reach_given(&reach) != NULL)
		return opts_wrong(cmd, "-%s goes with -target NODE",
		    reach_given(&reach));
	if (target != NULL && !reach_finish(&reach, why, sizeof(why)))
		return opts_wrong(cmd, "%s", why);
	if (target != NULL) {
		why[0] = '\0';
		if (clear_tokens(target, &reach, why, sizeof(why)) == KP_OK) {
			printf("tokens cleared on %s\n", target);
			return EXIT_DONE;
		}
		say("%s", why);
		return EXIT_FAILED;
	}
	if (!daemon_line(line, cmd->name, node))
		return EXIT_USAGE;
	if (p.dbs.n > 1)
		return opts_wrong(cmd, "give one -db: one daemon is asked");
	kp_buf_init(&answer, OUTPUT_MAX);
	if (daemon_ask(&p, line, 0, &answer, why, sizeof(why)) == KP_OK)
		return show(&answer);
	say("%s; -target NODE does it without a daemon", why);
	kp_buf_free(&answer);
	return EXIT_FAILED;
}
