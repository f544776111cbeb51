/*
 * probe.c - the native probe: a tracer module of the VM (erl_tracer) that fills
 * rings in memory.
 *
 * The VM calls trace/5 in the thread that runs the traced process, after two
 * calls of enabled/3.  Each thread has a ring of its own and remembers it,
 * together with the number of the probe that it is of: when the library is
 * loaded again, the number is another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/checked.h"
#include "probe/probe.h"

#define RECORDS_MIN 1024
#define RECORDS_MAX (1u << 20)
#define MOMENT_TRIES 5
#define MOMENT_GOOD 2000	/* ns */
#define TIMESLICE INT64_C(1000000)	/* ns: what the VM gives a process */

struct probe_atoms probe_atoms;

static _Atomic uint64_t probes;	/* loaded so far */

static _Thread_local struct {
	uint64_t probe;		/* its number; 0: none */
	struct thread *thread;	/* NULL: no ring was left */
} mine;

/* ---- the owner sleeps ---- */

static ErlNifResourceType *waker_type;

/* The VM has ended its wait; the descriptor stays. */
static void
waker_stopped(ErlNifEnv *env, void *obj, ErlNifEvent fd, int direct)
{
	(void)env, (void)obj, (void)fd, (void)direct;
}

static bool
waker_load(ErlNifEnv *env, struct probe *p)
{
	ErlNifResourceTypeInit init = { .stop = waker_stopped };

	waker_type = enif_open_resource_type_x(env, "waker", &init,
	    ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER, NULL);
	p->waking = enif_mutex_create("kprof_probe");
	p->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return waker_type != NULL && p->waking != NULL;
}

static void
waker_free(struct probe *p)
{
	if (p->wake_fd >= 0)
		close(p->wake_fd);
	if (p->waking != NULL)
		enif_mutex_destroy(p->waking);
}

/* The VM waits no more, and lets the library go. */
static void
waker_stop(ErlNifEnv *env, struct probe *p)
{
	enif_mutex_lock(p->waking);
	atomic_store(&p->asleep, false);
	if (p->waker != NULL)
		enif_select(env, p->wake_fd, ERL_NIF_SELECT_STOP, p->waker, NULL,
		    probe_atoms.undefined);
	p->waker = NULL;
	enif_mutex_unlock(p->waking);
}

/*
 * Has the VM wait for the descriptor.  It holds the object as long; a reference of the
 * probe's own would hold the probe, too.
 */
static bool
waker_wait(ErlNifEnv *env, struct probe *p)
{
	struct waker *w = p->waker;
	uint64_t n;

	if (p->wake_fd < 0 || (read(p->wake_fd, &n, sizeof(n)) < 0 && errno != EAGAIN))
		return false;
	if (w == NULL)
		w = enif_alloc_resource(waker_type, 1);
	if (w == NULL || enif_select(env, p->wake_fd, ERL_NIF_SELECT_READ, w, NULL,
	    probe_atoms.undefined) < 0) {
		if (w != NULL && w != p->waker)
			enif_release_resource(w);
		return false;
	}
	if (w != p->waker)
		enif_release_resource(w);
	p->waker = w;
	return true;
}

static void
wake(struct probe *p)
{
	const uint64_t one = 1;

	/* It cannot be full, since only the first of all writers comes here. */
	if (atomic_exchange(&p->asleep, false) &&
	    write(p->wake_fd, &one, sizeof(one)) < 0)
		atomic_store(&p->asleep, true);
}

/* ---- the tracer ---- */

static struct thread *
claim(struct probe *p)
{
	unsigned i = atomic_fetch_add_explicit(&p->claimed, 1,
	    memory_order_acq_rel);

	/* The counter cannot overflow: no VM has that number of threads. */
	mine.probe = p->number;
	mine.thread = i < p->nthreads ? p->thread[i] : NULL;
	return mine.thread;
}

/* enabled(Tag, State, Process); for trace_status: go on tracing at all? */
static ERL_NIF_TERM
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
static ERL_NIF_TERM
trace_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);

	vm_wrote(argv, (size_t)argc * sizeof(*argv));
	if (probe_is_active(p))
		event_trace(p, mine.probe == p->number ? mine.thread :
		    claim(p), env, argv);
	if (atomic_load_explicit(&p->asleep, memory_order_relaxed))
		wake(p);
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
		.undefined = enif_make_atom(env, "undefined"),
		.match_spec_result = enif_make_atom(env, "match_spec_result"),
		.active = enif_make_atom(env, "active"),
		.threads = enif_make_atom(env, "threads"),
		.records = enif_make_atom(env, "records"),
		.dropped = enif_make_atom(env, "dropped"),
		.waiting = enif_make_atom(env, "waiting"),
		.yes = enif_make_atom(env, "true"),
		.no = enif_make_atom(env, "false"),
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
	/* Any value serves that differs from other probes' seeds. */
	uint64_t seed = (uintptr_t)p ^ (uint64_t)enif_monotonic_time(ERL_NIF_NSEC) << 16;
	uint8_t *at;

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
	if (!waker_load(env, p)) {
		waker_free(p);
		put_memory(p);
		enif_free(p);
		return 2;
	}
	p->number = 1 + atomic_fetch_add(&probes, 1);
	make_atoms(env);
	event_load(env);
	*priv = p;
	return 0;
}

/*
 * The module is loaded over an old one: the new probe starts afresh, and has the type of
 * what the old one waits with.
 */
int
probe_upgrade(ErlNifEnv *env, void **priv, void **old, ERL_NIF_TERM opts)
{
	waker_stop(env, *old);
	return probe_load(env, priv, opts);
}

void
probe_unload(ErlNifEnv *env, void *priv)
{
	struct probe *p = priv;

	(void)env;
	waker_free(p);
	put_memory(p);
	enif_free(p);
}

/*
 * ---- what the owner calls: start, stop, sleep, info, drain, which turns the rings
 * into binaries, and recent ----
 *
 * A process moves from thread to thread, and its events from ring to ring;
 * kprofd merges rings by time, so a drain must not contain an event without the
 * earlier ones of its process.  So the clock is read first, and younger events
 * are left for the next drain: every event that came before an older one has
 * been written by then.  When there is more than may be given at once, the
 * oldest events of all rings are taken.
 *
 * Processes get their names here, number and serial, where no event has to wait
 * for it.
 *
 * A drain holds a scheduler, so it has to end in far less than a millisecond:
 * the number of records is limited, however many rings there are.
 */

static unsigned
used_rings(const struct probe *p)
{
	unsigned n = atomic_load_explicit(&p->claimed, memory_order_acquire);

	return n < p->nthreads ? n : p->nthreads;
}

static void
dropped_so_far(const struct probe *p, uint64_t *events, uint64_t *entries)
{
	*events = atomic_load_explicit(&p->dropped, memory_order_relaxed);
	*entries = atomic_load_explicit(&p->dropped_entries,
	    memory_order_relaxed);
	for (unsigned i = 0; i < used_rings(p); i++) {
		const struct ring *r = &p->thread[i]->ring;

		*events += atomic_load_explicit(&r->dropped,
		    memory_order_relaxed);
		*entries += atomic_load_explicit(&r->dropped_entries,
		    memory_order_relaxed);
	}
}

static uint64_t
waiting_in_rings(const struct probe *p)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < used_rings(p); i++)
		n += ring_waiting(&p->thread[i]->ring);
	return n;
}

/*
 * Reads both clocks and returns the kernel's time before that.  The error is at
 * most half the time that the reading took, which is longer where the thread
 * lost its processor in between: so the shortest of some tries counts.
 */
static int64_t
read_clocks(struct probe *p)
{
	int64_t first = clock_kernel(), before = first, after, vm, at = 0,
	    vm_at = 0, shortest = INT64_MAX;

	for (int i = 0; i < MOMENT_TRIES && shortest > MOMENT_GOOD; i++) {
		vm = enif_monotonic_time(ERL_NIF_NSEC);
		after = clock_kernel();
		if (after - before < shortest) {
			shortest = after - before;
			at = before + shortest / 2;
			vm_at = vm;
		}
		before = after;
	}
	clock_moment(&p->clock, at, vm_at);
	return first;
}

/* start() -> ok: the caller becomes the owner, who drains. */
static ERL_NIF_TERM
start_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);

	(void)argc, (void)argv;
	if (probe_is_active(p) || enif_self(env, &p->owner) == NULL)
		return enif_make_badarg(env);
	p->owned = true;
	p->recent_number++;
	atomic_store(&p->drained_at, read_clocks(p));
	atomic_store(&p->active, true);
	return probe_atoms.ok;
}

/* stop() -> ok: nothing is traced from now on; any process may call it. */
static ERL_NIF_TERM
stop_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);

	(void)argc, (void)argv;
	atomic_store(&p->active, false);
	waker_stop(env, p);
	return probe_atoms.ok;
}

/*
 * sleep() -> Whether the next event will send the owner {select, _, undefined,
 * ready_input}.  An event that a thread is recording now may not: look again later.
 */
static ERL_NIF_TERM
sleep_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);
	ErlNifPid self;
	bool waits;

	(void)argc, (void)argv;
	if (!p->owned || enif_self(env, &self) == NULL ||
	    enif_compare_pids(&self, &p->owner) != 0)
		return enif_make_badarg(env);
	enif_mutex_lock(p->waking);
	waits = probe_is_active(p) && waker_wait(env, p);
	atomic_store(&p->asleep, waits);
	enif_mutex_unlock(p->waking);
	return waits ? probe_atoms.yes : probe_atoms.no;
}

static ERL_NIF_TERM
info_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	const struct probe_atoms *a = &probe_atoms;
	struct probe *p = enif_priv_data(env);
	uint64_t dropped, entries;
	ERL_NIF_TERM keys[] = { a->active, a->threads, a->records,
		a->dropped, a->waiting };
	ERL_NIF_TERM values[5], map;

	(void)argc, (void)argv;
	dropped_so_far(p, &dropped, &entries);
	values[0] = probe_is_active(p) ? a->yes : a->no;
	values[1] = enif_make_uint(env, p->nthreads);
	values[2] = enif_make_uint64(env, p->thread[0]->ring.mask + 1);
	values[3] = enif_make_uint64(env, dropped);
	values[4] = enif_make_uint64(env, waiting_in_rings(p));
	enif_make_map_from_arrays(env, keys, values, 5, &map);
	return map;
}

/* Skips one character and reads a number. */
static uint64_t
next_number(const char **c)
{
	uint64_t n = 0;

	for (*c += **c != '\0'; **c >= '0' && **c <= '9'; ++*c)
		n = 10 * n + (uint64_t)(**c - '0');
	return n;
}

/* Only the VM knows how it encodes <0.Number.Serial>, so it has to print it. */
static uint64_t
pid_name(struct probe *p, uint64_t term)
{
	struct pid_name *at = &p->pids[term / 16 % PROBE_PIDS];
	char text[64] = "";
	const char *c = text;
	uint64_t number, serial;

	if (at->term == term)
		return at->name;
	enif_snprintf(text, sizeof(text), "%T", (ERL_NIF_TERM)term);
	vm_wrote(text, sizeof(text));
	next_number(&c);	/* 0: this node */
	number = next_number(&c);
	serial = next_number(&c);
	*at = (struct pid_name){ term, serial << 32 | number, 0 };
	return at->name;
}

/* After pid_name(): recent() returns the process. */
static void
note_caller(struct probe *p, uint64_t term)
{
	struct pid_name *at = &p->pids[term / 16 % PROBE_PIDS];

	if (at->noted == p->recent_number)
		return;
	at->noted = p->recent_number;
	p->recent[p->nrecent++ % PROBE_PIDS] = term;
}

static struct kp_native_record
record_out(struct probe *p, const struct kp_native_record *in)
{
	struct kp_native_record rec = *in;

	if (!kp_native_is_setting(rec.kind)) {
		rec.ts = clock_vm(&p->clock, rec.ts);
		rec.pid = pid_name(p, in->pid);
	}
	if (rec.kind == KP_NATIVE_ENTRY || rec.kind == KP_NATIVE_CALL)
		note_caller(p, in->pid);
	if ((rec.flags & KP_NATIVE_HAS_FROM) != 0)
		rec.other = pid_name(p, rec.other);
	return rec;
}

static ERL_NIF_TERM
chunk(ErlNifEnv *env, struct probe *p, const struct ring_part *part)
{
	const struct ring *r = part->r;
	uint64_t n = part->to - part->from, at = part->from, end;
	size_t bytes = n * sizeof(struct kp_native_record) - (event_mixed ?
	    part->shorts * (sizeof(struct kp_native_record) -
	    KP_NATIVE_SHORT_BYTES) : 0), size;
	struct kp_native_chunk head = { .magic = event_mixed ?
		KP_NATIVE_MIXED : KP_NATIVE_MAGIC,
		.version = KP_NATIVE_VERSION, .ring = (uint16_t)part->number,
		.records = (uint32_t)(event_mixed ? bytes / KP_NATIVE_WORD :
		    n) };
	const struct kp_native_record *rec;
	struct kp_native_record out;
	ERL_NIF_TERM binary;
	uint8_t *to;

	to = enif_make_new_binary(env, sizeof(head) + bytes, &binary);
	vm_wrote(to, sizeof(head) + bytes);
	memcpy(to, &head, sizeof(head));
	to += sizeof(head);
	while (at < part->to) {
		rec = ring_at(r, at);
		if (kp_native_is_definition(rec->kind)) {
			for (end = at + kp_native_records(rec->caller);
			    at < end; at++, to += sizeof(*rec))
				memcpy(to, ring_at(r, at), sizeof(*rec));
			continue;
		}
		out = record_out(p, rec);
		size = kp_native_bytes(&out, event_mixed);
		memcpy(to, &out, size);
		to += size;
		at++;
	}
	return binary;
}

struct drained {
	uint64_t events;
	int64_t oldest;		/* ns, by the kernel's clock */
	bool more;		/* events are left */
	ERL_NIF_TERM chunks;
};

static void
drain_ring(ErlNifEnv *env, struct probe *p, struct drained *d,
    const struct ring_part *part)
{
	if (part->events == 0)
		return;
	if (d->events == 0 || part->oldest < d->oldest)
		d->oldest = part->oldest;
	d->events += part->events;
	d->chunks = enif_make_list_cell(env, chunk(env, p, part), d->chunks);
	ring_release(part);
}

/* Drains events of all rings that are older than now; false: no memory. */
static bool
drain_rings(ErlNifEnv *env, struct probe *p, struct drained *d, uint64_t max,
    int64_t now)
{
	unsigned n = used_rings(p);
	struct ring_part *part = enif_alloc((n + 1) * sizeof(*part));

	if (part == NULL)
		return false;
	vm_wrote(part, (n + 1) * sizeof(*part));
	for (unsigned i = 0; i < n; i++)
		part[i] = ring_part(&p->thread[i]->ring, i);
	d->more = merge_oldest(part, n, max, now);
	for (unsigned i = 0; i < n; i++)
		drain_ring(env, p, d, &part[i]);
	enif_free(part);
	return true;
}

/* Charges the caller's time slice: it has held its scheduler since then. */
static void
charge_time(ErlNifEnv *env, int64_t since)
{
	int64_t percent = (clock_kernel() - since) /
	    (TIMESLICE / 100);

	enif_consume_timeslice(env, percent < 1 ? 1 : percent > 100 ? 100 :
	    (int)percent);
}

/*
 * drain(Max) -> {Now, Oldest, Waiting, Dropped, DroppedEntries, Events, More,
 * Chunks}: the oldest events, of Max records at most or one; those
 * that Wait are left; More: at once.
 */
static ERL_NIF_TERM
drain_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);
	struct drained d = { .chunks = enif_make_list(env, 0) };
	int64_t now, oldest;
	uint64_t dropped, entries;
	unsigned max;
	ErlNifPid self;

	(void)argc;
	if (!enif_get_uint(env, argv[0], &max) || !p->owned ||
	    enif_self(env, &self) == NULL ||
	    enif_compare_pids(&self, &p->owner) != 0)
		return enif_make_badarg(env);
	now = read_clocks(p);
	if (!drain_rings(env, p, &d, max, now))
		return enif_make_badarg(env);
	atomic_store_explicit(&p->drained_at, now, memory_order_relaxed);
	dropped_so_far(p, &dropped, &entries);
	charge_time(env, now);
	oldest = clock_vm(&p->clock, d.events > 0 ? d.oldest : now);
	return enif_make_tuple(env, 8,
	    enif_make_int64(env, clock_vm(&p->clock, now)),
	    enif_make_int64(env, oldest),
	    enif_make_uint64(env, waiting_in_rings(p)),
	    enif_make_uint64(env, dropped), enif_make_uint64(env, entries),
	    enif_make_uint64(env, d.events),
	    d.more ? probe_atoms.yes : probe_atoms.no, d.chunks);
}

/*
 * recent() -> [Pid]: the processes of calls drained since the last time, the
 * newest first.
 */
static ERL_NIF_TERM
recent_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct probe *p = enif_priv_data(env);
	ERL_NIF_TERM pids = enif_make_list(env, 0);
	ErlNifPid self, pid;
	uint64_t i = 0;

	(void)argc, (void)argv;
	if (!p->owned || enif_self(env, &self) == NULL ||
	    enif_compare_pids(&self, &p->owner) != 0)
		return enif_make_badarg(env);
	if (p->nrecent > PROBE_PIDS)
		i = p->nrecent - PROBE_PIDS;
	for (; i < p->nrecent; i++) {
		pid.pid = p->recent[i % PROBE_PIDS];
		pids = enif_make_list_cell(env, enif_make_pid(env, &pid), pids);
	}
	p->nrecent = 0;
	p->recent_number++;
	return pids;
}

/* Removes a chunk's events and counts them; definitions and weights stay. */
static bool
keep_definitions(ErlNifBinary *b, uint64_t *events, uint64_t *entries,
    size_t *kept)
{
	struct kp_native_chunk head;
	struct kp_native_record rec;
	size_t at = sizeof(head), to = sizeof(head), n;

	if (event_mixed || b->size < sizeof(head) ||
	    (b->size - at) % sizeof(rec) != 0)
		return false;
	for (; at < b->size; at += n) {
		memcpy(&rec, b->data + at, sizeof(rec));
		n = kp_native_bytes(&rec, false);
		if (!kp_native_is_setting(rec.kind)) {
			*events += !kp_native_is_pause(rec.kind);
			*entries += kp_native_begins(&rec);
			continue;
		}
		if (n > b->size - at)
			return false;
		memmove(b->data + to, b->data + at, n);
		to += n;
	}
	memcpy(&head, b->data, sizeof(head));
	head.records = (uint32_t)((to - sizeof(head)) / sizeof(rec));
	memcpy(b->data, &head, sizeof(head));
	*kept = to;
	return true;
}

/*
 * definitions(Chunks) -> {Events, Entries, Chunks}: drops events, but keeps
 * their definitions, which later events need.
 */
static ERL_NIF_TERM
definitions_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	ERL_NIF_TERM head, tail = argv[0], chunks = enif_make_list(env, 0),
	    copy;
	uint64_t events = 0, entries = 0;
	ErlNifBinary in, b;
	size_t kept;
	bool good;

	(void)argc;
	while (vm_list_cell(env, tail, &head, &tail)) {
		if (!vm_binary(env, head, &in) ||
		    !enif_alloc_binary(in.size, &b))
			return enif_make_badarg(env);
		memcpy(b.data, in.data, in.size);
		good = keep_definitions(&b, &events, &entries, &kept);
		if (good && kept > sizeof(struct kp_native_chunk)) {
			memcpy(enif_make_new_binary(env, kept, &copy), b.data,
			    kept);
			chunks = enif_make_list_cell(env, copy, chunks);
		}
		enif_release_binary(&b);
		if (!good)
			return enif_make_badarg(env);
	}
	/* In the order in which they came. */
	enif_make_reverse_list(env, chunks, &chunks);
	return enif_make_tuple3(env, enif_make_uint64(env, events),
	    enif_make_uint64(env, entries), chunks);
}

ErlNifFunc probe_functions[] = {
	{ "enabled", 3, enabled_nif, 0 },
	{ "trace", 5, trace_nif, 0 },
	{ "start", 0, start_nif, 0 },
	{ "stop", 0, stop_nif, 0 },
	{ "sleep", 0, sleep_nif, 0 },
	{ "drain", 1, drain_nif, 0 },
	{ "recent", 0, recent_nif, 0 },
	{ "definitions", 1, definitions_nif, 0 },
	{ "info", 0, info_nif, 0 },
};
