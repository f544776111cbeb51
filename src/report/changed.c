/*
 * changed.c - puts changes of all series together; looks for the tier, the node and the
 * event behind each; writes a sentence for each.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "changed.h"
#include "kprofd/config.h"
#include "text/text.h"
#include "text/timefmt.h"

/* ---- all series of a range ---- */

#define TOGETHER 2	/* steps: changes on several nodes that are one */

struct looking {
	struct kp_query *q;
	const struct kp_query_range *r;	/* as asked for */
	struct kp_steps steps;
	struct changes *c;
	double time, requests;	/* of all series, added up */
};

/* One change of one series, before those of several nodes are put together. */
struct found {
	struct changed_steps s;
	enum changed_what what;
	const struct kp_steps_of *of;
	double weight;
	bool taken;
};

static double
part_of(double v, double all)
{
	return all > 0 ? v / all : 0;
}

static int
found_cmp(const void *pa, const void *pb)
{
	const struct found *a = pa, *b = pb;

	return (fabs(a->weight) < fabs(b->weight)) -
	    (fabs(a->weight) > fabs(b->weight));
}

static bool
is_asked(const struct looking *l, size_t step)
{
	return l->steps.start + (kp_dur_ns)(step + 1) * l->steps.step >
	    l->c->asked;
}

static void
count_all(struct looking *l)
{
	const struct kp_steps_of *of;
	size_t used;

	for (of = l->steps.of; of < l->steps.of + l->steps.nof; of++) {
		used = 0;
		for (size_t i = 0; i < l->steps.n; i++) {
			used += of->v[i].requests > 0;
			l->time += (double)of->v[i].total;
			l->requests += (double)of->v[i].requests;
		}
		l->c->steps = used > l->c->steps ? used : l->c->steps;
	}
}

/* Adds the changes of one series that hold in the range asked for. */
static enum kp_err
find_in(const struct looking *l, const struct kp_steps_of *of, enum changed_what what,
    struct found **v, size_t *n)
{
	double all = what == CHANGED_MEAN ? l->time : l->requests, number;
	struct changed_steps some[CHANGED_CUTS], *s;
	size_t found = changed_find(of->v, l->steps.n, what, 2 * (double)l->steps.nof,
	    some);

	for (s = some; s < some + found; s++) {
		/* the end of one that is told says nothing new */
		if (!is_asked(l, s->to - 1) || (s->back && is_asked(l, s[-1].to - 1)))
			continue;
		if (vec_room_by_len(v, *n, VEC_NO_CAP) != KP_OK)
			return KP_ENOMEM;
		number = 0;
		for (size_t k = s->from; k < s->to; k++)
			number += changed_number(&of->v[k], what);
		(*v)[(*n)++] = (struct found){ .s = *s, .what = what, .of = of,
			.weight = part_of((s->now - s->then) * number, all) };
	}
	return KP_OK;
}

static enum kp_err
find_all(struct looking *l, struct found **v, size_t *n)
{
	enum kp_err err = KP_OK;

	count_all(l);
	for (size_t i = 0; i < l->steps.nof && err == KP_OK; i++) {
		err = find_in(l, &l->steps.of[i], CHANGED_MEAN, v, n);
		if (err == KP_OK)
			err = find_in(l, &l->steps.of[i], CHANGED_RAISED, v, n);
	}
	return err;
}

static bool
is_same(const struct found *a, const struct found *b)
{
	size_t apart = a->s.from > b->s.from ? a->s.from - b->s.from :
	    b->s.from - a->s.from;

	return a->what == b->what && a->of->identity == b->of->identity &&
	    apart <= TOGETHER && (a->weight < 0) == (b->weight < 0);
}

static bool
is_on(const struct changed *c, const char *node)
{
	for (size_t k = 0; k < c->nnodes; k++)
		if (strcmp(c->nodes[k], node) == 0)
			return true;
	return false;
}

/*
 * The mean in steps [from, to), over the nodes of c.  Each node counts by its requests
 * in [by, past), so that the mean of two times does not differ because requests have
 * moved from one node to another.  *all: these requests; 0: there is no mean.
 */
static double
mean_on(const struct looking *l, const struct changed *c, size_t from, size_t to,
    size_t by, size_t past, double *all)
{
	const struct kp_steps_of *of;
	double sum = 0, x, n, weight;

	*all = 0;
	for (of = l->steps.of; of < l->steps.of + l->steps.nof; of++) {
		if (of->identity != c->identity || !is_on(c, of->node))
			continue;
		x = n = weight = 0;
		for (size_t i = from; i < to; i++) {
			x += changed_sum(&of->v[i], c->what);
			n += changed_number(&of->v[i], c->what);
		}
		for (size_t i = by; i < past; i++)
			weight += changed_number(&of->v[i], c->what);
		if (n > 0) {
			sum += weight * x / n;
			*all += weight;
		}
	}
	return part_of(sum, *all);
}

static kp_wall_ns
step_time(const struct looking *l, size_t step)
{
	return l->steps.start + (kp_dur_ns)step * l->steps.step;
}

/* Makes one of those that belong together with v[i], the one with most weight. */
static void
put_together(const struct looking *l, struct found *v, size_t n, size_t i,
    struct changed *c)
{
	const struct changed_steps *s = &v[i].s;
	double error = s->error * REPORT_ERRORS, all;

	*c = (struct changed){ .what = v[i].what, .identity = v[i].of->identity,
		.base = step_time(l, s->base), .since = step_time(l, s->from),
		.until = s->to < l->steps.n ? step_time(l, s->to) : 0,
		.gradual = s->gradual, .day = -1, .week = -1 };
	for (size_t k = 0; k < l->steps.nof; k++)
		c->of_nodes += l->steps.of[k].identity == c->identity;
	for (size_t k = i; k < n; k++) {
		if (v[k].taken || !is_same(&v[i], &v[k]) ||
		    c->nnodes == KP_NODES_MAX)
			continue;
		v[k].taken = true;
		c->weight += v[k].weight;
		c->nodes[c->nnodes++] = v[k].of->node;
	}
	c->step = l->steps.step;
	c->then = mean_on(l, c, s->base, s->from, s->from, s->to, &all);
	c->now = mean_on(l, c, s->from, s->to, s->from, s->to, &all);
	/* the error of the series with most weight: with others it is less */
	c->low = c->what == CHANGED_RAISED ? c->now - c->then - error :
	    c->now / c->then * exp(-error) - 1;
	c->high = c->what == CHANGED_RAISED ? c->now - c->then + error :
	    c->now / c->then * exp(error) - 1;
}

/* ---- behind a change ---- */

#define CLOSE 5			/* coarse steps to either side that are read again */
#define LOOK_NODES 4		/* those with most weight, of a change on many */
#define LOOK_OTHERS 16		/* of a change whose tier may be on another node */
#define EVENT_BEFORE (90 * KP_NS_PER_S)
#define EVENT_AFTER (5 * KP_NS_PER_S)
#define EVENTS_MAX 1000
#define DAY (86400 * KP_NS_PER_S)

/*
 * The step of `near` from which on its means are nearest to c->now, and before it to
 * c->then, by the squares; 0: there is none.
 */
static size_t
best_date(const struct looking *near, const struct changed *c, double *mean, double *weight)
{
	double least = INFINITY, squares;
	size_t n = near->steps.n, cut = 0;

	for (size_t i = 0; i < n; i++)
		mean[i] = mean_on(near, c, i, i + 1, i, i + 1, &weight[i]);
	for (size_t i = 1; i < n; i++) {
		squares = 0;
		for (size_t k = 0; k < n; k++)
			squares += weight[k] * pow(mean[k] - (k < i ? c->then :
			    c->now), 2);
		if (weight[i] > 0 && squares < least) {
			least = squares;
			cut = i;
		}
	}
	return cut;
}

/* Dates it by the shortest windows that there are. */
static enum kp_err
date(const struct looking *l, struct changed *c)
{
	kp_dur_ns by = CLOSE * l->steps.step;
	struct kp_query_range r = *l->r;
	struct looking near = *l;
	enum kp_err err;
	double *means;
	size_t cut;

	r.identity = c->identity;
	r.identity_glob = NULL;
	r.since = c->since - by > c->base ? c->since - by : c->base;
	r.until = sat_add(c->since, by);
	r.exact = true;
	if (c->until != 0 && c->until < r.until)
		r.until = c->until;
	near.steps = (struct kp_steps){ .n = 0 };
	err = kp_query_steps(l->q, &r, 1, &near.steps);
	if (err != KP_OK || near.steps.step >= l->steps.step) {
		kp_steps_free(&near.steps);
		return err == KP_ELIMIT ? KP_OK : err;	/* too many: coarse it is */
	}
	means = calloc(2 * near.steps.n + 1, sizeof(*means));
	cut = means != NULL ? best_date(&near, c, means, means + near.steps.n) : 0;
	if (cut != 0) {
		c->since = step_time(&near, cut);
		c->step = near.steps.step;
	}
	kp_steps_free(&near.steps);
	free(means);
	return means != NULL ? KP_OK : KP_ENOMEM;
}

static void
part_range(struct kp_query_range *r, const char *node, kp_wall_ns since,
    kp_wall_ns until)
{
	r->node = node;
	r->since = since;
	r->until = until;
	r->exact = true;
}

/* Of a tier's cell, what a change is made of; NULL is 0. */
static double
figure(const struct kp_cell *c, enum changed_what what, bool request)
{
	if (c == NULL)
		return 0;
	return what == CHANGED_MEAN ? (double)c->w_self :
	    (double)kp_cell_raised(c, request);
}

struct node_sums {
	const char *node;
	struct kp_query_sum then, now;
	double requests_then, requests_now;
};

static double
requests_of(const struct kp_query_sum *s, const char *identity)
{
	const struct kp_cell *c = kp_query_cell(s, "_total", identity);

	return c != NULL ? (double)c->w_requests : 0;
}

#define AS_MUCH 0.8

/*
 * Is t a better answer than b?  It makes more of the change or, as much of it and with
 * fewer calls inside: an exception is counted in each tier that it goes through.
 */
static bool
is_better(const struct changed_tier *t, const struct changed_tier *b, double sign)
{
	double most = b->tier != NULL ? sign * (b->now - b->then) : 0;
	double more = sign * (t->now - t->then);

	return t->inside < b->inside ? more > AS_MUCH * most && more > 0 :
	    more * (t->inside > b->inside ? AS_MUCH : 1) > most;
}

/* Keeps the tier of v that makes most of the change; each is per request. */
static void
best_tier(struct changed *c, const struct node_sums *v, double then, double now)
{
	double sign = c->now < c->then ? -1 : 1;
	const struct kp_cell *cell, *before;
	struct changed_tier t;

	for (size_t i = 0; i < v->now.ncells + v->then.ncells; i++) {
		cell = i < v->now.ncells ? &v->now.cells[i] :
		    &v->then.cells[i - v->now.ncells];
		if (strcmp(cell->identity, c->identity) != 0 ||
		    strstr(cell->tier, KP_PART_SEP) != NULL)
			continue;
		before = kp_query_cell(&v->then, cell->tier, c->identity);
		cell = kp_query_cell(&v->now, cell->tier, c->identity);
		t = (struct changed_tier){ .node = v->node };
		t.tier = cell != NULL ? cell->tier : before->tier;
		/* an exception of the request itself is of no tier */
		if (strcmp(t.tier, "_total") == 0 && c->what == CHANGED_RAISED)
			continue;
		t.then = part_of(figure(before, c->what, false), then);
		t.now = part_of(figure(cell, c->what, false), now);
		if (strcmp(t.tier, "_total") == 0)
			t.tier = "";
		else if (cell != NULL && before != NULL) {
			t.calls_then = part_of((double)before->w_calls, then);
			t.calls_now = part_of((double)cell->w_calls, now);
		}
		t.inside = cell != NULL && c->what == CHANGED_RAISED ? part_of((double)
		    cell->w_inside, (double)cell->w_timed) : 0;
		if (is_better(&t, &c->in, sign))
			c->in = t;
	}
}

#define IN_LEAST 0.3	/* a tier that makes less of the change is not named */

static enum kp_err
sum_node(const struct looking *l, const struct changed *c, const char *node,
    struct node_sums *v)
{
	kp_wall_ns until = c->until != 0 ? c->until : l->c->end;
	struct kp_query_range r = { .identity = c->identity };
	enum kp_err err;

	v->node = node;
	part_range(&r, node, c->base, c->since);
	err = kp_query_sum(l->q, &r, &v->then);
	part_range(&r, node, c->since, until);
	if (err == KP_OK)
		err = kp_query_sum(l->q, &r, &v->now);
	v->requests_then = requests_of(&v->then, c->identity);
	v->requests_now = requests_of(&v->now, c->identity);
	return err;
}

static void
node_sums_free(struct node_sums *v)
{
	kp_query_sum_free(&v->then);
	kp_query_sum_free(&v->now);
}

/* Forgets a tier that makes too little of the change. */
static void
judge_tier(struct changed *c)
{
	c->in.part = c->in.tier == NULL ? 0 : (c->in.now - c->in.then) /
	    (c->now - c->then);
	if (!(c->in.part >= IN_LEAST))
		c->in = (struct changed_tier){ .tier = NULL };
}

/*
 * Looks for the tier: first of what ran on the nodes that changed, for each of their
 * requests, then on the others, for each request of the first.
 */
static enum kp_err
look_into(const struct looking *l, const struct kp_query_nodes *nodes, struct changed *c)
{
	struct node_sums v = { .node = NULL };
	double then = 0, now = 0;
	enum kp_err err = KP_OK;

	for (size_t i = 0; i < c->nnodes && i < LOOK_NODES && err == KP_OK; i++) {
		err = sum_node(l, c, c->nodes[i], &v);
		best_tier(c, &v, v.requests_then, v.requests_now);
		then += v.requests_then;
		now += v.requests_now;
		node_sums_free(&v);
	}
	judge_tier(c);
	for (size_t i = 0; i < nodes->n && nodes->n <= LOOK_OTHERS && err == KP_OK &&
	    c->in.tier == NULL; i++) {
		if (is_on(c, nodes->v[i]))
			continue;
		err = sum_node(l, c, nodes->v[i], &v);
		best_tier(c, &v, then, now);
		judge_tier(c);
		node_sums_free(&v);
	}
	return err;
}

/* Kinds that may be a cause; the first is the likeliest of those as near. */
static const char *const causes[] = { "reloaded", "loaded", "deleted", "loads",
	"changed", "reload", "attach", "detach", "lost", "trip", "connected" };
#define NCAUSES (sizeof(causes) / sizeof(causes[0]))

static double
distance(const struct kp_query_event *e, kp_wall_ns at)
{
	for (size_t i = 0; i < NCAUSES; i++)
		if (strcmp(e->kind, causes[i]) == 0)
			return fabs((double)(at - e->at)) + (double)i * (double)
			    KP_NS_PER_S;
	return INFINITY;
}

static void
keep_nearest(struct kp_query_event *v, double *least, const struct kp_query_event *e,
    double d)
{
	if (d < *least) {
		*least = d;
		*v = *e;
	}
}

static enum kp_err
nearest_events(const struct looking *l, struct changed *c)
{
	struct kp_query_range r = { .since = c->since - EVENT_BEFORE,
		.until = sat_add(c->since, EVENT_AFTER + c->step), .node = l->r->node };
	double event = INFINITY, mark = INFINITY;
	struct kp_query_events e = { 0 };
	enum kp_err err = kp_query_events(l->q, &r, EVENTS_MAX, &e);
	bool here;

	for (size_t i = 0; i < e.n; i++) {
		here = e.v[i].node[0] == '\0' || c->nnodes == c->of_nodes ||
		    is_on(c, e.v[i].node) || (c->in.tier != NULL &&
		    strcmp(e.v[i].node, c->in.node) == 0);
		if (here && strcmp(e.v[i].kind, "mark") == 0)
			keep_nearest(&c->mark, &mark, &e.v[i],
			    fabs((double)(c->since - e.v[i].at)));
		else if (here)
			keep_nearest(&c->event, &event, &e.v[i],
			    distance(&e.v[i], c->since));
	}
	kp_query_events_free(&e);
	return err;
}

/* The same figure at the same time of an earlier day. */
static enum kp_err
earlier(const struct looking *l, const struct changed *c, kp_dur_ns before, double *to)
{
	kp_wall_ns until = c->until != 0 ? c->until : l->c->end;
	struct kp_query_range r = { .since = c->since - before,
		.until = until - before, .identity = c->identity, .exact = true };
	const struct kp_cell *cell;
	struct kp_query_sum s;
	double x = 0, n = 0;
	enum kp_err err;

	for (size_t k = 0; k < c->nnodes && k < LOOK_NODES; k++) {
		r.node = c->nodes[k];
		err = kp_query_sum(l->q, &r, &s);
		if (err != KP_OK)
			return err;
		cell = kp_query_cell(&s, "_total", c->identity);
		if (cell != NULL) {
			x += c->what == CHANGED_MEAN ? (double)cell->w_total :
			    (double)kp_cell_raised(cell, true);
			n += (double)(c->what == CHANGED_MEAN ? cell->w_timed :
			    cell->w_requests);
		}
		kp_query_sum_free(&s);
	}
	*to = n > 0 ? x / n : -1;
	return KP_OK;
}

static enum kp_err
look_behind(const struct looking *l, const struct kp_query_nodes *nodes, struct changed *c)
{
	enum kp_err err = c->gradual ? KP_OK : date(l, c);

	if (err == KP_OK)
		err = look_into(l, nodes, c);
	if (err == KP_OK && !c->gradual)
		err = nearest_events(l, c);
	if (err == KP_OK)
		err = earlier(l, c, DAY, &c->day);
	return err == KP_OK ? earlier(l, c, 7 * DAY, &c->week) : err;
}

bool
changes_too_few(const struct changes *c)
{
	return c->steps < CHANGED_STEPS;
}

void
changes_free(struct changes *c)
{
	free(c->v);
	*c = (struct changes){ 0 };
}

static void
count_names(struct changes *c, const struct kp_steps *s)
{
	for (size_t i = 0; i < s->nof; i++) {
		size_t k = 0;

		while (k < i && s->of[k].identity != s->of[i].identity)
			k++;
		c->types += k == i;
	}
}

static enum kp_err
take_changes(struct looking *l, const struct kp_query_nodes *nodes, struct changes *out)
{
	struct found *v = NULL;
	size_t n = 0;
	enum kp_err err = find_all(l, &v, &n);

	out->v = calloc(CHANGED_MAX, sizeof(*out->v));
	if (err == KP_OK && out->v == NULL)
		err = KP_ENOMEM;
	if (n > 0)
		qsort(v, n, sizeof(*v), found_cmp);
	for (size_t i = 0; i < n && err == KP_OK; i++) {
		if (v[i].taken)
			continue;
		if (out->n == CHANGED_MAX) {
			for (size_t k = i; k < n; k++)
				v[k].taken |= is_same(&v[i], &v[k]);
			out->more++;
			continue;
		}
		put_together(l, v, n, i, &out->v[out->n]);
		/* without time for more, the rest is told without its causes */
		if (out->bare == 0)
			err = look_behind(l, nodes, &out->v[out->n]);
		out->n++;
		out->bare += out->bare > 0 || err == KP_ETIMEOUT;
		if (err == KP_ETIMEOUT)
			err = KP_OK;
	}
	free(v);
	return err;
}

enum kp_err
changes_from_db(struct kp_query *q, const struct kp_query_range *r,
    struct changes *out)
{
	struct changes c = { .asked = r->since };
	struct kp_query_range whole = *r;
	struct looking l = { .q = q, .r = &whole, .c = &c };
	struct kp_query_nodes nodes = { 0 };
	kp_wall_ns first, last;
	enum kp_err err;

	kp_query_hold(q);
	err = kp_query_span(q, &first, &last);
	if (err != KP_OK)
		last = first = 0;
	if (whole.until > last)
		whole.until = last;
	if (whole.since > first && whole.since < whole.until)
		whole.since = sat_span(whole.since, whole.until) <
		    whole.since - first ? whole.since - (whole.until -
		    whole.since) : first;
	if (err == KP_OK)
		err = kp_query_steps(q, &whole, 0, &l.steps);
	if (err == KP_OK)
		err = kp_query_nodes(q, &whole, &nodes);
	if (err == KP_OK && l.steps.n > 0) {
		c.step = l.steps.step;
		c.start = l.steps.start;
		c.end = step_time(&l, l.steps.n) < last ? step_time(&l, l.steps.n) :
		    last;
		c.nodes = nodes.n;
		c.left = l.steps.left;
		count_names(&c, &l.steps);
		err = take_changes(&l, &nodes, &c);
	}
	kp_query_nodes_free(&nodes);
	kp_steps_free(&l.steps);
	kp_query_release(q);
	if (err == KP_OK)
		*out = c;
	else
		changes_free(&c);
	return err;
}

/* ---- as text, and as JSON ---- */

#define CALLS 1.5
#define SAME_AS_NOW 0.5	/* of the change: nearer to now than to then */

static void
put_figure(struct kp_buf *b, enum changed_what what, double v)
{
	char text[TEXT_MAX];

	kp_buf_str(b, what == CHANGED_MEAN ? text_dur(text, (kp_dur_ns)v) :
	    text_share(text, v));
}

static void
put_time(struct kp_buf *b, kp_wall_ns at)
{
	char text[TIMEFMT_MAX];

	kp_buf_str(b, timefmt_local(text, at));
}

/* Does a request make so many more calls, or fewer, that this is why? */
static bool
calls_differ(const struct changed_tier *t)
{
	return t->calls_now > CALLS * t->calls_then || t->calls_then > CALLS * t->calls_now;
}

/* Was it then as it is now? */
static bool
is_as_now(const struct changed *c, double v)
{
	return v >= 0 && fabs(v - c->now) < SAME_AS_NOW * fabs(c->now - c->then);
}

static void
put_where(struct kp_buf *b, const struct changed *c)
{
	char v[2][TEXT_MAX];

	if (c->in.tier != NULL) {
		kp_buf_str(b, ", in ");
		text_put(b, c->in.tier[0] != '\0' ? c->in.tier : REPORT_REST);
		kp_buf_str(b, " (");
		put_figure(b, c->what, c->in.then);
		kp_buf_str(b, " to ");
		put_figure(b, c->what, c->in.now);
		kp_buf_str(b, " a request");
		if (calls_differ(&c->in))
			kp_buf_printf(b, ", %s calls instead of %s", text_average(v[0],
			    c->in.calls_now), text_average(v[1], c->in.calls_then));
		kp_buf_str(b, ")");
	}
	if (c->nnodes == c->of_nodes && c->nnodes == 2)
		kp_buf_str(b, ", on both nodes");
	else if (c->nnodes == c->of_nodes && c->nnodes > 1)
		kp_buf_printf(b, ", on all %zu nodes", c->nnodes);
	for (size_t i = 0; i < c->nnodes && c->nnodes < c->of_nodes; i++) {
		kp_buf_str(b, i == 0 ? ", on " : i + 1 < c->nnodes ? ", " : " and ");
		text_put(b, c->nodes[i]);
	}
}

/* Within the step that it is dated by, what came first is not known. */
static void
put_event(struct kp_buf *b, const struct changed *c, const struct kp_query_event *e)
{
	kp_dur_ns apart = c->since - e->at;
	char text[TEXT_MAX];

	if (e->kind == NULL)
		return;
	if (apart >= KP_NS_PER_S)
		kp_buf_printf(b, ". %s before", text_span(text, apart));
	else if (-apart <= c->step)
		kp_buf_str(b, ". About then");
	else
		kp_buf_printf(b, ". %s later", text_span(text, -apart));
	if (e->node[0] != '\0') {
		kp_buf_str(b, " on ");
		text_put(b, e->node);
	}
	kp_buf_str(b, ": ");
	text_put(b, e->text[0] != '\0' ? e->text : e->kind);
}

static void
put_earlier(struct kp_buf *b, const struct changed *c, const char *when, double v)
{
	if (v < 0)
		return;
	kp_buf_printf(b, ". %s before at that time: ", when);
	put_figure(b, c->what, v);
	if (is_as_now(c, v))
		kp_buf_str(b, ", as now");
}

static void
put_sentence(struct kp_buf *b, const struct changed *c, kp_wall_ns end)
{
	char text[TEXT_MAX];

	text_put(b, c->identity);
	kp_buf_str(b, ": ");
	if (c->what == CHANGED_MEAN) {
		kp_buf_printf(b, "%s (", text_change(text, c->now / c->then - 1));
		put_figure(b, c->what, c->then);
		kp_buf_str(b, " to ");
		put_figure(b, c->what, c->now);
	} else {
		put_figure(b, c->what, c->now);
		kp_buf_str(b, " of the requests fail (");
		put_figure(b, c->what, c->then);
		kp_buf_str(b, " before");
	}
	kp_buf_str(b, c->gradual ? ") little by little from " : c->until != 0 ?
	    ") from " : ") since ");
	put_time(b, c->gradual ? c->base : c->since);
	if (c->gradual || c->until != 0) {
		kp_buf_str(b, " to ");
		put_time(b, c->until != 0 ? c->until : end);
	}
	put_where(b, c);
	put_event(b, c, &c->mark);
	put_event(b, c, &c->event);
	put_earlier(b, c, "A day", c->day);
	put_earlier(b, c, "A week", c->week);
}

void
changes_text(struct kp_buf *b, const struct changes *c, unsigned width)
{
	char types[TEXT_MAX], nodes[TEXT_MAX], step[TEXT_MAX];
	struct kp_buf line;

	for (size_t i = 0; i <= c->n; i++) {
		kp_buf_init(&line, 1u << 16);
		if (i < c->n)
			put_sentence(&line, &c->v[i], c->end);
		else if (c->start == 0)
			kp_buf_str(&line, "no window is stored in this range, of these "
			    "nodes");
		else if (c->types == 0)
			kp_buf_str(&line, "no such request was measured in this range");
		else if (changes_too_few(c))
			kp_buf_printf(&line, "too little to tell: requests came in %s "
			    "of %s, and %d are needed: choose a longer range",
			    text_counted(nodes, c->steps, "step"),
			    text_span(step, c->step), CHANGED_STEPS);
		else {
			kp_buf_printf(&line, "%s changed by more than chance: %s on %s, "
			    "in steps of %s, ", c->n == 0 ? "nothing" :
			    c->more > 0 ? "more" : "nothing else", text_counted(types,
			    c->types, "request type"), text_counted(nodes, c->nodes,
			    "node"), text_span(step, c->step));
			timefmt_put_range(&line, c->start, c->end);
		}
		if (i == c->n && c->bare > 0)
			kp_buf_printf(&line, "; of %zu there was no time to look for "
			    "tier and event", c->bare);
		if (i == c->n && c->left > 0)
			kp_buf_printf(&line, "; only %d pairs of request type and node "
			    "were looked at", KP_STEPS_SERIES_MAX);
		text_wrap(b, kp_buf_cstr(&line), width, i < c->n ? 2 : 0);
		kp_buf_free(&line);
	}
}

static void
json_figure(struct json *j, const char *key, enum changed_what what, double v)
{
	if (what == CHANGED_MEAN)
		json_ms(j, key, v < 0 ? -1 : (kp_dur_ns)v);
	else
		json_number(j, key, v);
}

static void
json_event(struct json *j, const char *key, const struct kp_query_event *e)
{
	if (e->kind == NULL) {
		json_null(j, key);
		return;
	}
	json_object(j, key);
	json_time(j, "at", e->at);
	json_string(j, "node", e->node);
	json_string(j, "kind", e->kind);
	json_string(j, "text", e->text);
	json_end(j);
}

/* As kprof report -changed has it, for who sends it on. */
static void
put_json_sentence(struct json *j, const struct changed *c, kp_wall_ns end)
{
	struct kp_buf line;

	kp_buf_init(&line, 1u << 16);
	put_sentence(&line, c, end);
	json_string(j, "text", kp_buf_cstr(&line));
	kp_buf_free(&line);
}

static void
json_changed(struct json *j, const struct changed *c, kp_wall_ns end)
{
	json_object(j, NULL);
	json_string(j, "what", c->what == CHANGED_MEAN ? "mean_ms" : "raised_share");
	json_string(j, "identity", c->identity);
	json_array(j, "nodes");
	for (size_t i = 0; i < c->nnodes; i++)
		json_string(j, NULL, c->nodes[i]);
	json_end(j);
	json_bool(j, "all_nodes", c->nnodes == c->of_nodes);
	json_time(j, "base", c->base);
	json_time(j, "since", c->since);
	json_number(j, "since_within_s", (double)c->step / (double)KP_NS_PER_S);
	json_time(j, "until", c->until);
	json_bool(j, "gradual", c->gradual);
	json_figure(j, "then", c->what, c->then);
	json_figure(j, "now", c->what, c->now);
	json_change(j, "change", c->then > 0 ? c->now / c->then - 1 : NAN);
	json_change(j, "change_low", c->low);
	json_change(j, "change_high", c->high);
	json_change(j, "weight", c->weight);
	json_figure(j, "a_day_before", c->what, c->day);
	json_figure(j, "a_week_before", c->what, c->week);
	json_bool(j, "as_a_day_before", is_as_now(c, c->day));
	json_bool(j, "as_a_week_before", is_as_now(c, c->week));
	if (c->in.tier != NULL) {
		json_object(j, "in");
		json_string(j, "tier", c->in.tier[0] != '\0' ? c->in.tier : NULL);
		json_string(j, "node", c->in.node);
		json_figure(j, "then", c->what, c->in.then);
		json_figure(j, "now", c->what, c->in.now);
		json_number(j, "calls_then", c->in.calls_then);
		json_number(j, "calls_now", c->in.calls_now);
		json_bool(j, "calls_differ", calls_differ(&c->in));
		json_number(j, "part", c->in.part);
		json_end(j);
	} else {
		json_null(j, "in");
	}
	json_event(j, "mark", &c->mark);
	json_event(j, "event", &c->event);
	put_json_sentence(j, c, end);
	json_end(j);
}

void
changes_json(struct kp_buf *b, const struct changes *c)
{
	struct json j;

	json_open(&j, b);
	json_time(&j, "start", c->start);
	json_time(&j, "end", c->end);
	json_time(&j, "since", c->asked > c->start ? c->asked : c->start);
	json_number(&j, "step_s", (double)c->step / (double)KP_NS_PER_S);
	json_uint(&j, "nodes", c->nodes);
	json_uint(&j, "request_types", c->types);
	json_bool(&j, "too_few", changes_too_few(c));
	json_uint(&j, "left_out", c->more);
	json_uint(&j, "rows_left_out", c->left);
	json_uint(&j, "without_causes", c->bare);
	json_array(&j, "changes");
	for (size_t i = 0; i < c->n; i++)
		json_changed(&j, &c->v[i], c->end);
	json_end(&j);
	json_close(&j);
}
