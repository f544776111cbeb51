/* join.c - samples come in, requests take theirs, and the rest is decided. */
#include <stdlib.h>

#include "base/sat.h"
#include "kprofd/label.h"
#include "stacks/cells.h"
#include "stacks/loose.h"
#include "stacks/path.h"
#include "stacks/pending.h"
#include "stacks/table.h"

/* Tiers' names are short; a longer path is "_other". */
#define PATH_TEXT_MAX 8192
/* Labels that are decided about at once; others wait for the next time. */
#define EXPIRE_AT_ONCE 1024
#define ABANDONED_LAG KP_NS_PER_S

struct stack_join {
	struct kp_stack_table *table;
	struct pending_samples pending;
	struct loose_samples loose;
	struct stack_cells cells;
	struct kp_losses losses;	/* of the running window */
	struct stack_totals totals;
	struct kp_buf path;		/* scratch */
};

struct stack_join *
stack_join_new(void)
{
	struct stack_join *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->table = kp_stack_table_new();
	if (j->table == NULL) {
		free(j);
		return NULL;
	}
	pending_samples_init(&j->pending);
	kp_buf_init(&j->path, PATH_TEXT_MAX);
	return j;
}

void
stack_join_free(struct stack_join *j)
{
	if (j == NULL)
		return;
	kp_stack_table_free(j->table);
	pending_samples_free(&j->pending);
	loose_samples_free(&j->loose);
	stack_cells_free(&j->cells);
	kp_buf_free(&j->path);
	free(j);
}

void
stack_join_restart(struct stack_join *j)
{
	j->totals.sampler = (struct kp_stack_counts){ 0 };
}

static void
lose(struct stack_join *j, enum kp_loss cause, uint64_t n)
{
	j->losses.n[cause] += n;
	j->totals.lost += n;
}

/* ---- into cells ---- */

/* path: what j->path holds, or nothing. */
static void
count(struct stack_join *j, const struct kp_stack_sample *s, uint32_t identity,
    uint32_t weight)
{
	uint32_t path = j->path.err != KP_OK ? STACK_PATH_OTHER :
	    stack_cells_path(&j->cells, kp_buf_cstr(&j->path));
	struct stack_cell_key key = {
		.identity = identity == KP_IDENT_TOTAL ? KP_IDENT_NONE :
		    identity,
		.path = path, .stack = s->stack, .state = s->state };

	if (stack_cells_add(&j->cells, key, s->time, weight))
		j->totals.joined++;
	else
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
}

static void
join(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_request *rq, struct kp_stack_sample *s,
    enum stack_belongs how, uint32_t call)
{
	if (how == STACK_IDLE) {
		j->totals.idle++;
		return;
	}
	if (stack_is_late(scope, rq, j->table, s, call))
		s->stack = KP_STACK_LATE;
	kp_buf_reset(&j->path);
	stack_put_path(&j->path, scope, rq, call, how == STACK_AFTER);
	count(j, s, rq->identity, rq->weight);
}

/* No call of the request is open after this time; INT64_MAX: one has no end. */
static kp_target_ns
last_end(const struct kp_request *rq)
{
	kp_target_ns last = rq->end;

	for (uint32_t i = 0; i < rq->ncalls; i++) {
		if (rq->calls[i].outcome == KP_UNFINISHED)
			return INT64_MAX;
		if (rq->calls[i].end > last)
			last = rq->calls[i].end;
	}
	return last;
}

/*
 * Without a look at its calls, whose times are not moved where a request has one
 * node.  Most loose samples are later than a request that closes.
 */
static bool
may_take(const struct stack_scope *scope, const struct kp_request *rq,
    kp_target_ns last, const struct kp_stack_sample *s)
{
	if (rq->nodes != UINT64_C(1) << scope->node)
		return true;
	return s->at >= rq->start && (s->at <= last || s->label == rq->label);
}

static void
put_loose(struct stack_join *j, const struct kp_stack_sample *s)
{
	if (!loose_samples_put(&j->loose, s))
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
}

/*
 * It takes the loose samples of its calls.  One of a process without a call is
 * known by its label alone, if it showed that.
 */
static void
take_loose(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_request *rq)
{
	kp_target_ns last = j->loose.n > 0 ? last_end(rq) : 0;
	struct kp_stack_sample *s;
	enum stack_belongs how;
	uint32_t call;
	bool own;

	for (size_t i = j->loose.n; i-- > 0;) {
		s = &j->loose.v[i];
		if (!may_take(scope, rq, last, s))
			continue;
		how = stack_find_call(scope, rq, s, &call, &own);
		if (!own && (s->state == KP_STACK_NOT_SEEN ||
		    s->label != rq->label ||
		    kp_requests_spread(scope->rs, rq->label)))
			continue;
		join(j, scope, rq, s, how, call);
		loose_samples_drop(&j->loose, i);
	}
}

void
stack_join_request(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_request *rq)
{
	uint32_t i = pending_samples_take(&j->pending, rq->label), call;
	bool spread = kp_requests_spread(scope->rs, rq->label), own;
	struct kp_stack_sample *s;
	enum stack_belongs how;

	while (i != PENDING_NONE) {
		s = &j->pending.v[i].s;
		how = stack_find_call(scope, rq, s, &call, &own);
		if (own || !spread)
			join(j, scope, rq, s, how, call);
		else
			put_loose(j, s);
		i = pending_samples_drop(&j->pending, i);
	}
	take_loose(j, scope, rq);
}

/* ---- samples in ---- */

struct sample_ctx {
	struct stack_join *j;
	const struct stack_scope *scope;
};

static void
on_sample(void *ctx, const struct kp_stack_sample *s)
{
	const struct sample_ctx *c = ctx;
	struct stack_join *j = c->j;

	if (s->took > 0 || s->state == KP_STACK_NOT_SEEN ||
	    (s->label != 0 && kp_requests_spread(c->scope->rs, s->label))) {
		put_loose(j, s);
	} else if (s->label == 0) {
		j->totals.idle++;
	} else if (!pending_samples_put(&j->pending, s)) {
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
	}
}

static uint64_t
risen(uint64_t now, uint64_t last)
{
	return now >= last ? now - last : now;	/* another sampler */
}

enum kp_err
stack_join_message(struct stack_join *j, const struct stack_scope *s,
    const void *p, size_t n)
{
	static const struct kp_stack_ops ops = { .on_sample = on_sample };
	struct kp_stack_message m = { .counts = j->totals.sampler };
	enum kp_err err = kp_stacks_decode(p, n, j->table, &m, &ops,
	    &(struct sample_ctx){ j, s });

	if (err != KP_OK)
		return err;
	lose(j, KP_LOSS_SAMPLE_UNSENT, risen(m.counts.unsent,
	    j->totals.sampler.unsent));
	j->losses.n[KP_LOSS_SAMPLE_CROWD] += risen(m.counts.crowded,
	    j->totals.sampler.crowded);
	j->losses.n[KP_LOSS_SAMPLE_LATE] += risen(m.counts.late,
	    j->totals.sampler.late);
	j->totals.sampler = m.counts;
	return KP_OK;
}

/* ---- samples whose request does not come ---- */

/* Its request had closed before the sample came. */
static void
settle_closed(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_closed_request *c, const struct kp_stack_sample *s)
{
	kp_target_ns at = s->at;
	bool inside = kp_requests_convert(scope->rs, scope->node, c->node,
	    &at) && at <= c->end;

	if (!stack_works(s->state, !inside)) {
		j->totals.idle++;
	} else if (inside) {
		lose(j, KP_LOSS_SAMPLE_GONE, 1);
	} else {
		kp_buf_reset(&j->path);
		kp_buf_str(&j->path, "_after");
		count(j, s, c->identity, c->weight);
	}
}

/*
 * Its request was given up while it went on, as at an overload.  Events tell until
 * when that was known, and samples are up to a batch younger.
 */
static void
settle_abandoned(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_closed_request *c, const struct kp_stack_sample *s)
{
	kp_target_ns at = s->at;
	bool inside = kp_requests_convert(scope->rs, scope->node, c->node,
	    &at) && at <= sat_add(c->end, ABANDONED_LAG);

	if (stack_works(s->state, !inside))
		lose(j, KP_LOSS_SAMPLE_GONE, 1);
	else
		j->totals.idle++;
}

/* An idle server keeps the token of a request of long ago. */
static void
settle_unknown(struct stack_join *j, const struct kp_stack_sample *s)
{
	if (stack_works(s->state, true) && !kp_label_is_unowned(s->label))
		lose(j, KP_LOSS_SAMPLE_GONE, 1);
	else
		j->totals.idle++;
}

static void
settle_one(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_stack_sample *s)
{
	struct kp_closed_request c;

	if (kp_requests_spread(scope->rs, s->label)) {
		settle_unknown(j, s);
		return;
	}
	switch (kp_requests_find(scope->rs, s->label, &c)) {
	case KP_REQUEST_CLOSED:
		settle_closed(j, scope, &c, s);
		break;
	case KP_REQUEST_ABANDONED:
		settle_abandoned(j, scope, &c, s);
		break;
	default:
		settle_unknown(j, s);
	}
}

static void
settle(struct stack_join *j, const struct stack_scope *scope, uint64_t label)
{
	uint32_t i = pending_samples_take(&j->pending, label);

	while (i != PENDING_NONE) {
		settle_one(j, scope, &j->pending.v[i].s);
		i = pending_samples_drop(&j->pending, i);
	}
}

/* Has its request ended, or will it never be known how? */
static bool
is_settled(enum kp_request_is is)
{
	return is == KP_REQUEST_CLOSED || is == KP_REQUEST_ABANDONED;
}

/* Nothing will take these samples; the last of them was taken at `last`. */
static bool
is_over(const struct stack_scope *s, uint64_t label, kp_target_ns last,
    kp_target_ns now)
{
	struct kp_closed_request c;
	enum kp_request_is is = kp_requests_find(s->rs, label, &c);

	return is_settled(is) || (is == KP_REQUEST_UNKNOWN &&
	    (sat_span(last, now) > STACK_REQUEST_WAIT ||
	    sat_span(now, last) > STACK_REQUEST_WAIT));
}

/* Its request takes it until then, or another has its process by now. */
static bool
is_loose_over(const struct stack_scope *scope, const struct kp_stack_sample *s,
    kp_target_ns now)
{
	kp_dur_ns old = sat_span(s->at, now);

	if (now < s->at)
		return sat_span(now, s->at) > STACK_REQUEST_WAIT;
	return old > KP_REQUEST_AGE_MAX + STACK_REQUEST_WAIT ||
	    (old > STACK_REQUEST_WAIT && kp_requests_label(scope->rs,
	    kp_proc_on(scope->node, s->proc)) == 0);
}

/* No call shows that one which was not seen worked for a request. */
static void
settle_loose(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_stack_sample *s)
{
	struct kp_closed_request c;

	if (s->state == KP_STACK_NOT_SEEN || s->label == 0) {
		j->totals.idle++;
	} else if (kp_requests_spread(scope->rs, s->label) ||
	    is_settled(kp_requests_find(scope->rs, s->label, &c))) {
		settle_one(j, scope, s);
	} else if (!pending_samples_put(&j->pending, s)) {
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
	}
}

static void
expire_loose(struct stack_join *j, const struct stack_scope *scope,
    kp_target_ns now)
{
	struct kp_stack_sample s;

	for (size_t i = j->loose.n; i-- > 0;) {
		s = j->loose.v[i];
		if (!is_loose_over(scope, &s, now))
			continue;
		loose_samples_drop(&j->loose, i);
		settle_loose(j, scope, &s);
	}
}

void
stack_join_expire(struct stack_join *j, const struct stack_scope *s,
    kp_target_ns now)
{
	uint64_t over[EXPIRE_AT_ONCE];
	const struct map_slot *at;
	size_t i = 0, n = 0;

	expire_loose(j, s, now);
	while (n < EXPIRE_AT_ONCE &&
	    (at = map_next(&j->pending.by_label, &i)) != NULL)
		if (is_over(s, at->key, j->pending.v[at->val].s.at, now))
			over[n++] = at->key;
	while (n > 0)
		settle(j, s, over[--n]);
}

void
stack_join_drop(struct stack_join *j)
{
	lose(j, KP_LOSS_SAMPLE_GONE, j->pending.n + j->loose.n);
	pending_samples_clear(&j->pending);
	j->loose.n = 0;
}

void
stack_join_reset(struct stack_join *j)
{
	stack_join_drop(j);
	stack_cells_free(&j->cells);
}

/* ---- windows out ---- */

bool
stack_join_copy(const struct stack_join *j, const struct stack_scope *s,
    struct kp_window *w)
{
	if (stack_cells_copy(&j->cells, j->table, s->rs, w) != KP_OK)
		return false;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		w->losses.n[i] += j->losses.n[i];
	w->losses.n[KP_LOSS_STACK_OTHER] += j->cells.other;
	return true;
}

/* Another table, which has only the stacks of samples that wait. */
static void
renew_table(struct stack_join *j)
{
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_stack_sample *s;
	const struct map_slot *at;
	size_t i = 0;

	if (t == NULL)
		return;		/* the old one is good, and may fill up */
	while ((at = map_next(&j->pending.by_label, &i)) != NULL)
		for (uint32_t k = (uint32_t)at->val; k != PENDING_NONE;
		    k = j->pending.v[k].next) {
			s = &j->pending.v[k].s;
			s->stack = kp_stack_copy(t, j->table, s->stack);
		}
	for (size_t k = 0; k < j->loose.n; k++)
		j->loose.v[k].stack = kp_stack_copy(t, j->table,
		    j->loose.v[k].stack);
	kp_stack_table_free(j->table);
	j->table = t;
}

bool
stack_join_rotate(struct stack_join *j, const struct stack_scope *s,
    struct kp_window *w)
{
	if (!stack_join_copy(j, s, w))
		return false;
	stack_cells_free(&j->cells);
	j->losses = (struct kp_losses){ 0 };
	if (stack_table_fills(j->table))
		renew_table(j);
	return true;
}

struct stack_totals
stack_join_totals(const struct stack_join *j)
{
	struct stack_totals t = j->totals;

	t.waiting = j->pending.n + (uint32_t)j->loose.n;
	return t;
}
