/*
 * top.h - draws the frames of `kprof top` and handles its keys, without a terminal,
 * a database or a clock.
 *
 * A frame is lines of text that fit into a given number of columns and rows.
 * Every text from targets and daemons goes into it through text_put().
 */
#ifndef KPROFD_REPORT_TOP_H
#define KPROFD_REPORT_TOP_H

#include "report.h"
#include "store/query.h"

#define TOP_TARGETS_MAX 256	/* more are only counted */
#define TOP_SLOW_MAX 200	/* slow requests */
#define TOP_TEXT_MAX 256
#define TOP_NODES_MAX 1024
#define TOP_SORT_MAX 1024	/* a tier's name: 255 characters of 4 bytes */

/* A target's state, as its daemon reports it. */
struct top_target {
	char node[TOP_TEXT_MAX];
	char state[TOP_TEXT_MAX];	/* "armed", "paused: REASON" */
	uint64_t one_in, in_flight, trips;
	bool armed, resting, ended;
	double cost;			/* per cent of a scheduler */
};

struct top_status {
	unsigned asked, answered;	/* daemons */
	char why[TOP_TEXT_MAX];		/* of the last that did not answer */
	unsigned armed, ntargets;	/* of all daemons that answered */
	struct top_target targets[TOP_TARGETS_MAX];
	size_t n;			/* in targets */
};

/* All borrowed. */
struct top_data {
	kp_wall_ns now;
	kp_wall_ns last;		/* end of the last window; 0: none */
	const struct report *report;	/* NULL: see why */
	const struct kp_query_requests *slow;
	const struct kp_query_nodes *nodes;	/* that may be chosen */
	const struct top_status *status;
	const char *why;		/* why the report cannot be read */
};

enum top_screen { TOP_TIERS, TOP_SLOW, TOP_LOSSES, TOP_HELP, TOP_SCREENS };

/* The user's choices. */
struct top_view {
	enum top_screen screen;
	enum report_what what;
	size_t span;			/* which of top_spans */
	char sort[TOP_SORT_MAX];	/* top_sort_name(), or a tier */
	bool reverse, held;
	char node[TOP_NODES_MAX];	/* globs (kp_globs()); "": all */
	size_t first;			/* the first row shown */
	char message[2 * TOP_TEXT_MAX];	/* shown instead of the keys; or "" */
};

#define TOP_SPANS 6
extern const kp_dur_ns top_spans[TOP_SPANS];

enum top_action {
	TOP_NOTHING,
	TOP_DRAW,	/* draw the same data again */
	TOP_READ,	/* read new data, and draw */
	TOP_PAUSE,	/* the nodes of view->node */
	TOP_RESUME,
	TOP_QUIT
};

/* Shows all nodes, the last minute, sorted by requests. */
void top_view_init(struct top_view *v);
/* The i-th sort key of a report; NULL: there are fewer. */
const char *top_sort_name(const struct report *r, size_t i);
/* Sorts all rows but the first. */
void top_sort(struct report *r, const struct top_view *v);
/* Handles a key of keys.h.  page: rows of a screen. */
enum top_action top_key(struct top_view *v, const struct top_data *d, int key,
    unsigned page);

/*
 * Writes exactly `height` lines of at most `width` columns, separated by newlines;
 * height 0: as many as there are, without the keys.  Moves v->first into the rows.
 */
void top_frame(struct kp_buf *b, struct top_view *v, const struct top_data *d,
    unsigned width, unsigned height);

#endif
