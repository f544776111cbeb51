/* stack_texts.c - marks stacks that rows refer to, and deletes the others. */
#include <stdlib.h>

#include "store/db.h"

#define EVERY (3600 * KP_NS_PER_S)
#define READ_ROWS 32768		/* in one turn, and the rest of a window */
#define DELETE_TEXTS 512	/* looked at in one turn: about 200 KB */
/* 8 MiB of bits.  Texts beyond stay until the ids begin again. */
#define IDS_MAX (INT64_C(1) << 26)

void
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

static bool
is_used(const struct stack_texts *t, int64_t id)
{
	return id > t->last || (t->used[id / 8] >> id % 8 & 1) != 0;
}

/* False: there are no texts, or no memory for their bits: the next pass. */
static bool
begin(struct kp_db *db)
{
	struct stack_texts *t = &db->stack_texts;

	t->last = 0;
	row_start(db, ST_STACK_LAST);
	if (row_next(db)) {
		t->last = row_get(db, 0);
		row_leave(db);
	}
	if (t->last > IDS_MAX)
		t->last = IDS_MAX;
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

	row_start(db, rows);
	row_int(db, t->at);
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

	row_start(db, ST_STACK_IDS);
	row_int(db, t->at);
	while (seen < DELETE_TEXTS && (more = row_next(db))) {
		t->at = row_get(db, 0);
		seen++;
		if (!is_used(t, t->at))
			unused[n++] = t->at;
	}
	row_leave(db);
	for (int i = 0; i < n; i++) {
		row_start(db, ST_STACK_DEL);
		row_int(db, unused[i]);
		row_end(db);
	}
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

bool
stack_texts_turn(struct kp_db *db, kp_wall_ns now)
{
	struct stack_texts *t = &db->stack_texts;

	if (t->used == NULL) {
		/* the clock may have been set back */
		if (t->next == 0 || t->next > now + EVERY)
			t->next = now + EVERY;
		if (now < t->next)
			return false;
		t->next = now + EVERY;
		if (!begin(db))
			return false;
	}
	go_on(db);
	return true;
}

bool
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

void
stack_texts_cut(struct stack_texts *t)
{
	t->swept = false;
}
