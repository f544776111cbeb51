/*
 * writer.h - the store and its thread.  Private to src/store/write.
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
	struct kp_db *db;	/* the thread's alone while it runs; NULL: it
				   was moved and cannot be opened again yet */
	struct upkeep upkeep;	/* the thread's too */
	struct hold hold;	/* the same */
	struct {
		uint64_t windows, rows;
	} in_file;		/* written to db; the thread's too */
	enum db_file left;	/* why db was left, until it is open again */
	bool remains;		/* beside its name */
	pthread_t thread;
	bool joined;
	pthread_mutex_t lock;	/* of all below */
	pthread_cond_t wake;
	struct queue queue;
	bool stop;
	bool upkeep_due;
	struct drop_counts lost;	/* in no window's losses yet */
	bool failed;		/* a batch was given up since the last sync */
	enum kp_store_cause cause;	/* of being stuck */
	struct kp_store_status status;
	char why_failed[512];	/* kp_store_failed()'s; "": the run began */
	bool keep;		/* ... and the file stays */
};

/* The thread; ends when s->stop is set and the queue is empty. */
void *writer_main(void *store);
/* With s->lock held: the item will not be written. */
void writer_count_drop(struct kp_store *s, const struct item *it,
    enum kp_store_cause cause);
/*
 * Closes a file that is no longer under its name, and opens the next one.  On
 * the thread, or after it.  Returns why it cannot; KP_STORE_CAUSES: it is open.
 */
enum kp_store_cause writer_reopen(struct kp_store *s, char *why, size_t size);

#endif
