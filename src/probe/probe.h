/*
 * probe.h - what the files of the native probe share.
 *
 *   probe.c     loading, the tracer's callbacks, and what the owner calls: starts,
 *               stops, and empties the rings
 *   event.c     turns trace events into records, for kprofd: kprof_probe
 *   calls.c     the same for full traces: kprof_calls_probe, a module and a
 *               library of its own, so that both can be loaded together
 *   put.c       writes records and their definitions into a thread's ring
 *   ring, clock, names    their parts
 *   checked     for builds under a memory checker
 *
 * All memory is allocated when the library is loaded and freed when it is
 * unloaded; no thread is in here at that time.  Recording an event neither
 * locks nor allocates nor enters the kernel, with two exceptions: a name that is
 * not plain (see put.h) may allocate when it is first seen; and the first event after
 * sleep() wakes the owner by an eventfd, for which the VM waits (enif_select).  A
 * message would get the token of the process that is traced.
 */
#ifndef KPROFD_PROBE_PROBE_H
#define KPROFD_PROBE_PROBE_H

#include <erl_nif.h>

#include "probe/clock.h"
#include "probe/names.h"
#include "probe/ring.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the native probe writes its records as they are in memory"
#endif

#define PROBE_PIDS 4096		/* in the cache of process numbers */
/* The probe ends when nobody has emptied a full ring for so long. */
#define PROBE_ORPHAN_NS INT64_C(10000000000)

/* The memory of one thread of the VM, which alone writes there. */
struct thread {
	struct ring ring;
	struct names fns, idents;
	uint64_t seed;		/* of names_hash() */
	uint32_t weight;	/* the last one written */
	uint8_t term[KP_NATIVE_TERM_MAX];	/* scratch */
};

struct pid_name {
	ERL_NIF_TERM term;
	uint64_t name;		/* serial << 32 | number */
	uint64_t noted;		/* in probe.recent, when its number was this */
};

struct probe {
	uint64_t number;	/* counts probes loaded in this VM */
	_Atomic bool active;
	_Atomic unsigned claimed;	/* threads that asked for a ring */
	/* events of threads without a ring */
	_Atomic uint64_t dropped, dropped_entries;
	_Atomic int64_t drained_at;	/* ns, by the kernel's clock */
	_Atomic bool asleep;	/* the owner: the next event wakes it */
	int wake_fd;		/* an eventfd, open until the probe is unloaded */
	ErlNifMutex *waking;	/* held while the owner goes to sleep, or stops */
	struct waker *waker;	/* what the VM waits with; NULL: it does not */
	unsigned nthreads;
	struct thread **thread;	/* owned; thread_bytes each, with its ring */
	size_t thread_bytes;
	/* the process that drains, which alone uses these */
	ErlNifPid owner;
	bool owned;
	struct clock clock;	/* converts times of events */
	struct pid_name pids[PROBE_PIDS];
	/*
	 * Processes of drained calls, since recent() was called the last time;
	 * what has no room is left out, the oldest, and one may be there twice.
	 */
	ERL_NIF_TERM recent[PROBE_PIDS];
	uint64_t nrecent;	/* that came; the last PROBE_PIDS are there */
	uint64_t recent_number;	/* counts calls of recent() and start() */
};

extern struct probe_atoms {
	ERL_NIF_TERM ok, trace, discard, remove, trace_status, undefined,
	    match_spec_result, active, threads, records, dropped, waiting,
	    yes, no;
} probe_atoms;

static inline bool
probe_is_active(const struct probe *p)
{
	return atomic_load_explicit(&p->active, memory_order_relaxed);
}

/* event.c, calls.c: t is NULL for a thread without a ring. */
void event_trace(struct probe *p, struct thread *t, ErlNifEnv *env,
    const ERL_NIF_TERM argv[]);
extern const bool event_mixed;	/* are chunks KP_NATIVE_MIXED? */
/* Makes the atoms that event_trace() needs. */
void event_load(ErlNifEnv *env);

/* probe.c: for ERL_NIF_INIT(), which makes the library that of a module. */
extern ErlNifFunc probe_functions[9];
int probe_load(ErlNifEnv *env, void **priv, ERL_NIF_TERM opts);
int probe_upgrade(ErlNifEnv *env, void **priv, void **old, ERL_NIF_TERM opts);
void probe_unload(ErlNifEnv *env, void *priv);

#endif
