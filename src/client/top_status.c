/*
 * top_status.c - asks each daemon for `status json`, and reads the targets from
 * its answer with SQLite.
 *
 * SQLite reads the JSON: it is linked, and its parser is bounded and better
 * tested than one of ours would be.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "top_status.h"

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

static int
add_rows(struct top_status *s, sqlite3 *conn, const char *json, size_t n)
{
	sqlite3_stmt *st = NULL;
	unsigned armed = 0;
	int rc;

	rc = sqlite3_prepare_v2(conn, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, json, (int)n, SQLITE_STATIC);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		add_target(s, st);
		armed = (unsigned)sqlite3_column_int(st, 8);
		rc = SQLITE_OK;
	}
	s->armed += armed;
	sqlite3_finalize(st);
	return rc;
}

/*
 * Adds the answer to `status json`, n bytes.  False: it is something else, and
 * nothing was added.
 */
static bool
add_answer(struct top_status *s, const char *json, size_t n)
{
	unsigned ntargets = s->ntargets, armed = s->armed;
	size_t before = s->n;
	sqlite3 *conn = NULL;
	bool good = n <= ANSWER_MAX;

	good = good && sqlite3_open_v2(":memory:", &conn,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK;
	good = good && add_rows(s, conn, json, n) == SQLITE_DONE;
	sqlite3_close(conn);
	if (!good) {
		s->n = before;
		s->ntargets = ntargets;
		s->armed = armed;
	}
	return good;
}

void
top_status_ask(struct top_status *s, const struct place *p)
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
