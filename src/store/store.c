/*
 * store.c - opens and closes the store, and appends to the queue of its writer.
 *
 * The queue has limits of bytes and items.  Trees and events may use half of the
 * bytes, so that windows always find room.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/thread.h"
#include "schema.h"
#include "writer.h"

static const struct {
	const char *name, *text;
} causes[KP_STORE_CAUSES] = {
	[KP_STORE_DISK_FULL] = { "disk_full", "disk full" },
	[KP_STORE_LOCKED] = { "locked", "locked" },
	[KP_STORE_IO] = { "io_error", "disk error" },
	[KP_STORE_DAMAGED] = { "damaged", "damaged" },
	[KP_STORE_TRUNCATED] = { "truncated", "truncated" },
	[KP_STORE_MEMORY] = { "memory", "out of memory" },
	[KP_STORE_REFUSED] = { "refused", "refused" },
	[KP_STORE_SLOW] = { "slow", "disk too slow" },
};

const char *
kp_store_cause_name(enum kp_store_cause cause)
{
	return causes[cause].name;
}

const char *
kp_store_cause_text(enum kp_store_cause cause)
{
	return causes[cause].text;
}

/* ---- the options ---- */

static bool
copy_tiers(struct kp_conf *to, const struct kp_conf *from)
{
	char *name;

	to->tiers = calloc(from->ntiers + 1, sizeof(*to->tiers));
	if (to->tiers == NULL)
		return false;
	for (size_t i = 0; i < from->ntiers; i++) {
		name = strdup(from->tiers[i].name);
		if (name == NULL)
			return false;
		to->tiers[to->ntiers++].name = name;
	}
	return true;
}

enum kp_err
opts_copy(struct opts *to, const struct kp_store_opts *from)
{
	*to = (struct opts){ .o = *from, .path = strdup(from->path),
		.version = strdup(from->version),
		.tiers_text = strdup(from->tiers_text) };
	to->o.path = to->path;
	to->o.version = to->version;
	to->o.tiers_text = to->tiers_text;
	if (to->path != NULL && to->version != NULL &&
	    to->tiers_text != NULL &&
	    (from->conf == NULL || copy_tiers(&to->conf, from->conf))) {
		to->o.conf = from->conf != NULL ? &to->conf : NULL;
		return KP_OK;
	}
	opts_free(to);
	return KP_ENOMEM;
}

void
opts_free(struct opts *o)
{
	for (size_t i = 0; i < o->conf.ntiers; i++)
		free((char *)o->conf.tiers[i].name);
	free(o->conf.tiers);
	free(o->path);
	free(o->version);
	free(o->tiers_text);
	*o = (struct opts){ 0 };
}

/* ---- opening ---- */

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
	s->cause = KP_STORE_SLOW;
	s->queue.tail = &s->queue.head;
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

/* ---- the queue ---- */

void
item_clear(const struct item *it)
{
	if (it->kind == WINDOW)
		kp_window_free(it->u.window);
	else if (it->kind == TREE)
		free(it->u.tree);
}

static size_t
window_bytes(const struct kp_window *w)
{
	size_t n = sizeof(*w) + w->ncells * sizeof(*w->cells) +
	    w->nwaits * sizeof(*w->waits) + w->nstacks * sizeof(*w->stacks);

	for (size_t i = 0; i < w->ncells; i++)
		n += (w->cells[i].hist.len + w->cells[i].async_hist.len) *
		    sizeof(uint64_t);
	for (size_t i = 0; i < w->nwaits; i++)
		n += w->waits[i].hist.len * sizeof(uint64_t);
	/* cells may share a text, so this is at least what there is */
	for (size_t i = 0; i < w->nstacks; i++)
		n += strlen(w->stacks[i].path) + strlen(w->stacks[i].frames);
	return w->usage != NULL ? n + w->usage->bytes : n;
}

static bool
queue_has_room(const struct queue *q, const struct item *it)
{
	size_t max = it->kind == WINDOW ? KP_STORE_BYTES_MAX :
	    KP_STORE_BYTES_MAX / 2;

	/* they are few, since the caller waits for each */
	if (it->kind == SYNC || it->kind == CONF)
		return true;
	if (it->kind == WINDOW ? q->windows >= KP_STORE_QUEUE_MAX :
	    q->small >= KP_STORE_SMALL_MAX)
		return false;
	return q->bytes + it->bytes <= max;
}

/* Queues a copy of the item, or drops what it owns. */
static void
store_put(struct kp_store *s, const struct item *from)
{
	struct item *it = malloc(sizeof(*it));
	struct queue *q = &s->queue;
	bool put;

	pthread_mutex_lock(&s->lock);
	put = it != NULL && queue_has_room(q, from);
	if (put) {
		*it = *from;
		it->next = NULL;
		*q->tail = it;
		q->tail = &it->next;
		q->bytes += it->bytes;
		if (it->kind == WINDOW)
			q->windows++;
		else
			q->small++;
		pthread_cond_signal(&s->wake);
	} else {
		s->failed = true;
		/* the writer's error explains more than a full queue */
		writer_count_drop(s, from, it == NULL ? KP_STORE_MEMORY : s->cause);
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

/* ---- the end ---- */

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
	/* the file may have been moved since the last transaction */
	if (s->db != NULL)
		writer_check_file(s, why, sizeof(why));
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
