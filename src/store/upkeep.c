/*
 * upkeep.c - does one turn of upkeep, the first of these that is due: deletes old
 * rows; replaces old windows by one of the next level; writes a sum; releases pages;
 * deletes unused texts of stacks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "db.h"

#define TEXTS_EVERY (3600 * KP_NS_PER_S)
#define READ_ROWS 32768		/* in one turn, and the rest of a window */
#define DELETE_TEXTS 512	/* looked at in one turn: about 200 KB */
/* 8 MiB of bits.  Texts beyond stay until the ids begin again. */
#define TEXT_IDS_MAX (INT64_C(1) << 26)
#define CUT_KEEPS 0.75		/* factor of every age when it is too large */
#define CUTS_MAX 64		/* makes a day a millisecond */
#define FREE_PART 10		/* a tenth stays free for the next rows */
#define FREE_PAGES 64

/* Runs a query without values. */
static int64_t
ask(struct kp_db *db, enum stmt pragma)
{
	row_start(db, pragma);
	return row_value(db, 0);
}

static double
ages_left(const struct upkeep *u)
{
	double left = 1;

	for (unsigned i = 0; i < u->cuts; i++)
		left *= CUT_KEEPS;
	return left;
}

unsigned
upkeep_percent(const struct upkeep *u)
{
	return (unsigned)(100 * ages_left(u) + 0.5);
}

static kp_dur_ns
cut_age(const struct upkeep *u, kp_dur_ns age)
{
	return u->cuts == 0 ? age : (kp_dur_ns)((double)age * ages_left(u));
}

static kp_wall_ns
floor_to(kp_wall_ns t, kp_dur_ns length)
{
	return t - (t % length + length) % length;
}

/* ---- replacing windows by coarser ones ---- */

/* Returns the step of windows of this level; -1: before the first. */
static int
step_of(const struct upkeep *u, int64_t level)
{
	const struct kp_retain *r = &u->retain;
	int i = (int)r->n - 1;

	if (level == 0)
		return r->step[0].length <= u->interval ? 0 : -1;
	while (i >= 0 && r->step[i].length > level * KP_NS_PER_S)
		i--;
	return i;
}

/* Returns the age at which windows come to step i. */
static kp_dur_ns
age_into(const struct upkeep *u, int i)
{
	return i > 0 ? cut_age(u, u->retain.step[i - 1].age) : 0;
}

/* Returns whether the end of t's slot of step i is old enough. */
static bool
slot_due(const struct upkeep *u, int i, kp_wall_ns t, kp_wall_ns now)
{
	kp_dur_ns length = u->retain.step[i].length;

	return floor_to(t, length) + length <= now - age_into(u, i);
}

/* Finds the slot of the oldest window that is due for another level. */
static bool
find_slot(const struct upkeep *u, struct kp_db *db, int64_t level,
    kp_wall_ns now, struct slot *s)
{
	const struct kp_retain *r = &u->retain;
	int at = step_of(u, level), to = (int)r->n - 1;

	if (at >= to)
		return false;
	row_begin_ints(db, ST_OLDEST, level, floor_to(now - age_into(u, at + 1),
	    r->step[at + 1].length));
	if (!row_next(db))
		return false;
	*s = (struct slot){ .node = row_get(db, 0), .start = row_get(db, 1),
		.run = row_get(db, 2) };
	row_leave(db);
	/* after a long pause it may be due for a later step */
	while (to > at + 1 && !slot_due(u, to, s->start, now))
		to--;
	s->level = levels_above(db, level, r->step[to].length / KP_NS_PER_S);
	s->start = floor_to(s->start, s->level * KP_NS_PER_S);
	return true;
}

static bool
show_next(const struct upkeep *u, struct kp_db *db, kp_wall_ns now)
{
	int64_t level = -1;
	struct slot s;

	for (;;) {
		row_begin_ints(db, ST_LEVEL_OLDEST, level);
		level = row_value(db, -1);
		if (level < 0)
			return false;
		if (find_slot(u, db, level, now, &s)) {
			levels_show(db, &s);
			return true;
		}
	}
}

/* ---- deleting ---- */

/* Deletes the oldest rows, and those that refer to them. */
static bool
expire(const struct upkeep *u, struct kp_db *db, kp_wall_ns now)
{
	const struct kp_retain *r = &u->retain;
	kp_dur_ns windows = r->n > 0 ? r->step[r->n - 1].age : 0;
	const struct {
		enum stmt old, del;
		kp_dur_ns age;
	} all[] = {
		/* sums come before their windows */
		{ ST_SUMS_OLD, ST_SUM_DEL, cut_age(u, windows) },
		{ ST_WINDOWS_OLD, ST_WINDOW_DEL, cut_age(u, windows) },
		{ ST_REQUESTS_OLD, ST_REQUEST_DEL, cut_age(u, r->slow) },
		{ ST_EVENTS_OLD, ST_EVENT_DEL, cut_age(u, r->events) },
		{ ST_RUNS_OLD, ST_RUN_DEL, kp_retain_longest(r) },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].age <= 0)
			continue;
		row_begin_ints(db, all[i].old, now - all[i].age);
		if (rows_delete(db, all[i].del))
			return true;
	}
	return false;
}

/* ---- unused texts of stacks ---- */

static void
stack_texts_free(struct stack_texts *t)
{
	free(t->used);
	t->used = NULL;
}

void
stack_texts_use(struct stack_texts *t, int64_t id)
{
	if (t->used != NULL && id > 0 && id <= t->last)
		t->used[id / 8] |= (uint8_t)(1u << id % 8);
}

/* False: there are no texts, or no memory for their bits: the next pass. */
static bool
begin(struct kp_db *db)
{
	struct stack_texts *t = &db->stack_texts;

	t->last = ask(db, ST_STACK_LAST);
	if (t->last > TEXT_IDS_MAX)
		t->last = TEXT_IDS_MAX;
	if (db->rc != SQLITE_OK || t->last <= 0)
		return false;
	t->used = calloc((size_t)t->last / 8 + 1, 1);
	t->step = STACK_TEXTS_SUMS;
	t->at = 0;
	return t->used != NULL;
}

static void
next_step(struct stack_texts *t)
{
	t->at = 0;
	if (t->step != STACK_TEXTS_DELETE) {
		t->step++;
		return;
	}
	stack_texts_free(t);
	t->swept = true;
}

/* Marks the stacks of the next windows or sums, as a whole. */
static void
mark(struct kp_db *db, enum stmt rows)
{
	struct stack_texts *t = &db->stack_texts;
	int64_t of = t->at;
	int n = 0;
	bool more;

	row_begin_ints(db, rows, t->at);
	while ((more = row_next(db))) {
		if (row_get(db, 0) != of && n >= READ_ROWS)
			break;
		of = row_get(db, 0);
		stack_texts_use(t, row_get(db, 1));
		n++;
	}
	row_leave(db);
	t->at = of;
	if (!more && db->rc == SQLITE_OK)
		next_step(t);
}

static void
delete_texts(struct kp_db *db)
{
	struct stack_texts *t = &db->stack_texts;
	int64_t unused[DELETE_TEXTS];
	int n = 0, seen = 0;
	bool more = false;

	row_begin_ints(db, ST_STACK_IDS, t->at);
	while (seen < DELETE_TEXTS && (more = row_next(db))) {
		t->at = row_get(db, 0);
		seen++;
		if (t->at <= t->last && (t->used[t->at / 8] >> t->at % 8 & 1) == 0)
			unused[n++] = t->at;
	}
	row_leave(db);
	for (int i = 0; i < n; i++)
		row_exec_ints(db, ST_STACK_DEL, unused[i]);
	if (n > 0)
		db_ids_clear(db);
	if ((!more || t->at >= t->last) && db->rc == SQLITE_OK)
		next_step(t);
}

static void
go_on(struct kp_db *db)
{
	switch (db->stack_texts.step) {
	case STACK_TEXTS_SUMS:
		mark(db, ST_STACK_SUM_USED);
		break;
	case STACK_TEXTS_WINDOWS:
		mark(db, ST_STACK_USED);
		break;
	case STACK_TEXTS_DELETE:
		delete_texts(db);
		break;
	}
	/* what could not be read has no mark */
	if (db->rc != SQLITE_OK)
		stack_texts_free(&db->stack_texts);
}

/*
 * Does a part of the pass that is running, or begins one every hour.  False: there
 * is nothing to do now.
 */
static bool
stack_texts_turn(struct kp_db *db, kp_wall_ns now)
{
	struct stack_texts *t = &db->stack_texts;

	if (t->used == NULL) {
		/* the clock may have been set back */
		if (t->next == 0 || t->next > now + TEXTS_EVERY)
			t->next = now + TEXTS_EVERY;
		if (now < t->next)
			return false;
		t->next = now + TEXTS_EVERY;
		if (!begin(db))
			return false;
	}
	go_on(db);
	return true;
}

/*
 * The same without waiting for the hour, once after each cut of ages: rows were
 * deleted, so texts may be unused.
 */
static bool
stack_texts_now(struct kp_db *db)
{
	struct stack_texts *t = &db->stack_texts;

	if (t->used == NULL && (t->swept || !begin(db))) {
		t->swept = true;
		return false;
	}
	go_on(db);
	return true;
}

/* ---- size ---- */

/* Releases pages, except if the file cannot shrink: auto_vacuum is off. */
static bool
give_back(struct upkeep *u, struct kp_db *db, int64_t size)
{
	int64_t pages = ask(db, ST_PAGES), unused = ask(db, ST_FREE_PAGES);
	int64_t keep = pages / FREE_PART + FREE_PAGES;

	u->bytes = (uint64_t)(pages * size);
	if (u->max_bytes > 0 && u->bytes > u->max_bytes)
		keep = 0;
	if (unused <= keep || db->rc != SQLITE_OK)
		return false;
	row_start(db, ST_VACUUM);
	while (row_next(db))
		;
	return ask(db, ST_PAGES) < pages;
}

/*
 * If the file is too large, shortens all ages by the same factor, so that every
 * resolution keeps its share.  They grow again while there is room.
 */
static bool
fit_size(struct upkeep *u, struct kp_db *db, kp_wall_ns now)
{
	int64_t size = ask(db, ST_PAGE_SIZE), used;

	if (give_back(u, db, size))
		return true;
	if (u->max_bytes == 0 || db->rc != SQLITE_OK)
		return false;
	used = (int64_t)u->bytes - size * ask(db, ST_FREE_PAGES);
	if (used > (int64_t)u->max_bytes && u->cuts < CUTS_MAX) {
		/* unused texts may be what is too much */
		if (stack_texts_now(db))
			return true;
		u->cuts++;
		db->stack_texts.swept = false;
		if (u->cuts > u->cuts_reported) {
			u->cuts_reported = u->cuts;
			db_event(db, now, "store_size", "the database would grow "
			    "past %" PRIu64 " MiB: what it holds is kept %.3g %% "
			    "as long", u->max_bytes >> 20, 100 * ages_left(u));
		}
		return true;
	}
	if (used < (int64_t)u->max_bytes / 10 * 9 && u->cuts > 0)
		u->cuts--;
	return false;
}

int
upkeep_turn(struct upkeep *u, struct kp_db *db, kp_wall_ns now, bool *more)
{
	/*
	 * Sums delete nothing, so that they need not wait for a clock that is
	 * ahead: the windows' own time counts where `now` is behind it (retain.h).
	 */
	kp_wall_ns sums = db->last_end > now ? db->last_end : now;

	db_begin(db);
	levels_set(db, &u->retain, u->interval);
	/* sums come last: if one fails, the file must still shrink */
	*more = db->rc == SQLITE_OK && (expire(u, db, now) ||
	    show_next(u, db, now) || fit_size(u, db, now) ||
	    levels_make(db, sums, u->interval) || stack_texts_turn(db, now));
	return db_commit(db);
}
