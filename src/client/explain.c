/* explain.c - explains why a report is empty, and what to do about it. */
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "report/losses.h"
#include "report/report_db.h"
#include "text/text.h"
#include "text/timefmt.h"

#define NAMES_MAX 10	/* listed of those that exist */
#define EVENTS 20	/* searched for the reason why targets are absent */

static void
put_names(struct kp_buf *b, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
		kp_buf_str(b, i > 0 ? ", " : "there are: ");
		text_put(b, v[i]);
	}
	kp_buf_str(b, n > NAMES_MAX ? ", ...\n" : "\n");
}

static void
put_quoted(struct kp_buf *b, const char *s)
{
	kp_buf_u8(b, '\'');
	text_put(b, s);
	kp_buf_u8(b, '\'');
}

/* The last reason why a target is absent; "": none is known. */
static const char *
absent_why(const struct kp_query_events *e)
{
	static const char *const kinds[] = { "absent", "failed", "lost" };

	for (size_t i = e->n; i-- > 0;)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
			if (strcmp(e->v[i].kind, kinds[k]) == 0)
				return e->v[i].text;
	return "";
}

/* No window at all: kprofd did not start, or its first window is not over. */
static enum kp_err
explain_none(struct kp_buf *b, struct kp_query *q, const char *db)
{
	struct kp_query_range all = { .until = INT64_MAX };
	struct kp_query_events events = { 0 };
	struct kp_query_runs runs = { 0 };
	enum kp_err err = kp_query_runs(q, 1, &runs);
	const char *why = "", *failed = "";

	if (err == KP_OK)
		err = kp_query_events(q, &all, EVENTS, &events);
	if (err == KP_OK && runs.n > 0)
		why = runs.v[0].failed;
	if (*why == '\0')
		why = absent_why(&events);
	else
		failed = "kprofd failed to start: ";
	if (*why != '\0') {
		kp_buf_printf(b, "nothing was measured: %s", failed);
		text_put(b, why);
		kp_buf_u8(b, '\n');
	} else {
		put_quoted(b, db);
		kp_buf_str(b, " holds no measurements yet: kprofd writes a "
		    "window every interval (10 s)\nwhile it is attached to a "
		    "target; kprof status shows whether it is\n");
	}
	kp_query_events_free(&events);
	kp_query_runs_free(&runs);
	return err;
}

/* No window in the range: looks for other times and other nodes. */
static enum kp_err
explain_windows(struct kp_buf *b, struct kp_query *q, const char *db,
    const struct kp_query_range *range)
{
	struct kp_query_range any = { range->since, range->until, .node = NULL };
	struct kp_query_nodes nodes = { 0 };
	kp_wall_ns first, last;
	enum kp_err err;

	err = kp_query_span(q, &first, &last);
	if (err == KP_OK)
		err = kp_query_nodes(q, &any, &nodes);
	if (err != KP_OK)
		return err;
	if (last == 0) {
		err = explain_none(b, q, db);
	} else if (nodes.n > 0) {
		kp_buf_str(b, "no node matches ");
		put_quoted(b, range->node != NULL ? range->node : "*");
		kp_buf_str(b, " (see -node); ");
		put_names(b, nodes.v, nodes.n);
	} else {
		kp_buf_str(b, "nothing was measured in that time (see -since, "
		    "-until, -versus); the database\ncovers ");
		timefmt_put_range(b, first, last);
		kp_buf_u8(b, '\n');
	}
	kp_query_nodes_free(&nodes);
	return err;
}

/* Windows, but no request of this type: looks for other types. */
static enum kp_err
explain_identity(struct kp_buf *b, struct kp_query *q,
    const struct kp_query_range *range, bool *found)
{
	struct kp_query_range any = *range;
	const char *names[NAMES_MAX + 1];
	struct report *r;
	enum kp_err err;
	size_t n = 0;

	any.identity_glob = NULL;
	err = report_from_db(q, &any, false, &r);
	if (err != KP_OK)
		return err;
	*found = !report_empty(r);
	if (*found) {
		for (size_t i = 1; i < r->nrows && n <= NAMES_MAX; i++)
			names[n++] = r->rows[i].identity;
		kp_buf_str(b, "no request type matches ");
		put_quoted(b, range->identity_glob);
		kp_buf_str(b, " (see -identity); ");
		put_names(b, names, n);
	}
	report_free(r);
	return KP_OK;
}

static void
explain_requests(struct kp_buf *b, const struct report *r)
{
	char n[TEXT_MAX];

	kp_buf_str(b, "no request was measured: ");
	timefmt_put_range(b, r->start, r->end);
	if (r->entry_calls == 0 && r->losses.n[KP_LOSS_UNCOUNTED] > 0)
		kp_buf_printf(b, "\nno call of an entry function was counted, "
		    "but for %s of this time no\nagent was in the target to "
		    "count them\n", text_dur(n, (kp_dur_ns)
		    r->losses.n[KP_LOSS_UNCOUNTED] * KP_NS_PER_MS));
	else if (r->entry_calls == 0)
		kp_buf_str(b, "\nno call of an entry function was counted: do "
		    "the requests go through the entries of\ntiers.conf? "
		    "(kprofd -check -target NODE -tiers FILE shows how often "
		    "they are called)\n");
	else
		kp_buf_printf(b, "\nthe VM counted %s of entry functions; the "
		    "losses say where they are,\nand kprof status whether "
		    "measuring is paused\n",
		    text_counted(n, r->entry_calls, "call"));
	report_put_hints(b, r, screen_width());
	losses_text(b, &r->losses, screen_width());
}

enum kp_err
explain_empty(struct kp_buf *b, struct kp_query *q, const char *db,
    const struct kp_query_range *range, const struct report *r)
{
	bool others = false;
	enum kp_err err;

	if (r->windows == 0)
		return explain_windows(b, q, db, range);
	if (r->filtered) {
		err = explain_identity(b, q, range, &others);
		if (err != KP_OK || others)
			return err;
	}
	explain_requests(b, r);
	return KP_OK;
}
