/*
 * insert.c - writes windows, slow requests, and what happened (table event) as rows.
 *
 * Calls of a request are sorted by start, but in a readable tree every call
 * follows its parent.  So they are numbered depth first, siblings in order of
 * start, and that number is their key.  A missing parent or a cycle of calls is
 * impossible; if it happens, the call becomes a root.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"

static bool
has_cost(const struct kp_cost *c)
{
	return c->events > 0 || c->armed_calls > 0 || c->agent > 0 ||
	    c->traced_call > 0 || c->switches > 0;
}

uint64_t
db_window_rows(const struct kp_window *w)
{
	uint64_t rows = 1 + w->ncells + w->nwaits + w->nstacks +
	    (w->usage != NULL ? w->usage->n : 0) + has_cost(&w->cost);

	for (int i = 0; i < KP_LOSS_COUNT; i++)
		rows += w->losses.n[i] > 0;
	return rows;
}

static void
cost_row(struct kp_db *db, int64_t window, const struct kp_cost *c)
{
	if (!has_cost(c))
		return;
	row_begin_ints(db, ST_COST, window, c->events,
	    c->armed_calls, c->agent, kp_cost_total(c));
	row_opt(db, c->traced_call > 0, c->traced_call);
	row_opt(db, c->traced_call > 0, c->traced_caller);
	row_int(db, c->switches);
	row_int(db, c->sampled);
	row_end(db);
}

void
db_window(struct kp_db *db, const struct kp_window *w,
    const struct drop_counts_node *lost)
{
	int64_t node = db_dim(db, DIM_NODE, w->node);
	struct kp_window head = *w;
	int64_t id;

	if (lost != NULL)
		drop_counts_add_to(lost, &head);
	db->last_end = w->end;
	levels_forget_sums(db, node, w->start);
	row_exec_ints(db, ST_WINDOW, db->run, node, w->start, w->end,
	    head.entry_calls, head.sampled);
	id = db_last_id(db);
	for (size_t i = 0; i < w->ncells && db->rc == SQLITE_OK; i++)
		db_cell(db, ST_STAT, id, db_dim(db, DIM_TIER, w->cells[i].tier),
		    db_dim(db, DIM_IDENTITY, w->cells[i].identity),
		    &w->cells[i]);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		if (head.losses.n[i] > 0)
			row_exec_ints(db, ST_LOSS, id, db_dim(db, DIM_CAUSE,
			    kp_loss_name(i)), head.losses.n[i]);
	cost_row(db, id, &w->cost);
	db_waits(db, id, w);
	db_stacks(db, id, w);
	if (w->usage != NULL)
		db_usage(db, id, w->usage);
}

void
db_happening(struct kp_db *db, const struct kp_happening *h)
{
	int64_t node = db_dim(db, DIM_NODE, h->node);

	row_begin_ints(db, ST_EVENT, db->run, node, h->at);
	row_text(db, h->kind);
	row_text(db, h->text);
	row_end(db);
}

void
db_event(struct kp_db *db, kp_wall_ns at, const char *kind, const char *fmt, ...)
{
	struct kp_happening h = { .at = at, .node = "", .kind = kind };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(h.text, sizeof(h.text), fmt, ap);
	va_end(ap);
	db_happening(db, &h);
}

/* ---- slow requests ---- */

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

	row_begin_ints(db, ST_CALL, request, seq);
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
	row_opt(db, c->pauses.gc >= 0, c->pauses.gc);
	row_opt(db, c->pauses.out >= 0, c->pauses.out);
	row_end(db);
}

static int64_t
request_row(struct kp_db *db, const struct kp_tree *t)
{
	int64_t node = db_dim(db, DIM_NODE, t->node);
	int64_t identity = db_dim(db, DIM_IDENTITY, t->identity);

	row_begin_ints(db, ST_REQUEST, db->run, node, identity, t->start);
	row_opt(db, t->total >= 0, t->total);
	row_int(db, t->label);
	row_opt(db, t->parent_label != 0, t->parent_label);
	row_int(db, t->weight);
	row_int(db, t->outcome);
	row_text(db, t->traceparent[0] != '\0' ? t->traceparent : NULL);
	row_end(db);
	return db_last_id(db);
}

void
db_tree(struct kp_db *db, struct kp_tree *t)
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
	t->id = id = request_row(db, t);
	for (uint32_t seq = 0; seq < o.n && db->rc == SQLITE_OK; seq++)
		call_row(db, id, t, &o, seq);
	db_tree_waits(db, id, t);
	row_exec_ints(db, ST_TIMES, id);
	free(room);
}
