/*
 * probe.h - what the files of the native probe share.
 *
 *   probe.c     the VM's side: loading, the tracer's callbacks, commands
 *   event.c     a trace event of the VM -> records, for kprofd: kprof_probe
 *   calls.c     the same for full traces: kprof_calls_probe, a module and a
 *               library of its own, so that both may be loaded at a time
 *   put.c       records with what they define -> a thread's ring
 *   drain.c     rings -> binaries for the agent
 *   ring, merge_rings, clock, names, term_put    what these are made of
 *   checked     for builds under a memory checker
 *
 * All memory is allocated when the library is loaded and freed when it is
 * unloaded; the VM lets no thread be in here at that time.  On an event's way
 * nothing locks, allocates, or enters the kernel, with one exception: a name
 * that is not plain (see term_put.h) may allocate when it is first met.
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
/* Rings were full for this time and nobody emptied them: nobody will. */
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
	struct thread **thread;	/* owned, of thread_bytes, its ring's too */
	size_t thread_bytes;
	/* the owner's */
	ErlNifPid owner;
	bool owned;
	struct clock clock;	/* what events' times are by the VM's */
	struct pid_name pids[PROBE_PIDS];
};

extern struct probe_atoms {
	ERL_NIF_TERM ok, trace, discard, remove, trace_status,
	    match_spec_result, active, threads, records, dropped, waiting;
} probe_atoms;

/* drain.c: looks at both clocks; the kernel's, before the VM's. */
int64_t probe_moment(struct probe *p);

/* event.c, calls.c: t is NULL for a thread without a ring. */
void event_trace(struct probe *p, struct thread *t, ErlNifEnv *env,
    const ERL_NIF_TERM argv[]);
extern const bool event_mixed;	/* are chunks KP_NATIVE_MIXED? */
/* The atoms that it needs. */
void event_load(ErlNifEnv *env);

/* probe.c: what PROBE_MODULE() names. */
ERL_NIF_TERM enabled_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM trace_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM start_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM stop_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM info_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
int probe_load(ErlNifEnv *env, void **priv, ERL_NIF_TERM opts);
int probe_upgrade(ErlNifEnv *env, void **priv, void **old, ERL_NIF_TERM opts);
void probe_unload(ErlNifEnv *env, void *priv);

/* drain.c: NIFs */
ERL_NIF_TERM drain_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM definitions_nif(ErlNifEnv *env, int argc,
    const ERL_NIF_TERM argv[]);
unsigned probe_rings(const struct probe *p);
void probe_dropped(const struct probe *p, uint64_t *events,
    uint64_t *entries);
uint64_t probe_waiting(const struct probe *p);

/* The library is this module's. */
#define PROBE_MODULE(name) \
	static ErlNifFunc functions[] = { \
		{ "enabled", 3, enabled_nif, 0 }, \
		{ "trace", 5, trace_nif, 0 }, \
		{ "start", 0, start_nif, 0 }, \
		{ "stop", 0, stop_nif, 0 }, \
		{ "drain", 1, drain_nif, 0 }, \
		{ "definitions", 1, definitions_nif, 0 }, \
		{ "info", 0, info_nif, 0 }, \
	}; \
	ERL_NIF_INIT(name, functions, probe_load, NULL, probe_upgrade, \
	    probe_unload)

#endif
