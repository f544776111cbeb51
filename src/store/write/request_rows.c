/*
 * request_rows.c - writes slow requests as rows.
 *
 * Calls are sorted by start, but in a readable tree every call follows its
 * parent.  So they are numbered depth first, siblings in order of start, and
 * that number is their key.  A missing parent or a cycle of calls is
 * impossible; if it happens, the call becomes a root.
 */
#include <stdlib.h>
#include <string.h>

#include "store/db.h"

struct order {
	uint32_t *child, *next;	/* first child, next sibling; or KP_NONE */
	uint32_t *seq, *depth;	/* of each call; seq is KP_NONE at first */
	uint32_t *call;		/* of each seq */
	uint32_t n;
};

static bool
is_root(const struct kp_tree *t, uint32_t i)
{
	return t->calls[i].parent >= t->ncalls || t->calls[i].parent == i;
}

static void
number(struct order *o, uint32_t i, uint32_t depth)
{
	o->call[o->n] = i;
	o->depth[i] = depth;
	o->seq[i] = o->n++;
}

/* Numbers a call and all below it.  Climbs by parents, without a stack. */
static void
number_below(struct order *o, const struct kp_tree *t, uint32_t root)
{
	uint32_t at = root, to;

	number(o, root, 0);
	for (;;) {
		to = o->child[at];
		while (to != KP_NONE && o->seq[to] != KP_NONE)
			to = o->next[to];
		if (to != KP_NONE) {
			/* the next child, for the return to this call */
			o->child[at] = o->next[to];
			number(o, to, o->depth[at] + 1);
			at = to;
		} else if (at == root) {
			return;
		} else {
			at = t->calls[at].parent;
		}
	}
}

static void
order_calls(struct order *o, const struct kp_tree *t)
{
	uint32_t n = t->ncalls, p;

	for (uint32_t i = 0; i < n; i++)
		o->child[i] = o->next[i] = o->seq[i] = KP_NONE;
	for (uint32_t i = n; i-- > 0;) {
		if (is_root(t, i))
			continue;
		p = t->calls[i].parent;
		o->next[i] = o->child[p];
		o->child[p] = i;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (is_root(t, i))
			number_below(o, t, i);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (o->seq[i] == KP_NONE)
			number_below(o, t, i);
	}
}

static void
call_row(struct kp_db *db, int64_t request, const struct kp_tree *t,
    const struct order *o, uint32_t seq)
{
	uint32_t i = o->call[seq];
	const struct kp_tree_call *c = &t->calls[i];
	int64_t fn = db_dim(db, DIM_FUNCTION, c->fn);
	bool tier = c->tier != NULL && c->tier[0] != '\0';
	int64_t tier_id = tier ? db_dim(db, DIM_TIER, c->tier) : 0;
	bool node = c->node != NULL && strcmp(c->node, t->node) != 0;
	int64_t node_id = node ? db_dim(db, DIM_NODE, c->node) : 0;

	row_start(db, ST_CALL);
	row_int(db, request);
	row_int(db, seq);
	row_opt(db, o->depth[i] > 0, o->depth[i] > 0 ? o->seq[c->parent] : 0);
	row_int(db, o->depth[i]);
	row_int(db, fn);
	row_opt(db, tier, tier_id);
	row_text(db, c->pid);
	row_int(db, c->start);
	row_opt(db, c->total >= 0, c->total);
	row_opt(db, c->self >= 0, c->self);
	row_int(db, c->outcome);
	row_int(db, c->async);
	row_opt(db, node, node_id);
	row_opt(db, c->outlasts, 1);
	row_end(db);
}

static int64_t
request_row(struct kp_db *db, const struct kp_tree *t)
{
	int64_t node = db_dim(db, DIM_NODE, t->node);
	int64_t identity = db_dim(db, DIM_IDENTITY, t->identity);

	row_start(db, ST_REQUEST);
	row_int(db, db->run);
	row_int(db, node);
	row_int(db, identity);
	row_int(db, t->start);
	row_opt(db, t->total >= 0, t->total);
	row_int(db, (int64_t)t->label);
	row_opt(db, t->parent_label != 0, (int64_t)t->parent_label);
	row_int(db, t->weight);
	row_int(db, t->outcome);
	row_end(db);
	return db_last_id(db);
}

void
db_tree(struct kp_db *db, const struct kp_tree *t)
{
	size_t n = t->ncalls;
	uint32_t *room = calloc(n > 0 ? 5 * n : 1, sizeof(*room));
	struct order o = { 0 };
	int64_t id;

	if (room == NULL) {
		db_fail(db, SQLITE_NOMEM);
		return;
	}
	o.child = room;
	o.next = room + n;
	o.seq = room + 2 * n;
	o.depth = room + 3 * n;
	o.call = room + 4 * n;
	order_calls(&o, t);
	id = request_row(db, t);
	for (uint32_t seq = 0; seq < o.n && db->rc == SQLITE_OK; seq++)
		call_row(db, id, t, &o, seq);
	db_tree_waits(db, id, t);
	row_start(db, ST_TIMES);
	row_int(db, id);
	row_end(db);
	free(room);
}
