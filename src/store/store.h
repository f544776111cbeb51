/*
 * store.h - writes closed windows, slow requests and events into SQLite.
 *
 * A writer thread owns the only writing connection and takes items from one
 * bounded queue; nothing here makes the caller wait for a disk.  When the queue
 * is full, or a write fails for good, the item is dropped and counted: the next
 * window of that node that is written reports it, with its rows
 * (KP_LOSS_STORE), its requests (KP_LOSS_UNWRITTEN), its entry calls and its
 * own losses.  An event store_loss has the reason; if there is no such window, only
 * this event reports the loss, at the end.
 *
 * If the file is moved away, deleted or truncated, a new one is started under
 * its name; rows of this run in a truncated file count as not written.  While
 * nothing waits to be written the thread rolls windows up and deletes old ones
 * (db.h).
 */
#ifndef KPROFD_STORE_STORE_H
#define KPROFD_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/stats.h"
#include "retain.h"

#define KP_STORE_QUEUE_MAX 1024	/* windows: ten minutes of 17 nodes */
#define KP_STORE_SMALL_MAX 4096		/* trees and happenings */
#define KP_STORE_BYTES_MAX (64u << 20)	/* of the queue; trees and happenings
					   may use half */

/* A slow request with all its calls, self-contained. */
struct kp_tree_call {
	const char *fn;		/* borrowed, immortal: "db:query/2" */
	const char *tier;	/* first tier's name, or "" (finish only) */
	char pid[48];
	kp_dur_ns start;	/* since the request's start */
	kp_dur_ns total, self;	/* -1: no duration */
	uint32_t parent;	/* index, or KP_NONE */
	uint8_t outcome;
	bool async;
	bool outlasts;		/* still running when the request was stored */
	const char *node;	/* borrowed, immortal; NULL: the request's */
	struct kp_call_pauses pauses;	/* -1: not measured */
};

/* How long messages to one process of the request waited. */
struct kp_tree_wait {
	const char *receiver;	/* its name; all texts are borrowed */
	const char *node;	/* NULL: the request's */
	char pid[48];
	uint64_t messages, away;	/* away: sent on another node */
	kp_dur_ns wait, max;
};

#define KP_TREE_WAITS 32	/* processes of one request, those with the
				   longest waits */

struct kp_tree {
	const char *node, *identity;	/* borrowed, immortal */
	uint64_t label, parent_label;
	uint32_t weight;
	kp_wall_ns start;
	kp_dur_ns total;
	uint8_t outcome;
	char traceparent[KP_TRACEPARENT];	/* "": none */
	int64_t id;			/* of its row, once it is written */
	uint32_t ncalls;
	uint32_t nwaits;
	struct kp_tree_wait *waits;	/* behind the calls, in the same
					   allocation; longest first */
	struct kp_tree_call calls[];
};

/*
 * A row of the table `event`: attached, detached, tripped, resumed, ...  In the
 * source an "event" is mostly a trace event (kprofd/trace.h).
 */
struct kp_happening {
	kp_wall_ns at;
	const char *node;	/* borrowed, immortal; "" for the daemon itself */
	const char *kind;	/* borrowed, static: "trip" */
	char text[512];
};

/* Describes this run of the daemon; strings are borrowed during the call. */
struct kp_store_opts {
	const char *path;
	const char *version;	/* kprofd's */
	const char *tiers_text;	/* the tiers.conf in force */
	const struct kp_conf *conf;	/* names and order of tiers; may be
					   NULL */
	kp_dur_ns interval;
	struct kp_retain retain;	/* zero: for ever */
	uint64_t max_bytes;		/* of the file; 0: no limit */
	/*
	 * Returns the time that ages count from; NULL: kp_wall_now(), unless
	 * that was set far ahead (retain.h).  The writer's thread calls it once
	 * before each turn of its upkeep.
	 */
	kp_wall_ns (*now)(void *ctx);
	void *ctx;
	/*
	 * The writer's thread calls it, if not NULL, for each window that is in
	 * the database, as it was written, with the drops that it reports.
	 */
	void (*on_written)(void *written_ctx, const struct kp_window *w);
	/* The same for each slow request. */
	void (*on_kept)(void *written_ctx, const struct kp_tree *t);
	void *written_ctx;
};

struct kp_store;

/*
 * Opens or makes the database, marks a run that did not end well (event
 * unclean_end), and starts the writer.  On error *why is one line for the user,
 * owned by the caller.
 */
enum kp_err kp_store_open(struct kp_store **out, const struct kp_store_opts *o,
    char **why);

/* Each takes ownership, even if it has to drop the item. */
void kp_store_window(struct kp_store *s, struct kp_window *w);
void kp_store_tree(struct kp_store *s, struct kp_tree *t);
void kp_store_happening(struct kp_store *s, const struct kp_happening *h);
/*
 * Records that another tiers.conf is in force from now on.  Both are borrowed
 * until a later kp_store_sync() has ended with ok.
 */
void kp_store_conf(struct kp_store *s, const struct kp_conf *conf,
    const char *tiers_text);

/*
 * Calls done(ctx, ok) on the writer's thread once everything queued so far is
 * on disk.  Not ok: something was dropped since the last sync, or the disk does
 * not answer now (the writer still tries what is queued).
 */
void kp_store_sync(struct kp_store *s, void (*done)(void *ctx, bool ok),
    void *ctx);

/* Why rows cannot be written. */
enum kp_store_cause {
	KP_STORE_DISK_FULL,
	KP_STORE_LOCKED,	/* by another program */
	KP_STORE_IO,		/* an error of the file system */
	KP_STORE_DAMAGED,
	KP_STORE_TRUNCATED,	/* the file was truncated after they were written */
	KP_STORE_MEMORY,
	KP_STORE_REFUSED,	/* the database rejects them permanently */
	KP_STORE_SLOW,		/* no error: writing takes too long */
	KP_STORE_CAUSES,	/* their number */
	KP_STORE_OK = KP_STORE_CAUSES	/* no cause: they are written */
};

/* Returns the word of JSON: "disk_full". */
const char *kp_store_cause_name(enum kp_store_cause cause);
/* For people: "disk full". */
const char *kp_store_cause_text(enum kp_store_cause cause);

struct kp_store_status {
	bool stuck;		/* the last write failed; it is tried again */
	char why[256];		/* the last error, in words; "": none */
	size_t windows, bytes;	/* in the queue */
	uint64_t dropped[KP_STORE_CAUSES];	/* rows, so far */
	unsigned begun;		/* number of new files started, and */
	char begun_why[256];	/* the last reason: a clause */
	bool begun_lost;	/* rows of the old file are lost */
	uint64_t file_bytes;	/* of the file, at the last check */
	uint64_t max_bytes;	/* its limit; 0: no limit */
	kp_dur_ns ahead;	/* the clock was set ahead by this much, and
				   deletion waits (retain.h); or 0 */
	unsigned ages_percent;	/* 100, or less because of max_bytes */
};

void kp_store_status(struct kp_store *s, struct kp_store_status *out);
/* Returns the sum of dropped. */
uint64_t kp_store_dropped(const struct kp_store_status *st);

/*
 * Records why the run never began.  Its row replaces that of an earlier run
 * with the same failure, so that a service which retries for ever has one row.
 * kp_store_close() deletes a file that was made for it, unless keep.
 */
void kp_store_failed(struct kp_store *s, const char *why, bool keep);
/*
 * Writes the queue and stops the thread; kp_store_status() then has its errors.
 * Queue nothing after this.
 */
void kp_store_stop(struct kp_store *s);
/*
 * Stops the thread if it runs, leaves one plain file (journal_mode=DELETE) and
 * marks the run as ended well.  Waits some seconds for the disk.  Close this
 * process's kp_query first: a reader keeps the file in WAL mode.
 *
 * Returns the number of lost rows that no window reports.
 */
uint64_t kp_store_close(struct kp_store *s);

#endif
