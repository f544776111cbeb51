/*
 * probe.c - the native probe: a tracer module of the VM (erl_tracer) that fills
 * rings in memory.
 *
 * The VM calls trace/5 in the thread that runs the traced process, after two
 * calls of enabled/3.  Each thread has a ring of its own and remembers it,
 * together with the number of the probe that it is of: when the library is
 * loaded again, the number is another.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "probe/checked.h"
#include "probe/probe.h"

#define RECORDS_MIN 1024
#define RECORDS_MAX (1u << 20)

struct probe_atoms probe_atoms;

static _Atomic uint64_t probes;	/* loaded so far */

static _Thread_local struct {
	uint64_t probe;		/* its number; 0: none */
	struct thread *thread;	/* NULL: no ring was left */
} mine;

/* ---- the tracer ---- */

static struct thread *
claim(struct probe *p)
{
	unsigned i = atomic_fetch_add_explicit(&p->claimed, 1,
	    memory_order_acq_rel);

	/* The counter cannot overflow: no VM has so many threads. */
	mine.probe = p->number;
	mine.thread = i < p->nthreads ? p->thread[i] : NULL;
	return mine.thread;
}

/* enabled(Tag, State, Process); for trace_status: go on tracing at all? */
ERL_NIF_TERM
enabled_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);

	(void)argc;
	if (probe_is_active(p))
		return probe_atoms.trace;
	return enif_is_identical(argv[0], probe_atoms.trace_status) ?
	    probe_atoms.remove : probe_atoms.discard;
}

/* trace(Tag, State, Process, What, Opts) */
ERL_NIF_TERM
trace_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);

	vm_wrote(argv, (size_t)argc * sizeof(*argv));
	if (probe_is_active(p))
		event_trace(p, mine.probe == p->number ? mine.thread :
		    claim(p), env, argv);
	return probe_atoms.ok;
}

/* ---- loading ---- */

static void
make_atoms(ErlNifEnv *env)
{
	probe_atoms = (struct probe_atoms){
		.ok = enif_make_atom(env, "ok"),
		.trace = enif_make_atom(env, "trace"),
		.discard = enif_make_atom(env, "discard"),
		.remove = enif_make_atom(env, "remove"),
		.trace_status = enif_make_atom(env, "trace_status"),
		.match_spec_result = enif_make_atom(env, "match_spec_result"),
		.active = enif_make_atom(env, "active"),
		.threads = enif_make_atom(env, "threads"),
		.records = enif_make_atom(env, "records"),
		.dropped = enif_make_atom(env, "dropped"),
		.waiting = enif_make_atom(env, "waiting"),
	};
}

static size_t
aligned(size_t n)
{
	return (n + RING_LINE - 1) / RING_LINE * RING_LINE;
}

/*
 * Maps the memory of a thread.  Pages are allocated on first use, and most
 * rings are never used.
 */
static void *
map_thread(size_t bytes)
{
	void *at;

	if (PROBE_PLAIN) {
		at = aligned_alloc(RING_LINE, bytes);
		return at != NULL ? memset(at, 0, bytes) : NULL;
	}
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at != MAP_FAILED ? at : NULL;
}

static void
put_memory(struct probe *p)
{
	for (unsigned i = 0; i < p->nthreads && p->thread[i] != NULL; i++) {
		if (PROBE_PLAIN)
			free(p->thread[i]);
		else
			munmap(p->thread[i], p->thread_bytes);
	}
	enif_free(p->thread);
}

static bool
get_memory(struct probe *p, uint32_t records)
{
	size_t head = aligned(sizeof(struct thread));
	uint64_t seed = 0;
	uint8_t *at;

	/* Any value serves that differs from other probes' seeds. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uintptr_t)p;
	p->thread_bytes = head +
	    aligned(records * sizeof(struct kp_native_record));
	p->thread = enif_alloc(p->nthreads * sizeof(p->thread[0]));
	if (p->thread == NULL)
		return false;
	vm_wrote(p->thread, p->nthreads * sizeof(p->thread[0]));
	for (unsigned i = 0; i < p->nthreads; i++) {
		at = map_thread(p->thread_bytes);
		p->thread[i] = (struct thread *)(void *)at;
		if (at == NULL) {
			put_memory(p);
			return false;
		}
		p->thread[i]->seed = seed;
		ring_init(&p->thread[i]->ring,
		    (struct kp_native_record *)(void *)(at + head), records);
	}
	return true;
}

/*
 * load(_, {Version, Threads, Records}): the version of the records, how many
 * threads may write, and the size of a ring, a power of two.
 */
int
probe_load(ErlNifEnv *env, void **priv, ERL_NIF_TERM opts)
{
	unsigned version, threads, records;
	const ERL_NIF_TERM *v;
	struct probe *p;
	int arity;

	if (!vm_tuple(env, opts, &arity, &v) || arity != 3 ||
	    !enif_get_uint(env, v[0], &version) ||
	    version != KP_NATIVE_VERSION ||
	    !enif_get_uint(env, v[1], &threads) || threads == 0 ||
	    threads > KP_NATIVE_RINGS_MAX ||
	    !enif_get_uint(env, v[2], &records) || records < RECORDS_MIN ||
	    records > RECORDS_MAX || (records & (records - 1)) != 0)
		return 1;
	p = enif_alloc(sizeof(*p));
	if (p == NULL)
		return 2;
	vm_wrote(p, sizeof(*p));
	memset(p, 0, sizeof(*p));
	p->nthreads = threads;
	if (!get_memory(p, records)) {
		enif_free(p);
		return 2;
	}
	p->number = 1 + atomic_fetch_add(&probes, 1);
	make_atoms(env);
	event_load(env);
	*priv = p;
	return 0;
}

/* The module is loaded over an old one: the new probe starts afresh. */
int
probe_upgrade(ErlNifEnv *env, void **priv, void **old, ERL_NIF_TERM opts)
{
	(void)old;
	return probe_load(env, priv, opts);
}

void
probe_unload(ErlNifEnv *env, void *priv)
{
	struct probe *p = priv;

	(void)env;
	put_memory(p);
	enif_free(p);
}
