/*
 * writer.h - defines the store and its thread.  Private to src/store/write.
 */
#ifndef KPROFD_STORE_WRITE_WRITER_H
#define KPROFD_STORE_WRITE_WRITER_H

#include <pthread.h>

#include "store/db.h"
#include "store/open_options.h"
#include "store/rollup/upkeep.h"
#include "hold.h"
#include "queue.h"

struct kp_store {
	struct opts opts;
	struct kp_db *db;	/* only the thread's while it runs; NULL: the
				   file was moved, and none can be opened yet */
	struct upkeep upkeep;	/* only the thread's, too */
	struct hold hold;	/* the same */
	struct {
		uint64_t windows, rows;
	} in_file;		/* written to db; only the thread's, too */
	enum db_file left;	/* why db was closed, until one is open */
	bool remains;		/* the old file is beside its name */
	pthread_t thread;
	bool joined;
	pthread_mutex_t lock;	/* of all below */
	pthread_cond_t wake;
	struct queue queue;
	bool stop;
	bool upkeep_due;
	struct drop_counts lost;	/* not yet reported by a window */
	char lost_why[256];	/* of the last of them; "": writing was slow */
	bool failed;		/* a batch was dropped since the last sync */
	enum kp_store_cause cause;	/* why it is stuck */
	struct kp_store_status status;
	char why_failed[512];	/* kp_store_failed()'s; "": the run began */
	bool keep;		/* ... and the file stays */
};

/* Runs the thread until s->stop is set and the queue is empty. */
void *writer_main(void *store);
/* Counts an item that will not be written; call it with s->lock held. */
void writer_count_drop(struct kp_store *s, const struct item *it,
    enum kp_store_cause cause);
/*
 * Closes a file that is no longer under its name, and opens the next one.  Call
 * it on the thread, or after its end.  Returns the cause of a failure;
 * KP_STORE_CAUSES: it is open.
 */
enum kp_store_cause writer_reopen(struct kp_store *s, char *why, size_t size);

#endif
