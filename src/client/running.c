/*
 * running.c - shows windows that still run while nothing of them is stored, which
 * the daemon copies for it.
 *
 * A window is shown from one source only: from the database as soon as that has
 * one, so nothing counts twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "kprofd/nodes.h"
#include "store/live_window.h"
#include "text/text.h"

#define PATIENCE_S 2u		/* for each daemon */
#define ANSWER_MAX (1u << 20)
#define TRIES 10u		/* for a window that is being written */
#define TRY_EVERY (100 * KP_NS_PER_MS)

/* Removes the windows of nodes that are not asked for. */
static void
keep_nodes(struct live_windows *r, const char *globs)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct kp_window w = r->v[i];

		if (!kp_globs(globs, w.node))
			continue;
		r->v[i] = r->v[n];
		r->v[n++] = w;
	}
	live_windows_cut(r, n);
}

/* A daemon that does not answer has no window; what one refuses is in why. */
static void
ask(struct live_windows *r, const struct place *p, const char *node, char *why,
    size_t n)
{
	size_t ndbs = place_dbs(p).n;
	char text[512];
	struct kp_buf answer;
	struct place one;
	enum kp_err err;

	why[0] = '\0';
	for (size_t i = 0; i < ndbs; i++) {
		one = place_at(p, i);
		kp_buf_init(&answer, ANSWER_MAX);
		err = daemon_ask(&one, "running", PATIENCE_S, &answer, text,
		    sizeof(text));
		if (err == KP_OK && live_windows_read(r, answer.p, answer.len) !=
		    KP_OK)
			snprintf(why, n, "kprofd answers what kprof does not "
			    "understand: are both of one version?");
		else if (err == KP_ESTATE)
			snprintf(why, n, "%s", text);
		kp_buf_free(&answer);
	}
	if (node != NULL)
		keep_nodes(r, node);
}

/* Puts the windows into *report, or when the first of them follows. */
static enum kp_err
show_running(struct kp_query *q, const struct kp_query_range *r, bool live,
    const struct live_windows *running, struct report **report)
{
	struct kp_query_tiers tiers = { 0 };
	struct report *now;
	enum kp_err err;

	/* They are of a daemon that runs: a target that came later can wait. */
	if ((*report)->windows > 0 && running->closed > 0)
		return KP_OK;
	if ((*report)->windows > 0 && !live) {
		(*report)->left = running->left;
		return KP_OK;
	}
	err = kp_query_tiers(q, &tiers);
	if (err == KP_OK)
		err = report_from_running(&tiers, r->identity_glob, running, &now);
	if (err == KP_OK) {
		report_free(*report);
		*report = now;
	}
	kp_query_tiers_free(&tiers);
	return err;
}

/* The first window was closed a moment ago, and is being written. */
static enum kp_err
wait_stored(struct kp_query *q, const struct kp_query_range *r,
    struct report **report)
{
	const struct timespec pause = { .tv_nsec = TRY_EVERY };
	kp_wall_ns first, last;
	enum kp_err err = kp_query_span(q, &first, &last);
	struct report *again;

	/* Where others are stored, it is not asked for. */
	for (unsigned i = 0; i < TRIES && err == KP_OK && last == 0 &&
	    (*report)->windows == 0; i++) {
		nanosleep(&pause, NULL);
		err = report_from_db(q, r, &again);
		if (err == KP_OK) {
			report_free(*report);
			*report = again;
		}
	}
	return err;
}

enum kp_err
running_report(struct kp_query *q, const struct place *p,
    const struct kp_query_range *r, bool live, struct report **report,
    char *why, size_t n)
{
	struct live_windows running = { 0 };
	struct kp_query_runs runs = { 0 };
	enum kp_err err = kp_query_runs(q, 1, &runs);
	/* Has the last run begun after all that is stored, and not ended? */
	bool ahead = runs.n > 0 && runs.v[0].state == KP_RUN_RUNNING &&
	    runs.v[0].failed[0] == '\0' && runs.v[0].started >= (*report)->end;

	kp_query_runs_free(&runs);
	why[0] = '\0';
	if (err != KP_OK || !ahead)
		return err;
	ask(&running, p, r->node, why, n);
	if (running.n > 0)
		err = show_running(q, r, live, &running, report);
	else if (running.closed > 0)
		err = wait_stored(q, r, report);
	live_windows_free(&running);
	return err;
}
