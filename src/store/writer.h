/*
 * writer.h - defines the store, its queue and its thread.  Private to src/store.
 */
#ifndef KPROFD_STORE_WRITER_H
#define KPROFD_STORE_WRITER_H

#include <pthread.h>

#include "db.h"

/* A copy of the options of kp_store_open(), to open the next file with. */
struct opts {
	struct kp_store_opts o;	/* points to the strings and conf below */
	struct kp_conf conf;	/* has only the tiers' names */
	char *path, *version, *tiers_text;
};

/* What waits to be written.  Whoever uses the queue has s->lock. */
enum kind { WINDOW, TREE, HAPPENING, CONF, SYNC };

struct item {
	struct item *next;
	enum kind kind;
	size_t bytes;
	uint64_t rows;
	union {
		struct kp_window *window;
		struct kp_tree *tree;
		struct kp_happening happening;
		struct {
			const struct kp_conf *conf;
			const char *text;
		} conf;
		struct {
			void (*done)(void *ctx, bool ok); /* NULL: called already */
			void *ctx;
		} sync;
	} u;
};

struct queue {
	struct item *head, **tail;
	size_t windows, small, bytes;
};

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
	bool failed;		/* something was dropped since the last sync */
	bool gave_up;		/* at the end; what is left is tried once, without a wait */
	enum kp_store_cause cause;	/* why it is stuck */
	struct kp_store_status status;
	char why_failed[512];	/* kp_store_failed()'s; "": the run began */
	bool keep;		/* ... and the file stays */
};

/* After KP_ENOMEM there is nothing to free. */
enum kp_err opts_copy(struct opts *to, const struct kp_store_opts *from);
void opts_free(struct opts *o);
/* Frees the item's contents, not the item. */
void item_clear(const struct item *it);

/* Runs the thread until s->stop is set and the queue is empty. */
void *writer_main(void *store);
/* Counts an item that will not be written; call it with s->lock held. */
void writer_count_drop(struct kp_store *s, const struct item *it,
    enum kp_store_cause cause);
/*
 * Closes a file that is no longer under its name, and opens the next one.  Call
 * it on the thread, or after its end.  Returns the cause of a failure;
 * KP_STORE_OK: it is open.
 */
enum kp_store_cause writer_check_file(struct kp_store *s, char *why, size_t size);

#endif
