/*
 * top.h - what `kprof top` shows, and what its keys do to that: without a
 * terminal, a database or a clock.
 *
 * A frame is lines of text that fit into a given number of columns and rows.
 * All text that comes from targets and daemons goes through text_put() on its
 * way into a frame.
 */
#ifndef KP_REPORT_TOP_H
#define KP_REPORT_TOP_H

#include "report.h"
#include "store/read/query.h"

#define TOP_TARGETS_MAX 256	/* shown; more are counted */
#define TOP_SLOW_MAX 200	/* slow requests */
#define TOP_TEXT_MAX 256
#define TOP_SORT_MAX 1024	/* a tier's name: 255 characters of 4 bytes */

/* One target, as its daemon says. */
struct top_target {
	char node[TOP_TEXT_MAX];
	char state[TOP_TEXT_MAX];	/* armed, paused, ...: why */
	uint64_t one_in, in_flight, trips;
	bool armed, resting, ended;
	double cost;			/* per cent of a scheduler */
};

struct top_status {
	unsigned asked, answered;	/* daemons */
	char why[TOP_TEXT_MAX];		/* the last that did not answer */
	unsigned armed, ntargets;	/* of all those that answered */
	struct top_target targets[TOP_TARGETS_MAX];
	size_t n;			/* that are in targets */
};

/* All borrowed. */
struct top_data {
	kp_wall_ns now;
	kp_wall_ns last;		/* end of the last window; 0: none */
	const struct report *report;	/* NULL: see why */
	const struct kp_query_requests *slow;
	const struct kp_query_nodes *nodes;	/* that there are windows of */
	const struct top_status *status;
	const char *why;		/* what keeps it from being read */
};

enum top_screen { TOP_TIERS, TOP_SLOW, TOP_LOSSES, TOP_HELP, TOP_SCREENS };

/* What the user has chosen. */
struct top_view {
	enum top_screen screen;
	enum report_what what;
	size_t span;			/* which of top_spans */
	char sort[TOP_SORT_MAX];	/* top_sort_name(), or a tier */
	bool reverse, held;
	char node[TOP_TEXT_MAX];	/* a glob; "": all of them */
	size_t first;			/* row that is shown first */
	char message[2 * TOP_TEXT_MAX];	/* instead of the keys; "": none */
};

#define TOP_SPANS 6
extern const kp_dur_ns top_spans[TOP_SPANS];

enum top_action {
	TOP_NOTHING,
	TOP_DRAW,	/* the same data, shown otherwise */
	TOP_READ,	/* read the data again */
	TOP_PAUSE,	/* tell the daemon, of view->node */
	TOP_RESUME,
	TOP_QUIT
};

/* Sorted by requests, of all nodes, the last minute. */
void top_view_init(struct top_view *v);
/* The i-th key that a report can be sorted by; NULL: there is none. */
const char *top_sort_name(const struct report *r, size_t i);
/* What r is sorted by: v->sort, or requests where there is no such tier. */
const char *top_sort_now(const struct report *r, const struct top_view *v);
/* Sorts all rows but the first. */
void top_sort(struct report *r, const struct top_view *v);
/* A key of keys.h.  page: rows of a screen. */
enum top_action top_key(struct top_view *v, const struct top_data *d, int key,
    unsigned page);

/*
 * Exactly `height` lines of at most `width` columns, with a newline between
 * two; 0: as many as there are, and no keys.  v->first is made one that there
 * is.
 */
void top_frame(struct kp_buf *b, struct top_view *v, const struct top_data *d,
    unsigned width, unsigned height);

#endif
