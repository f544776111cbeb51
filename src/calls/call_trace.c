/* call_trace.c - numbers the functions, processes and nodes of a trace. */
#include <stdlib.h>
#include <string.h>

#include "calls/call_trace.h"
#include "kprofd/nodes.h"
#include "base/vec.h"

static bool
fns_init(struct kp_call_names *t)
{
	static const char *const pseudo[] = { "undefined", "suspend",
		"garbage_collect" };
	struct kp_call_fn *f;

	while (t->nfns < KP_FN_FIRST) {
		if (vec_room_by_len(&t->fns, t->nfns, KP_CALLS_FNS_MAX) !=
		    KP_OK)
			return false;
		f = &t->fns[t->nfns];
		*f = (struct kp_call_fn){ strdup(""), strdup(pseudo[t->nfns]),
			0 };
		t->nfns++;
		if (f->mod == NULL || f->fun == NULL)
			return false;
	}
	return true;
}

struct kp_call_names *
kp_call_names_new(void)
{
	struct kp_call_names *t = calloc(1, sizeof(*t));

	if (t != NULL && !fns_init(t)) {
		kp_call_names_free(t);
		return NULL;
	}
	return t;
}

void
kp_call_names_free(struct kp_call_names *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->nfns; i++) {
		free(t->fns[i].mod);
		free(t->fns[i].fun);
	}
	for (uint32_t i = 0; i < t->nprocs; i++)
		free(t->procs[i].name);
	free(t->fns);
	free(t->procs);
	intern_free(&t->by_mfa);
	for (uint32_t i = 0; i < KP_CALLS_NODES_MAX; i++) {
		free(t->nodes[i].name);
		map_free(&t->by_pid[i]);
	}
	free(t);
}

static bool
is_name(struct kp_span s)
{
	return s.n <= KP_CALLS_NAME_MAX &&
	    (s.n == 0 || memchr(s.p, '\0', s.n) == NULL);
}

/* Module, function and arity, separated by a byte that no name has. */
static size_t
fn_key(uint8_t *key, struct kp_span mod, struct kp_span fun, uint32_t arity)
{
	size_t n = 0;

	memcpy(key, mod.p, mod.n);
	n += mod.n;
	key[n++] = '\0';
	if (fun.n > 0)
		memcpy(key + n, fun.p, fun.n);
	n += fun.n;
	key[n++] = '\0';
	key[n++] = (uint8_t)arity;
	return n;
}

static enum kp_err
fn_add(struct kp_call_names *t, struct kp_span mod, struct kp_span fun,
    uint32_t arity)
{
	enum kp_err e = vec_room_by_len(&t->fns, t->nfns, KP_CALLS_FNS_MAX);
	struct kp_call_fn *f;

	if (e != KP_OK)
		return e;
	f = &t->fns[t->nfns];
	*f = (struct kp_call_fn){ kp_span_dup(mod), kp_span_dup(fun), arity };
	if (f->mod != NULL && f->fun != NULL)
		return KP_OK;
	free(f->mod);
	free(f->fun);
	return KP_ENOMEM;
}

enum kp_err
kp_call_fn_put(struct kp_call_names *t, struct kp_span mod,
    struct kp_span fun, uint32_t arity, uint32_t *fn, bool *added)
{
	uint8_t key[2 * KP_CALLS_NAME_MAX + 3];
	const struct interned *known;
	enum kp_err e;
	size_t n;

	*added = false;
	if (mod.n == 0 || !is_name(mod) || !is_name(fun) || arity > 255)
		return KP_EFORMAT;
	n = fn_key(key, mod, fun, arity);
	known = intern_get(&t->by_mfa, key, n);
	if (known != NULL) {
		*fn = known->val;
		return KP_OK;
	}
	e = fn_add(t, mod, fun, arity);
	if (e != KP_OK)
		return e;
	if (intern_put(&t->by_mfa, key, n, t->nfns) == NULL) {
		free(t->fns[t->nfns].mod);
		free(t->fns[t->nfns].fun);
		return KP_ENOMEM;
	}
	*added = true;
	*fn = t->nfns++;
	return KP_OK;
}

bool
kp_calls_several(const struct kp_call_names *t)
{
	uint32_t traced = 0;

	for (uint32_t i = 0; i < t->nnodes; i++)
		traced += i == 0 || t->nodes[i].otp > 0;
	return traced > 1;
}

enum kp_err
kp_call_node_put(struct kp_call_names *t, struct kp_span name,
    uint32_t *node, bool *added)
{
	*added = false;
	if (name.n > KP_NODE_NAME_MAX || !is_name(name))
		return KP_EFORMAT;
	for (*node = 0; *node < t->nnodes; ++*node)
		if (kp_span_is(name, t->nodes[*node].name))
			return KP_OK;
	if (t->nnodes == KP_CALLS_NODES_MAX)
		return KP_ELIMIT;
	t->nodes[t->nnodes].name = kp_span_dup(name);
	if (t->nodes[t->nnodes].name == NULL)
		return KP_ENOMEM;
	t->nnodes++;
	*added = true;
	return KP_OK;
}

enum kp_err
kp_call_proc_put(struct kp_call_names *t, uint32_t node, uint32_t id,
    uint32_t serial, uint32_t *proc, bool *added)
{
	/* Key 0 is not allowed: <0.0.0> is init, no pid has all bits set. */
	uint64_t key = ((uint64_t)serial << 32 | id) + 1, *known;
	enum kp_err e;

	*added = false;
	if (key == 0 || (node > 0 && node >= t->nnodes))
		return KP_EFORMAT;
	known = map_get(&t->by_pid[node], key);
	if (known != NULL) {
		*proc = (uint32_t)*known;
		return KP_OK;
	}
	e = vec_room_by_len(&t->procs, t->nprocs, KP_CALLS_PROCS_MAX);
	if (e != KP_OK)
		return e;
	if (!map_put(&t->by_pid[node], key, t->nprocs))
		return KP_ENOMEM;
	t->procs[t->nprocs] = (struct kp_call_proc){ id, serial, node, NULL };
	*added = true;
	*proc = t->nprocs++;
	return KP_OK;
}

enum kp_err
kp_call_proc_name(struct kp_call_names *t, uint32_t proc, struct kp_span name)
{
	char *s;

	if (proc >= t->nprocs || name.n == 0 || !is_name(name))
		return KP_EFORMAT;
	s = kp_span_dup(name);
	if (s == NULL)
		return KP_ENOMEM;
	free(t->procs[proc].name);
	t->procs[proc].name = s;
	return KP_OK;
}

int
kp_call_fn_order(const struct kp_call_names *t, uint32_t a, uint32_t b)
{
	const struct kp_call_fn *x = &t->fns[a], *y = &t->fns[b];
	int d = strcmp(x->mod, y->mod);

	if (d == 0)
		d = strcmp(x->fun, y->fun);
	return d != 0 ? d : (x->arity > y->arity) - (x->arity < y->arity);
}
