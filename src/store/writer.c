/*
 * writer.c - runs the thread between the queue and the disk, and counts the rows
 * that it could not write.
 *
 * The event loop only appends; the thread takes items from the head up to a window,
 * writes them in one transaction, and only then removes them.  After
 * an error they stay for a retry, also of a file that was damaged; they are
 * dropped where SQLite would refuse them again (KP_STORE_REFUSED), and after three
 * tries at the end of the run.  While the thread is stuck the queue fills, and then
 * new items are dropped and counted.  When the queue is empty the thread takes
 * one turn of upkeep, and checks the queue again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/text.h"
#include "writer.h"

#define TRANSACTION_MAX 256		/* items in one transaction */
#define RETRY_MS_MIN 100
#define RETRY_MS_MAX 5000
#define CLOSE_TRIES 3		/* then it drops the rest */

/* ---- dropped rows ---- */

void
drop_counts_free(struct drop_counts *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].node);
	l->n = 0;
}

struct drop_counts_node *
drop_counts_find(struct drop_counts *l, const char *node)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].node, node) == 0)
			return &l->v[i];
	}
	return NULL;
}

void
drop_counts_add(struct drop_counts *l, const char *node, uint64_t rows,
    const struct kp_window *w)
{
	struct drop_counts_node *n = drop_counts_find(l, node);
	char *name;

	if (n == NULL) {
		name = l->n < DROP_COUNTS_NODES_MAX ? strdup(node) : NULL;
		if (name != NULL)
			l->v[l->n++] = (struct drop_counts_node){ .node = name };
		if (l->n == 0)
			return;
		n = &l->v[l->n - 1];
	}
	n->rows += rows;
	if (w == NULL)
		return;
	n->entry_calls += w->entry_calls;
	n->sampled += w->sampled;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		n->losses.n[i] += w->losses.n[i];
}

void
drop_counts_add_to(const struct drop_counts_node *n, struct kp_window *head)
{
	head->entry_calls += n->entry_calls;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		head->losses.n[i] += n->losses.n[i];
	head->losses.n[KP_LOSS_STORE] += n->rows;
	head->losses.n[KP_LOSS_UNWRITTEN] += n->sampled;
}

void
drop_counts_reported(struct drop_counts *l, const struct drop_counts_node *reported)
{
	struct drop_counts_node *n = drop_counts_find(l, reported->node);
	uint64_t left;

	if (n == NULL)
		return;
	n->rows -= reported->rows;
	n->entry_calls -= reported->entry_calls;
	n->sampled -= reported->sampled;
	left = n->rows | n->entry_calls | n->sampled;
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		n->losses.n[i] -= reported->losses.n[i];
		left |= n->losses.n[i];
	}
	if (left == 0) {
		free(n->node);
		*n = l->v[--l->n];
	}
}

uint64_t
drop_counts_rows(const struct drop_counts *l)
{
	uint64_t rows = 0;

	for (size_t i = 0; i < l->n; i++)
		rows += l->v[i].rows;
	return rows;
}

/* All but the last are transient: the transaction may succeed later. */
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

/* ---- with s->lock held ---- */

static const char *
item_node(const struct item *it)
{
	switch (it->kind) {
	case WINDOW:
		return it->u.window->node;
	case TREE:
		return it->u.tree->node;
	case HAPPENING:
		return it->u.happening.node;
	case CONF:
	case SYNC:
		break;
	}
	return "";
}

void
writer_count_drop(struct kp_store *s, const struct item *it,
    enum kp_store_cause cause)
{
	s->status.dropped[cause] += it->rows;
	if (s->status.stuck || it->rows > 0)
		snprintf(s->lost_why, sizeof(s->lost_why), "%s",
		    s->status.stuck ? s->status.why : "");
	drop_counts_add(&s->lost, item_node(it), it->rows,
	    it->kind == WINDOW ? it->u.window : NULL);
}

/* Out of memory, keeps the old one. */
static void
opts_conf(struct opts *o, const struct kp_conf *conf, const char *text)
{
	struct kp_store_opts from = o->o;
	struct opts now;

	from.conf = conf;
	from.tiers_text = text;
	if (opts_copy(&now, &from) != KP_OK)
		return;
	opts_free(o);
	*o = now;
	o->o.conf = &o->conf;
}

/* Frees the head of the queue.  Keeps a configuration for the next file. */
static void
take_head(struct kp_store *s)
{
	struct queue *q = &s->queue;
	struct item *it = q->head;

	if (it->kind == CONF)
		opts_conf(&s->opts, it->u.conf.conf, it->u.conf.text);
	q->head = it->next;
	if (q->head == NULL)
		q->tail = &q->head;
	q->bytes -= it->bytes;
	if (it->kind == WINDOW)
		q->windows--;
	else
		q->small--;
	item_clear(it);
	free(it);
}

/* What one transaction writes; only its last item may be a window. */
struct transaction {
	const struct item *head, *last;
	size_t n;
	uint64_t rows;
};

/* Takes items from the head; a sync is alone. */
static struct transaction
next_transaction(const struct queue *q)
{
	struct transaction tx = { .head = q->head };

	for (const struct item *it = q->head; it != NULL && tx.n < TRANSACTION_MAX;
	    it = it->next) {
		if (it->kind == SYNC && tx.n > 0)
			break;
		tx.last = it;
		tx.n++;
		tx.rows += it->rows;
		if (it->kind == SYNC || it->kind == WINDOW)
			break;
	}
	return tx;
}

/* Fails all waiting syncs, because the disk does not answer. */
static void
fail_syncs(struct kp_store *s)
{
	void (*done)(void *ctx, bool ok);

	for (struct item *it = s->queue.head; it != NULL; it = it->next) {
		if (it->kind != SYNC || it->u.sync.done == NULL)
			continue;
		done = it->u.sync.done;
		it->u.sync.done = NULL;
		/* it stays while unlocked: only this thread removes items */
		pthread_mutex_unlock(&s->lock);
		done(it->u.sync.ctx, false);
		pthread_mutex_lock(&s->lock);
	}
}

/* Sleeps until the next try; wakes when the store is stopped. */
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

/* ---- on the thread, without s->lock ---- */

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

/*
 * lost: the drops that its window reports, and why the last of them could
 * not be written.
 */
static int
transaction_write(struct kp_db *db, const struct transaction *tx,
    const struct drop_counts_node *lost, const char *lost_why)
{
	char rows[TEXT_MAX];

	db_begin(db);
	/* the losses of a window only count them */
	if (lost != NULL && lost->rows > 0)
		db_event(db, kp_wall_now(), "store_loss", "%s could not be "
		    "written: %s", text_counted(rows, lost->rows, "row"),
		    lost_why[0] != '\0' ? lost_why : "the disk was too slow");
	for (const struct item *it = tx->head;; it = it->next) {
		if (it->kind == WINDOW)
			db_window(db, it->u.window, lost);
		else if (it->kind == TREE)
			db_tree(db, it->u.tree);
		else if (it->kind == CONF)
			db_conf(db, it->u.conf.conf, it->u.conf.text);
		else
			db_happening(db, &it->u.happening);
		/* the last item's next belongs to the loop */
		if (it == tx->last)
			break;
	}
	return db_commit(db);
}

/* Closes a file that is no longer under its name, or was truncated. */
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

/* Reports the reason for the new file in it, and in the status. */
static void
report_next_file(struct kp_store *s)
{
	const bool lost = s->left == DB_TRUNCATED;
	char why[160];

	if (lost)
		snprintf(why, sizeof(why), "truncated while it was written: "
		    "%llu windows of this run are lost%s", (unsigned long long)
		    s->in_file.windows, s->remains ? "; what is left of it has "
		    "the name with .truncated" : "");
	else
		snprintf(why, sizeof(why),
		    "moved, deleted or replaced while it was written");
	db_begin(s->db);
	db_event(s->db, kp_wall_now(), lost ? "db_truncated" : "db_moved",
	    "the database file was %s; this is the next one", why);
	db_commit(s->db);
	pthread_mutex_lock(&s->lock);
	s->status.begun++;
	s->status.begun_lost = lost;
	snprintf(s->status.begun_why, sizeof(s->status.begun_why), "%s", why);
	pthread_mutex_unlock(&s->lock);
	s->in_file.windows = s->in_file.rows = 0;
	s->left = DB_THERE;
	s->remains = false;
}

enum kp_store_cause
writer_check_file(struct kp_store *s, char *why, size_t size)
{
	enum kp_err err;
	char *text = NULL;

	if (s->db != NULL && !leave_file(s))
		return KP_STORE_OK;
	err = db_open(&s->db, &s->opts.o, &text);
	if (err != KP_OK) {
		snprintf(why, size, "%s", text != NULL ? text :
		    kp_err_str(err));
		free(text);
		return err == KP_EBUSY ? KP_STORE_LOCKED :
		    err == KP_EFORMAT ? KP_STORE_DAMAGED :
		    err == KP_ENOMEM ? KP_STORE_MEMORY : KP_STORE_IO;
	}
	report_next_file(s);
	return KP_STORE_OK;
}

static void
tell_kept(const struct kp_store *s, const struct transaction *tx)
{
	for (const struct item *it = tx->head;; it = it->next) {
		if (it->kind == TREE)
			s->opts.o.on_kept(s->opts.o.written_ctx, it->u.tree);
		if (it == tx->last)
			break;
	}
}

/* Returns the cause of a failure; KP_STORE_OK: it is written. */
static enum kp_store_cause
try_transaction(struct kp_store *s, const struct transaction *tx,
    const struct drop_counts_node *lost, bool ok, char *why, size_t size)
{
	char lost_why[sizeof(s->lost_why)];
	enum kp_store_cause cause = writer_check_file(s, why, size);
	struct kp_window head;
	int rc;

	if (cause != KP_STORE_OK)
		return cause;
	if (tx->head->kind == SYNC) {
		sync_answer(s, tx->head, ok);
		return KP_STORE_OK;
	}
	pthread_mutex_lock(&s->lock);
	memcpy(lost_why, s->lost_why, sizeof(lost_why));
	pthread_mutex_unlock(&s->lock);
	rc = transaction_write(s->db, tx, lost, lost_why);
	if (rc != SQLITE_OK) {
		snprintf(why, size, "%s", s->db->why);
		return cause_of(rc);
	}
	s->in_file.rows += tx->rows;
	if (tx->last->kind == WINDOW)
		s->in_file.windows++;
	if (tx->last->kind == WINDOW && s->opts.o.on_written != NULL) {
		head = *tx->last->u.window;
		if (lost != NULL)
			drop_counts_add_to(lost, &head);
		s->opts.o.on_written(s->opts.o.written_ctx, &head);
	}
	/* after the window, which may be the first of its type */
	if (s->opts.o.on_kept != NULL)
		tell_kept(s, tx);
	return KP_STORE_OK;
}

/* Writes one transaction; called and returns with the lock held. */
static void
take_transaction(struct kp_store *s, unsigned *tries)
{
	struct transaction tx = next_transaction(&s->queue);
	bool window = tx.last->kind == WINDOW, ok = !s->failed, dropped;
	struct drop_counts_node *lost = window ?
	    drop_counts_find(&s->lost, tx.last->u.window->node) : NULL;
	struct drop_counts_node reported = lost != NULL ? *lost :
	    (struct drop_counts_node){ 0 };
	enum kp_store_cause cause;
	char why[256];

	if (tx.head->kind == SYNC && tx.head->u.sync.done != NULL)
		s->failed = false;
	pthread_mutex_unlock(&s->lock);
	cause = try_transaction(s, &tx, lost != NULL ? &reported : NULL, ok, why,
	    sizeof(why));
	pthread_mutex_lock(&s->lock);
	if (cause != KP_STORE_OK) {
		s->status.stuck = true;
		s->cause = cause;
		snprintf(s->status.why, sizeof(s->status.why), "%s", why);
		dropped = cause == KP_STORE_REFUSED || s->gave_up ||
		    (s->stop && *tries + 1 >= CLOSE_TRIES);
		if (!dropped) {
			fail_syncs(s);
			retry_wait(s, ++*tries);
			return;
		}
		s->failed = true;
		if (cause != KP_STORE_REFUSED && !s->gave_up) {
			s->gave_up = true;
			if (s->db != NULL)
				db_wait_no_more(s->db);
		}
	} else {
		dropped = false;
		s->upkeep_due = s->upkeep_due || window;
		if (reported.node != NULL)
			drop_counts_reported(&s->lost, &reported);
	}
	for (; tx.n > 0; tx.n--) {
		if (dropped)
			writer_count_drop(s, s->queue.head, cause);
		take_head(s);
	}
	*tries = 0;	/* each transaction has its own count */
	s->status.stuck = false;
	s->cause = KP_STORE_SLOW;
}

/* Writes an event if deletion starts or stops waiting for the clock. */
static void
report_hold(struct kp_store *s, kp_dur_ns before)
{
	kp_dur_ns ahead = s->hold.ahead;

	if (ahead == before || s->db == NULL)
		return;
	db_begin(s->db);
	if (ahead > 0)
		db_event(s->db, kp_wall_now(), "clock", "the clock is %.1f days "
		    "ahead of the last windows: nothing is deleted or rolled up "
		    "by it until it has been so for a day",
		    (double)ahead / 86400e9);
	else
		db_event(s->db, kp_wall_now(), "clock", "windows are deleted "
		    "and rolled up by the clock again");
	db_commit(s->db);
}

static kp_wall_ns
upkeep_now(struct kp_store *s)
{
	const struct kp_store_opts *o = &s->opts.o;

	if (o->now != NULL)
		return o->now(o->ctx);
	/* any clock is right if nothing is deleted */
	return o->retain.n == 0 ? kp_wall_now() :
	    hold_now(&s->hold, kp_wall_now(), kp_mono_now());
}

/* Does one turn of upkeep.  If it fails, retries after the next window. */
static void
take_upkeep(struct kp_store *s)
{
	kp_dur_ns ahead = s->hold.ahead;
	bool more = false, open;
	char why[256] = "";
	kp_wall_ns now;

	pthread_mutex_unlock(&s->lock);
	now = upkeep_now(s);
	open = writer_check_file(s, why, sizeof(why)) ==
	    KP_STORE_OK;
	if (open)
		report_hold(s, ahead);
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

void *
writer_main(void *arg)
{
	struct kp_store *s = arg;
	unsigned tries = 0;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		if (s->queue.head != NULL)
			take_transaction(s, &tries);
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
