/*
 * cmd_top.c - kprof top: where the time goes, live.
 *
 * Figures come from the database, as for kprof report, and the state of the
 * targets from the daemon's control socket; report/top.h decides what is
 * shown.  The database is opened again for each look, so that one that
 * was moved away and replaced is followed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "kprofd/clock.h"
#include "report/report_db.h"
#include "report/top.h"
#include "screen.h"
#include "top_status.h"

#define EVERY_DEFAULT 2		/* s */
#define EVERY_MAX 3600
#define QUERY_S 10		/* that one look may take */
#define TELL_S 5u		/* that pausing may take */
#define FRAME_MAX (32u << 20)

struct args {
	struct place place;
	const char *node;
	size_t every, frames;	/* frames 0: for ever, or one when plain */
	int what;
	const char *sort;
	bool plain;
};

/* What was read at one look. */
struct look {
	struct kp_query *q;
	struct report *report;
	struct kp_query_requests slow;
	struct kp_query_nodes nodes;
	struct top_status status;
	kp_wall_ns now, last;
	char why[512];
};

static void
look_free(struct look *l)
{
	report_free(l->report);
	kp_query_requests_free(&l->slow);
	kp_query_nodes_free(&l->nodes);
	kp_query_close(l->q);
	*l = (struct look){ .q = NULL };
}

/* The span before the end of the last window: also of what was saved. */
static enum kp_err
read_figures(struct look *l, const struct top_view *v)
{
	const struct kp_query_range all = { .until = INT64_MAX };
	struct kp_query_range r = { .until = INT64_MAX,
		.node = v->node[0] != '\0' ? v->node : NULL };
	kp_wall_ns first;
	enum kp_err err = kp_query_span(l->q, &first, &l->last);

	r.since = l->last > top_spans[v->span] ? l->last -
	    top_spans[v->span] : 0;
	if (err == KP_OK)
		err = kp_query_nodes(l->q, &all, &l->nodes);
	if (err == KP_OK)
		err = report_from_db(l->q, &r, &l->report);
	if (err == KP_OK)
		err = kp_query_slow(l->q, &r, KP_SLOW_TOTAL, NULL, 0, TOP_SLOW_MAX,
		    &l->slow);
	if (err == KP_OK)
		top_sort(l->report, v);
	return err;
}

static void
look_read(struct look *l, const struct args *a, const struct top_view *v)
{
	struct kp_query_files dbs = place_dbs(&a->place);
	struct place one;
	enum kp_err err;
	char *why;

	look_free(l);
	l->now = kp_wall_now();
	for (size_t i = 0; i < dbs.n; i++) {
		one = place_at(&a->place, i);
		top_status_ask(&l->status, &one);
	}
	if (kp_query_open_all(&l->q, &dbs, &why) != KP_OK) {
		snprintf(l->why, sizeof(l->why), "%s", why != NULL ? why :
		    "out of memory");
		free(why);
		return;
	}
	kp_query_deadline(l->q, kp_mono_now() + QUERY_S * KP_NS_PER_S, NULL);
	err = read_figures(l, v);
	if (err != KP_OK)
		snprintf(l->why, sizeof(l->why), "%s",
		    kp_query_why(l->q)[0] != '\0' ? kp_query_why(l->q) :
		    kp_err_str(err));
}

static struct top_data
look_data(const struct look *l)
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
	struct look l = { .q = NULL };
	struct top_data d;
	int st = EXIT_DONE;
	struct kp_buf b;

	for (size_t i = 0; i < frames && st == EXIT_DONE; i++) {
		if (i > 0) {
			sleep((unsigned)a->every);
			putchar('\n');
		}
		look_read(&l, a, v);
		d = look_data(&l);
		kp_buf_init(&b, FRAME_MAX);
		top_frame(&b, v, &d, screen_width(), 0);
		kp_buf_u8(&b, '\n');
		st = show(&b);
		if (l.report == NULL)
			st = EXIT_FAILED;
	}
	look_free(&l);
	return st;
}

/* ---- on a screen ---- */

static bool
draw(struct top_view *v, const struct look *l)
{
	struct top_data d = look_data(l);
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
 * Pause or continue.  What a daemon says is shown below; of several, one that
 * does not do it rather than one that does.
 */
static void
tell(const struct args *a, struct top_view *v, const struct look *l,
    const char *command)
{
	char line[512], why[TOP_TEXT_MAX], bad[TOP_TEXT_MAX] = "", some[64];
	size_t n = place_dbs(&a->place).n, good = 0;
	struct kp_buf answer;
	struct place one;

	if (!node_command(line, sizeof(line), command, v->node[0] != '\0' ?
	    v->node : NULL))
		return;
	snprintf(v->message, sizeof(v->message), "%s ...", command);
	draw(v, l);
	kp_buf_init(&answer, 1u << 20);
	for (size_t i = 0; i < n; i++) {
		one = place_at(&a->place, i);
		if (ask_soon(&one, line, TELL_S, &answer, why,
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

/* False: the end. */
static bool
obey(const struct args *a, struct top_view *v, struct look *l, int key)
{
	struct top_data d = look_data(l);
	unsigned width, height;

	screen_size(&width, &height);
	switch (top_key(v, &d, key, height / 2)) {
	case TOP_QUIT:
		return false;
	case TOP_PAUSE:
		tell(a, v, l, "pause");
		look_read(l, a, v);
		break;
	case TOP_RESUME:
		tell(a, v, l, "resume");
		look_read(l, a, v);
		break;
	case TOP_READ:
		look_read(l, a, v);
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
watch(const struct args *a, struct top_view *v, struct look *l)
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
				look_read(l, a, v);
			next = kp_mono_now() + every;
			break;
		case SCREEN_KEY:
			on = obey(a, v, l, key);
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
	struct look l = { .q = NULL };

	look_read(&l, a, v);
	if (!screen_open()) {
		look_free(&l);
		say("this terminal cannot be drawn on (see -plain)");
		return EXIT_FAILED;
	}
	watch(a, v, &l);
	screen_close();
	look_free(&l);
	return EXIT_DONE;
}

int
cmd_top(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .every = EVERY_DEFAULT };
	const struct opt opts[] = {
		{ "every", "SECONDS", "refresh every SECONDS (default 2)",
		    opt_count, &a.every, NULL },
		{ "n", "N", "end after N refreshes (-plain: default 1)",
		    opt_count, &a.frames, NULL },
		OPT_NODE(a.node),
		{ "what", "FIGURE", "of tiers: busy (time in tier, default), "
		    "self (exclusive), total (inclusive), calls, async (after "
		    "the request), gc or out (scheduled out)", opt_choice,
		    &a.what, report_whats },
		{ "sort", "KEY", "requests (default), total, p99, errors, "
		    "share, name, tier", opt_text, &a.sort, NULL },
		{ "plain", NULL, "print text, as without a terminal",
		    opt_flag, &a.plain, NULL },
		OPT_DB(a.place),
		OPT_CONTROL(a.place),
	};
	struct top_view v;
	char line[512];
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (a.every > EVERY_MAX)
		return opts_wrong(cmd, "-every '%zu': %d s at most", a.every,
		    EVERY_MAX);
	st = place_check(cmd, &a.place);
	if (st != OPTS_GO_ON)
		return st;
	if (!node_command(line, sizeof(line), "status", a.node))
		return EXIT_USAGE;
	top_view_init(&v);
	v.what = (enum report_what)a.what;
	if (a.sort != NULL)
		snprintf(v.sort, sizeof(v.sort), "%s", a.sort);
	if (a.node != NULL)
		snprintf(v.node, sizeof(v.node), "%s", a.node);
	return a.plain || !screen_possible() ? run_plain(&a, &v) :
	    run_screen(&a, &v);
}
