/*
 * trace_event.c - decodes the trace events of an agent message.
 *
 * Runs once for every event, so it takes the shape that the VM sends and no
 * other: one pass, nothing allocated, nothing copied.  Where that does not
 * fit, it goes back to the start of the event and passes it whole, and only
 * that decides whether the bytes can be followed.
 */
#include "kprofd/label.h"
#include "kprofd/trace.h"
#include "decode/term_bytes.h"

/*
 * The reader's common cases, inlined.  Each does what its kp_term_ namesake does: it
 * looks for the one encoding that the VM uses nearly always, and leaves the rest to
 * that.
 */
static inline struct kp_span
term_atom(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);

	if (kp_likely(
		left >= 2 && p[0] == ETF_SMALL_ATOM_UTF8 && left - 2 >= p[1])) {
		r->p = p + 2 + p[1];
		return (struct kp_span){ p + 2, p[1] };
	}
	return kp_term_atom(r);
}

static inline uint32_t
term_tuple(struct kp_term *r)
{
	const uint8_t *p = r->p;

	if (kp_likely(term_left(r) >= 2 && p[0] == ETF_SMALL_TUPLE)) {
		r->p = p + 2;
		return p[1];
	}
	return kp_term_tuple(r);
}

static inline void
term_tuple_n(struct kp_term *r, uint32_t arity)
{
	if (term_tuple(r) != arity)
		term_fail(r, KP_EFORMAT);
}

/*
 * Time stamps and labels are SMALL_BIGs of 5 to 8 bytes.  Eight bytes can
 * be loaded at once where they are there, since an event goes on after
 * them.
 */
static inline int64_t
term_int(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);
	uint64_t mag;

	if (kp_likely(left >= 2 && p[0] == ETF_SMALL_INTEGER)) {
		r->p = p + 2;
		return p[1];
	}
	if (kp_likely(left >= 11 && p[0] == ETF_SMALL_BIG && p[1] - 1u < 8)) {
		mag = term_le64(p + 3) & UINT64_MAX >> (64 - 8 * p[1]);
		if (kp_likely(mag <= INT64_MAX)) {
			r->p = p + 3 + p[1];
			return p[2] ? -(int64_t)mag : (int64_t)mag;
		}
	}
	return kp_term_int(r);
}

static inline struct kp_pid
term_pid(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);
	struct kp_pid pid;

	if (kp_likely(left >= 3 && p[0] == ETF_NEW_PID &&
		      p[1] == ETF_SMALL_ATOM_UTF8 && left - 3 >= p[2] + 12u)) {
		pid.node = (struct kp_span){ p + 3, p[2] };
		p += 3 + p[2];
		pid.id = term_be32(p);
		pid.serial = term_be32(p + 4);
		pid.creation = term_be32(p + 8);
		r->p = p + 12;
		return pid;
	}
	return kp_term_pid(r);
}

static inline void
term_skip(struct kp_term *r)
{
	const uint8_t *p = r->p;
	size_t left = term_left(r);

	if (kp_likely(left >= 2)) {
		if (p[0] == ETF_SMALL_ATOM_UTF8 && left - 2 >= p[1]) {
			r->p = p + 2 + p[1];
			return;
		}
		if (p[0] == ETF_SMALL_INTEGER) {
			r->p = p + 2;
			return;
		}
		if (p[0] == ETF_INTEGER && left >= 5) {
			r->p = p + 5;
			return;
		}
	}
	kp_term_skip(r);
}

/* Events of five elements, but for return_to. */
static const struct event_name {
	const char *name;
	uint8_t n;
	uint8_t kind;
} event_names[] = {
	{ "return_from", 11, KP_EV_RETURN_FROM },
	{ "exception_from", 14, KP_EV_EXCEPTION_FROM },
	{ "in", 2, KP_EV_IN },
	{ "out", 3, KP_EV_OUT },
	{ "gc_minor_start", 14, KP_EV_GC_START },
	{ "gc_minor_end", 12, KP_EV_GC_END },
	{ "gc_major_start", 14, KP_EV_GC_START },
	{ "gc_major_end", 12, KP_EV_GC_END },
};

static bool
is_count(int64_t v)
{
	return v >= 0 && v <= KP_TARGET_COUNT_MAX;
}

enum kp_err
kp_batch_begin(struct kp_batch *b, const void *p, size_t n)
{
	struct kp_term *r = &b->r;
	struct kp_term start;
	int64_t seq, queue_len, dropped;

	*b = (struct kp_batch){ .left = 0 };
	kp_term_begin(r, p, n);
	start = *r;
	if (kp_term_tuple(r) != 6 ||
	    !TERM_IS(kp_term_atom(r), "kprof_events")) {
		*r = start;
		kp_term_skip(r);
		/* read on all the same, it is a batch of no events */
		return kp_term_finish(r) == KP_OK ? KP_ENOENT : r->err;
	}
	seq = kp_term_int(r);
	b->sent_at = kp_term_int(r);
	queue_len = kp_term_int(r);
	dropped = kp_term_int(r);
	if (!is_count(seq) || !is_count(queue_len) || !is_count(dropped) ||
	    b->sent_at >= KP_TARGET_TIME_MAX ||
	    b->sent_at <= -KP_TARGET_TIME_MAX)
		term_fail(r, KP_EFORMAT);
	b->seq = (uint64_t)seq;
	b->queue_len = (uint64_t)queue_len;
	b->dropped = (uint64_t)dropped;
	b->left = kp_term_list(r);
	b->tail = b->left > 0;
	return r->err;
}

static inline struct kp_span
read_mfa(struct kp_term *r)
{
	const uint8_t *start = r->p;

	term_tuple_n(r, 3);
	term_atom(r);
	term_atom(r);
	if ((uint64_t)term_int(r) > 255)
		term_fail(r, KP_EFORMAT);
	return term_since(r, start);
}

/* {M,F,A}, or an empty span for undefined. */
static inline struct kp_span
read_mfa_or_undefined(struct kp_term *r)
{
	if (kp_likely(term_tag(r) == ETF_SMALL_TUPLE))
		return read_mfa(r);
	if (!TERM_IS(term_atom(r), "undefined"))
		term_fail(r, KP_EFORMAT);
	return (struct kp_span){ NULL, 0 };
}

static inline struct kp_span
read_identity(struct kp_term *r)
{
	static const struct kp_span none = { NULL, 0 };
	const uint8_t *start = r->p;
	struct kp_term name;

	if (term_tag(r) == ETF_NIL) {
		r->p++;
		return none;
	}
	term_skip(r);
	/* the term is whole: its first bytes can be looked at */
	name = (struct kp_term){ start, r->p, r->err };
	if (kp_term_peek(&name) == KP_TERM_ATOM &&
	    TERM_IS(term_atom(&name), "undefined"))
		return none;
	return term_since(r, start);
}

/* An integer; 0 for another term, or one that does not fit. */
static inline int64_t
read_int(struct kp_term *r)
{
	struct kp_term start = *r;
	int64_t v = term_int(r);

	if (kp_likely(r->err == KP_OK))
		return v;
	*r = start;
	kp_term_skip(r);
	return 0;
}

/*
 * {Flags, Label, Serial, From, LastSerial}; [] or false: the token is not ours.
 * Returns its label, or 0 for one that kprofd cannot have made; serials and sender
 * go to *ev.
 */
static inline uint64_t
read_token(struct kp_term *r, struct kp_event *ev)
{
	int64_t label;

	if (term_tag(r) == ETF_NIL) {
		r->p++;
		return 0;
	}
	if (term_tag(r) != ETF_SMALL_TUPLE && kp_term_peek(r) == KP_TERM_ATOM) {
		if (!TERM_IS(term_atom(r), "false"))
			term_fail(r, KP_EFORMAT);
		return 0;
	}
	term_tuple_n(r, 5);
	term_skip(r);
	label = read_int(r);
	ev->serial = (uint32_t)read_int(r);
	ev->has_from = kp_likely(term_tag(r) == ETF_NEW_PID);
	if (kp_likely(ev->has_from))
		ev->from = term_pid(r);
	else
		kp_term_skip(r);
	ev->last = (uint32_t)read_int(r);
	return label > 0 && (uint64_t)label < KP_LABEL_END ?
	    (uint64_t)label : 0;
}

/* The rest of {Identity, Caller, Weight, New, true, [], Old}. */
static void
read_entry(struct kp_term *r, struct kp_event *ev)
{
	int64_t weight;

	ev->kind = KP_EV_ENTRY;
	ev->caller = read_mfa_or_undefined(r);
	weight = term_int(r);
	if (weight < 1 || weight > UINT32_MAX)
		term_fail(r, KP_EFORMAT);
	ev->weight = (uint32_t)weight;
	ev->foreign = kp_term_peek(r) == KP_TERM_ATOM;
	ev->label = read_token(r, ev);
	ev->has_from = false;
	term_skip(r);
	term_skip(r);
	ev->old_label = read_token(r, ev);
}

/* Reads the message of the match spec that comes with a call: see trace.h. */
static inline void
read_message(struct kp_term *r, struct kp_event *ev)
{
	uint32_t arity = term_tuple(r);

	ev->identity = read_identity(r);
	if (kp_likely(arity == 3) || arity == 4) {
		ev->label = read_token(r, ev);
		ev->caller = read_mfa_or_undefined(r);
		if (arity == 4) {
			ev->kind = KP_EV_CLEAR;
			term_skip(r);
		}
	} else if (arity == 7) {
		read_entry(r, ev);
	} else {
		term_fail(r, KP_EFORMAT);
	}
}

static inline enum kp_event_kind
read_kind(struct kp_term *r, uint32_t arity)
{
	struct kp_span s = term_atom(r);
	const struct event_name *e = event_names;
	const struct event_name *end =
	    e + sizeof(event_names) / sizeof(event_names[0]);

	/* Most events are of these two. */
	if (arity == 6 && TERM_IS(s, "call"))
		return KP_EV_CALL;
	if (arity == 5 && TERM_IS(s, "return_to"))
		return KP_EV_RETURN_TO;
	for (; e < end; e++) {
		if (s.n == e->n && arity == 5 &&
		    memcmp(s.p, e->name, e->n) == 0)
			return e->kind;
	}
	term_fail(r, KP_EFORMAT);
	return KP_EV_RETURN_TO;
}

static void
read_event(struct kp_term *r, struct kp_event *ev)
{
	uint32_t arity = term_tuple(r);

	if (!TERM_IS(term_atom(r), "trace_ts")) {
		term_fail(r, KP_EFORMAT);
		return;
	}
	ev->pid = term_pid(r);
	ev->kind = read_kind(r, arity);
	kp_event_clear(ev);
	if (ev->kind == KP_EV_CALL) {
		ev->mfa = read_mfa(r);
		read_message(r, ev);
	} else if (ev->kind == KP_EV_RETURN_TO) {
		ev->mfa = read_mfa_or_undefined(r);
	} else if (ev->kind >= KP_EV_IN) {
		term_skip(r);
	} else {
		ev->mfa = read_mfa(r);
	}
	ev->ts = term_int(r);
}

/* There is no event: at the end, at another element, or after an error. */
static enum kp_err
no_event(struct kp_batch *b, struct kp_event *ev)
{
	*ev = (struct kp_event){ .ts = 0 };
	if (b->r.err != KP_OK)
		return b->r.err;
	if (b->left > 0) {
		b->left--;
		kp_term_skip(&b->r);
		return b->r.err == KP_OK ? KP_ENOENT : b->r.err;
	}
	if (b->tail)
		kp_term_nil(&b->r);
	b->tail = false;
	return kp_term_finish(&b->r) == KP_OK ? KP_END : b->r.err;
}

enum kp_err
kp_batch_next(struct kp_batch *b, struct kp_event *ev)
{
	struct kp_term r = b->r;

	if (kp_likely(b->left > 0)) {
		read_event(&r, ev);
		if (kp_likely(r.err == KP_OK)) {
			b->r = r;
			b->left--;
			return KP_OK;
		}
	}
	return no_event(b, ev);
}
