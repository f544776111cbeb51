/*
 * native.c - reads the chunks of a batch, and merges their events by time.
 *
 * A cursor moves through each chunk.  The cursors form a heap by the times of
 * their next events, so that the cost of a batch with thousands of chunks stays
 * in proportion to its bytes, even where the events alternate between chunks.
 * Events of equal times come from the same chunk as the one before.  Records
 * are copied out before they are read, because they are not aligned.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/label.h"
#include "kprofd/native.h"
#include "base/etf_tags.h"
#include "base/vec.h"
#include "decode/term_fast.h"

#define RECORD sizeof(struct kp_native_record)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "records are read as they are");

/* A term, owned by the slot that it defines. */
struct definition {
	struct definition *next;	/* replaced in this batch, too */
	uint32_t n;
	uint8_t p[];
};

/* A ring, for as long as its probe is there. */
struct source {
	struct definition *fn[KP_NATIVE_SLOTS + 1];	/* owned */
	struct definition *identity[KP_NATIVE_SLOTS + 1];
	uint32_t weight;
};

/* What is left of a chunk; its next record is an event, at `ts`. */
struct cursor {
	struct source *source;
	const uint8_t *p, *end;
	int64_t ts;
	uint32_t size;		/* of that event */
	bool mixed;
};

struct kp_native {
	struct source *source[KP_NATIVE_RINGS_MAX];
	struct cursor *v;	/* a heap: none is before the one above it */
	size_t room;
	uint32_t n;
	bool given;		/* the first has given the last event */
	int64_t until;		/* it is ahead of all others up to this */
	uint32_t bad;		/* to be told: elements that made no sense */
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
	nd->given = false;
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

/* Not before the next batch: events of this one may be of what it was. */
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
 * Of functions and identities; the bytes are there.  Where this cannot be kept
 * the slot is nothing: what it was is not what the events that follow mean.
 */
static bool
take_definition(struct kp_native *nd, struct source *s,
    const struct kp_native_record *rec, const uint8_t *p)
{
	struct kp_span term = { p + KP_NATIVE_HEAD, rec->caller };
	bool fn = rec->kind == KP_NATIVE_FN;
	struct definition **slot;

	if (rec->fn == 0 || rec->fn > KP_NATIVE_SLOTS)
		return false;
	slot = fn ? &s->fn[rec->fn] : &s->identity[rec->fn];
	undefine(nd, slot);
	return (fn ? is_fn(term) : is_term(term)) && define(nd, slot, term);
}

/* ---- chunks ---- */

/*
 * What is there, 0 past its end, and of how many bytes it is, which may be more
 * than there are.
 */
static size_t
record_at(const struct cursor *c, struct kp_native_record *rec)
{
	size_t n = (size_t)(c->end - c->p);

	if (n < RECORD) {
		memset(rec, 0, RECORD);
		memcpy(rec, c->p, n);
	} else {
		memcpy(rec, c->p, RECORD);
	}
	n = kp_native_bytes(rec, c->mixed);
	if (n < RECORD)
		rec->label = rec->other = 0;
	return n;
}

/*
 * On to the next event, taking the definitions before it.  False at the end;
 * what makes no sense is counted.
 */
static bool
cursor_advance(struct kp_native *nd, struct cursor *c)
{
	struct kp_native_record rec;
	size_t size;

	for (; c->p < c->end; c->p += size) {
		size = record_at(c, &rec);
		if (size > (size_t)(c->end - c->p) ||
		    (kp_native_is_definition(rec.kind) &&
		    rec.caller > KP_NATIVE_TERM_MAX)) {
			nd->bad++;
			return false;
		}
		if (rec.kind == KP_NATIVE_WEIGHT) {
			if (rec.label >= 1 && rec.label <= UINT32_MAX)
				c->source->weight = (uint32_t)rec.label;
			else
				nd->bad++;
		} else if (kp_native_is_definition(rec.kind)) {
			nd->bad += !take_definition(nd, c->source, &rec,
			    c->p);
		} else {
			c->ts = rec.ts;
			c->size = (uint32_t)size;
			return true;
		}
	}
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
		.mixed = head.magic == KP_NATIVE_MIXED };
	if (c.source == NULL)
		return false;
	if (cursor_advance(nd, &c))
		nd->v[nd->n++] = c;
	return true;
}

/* The one at i moves down to its place. */
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

/* How far the first one is ahead: one of the two below it is next. */
static void
look_ahead(struct kp_native *nd)
{
	nd->until = nd->n > 1 ? nd->v[1].ts : INT64_MAX;
	if (nd->n > 2 && nd->v[2].ts < nd->until)
		nd->until = nd->v[2].ts;
}

/* All chunks of the batch; other elements are passed over. */
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

static struct kp_pid
pid(const struct kp_native *nd, uint64_t name)
{
	return (struct kp_pid){ .id = (uint32_t)name,
		.serial = (uint32_t)(name >> 32), .node = nd->node };
}

static uint64_t
label(uint64_t v)
{
	return v < KP_LABEL_END ? v : 0;
}

/* False: a slot that nobody has defined.  *to is empty till now. */
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

/* Who sent the token; false: a slot that nobody has defined. */
static inline __attribute__((always_inline)) bool
sender(const struct kp_native *nd, const struct source *s,
    const struct kp_native_record *rec, struct kp_event *ev)
{
	struct kp_span term;
	struct kp_term r;

	if ((rec->flags & KP_NATIVE_HAS_FROM) != 0) {
		ev->has_from = true;
		ev->from = pid(nd, rec->other);
	} else if ((rec->flags & KP_NATIVE_FROM_AFAR) != 0) {
		if (rec->other == 0 || rec->other > KP_NATIVE_SLOTS ||
		    !slot(s->identity, (uint16_t)rec->other, &term))
			return false;
		kp_term_begin_raw(&r, term.p, term.n);
		ev->from = kp_term_pid(&r);
		ev->has_from = kp_term_finish(&r) == KP_OK;
	}
	return true;
}

static bool
read_call(const struct kp_native *nd, const struct source *s,
    const struct kp_native_record *rec, struct kp_event *ev)
{
	ev->label = label(rec->label);
	if (rec->kind == KP_NATIVE_ENTRY) {
		ev->kind = KP_EV_ENTRY;
		ev->old_label = label(rec->other);
		ev->foreign = (rec->flags & KP_NATIVE_FOREIGN) != 0;
		ev->weight = s->weight;
	} else {
		ev->kind = rec->kind == KP_NATIVE_CALL ? KP_EV_CALL :
		    KP_EV_CLEAR;
		if (!sender(nd, s, rec, ev))
			return false;
	}
	return slot(s->fn, rec->caller, &ev->caller) &&
	    slot(s->identity, rec->identity, &ev->identity) &&
	    (ev->kind != KP_EV_ENTRY || ev->weight > 0);
}

/* Its fn and caller are not slots.  Apart: calls are what there are most of. */
static __attribute__((noinline)) bool
read_mail(const struct kp_native *nd, const struct source *s,
    const struct kp_native_record *rec, struct kp_event *ev)
{
	if (rec->kind != KP_NATIVE_SEND && rec->kind != KP_NATIVE_RECEIVE)
		return false;
	ev->kind = rec->kind == KP_NATIVE_SEND ? KP_EV_SEND : KP_EV_RECEIVE;
	ev->label = label(rec->label);
	ev->serial = kp_native_serial(rec);
	return ev->label != 0 && sender(nd, s, rec, ev);
}

static bool
read_record(const struct kp_native *nd, const struct source *s,
    const struct kp_native_record *rec, struct kp_event *ev)
{
	*ev = (struct kp_event){ .ts = rec->ts, .pid = pid(nd, rec->pid) };
	if (rec->kind > KP_NATIVE_GC_END)
		return read_mail(nd, s, rec, ev);
	if (!slot(s->fn, rec->fn, &ev->mfa))
		return false;
	switch (rec->kind) {
	case KP_NATIVE_ENTRY:
	case KP_NATIVE_CALL:
	case KP_NATIVE_CLEAR:
		return rec->fn != 0 && read_call(nd, s, rec, ev);
	case KP_NATIVE_RETURN_TO:
		ev->kind = KP_EV_RETURN_TO;
		return true;
	case KP_NATIVE_RETURN_FROM:
		ev->kind = KP_EV_RETURN_FROM;
		return rec->fn != 0;
	case KP_NATIVE_EXCEPTION_FROM:
		ev->kind = KP_EV_EXCEPTION_FROM;
		return rec->fn != 0;
	case KP_NATIVE_IN:
	case KP_NATIVE_OUT:
	case KP_NATIVE_GC_START:
	case KP_NATIVE_GC_END:
		ev->kind = (enum kp_event_kind)(KP_EV_IN +
		    (rec->kind - KP_NATIVE_IN));
		return rec->fn == 0;
	default:
		return false;
	}
}

/* Leaves the event that was given last, for the next of its chunk. */
static void
pass(struct kp_native *nd)
{
	struct cursor *c = nd->v;

	nd->given = false;
	c->p += c->size;
	if (!cursor_advance(nd, c))
		*c = nd->v[--nd->n];
	else if (c->ts <= nd->until)
		return;
	if (nd->n > 0)
		sift(nd, 0);
	look_ahead(nd);
}

/* The next one to be given; false: there is none that makes sense. */
static bool
take_record(struct kp_native *nd, struct kp_native_record *rec)
{
	if (nd->bad > 0) {
		nd->bad--;
		return false;
	}
	nd->given = true;
	record_at(nd->v, rec);
	return true;
}

/* False: the batch has no chunk, or no more. */
static bool
has_record(struct kp_native *nd, struct kp_batch *b)
{
	if (nd->given)
		pass(nd);
	else if (nd->n == 0 && b->left > 0 && term_tag(&b->r) == ETF_BINARY)
		gather(nd, b);
	return nd->n > 0 || nd->bad > 0;
}

enum kp_err
kp_native_next(struct kp_native *nd, struct kp_batch *b, struct kp_event *ev)
{
	struct kp_native_record rec;

	if (!has_record(nd, b))
		return kp_batch_next(b, ev);
	if (take_record(nd, &rec) &&
	    read_record(nd, nd->v->source, &rec, ev))
		return KP_OK;
	*ev = (struct kp_event){ .ts = 0 };
	return KP_ENOENT;
}

enum kp_err
kp_native_next_record(struct kp_native *nd, struct kp_batch *b,
    struct kp_native_event *ev)
{
	struct kp_event other;

	*ev = (struct kp_native_event){ .rec = { 0 } };
	if (!has_record(nd, b))
		return kp_batch_next(b, &other) == KP_END ? KP_END : KP_EFORMAT;
	if (!take_record(nd, &ev->rec) || ev->rec.kind < KP_NATIVE_CALLS ||
	    !slot(nd->v->source->fn, ev->rec.fn, &ev->fn) ||
	    !slot(nd->v->source->fn, ev->rec.caller, &ev->caller))
		return KP_ENOENT;
	return KP_OK;
}
