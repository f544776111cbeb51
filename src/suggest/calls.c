/*
 * calls.c - feeds kp_calls_sum, notes where processes wait, which of them work for
 * a request, and merges their call trees.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "suggest/spots.h"

#define OFTEN 30u		/* calls, on whose average one can rely */
#define TRACED_MAX (10 * KP_NS_PER_US)	/* tracing a call takes no longer */
#define MESSAGES_MAX (1u << 20)	/* under way; a trace has fewer events */

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
	uint32_t spot;
};

struct suggest_calls_state {
	struct kp_calls_sum *sum;
	struct worker *workers;
	uint32_t nworkers;
	struct placed *placed;
	uint32_t nplaced;
	struct map messages;	/* (sender, serial) -> sent by one that works */
	struct map children;	/* (spot, function) -> spot */
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

static bool
counts(const struct suggest_calls *c, uint32_t proc)
{
	const struct suggest_calls_state *s = c->state;

	return s->mod == NULL ||
	    (proc < s->nworkers && s->workers[proc].works);
}

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct suggest_calls *c = ctx;
	struct suggest_calls_state *s = c->state;
	uint32_t at = path;

	if (!counts(c, proc) || proc >= s->nworkers)
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

struct suggest_calls *
suggest_calls_new(const struct kp_call_names *names)
{
	struct suggest_calls *c = calloc(1, sizeof(*c));
	const struct kp_calls_opts o = { .paths = true, .slice = on_slice,
		.ctx = c };

	if (c == NULL)
		return NULL;
	c->names = names;
	c->state = calloc(1, sizeof(*c->state));
	if (c->state != NULL)
		c->state->sum = kp_calls_sum_new(&o);
	if (c->state == NULL || c->state->sum == NULL) {
		suggest_calls_free(c);
		return NULL;
	}
	return c;
}

void
suggest_calls_entry(struct suggest_calls *c, const char *mod, const char *fun,
    uint32_t arity)
{
	c->state->mod = mod;
	c->state->fun = fun;
	c->state->arity = arity;
}

static void
state_free(struct suggest_calls_state *s)
{
	if (s == NULL)
		return;
	kp_calls_sum_free(s->sum);
	map_free(&s->messages);
	map_free(&s->children);
	free(s->workers);
	free(s->placed);
	free(s);
}

void
suggest_calls_free(struct suggest_calls *c)
{
	if (c == NULL)
		return;
	state_free(c->state);
	free(c->spots);
	free(c->around);
	free(c->loops);
	free(c->recursive);
	free(c);
}

/* ---- events ---- */

static bool
is_entry(const struct suggest_calls *c, uint32_t fn)
{
	const struct suggest_calls_state *s = c->state;
	const struct kp_call_fn *f = &c->names->fns[fn];

	return s->mod != NULL && f->arity == s->arity &&
	    strcmp(f->fun, s->fun) == 0 && strcmp(f->mod, s->mod) == 0;
}

static void
called(struct suggest_calls *c, struct worker *w,
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
follow(struct suggest_calls *c, struct worker *w, const struct kp_call_event *ev)
{
	struct suggest_calls_state *s = c->state;
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
suggest_calls_event(struct suggest_calls *c, const struct kp_call_event *ev)
{
	struct suggest_calls_state *s = c->state;
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
calls_itself(const struct suggest_calls *c, uint32_t path)
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

static bool
find_loops(struct suggest_calls *c)
{
	const struct kp_calls_sum *sum = c->state->sum;
	uint64_t *all = calloc(c->names->nfns + 1, sizeof(*all));
	uint64_t *inside = calloc(c->names->nfns + 1, sizeof(*inside));

	c->loops = calloc(c->names->nfns + 1, sizeof(*c->loops));
	c->recursive = calloc(c->names->nfns + 1, sizeof(*c->recursive));
	for (uint32_t i = 0; all != NULL && inside != NULL && i < sum->npaths;
	     i++) {
		all[sum->paths[i].fn] += sum->paths[i].calls;
		if (is_inside_itself(sum, i))
			inside[sum->paths[i].fn] += sum->paths[i].calls;
		if (c->recursive != NULL && sum->paths[i].calls > 0 &&
		    sum->paths[i].fn >= KP_FN_FIRST && calls_itself(c, i))
			c->recursive[sum->paths[i].fn] = true;
	}
	for (uint32_t i = KP_FN_FIRST; all != NULL && inside != NULL &&
	     c->loops != NULL && i < c->names->nfns; i++)
		c->loops[i] = inside[i] * 5 > all[i];
	free(all);
	free(inside);
	return all != NULL && inside != NULL && c->loops != NULL &&
	    c->recursive != NULL;
}

/* Around tops: what only waits for work, or was called before the trace. */
static bool
is_around(const struct suggest_calls *c, const struct suggest_fn *fns,
    const struct kp_calls_path *p)
{
	return p->fn < KP_FN_FIRST || p->calls == 0 || c->loops[p->fn] ||
	    suggest_is_around(c, fns, p->fn);
}

static void
place(struct suggest_calls *c, const struct suggest_fn *fns, uint32_t i)
{
	struct suggest_calls_state *s = c->state;
	const struct kp_calls_path *p = &s->sum->paths[i];
	uint32_t at = p->parent == KP_PATH_NONE ? 0 : s->placed[p->parent].spot;

	if (p->parent != KP_PATH_NONE && p->fn >= KP_FN_FIRST) {
		if (is_entry(c, p->fn) && c->spots[at].fn != p->fn)
			at = suggest_spot_child(c, &s->children, 0, p->fn);
		else if (at != 0 ? !fns[p->fn].platform :
		    !is_around(c, fns, p))
			at = suggest_spot_child(c, &s->children, at, p->fn);
	}
	if (at == SUGGEST_SPOT_NONE) {
		s->err = KP_ENOMEM;
		at = 0;
	}
	s->placed[i].spot = at;
	if (at == 0)
		return;
	if (c->spots[at].fn == p->fn)
		c->spots[at].calls += p->calls;
	c->spots[at].own += s->placed[i].own;
	for (unsigned k = 0; k < SUGGEST_WAITS; k++)
		c->spots[at].wait[k] += s->placed[i].wait[k];
}

/*
 * What tracing a call takes: the time of the shortest function that calls nothing,
 * on average.  0: there is none that was called often.
 */
static kp_dur_ns
traced_call(const struct suggest_calls *c)
{
	uint32_t n = c->names->nfns;
	uint64_t *calls = calloc(n + 1, sizeof(*calls));
	kp_dur_ns *own = calloc(n + 1, sizeof(*own)), least = 0, t;
	bool *calling = calloc(n + 1, sizeof(*calling));

	for (uint32_t i = 1; calls != NULL && own != NULL && calling != NULL &&
	     i < c->nspots; i++) {
		calls[c->spots[i].fn] += c->spots[i].calls;
		own[c->spots[i].fn] += c->spots[i].own;
		calling[c->spots[c->spots[i].parent].fn] = true;
	}
	for (uint32_t i = KP_FN_FIRST; calls != NULL && own != NULL &&
	     calling != NULL && i < n; i++) {
		if (calls[i] < OFTEN || calling[i])
			continue;
		t = own[i] / (kp_dur_ns)calls[i];
		least = least == 0 || t < least ? t : least;
	}
	free(calls);
	free(own);
	free(calling);
	return least < TRACED_MAX ? least : TRACED_MAX;
}

/*
 * Takes the time that tracing took away: for a call, and half as much for a callee.
 * It is an estimate, so half of the time stays in any case.
 */
static void
less_tracing(struct suggest_calls *c)
{
	kp_dur_ns each = traced_call(c);
	kp_dur_ns *less = calloc(c->nspots + 1, sizeof(*less));
	struct suggest_spot *s;

	for (uint32_t i = 1; less != NULL && i < c->nspots; i++) {
		less[i] += each * (kp_dur_ns)c->spots[i].calls;
		less[c->spots[i].parent] += each *
		    (kp_dur_ns)c->spots[i].calls / 2;
	}
	for (uint32_t i = 1; less != NULL && i < c->nspots; i++) {
		s = &c->spots[i];
		s->own -= less[i] < s->own / 2 ? less[i] : s->own / 2;
	}
	free(less);
}

/* Callbacks never run inside each other in one process. */
static void
callbacks(struct suggest_calls *c, const struct suggest_fn *fns)
{
	const struct kp_calls_sum *sum = c->state->sum;
	kp_dur_ns *total = calloc(sum->npaths + 1, sizeof(*total));
	uint32_t *at = calloc(c->names->nfns + 1, sizeof(*at)), fn;

	for (uint32_t i = sum->npaths; total != NULL && i-- > 0;) {
		total[i] += sum->paths[i].own;
		if (sum->paths[i].parent != KP_PATH_NONE)
			total[sum->paths[i].parent] += total[i];
	}
	for (uint32_t i = 0; total != NULL && at != NULL && i < sum->npaths;
	     i++) {
		fn = sum->paths[i].fn;
		if (!fns[fn].callback || sum->paths[i].calls == 0)
			continue;
		if (at[fn] == 0 && vec_room_by_len(&c->around, c->naround,
		    SUGGEST_SPOTS_MAX) == KP_OK) {
			c->around[c->naround] = (struct suggest_around){ .fn = fn };
			at[fn] = ++c->naround;
		}
		if (at[fn] == 0)
			continue;
		c->around[at[fn] - 1].calls += sum->paths[i].calls;
		c->around[at[fn] - 1].total += total[i];
	}
	if (total == NULL || at == NULL)
		c->state->err = KP_ENOMEM;
	free(total);
	free(at);
}

enum kp_err
suggest_calls_end(struct suggest_calls *c, const struct suggest_fn *fns)
{
	struct suggest_calls_state *s = c->state;
	enum kp_err e = kp_calls_sum_end(s->sum);

	c->span = s->last - s->first;
	if (e == KP_OK && s->sum->npaths > 0)
		e = vec_reach(&s->placed, &s->nplaced, s->sum->npaths - 1);
	if (e != KP_OK || !suggest_spots_begin(c) || !find_loops(c))
		return KP_ENOMEM;
	for (uint32_t i = 0; i < s->sum->npaths; i++)
		place(c, fns, i);
	less_tracing(c);
	suggest_spots_total(c);
	callbacks(c, fns);
	return s->err;
}
