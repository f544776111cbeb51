/*
 * writer.c - the thread between the queue and the disk.
 *
 * The loop only appends; the thread takes from the head a batch that ends
 * with a window, writes it in one transaction, and only then removes it.
 * An error that may pass (locked, disk full, I/O) leaves the batch where it
 * is, to be tried again; any other drops it.  While the thread is stuck the
 * queue fills, and then what comes is dropped and counted.  When there is
 * nothing to write it takes one turn of upkeep, and looks again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kprofd/thread.h"
#include "store/db.h"
#include "hold.h"
#include "store/open_options.h"
#include "queue.h"
#include "store/schema.h"
#include "store/rollup/upkeep.h"

#define RETRY_MS_MIN 100
#define RETRY_MS_MAX 5000
#define CLOSE_TRIES 3		/* then what is left is dropped */

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

/* ---- why ---- */

const char *
kp_store_cause_name(enum kp_store_cause cause)
{
	static const char *const names[KP_STORE_CAUSES] = {
		[KP_STORE_DISK_FULL] = "disk_full",
		[KP_STORE_LOCKED] = "locked",
		[KP_STORE_IO] = "io_error",
		[KP_STORE_DAMAGED] = "damaged",
		[KP_STORE_TRUNCATED] = "truncated",
		[KP_STORE_MEMORY] = "memory",
		[KP_STORE_REFUSED] = "refused",
		[KP_STORE_SLOW] = "slow",
	};

	return names[cause];
}

/* All but the last may pass: the same transaction may succeed later. */
static enum kp_store_cause
cause_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return KP_STORE_DISK_FULL;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return KP_STORE_LOCKED;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_INTERRUPT:
		return KP_STORE_IO;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return KP_STORE_DAMAGED;	/* until it is moved away */
	case SQLITE_NOMEM:
		return KP_STORE_MEMORY;
	default:
		return KP_STORE_REFUSED;
	}
}

/* With s->lock held, as all that follows down to the thread. */
static void
count_drop(struct kp_store *s, const struct item *it,
    enum kp_store_cause cause)
{
	s->status.dropped[cause] += it->rows;
	drop_counts_add(&s->lost, item_node(it), it->rows,
	    it->kind == WINDOW ? it->u.window : NULL);
}

/* What it said of the configuration holds for the next database as well. */
static void
take_head(struct kp_store *s)
{
	const struct item *it = s->queue.head;

	if (it->kind == CONF)
		opts_conf(&s->opts, it->u.conf.conf, it->u.conf.text);
	queue_pop(&s->queue);
}

static void
batch_drop(struct kp_store *s, size_t n)
{
	s->failed = true;
	while (n-- > 0) {
		count_drop(s, s->queue.head, s->cause);
		take_head(s);
	}
}

static void
set_stuck(struct kp_store *s, enum kp_store_cause cause, const char *why)
{
	s->status.stuck = true;
	s->cause = cause;
	snprintf(s->status.why, sizeof(s->status.why), "%s", why);
}

static void
set_free(struct kp_store *s)
{
	s->status.stuck = false;
	s->cause = KP_STORE_SLOW;
}

/* Tells all who wait for the disk that it does not answer. */
static void
fail_syncs(struct kp_store *s)
{
	void (*done)(void *ctx, bool ok);

	for (struct item *it = s->queue.head; it != NULL; it = it->next) {
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

static void
sync_answer(struct kp_store *s, const struct item *it, bool ok)
{
	if (it->u.sync.done == NULL)
		return;
	/* fsyncs the WAL, which a commit does not (synchronous=normal) */
	sqlite3_wal_checkpoint_v2(s->db->conn, NULL,
	    SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	it->u.sync.done(it->u.sync.ctx, ok);
}

/* Writes n items from the head; lost: what a window among them tells. */
static int
batch_write(struct kp_db *db, const struct item *it, size_t n,
    const struct drop_counts_node *lost)
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

/* Leaves what is not under its name any more, or was cut. */
static bool
leave_file(struct kp_store *s)
{
	enum db_file how = db_file(s->db);

	if (how == DB_THERE)
		return false;
	s->left = how;
	if (how == DB_MOVED) {
		db_abandon(s->db);
	} else {
		s->remains = db_discard(s->db);
		pthread_mutex_lock(&s->lock);
		s->status.dropped[KP_STORE_TRUNCATED] += s->in_file.rows;
		pthread_mutex_unlock(&s->lock);
	}
	s->db = NULL;
	return true;
}

/* Says so in the next file, and for the log. */
static void
tell_begun(struct kp_store *s)
{
	struct kp_happening h = { .at = kp_wall_now(), .node = "",
		.kind = "db_moved" };
	char lost[160] = "";

	if (s->left == DB_TRUNCATED) {
		h.kind = "db_truncated";
		snprintf(lost, sizeof(lost), "truncated while it was written: "
		    "%llu windows of this run are lost%s", (unsigned long long)
		    s->in_file.windows, s->remains ? "; what is left of it has "
		    "the name with .truncated" : "");
	}
	snprintf(h.text, sizeof(h.text), "the database file was %s; this is "
	    "the next one", lost[0] != '\0' ? lost :
	    "moved, deleted or replaced while it was written");
	db_begin(s->db);
	db_happening(s->db, &h);
	db_commit(s->db);
	pthread_mutex_lock(&s->lock);
	s->status.begun++;
	s->status.begun_lost = lost[0] != '\0';
	snprintf(s->status.begun_why, sizeof(s->status.begun_why), "%s",
	    lost[0] != '\0' ? lost :
	    "moved, deleted or replaced while it was written");
	pthread_mutex_unlock(&s->lock);
	s->in_file.windows = s->in_file.rows = 0;
	s->left = DB_THERE;
	s->remains = false;
}

/*
 * Opens again what is not under its name any more, or was not the last time.
 * The cause why it cannot be; KP_STORE_CAUSES: it is open.
 */
static enum kp_store_cause
reopen(struct kp_store *s, char *why, size_t size)
{
	enum kp_err err;
	char *text = NULL;

	if (s->db != NULL && !leave_file(s))
		return KP_STORE_CAUSES;
	err = db_open(&s->db, &s->opts.o, &text);
	if (err != KP_OK) {
		snprintf(why, size, "%s", text != NULL ? text :
		    kp_err_str(err));
		free(text);
		return err == KP_EBUSY ? KP_STORE_LOCKED :
		    err == KP_EFORMAT ? KP_STORE_DAMAGED :
		    err == KP_ENOMEM ? KP_STORE_MEMORY : KP_STORE_IO;
	}
	tell_begun(s);
	return KP_STORE_CAUSES;
}

/* A batch has one window at most, its last item. */
static void
tell_written(const struct kp_store *s, const struct item *it, size_t n,
    const struct drop_counts_node *lost)
{
	struct kp_window head;

	while (n-- > 1)
		it = it->next;
	if (it->kind != WINDOW || s->opts.o.on_written == NULL)
		return;
	head = *it->u.window;
	if (lost != NULL)
		drop_counts_tell(lost, &head);
	s->opts.o.on_written(s->opts.o.written_ctx, &head);
}

static void
count_written(struct kp_store *s, const struct item *it, size_t n)
{
	for (; n > 0; n--, it = it->next) {
		s->in_file.rows += it->rows;
		s->in_file.windows += it->kind == WINDOW;
		/* the last item's next belongs to the loop */
		if (n == 1)
			break;
	}
}

/* The cause why not; KP_STORE_CAUSES: written. */
static enum kp_store_cause
try_batch(struct kp_store *s, const struct item *head, size_t n,
    const struct drop_counts_node *lost, bool ok, char *why, size_t size)
{
	enum kp_store_cause cause = reopen(s, why, size);
	int rc;

	if (cause != KP_STORE_CAUSES)
		return cause;
	if (head->kind == SYNC) {
		sync_answer(s, head, ok);
		return KP_STORE_CAUSES;
	}
	rc = batch_write(s->db, head, n, lost);
	if (rc == SQLITE_OK) {
		count_written(s, head, n);
		tell_written(s, head, n, lost);
		return KP_STORE_CAUSES;
	}
	snprintf(why, size, "%s", s->db->why);
	return cause_of(rc);
}

static const char *
batch_node(const struct item *it, size_t n)
{
	while (n-- > 1)
		it = it->next;
	return it->kind == WINDOW ? it->u.window->node : NULL;
}

/* n items are on disk, the last with what it told. */
static void
batch_done(struct kp_store *s, size_t n, const struct drop_counts_node *told)
{
	set_free(s);
	if (told->node != NULL)
		drop_counts_told(&s->lost, told);
	while (n-- > 0)
		take_head(s);
}

/* One batch from beginning to end; called and returns with the lock held. */
static void
take_batch(struct kp_store *s, unsigned *tries)
{
	size_t n = queue_batch(&s->queue);
	struct item *head = s->queue.head;
	const char *node = batch_node(head, n);
	struct drop_counts_node *lost = node != NULL ? drop_counts_find(&s->lost, node) :
	    NULL;
	struct drop_counts_node told = lost != NULL ? *lost :
	    (struct drop_counts_node){ 0 };
	enum kp_store_cause cause;
	char why[256];
	bool ok = !s->failed;

	if (head->kind == SYNC && head->u.sync.done != NULL)
		s->failed = false;
	pthread_mutex_unlock(&s->lock);
	cause = try_batch(s, head, n, lost != NULL ? &told : NULL, ok, why,
	    sizeof(why));
	pthread_mutex_lock(&s->lock);
	if (cause == KP_STORE_CAUSES) {
		*tries = 0;
		s->upkeep_due = s->upkeep_due || node != NULL;
		batch_done(s, n, &told);
		return;
	}
	++*tries;
	set_stuck(s, cause, why);
	if (cause == KP_STORE_REFUSED || (s->stop && *tries >= CLOSE_TRIES)) {
		*tries = 0;	/* the next batch has failed never yet */
		batch_drop(s, n);
		set_free(s);
		return;
	}
	fail_syncs(s);
	retry_wait(s, *tries);
}

/* That it waits, or goes on; in the database too. */
static void
tell_hold(struct kp_store *s, kp_dur_ns before)
{
	struct kp_happening h = { .at = kp_wall_now(), .node = "",
		.kind = "clock" };
	kp_dur_ns ahead = s->hold.ahead;

	if (ahead == before || s->db == NULL)
		return;
	if (ahead > 0)
		snprintf(h.text, sizeof(h.text), "the clock is %.1f days ahead "
		    "of the last windows: nothing is deleted or rolled up by "
		    "it until it has been so for a day",
		    (double)ahead / 86400e9);
	else
		snprintf(h.text, sizeof(h.text), "windows are deleted and "
		    "rolled up by the clock again");
	db_begin(s->db);
	db_happening(s->db, &h);
	db_commit(s->db);
}

static kp_wall_ns
upkeep_now(struct kp_store *s)
{
	const struct kp_store_opts *o = &s->opts.o;

	if (o->now != NULL)
		return o->now(o->ctx);
	/* what is kept for ever needs no care */
	return o->retain.n == 0 ? kp_wall_now() :
	    hold_now(&s->hold, kp_wall_now(), kp_mono_now());
}

/* One turn of it; what fails is found again after the next window. */
static void
take_upkeep(struct kp_store *s)
{
	kp_dur_ns ahead = s->hold.ahead;
	bool more = false, open;
	char why[256] = "";
	kp_wall_ns now;

	pthread_mutex_unlock(&s->lock);
	now = upkeep_now(s);
	open = reopen(s, why, sizeof(why)) == KP_STORE_CAUSES;
	if (open)
		tell_hold(s, ahead);
	if (open && upkeep_turn(&s->upkeep, s->db, now, &more) != SQLITE_OK) {
		snprintf(why, sizeof(why), "%s", s->db->why);
		more = false;
	}
	pthread_mutex_lock(&s->lock);
	s->upkeep_due = more;
	s->status.file_bytes = s->upkeep.bytes;
	s->status.ahead = s->hold.ahead;
	s->status.ages_percent = upkeep_percent(&s->upkeep);
	if (why[0] != '\0')
		snprintf(s->status.why, sizeof(s->status.why), "%s", why);
}

static void *
writer_main(void *arg)
{
	struct kp_store *s = arg;
	unsigned tries = 0;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		if (s->queue.head != NULL)
			take_batch(s, &tries);
		else if (s->stop)
			break;
		else if (s->upkeep_due)
			take_upkeep(s);
		else
			pthread_cond_wait(&s->wake, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static struct kp_store *
store_new(const struct kp_store_opts *o)
{
	struct kp_store *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	if (s == NULL || opts_copy(&s->opts, o) != KP_OK) {
		free(s);
		return NULL;
	}
	s->upkeep = (struct upkeep){ .retain = o->retain,
		.interval = o->interval, .max_bytes = o->max_bytes };
	s->upkeep_due = true;
	s->status.max_bytes = o->max_bytes;
	s->status.ages_percent = 100;
	set_free(s);
	queue_init(&s->queue);
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
	drop_counts_free(&s->lost);
	opts_free(&s->opts);
	free(s);
}

enum kp_err
kp_store_open(struct kp_store **out, const struct kp_store_opts *o,
    char **why)
{
	struct kp_store *s = store_new(o);
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
	hold_begin(&s->hold, db_newest(s->db), kp_wall_now(), kp_mono_now());
	e = kp_thread_start(&s->thread, writer_main, s);
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
	bool put = false;

	if (it != NULL)
		*it = *from;
	pthread_mutex_lock(&s->lock);
	if (it != NULL && queue_has_room(&s->queue, it)) {
		put = true;
		it->next = NULL;
		queue_put(&s->queue, it);
		pthread_cond_signal(&s->wake);
	} else {
		/* what stopped the writer says more than that it is full */
		count_drop(s, from, it == NULL ? KP_STORE_MEMORY : s->cause);
	}
	pthread_mutex_unlock(&s->lock);
	if (put)
		return;
	item_clear(from);
	if (from->kind == SYNC)
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
		.bytes = sizeof(*t) + t->ncalls * sizeof(t->calls[0]) +
		    t->nwaits * sizeof(t->waits[0]),
		.rows = 1 + (uint64_t)t->ncalls + t->nwaits });
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

void
kp_store_status(struct kp_store *s, struct kp_store_status *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->status;
	out->windows = s->queue.windows;
	out->bytes = s->queue.bytes;
	pthread_mutex_unlock(&s->lock);
}

uint64_t
kp_store_dropped(const struct kp_store_status *st)
{
	uint64_t rows = 0;

	for (int i = 0; i < KP_STORE_CAUSES; i++)
		rows += st->dropped[i];
	return rows;
}

void
kp_store_failed(struct kp_store *s, const char *why, bool keep)
{
	snprintf(s->why_failed, sizeof(s->why_failed), "%s", why);
	s->keep = keep;
}

void
kp_store_stop(struct kp_store *s)
{
	char why[256];

	if (s->joined)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	s->joined = true;
	/* it may have gone since the last batch */
	if (s->db != NULL)
		reopen(s, why, sizeof(why));
}

uint64_t
kp_store_close(struct kp_store *s)
{
	uint64_t lost;

	kp_store_stop(s);
	lost = drop_counts_rows(&s->lost);
	if (s->db != NULL && s->why_failed[0] != '\0')
		db_failed(s->db, s->why_failed, s->keep);
	else if (s->db != NULL)
		db_close(s->db, lost);
	store_free(s);
	return lost;
}
