/*
 * cmd_status.c - kprof status: the state of the daemon; when none answers, what
 * its database holds, and a status of failure: scripts ask whether it runs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "kprofd/clock.h"
#include "text/grid.h"
#include "report/losses.h"
#include "text/json.h"
#include "text/text.h"
#include "text/timefmt.h"

#define RUNS 5
#define EVENTS 10

/* What a database says about its runs. */
struct facts {
	const char *path;
	const char *node;		/* glob; NULL: all */
	kp_wall_ns first, last;		/* of all windows; 0: none */
	struct kp_query_sum window;	/* the last */
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

/*
 * Reads the last window of the nodes.  It is as long as the last run's interval,
 * unless it was rolled up since.
 */
static enum kp_err
read_last(struct facts *f, struct kp_query *q, kp_dur_ns length)
{
	struct kp_query_range r = { .until = INT64_MAX, .node = f->node };
	enum kp_err err = KP_OK;

	if (length < KP_NS_PER_S)
		length = KP_NS_PER_S;
	/* a damaged file may hold any time: f->last - length must not overflow */
	while (err == KP_OK && f->window.windows == 0 &&
	    length < INT64_MAX / 4 && f->last > INT64_MIN + length) {
		r.since = f->last - length;
		kp_query_sum_free(&f->window);
		err = kp_query_sum(q, &r, &f->window);
		length *= 4;
	}
	return err;
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
		err = read_last(f, q, f->runs.n > 0 ? f->runs.v[0].interval :
		    10 * KP_NS_PER_S);
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
	kp_buf_printf(b, "\nlast window ended %s ago: %s measured, ",
	    text_span(ago, kp_wall_now() - f->last),
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

	json_begin(&j, b);
	json_object(&j, NULL);
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
	json_end(&j);
	kp_buf_u8(b, '\n');
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

	st = opts_parse(cmd, opts, 4, argc, argv, NULL);
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
