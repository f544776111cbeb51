/*
 * store.h - writes closed windows, slow requests and events into SQLite.
 *
 * A writer thread owns the only writing connection and takes items from one
 * bounded queue; nothing here makes the caller wait for a disk.  When the queue
 * is full, or a write fails for good, the item is dropped and counted: the next
 * window of that node that is written reports it, with its rows
 * (KP_LOSS_STORE), its requests (KP_LOSS_UNWRITTEN), its entry calls and its
 * own losses; if there is none, an event store_loss does so at the end.
 *
 * A file that is moved away, deleted or truncated is started again under its
 * name; what a truncated one had of this run counts as not written.  While
 * nothing waits to be written the thread rolls windows up and deletes what is
 * too old (retain.h).
 */
#ifndef KPROFD_STORE_H
#define KPROFD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/stats.h"
#include "store/rollup/retain.h"

#define KP_STORE_QUEUE_MAX 1024	/* windows: ten minutes of 17 nodes */
#define KP_STORE_SMALL_MAX 4096		/* trees and happenings */
#define KP_STORE_BYTES_MAX (64u << 20)	/* what is queued may weigh; trees
					   and happenings half of it */

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
	bool outlasts;		/* it ran on when the request was handed on */
	const char *node;	/* borrowed, immortal; NULL: the request's */
};

/* What messages waited for one of its processes. */
struct kp_tree_wait {
	const char *receiver;	/* its name; borrowed, as are the others */
	const char *node;	/* NULL: the request's */
	char pid[48];
	uint64_t messages, away;	/* away: sent on another node */
	kp_dur_ns wait, max;
};

#define KP_TREE_WAITS 32	/* processes of one request, those that waits
				   were longest for */

struct kp_tree {
	const char *node, *identity;	/* borrowed, immortal */
	uint64_t label, parent_label;
	uint32_t weight;
	kp_wall_ns start;
	kp_dur_ns total;
	uint8_t outcome;
	uint32_t ncalls;
	uint32_t nwaits;
	struct kp_tree_wait *waits;	/* behind the calls, in one piece of
					   memory; longest first */
	struct kp_tree_call calls[];
};

/* Something that happened: attached, detached, tripped, resumed, ... */
struct kp_happening {
	kp_wall_ns at;
	const char *node;	/* borrowed, immortal; "" for the daemon itself */
	const char *kind;	/* borrowed, static: "trip" */
	char text[512];
};

/* About this run of the daemon; strings borrowed during the call. */
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
	 * The time that ages are counted from; NULL: kp_wall_now(), unless
	 * that was set far ahead (hold.h).  Called
	 * on the writer's thread, once before each turn of its upkeep.
	 */
	kp_wall_ns (*now)(void *ctx);
	void *ctx;
	/*
	 * NULL, or called for each window as it was written, with what it adds
	 * to earlier ones, once it is in the database; on the writer's thread.
	 */
	void (*on_written)(void *written_ctx, const struct kp_window *w);
	void *written_ctx;
	/*
	 * NULL, or gets a line for the log before a database of an earlier
	 * kprofd is migrated, which may take a while, and one after.
	 */
	void (*report)(const char *line);
};

struct kp_store;

/*
 * Opens or makes the database, migrates it, marks a run that did not end
 * well (event unclean_end), and starts the writer.  On error *why says what
 * and what to do, in one line: static or allocated text owned by the caller
 * (free it).
 */
enum kp_err kp_store_open(struct kp_store **out, const struct kp_store_opts *o,
    char **why);

/* Each takes ownership, also when it has to drop the item. */
void kp_store_window(struct kp_store *s, struct kp_window *w);
void kp_store_tree(struct kp_store *s, struct kp_tree *t);
void kp_store_happening(struct kp_store *s, const struct kp_happening *h);
/*
 * Another configuration from here on: the order of tiers and the text of this
 * run.  Both are borrowed until a sync that is asked for later has ended well.
 */
void kp_store_conf(struct kp_store *s, const struct kp_conf *conf,
    const char *tiers_text);

/*
 * Asks for everything queued so far to be on disk, then calls done(ctx, ok)
 * on the writer's thread.  Not ok: something was given up since the last
 * sync, or the disk does not answer now (what is queued is still tried).
 */
void kp_store_sync(struct kp_store *s, void (*done)(void *ctx, bool ok),
    void *ctx);

/* What keeps rows from the disk. */
enum kp_store_cause {
	KP_STORE_DISK_FULL,
	KP_STORE_LOCKED,	/* by another program */
	KP_STORE_IO,		/* an error of the file system */
	KP_STORE_DAMAGED,
	KP_STORE_TRUNCATED,	/* they were there, till somebody cut the file */
	KP_STORE_MEMORY,
	KP_STORE_REFUSED,	/* the database will never take them */
	KP_STORE_SLOW,		/* nothing but that it takes too long */
	KP_STORE_CAUSES
};

/* A word, as in JSON: "disk_full". */
const char *kp_store_cause_name(enum kp_store_cause cause);

struct kp_store_status {
	bool stuck;		/* the last write failed; it is tried again */
	char why[256];		/* that, or the last one, in words; "": none */
	size_t windows, bytes;	/* that wait to be written */
	uint64_t dropped[KP_STORE_CAUSES];	/* rows, so far */
	unsigned begun;		/* how often the file was begun again, and */
	char begun_why[256];	/* why, the last time: a clause */
	bool begun_lost;	/* something of it is lost */
	uint64_t file_bytes;	/* of the file, when last looked at */
	uint64_t max_bytes;	/* that it may have; 0: no limit */
	kp_dur_ns ahead;	/* the clock was set ahead by this: it is not
				   deleted by yet (hold.h); 0: it is */
	unsigned ages_percent;	/* 100, less where max_bytes forces it */
};

void kp_store_status(struct kp_store *s, struct kp_store_status *out);
/* All of them. */
uint64_t kp_store_dropped(const struct kp_store_status *st);

/*
 * The run never began, and why: its row says so, in place of that of an earlier
 * one that failed alike, so that a service which tries for ever has one.  A
 * file that was made for it is removed when it is closed, unless it is kept.
 */
void kp_store_failed(struct kp_store *s, const char *why, bool keep);
/*
 * Writes what is queued and stops the thread: what it came upon is in
 * kp_store_status() then.  Nothing may be handed over any more.
 */
void kp_store_stop(struct kp_store *s);
/*
 * The same, if that is not done; leaves one plain file (journal_mode=DELETE),
 * marks the run as ended well.  Waits for the disk, but not for ever: some
 * seconds.  Close this process's kp_query first: with a reader there the file
 * cannot become a single one.
 *
 * Returns how many rows were lost since the last window that was written, of
 * which no window tells.
 */
uint64_t kp_store_close(struct kp_store *s);

#endif
