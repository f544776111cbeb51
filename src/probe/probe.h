/*
 * probe.h - what the files of the native probe share.
 *
 *   probe.c     the VM's side: loading, the tracer's callbacks, commands
 *   event.c     a trace event of the VM -> records in a thread's ring
 *   drain.c     rings -> binaries for the agent
 *   ring, merge, clock, names, term_put    what these are made of
 *   checked     for builds that are watched
 *
 * All memory is got when the library is loaded and given back when it is
 * unloaded; the VM lets no thread be in here at that time.  On the way of an
 * event nothing locks, allocates, or enters the kernel; the first time that
 * a name which is not plain (see term_put.h) is met it may allocate.
 */
#ifndef KP_PROBE_PROBE_H
#define KP_PROBE_PROBE_H

#include <erl_nif.h>

#include "probe/clock.h"
#include "probe/names.h"
#include "probe/ring.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the native probe writes its records as they are in memory"
#endif

#define PROBE_PIDS 4096		/* in the cache of process numbers */
/* Rings are full and nobody has come for so long: nobody will. */
#define PROBE_ORPHAN_NS INT64_C(10000000000)

/* What one thread of the VM has; nobody else writes there. */
struct thread {
	struct ring ring;
	struct names fns, idents;
	uint64_t seed;		/* of names_hash() */
	uint32_t weight;	/* that was written last */
	uint8_t term[KP_NATIVE_TERM_MAX];	/* scratch */
};

struct pid_name {
	ERL_NIF_TERM term;
	uint64_t name;		/* serial << 32 | number */
};

struct probe {
	uint64_t number;	/* of all probes that were ever loaded here */
	_Atomic bool active;
	_Atomic unsigned claimed;	/* threads that asked for a ring */
	/* of threads that got none */
	_Atomic uint64_t dropped, dropped_entries;
	_Atomic int64_t drained_at;	/* by the kernel's clock */
	unsigned nthreads;
	struct thread **thread;	/* owned, each of so many bytes, its ring's too */
	size_t thread_bytes;
	/* the owner's */
	ErlNifPid owner;
	bool owned;
	struct clock clock;	/* what events' times are by the VM's */
	struct pid_name pids[PROBE_PIDS];
};

extern struct probe_atoms {
	ERL_NIF_TERM ok, trace, discard, remove, trace_status, call,
	    return_to, return_from, exception_from, undefined,
	    match_spec_result, in, out, gc_minor_start, gc_minor_end,
	    gc_major_start, gc_major_end, seq_trace, send, receive, exit,
	    spawn_request, spawn_reply, active, threads, records, dropped, waiting;
} probe_atoms;

/* drain.c: looks at both clocks; the kernel's, before the VM's. */
int64_t probe_moment(struct probe *p);

/* event.c: t is NULL for a thread without a ring. */
void event_trace(struct probe *p, struct thread *t, ErlNifEnv *env,
    const ERL_NIF_TERM argv[]);

/* drain.c: NIFs */
ERL_NIF_TERM drain_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM definitions_nif(ErlNifEnv *env, int argc,
    const ERL_NIF_TERM argv[]);
unsigned probe_rings(const struct probe *p);
void probe_dropped(const struct probe *p, uint64_t *events,
    uint64_t *entries);
uint64_t probe_waiting(const struct probe *p);

#endif
