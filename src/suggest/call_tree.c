/*
 * call_tree.c - makes a call tree of the events of a trace, with where processes wait
 * and which of them work for a request; or of sampled stacks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "suggest/call_tree.h"

#define FRAME_NONE UINT32_MAX
#define OFTEN 30u		/* calls, on whose average one can rely */
#define TRACED_MAX (10 * KP_NS_PER_US)	/* tracing a call takes no longer */
#define MESSAGES_MAX (1u << 20)	/* under way; a trace has fewer events */
#define CONTINUED_MAX 16u	/* frames around a cut stack */
#define EDGES_MAX (1u << 18)
#define IDLE 1000		/* a process that waits for work counts so much less */

bool
suggest_anonymous(const struct kp_call_names *t, uint32_t fn)
{
	return t->fns[fn].fun[0] == '-';
}

bool
suggest_same_module(const struct kp_call_names *t, uint32_t a, uint32_t b)
{
	return strcmp(t->fns[a].mod, t->fns[b].mod) == 0;
}

/* Does a function by what is known of it only wait for work, or serve others? */
static bool
fn_is_around(const struct suggest_tree *c, const struct suggest_fn *fns,
    uint32_t fn)
{
	return fns[fn].platform || fns[fn].callback || fns[fn].loop ||
	    suggest_anonymous(c->names, fn);
}

/* Begins with the root, which is around all tops.  False: out of memory. */
static bool
tree_begin(struct suggest_tree *c)
{
	c->loops = calloc(c->names->nfns + 1, sizeof(*c->loops));
	c->recursive = calloc(c->names->nfns + 1, sizeof(*c->recursive));
	if (c->loops == NULL || c->recursive == NULL ||
	    vec_room_by_len(&c->frames, 0, SUGGEST_TREE_MAX) != KP_OK)
		return false;
	c->frames[0] = (struct suggest_frame){ .fn = KP_FN_UNDEFINED };
	c->nframes = 1;
	return true;
}

/*
 * Returns the frame of fn below another, or that one itself where there can be no
 * more; FRAME_NONE: out of memory.  children: (frame, function) -> frame, of the whole
 * tree.
 */
static uint32_t
frame_child(struct suggest_tree *c, struct map *children, uint32_t parent,
    uint32_t fn)
{
	uint64_t key = ((uint64_t)parent << 32 | fn) + 1;
	const uint64_t *at = map_get(children, key);
	enum kp_err e;

	if (at != NULL)
		return (uint32_t)*at;
	e = vec_room_by_len(&c->frames, c->nframes, SUGGEST_TREE_MAX);
	if (e == KP_ELIMIT) {
		c->overflow++;
		return parent;
	}
	if (e != KP_OK || !map_put(children, key, c->nframes))
		return FRAME_NONE;
	c->frames[c->nframes] = (struct suggest_frame){ .parent = parent, .fn = fn };
	return c->nframes++;
}

/* Adds up all totals, once. */
static void
tree_total(struct suggest_tree *c)
{
	struct suggest_frame *s, *parent;

	for (uint32_t i = c->nframes; i-- > 1;) {
		s = &c->frames[i];
		parent = &c->frames[s->parent];
		s->total = sat_add(s->total, s->own);
		for (unsigned k = 0; k < SUGGEST_WAITS; k++)
			s->total = sat_add(s->total, s->wait[k]);
		parent->total = sat_add(parent->total, s->total);
	}
}

/* ==== of a trace ==== */

/* Of one process. */
struct worker {
	uint32_t out_fn;	/* where it was scheduled out last */
	uint32_t request;	/* that it works for; 0: none */
	bool works;		/* for a request whose entry has not returned */
	bool entered;		/* the entry is on its stack, and returns */
	uint32_t returns_to;	/* there */
};

/* Of one path of the sum. */
struct placed {
	kp_dur_ns own, wait[SUGGEST_WAITS];
	kp_dur_ns total;	/* with callees, on the processor */
	uint32_t frame;
};

/* Of one function. */
struct fn_sum {
	uint64_t all, inside;	/* calls; inside itself */
	uint64_t calls;		/* of frames: */
	kp_dur_ns own;
	bool calling;		/* another function */
	uint32_t callback;	/* its number + 1; 0: none */
};

struct suggest_tree_state {
	struct kp_calls_sum *sum;
	struct worker *workers;
	uint32_t nworkers;
	struct placed *placed;
	uint32_t nplaced;
	struct fn_sum *fns;
	struct map messages;	/* (sender, serial) -> sent by one that works */
	struct map children;	/* (frame, function) -> frame */
	const char *mod, *fun;	/* of the entry; NULL: not by request */
	uint32_t arity;
	kp_target_ns first, last;
	enum kp_err err;	/* KP_ENOMEM sticks */
};

/* ---- where a process waits ---- */

static enum suggest_wait
wait_kind(const struct kp_call_names *t, uint32_t fn)
{
	static const char *const calls[] = { "gen", "gen_server", "gen_statem",
		"gen_event", "erpc", "rpc", "proc_lib", "sys", "supervisor",
		"file_server", "global" };
	static const char *const ports[] = { "prim_inet", "prim_file", "socket",
		"gen_tcp", "gen_udp", "inet", "prim_socket", "gen_tcp_socket",
		"erl_prim_loader", "disk_log", "file_io_server" };
	const char *mod = fn < t->nfns ? t->fns[fn].mod : "";
	const char *fun = fn < t->nfns ? t->fns[fn].fun : "";

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(mod, calls[i]) == 0)
			return SUGGEST_WAIT_CALL;
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		if (strcmp(mod, ports[i]) == 0)
			return strstr(fun, "recv") != NULL ||
			    strstr(fun, "accept") != NULL ?
			    SUGGEST_WAIT_INPUT : SUGGEST_WAIT_PORT;
	return SUGGEST_WAIT_OTHER;
}

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct suggest_tree *c = ctx;
	struct suggest_tree_state *s = c->state;
	uint32_t at = path;

	if (proc >= s->nworkers ||
	    (s->mod != NULL && !s->workers[proc].works))
		return;
	if (s->sum->paths[path].fn < KP_FN_FIRST)
		at = s->sum->paths[path].parent;
	if (at == KP_PATH_NONE)
		return;
	if (vec_reach(&s->placed, &s->nplaced, at) != KP_OK) {
		s->err = KP_ENOMEM;
		return;
	}
	if (s->sum->paths[path].fn == KP_FN_SUSPEND)
		s->placed[at].wait[wait_kind(c->names,
		    s->workers[proc].out_fn)] += to - from;
	else
		s->placed[at].own += to - from;
}

/* ---- begin and end ---- */

struct suggest_tree *
suggest_tree_new(const struct kp_call_names *names)
{
	struct suggest_tree *c = calloc(1, sizeof(*c));
	const struct kp_calls_opts o = { .paths = true, .slice = on_slice,
		.ctx = c };

	if (c == NULL)
		return NULL;
	c->names = names;
	c->state = calloc(1, sizeof(*c->state));
	if (c->state != NULL)
		c->state->sum = kp_calls_sum_new(&o);
	if (c->state == NULL || c->state->sum == NULL) {
		suggest_tree_free(c);
		return NULL;
	}
	return c;
}

void
suggest_tree_entry(struct suggest_tree *c, const char *mod, const char *fun,
    uint32_t arity)
{
	c->state->mod = mod;
	c->state->fun = fun;
	c->state->arity = arity;
}

void
suggest_tree_free(struct suggest_tree *c)
{
	struct suggest_tree_state *s = c != NULL ? c->state : NULL;

	if (s != NULL) {
		kp_calls_sum_free(s->sum);
		map_free(&s->messages);
		map_free(&s->children);
		free(s->workers);
		free(s->placed);
		free(s->fns);
		free(s);
	}
	if (c == NULL)
		return;
	free(c->frames);
	free(c->callbacks);
	free(c->loops);
	free(c->recursive);
	free(c);
}

/* ---- events ---- */

static bool
is_entry(const struct suggest_tree *c, uint32_t fn)
{
	const struct suggest_tree_state *s = c->state;
	const struct kp_call_fn *f = &c->names->fns[fn];

	return s->mod != NULL && f->arity == s->arity &&
	    strcmp(f->fun, s->fun) == 0 && strcmp(f->mod, s->mod) == 0;
}

static void
called(struct suggest_tree *c, struct worker *w,
    const struct kp_call_event *ev)
{
	if (!is_entry(c, ev->fn))
		return;
	if (w->entered) {
		c->nested++;
		return;
	}
	c->begun++;
	w->entered = w->works = true;
	w->returns_to = ev->other;
}

/* Before the sum has the event, or after it, as the process works then. */
static void
follow(struct suggest_tree *c, struct worker *w, const struct kp_call_event *ev)
{
	struct suggest_tree_state *s = c->state;
	uint64_t key = ((uint64_t)ev->proc << 32 | ev->serial) + 1, *sent;

	if (ev->kind == KP_CALL_RETURN_TO && w->entered &&
	    ev->fn == w->returns_to) {
		w->entered = w->works = false;
		c->ended++;
	} else if (ev->kind == KP_CALL_REQUEST && !w->entered) {
		w->works = ev->other != 0 && w->works &&
		    ev->other == w->request;
	} else if (ev->kind == KP_CALL_SEND && w->works &&
	    s->messages.len < MESSAGES_MAX) {
		if (!map_put(&s->messages, key, 1))
			s->err = KP_ENOMEM;
	} else if (ev->kind == KP_CALL_RECEIVE && !w->entered) {
		key = ((uint64_t)ev->other << 32 | ev->serial) + 1;
		sent = map_get(&s->messages, key);
		w->works = sent != NULL;
		w->request = ev->request;
	}
}

enum kp_err
suggest_tree_event(struct suggest_tree *c, const struct kp_call_event *ev)
{
	struct suggest_tree_state *s = c->state;
	struct worker *w;
	enum kp_err e;

	if (vec_reach(&s->workers, &s->nworkers, ev->proc) != KP_OK)
		return KP_ENOMEM;
	w = &s->workers[ev->proc];
	if (c->events++ == 0)
		s->first = ev->ts;
	s->last = ev->ts > s->last || c->events == 1 ? ev->ts : s->last;
	if (ev->kind == KP_CALL_CALL && s->mod != NULL)
		called(c, w, ev);
	e = kp_calls_sum_add(s->sum, ev);
	if (ev->kind == KP_CALL_OUT)
		w->out_fn = ev->fn;
	if (s->mod != NULL)
		follow(c, w, ev);
	return e != KP_OK ? e : s->err;
}

/* ---- the tree ---- */

/* A loop is found inside itself, since a tail call counts as a call. */
static bool
is_inside_itself(const struct kp_calls_sum *sum, uint32_t path)
{
	uint32_t fn = sum->paths[path].fn;

	for (uint32_t p = sum->paths[path].parent; p != KP_PATH_NONE;
	     p = sum->paths[p].parent)
		if (sum->paths[p].fn == fn && sum->paths[p].depth > 0)
			return true;
	return false;
}

/* Is only its own module between it and itself? */
static bool
calls_itself(const struct suggest_tree *c, uint32_t path)
{
	const struct kp_calls_sum *sum = c->state->sum;
	uint32_t fn = sum->paths[path].fn;

	for (uint32_t p = sum->paths[path].parent; p != KP_PATH_NONE &&
	     sum->paths[p].fn >= KP_FN_FIRST && suggest_same_module(c->names,
	     sum->paths[p].fn, fn); p = sum->paths[p].parent)
		if (sum->paths[p].fn == fn)
			return true;
	return false;
}

static void
find_loops(struct suggest_tree *c)
{
	const struct kp_calls_sum *sum = c->state->sum;
	struct fn_sum *fns = c->state->fns;
	const struct kp_calls_path *p;

	for (uint32_t i = 0; i < sum->npaths; i++) {
		p = &sum->paths[i];
		fns[p->fn].all += p->calls;
		if (is_inside_itself(sum, i))
			fns[p->fn].inside += p->calls;
		if (p->calls > 0 && p->fn >= KP_FN_FIRST && calls_itself(c, i))
			c->recursive[p->fn] = true;
	}
	for (uint32_t i = KP_FN_FIRST; i < c->names->nfns; i++)
		c->loops[i] = fns[i].inside * 5 > fns[i].all;
}

/* Around tops: what only waits for work, or was called before the trace. */
static bool
is_around(const struct suggest_tree *c, const struct suggest_fn *fns,
    const struct kp_calls_path *p)
{
	return p->fn < KP_FN_FIRST || p->calls == 0 || c->loops[p->fn] ||
	    fn_is_around(c, fns, p->fn);
}

static void
place(struct suggest_tree *c, const struct suggest_fn *fns, uint32_t i)
{
	struct suggest_tree_state *s = c->state;
	const struct kp_calls_path *p = &s->sum->paths[i];
	uint32_t at = p->parent == KP_PATH_NONE ? 0 : s->placed[p->parent].frame;

	if (p->parent != KP_PATH_NONE && p->fn >= KP_FN_FIRST) {
		if (is_entry(c, p->fn) && c->frames[at].fn != p->fn)
			at = frame_child(c, &s->children, 0, p->fn);
		else if (at != 0 ? !fns[p->fn].platform :
		    !is_around(c, fns, p))
			at = frame_child(c, &s->children, at, p->fn);
	}
	if (at == FRAME_NONE) {
		s->err = KP_ENOMEM;
		at = 0;
	}
	s->placed[i].frame = at;
	if (at == 0)
		return;
	if (c->frames[at].fn == p->fn)
		c->frames[at].calls += p->calls;
	c->frames[at].own += s->placed[i].own;
	for (unsigned k = 0; k < SUGGEST_WAITS; k++)
		c->frames[at].wait[k] += s->placed[i].wait[k];
}

/*
 * What tracing a call takes: the time of the shortest function that calls nothing,
 * on average.  0: there is none that was called often.
 */
static kp_dur_ns
traced_call(const struct suggest_tree *c)
{
	struct fn_sum *fns = c->state->fns;
	const struct suggest_frame *f;
	kp_dur_ns least = 0, t;

	for (f = c->frames + 1; f < c->frames + c->nframes; f++) {
		fns[f->fn].calls += f->calls;
		fns[f->fn].own += f->own;
		fns[c->frames[f->parent].fn].calling = true;
	}
	for (uint32_t i = KP_FN_FIRST; i < c->names->nfns; i++) {
		if (fns[i].calls < OFTEN || fns[i].calling)
			continue;
		t = fns[i].own / (kp_dur_ns)fns[i].calls;
		least = least == 0 || t < least ? t : least;
	}
	return least < TRACED_MAX ? least : TRACED_MAX;
}

/*
 * Takes the time that tracing took away: for a call, and half as much for a callee.
 * It is an estimate, so half of the time stays in any case.
 */
static void
less_tracing(struct suggest_tree *c)
{
	kp_dur_ns each = traced_call(c);
	kp_dur_ns *less = calloc(c->nframes + 1, sizeof(*less));
	struct suggest_frame *s;

	for (uint32_t i = 1; less != NULL && i < c->nframes; i++) {
		less[i] += each * (kp_dur_ns)c->frames[i].calls;
		less[c->frames[i].parent] += each *
		    (kp_dur_ns)c->frames[i].calls / 2;
	}
	for (uint32_t i = 1; less != NULL && i < c->nframes; i++) {
		s = &c->frames[i];
		s->own -= less[i] < s->own / 2 ? less[i] : s->own / 2;
	}
	free(less);
}

/* Callbacks never run inside each other in one process. */
static void
callbacks(struct suggest_tree *c, const struct suggest_fn *fns)
{
	struct suggest_tree_state *s = c->state;
	const struct kp_calls_path *p;
	struct suggest_callback *k;
	uint32_t *at;

	for (uint32_t i = s->sum->npaths; i-- > 0;) {
		p = &s->sum->paths[i];
		s->placed[i].total += p->own;
		if (p->parent != KP_PATH_NONE)
			s->placed[p->parent].total += s->placed[i].total;
	}
	for (uint32_t i = 0; i < s->sum->npaths; i++) {
		p = &s->sum->paths[i];
		at = &s->fns[p->fn].callback;
		if (!fns[p->fn].callback || p->calls == 0)
			continue;
		if (*at == 0 && vec_room_by_len(&c->callbacks, c->ncallbacks,
		    SUGGEST_TREE_MAX) == KP_OK) {
			c->callbacks[c->ncallbacks] = (struct suggest_callback){
				.fn = p->fn };
			*at = ++c->ncallbacks;
		}
		if (*at == 0)
			continue;
		k = &c->callbacks[*at - 1];
		k->calls += p->calls;
		k->total += s->placed[i].total;
	}
}

enum kp_err
suggest_tree_end(struct suggest_tree *c, const struct suggest_fn *fns)
{
	struct suggest_tree_state *s = c->state;
	enum kp_err e = kp_calls_sum_end(s->sum);

	c->span = s->last - s->first;
	if (e == KP_OK && s->sum->npaths > 0)
		e = vec_reach(&s->placed, &s->nplaced, s->sum->npaths - 1);
	s->fns = calloc(c->names->nfns + 1, sizeof(*s->fns));
	if (e != KP_OK || s->fns == NULL || !tree_begin(c))
		return KP_ENOMEM;
	find_loops(c);
	for (uint32_t i = 0; i < s->sum->npaths; i++)
		place(c, fns, i);
	less_tracing(c);
	tree_total(c);
	callbacks(c, fns);
	return s->err;
}

/* ==== of samples ==== */

struct suggest_stack {
	uint32_t *fns;		/* owned */
	uint32_t n;
	bool cut;
	uint64_t samples;
	kp_dur_ns time[SUGGEST_WAITS + 1];
	kp_dur_ns pooled;	/* of that, in workers of pools */
};

void
suggest_stacks_free(struct suggest_stacks *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		free(s->v[i].fns);
	free(s->v);
	map_free(&s->by_key);
}

static enum kp_err
stack_new(struct suggest_stacks *s, uint32_t id, const uint32_t *fns,
    uint32_t n, bool cut)
{
	enum kp_err e = vec_room_by_len(&s->v, s->n, SUGGEST_STACKS_MAX);
	uint32_t *own;

	if (e != KP_OK)
		return e;
	own = calloc(n + 1, sizeof(*own));
	if (own == NULL || !map_put(&s->by_key, (uint64_t)id + 1, s->n)) {
		free(own);
		return KP_ENOMEM;
	}
	if (n > 0)
		memcpy(own, fns, n * sizeof(*own));
	s->v[s->n++] = (struct suggest_stack){ .fns = own, .n = n, .cut = cut };
	return KP_OK;
}

enum kp_err
suggest_stacks_add(struct suggest_stacks *s, uint32_t id, const uint32_t *fns,
    uint32_t n, bool cut, unsigned doing, kp_dur_ns time)
{
	uint64_t *at = map_get(&s->by_key, (uint64_t)id + 1);
	enum kp_err e;

	s->samples++;
	s->working += doing == SUGGEST_WORKS || doing == SUGGEST_WAIT_CALL;
	if (at == NULL) {
		e = stack_new(s, id, fns, n < SUGGEST_FRAMES_MAX ? n :
		    SUGGEST_FRAMES_MAX, cut);
		if (e == KP_ELIMIT) {
			s->overflow++;
			return KP_OK;
		}
		if (e != KP_OK)
			return e;
		at = map_get(&s->by_key, (uint64_t)id + 1);
	}
	s->v[*at].samples++;
	s->v[*at].time[doing] = sat_add(s->v[*at].time[doing], time);
	return KP_OK;
}

void
suggest_stacks_pooled(struct suggest_stacks *s, uint32_t id, kp_dur_ns time)
{
	const uint64_t *at = map_get(&s->by_key, (uint64_t)id + 1);

	if (at != NULL)
		s->v[*at].pooled = sat_add(s->v[*at].pooled, time);
}

/* ---- functions ---- */

static kp_dur_ns
stack_time(const struct suggest_stack *k)
{
	kp_dur_ns t = 0;

	for (unsigned i = 0; i <= SUGGEST_WAITS; i++)
		t = sat_add(t, k->time[i]);
	return t;
}

/* Is it the first of its function in the stack? */
static bool
is_first(const struct suggest_stack *k, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++)
		if (k->fns[j] == k->fns[i])
			return false;
	return true;
}

/* Time of a stack, of which waiting for work counts little. */
static kp_dur_ns
stack_active(const struct suggest_stack *k)
{
	kp_dur_ns t = k->time[SUGGEST_WORKS] + k->time[SUGGEST_WAIT_CALL] +
	    k->time[SUGGEST_WAIT_PORT];

	return t + (stack_time(k) - t) / IDLE;
}

/* Time on stacks, by function; the caller frees it. */
static kp_dur_ns *
fn_times(const struct suggest_stacks *s, bool active)
{
	kp_dur_ns *time = calloc(s->names->nfns + 1, sizeof(*time));

	for (uint32_t i = 0; time != NULL && i < s->n; i++)
		for (uint32_t j = 0; j < s->v[i].n; j++)
			if (is_first(&s->v[i], j))
				time[s->v[i].fns[j]] += active ?
				    stack_active(&s->v[i]) :
				    stack_time(&s->v[i]);
	return time;
}

static int
by_time(const void *a, const void *b, void *times)
{
	const kp_dur_ns *t = times;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return t[x] < t[y] ? 1 : t[x] > t[y] ? -1 : x < y ? -1 : 1;
}

uint32_t
suggest_stacks_fns(const struct suggest_stacks *s, uint32_t *fns, uint32_t max)
{
	kp_dur_ns *time = fn_times(s, true);
	uint32_t *all = calloc(s->names->nfns + 1, sizeof(*all)), n = 0;

	for (uint32_t i = KP_FN_FIRST; time != NULL && all != NULL &&
	     i < s->names->nfns; i++)
		if (time[i] > 0)
			all[n++] = i;
	if (n > 0)
		qsort_r(all, n, sizeof(*all), by_time, time);
	n = n < max ? n : max;
	for (uint32_t i = 0; i < n; i++)
		fns[i] = all[i];
	free(all);
	free(time);
	return n;
}

/* ---- who calls whom ---- */

/* The caller of each function that was seen most; fn 0: none. */
struct callers {
	struct map edges;	/* (callee, caller) -> time */
	uint32_t *best;
	uint64_t *weight;
};

static bool
callers_find(const struct suggest_stacks *s, struct callers *c)
{
	const struct suggest_stack *k;
	uint64_t key, *at, sum;

	c->best = calloc(s->names->nfns + 1, sizeof(*c->best));
	c->weight = calloc(s->names->nfns + 1, sizeof(*c->weight));
	if (c->best == NULL || c->weight == NULL)
		return false;
	for (k = s->v; k < s->v + s->n; k++)
		for (uint32_t j = 1; j < k->n && c->edges.len < EDGES_MAX; j++) {
			if (k->fns[j] == k->fns[j - 1])
				continue;
			key = ((uint64_t)k->fns[j] << 32 | k->fns[j - 1]) + 1;
			at = map_get(&c->edges, key);
			sum = (at != NULL ? *at : 0) + (uint64_t)stack_time(k);
			if (!map_put(&c->edges, key, sum))
				return false;
			if (sum < c->weight[k->fns[j]])
				continue;
			c->weight[k->fns[j]] = sum;
			c->best[k->fns[j]] = k->fns[j - 1];
		}
	return true;
}

static void
callers_free(struct callers *c)
{
	map_free(&c->edges);
	free(c->best);
	free(c->weight);
}

/* ---- the tree ---- */

struct growing {
	struct suggest_tree *c;
	struct suggest_fn *fns;
	struct map children;	/* (frame, function) -> frame */
	struct callers callers;
};

/* Frames around a cut stack, outermost first; returns how many. */
static uint32_t
continued(const struct growing *g, uint32_t fn, uint32_t *frames)
{
	uint32_t v[CONTINUED_MAX], n = 0, i;

	while (n < CONTINUED_MAX && !fn_is_around(g->c, g->fns, fn)) {
		fn = g->callers.best[fn];
		for (i = 0; i < n && v[i] != fn; i++)
			;
		if (fn < KP_FN_FIRST || i < n)
			break;
		v[n++] = fn;
	}
	for (i = 0; i < n; i++)
		frames[i] = v[n - 1 - i];
	return n;
}

static bool
grow(struct growing *g, const struct suggest_stack *k)
{
	uint32_t frames[CONTINUED_MAX + SUGGEST_FRAMES_MAX], n = 0, at = 0;
	uint32_t top = 0;
	struct suggest_frame *s;

	if (k->n == 0)
		return true;
	if (k->cut)
		n = continued(g, k->fns[0], frames);
	for (uint32_t i = 0; i < k->n; i++)
		frames[n++] = k->fns[i];
	for (uint32_t i = 0; i < n && at != FRAME_NONE; i++)
		if (at != 0 ? !g->fns[frames[i]].platform :
		    !fn_is_around(g->c, g->fns, frames[i])) {
			at = frame_child(g->c, &g->children, at,
			    frames[i]);
			if (top != 0 || at == FRAME_NONE)
				continue;
			top = at;
			g->c->frames[top].samples += k->samples;
			g->c->frames[top].pooled = sat_add(
			    g->c->frames[top].pooled, k->pooled);
			g->c->frames[top].whole = sat_add(
			    g->c->frames[top].whole,
			    i > 0 ? stack_time(k) : 0);
		}
	if (at == FRAME_NONE || at == 0)
		return at == 0;
	s = &g->c->frames[at];
	s->own = sat_add(s->own, k->time[SUGGEST_WORKS]);
	for (unsigned i = 0; i < SUGGEST_WAITS; i++)
		s->wait[i] = sat_add(s->wait[i], k->time[i]);
	return true;
}

/* A function that is on stacks but hardly ever called does not return. */
static bool
loops_find(const struct suggest_stacks *s, const double *rates, kp_dur_ns span,
    struct suggest_fn *fns)
{
	kp_dur_ns *time = fn_times(s, false);
	double calls;

	for (uint32_t i = KP_FN_FIRST; time != NULL && i < s->names->nfns; i++) {
		if (rates[i] < 0 || time[i] == 0)
			continue;
		calls = rates[i] * (double)span / KP_NS_PER_S;
		calls = calls < 1 ? 1 : calls;
		fns[i].loop |= (double)time[i] > calls * SUGGEST_LOOP;
	}
	free(time);
	return time != NULL;
}

/* As of calls.c: only its own module is between it and itself. */
static void
recursive_find(const struct suggest_stacks *s, const struct suggest_stack *k,
    bool *recursive)
{
	for (uint32_t i = 1; i < k->n; i++)
		for (uint32_t j = i; j-- > 0 && k->fns[j] >= KP_FN_FIRST &&
		     suggest_same_module(s->names, k->fns[j], k->fns[i]);)
			if (k->fns[j] == k->fns[i])
				recursive[k->fns[i]] = true;
}

/* Calls of a function are divided among its frames by time. */
static bool
calls_spread(struct suggest_tree *c, const double *rates)
{
	double *all = calloc(c->names->nfns + 1, sizeof(*all)), part;
	struct suggest_frame *s;

	tree_total(c);
	for (uint32_t i = c->nframes; all != NULL && i-- > 1;)
		all[c->frames[i].fn] += (double)c->frames[i].total;
	for (uint32_t i = 1; all != NULL && i < c->nframes; i++) {
		s = &c->frames[i];
		part = all[s->fn] > 0 ? (double)s->total / all[s->fn] : 0;
		s->calls = rates[s->fn] < 0 ? 1 : (uint64_t)(part *
		    rates[s->fn] * (double)c->span / KP_NS_PER_S + 0.5);
	}
	free(all);
	return all != NULL;
}

enum kp_err
suggest_stacks_tree(const struct suggest_stacks *s, const double *rates,
    kp_dur_ns span, struct suggest_fn *fns, struct suggest_tree *c)
{
	struct growing g = { .c = c, .fns = fns };
	bool good = loops_find(s, rates, span, fns) &&
	    callers_find(s, &g.callers) && tree_begin(c);

	c->span = span;
	c->events = s->samples;
	for (uint32_t i = 0; good && i < s->n; i++) {
		good = grow(&g, &s->v[i]);
		if (good)
			recursive_find(s, &s->v[i], c->recursive);
	}
	good = good && calls_spread(c, rates);
	for (uint32_t i = 0; good && i < s->names->nfns; i++)
		c->loops[i] = fns[i].loop;
	map_free(&g.children);
	callers_free(&g.callers);
	return good ? KP_OK : KP_ENOMEM;
}
