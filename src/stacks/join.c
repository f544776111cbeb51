/*
 * join.c - samples come in, requests take theirs, and the rest is decided.
 *
 * Times of calls are by the clock of the entry's node, and calls of other nodes
 * were moved to their places among those of the first (clock_align.c).  A sample
 * is moved like the call that it is compared with.
 *
 * It looks at all calls of a request for each sample: a sampler takes some
 * hundred samples a second, so that even with 10 000 calls that is 1 % of a
 * processor at most.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "kprofd/fn_name.h"
#include "kprofd/label.h"
#include "stacks/cells.h"
#include "stacks/join.h"
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
	struct unmatched_samples unmatched;
	struct stack_cells cells;
	struct kp_losses losses;	/* of the running window */
	struct stack_totals totals;	/* sampler: of the agent that is there, */
	struct kp_stack_counts before;	/* of those before it */
	struct kp_usage *usage;		/* of the last walk; NULL: none */
	struct kp_buf path;		/* scratch */
};

/* How a sample belongs to a request that closes. */
enum belongs {
	IDLE,			/* its process did nothing for the request */
	INSIDE,
	AFTER			/* after the request's end */
};

/* ---- the call that a process was in, and its tiers ---- */

static bool
covers(const struct kp_call *c, kp_target_ns at)
{
	return c->start <= at && (c->outcome == KP_UNFINISHED || c->end >= at);
}

/* Is the function of a call on the stack?  Names in quotes are not found. */
static bool
is_on_stack(const struct stack_scope *s, const struct kp_stack_table *t,
    uint32_t stack, uint32_t fn)
{
	char text[FN_NAME_MAX];
	const char *name = fn_shown(text, sizeof(text), kp_requests_fn(s->rs,
	    kp_requests_fn(s->rs, fn)->base)->text);
	const struct kp_stack_frame *f;
	uint32_t n;

	f = kp_stack_frames(t, stack, &n);
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(kp_stack_fn(t, f[i].fn), name) == 0)
			return true;
	return false;
}

/* Returns the innermost call of the process at that time; calls begin in order. */
static uint32_t
own_call(const struct kp_requests *rs, const struct kp_request *rq,
    uint64_t proc, kp_target_ns at)
{
	for (uint32_t i = rq->ncalls; i-- > 0;)
		if (rq->calls[i].proc == proc && covers(&rq->calls[i],
		    sat_add(at, kp_requests_moved(rs, rq, i))))
			return i;
	return KP_NONE;
}

/* The time by the request's clock of a process that has no call open. */
static kp_target_ns
request_time(const struct stack_scope *s, const struct kp_request *rq,
    kp_target_ns at)
{
	kp_target_ns there = at;

	if (kp_requests_convert(s->rs, s->node, rq->node, &there))
		return there;
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].node == s->node)
			return sat_add(at, kp_requests_moved(s->rs, rq, i));
	return rq->start;
}

/*
 * Returns the innermost call that was open anywhere, as for calls whose caller is
 * not known (request/close.c).
 */
static uint32_t
any_call(const struct kp_request *rq, kp_target_ns at)
{
	for (uint32_t i = rq->ncalls; i-- > 0;)
		if (rq->calls[i].outcome != KP_UNFINISHED &&
		    covers(&rq->calls[i], at))
			return i;
	return rq->ncalls > 0 && covers(&rq->calls[0], at) ? 0 : KP_NONE;
}

/* Does a process in this state work, though no call shows it? */
static bool
works(uint8_t state, bool after)
{
	return state != KP_STACK_WAIT && !(after && (state == KP_STACK_PORT ||
	    state == KP_STACK_CALL));
}

/*
 * Sets *call to the call it belongs to, or KP_NONE; *own: it is of the sample's
 * process.
 */
static enum belongs
find_call(const struct stack_scope *s, const struct kp_request *rq,
    const struct kp_stack_sample *sample, uint32_t *call, bool *own)
{
	kp_target_ns at;
	bool after;

	*call = own_call(s->rs, rq, kp_proc_on(s->node, sample->proc),
	    sample->at);
	*own = *call != KP_NONE;
	at = *own ? sat_add(sample->at, kp_requests_moved(s->rs, rq, *call)) :
	    request_time(s, rq, sample->at);
	after = rq->outcome != KP_UNFINISHED && at > rq->end;
	if (*call == KP_NONE) {
		if (at < rq->start || !works(sample->state, after))
			return IDLE;
		if (!after)
			*call = any_call(rq, at);
	}
	return after ? AFTER : INSIDE;
}

/*
 * A process that runs shows its stack when it is next scheduled out or receives.
 * Is that of another time, since this call has ended and is not on it?
 */
static bool
is_late(const struct stack_scope *s, const struct kp_request *rq,
    const struct kp_stack_table *t, const struct kp_stack_sample *sample,
    uint32_t call)
{
	const struct kp_call *c;
	kp_target_ns read;

	if (sample->took == 0 || call == KP_NONE)
		return false;
	c = &rq->calls[call];
	read = sat_add(sat_add(sample->at, sample->took),
	    kp_requests_moved(s->rs, rq, call));
	return !covers(c, read) && !is_on_stack(s, t, sample->stack, c->fn);
}

/* Returns the first tier of a function, or KP_NONE. */
static uint32_t
tier_of(const struct stack_scope *s, uint32_t fn)
{
	uint64_t tiers = kp_requests_fn(s->rs, fn)->tiers &
	    ((UINT64_C(1) << s->conf->ntiers) - 1);

	return tiers != 0 ? (uint32_t)__builtin_ctzll(tiers) : KP_NONE;
}

static void
put_tier(struct kp_buf *b, const char *name)
{
	if (b->len > 0)
		kp_buf_u8(b, ';');
	for (; *name != '\0'; name++)
		kp_buf_u8(b, *name == ';' ? ',' : (uint8_t)*name);
}

/* Writes the path of a call, or of KP_NONE; after: with "_after". */
static void
put_path(struct kp_buf *b, const struct stack_scope *s,
    const struct kp_request *rq, uint32_t call, bool after)
{
	uint32_t fns[STACK_PATH_DEPTH], n = 0, t, part;

	/* up from the innermost: past the cap, the outermost replaces the last */
	for (; call != KP_NONE; call = rq->calls[call].parent) {
		t = tier_of(s, rq->calls[call].fn);
		if (t == KP_NONE || (n > 0 && tier_of(s, fns[n - 1]) == t))
			continue;
		n -= n == STACK_PATH_DEPTH;
		fns[n++] = rq->calls[call].fn;
	}
	if (after)
		put_tier(b, "_after");
	while (n-- > 0) {
		part = kp_requests_fn(s->rs, fns[n])->part;
		put_tier(b, part > 0 ? kp_requests_part(s->rs, part - 1) :
		    s->conf->tiers[tier_of(s, fns[n])].name);
	}
}

/* ---- the samples of a node ---- */

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
	unmatched_samples_free(&j->unmatched);
	stack_cells_free(&j->cells);
	kp_buf_free(&j->path);
	free(j->usage);
	free(j);
}

void
stack_join_restart(struct stack_join *j)
{
	j->before = stack_join_totals(j).sampler;
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
    uint8_t octave, uint32_t weight)
{
	uint32_t path = j->path.err != KP_OK ? STACK_PATH_OTHER :
	    stack_cells_path(&j->cells, kp_buf_cstr(&j->path));
	struct stack_cell_key key = {
		.identity = identity == KP_IDENT_TOTAL ? KP_IDENT_NONE :
		    identity,
		.path = path, .stack = s->stack, .state = s->state,
		.octave = octave };

	if (stack_cells_add(&j->cells, key, s->time, weight))
		j->totals.joined++;
	else
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
}

static void
join(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_request *rq, struct kp_stack_sample *s,
    enum belongs how, uint32_t call)
{
	if (how == IDLE) {
		j->totals.idle++;
		return;
	}
	if (is_late(scope, rq, j->table, s, call))
		s->stack = KP_STACK_LATE;
	kp_buf_reset(&j->path);
	put_path(&j->path, scope, rq, call, how == AFTER);
	count(j, s, rq->identity, kp_request_octave(rq), rq->weight);
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
 * node.  Most unmatched samples are later than a request that closes.
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
put_unmatched(struct stack_join *j, const struct kp_stack_sample *s)
{
	if (!unmatched_samples_put(&j->unmatched, s))
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
}

/*
 * It takes the unmatched samples of its calls.  One of a process without a call is
 * known by its label alone, if it showed that.
 */
static void
take_unmatched(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_request *rq)
{
	kp_target_ns last = j->unmatched.n > 0 ? last_end(rq) : 0;
	struct kp_stack_sample *s;
	enum belongs how;
	uint32_t call;
	bool own;

	for (size_t i = j->unmatched.n; i-- > 0;) {
		s = &j->unmatched.v[i];
		if (!may_take(scope, rq, last, s))
			continue;
		how = find_call(scope, rq, s, &call, &own);
		if (!own && (s->state == KP_STACK_NOT_SEEN ||
		    s->label != rq->label ||
		    kp_requests_spread(scope->rs, rq->label)))
			continue;
		join(j, scope, rq, s, how, call);
		unmatched_samples_drop(&j->unmatched, i);
	}
}

void
stack_join_request(struct stack_join *j, const struct stack_scope *scope,
    const struct kp_request *rq)
{
	uint32_t i = pending_samples_take(&j->pending, rq->label), call;
	bool spread = kp_requests_spread(scope->rs, rq->label), own;
	struct kp_stack_sample *s;
	enum belongs how;

	while (i != PENDING_NONE) {
		s = &j->pending.v[i].s;
		how = find_call(scope, rq, s, &call, &own);
		if (own || !spread)
			join(j, scope, rq, s, how, call);
		else
			put_unmatched(j, s);
		i = pending_samples_drop(&j->pending, i);
	}
	take_unmatched(j, scope, rq);
}

/* ---- samples in ---- */

struct sample_ctx {
	struct stack_join *j;
	const struct stack_scope *scope;
	struct kp_usage **usage;
};

static void
on_sample(void *ctx, const struct kp_stack_sample *s)
{
	const struct sample_ctx *c = ctx;
	struct stack_join *j = c->j;

	if (s->took > 0 || s->state == KP_STACK_NOT_SEEN ||
	    (s->label != 0 && kp_requests_spread(c->scope->rs, s->label))) {
		put_unmatched(j, s);
	} else if (s->label == 0) {
		j->totals.idle++;
	} else if (!pending_samples_put(&j->pending, s)) {
		lose(j, KP_LOSS_SAMPLE_CAP, 1);
	}
}

static void
on_usage(void *ctx, struct kp_usage *u)
{
	const struct sample_ctx *c = ctx;

	free(c->j->usage);
	*c->usage = c->j->usage = u;
}

static uint64_t
risen(uint64_t now, uint64_t last)
{
	return now >= last ? now - last : now;	/* another sampler */
}

enum kp_err
stack_join_message(struct stack_join *j, const struct stack_scope *s,
    const void *p, size_t n, struct kp_usage **usage)
{
	static const struct kp_stack_ops ops = { .on_sample = on_sample,
		.on_usage = on_usage };
	struct kp_stack_message m = { .counts = j->totals.sampler };
	enum kp_err err = kp_stacks_decode(p, n, j->table, &m, &ops,
	    &(struct sample_ctx){ j, s, usage });

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

	if (!works(s->state, !inside)) {
		j->totals.idle++;
	} else if (inside) {
		lose(j, KP_LOSS_SAMPLE_GONE, 1);
	} else {
		kp_buf_reset(&j->path);
		kp_buf_str(&j->path, "_after");
		count(j, s, c->identity, c->octave, c->weight);
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

	if (works(s->state, !inside))
		lose(j, KP_LOSS_SAMPLE_GONE, 1);
	else
		j->totals.idle++;
}

/* An idle server keeps the token of a request of long ago. */
static void
settle_unknown(struct stack_join *j, const struct kp_stack_sample *s)
{
	if (works(s->state, true) && !kp_label_is_unowned(s->label))
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
is_unmatched_over(const struct stack_scope *scope, const struct kp_stack_sample *s,
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
settle_unmatched(struct stack_join *j, const struct stack_scope *scope,
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
expire_unmatched(struct stack_join *j, const struct stack_scope *scope,
    kp_target_ns now)
{
	struct kp_stack_sample s;

	for (size_t i = j->unmatched.n; i-- > 0;) {
		s = j->unmatched.v[i];
		if (!is_unmatched_over(scope, &s, now))
			continue;
		unmatched_samples_drop(&j->unmatched, i);
		settle_unmatched(j, scope, &s);
	}
}

void
stack_join_expire(struct stack_join *j, const struct stack_scope *s,
    kp_target_ns now)
{
	uint64_t over[EXPIRE_AT_ONCE];
	const struct map_slot *at;
	size_t i = 0, n = 0;

	expire_unmatched(j, s, now);
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
	lose(j, KP_LOSS_SAMPLE_GONE, j->pending.n + j->unmatched.n);
	pending_samples_clear(&j->pending);
	j->unmatched.n = 0;
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
	for (size_t k = 0; k < j->unmatched.n; k++)
		j->unmatched.v[k].stack = kp_stack_copy(t, j->table,
		    j->unmatched.v[k].stack);
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
	w->usage = j->usage;
	j->usage = NULL;
	if (stack_table_fills(j->table))
		renew_table(j);
	return true;
}

struct stack_totals
stack_join_totals(const struct stack_join *j)
{
	struct stack_totals t = j->totals;
	struct kp_stack_counts *s = &t.sampler;
	const struct kp_stack_counts *b = &j->before;

	*s = (struct kp_stack_counts){ .ticks = s->ticks + b->ticks,
		.looked = s->looked + b->looked, .taken = s->taken + b->taken,
		.not_seen = s->not_seen + b->not_seen,
		.unsent = s->unsent + b->unsent,
		.busy = sat_add(s->busy, b->busy),
		.crowded = s->crowded + b->crowded, .late = s->late + b->late };

	t.waiting = j->pending.n + (uint32_t)j->unmatched.n;
	return t;
}
