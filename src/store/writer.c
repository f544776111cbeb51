/*
 * writer.c - the queue between the loop and the disk, and the thread behind
 * it.
 *
 * The loop only appends; the thread takes from the head a batch that ends
 * with a window, writes it in one transaction, and only then removes it.
 * An error that may pass (locked, disk full, I/O) leaves the batch where it
 * is, to be tried again; any other drops it.  While the thread is stuck the
 * queue fills, and then what comes is dropped and counted.  Trees may use
 * half of the bytes, so that windows always find room.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db.h"
#include "schema.h"

#define BATCH_MAX 256		/* items in one transaction */
#define RETRY_MS_MIN 100
#define RETRY_MS_MAX 5000
#define CLOSE_TRIES 3		/* then what is left is dropped */

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
			void (*done)(void *ctx, bool ok); /* NULL: answered */
			void *ctx;
		} sync;
	} u;
};

struct kp_store {
	struct kp_db *db;	/* the thread's alone while it runs */
	pthread_t thread;
	pthread_mutex_t lock;	/* of all below */
	pthread_cond_t wake;
	struct item *head, **tail;
	size_t windows, small, bytes;
	bool stop;
	uint64_t dropped;	/* rows, in all */
	uint64_t untold;	/* of these, in no window's losses yet */
	bool failed;		/* a batch was given up since the last sync */
	char why[256];
};

static void
item_free(struct item *it)
{
	if (it->kind == WINDOW)
		kp_window_free(it->u.window);
	else if (it->kind == TREE)
		free(it->u.tree);
	free(it);
}

static size_t
window_bytes(const struct kp_window *w)
{
	size_t n = sizeof(*w) + w->ncells * sizeof(*w->cells);

	for (size_t i = 0; i < w->ncells; i++)
		n += w->cells[i].hist.len * sizeof(uint64_t);
	return n;
}

/* With s->lock held, as all that follows down to the thread. */
static void
count_drop(struct kp_store *s, uint64_t rows, const char *why)
{
	s->dropped += rows;
	s->untold += rows;
	if (why != s->why)
		snprintf(s->why, sizeof(s->why), "%s", why);
}

static bool
has_room(const struct kp_store *s, const struct item *it)
{
	size_t max = it->kind == WINDOW ? KP_STORE_BYTES_MAX :
	    KP_STORE_BYTES_MAX / 2;

	/* few, and whoever puts them waits for them */
	if (it->kind == SYNC || it->kind == CONF)
		return true;
	if (it->kind == WINDOW ? s->windows >= KP_STORE_QUEUE_MAX :
	    s->small >= KP_STORE_SMALL_MAX)
		return false;
	return s->bytes + it->bytes <= max;
}

static void
queue_put(struct kp_store *s, struct item *it)
{
	*s->tail = it;
	s->tail = &it->next;
	s->bytes += it->bytes;
	if (it->kind == WINDOW)
		s->windows++;
	else
		s->small++;
	pthread_cond_signal(&s->wake);
}

static void
queue_pop(struct kp_store *s)
{
	struct item *it = s->head;

	s->head = it->next;
	if (s->head == NULL)
		s->tail = &s->head;
	s->bytes -= it->bytes;
	if (it->kind == WINDOW)
		s->windows--;
	else
		s->small--;
	item_free(it);
}

/* How many items from the head make one transaction; a sync is alone. */
static size_t
batch_size(const struct kp_store *s)
{
	size_t n = 0;

	for (const struct item *it = s->head; it != NULL && n < BATCH_MAX;
	    it = it->next) {
		if (it->kind == SYNC)
			return n > 0 ? n : 1;
		n++;
		if (it->kind == WINDOW)
			break;
	}
	return n;
}

static void
batch_drop(struct kp_store *s, size_t n)
{
	s->failed = true;
	while (n-- > 0) {
		count_drop(s, s->head->rows, s->db->why);
		queue_pop(s);
	}
}

/* Tells all who wait for the disk that it does not answer. */
static void
fail_syncs(struct kp_store *s)
{
	void (*done)(void *ctx, bool ok);

	for (struct item *it = s->head; it != NULL; it = it->next) {
		if (it->kind != SYNC || it->u.sync.done == NULL)
			continue;
		done = it->u.sync.done;
		it->u.sync.done = NULL;
		/* only this thread removes items, so it stays while unlocked */
		pthread_mutex_unlock(&s->lock);
		done(it->u.sync.ctx, false);
		pthread_mutex_lock(&s->lock);
	}
}

/* Sleeps until it is time to try again; sooner when stopped. */
static void
retry_wait(struct kp_store *s, unsigned tries)
{
	int64_t ms = RETRY_MS_MIN;
	struct timespec until;

	while (tries-- > 1 && ms < RETRY_MS_MAX)
		ms *= 2;
	if (s->stop)
		ms = RETRY_MS_MIN;
	clock_gettime(CLOCK_MONOTONIC, &until);
	ms += until.tv_nsec / KP_NS_PER_MS;
	until.tv_sec += ms / 1000;
	until.tv_nsec = ms % 1000 * KP_NS_PER_MS;
	while (pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0) {
		if (s->stop)
			break;
	}
}

/* The thread, with s->lock not held. */

/* May the same transaction succeed later? */
static bool
may_pass(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_NOMEM:
	case SQLITE_INTERRUPT:
		return true;
	default:
		return false;
	}
}

static void
sync_answer(struct kp_store *s, struct item *it, bool ok)
{
	if (it->u.sync.done == NULL)
		return;
	/* fsyncs the WAL, which a commit does not (synchronous=normal) */
	sqlite3_wal_checkpoint_v2(s->db->conn, NULL,
	    SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	it->u.sync.done(it->u.sync.ctx, ok);
}

/* Writes n items from the head; lost: rows to be counted with a window. */
static int
batch_write(struct kp_db *db, const struct item *it, size_t n, uint64_t lost)
{
	db_begin(db);
	for (; n > 0; n--, it = it->next) {
		if (it->kind == WINDOW)
			db_window(db, it->u.window, lost);
		else if (it->kind == TREE)
			db_tree(db, it->u.tree);
		else if (it->kind == CONF)
			db_conf(db, it->u.conf.conf, it->u.conf.text);
		else
			db_happening(db, &it->u.happening);
		/* the last item's next belongs to the loop */
		if (n == 1)
			break;
	}
	return db_commit(db);
}

/* One batch from beginning to end; called and returns with the lock held. */
static void
take_batch(struct kp_store *s, unsigned *tries)
{
	size_t n = batch_size(s);
	uint64_t untold = s->untold;
	struct item *head = s->head;
	bool window = false, failed = s->failed;
	int rc = SQLITE_OK;

	for (size_t i = 0; i < n; i++, head = head->next)
		window = window || head->kind == WINDOW;
	head = s->head;
	if (head->kind == SYNC && head->u.sync.done != NULL)
		s->failed = false;
	pthread_mutex_unlock(&s->lock);
	if (head->kind == SYNC)
		sync_answer(s, head, !failed);
	else
		rc = batch_write(s->db, head, n, untold);
	pthread_mutex_lock(&s->lock);
	if (rc == SQLITE_OK) {
		*tries = 0;
		if (window)
			s->untold -= untold;
		while (n-- > 0)
			queue_pop(s);
		return;
	}
	snprintf(s->why, sizeof(s->why), "%s", s->db->why);
	++*tries;
	if (!may_pass(rc) || (s->stop && *tries >= CLOSE_TRIES)) {
		batch_drop(s, n);
		return;
	}
	fail_syncs(s);
	retry_wait(s, *tries);
}

static void *
writer_main(void *arg)
{
	struct kp_store *s = arg;
	unsigned tries = 0;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (s->head == NULL && !s->stop)
			pthread_cond_wait(&s->wake, &s->lock);
		if (s->head == NULL)
			break;
		take_batch(s, &tries);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Signals are for the loop's thread. */
static int
thread_start(struct kp_store *s)
{
	sigset_t all, old;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(&s->thread, NULL, writer_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e;
}

static struct kp_store *
store_new(void)
{
	struct kp_store *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	if (s == NULL)
		return NULL;
	s->tail = &s->head;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

static void
store_free(struct kp_store *s)
{
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

enum kp_err
kp_store_open(struct kp_store **out, const struct kp_store_opts *o,
    char **why)
{
	struct kp_store *s = store_new();
	enum kp_err err;
	int e;

	if (s == NULL) {
		schema_why(why, "cannot open '%s': out of memory", o->path);
		return KP_ENOMEM;
	}
	err = db_open(&s->db, o, why);
	if (err != KP_OK) {
		store_free(s);
		return err;
	}
	e = thread_start(s);
	if (e != 0) {
		schema_why(why, "cannot start a thread: %s", strerror(e));
		db_close(s->db, 0);
		store_free(s);
		return KP_EIO;
	}
	*out = s;
	return KP_OK;
}

/* Queues a copy of the item, or drops what it owns. */
static void
store_put(struct kp_store *s, const struct item *from)
{
	struct item *it = malloc(sizeof(*it));
	const char *why = "the queue of the store is full";
	bool put = false;

	if (it == NULL) {
		why = "out of memory";
	} else {
		*it = *from;
		it->next = NULL;
	}
	pthread_mutex_lock(&s->lock);
	if (it != NULL && has_room(s, it)) {
		put = true;
		queue_put(s, it);
	} else {
		/* what stopped the writer says more than that it is full */
		count_drop(s, from->rows, s->why[0] != '\0' ? s->why : why);
	}
	pthread_mutex_unlock(&s->lock);
	if (put)
		return;
	if (from->kind == WINDOW)
		kp_window_free(from->u.window);
	else if (from->kind == TREE)
		free(from->u.tree);
	else if (from->kind == SYNC)
		from->u.sync.done(from->u.sync.ctx, false);
	free(it);
}

void
kp_store_window(struct kp_store *s, struct kp_window *w)
{
	store_put(s, &(struct item){ .kind = WINDOW, .u.window = w,
		.bytes = window_bytes(w), .rows = db_window_rows(w) });
}

void
kp_store_tree(struct kp_store *s, struct kp_tree *t)
{
	store_put(s, &(struct item){ .kind = TREE, .u.tree = t,
		.bytes = sizeof(*t) + t->ncalls * sizeof(t->calls[0]),
		.rows = 1 + (uint64_t)t->ncalls });
}

void
kp_store_happening(struct kp_store *s, const struct kp_happening *h)
{
	store_put(s, &(struct item){ .kind = HAPPENING, .u.happening = *h,
		.bytes = sizeof(struct item), .rows = 1 });
}

void
kp_store_conf(struct kp_store *s, const struct kp_conf *conf,
    const char *tiers_text)
{
	store_put(s, &(struct item){ .kind = CONF, .u.conf.conf = conf,
		.u.conf.text = tiers_text, .bytes = sizeof(struct item),
		.rows = conf->ntiers + 1 });
}

void
kp_store_sync(struct kp_store *s, void (*done)(void *ctx, bool ok), void *ctx)
{
	store_put(s, &(struct item){ .kind = SYNC, .u.sync.done = done,
		.u.sync.ctx = ctx });
}

uint64_t
kp_store_dropped(struct kp_store *s, char *why, size_t n)
{
	uint64_t dropped;

	pthread_mutex_lock(&s->lock);
	dropped = s->dropped;
	if (n > 0)
		snprintf(why, n, "%s", s->why);
	pthread_mutex_unlock(&s->lock);
	return dropped;
}

void
kp_store_close(struct kp_store *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	db_close(s->db, s->untold);
	store_free(s);
}
