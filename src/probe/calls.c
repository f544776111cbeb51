/*
 * calls.c - the probe of full traces: turns every event of the VM into a
 * record.
 *
 * A call's message is {kprof_calls, Caller}, which distinguishes our patterns
 * from other people's: those reach every tracer on OTP 25 and 26.  Neither
 * arguments nor messages are looked at.
 *
 * A trace has no gap: when a ring is full the trace ends, for all processes,
 * and the events before are complete.  Events that did not fit are counted.
 * The process that empties the rings is not traced.
 */
#include "calls/call_trace.h"
#include "probe/checked.h"
#include "probe/put.h"

static ERL_NIF_TERM kprof_calls, extra;

/*
 * The VM's names of events, the most frequent ones first.  After an exit it may
 * report out_exited too, which is not needed.
 */
static struct {
	const char *name;
	enum kp_call_kind kind;
	ERL_NIF_TERM atom;
} kinds[] = {
	{ "call", KP_CALL_CALL, 0 },
	{ "return_to", KP_CALL_RETURN_TO, 0 },
	{ "in", KP_CALL_IN, 0 },
	{ "out", KP_CALL_OUT, 0 },
	{ "gc_minor_start", KP_CALL_GC_START, 0 },
	{ "gc_minor_end", KP_CALL_GC_END, 0 },
	{ "gc_major_start", KP_CALL_GC_START, 0 },
	{ "gc_major_end", KP_CALL_GC_END, 0 },
	{ "spawn", KP_CALL_SPAWN, 0 },
	{ "exit", KP_CALL_EXIT, 0 },
	{ "in_exiting", KP_CALL_IN, 0 },
	{ "out_exiting", KP_CALL_OUT, 0 },
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Returns 0 for an event that is not recorded. */
static enum kp_call_kind
kind_of(ERL_NIF_TERM tag)
{
	for (size_t i = 0; i < NKINDS; i++)
		if (kinds[i].atom == tag)
			return kinds[i].kind;
	return 0;
}

static bool
read_call(struct event *e, const ERL_NIF_TERM argv[])
{
	const ERL_NIF_TERM *v;
	ERL_NIF_TERM message;
	int arity;

	if (!vm_map_value(e->env, argv[4], probe_atoms.match_spec_result,
	    &message) || !vm_tuple(e->env, message, &arity, &v) ||
	    arity != 2 || v[0] != kprof_calls)
		return false;
	e->rec.caller = event_fn(e, v[1], 0);
	e->rec.fn = event_fn(e, argv[3], e->rec.caller);
	return e->rec.fn != 0;
}

/* A spawn on this node; the child begins with {M,F,Args}. */
static bool
read_spawn(struct event *e, const ERL_NIF_TERM argv[])
{
	const ERL_NIF_TERM *v;
	ERL_NIF_TERM begins, fn[3];
	ErlNifPid child;
	unsigned args;
	int arity;

	if (!enif_get_local_pid(e->env, argv[3], &child) ||
	    !vm_map_value(e->env, argv[4], extra, &begins) ||
	    !vm_tuple(e->env, begins, &arity, &v) || arity != 3 ||
	    !enif_get_list_length(e->env, v[2], &args))
		return false;
	fn[0] = v[0];
	fn[1] = v[1];
	fn[2] = enif_make_uint(e->env, args);	/* an immediate */
	e->rec.fn = event_fn_of(e, fn, 0);
	e->rec.flags = KP_NATIVE_HAS_FROM;	/* and not short */
	e->rec.other = child.pid;
	return true;
}

static bool
read_event(struct event *e, const ERL_NIF_TERM argv[])
{
	enum kp_call_kind kind = kind_of(argv[0]);

	e->rec.kind = (uint8_t)(KP_NATIVE_CALLS + kind);
	e->rec.flags = KP_NATIVE_SHORT;
	e->rec.pid = argv[2];
	switch (kind) {
	case KP_CALL_CALL:
		return read_call(e, argv);
	case KP_CALL_SPAWN:
		return read_spawn(e, argv);
	case KP_CALL_RETURN_TO:
	case KP_CALL_IN:
	case KP_CALL_OUT:
		e->rec.fn = event_fn(e, argv[3], 0);
		return true;
	default:
		return kind != 0;
	}
}

/* A thread has no ring if there are more threads than rings. */
static bool
put(struct probe *p, struct event *e)
{
	if (e->t != NULL)
		return event_put(p, e);
	atomic_fetch_add_explicit(&p->dropped, 1, memory_order_relaxed);
	return false;
}

void
event_trace(struct probe *p, struct thread *t, ErlNifEnv *env,
    const ERL_NIF_TERM argv[])
{
	struct event e = { .t = t, .env = env };

	if (argv[2] == p->owner.pid)
		return;
	e.rec.ts = clock_kernel();
	if (t != NULL && !read_event(&e, argv))
		return;
	if (!put(p, &e))
		atomic_store_explicit(&p->active, false,
		    memory_order_relaxed);
}

const bool event_mixed = true;

void
event_load(ErlNifEnv *env)
{
	kprof_calls = enif_make_atom(env, "kprof_calls");
	extra = enif_make_atom(env, "extra");
	for (size_t i = 0; i < NKINDS; i++)
		kinds[i].atom = enif_make_atom(env, kinds[i].name);
}

ERL_NIF_INIT(kprof_calls_probe, probe_functions, probe_load, NULL, probe_upgrade,
    probe_unload)
