/*
 * cmd_top.c - kprof top: where the time goes, live.
 *
 * Figures come from the database, as for kprof report; the state of the targets,
 * and windows that run, from the daemon's control socket.  report/top.h draws them.
 * The database is opened again for each refresh, in case it was replaced.
 *
 * SQLite reads the daemon's JSON: it is linked, and its parser is bounded and
 * better tested than one of ours would be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "client.h"
#include "kprofd/clock.h"
#include "report/advice.h"
#include "report/top.h"

/* ---- the state of the targets ---- */

#define PATIENCE_S 2u
#define ANSWER_MAX (1u << 20)

static const char sql[] = "select t.value ->> '$.target',"
    " t.value ->> '$.state', t.value ->> '$.state_text',"
    " t.value ->> '$.one_in', t.value ->> '$.in_flight',"
    " t.value ->> '$.overload.trips', t.value ->> '$.overload.resting',"
    " t.value ->> '$.cost.scheduler_percent', j.v ->> '$.armed'"
    " from (select ?1 as v) j, json_each(j.v, '$.targets') t";

static const char *
column_text(sqlite3_stmt *st, int col)
{
	const char *s = (const char *)sqlite3_column_text(st, col);

	return s != NULL ? s : "";
}

static uint64_t
column_count(sqlite3_stmt *st, int col)
{
	int64_t n = sqlite3_column_int64(st, col);

	return n > 0 ? (uint64_t)n : 0;
}

static void
add_target(struct top_status *s, sqlite3_stmt *st)
{
	const char *state = column_text(st, 1), *text = column_text(st, 2);
	struct top_target *t;

	s->ntargets++;
	if (s->n == TOP_TARGETS_MAX)
		return;
	t = &s->targets[s->n++];
	*t = (struct top_target){
		.one_in = column_count(st, 3),
		.in_flight = column_count(st, 4),
		.trips = column_count(st, 5),
		.resting = sqlite3_column_int(st, 6) != 0,
		.cost = sqlite3_column_double(st, 7),
		.armed = strcmp(state, "armed") == 0,
		.ended = strcmp(state, "failed") == 0,
	};
	snprintf(t->node, sizeof(t->node), "%s", column_text(st, 0));
	snprintf(t->state, sizeof(t->state), "%s%s%s", state,
	    text[0] != '\0' ? ": " : "", text);
}

/*
 * Adds the answer to `status json`, n bytes.  False: it is something else, and
 * nothing was added.
 */
static bool
add_answer(struct top_status *s, const char *json, size_t n)
{
	unsigned ntargets = s->ntargets, armed = 0;
	size_t before = s->n;
	sqlite3 *conn = NULL;
	sqlite3_stmt *st = NULL;
	int rc = n > ANSWER_MAX ? SQLITE_TOOBIG : sqlite3_open_v2(":memory:",
	    &conn, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(conn, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, json, (int)n, SQLITE_STATIC);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		add_target(s, st);
		armed = (unsigned)sqlite3_column_int(st, 8);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(st);
	sqlite3_close(conn);
	if (rc == SQLITE_DONE) {
		s->armed += armed;
		return true;
	}
	s->n = before;
	s->ntargets = ntargets;
	return false;
}

/*
 * Asks the daemon of the database.  One that does not answer in time is counted,
 * with the reason in s->why.
 */
static void
ask_status(struct top_status *s, const struct place *p)
{
	struct kp_buf answer;

	s->asked++;
	kp_buf_init(&answer, ANSWER_MAX);
	if (daemon_ask(p, "status json", PATIENCE_S, &answer, s->why,
	    sizeof(s->why)) != KP_OK) {
		kp_buf_free(&answer);
		return;
	}
	if (add_answer(s, (const char *)answer.p, answer.len))
		s->answered++;
	else
		snprintf(s->why, sizeof(s->why), "kprofd answers what kprof "
		    "does not understand: are both of one version?");
	kp_buf_free(&answer);
}

/* ---- figures ---- */

#define EVERY_DEFAULT 2		/* s */
#define EVERY_MAX 3600
#define QUERY_S 10		/* limits the queries of one refresh */
#define PAUSE_S 5u		/* limits pausing, and resuming */
#define FRAME_MAX (32u << 20)

struct args {
	struct place place;
	const char *node;
	size_t every, frames;	/* frames 0: no limit, or one if plain */
	int what;
	const char *sort;
	bool plain;
};

/* What one refresh has read. */
struct snapshot {
	struct kp_query *q;
	struct report *report;
	struct kp_query_requests slow;
	struct kp_query_nodes nodes;
	struct top_status status;
	kp_wall_ns now, last;
	char why[512];
};

static void
snapshot_free(struct snapshot *l)
{
	report_free(l->report);
	kp_query_requests_free(&l->slow);
	kp_query_nodes_free(&l->nodes);
	kp_query_close(l->q);
	*l = (struct snapshot){ .q = NULL };
}

/* Before anything is stored, the nodes are those of the daemons. */
static enum kp_err
find_nodes(struct snapshot *l)
{
	const struct kp_query_range all = { .until = INT64_MAX };
	enum kp_err err = kp_query_nodes(l->q, &all, &l->nodes);

	if (err != KP_OK || l->nodes.n > 0 || l->status.n == 0)
		return err;
	free(l->nodes.v);
	l->nodes.v = calloc(l->status.n, sizeof(*l->nodes.v));
	if (l->nodes.v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < l->status.n; i++)
		l->nodes.v[l->nodes.n++] = l->status.targets[i].node;
	return KP_OK;
}

/*
 * Reads the view's span, which ends with the last window, even an old one; or the
 * running window, if it is the first.
 */
static enum kp_err
read_figures(struct snapshot *l, const struct args *a,
    const struct top_view *v)
{
	struct kp_query_range r = { .until = INT64_MAX,
		.node = v->node[0] != '\0' ? v->node : NULL };
	kp_wall_ns first;
	enum kp_err err = kp_query_span(l->q, &first, &l->last);

	r.since = l->last > top_spans[v->span] ? l->last -
	    top_spans[v->span] : 0;
	if (err == KP_OK)
		err = find_nodes(l);
	if (err == KP_OK)
		err = report_from_db(l->q, &r, &l->report);
	if (err == KP_OK)
		err = running_report(l->q, &a->place, &r, true, &l->report,
		    l->why, sizeof(l->why));
	if (err == KP_OK)
		report_hints(l->q, &r, l->report);
	if (err == KP_OK && l->report->running)
		r.since = l->report->start;	/* slow requests are stored */
	if (err == KP_OK)
		err = kp_query_slow(l->q, &r, KP_SLOW_TOTAL, NULL, 0, TOP_SLOW_MAX,
		    &l->slow);
	if (err == KP_OK)
		top_sort(l->report, v);
	return err;
}

static void
snapshot_read(struct snapshot *l, const struct args *a, const struct top_view *v)
{
	struct kp_query_files dbs = place_dbs(&a->place);
	struct place one;
	enum kp_err err;
	char *why;

	snapshot_free(l);
	l->now = kp_wall_now();
	for (size_t i = 0; i < dbs.n; i++) {
		one = place_at(&a->place, i);
		ask_status(&l->status, &one);
	}
	if (kp_query_open_all(&l->q, &dbs, &why) != KP_OK) {
		snprintf(l->why, sizeof(l->why), "%s", why != NULL ? why :
		    "out of memory");
		free(why);
		return;
	}
	kp_query_limit(l->q, QUERY_S * KP_NS_PER_S, QUERY_S * KP_NS_PER_S, NULL);
	err = read_figures(l, a, v);
	if (err != KP_OK)
		snprintf(l->why, sizeof(l->why), "%s",
		    kp_query_why(l->q)[0] != '\0' ? kp_query_why(l->q) :
		    kp_err_str(err));
}

static struct top_data
snapshot_data(const struct snapshot *l)
{
	return (struct top_data){ .now = l->now, .last = l->last,
		.report = l->report, .slow = &l->slow, .nodes = &l->nodes,
		.status = &l->status, .why = l->why[0] != '\0' ? l->why :
		    NULL };
}

/* ---- plain: for pipes and files ---- */

static int
run_plain(const struct args *a, struct top_view *v)
{
	size_t frames = a->frames > 0 ? a->frames : 1;
	struct snapshot l = { .q = NULL };
	struct top_data d;
	int st = EXIT_DONE;
	struct kp_buf b;

	for (size_t i = 0; i < frames && st == EXIT_DONE; i++) {
		if (i > 0) {
			sleep((unsigned)a->every);
			putchar('\n');
		}
		snapshot_read(&l, a, v);
		d = snapshot_data(&l);
		kp_buf_init(&b, FRAME_MAX);
		top_frame(&b, v, &d, screen_width(), 0);
		kp_buf_u8(&b, '\n');
		st = show(&b);
		if (l.report == NULL)
			st = EXIT_FAILED;
	}
	snapshot_free(&l);
	return st;
}

/* ---- on a screen ---- */

static bool
draw(struct top_view *v, const struct snapshot *l)
{
	struct top_data d = snapshot_data(l);
	unsigned width, height;
	struct kp_buf b;
	bool good;

	screen_size(&width, &height);
	kp_buf_init(&b, FRAME_MAX);
	top_frame(&b, v, &d, width, height);
	good = screen_draw(b.err == KP_OK ? kp_buf_cstr(&b) :
	    "this is too large to be shown (see -node)");
	kp_buf_free(&b);
	return good;
}

/*
 * Sends "pause" or "resume", and shows an answer in the last line: where there
 * are several daemons, rather that of one that refuses.
 */
static void
send_command(const struct args *a, struct top_view *v, const struct snapshot *l,
    const char *command)
{
	char line[CTL_LINE_MAX], why[TOP_TEXT_MAX], bad[TOP_TEXT_MAX] = "", some[64];
	size_t n = place_dbs(&a->place).n, good = 0;
	struct kp_buf answer;
	struct place one;

	if (!daemon_line(line, command, v->node[0] != '\0' ?
	    v->node : NULL))
		return;
	snprintf(v->message, sizeof(v->message), "%s ...", command);
	draw(v, l);
	kp_buf_init(&answer, 1u << 20);
	for (size_t i = 0; i < n; i++) {
		one = place_at(&a->place, i);
		if (daemon_ask(&one, line, PAUSE_S, &answer, why,
		    sizeof(why)) == KP_OK)
			good++;
		else
			memcpy(bad, why, sizeof(bad));
	}
	some[0] = '\0';
	if (good < n && n > 1)
		snprintf(some, sizeof(some), "%zu of %zu kprofds did; ", good,
		    n);
	snprintf(v->message, sizeof(v->message), "%s: %s%s", command, some,
	    good < n ? bad : kp_buf_cstr(&answer));
	v->message[strcspn(v->message, "\n")] = '\0';
	kp_buf_free(&answer);
}

/* False: the key ends the program. */
static bool
on_key(const struct args *a, struct top_view *v, struct snapshot *l, int key)
{
	struct top_data d = snapshot_data(l);
	unsigned width, height;

	screen_size(&width, &height);
	switch (top_key(v, &d, key, height / 2)) {
	case TOP_QUIT:
		return false;
	case TOP_PAUSE:
		send_command(a, v, l, "pause");
		snapshot_read(l, a, v);
		break;
	case TOP_RESUME:
		send_command(a, v, l, "resume");
		snapshot_read(l, a, v);
		break;
	case TOP_READ:
		snapshot_read(l, a, v);
		break;
	case TOP_DRAW:
		if (l->report != NULL)
			top_sort(l->report, v);
		break;
	case TOP_NOTHING:
		break;
	}
	return true;
}

static void
watch(const struct args *a, struct top_view *v, struct snapshot *l)
{
	kp_dur_ns every = (kp_dur_ns)a->every * KP_NS_PER_S;
	kp_mono_ns next = kp_mono_now() + every;
	size_t frames = 1;
	bool on = draw(v, l);
	int key;

	while (on) {
		switch (screen_wait(next, &key)) {
		case SCREEN_TIME:
			on = a->frames == 0 || frames++ < a->frames;
			if (on && !v->held)
				snapshot_read(l, a, v);
			next = kp_mono_now() + every;
			break;
		case SCREEN_KEY:
			on = on_key(a, v, l, key);
			break;
		case SCREEN_SIZE:
			break;
		case SCREEN_END:
			on = false;
			break;
		}
		on = on && draw(v, l);
	}
}

static int
run_screen(const struct args *a, struct top_view *v)
{
	struct snapshot l = { .q = NULL };

	snapshot_read(&l, a, v);
	if (!screen_open()) {
		snapshot_free(&l);
		say("this terminal cannot be drawn on (see -plain)");
		return EXIT_FAILED;
	}
	watch(a, v, &l);
	screen_close();
	snapshot_free(&l);
	return EXIT_DONE;
}

int
cmd_top(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .every = EVERY_DEFAULT, .what = REPORT_SELF };
	const struct opt opts[] = {
		{ "every", "SECONDS", "refresh every SECONDS (default 2)",
		    opt_count, &a.every, NULL },
		{ "refreshes", "N", "end after N of them (-plain: default 1)",
		    opt_count, &a.frames, NULL },
		OPT_NODE(a.node),
		OPT_WHAT(a.what),
		{ "sort", "KEY", "in order of requests (default), total, p99, "
		    "errors, share, name, or a tier; -KEY: the other way "
		    "round", opt_text, &a.sort, NULL },
		{ "plain", NULL, "print text, as without a terminal",
		    opt_flag, &a.plain, NULL },
		OPT_DB(a.place),
		OPT_CONTROL(a.place),
	};
	struct top_view v;
	char line[CTL_LINE_MAX];
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (a.every > EVERY_MAX)
		return opts_wrong(cmd, "-every '%zu': %d s at most", a.every,
		    EVERY_MAX);
	st = place_check(cmd, &a.place);
	if (st != OPTS_GO_ON)
		return st;
	if (!daemon_line(line, "status", a.node))
		return EXIT_USAGE;
	top_view_init(&v);
	v.what = (enum report_what)a.what;
	v.reverse = a.sort != NULL && a.sort[0] == '-';
	if (a.sort != NULL)
		snprintf(v.sort, sizeof(v.sort), "%s", a.sort + v.reverse);
	if (a.node != NULL)
		snprintf(v.node, sizeof(v.node), "%s", a.node);
	return a.plain || !screen_possible() ? run_plain(&a, &v) :
	    run_screen(&a, &v);
}
