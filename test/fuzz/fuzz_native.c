/*
 * fuzz_native.c - chunks of the native probe, any bytes in them: every span of
 * every event is a whole term of the kind promised.
 *
 * The input is a list of chunks, each behind a byte and a length.  The byte's
 * lowest bit mends the chunk's header, so that most are looked into; the next
 * one ends a batch.
 */
#include "fuzz.h"
#include "calls/decode.h"
#include "../support/native_feed.h"

#define CHUNKS_MAX 16

static void
check_term(struct kp_span s, bool mfa)
{
	struct kp_term r;

	if (s.n == 0)
		return;
	kp_term_begin_raw(&r, s.p, s.n);
	if (mfa) {
		kp_term_tuple_n(&r, 3);
		kp_term_atom(&r);
		kp_term_atom(&r);
		REQUIRE((uint64_t)kp_term_int(&r) <= 255);
	} else {
		kp_term_skip(&r);
	}
	REQUIRE(kp_term_finish(&r) == KP_OK);
}

static void
check_event(const struct kp_event *ev)
{
	bool call = ev->kind == KP_EV_CALL || ev->kind == KP_EV_ENTRY ||
	    ev->kind == KP_EV_CLEAR;
	bool mail = ev->kind == KP_EV_SEND || ev->kind == KP_EV_RECEIVE;

	REQUIRE(kp_span_is(ev->pid.node, "app@host"));
	REQUIRE(ev->mfa.n > 0 || ev->kind == KP_EV_RETURN_TO ||
	    ev->kind >= KP_EV_IN);
	REQUIRE(!mail || (ev->label != 0 && ev->mfa.n == 0 &&
	    ev->caller.n == 0));
	check_term(ev->mfa, true);
	check_term(ev->caller, true);
	check_term(ev->identity, false);
	REQUIRE(ev->label >> 59 == 0 && ev->old_label >> 59 == 0);
	REQUIRE((ev->weight > 0) == (ev->kind == KP_EV_ENTRY));
	REQUIRE(call || mail || (ev->label == 0 && ev->caller.n == 0 && !ev->has_from));
}

/* Who reads full traces. */
struct calls {
	struct kp_call_names *names;
	struct kp_calls_decoder *decoder;
};

static void
check_call(const struct calls *c, const struct kp_call_event *ev)
{
	uint32_t fns = c->names->nfns, procs = c->names->nprocs;

	REQUIRE(ev->kind >= KP_CALL_CALL && ev->kind <= KP_CALL_EXIT);
	REQUIRE(ev->ts > -KP_CALLS_TIME_MAX && ev->ts < KP_CALLS_TIME_MAX);
	REQUIRE(ev->proc < procs && ev->fn < fns);
	REQUIRE(ev->kind != KP_CALL_CALL || ev->fn >= KP_FN_FIRST);
	REQUIRE(ev->other < (ev->kind == KP_CALL_SPAWN ? procs : fns));
}

static void
read_calls(const struct calls *c, const struct kp_buf *b)
{
	struct kp_batch batch;
	struct kp_call_event ev;
	enum kp_err err;
	size_t steps = 0;

	REQUIRE(kp_batch_begin(&batch, b->p, b->len) == KP_OK);
	while ((err = kp_calls_next(c->decoder, &batch, &ev)) != KP_END) {
		REQUIRE(err == KP_OK || err == KP_ENOENT);
		REQUIRE(++steps <= b->len);
		if (err == KP_OK)
			check_call(c, &ev);
	}
}

static void
read_batch(struct kp_native *nd, const struct calls *c, struct kp_buf *chunks,
    uint32_t n)
{
	struct kp_buf b;
	struct kp_batch batch;
	struct kp_event ev;
	enum kp_err err;
	size_t steps = 0;

	kp_buf_init(&b, 1 << 24);
	feed_batch(&b, 1, n);
	kp_buf_put(&b, chunks->p, chunks->len);
	kp_etf_nil(&b);
	REQUIRE(kp_batch_begin(&batch, b.p, b.len) == KP_OK);
	while ((err = kp_events_next(nd, &batch, &ev)) != KP_END) {
		REQUIRE(err == KP_OK || err == KP_ENOENT);
		REQUIRE(++steps <= b.len);
		if (err == KP_OK)
			check_event(&ev);
	}
	read_calls(c, &b);
	kp_buf_free(&b);
	kp_buf_reset(chunks);
}

/* Its chunk, with a header that its length bears out. */
static void
put_chunk(struct kp_buf *b, const uint8_t *p, size_t n, bool mend)
{
	struct kp_native_chunk head;
	struct kp_buf chunk;
	size_t unit;

	kp_buf_init(&chunk, 1 << 24);
	if (mend && n >= sizeof(head)) {
		memcpy(&head, p, sizeof(head));
		unit = head.magic == KP_NATIVE_MIXED ? KP_NATIVE_WORD :
		    sizeof(struct kp_native_record);
		p += sizeof(head);
		n -= sizeof(head);
		n -= n % unit;
		if (head.magic != KP_NATIVE_MIXED)
			head.magic = KP_NATIVE_MAGIC;
		head.version = KP_NATIVE_VERSION;
		head.ring %= CHUNKS_MAX;
		head.records = (uint32_t)(n / unit);
		kp_buf_put(&chunk, &head, sizeof(head));
	}
	kp_buf_put(&chunk, p, n);
	kp_etf_binary(b, chunk.p, chunk.len);
	kp_buf_free(&chunk);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_native *nd = kp_native_new();
	struct calls c = { .names = kp_call_names_new() };
	struct kp_buf chunks;
	size_t at = 0, n;
	uint32_t held = 0;
	uint8_t flags;

	c.decoder = kp_calls_decoder_new(c.names, 0, 0);
	kp_native_restart(nd, "app@host");
	kp_buf_init(&chunks, 1 << 24);
	while (size - at >= 3) {
		flags = data[at];
		n = (size_t)data[at + 1] << 8 | data[at + 2];
		at += 3;
		if (n > size - at)
			n = size - at;
		put_chunk(&chunks, data + at, n, (flags & 1) != 0);
		at += n;
		if (++held == CHUNKS_MAX || (flags & 2) != 0) {
			read_batch(nd, &c, &chunks, held);
			held = 0;
		}
	}
	read_batch(nd, &c, &chunks, held);
	kp_buf_free(&chunks);
	kp_native_free(nd);
	kp_calls_decoder_free(c.decoder);
	kp_call_names_free(c.names);
	return 0;
}
