/* test_native.c - chunks of the native probe to events. */
#include "cases.h"
#include "calls/decode.h"
#include "native_feed.h"

#define MAX (1 << 20)

/* One batch being written, and what reads it. */
struct fixture {
	struct kp_native *nd;
	struct kp_buf chunk[4], batch;
	uint32_t records[4];
	struct kp_batch b;
};

FIXTURE(setup)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->nd = kp_native_new();
	kp_native_restart(f->nd, "app@host");
	for (int i = 0; i < 4; i++)
		kp_buf_init(&f->chunk[i], MAX);
	kp_buf_init(&f->batch, MAX);
	*state = f;
	return 0;
}

FIXTURE(teardown)
{
	struct fixture *f = *state;

	for (int i = 0; i < 4; i++)
		kp_buf_free(&f->chunk[i]);
	kp_buf_free(&f->batch);
	kp_native_free(f->nd);
	free(f);
	return 0;
}

static void
put(struct fixture *f, unsigned ring, struct kp_native_record rec)
{
	feed_record(&f->chunk[ring], &rec);
	f->records[ring]++;
}

static void
define(struct fixture *f, unsigned ring, enum kp_native_kind kind,
    uint16_t slot, const struct kp_buf *term)
{
	feed_define(&f->chunk[ring], kind, slot, term);
	f->records[ring] += kp_native_records((uint32_t)term->len);
}

static void
define_fn(struct fixture *f, unsigned ring, uint16_t slot, const char *mod,
    const char *fun)
{
	struct kp_buf term;

	kp_buf_init(&term, MAX);
	feed_mfa(&term, mod, fun, 1);
	define(f, ring, KP_NATIVE_FN, slot, &term);
	kp_buf_free(&term);
}

/* Sends what was put: one chunk for each ring that has something. */
static void
send(struct fixture *f)
{
	struct kp_buf chunk;
	uint32_t n = 0;

	for (unsigned i = 0; i < 4; i++)
		n += f->records[i] > 0;
	kp_buf_reset(&f->batch);
	feed_batch(&f->batch, 1, n);
	for (uint16_t i = 0; i < 4; i++) {
		if (f->records[i] == 0)
			continue;
		kp_buf_init(&chunk, MAX);
		feed_head(&chunk, i, f->records[i]);
		kp_buf_put(&chunk, f->chunk[i].p, f->chunk[i].len);
		kp_etf_binary(&f->batch, chunk.p, chunk.len);
		kp_buf_free(&chunk);
		kp_buf_reset(&f->chunk[i]);
		f->records[i] = 0;
	}
	kp_etf_nil(&f->batch);
	assert_int_equal(f->batch.err, KP_OK);
	assert_int_equal(kp_batch_begin(&f->b, f->batch.p, f->batch.len),
	    KP_OK);
}

static enum kp_err
next(struct fixture *f, struct kp_event *ev)
{
	return kp_events_next(f->nd, &f->b, ev);
}

static void
assert_term(struct kp_span s, const char *text)
{
	struct kp_buf out;
	struct kp_term r;

	kp_buf_init(&out, MAX);
	kp_term_begin_raw(&r, s.p, s.n);
	kp_term_print(&r, &out, 1000);
	assert_string_equal(kp_buf_cstr(&out), text);
	kp_buf_free(&out);
}

static void
weight(struct fixture *f, unsigned ring, uint64_t w)
{
	put(f, ring, (struct kp_native_record){ .kind = KP_NATIVE_WEIGHT,
	    .label = w });
}

static void
event(struct fixture *f, unsigned ring, enum kp_native_kind kind, uint16_t fn,
    int64_t ts, uint64_t pid)
{
	put(f, ring, (struct kp_native_record){ .kind = (uint8_t)kind,
	    .fn = fn, .ts = ts, .pid = pid, .label = 5 });
}

TEST(entry_and_call_have_all_their_fields)
{
	struct fixture *f = *state;
	struct kp_event ev;
	struct kp_buf term;

	kp_buf_init(&term, MAX);
	kp_etf_atom(&term, "create");
	define_fn(f, 0, 1, "requests", "handle");
	define_fn(f, 0, 2, "net", "serve");
	define(f, 0, KP_NATIVE_IDENTITY, 7, &term);
	kp_buf_free(&term);
	weight(f, 0, 10);
	put(f, 0, (struct kp_native_record){ .kind = KP_NATIVE_ENTRY, .fn = 1,
	    .caller = 2, .identity = 7, .ts = -5, .pid = UINT64_C(3) << 32 | 9,
	    .label = 77, .other = 66 });
	put(f, 0, (struct kp_native_record){ .kind = KP_NATIVE_ENTRY, .fn = 1,
	    .flags = KP_NATIVE_FOREIGN, .ts = -5, .pid = 9 });
	put(f, 0, (struct kp_native_record){ .kind = KP_NATIVE_CALL, .fn = 2,
	    .flags = KP_NATIVE_HAS_FROM, .ts = -4, .pid = 10, .label = 77,
	    .other = UINT64_C(3) << 32 | 9 });
	send(f);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_EV_ENTRY) IS(ts, -5) IS(pid.id, 9)
	    IS(pid.serial, 3));
	assert_true(kp_span_is(ev.pid.node, "app@host"));
	assert_term(ev.mfa, "{requests,handle,1}");
	assert_term(ev.caller, "{net,serve,1}");
	assert_term(ev.identity, "create");
	assert_fields(ev, IS(label, 77) IS(old_label, 66) IS(weight, 10));
	assert_false(ev.has_from || ev.foreign);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_true(ev.foreign && ev.label == 0);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_EV_CALL) IS(weight, 0) IS(old_label, 0)
	    IS(caller.n, 0) IS(identity.n, 0));
	assert_true(ev.has_from);
	assert_fields(ev, IS(from.id, 9) IS(from.serial, 3));
	assert_int_equal(next(f, &ev), KP_END);
	assert_int_equal(next(f, &ev), KP_END);
}

/*
 * Who sent the token may be of another node: without that a call there was
 * placed by nothing but its time.
 */
TEST(senders_may_be_of_other_nodes)
{
	struct kp_native_record call = { .kind = KP_NATIVE_CALL, .fn = 1,
		.flags = KP_NATIVE_FROM_AFAR, .ts = 1, .pid = 10,
		.label = 77, .other = 3 };
	struct fixture *f = *state;
	struct kp_buf term;
	struct kp_event ev;

	kp_buf_init(&term, MAX);
	kp_etf_pid(&term, "shop@other", 9, 2, 1);
	define_fn(f, 0, 1, "requests", "handle");
	define(f, 0, KP_NATIVE_IDENTITY, 3, &term);
	put(f, 0, call);
	kp_buf_reset(&term);
	kp_etf_atom(&term, "nobody");
	define(f, 0, KP_NATIVE_IDENTITY, 3, &term);
	kp_buf_free(&term);
	put(f, 0, call);
	for (call.other = 4; call.other < UINT64_C(1) << 60;
	    call.other <<= 4)
		put(f, 0, call);
	send(f);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_true(ev.has_from);
	assert_true(kp_span_is(ev.from.node, "shop@other"));
	assert_fields(ev, IS(from.id, 9) IS(from.serial, 2));
	assert_true(kp_span_is(ev.pid.node, "app@host"));
	/* It is no process that slot 3 stands for now. */
	assert_int_equal(next(f, &ev), KP_OK);
	assert_false(ev.has_from);
	for (uint64_t slot = 4; slot < UINT64_C(1) << 60; slot <<= 4)
		assert_int_equal(next(f, &ev), KP_ENOENT);
	assert_int_equal(next(f, &ev), KP_END);
}

/* Events are read some at a time, and looked at only then. */
TEST(an_event_outlives_what_defined_it)
{
	struct fixture *f = *state;
	struct kp_event ev[3];

	define_fn(f, 0, 1, "requests", "handle");
	event(f, 0, KP_NATIVE_CALL, 1, 1, 9);
	define_fn(f, 0, 1, "db", "query");
	event(f, 0, KP_NATIVE_CALL, 1, 2, 9);
	define_fn(f, 0, 1, "net", "serve");
	event(f, 0, KP_NATIVE_CALL, 1, 3, 9);
	send(f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(next(f, &ev[i]), KP_OK);
	assert_int_equal(next(f, &(struct kp_event){ 0 }), KP_END);
	assert_term(ev[0].mfa, "{requests,handle,1}");
	assert_term(ev[1].mfa, "{db,query,1}");
	assert_term(ev[2].mfa, "{net,serve,1}");
}

/* A process that moves between threads has its events in several rings. */
TEST(rings_are_merged_by_time)
{
	static const int64_t times[3][4] = { { 1, 2, 9, 10 }, { 3, 4, 5, 11 },
		{ 2, 6, 7, 8 } };
	struct fixture *f = *state;
	struct kp_event ev;
	int64_t last = 0;

	for (unsigned r = 0; r < 3; r++) {
		define_fn(f, r, 1, "m", "f");
		for (unsigned i = 0; i < 4; i++)
			event(f, r, KP_NATIVE_RETURN_FROM, 1, times[r][i], r + 1);
	}
	send(f);
	for (unsigned i = 0; i < 12; i++) {
		assert_int_equal(next(f, &ev), KP_OK);
		assert_true(ev.ts >= last);
		last = ev.ts;
	}
	assert_int_equal(last, 11);
	assert_int_equal(next(f, &ev), KP_END);
}

/* As many as a batch may have, each event of another one than that before it. */
TEST(many_rings_are_merged_by_time)
{
	enum { RINGS = 1000, EACH = 5 };
	struct fixture *f = *state;
	struct kp_native_record rec = { .kind = KP_NATIVE_RETURN_TO };
	uint32_t turns[RINGS] = { 0 };
	struct kp_event ev;

	feed_batch(&f->batch, 1, RINGS);
	for (uint16_t r = 0; r < RINGS; r++) {
		kp_buf_u8(&f->batch, 109);	/* a binary */
		kp_buf_be32(&f->batch, 8 + EACH * sizeof(rec));
		feed_head(&f->batch, r, EACH);
		for (uint32_t i = 0; i < EACH; i++) {
			/* 7 and RINGS have no divisor in common. */
			rec.ts = i * RINGS + r * 7u % RINGS;
			rec.pid = 1 + r;
			feed_record(&f->batch, &rec);
		}
	}
	kp_etf_nil(&f->batch);
	assert_int_equal(kp_batch_begin(&f->b, f->batch.p, f->batch.len),
	    KP_OK);
	for (int64_t ts = 0; ts < EACH * RINGS; ts++) {
		assert_int_equal(next(f, &ev), KP_OK);
		assert_int_equal(ev.ts, ts);
		assert_int_equal((ev.pid.id - 1) * 7 % RINGS, ts % RINGS);
		turns[ev.pid.id - 1]++;
	}
	assert_int_equal(next(f, &ev), KP_END);
	for (uint32_t r = 0; r < RINGS; r++)
		assert_int_equal(turns[r], EACH);
}

TEST(slots_keep_their_meaning_until_they_get_another)
{
	struct fixture *f = *state;
	struct kp_event ev;

	define_fn(f, 0, 1, "m", "first");
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 1, 1);
	define_fn(f, 0, 1, "m", "second");
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 2, 1);
	define_fn(f, 1, 1, "m", "other");
	send(f);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_term(ev.mfa, "{m,first,1}");
	assert_int_equal(next(f, &ev), KP_OK);
	assert_term(ev.mfa, "{m,second,1}");
	assert_int_equal(next(f, &ev), KP_END);
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 3, 1);
	event(f, 1, KP_NATIVE_RETURN_FROM, 1, 4, 1);
	send(f);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_term(ev.mfa, "{m,second,1}");
	assert_int_equal(next(f, &ev), KP_OK);
	assert_term(ev.mfa, "{m,other,1}");
	assert_int_equal(next(f, &ev), KP_END);
	/* Another probe defines its own. */
	kp_native_restart(f->nd, "app@host");
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 5, 1);
	send(f);
	assert_int_equal(next(f, &ev), KP_ENOENT);
	assert_int_equal(next(f, &ev), KP_END);
}

/* They need no definition, and carry none. */
TEST(pauses)
{
	struct fixture *f = *state;
	struct kp_event ev;

	for (int i = 0; i < 4; i++)
		event(f, 0, (enum kp_native_kind)(KP_NATIVE_IN + i), 0, i, 1);
	event(f, 0, KP_NATIVE_IN, 1, 4, 1);	/* of a function: no such thing */
	send(f);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(next(f, &ev), KP_OK);
		assert_fields(ev, IS(kind, KP_EV_IN + i) IS(mfa.n, 0)
		    IS(ts, i));
	}
	assert_int_equal(next(f, &ev), KP_ENOENT);
	assert_int_equal(next(f, &ev), KP_END);
}

/* Each costs one event, and those around it are read. */
TEST(what_makes_no_sense_is_passed_over)
{
	struct fixture *f = *state;
	struct kp_event ev;
	struct kp_buf term;

	kp_buf_init(&term, MAX);
	kp_etf_atom(&term, "no_mfa");
	define_fn(f, 0, 1, "m", "f");
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 1, 1);
	event(f, 0, (enum kp_native_kind)0, 1, 2, 1);
	event(f, 0, (enum kp_native_kind)200, 1, 3, 1);
	event(f, 0, KP_NATIVE_RETURN_FROM, 2, 4, 1);	/* not defined */
	event(f, 0, KP_NATIVE_RETURN_FROM, 0, 5, 1);	/* of nothing */
	event(f, 0, KP_NATIVE_RETURN_FROM, 60000, 6, 1);
	event(f, 0, KP_NATIVE_ENTRY, 1, 7, 1);		/* no weight yet */
	define(f, 0, KP_NATIVE_FN, 3, &term);
	weight(f, 0, 0);
	define_fn(f, 0, 0, "m", "f");
	define_fn(f, 0, KP_NATIVE_SLOTS + 1, "m", "f");
	event(f, 0, KP_NATIVE_RETURN_TO, 0, 8, 1);	/* to undefined */
	kp_buf_free(&term);
	send(f);
	assert_int_equal(next(f, &ev), KP_OK);
	for (int i = 0; i < 6 + 4; i++)
		assert_int_equal(next(f, &ev), KP_ENOENT);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_EV_RETURN_TO) IS(mfa.n, 0));
	assert_int_equal(next(f, &ev), KP_END);
}

/* Events were taken for those of the function that the slot had been before. */
TEST(what_cannot_be_defined_is_not_what_it_was)
{
	struct fixture *f = *state;
	struct kp_event ev;
	struct kp_buf term;

	kp_buf_init(&term, MAX);
	kp_etf_atom(&term, "no_mfa");
	define_fn(f, 0, 1, "m", "first");
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 1, 1);
	define(f, 0, KP_NATIVE_FN, 1, &term);
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 2, 1);
	define_fn(f, 0, 1, "m", "second");
	event(f, 0, KP_NATIVE_RETURN_FROM, 1, 3, 1);
	kp_buf_free(&term);
	send(f);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_term(ev.mfa, "{m,first,1}");
	assert_int_equal(next(f, &ev), KP_ENOENT);	/* the definition */
	assert_int_equal(next(f, &ev), KP_ENOENT);	/* and its event */
	assert_int_equal(next(f, &ev), KP_OK);
	assert_term(ev.mfa, "{m,second,1}");
	assert_int_equal(next(f, &ev), KP_END);
}

TEST(chunks_that_lie_are_left_out)
{
	struct kp_native_chunk head = { .magic = KP_NATIVE_MAGIC,
		.version = KP_NATIVE_VERSION, .records = 1 };
	struct { struct kp_native_chunk head; uint8_t rest[sizeof(struct kp_native_record)]; } chunk[6];
	struct kp_native_record cut = { .kind = KP_NATIVE_FN, .fn = 1,
		.caller = 500 };
	struct fixture *f = *state;
	struct kp_event ev;

	memset(chunk, 0, sizeof(chunk));
	for (int i = 0; i < 6; i++)
		chunk[i].head = head;
	chunk[0].head.magic = 0;
	chunk[1].head.version = KP_NATIVE_VERSION + 1;
	chunk[2].head.records = 2;
	chunk[3].head.ring = KP_NATIVE_RINGS_MAX;
	memcpy(chunk[4].rest, &cut, sizeof(cut));
	feed_batch(&f->batch, 1, 8);
	for (int i = 0; i < 6; i++)
		kp_etf_binary(&f->batch, &chunk[i],
		    sizeof(head) + sizeof(cut) - (i == 5));
	kp_etf_binary(&f->batch, "", 0);
	kp_etf_atom(&f->batch, "none");
	kp_etf_nil(&f->batch);
	assert_int_equal(kp_batch_begin(&f->b, f->batch.p, f->batch.len),
	    KP_OK);
	for (int i = 0; i < 8; i++)
		assert_int_equal(next(f, &ev), KP_ENOENT);
	assert_int_equal(next(f, &ev), KP_END);
}

TEST(batches_of_the_relay_are_read_as_before)
{
	struct fixture *f = *state;
	struct kp_event ev;

	feed_batch(&f->batch, 1, 1);
	kp_etf_tuple(&f->batch, 5);
	kp_etf_atom(&f->batch, "trace_ts");
	kp_etf_pid(&f->batch, "app@host", 9, 0, 1);
	kp_etf_atom(&f->batch, "return_to");
	feed_mfa(&f->batch, "m", "f", 2);
	kp_etf_int(&f->batch, -7);
	kp_etf_nil(&f->batch);
	assert_int_equal(kp_batch_begin(&f->b, f->batch.p, f->batch.len),
	    KP_OK);
	assert_int_equal(next(f, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_EV_RETURN_TO) IS(ts, -7));
	assert_int_equal(next(f, &ev), KP_END);
}

/* A target cannot make us keep more than that of names. */
TEST(definitions_are_bounded)
{
	const uint64_t most = KP_NATIVE_BYTES_MAX / KP_NATIVE_TERM_MAX;
	struct fixture *f = *state;
	uint8_t text[KP_NATIVE_TERM_MAX - 5] = { 0 };
	struct kp_native_record rec;
	uint64_t kept = 0, refused = 0;
	struct kp_event ev;
	struct kp_buf chunk, term;
	uint32_t each;
	enum kp_err e;

	kp_buf_init(&term, MAX);
	kp_etf_binary(&term, text, sizeof(text));
	assert_int_equal(term.len, KP_NATIVE_TERM_MAX);
	each = kp_native_records((uint32_t)term.len);
	for (uint16_t ring = 0; ring < 40; ring++) {
		kp_buf_init(&chunk, 8 << 20);
		feed_head(&chunk, ring, (each + 1) * KP_NATIVE_SLOTS);
		for (uint16_t i = 1; i <= KP_NATIVE_SLOTS; i++) {
			feed_define(&chunk, KP_NATIVE_IDENTITY, i, &term);
			rec = (struct kp_native_record){
				.kind = KP_NATIVE_RETURN_TO, .ts = i };
			feed_record(&chunk, &rec);
		}
		kp_buf_free(&f->batch);
		kp_buf_init(&f->batch, 8 << 20);
		feed_batch(&f->batch, 1, 1);
		kp_etf_binary(&f->batch, chunk.p, chunk.len);
		kp_etf_nil(&f->batch);
		kp_buf_free(&chunk);
		assert_int_equal(kp_batch_begin(&f->b, f->batch.p,
		    f->batch.len), KP_OK);
		while ((e = next(f, &ev)) != KP_END) {
			assert_true(e == KP_OK || e == KP_ENOENT);
			kept += e == KP_OK;
			refused += e == KP_ENOENT;
		}
	}
	kp_buf_free(&term);
	assert_int_equal(kept, 40 * KP_NATIVE_SLOTS);
	/* What else is kept of each counts, too. */
	assert_in_range(40 * KP_NATIVE_SLOTS - refused, most * 9 / 10,
	    most - 1);
}

/* ---- full traces ---- */

#define CALLS(k) (KP_NATIVE_CALLS + (k))

static void
assert_fn(const struct kp_call_names *names, uint32_t fn, const char *fun)
{
	assert_in_range(fn, KP_FN_FIRST, names->nfns - 1);
	assert_string_equal(names->fns[fn].fun, fun);
}

/* Of two rings, of the second node; and of a process that spawns another. */
TEST(full_traces_have_their_own_records)
{
	struct fixture *f = *state;
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_decoder *d = kp_calls_decoder_new(names, 1, 0);
	struct kp_call_event ev;
	uint32_t node;
	bool added;

	kp_call_node_put(names, (struct kp_span){ NULL, 0 }, &node, &added);
	kp_call_node_put(names, (struct kp_span){ (const uint8_t *)"b", 1 },
	    &node, &added);
	assert_int_equal(node, 1);
	define_fn(f, 0, 1, "m", "caller");
	define_fn(f, 0, 2, "m", "called");
	define_fn(f, 1, 1, "m", "begins");
	put(f, 0, (struct kp_native_record){ .kind = CALLS(KP_CALL_CALL),
	    .fn = 2, .caller = 1, .ts = -30, .pid = UINT64_C(7) << 32 | 5 });
	put(f, 1, (struct kp_native_record){ .kind = CALLS(KP_CALL_SPAWN),
	    .fn = 1, .ts = -20, .pid = UINT64_C(7) << 32 | 5,
	    .other = UINT64_C(8) << 32 | 6 });
	put(f, 0, (struct kp_native_record){ .kind = CALLS(KP_CALL_RETURN_TO),
	    .ts = -10, .pid = UINT64_C(7) << 32 | 5 });
	put(f, 0, (struct kp_native_record){ .kind = CALLS(KP_CALL_EXIT),
	    .fn = 2, .ts = -5, .pid = UINT64_C(8) << 32 | 6 });
	send(f);
	assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_CALL_CALL) IS(ts, -30));
	assert_int_equal(names->procs[ev.proc].id, 5);
	assert_int_equal(names->procs[ev.proc].serial, 7);
	assert_fn(names, ev.fn, "called");
	assert_fn(names, ev.other, "caller");
	assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_OK);
	assert_int_equal(ev.kind, KP_CALL_SPAWN);
	assert_fn(names, ev.fn, "begins");
	assert_fields(*names, IS(procs[ev.proc].node, 1)
	    IS(procs[ev.other].node, 1) IS(procs[ev.other].id, 6)
	    IS(procs[ev.other].serial, 8));
	assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_CALL_RETURN_TO) IS(fn, KP_FN_UNDEFINED));
	assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_CALL_EXIT) IS(fn, 0));
	assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_END);
	kp_calls_decoder_free(d);
	kp_call_names_free(names);
}

/* As the probe sends them: what is short ends before its label. */
TEST(records_of_full_traces_are_short)
{
	struct fixture *f = *state;
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_decoder *d = kp_calls_decoder_new(names, 0, 0);
	struct kp_native_record call = { .kind = CALLS(KP_CALL_CALL),
		.flags = KP_NATIVE_SHORT, .fn = 1, .ts = 1, .pid = 5 },
		spawn = { .kind = CALLS(KP_CALL_SPAWN), .fn = 1, .ts = 3,
		.pid = 5, .other = 6 };
	struct kp_call_event ev;
	struct kp_buf chunk;

	for (size_t lie = 0; lie < 2; lie++) {
		define_fn(f, 0, 1, "m", "f");
		kp_buf_init(&chunk, MAX);
		kp_buf_put(&chunk, &(struct kp_native_chunk){
		    .magic = KP_NATIVE_MIXED, .version = KP_NATIVE_VERSION,
		    .records = (uint32_t)((f->chunk[0].len + 3 * 24 + sizeof(spawn)) /
		    KP_NATIVE_WORD + lie) }, sizeof(struct kp_native_chunk));
		kp_buf_put(&chunk, f->chunk[0].p, f->chunk[0].len);
		kp_buf_put(&chunk, &call, KP_NATIVE_SHORT_BYTES);
		kp_buf_put(&chunk, &call, KP_NATIVE_SHORT_BYTES);
		kp_buf_put(&chunk, &spawn, sizeof(spawn));
		kp_buf_put(&chunk, &call, KP_NATIVE_SHORT_BYTES);
		kp_buf_reset(&f->chunk[0]);
		f->records[0] = 0;
		kp_buf_reset(&f->batch);
		feed_batch(&f->batch, 1, 1);
		kp_etf_binary(&f->batch, chunk.p, chunk.len);
		kp_etf_nil(&f->batch);
		kp_buf_free(&chunk);
		assert_int_equal(kp_batch_begin(&f->b, f->batch.p,
		    f->batch.len), KP_OK);
		for (int i = 0; i < 4 && lie == 0; i++) {
			assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_OK);
			assert_int_equal(ev.kind, i == 2 ? KP_CALL_SPAWN :
			    KP_CALL_CALL);
			assert_fn(names, ev.fn, "f");
			assert_int_equal(ev.other, i == 2 ? 1 : 0);
		}
		if (lie != 0)
			assert_int_equal(kp_calls_next(d, &f->b, &ev),
			    KP_ENOENT);
		assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_END);
	}
	kp_calls_decoder_free(d);
	kp_call_names_free(names);
}

TEST(what_is_of_no_full_trace_is_passed_over)
{
	static const struct kp_native_record wrong[] = {
		{ .kind = KP_NATIVE_CALL, .fn = 1 },
		{ .kind = KP_NATIVE_CALLS, .fn = 1 },
		{ .kind = CALLS(KP_CALL_REQUEST) },
		{ .kind = 255 },
		{ .kind = CALLS(KP_CALL_CALL) },
		{ .kind = CALLS(KP_CALL_CALL), .fn = 1, .caller = 2 },
		{ .kind = CALLS(KP_CALL_RETURN_TO), .fn = 9 },
		{ .kind = CALLS(KP_CALL_GC_END), .ts = KP_CALLS_TIME_MAX },
		{ .kind = CALLS(KP_CALL_GC_END), .ts = -KP_CALLS_TIME_MAX },
	};
	struct fixture *f = *state;
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_decoder *d = kp_calls_decoder_new(names, 0, 0);
	struct kp_call_event ev;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		define_fn(f, 0, 1, "m", "f");
		put(f, 0, wrong[i]);
		put(f, 0, (struct kp_native_record){ .fn = 1, .ts =
		    KP_CALLS_TIME_MAX - 1, .kind = CALLS(KP_CALL_CALL) });
		send(f);
		assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_ENOENT);
		assert_int_equal(ev.kind, 0);
		assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_OK);
		assert_fn(names, ev.fn, "f");
		assert_int_equal(kp_calls_next(d, &f->b, &ev), KP_END);
	}
	kp_calls_decoder_free(d);
	kp_call_names_free(names);
}

TESTS(setup, teardown)
