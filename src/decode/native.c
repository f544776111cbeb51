/*
 * native.c - reads the chunks of a batch, and merges their events by time.
 *
 * A cursor moves through each chunk.  The cursors form a heap by the times of
 * their next events, so that the cost of a batch with thousands of chunks stays
 * in proportion to its bytes, even where the events alternate between chunks.
 * Events of equal times come from the same chunk as the one before.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/label.h"
#include "kprofd/native.h"
#include "base/vec.h"
#include "decode/term_bytes.h"

#define RECORD sizeof(struct kp_native_record)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "records are read as they are");

/* A record as it is in a chunk, where it may be at any address. */
struct packed_record {
	struct kp_native_record r;
} __attribute__((packed, may_alias));

/* A term, owned by the slot that it defines. */
struct definition {
	struct definition *next;	/* replaced in this batch, too */
	uint32_t n;
	uint8_t p[];
};

/* What a ring has defined since its probe was loaded. */
struct source {
	struct definition *fn[KP_NATIVE_SLOTS + 1];	/* owned */
	struct definition *identity[KP_NATIVE_SLOTS + 1];
	uint32_t weight;
	struct kp_native_record held;	/* before the next entry, if its kind
					   is not 0 */
};

/* The rest of a chunk, which begins with an event of time `ts`. */
struct cursor {
	struct source *source;
	const uint8_t *p, *end;
	int64_t ts;
	uint32_t size;		/* of that event */
	uint8_t short_flag;	/* marks short records; 0: it has none */
};

struct kp_native {
	struct source *source[KP_NATIVE_RINGS_MAX];
	struct cursor *v;	/* a heap: none is before the one above it */
	size_t room;
	uint32_t n;
	int64_t until;		/* it is ahead of all others up to this */
	uint32_t bad;		/* elements that made no sense, to be reported */
	size_t bytes;		/* of memory, for definitions */
	struct definition *replaced;	/* events of the batch may be of them */
	struct kp_span node;	/* owned bytes */
};

struct kp_native *
kp_native_new(void)
{
	return calloc(1, sizeof(struct kp_native));
}

static void
source_free(struct source *s)
{
	for (uint32_t i = 0; s != NULL && i <= KP_NATIVE_SLOTS; i++) {
		free(s->fn[i]);
		free(s->identity[i]);
	}
	free(s);
}

static void
forget_batch(struct kp_native *nd)
{
	struct definition *d;

	while ((d = nd->replaced) != NULL) {
		nd->replaced = d->next;
		nd->bytes -= sizeof(*d) + d->n;
		free(d);
	}
	nd->n = nd->bad = 0;
}

static void
node_free(struct kp_native *nd)
{
	free((void *)(uintptr_t)nd->node.p);
	nd->node = (struct kp_span){ NULL, 0 };
}

void
kp_native_restart(struct kp_native *nd, const char *node)
{
	char *copy;

	for (uint32_t i = 0; i < KP_NATIVE_RINGS_MAX; i++) {
		source_free(nd->source[i]);
		nd->source[i] = NULL;
	}
	forget_batch(nd);
	nd->bytes = 0;
	node_free(nd);
	copy = strdup(node);
	if (copy != NULL)
		nd->node = (struct kp_span){ (const uint8_t *)copy,
			(uint32_t)strlen(copy) };
}

void
kp_native_free(struct kp_native *nd)
{
	if (nd == NULL)
		return;
	kp_native_restart(nd, "");
	node_free(nd);
	free(nd->v);
	free(nd);
}

/* ---- definitions ---- */

static bool
is_fn(struct kp_span term)
{
	struct kp_term r;

	kp_term_begin_raw(&r, term.p, term.n);
	kp_term_tuple_n(&r, 3);
	kp_term_atom(&r);
	kp_term_atom(&r);
	if ((uint64_t)kp_term_int(&r) > 255)
		return false;
	return kp_term_finish(&r) == KP_OK;
}

static bool
is_term(struct kp_span term)
{
	struct kp_term r;

	kp_term_begin_raw(&r, term.p, term.n);
	kp_term_skip(&r);
	return kp_term_finish(&r) == KP_OK;
}

/* Frees the term with the next batch: events of this one may point to it. */
static void
undefine(struct kp_native *nd, struct definition **slot)
{
	if (*slot == NULL)
		return;
	(*slot)->next = nd->replaced;
	nd->replaced = *slot;
	*slot = NULL;
}

static bool
define(struct kp_native *nd, struct definition **slot, struct kp_span term)
{
	size_t bytes = sizeof(struct definition) + term.n;
	struct definition *d;

	if (nd->bytes + bytes > KP_NATIVE_BYTES_MAX ||
	    (d = malloc(bytes)) == NULL)
		return false;
	*d = (struct definition){ .n = term.n };
	memcpy(d->p, term.p, term.n);
	nd->bytes += bytes;
	*slot = d;
	return true;
}

/*
 * Defines a function or an identity.  Where the definition cannot be kept, its
 * slot is undefined: the events that follow do not mean what it was before.
 */
static bool
take_definition(struct kp_native *nd, struct source *s,
    const struct packed_record *rec)
{
	struct kp_span term = { (const uint8_t *)rec + KP_NATIVE_HEAD,
		rec->r.caller };
	bool fn = rec->r.kind == KP_NATIVE_FN;
	struct definition **slot;

	if (rec->r.fn == 0 || rec->r.fn > KP_NATIVE_SLOTS)
		return false;
	slot = fn ? &s->fn[rec->r.fn] : &s->identity[rec->r.fn];
	undefine(nd, slot);
	return (fn ? is_fn(term) : is_term(term)) && define(nd, slot, term);
}

static bool
take_weight(struct source *s, uint64_t weight)
{
	if (weight < 1 || weight > UINT32_MAX)
		return false;
	s->weight = (uint32_t)weight;
	return true;
}

/* ---- chunks ---- */

/* Takes the setting ahead.  Returns its size, or 0 where it is not all there. */
static uint32_t
take_setting(struct kp_native *nd, struct cursor *c)
{
	const struct packed_record *rec = (const void *)c->p;
	size_t left = (size_t)(c->end - c->p);
	uint32_t size = kp_native_is_definition(rec->r.kind) ?
	    kp_native_records(rec->r.caller) * (uint32_t)RECORD : RECORD;

	if (left < size || (size > RECORD && rec->r.caller > KP_NATIVE_TERM_MAX))
		return 0;
	if (rec->r.kind == KP_NATIVE_WEIGHT)
		nd->bad += !take_weight(c->source, rec->r.label);
	else if (rec->r.kind == KP_NATIVE_HELD)
		c->source->held = rec->r;
	else
		nd->bad += !take_definition(nd, c->source, rec);
	return size;
}

/*
 * Moves to the next event, and takes what is set before it.  Returns false at
 * the end.  Counts what makes no sense.  A chunk is whole words, so that kind
 * and flags are there where anything is.
 */
static inline bool
cursor_advance(struct kp_native *nd, struct cursor *c)
{
	const struct packed_record *rec;

	for (; c->p < c->end; c->p += c->size) {
		rec = (const void *)c->p;
		if (kp_likely(!kp_native_is_setting(rec->r.kind))) {
			c->size = (rec->r.flags & c->short_flag) != 0 ?
			    KP_NATIVE_SHORT_BYTES : (uint32_t)RECORD;
			if (c->size > (size_t)(c->end - c->p))
				break;
			c->ts = rec->r.ts;
			return true;
		}
		c->size = take_setting(nd, c);
		if (c->size == 0)
			break;
	}
	nd->bad += c->p < c->end;
	return false;
}

static struct source *
source_get(struct kp_native *nd, uint16_t ring)
{
	if (ring >= KP_NATIVE_RINGS_MAX)
		return NULL;
	if (nd->source[ring] == NULL)
		nd->source[ring] = calloc(1, sizeof(struct source));
	return nd->source[ring];
}

static bool
add_chunk(struct kp_native *nd, struct kp_span b)
{
	struct kp_native_chunk head;
	struct cursor c;
	size_t unit;

	if (b.n < sizeof(head))
		return false;
	memcpy(&head, b.p, sizeof(head));
	unit = head.magic == KP_NATIVE_MIXED ? KP_NATIVE_WORD : RECORD;
	if ((head.magic != KP_NATIVE_MAGIC &&
	    head.magic != KP_NATIVE_MIXED) ||
	    head.version != KP_NATIVE_VERSION ||
	    head.records != (b.n - sizeof(head)) / unit ||
	    (b.n - sizeof(head)) % unit != 0 ||
	    vec_room(&nd->v, &nd->room, nd->n, KP_NATIVE_CHUNKS_MAX) != KP_OK)
		return false;
	c = (struct cursor){ .source = source_get(nd, head.ring),
		.p = b.p + sizeof(head), .end = b.p + b.n,
		.short_flag = head.magic == KP_NATIVE_MIXED ?
		    KP_NATIVE_SHORT : 0 };
	if (c.source == NULL)
		return false;
	if (cursor_advance(nd, &c))
		nd->v[nd->n++] = c;
	return true;
}

/* Moves the cursor at i down to its place. */
static void
sift(struct kp_native *nd, uint32_t i)
{
	struct cursor c = nd->v[i];
	uint32_t below;

	while ((below = 2 * i + 1) < nd->n) {
		if (below + 1 < nd->n &&
		    nd->v[below + 1].ts < nd->v[below].ts)
			below++;
		if (c.ts <= nd->v[below].ts)
			break;
		nd->v[i] = nd->v[below];
		i = below;
	}
	nd->v[i] = c;
}

/* Notes up to when the first is ahead: one of the two below it comes next. */
static void
look_ahead(struct kp_native *nd)
{
	nd->until = nd->n > 1 ? nd->v[1].ts : INT64_MAX;
	if (nd->n > 2 && nd->v[2].ts < nd->until)
		nd->until = nd->v[2].ts;
}

/* Takes all chunks of the batch, and counts other elements as bad. */
static void
gather(struct kp_native *nd, struct kp_batch *b)
{
	forget_batch(nd);
	for (; b->left > 0 && b->r.err == KP_OK; b->left--) {
		if (kp_term_peek(&b->r) == KP_TERM_BINARY) {
			nd->bad += !add_chunk(nd, kp_term_binary(&b->r));
		} else {
			kp_term_skip(&b->r);
			nd->bad++;
		}
	}
	for (uint32_t i = nd->n / 2; i-- > 0; )
		sift(nd, i);
	look_ahead(nd);
}

/* ---- events ---- */

static inline void
set_pid(struct kp_pid *to, const struct kp_native *nd, uint64_t name)
{
	to->node = nd->node;
	to->id = (uint32_t)name;
	to->serial = (uint32_t)(name >> 32);
	to->creation = 0;
}

static uint64_t
label(uint64_t v)
{
	return v < KP_LABEL_END ? v : 0;
}

/* Sets *to, which is empty, to the slot's term; false: it is not defined. */
static bool
slot(struct definition *const *v, uint16_t n, struct kp_span *to)
{
	if (n == 0)
		return true;
	if (n > KP_NATIVE_SLOTS || v[n] == NULL)
		return false;
	*to = (struct kp_span){ v[n]->p, v[n]->n };
	return true;
}

/* Sets the sender of the token; false: its slot is not defined. */
static inline __attribute__((always_inline)) bool
sender(const struct kp_native *nd, const struct source *s, unsigned flags,
    uint64_t other, struct kp_event *ev)
{
	struct kp_span term;
	struct kp_term r;

	if ((flags & KP_NATIVE_HAS_FROM) != 0) {
		ev->has_from = true;
		set_pid(&ev->from, nd, other);
	} else if ((flags & KP_NATIVE_FROM_AFAR) != 0) {
		if (other == 0 || other > KP_NATIVE_SLOTS ||
		    !slot(s->identity, (uint16_t)other, &term))
			return false;
		kp_term_begin_raw(&r, term.p, term.n);
		ev->from = kp_term_pid(&r);
		ev->has_from = kp_term_finish(&r) == KP_OK;
	}
	return true;
}

static bool
read_call(const struct kp_native *nd, struct source *s,
    const struct packed_record *rec, struct kp_event *ev)
{
	ev->label = label(rec->r.label);
	ev->serial = rec->r.serial;
	ev->last = rec->r.last;
	if (rec->r.kind == KP_NATIVE_ENTRY) {
		ev->kind = KP_EV_ENTRY;
		ev->old_label = label(rec->r.other);
		ev->foreign = (rec->r.flags & KP_NATIVE_FOREIGN) != 0;
		ev->weight = s->weight;
		if (s->held.kind != 0) {
			s->held.kind = 0;
			if (!sender(nd, s, s->held.flags, s->held.other, ev))
				return false;
		}
	} else {
		ev->kind = rec->r.kind == KP_NATIVE_CALL ? KP_EV_CALL :
		    KP_EV_CLEAR;
		if (!sender(nd, s, rec->r.flags, rec->r.other, ev))
			return false;
	}
	return slot(s->fn, rec->r.caller, &ev->caller) &&
	    slot(s->identity, rec->r.identity, &ev->identity) &&
	    (ev->kind != KP_EV_ENTRY || ev->weight > 0);
}

/* A message.  Apart, because it is rare. */
static __attribute__((noinline)) bool
read_message(const struct kp_native *nd, const struct source *s,
    const struct packed_record *rec, struct kp_event *ev)
{
	if (rec->r.kind != KP_NATIVE_SEND && rec->r.kind != KP_NATIVE_RECEIVE)
		return false;
	ev->kind = rec->r.kind == KP_NATIVE_SEND ? KP_EV_SEND : KP_EV_RECEIVE;
	ev->label = label(rec->r.label);
	ev->serial = rec->r.serial;
	ev->last = rec->r.last;
	return ev->label != 0 &&
	    sender(nd, s, rec->r.flags, rec->r.other, ev);
}

/* Reads the record ahead.  Only full traces have short ones. */
static inline bool
read_record(const struct kp_native *nd, const struct cursor *c,
    struct kp_event *ev)
{
	const struct packed_record *rec = (const void *)c->p;
	struct source *s = c->source;

	if (c->size != RECORD)
		return false;
	set_pid(&ev->pid, nd, rec->r.pid);
	ev->ts = rec->r.ts;
	kp_event_clear(ev);
	if (rec->r.kind > KP_NATIVE_GC_END)
		return read_message(nd, s, rec, ev);
	if (!slot(s->fn, rec->r.fn, &ev->mfa))
		return false;
	switch (rec->r.kind) {
	case KP_NATIVE_ENTRY:
	case KP_NATIVE_CALL:
	case KP_NATIVE_CLEAR:
		return rec->r.fn != 0 && read_call(nd, s, rec, ev);
	case KP_NATIVE_RETURN_TO:
		ev->kind = KP_EV_RETURN_TO;
		return true;
	case KP_NATIVE_RETURN_FROM:
		ev->kind = KP_EV_RETURN_FROM;
		return rec->r.fn != 0;
	case KP_NATIVE_EXCEPTION_FROM:
		ev->kind = KP_EV_EXCEPTION_FROM;
		return rec->r.fn != 0;
	case KP_NATIVE_IN:
	case KP_NATIVE_OUT:
	case KP_NATIVE_GC_START:
	case KP_NATIVE_GC_END:
		ev->kind = (enum kp_event_kind)(KP_EV_IN +
		    (rec->r.kind - KP_NATIVE_IN));
		return rec->r.fn == 0;
	default:
		return false;
	}
}

/* Moves past the first event: that of the first cursor. */
static inline void
pass_first(struct kp_native *nd)
{
	struct cursor *c = nd->v;

	c->p += c->size;
	if (!cursor_advance(nd, c))
		*c = nd->v[--nd->n];
	else if (kp_likely(c->ts <= nd->until))
		return;
	if (nd->n > 0)
		sift(nd, 0);
	look_ahead(nd);
}

/* False: the batch has no chunk, or no more. */
static inline bool
has_record(struct kp_native *nd, struct kp_batch *b)
{
	if (kp_likely(nd->n > 0) || nd->bad > 0)
		return true;
	if (b->left == 0 || term_tag(&b->r) != ETF_BINARY)
		return false;
	gather(nd, b);
	return nd->n > 0 || nd->bad > 0;
}

/* Something that makes no sense comes before the next record. */
static inline bool
take_bad(struct kp_native *nd)
{
	if (kp_likely(nd->bad == 0))
		return false;
	nd->bad--;
	return true;
}

/* Apart, so that a relay's events do not pay for what this saves. */
static __attribute__((noinline)) enum kp_err
next_record(struct kp_native *nd, struct kp_event *ev)
{
	bool good = false;

	if (!take_bad(nd)) {
		good = read_record(nd, nd->v, ev);
		pass_first(nd);
	}
	if (kp_likely(good))
		return KP_OK;
	*ev = (struct kp_event){ .ts = 0 };
	return KP_ENOENT;
}

enum kp_err
kp_events_next(struct kp_native *nd, struct kp_batch *b, struct kp_event *ev)
{
	return has_record(nd, b) ? next_record(nd, ev) : kp_batch_next(b, ev);
}

/* A record of a full trace, and the functions of its slots. */
static bool
read_call_record(const struct cursor *c, struct kp_native_event *ev)
{
	memcpy(&ev->rec, c->p, c->size);
	return ev->rec.kind >= KP_NATIVE_CALLS &&
	    slot(c->source->fn, ev->rec.fn, &ev->fn) &&
	    slot(c->source->fn, ev->rec.caller, &ev->caller);
}

enum kp_err
kp_native_next_record(struct kp_native *nd, struct kp_batch *b,
    struct kp_native_event *ev)
{
	struct kp_event other;
	bool good;

	*ev = (struct kp_native_event){ .rec = { 0 } };
	if (!has_record(nd, b))
		return kp_batch_next(b, &other) == KP_END ? KP_END : KP_EFORMAT;
	if (take_bad(nd))
		return KP_ENOENT;
	good = read_call_record(nd->v, ev);
	pass_first(nd);
	return good ? KP_OK : KP_ENOENT;
}
