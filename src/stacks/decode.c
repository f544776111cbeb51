/*
 * decode.c - decodes the messages of a sampler.
 *
 * A message is read twice: the first time only to see that all of it can be
 * read, so that one which lies changes nothing.
 */
#include <string.h>

#include "base/utf8.h"
#include "decode/term_bytes.h"
#include "kprofd/label.h"
#include "kprofd/stacks.h"
#include "kprofd/trace.h"
#include "stacks/table.h"

#define NAME_MAX 1024	/* bytes: 255 characters, as an atom has; the rest is cut */

/* One frame of a message. */
struct frame {
	struct kp_span mod, fun;
	uint32_t arity, line;
};

struct reader {
	struct kp_term r;
	struct kp_stack_table *t;	/* NULL: the first time */
	const struct kp_stack_ops *ops;
	void *ctx;
	struct frame frames[KP_STACK_DEPTH_MAX];	/* innermost first */
	uint32_t nframes;
};

/* ---- what a process did, as its status and its innermost frames show ---- */

static const char *const names[KP_STACK_STATES] = {
	[KP_STACK_RUNNING] = "running",
	[KP_STACK_RUNNABLE] = "runnable",
	[KP_STACK_GC] = "collecting",
	[KP_STACK_CALL] = "in a call",
	[KP_STACK_PORT] = "on a port",
	[KP_STACK_WAIT] = "waiting",
	[KP_STACK_NOT_SEEN] = "not seen",
};

const char *
kp_stack_state_name(enum kp_stack_state s)
{
	return names[s];
}

/*
 * A process that waits shows its receive as the innermost frame, below it the
 * functions of libraries that led there.  Those are in a table: from the
 * innermost frame outwards, as long as frames are in it, they say what is
 * waited for.  ssl:recv/3 calls gen:do_call/4 and waits for a socket all the
 * same, so a frame that waits for a port wins over those inside it.  funs NULL: all
 * functions of the module.
 */
static const struct {
	const char *mod, *funs;
	enum kp_stack_state state;
} waits[] = {
	{ "gen", NULL, KP_STACK_CALL },
	{ "gen_server", "call multi_call receive_response wait_response",
	    KP_STACK_CALL },
	{ "gen_statem", "call call_dirty receive_response wait_response",
	    KP_STACK_CALL },
	{ "gen_event", "rpc call call1 sync_notify", KP_STACK_CALL },
	{ "erpc", "call multicall receive_response wait_response", KP_STACK_CALL },
	{ "rpc", "call block_call multicall yield", KP_STACK_CALL },
	{ "proc_lib", "sync_start sync_start_link sync_start_monitor",
	    KP_STACK_CALL },
	{ "supervisor", "call", KP_STACK_CALL },
	{ "Elixir.GenServer", "call", KP_STACK_CALL },
	{ "Elixir.Agent", NULL, KP_STACK_CALL },
	{ "Elixir.Task", "await await_many yield", KP_STACK_CALL },
	{ "Elixir.DBConnection.Holder", "checkout_call", KP_STACK_CALL },
	{ "erlang", "port_call port_command port_control", KP_STACK_PORT },
	{ "erts_internal", "port_call port_close port_command port_connect "
	    "port_control", KP_STACK_PORT },
	{ "file", NULL, KP_STACK_PORT },
	{ "gen_sctp", NULL, KP_STACK_PORT },
	{ "gen_tcp", NULL, KP_STACK_PORT },
	{ "gen_tcp_socket", "call connect recv send", KP_STACK_PORT },
	{ "gen_udp", NULL, KP_STACK_PORT },
	{ "gen_udp_socket", "call recv", KP_STACK_PORT },
	{ "inet", NULL, KP_STACK_PORT },
	{ "io", NULL, KP_STACK_PORT },
	{ "os", NULL, KP_STACK_PORT },
	{ "prim_file", NULL, KP_STACK_PORT },
	{ "prim_inet", NULL, KP_STACK_PORT },
	{ "prim_socket", NULL, KP_STACK_PORT },
	{ "ram_file", NULL, KP_STACK_PORT },
	{ "socket", NULL, KP_STACK_PORT },
	{ "ssl", NULL, KP_STACK_PORT },
	{ "ssl_gen_statem", "call recv send", KP_STACK_PORT },
	{ "tls_sender", "call send_data", KP_STACK_PORT },
};

static bool
has_word(const char *words, struct kp_span s)
{
	for (size_t n; *words != '\0'; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (n == s.n && memcmp(words, s.p, n) == 0)
			return true;
	}
	return false;
}

/* KP_STACK_WAIT: the function is not in the table. */
static enum kp_stack_state
waits_in(const struct frame *f)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (kp_span_is(f->mod, waits[i].mod) && (waits[i].funs == NULL ||
		    has_word(waits[i].funs, f->fun)))
			return waits[i].state;
	return KP_STACK_WAIT;
}

static enum kp_stack_state
state_of(struct kp_span status, const struct frame *frames, uint32_t n)
{
	static const struct {
		const char *name;
		enum kp_stack_state state;
	} statuses[] = {
		{ "running", KP_STACK_RUNNING },
		{ "exiting", KP_STACK_RUNNING },
		{ "runnable", KP_STACK_RUNNABLE },
		{ "garbage_collecting", KP_STACK_GC },
	};
	enum kp_stack_state found = KP_STACK_WAIT, s;

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (kp_span_is(status, statuses[i].name))
			return statuses[i].state;
	for (uint32_t i = 0; i < n && found != KP_STACK_PORT; i++) {
		s = waits_in(&frames[i]);
		if (s == KP_STACK_WAIT)
			break;
		found = s;
	}
	return found;
}

/* ---- messages ---- */

static void
read_frame(struct kp_term *r, struct frame *f)
{
	kp_term_tuple_n(r, 4);
	f->mod = kp_term_atom(r);
	f->fun = kp_term_atom(r);
	f->arity = (uint32_t)kp_term_count(r, 255);
	f->line = (uint32_t)kp_term_count(r, INT32_MAX);
	if (f->mod.n >= NAME_MAX || f->fun.n >= NAME_MAX)
		term_fail(r, KP_EFORMAT);
}

static void
read_frames(struct reader *x)
{
	uint32_t n = kp_term_list(&x->r);

	x->nframes = 0;
	if (n > KP_STACK_DEPTH_MAX)
		term_fail(&x->r, KP_ELIMIT);
	for (; x->r.err == KP_OK && x->nframes < n; x->nframes++)
		read_frame(&x->r, &x->frames[x->nframes]);
	if (n > 0)
		kp_term_nil(&x->r);
}

static const char *
name_of(char text[NAME_MAX], struct kp_span s)
{
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return text;
}

static uint32_t
put_stack(struct reader *x)
{
	struct kp_stack_frame v[KP_STACK_DEPTH_MAX];
	char mod[NAME_MAX], fun[NAME_MAX];
	const struct frame *f;

	for (uint32_t i = 0; i < x->nframes; i++) {
		f = &x->frames[x->nframes - 1 - i];
		v[i] = (struct kp_stack_frame){ stack_fn_put(x->t,
		    name_of(mod, f->mod), name_of(fun, f->fun), f->arity),
		    f->line };
		if (v[i].fn == STACK_NO_FN)
			return stack_put_other(x->t);
	}
	return kp_stack_put(x->t, v, x->nframes);
}

static void
read_sample(struct reader *x)
{
	struct kp_stack_sample s = { .stack = KP_STACK_NONE };
	struct kp_term *r = &x->r;
	struct kp_span status;
	struct kp_pid pid;

	kp_term_tuple_n(r, 8);
	pid = kp_term_pid(r);
	s.proc = (uint64_t)pid.serial << 32 | pid.id;
	s.label = kp_term_count(r, KP_LABEL_END - 1);
	s.at = kp_term_time(r);
	s.took = (kp_dur_ns)kp_term_count(r, KP_TARGET_TIME_MAX);
	s.time = (kp_dur_ns)kp_term_count(r, KP_TARGET_TIME_MAX);
	status = kp_term_atom(r);
	x->nframes = 0;
	s.state = KP_STACK_NOT_SEEN;
	if (kp_term_peek(r) != KP_TERM_ATOM) {
		read_frames(x);
		s.state = state_of(status, x->frames, x->nframes);
	} else if (!kp_span_is(kp_term_atom(r), "not_seen")) {
		term_fail(r, KP_EFORMAT);
	}
	s.group = (uint32_t)kp_term_count(r, UINT32_MAX);
	if (x->t == NULL || r->err != KP_OK)
		return;
	if (s.state != KP_STACK_NOT_SEEN)
		s.stack = put_stack(x);
	x->ops->on_sample(x->ctx, &s);
}

static const char *
safe_name(struct kp_buf *b, struct kp_span s)
{
	kp_buf_reset(b);
	utf8_put_name(b, s.p, s.n, NAME_MAX);
	return kp_buf_cstr(b);
}

static void
put_group(struct reader *x, uint32_t number, struct kp_span name,
    struct kp_span app, bool one)
{
	struct kp_buf a, b;

	if (x->ops->on_group == NULL)
		return;
	kp_buf_init(&a, 2 * NAME_MAX);
	kp_buf_init(&b, 2 * NAME_MAX);
	x->ops->on_group(x->ctx, &(struct kp_stack_group){ .number = number,
	    .name = safe_name(&a, name),
	    .application = kp_span_is(app, "undefined") ? "" :
	    safe_name(&b, app), .one = one });
	kp_buf_free(&a);
	kp_buf_free(&b);
}

static void
read_group(struct reader *x)
{
	struct kp_span name, app;
	uint32_t number, arity;

	arity = kp_term_tuple(&x->r);
	number = (uint32_t)kp_term_count(&x->r, UINT32_MAX);
	name = kp_term_binary(&x->r);
	app = kp_term_atom(&x->r);
	if (number == 0 || arity < 3 || arity > 4 || (arity == 4 &&
	    !kp_span_is(kp_term_atom(&x->r), "one")))
		term_fail(&x->r, KP_EFORMAT);
	if (x->t != NULL && x->r.err == KP_OK)
		put_group(x, number, name, app, arity == 4);
}

static void
read_list(struct reader *x, void (*read)(struct reader *))
{
	uint32_t n = kp_term_list(&x->r);

	for (uint32_t i = 0; i < n && x->r.err == KP_OK; i++)
		read(x);
	if (n > 0)
		kp_term_nil(&x->r);
}

static void
read_usage(struct reader *x)
{
	struct kp_usage *u = kp_usage_read(&x->r, x->t != NULL &&
	    x->ops->on_usage != NULL);

	if (u != NULL)
		x->ops->on_usage(x->ctx, u);
}

static void
read_stacks(struct reader *x, struct kp_stack_message *m)
{
	struct kp_term *r = &x->r;
	uint32_t n;

	m->sent_at = kp_term_time(r);
	n = kp_term_tuple(r);
	if (n != 6 && n != 8)
		term_fail(r, KP_EFORMAT);
	m->counts.ticks = kp_term_count(r, KP_TARGET_COUNT_MAX);
	m->counts.looked = kp_term_count(r, KP_TARGET_COUNT_MAX);
	m->counts.taken = kp_term_count(r, KP_TARGET_COUNT_MAX);
	m->counts.not_seen = kp_term_count(r, KP_TARGET_COUNT_MAX);
	m->counts.unsent = kp_term_count(r, KP_TARGET_COUNT_MAX);
	m->counts.busy = (kp_dur_ns)kp_term_count(r, KP_TARGET_TIME_MAX);
	m->counts.crowded = n == 8 ? kp_term_count(r, KP_TARGET_COUNT_MAX) : 0;
	m->counts.late = n == 8 ? kp_term_count(r, KP_TARGET_COUNT_MAX) : 0;
	read_list(x, read_sample);
}

/* KP_ENOENT: a good term of another kind. */
static enum kp_err
read_message(struct reader *x, const void *p, size_t n,
    struct kp_stack_message *m)
{
	struct kp_span name;
	uint32_t arity;

	kp_term_begin(&x->r, p, n);
	arity = kp_term_peek(&x->r) == KP_TERM_TUPLE ? kp_term_tuple(&x->r) :
	    0;
	name = arity > 0 && kp_term_peek(&x->r) == KP_TERM_ATOM ?
	    kp_term_atom(&x->r) : (struct kp_span){ NULL, 0 };
	if (arity == 4 && kp_span_is(name, "kprof_stacks")) {
		read_stacks(x, m);
	} else if ((arity == 2 || arity == 3) &&
	    kp_span_is(name, "kprof_groups")) {
		read_list(x, read_group);
		if (arity == 3)
			read_usage(x);
	} else {
		kp_term_begin(&x->r, p, n);
		kp_term_skip(&x->r);
		return kp_term_finish(&x->r) == KP_OK ? KP_ENOENT : x->r.err;
	}
	return kp_term_finish(&x->r);
}

enum kp_err
kp_stacks_decode(const void *p, size_t n, struct kp_stack_table *t,
    struct kp_stack_message *m, const struct kp_stack_ops *ops, void *ctx)
{
	struct reader x = { .ops = ops, .ctx = ctx };
	struct kp_stack_message got = *m;
	enum kp_err err = read_message(&x, p, n, &got);

	if (err != KP_OK)
		return err;
	x.t = t;
	read_message(&x, p, n, &got);
	*m = got;
	return KP_OK;
}
