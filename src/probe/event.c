/*
 * event.c - turns a trace event of the VM into records in a thread's ring, for
 * kprofd.  put.h writes them.
 *
 * The arguments are those of erl_tracer's trace/5: what happened, our state,
 * the process, {M,F,A}, and a map with the match spec's message, whose shapes
 * are in kprofd/trace.h.  A return value is in that map, too, and is not
 * looked at.
 *
 * For a message whose token asks for it, the VM calls this as the system
 * tracer: then the label takes the place of the process, and {What, Serials,
 * From, To, Message} follows.  The message is neither copied nor read, except
 * for its first element, which shows signals that are not messages of a program.
 */

#include "kprofd/label.h"
#include "probe/checked.h"
#include "probe/put.h"

static struct {
	ERL_NIF_TERM call, return_to, return_from, exception_from, undefined,
	    in, out, gc_minor_start, gc_minor_end, gc_major_start,
	    gc_major_end, seq_trace, send, receive, exit, spawn_request,
	    spawn_reply, none;
} atoms;

/* Atoms are compared as terms, anything else by its bytes. */
static uint16_t
identity_slot(struct event *e, ERL_NIF_TERM term)
{
	static const uint8_t other[] = { 119, 6, '_', 'o', 't', 'h', 'e', 'r' };
	struct thread *t = e->t;
	struct name_key key = { .a = term, .c = 1 };
	bool atom = enif_is_atom(e->env, term), fresh;
	const uint8_t *p = t->term;
	uint16_t slot;
	uint32_t n = 0;

	if (enif_is_empty_list(e->env, term) ||
	    enif_is_identical(term, atoms.undefined))
		return 0;
	if (!atom) {
		n = term_put(e->env, term, t->term, sizeof(t->term));
		key = (struct name_key){ .a = names_hash(t->term, n,
		    t->seed), .b = n, .c = 2 };
	}
	slot = names_slot(&t->idents, &key, 0, &fresh);
	if (!fresh)
		return slot;
	if (atom)
		n = term_put(e->env, term, t->term, sizeof(t->term));
	if (n == 0) {
		p = other;
		n = sizeof(other);
	}
	event_define(e, &t->idents, KP_NATIVE_IDENTITY, slot, p, n);
	return slot;
}

/* Reads <Node.Number.Serial>, as the VM prints it. */
static bool
read_pid(const char *s, uint32_t v[3])
{
	uint64_t n;

	for (int i = 0; i < 3; i++) {
		if (*s++ != (i == 0 ? '<' : '.') || *s < '0' || *s > '9')
			return false;
		for (n = 0; *s >= '0' && *s <= '9' && n <= UINT32_MAX; s++)
			n = 10 * n + (uint64_t)(*s - '0');
		if (n > UINT32_MAX)
			return false;
		v[i] = (uint32_t)n;
	}
	return *s == '>';
}

/*
 * Returns the slot of a process of another node; 0: it could not be defined.
 * Only the VM can encode its pid.  The key is what the VM prints: with a number
 * that it has for the node, <Node.Number.Serial> identifies the process.
 */
static uint16_t
sender_slot(struct event *e, ERL_NIF_TERM pid)
{
	struct thread *t = e->t;
	struct name_key key;
	uint32_t v[3];
	uint16_t slot;
	char text[64];
	bool fresh;
	uint32_t n;

	enif_snprintf(text, sizeof(text), "%T", pid);
	vm_wrote(text, sizeof(text));
	if (!read_pid(text, v))
		return 0;
	key = (struct name_key){ .a = (uint64_t)v[2] << 32 | v[1], .b = v[0], .c = 3 };
	slot = names_slot(&t->idents, &key, e->rec.identity, &fresh);
	if (!fresh)
		return slot;
	n = term_put(e->env, pid, t->term, sizeof(t->term));
	if (n == 0) {
		names_forget(&t->idents, slot);
		return 0;
	}
	event_define(e, &t->idents, KP_NATIVE_IDENTITY, slot, t->term, n);
	return slot;
}

/* Sets the sender of a token in *rec, unless that is a port. */
static void
read_sender(struct event *e, ERL_NIF_TERM from, struct kp_native_record *rec)
{
	ErlNifPid pid;

	if (enif_get_local_pid(e->env, from, &pid)) {
		rec->flags |= KP_NATIVE_HAS_FROM;
		rec->other = pid.pid;
	} else if (enif_is_pid(e->env, from)) {
		rec->other = sender_slot(e, from);
		if (rec->other != 0)
			rec->flags |= KP_NATIVE_FROM_AFAR;
	}
}

/* Returns 0 for a label that is not ours. */
static uint64_t
label_of(ErlNifEnv *env, ERL_NIF_TERM term)
{
	ErlNifSInt64 label;

	return enif_get_int64(env, term, &label) && label > 0 &&
	    (uint64_t)label < KP_LABEL_END ? (uint64_t)label : 0;
}

/* A serial is a count that begins again after 2^32 in kprofd's eyes. */
static uint32_t
serial_of(ErlNifEnv *env, ERL_NIF_TERM term)
{
	ErlNifUInt64 serial;

	return enif_get_uint64(env, term, &serial) ? (uint32_t)serial : 0;
}

/*
 * Reads {Flags, Label, Serial, From, LastSerial}: returns the label, or 0 if it
 * is not ours; sets the serials of the event, and the sender in *from.
 */
static uint64_t
read_token(struct event *e, ERL_NIF_TERM token, struct kp_native_record *from)
{
	const ERL_NIF_TERM *v;
	uint64_t label;
	int arity;

	if (!vm_tuple(e->env, token, &arity, &v) || arity != 5)
		return 0;
	label = label_of(e->env, v[1]);
	if (label != 0) {
		e->rec.serial = serial_of(e->env, v[2]);
		e->rec.last = serial_of(e->env, v[4]);
	}
	if (from != NULL)
		read_sender(e, v[3], from);
	return label;
}

/*
 * Before OTP 27 events of anybody's patterns come here, with whatever their
 * messages carry: ours have tokens and a caller in their places.
 */
static bool
is_token(ErlNifEnv *env, ERL_NIF_TERM term)
{
	const ERL_NIF_TERM *v;
	int arity;

	return enif_is_empty_list(env, term) ||
	    enif_is_identical(term, atoms.none) ||	/* not ours */
	    (vm_tuple(env, term, &arity, &v) && arity == 5 &&
	    enif_is_number(env, v[2]) && enif_is_number(env, v[4]));
}

static bool
is_caller(ErlNifEnv *env, ERL_NIF_TERM term)
{
	const ERL_NIF_TERM *v;
	int arity;

	return enif_is_identical(term, atoms.undefined) ||
	    (vm_tuple(env, term, &arity, &v) && arity == 3 &&
	    enif_is_atom(env, v[0]) && enif_is_atom(env, v[1]) &&
	    enif_is_number(env, v[2]));
}

/* Reads the match spec's message; false: it is not ours. */
static bool
read_message(struct event *e, ERL_NIF_TERM opts)
{
	const ERL_NIF_TERM *v;
	ERL_NIF_TERM message;
	unsigned weight;
	int arity;

	if (!vm_map_value(e->env, opts, probe_atoms.match_spec_result,
	    &message) || !vm_tuple(e->env, message, &arity, &v))
		return false;
	if (arity == 3 || arity == 4) {
		if (!is_token(e->env, v[1]) || !is_caller(e->env, v[2]))
			return false;
		e->rec.kind = arity == 3 ? KP_NATIVE_CALL : KP_NATIVE_CLEAR;
		e->rec.identity = identity_slot(e, v[0]);
		e->rec.label = read_token(e, v[1], &e->rec);
		e->rec.caller = event_fn(e, v[2], 0);
		return true;
	}
	if (arity != 7 || !enif_get_uint(e->env, v[2], &weight) ||
	    !is_caller(e->env, v[1]) || !is_token(e->env, v[3]) ||
	    !is_token(e->env, v[6]))
		return false;
	e->rec.kind = KP_NATIVE_ENTRY;
	e->rec.identity = identity_slot(e, v[0]);
	e->rec.caller = event_fn(e, v[1], 0);
	e->weight = weight;
	if (enif_is_identical(v[3], atoms.none))
		e->rec.flags |= KP_NATIVE_FOREIGN;
	e->rec.label = read_token(e, v[3], NULL);
	e->rec.other = read_token(e, v[6], &e->held);
	if (e->held.other != 0 && e->rec.other != 0)
		e->held.kind = KP_NATIVE_HELD;
	return true;
}

/* The kind of a scheduling or garbage collection event; 0: another event. */
static uint8_t
sched_gc_kind(ERL_NIF_TERM tag)
{
	if (enif_is_identical(tag, atoms.in))
		return KP_NATIVE_IN;
	if (enif_is_identical(tag, atoms.out))
		return KP_NATIVE_OUT;
	if (enif_is_identical(tag, atoms.gc_minor_start) ||
	    enif_is_identical(tag, atoms.gc_major_start))
		return KP_NATIVE_GC_START;
	return enif_is_identical(tag, atoms.gc_minor_end) ||
	    enif_is_identical(tag, atoms.gc_major_end) ? KP_NATIVE_GC_END : 0;
}

/*
 * Signals of links and spawns look like messages.  The VM takes them, or they
 * end their receiver: they do not wait for a program to read them.
 */
static bool
is_signal(ErlNifEnv *env, ERL_NIF_TERM message)
{
	const ERL_NIF_TERM *v;
	int arity;

	if (!vm_tuple(env, message, &arity, &v))
		return false;
	return (arity == 3 && enif_is_identical(v[0], atoms.exit)) ||
	    (arity == 4 && enif_is_identical(v[0], atoms.spawn_reply)) ||
	    (arity == 7 && enif_is_identical(v[0], atoms.spawn_request));
}

/* {What, {Previous, Serial}, From, To, Message}; false: not to be recorded. */
static bool
read_system_event(struct event *e, const ERL_NIF_TERM argv[])
{
	const ERL_NIF_TERM *v, *serials;
	ErlNifPid process;
	bool send;
	int arity;

	e->rec.label = label_of(e->env, argv[2]);
	if (e->rec.label == 0 || !vm_tuple(e->env, argv[3], &arity, &v) ||
	    arity != 5 || !vm_tuple(e->env, v[1], &arity, &serials) ||
	    arity != 2 || !enif_is_number(e->env, serials[1]))
		return false;
	send = enif_is_identical(v[0], atoms.send);
	if (!send && !enif_is_identical(v[0], atoms.receive))
		return false;
	/* A port has no mailbox that a program reads. */
	if (enif_is_port(e->env, v[3]) || is_signal(e->env, v[4]) ||
	    !enif_get_local_pid(e->env, v[send ? 2 : 3], &process))
		return false;
	e->rec.kind = send ? KP_NATIVE_SEND : KP_NATIVE_RECEIVE;
	e->rec.pid = process.pid;
	e->rec.serial = serial_of(e->env, serials[1]);
	e->rec.last = serial_of(e->env, serials[0]);
	read_sender(e, v[send ? 3 : 2], &e->rec);
	return true;
}

static bool
read_event(struct event *e, const ERL_NIF_TERM argv[])
{
	if (enif_is_identical(argv[0], atoms.call)) {
		if (!read_message(e, argv[4]))
			return false;
	} else if (enif_is_identical(argv[0], atoms.return_from)) {
		e->rec.kind = KP_NATIVE_RETURN_FROM;
	} else if (enif_is_identical(argv[0], atoms.return_to)) {
		e->rec.kind = KP_NATIVE_RETURN_TO;
	} else if (enif_is_identical(argv[0], atoms.exception_from)) {
		e->rec.kind = KP_NATIVE_EXCEPTION_FROM;
	} else if (enif_is_identical(argv[0], atoms.seq_trace)) {
		return read_system_event(e, argv);
	} else {
		e->rec.kind = sched_gc_kind(argv[0]);
		e->rec.pid = argv[2];
		return e->rec.kind != 0;
	}
	e->rec.pid = argv[2];
	e->rec.fn = event_fn(e, argv[3], e->rec.caller);
	return true;
}

/* There are more threads than rings. */
static void
drop_ringless(struct probe *p, ErlNifEnv *env, const ERL_NIF_TERM argv[])
{
	const ERL_NIF_TERM *v;
	ERL_NIF_TERM message;
	int arity;
	bool entry = vm_map_value(env, argv[4],
	    probe_atoms.match_spec_result, &message) &&
	    vm_tuple(env, message, &arity, &v) && arity == 7 &&
	    !enif_is_empty_list(env, v[3]);	/* as kp_native_begins() */

	atomic_fetch_add_explicit(&p->dropped, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->dropped_entries, entry,
	    memory_order_relaxed);
}

void
event_trace(struct probe *p, struct thread *t, ErlNifEnv *env,
    const ERL_NIF_TERM argv[])
{
	struct event e = { .t = t, .env = env };

	if (t == NULL) {
		drop_ringless(p, env, argv);
		return;
	}
	e.rec.ts = clock_kernel();
	if (!read_event(&e, argv))
		return;		/* nothing has been written yet */
	event_put(p, &e);
}

const bool event_mixed = false;

void
event_load(ErlNifEnv *env)
{
	atoms.call = enif_make_atom(env, "call");
	atoms.return_to = enif_make_atom(env, "return_to");
	atoms.return_from = enif_make_atom(env, "return_from");
	atoms.exception_from = enif_make_atom(env, "exception_from");
	atoms.undefined = enif_make_atom(env, "undefined");
	atoms.in = enif_make_atom(env, "in");
	atoms.out = enif_make_atom(env, "out");
	atoms.gc_minor_start = enif_make_atom(env, "gc_minor_start");
	atoms.gc_minor_end = enif_make_atom(env, "gc_minor_end");
	atoms.gc_major_start = enif_make_atom(env, "gc_major_start");
	atoms.gc_major_end = enif_make_atom(env, "gc_major_end");
	atoms.seq_trace = enif_make_atom(env, "seq_trace");
	atoms.send = enif_make_atom(env, "send");
	atoms.receive = enif_make_atom(env, "receive");
	atoms.exit = enif_make_atom(env, "EXIT");
	atoms.spawn_request = enif_make_atom(env, "spawn_request");
	atoms.spawn_reply = enif_make_atom(env, "spawn_reply");
	atoms.none = enif_make_atom(env, "false");
}

ERL_NIF_INIT(kprof_probe, probe_functions, probe_load, NULL, probe_upgrade,
    probe_unload)
