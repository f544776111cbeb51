/* test_trace.c - trace events, real ones first: see make_corpus.escript. */
#include <inttypes.h>

#include "cases.h"
#include "kprofd/etf.h"
#include "kprofd/trace.h"
#include "corpus.h"

static void
put_pid(struct kp_buf *out, const struct kp_pid *pid)
{
	kp_buf_put(out, pid->node.p, pid->node.n);
	kp_buf_printf(out, ".%u.%u.%u", pid->id, pid->serial, pid->creation);
}

static void
put_term(struct kp_buf *out, struct kp_span s)
{
	struct kp_term r;

	if (s.n == 0) {
		kp_buf_str(out, "-");
		return;
	}
	kp_term_begin_raw(&r, s.p, s.n);
	kp_term_print(&r, out, 1000);
	assert_int_equal(kp_term_finish(&r), KP_OK);
}

/* The same line as line/1 in make_corpus.escript writes. */
static void
put_event(struct kp_buf *out, const struct kp_event *ev)
{
	static const char *const names[] = { "entry", "call", "return_to",
		"return_from", "exception_from", "clear" };
	bool call = ev->kind == KP_EV_CALL || ev->kind == KP_EV_CLEAR;

	kp_buf_printf(out, "%s ", names[ev->kind]);
	put_pid(out, &ev->pid);
	kp_buf_printf(out, " %" PRId64 " ", ev->ts);
	put_term(out, ev->mfa);
	if (ev->kind == KP_EV_ENTRY || call) {
		kp_buf_str(out, " caller=");
		put_term(out, ev->caller);
		kp_buf_str(out, " id=");
		put_term(out, ev->identity);
		kp_buf_printf(out, " label=%" PRIu64, ev->label);
	}
	if (ev->kind == KP_EV_ENTRY)
		kp_buf_printf(
		    out, " old=%" PRIu64 " w=%u", ev->old_label, ev->weight);
	if (call) {
		kp_buf_str(out, " from=");
		if (ev->has_from)
			put_pid(out, &ev->from);
		else
			kp_buf_str(out, "-");
	}
	kp_buf_str(out, "\n");
}

static void
assert_batch_reads_as(const char *name)
{
	struct kp_buf out;
	struct kp_batch b;
	struct kp_event ev;
	enum kp_err err;
	uint8_t *p, *want;
	size_t n, want_n;

	p = corpus_read("trace", name, &n);
	want = corpus_read("../expect/trace", name, &want_n);
	kp_buf_init(&out, 1 << 20);
	assert_int_equal(kp_batch_begin(&b, p, n), KP_OK);
	assert_fields(b, IS(seq, 7) IS(queue_len, 3) IS(dropped, 0));
	assert_true(b.sent_at < 0);
	while ((err = kp_batch_next(&b, &ev)) == KP_OK)
		put_event(&out, &ev);
	assert_int_equal(err, KP_END);
	assert_int_equal(out.err, KP_OK);
	want[want_n] = '\0';
	assert_string_equal(kp_buf_cstr(&out), (char *)want);
	kp_buf_free(&out);
	test_free(want);
	test_free(p);
}

TEST(real_traces)
{
	assert_batch_reads_as("small_labels");
	assert_batch_reads_as("wide_labels");
	assert_batch_reads_as("exact");
	assert_batch_reads_as("foreign_tokens");
	assert_batch_reads_as("clears");
	assert_batch_reads_as("empty");
}

/* Every beginning of a batch, and every byte of it changed, is survived. */
TEST(hostile_batches)
{
	struct kp_batch b;
	struct kp_event ev;
	enum kp_err err;
	uint8_t *p, *copy;
	size_t n;

	p = corpus_read("trace", "exact", &n);
	for (size_t len = 0; len < n; len++) {
		copy = malloc(len + 1);
		memcpy(copy + 1, p, len);
		err = kp_batch_begin(&b, copy + 1, len);
		while (err == KP_OK || err == KP_ENOENT)
			err = kp_batch_next(&b, &ev);
		assert_int_equal(err, KP_ESHORT);
		assert_int_equal(kp_batch_next(&b, &ev), KP_ESHORT);
		free(copy);
	}
	for (size_t i = 0; i < n * 256; i++) {
		copy = p + i / 256;
		*copy ^= (uint8_t)(i % 256);
		err = kp_batch_begin(&b, p, n);
		if (err == KP_OK) {
			while (err == KP_OK || err == KP_ENOENT)
				err = kp_batch_next(&b, &ev);
		}
		*copy ^= (uint8_t)(i % 256);
	}
	test_free(p);
}

static void
batch_head(struct kp_buf *b, const char *name, int64_t seq)
{
	kp_buf_init(b, 1 << 16);
	kp_etf_version(b);
	kp_etf_tuple(b, 6);
	kp_etf_atom(b, name);
	kp_etf_int(b, seq);
	kp_etf_int(b, -5);
	kp_etf_int(b, 10000);
	kp_etf_int(b, 2);
}

TEST(other_messages)
{
	struct kp_batch batch;
	struct kp_event ev;
	struct kp_buf b;

	batch_head(&b, "kprof_hello", 1);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_ENOENT);
	/* who reads on all the same gets an empty batch, not a loop */
	assert_int_equal(kp_batch_next(&batch, &ev), KP_END);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_EFORMAT);
	kp_buf_free(&b);

	batch_head(&b, "kprof_events", -1);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_EFORMAT);
	kp_buf_free(&b);
	assert_int_equal(kp_batch_begin(&batch, "\x83\x61\x01", 3), KP_ENOENT);
	assert_int_equal(kp_batch_begin(&batch, "\x82\x61\x01", 3), KP_EFORMAT);
	assert_int_equal(kp_batch_begin(&batch, "", 0), KP_ESHORT);
}

static void
put_mfa(struct kp_buf *b, const char *m, int64_t arity)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, m);
	kp_etf_atom(b, "f");
	kp_etf_int(b, arity);
}

static void
return_to(struct kp_buf *b, const char *tag, const char *kind, int64_t arity)
{
	kp_etf_tuple(b, 5);
	kp_etf_atom(b, tag);
	kp_etf_pid(b, "n@h", 77, 1, 9);
	kp_etf_atom(b, kind);
	put_mfa(b, "m", arity);
	kp_etf_int(b, -9);
}

/* Good terms that are no events we know are passed whole, one by one. */
TEST(unknown_elements)
{
	struct kp_batch batch;
	struct kp_event ev;
	struct kp_buf b;

	batch_head(&b, "kprof_events", 1);
	kp_etf_list(&b, 6);
	kp_etf_int(&b, 3);
	return_to(&b, "trace", "return_to", 1);
	return_to(&b, "trace_ts", "gc_some_start", 1);
	return_to(&b, "trace_ts", "return_to", 256);
	return_to(&b, "trace_ts", "call", 2);
	return_to(&b, "trace_ts", "return_to", 255);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_OK);
	assert_fields(batch, IS(left, 6) IS(queue_len, 10000) IS(dropped, 2));
	for (int i = 0; i < 5; i++) {
		assert_int_equal(kp_batch_next(&batch, &ev), KP_ENOENT);
		assert_int_equal(ev.pid.id, 0);
	}
	assert_int_equal(kp_batch_next(&batch, &ev), KP_OK);
	assert_fields(ev, IS(kind, KP_EV_RETURN_TO) IS(pid.id, 77));
	assert_true(kp_span_is(ev.pid.node, "n@h"));
	assert_true(ev.ts == -9);
	assert_int_equal(kp_batch_next(&batch, &ev), KP_END);
	assert_int_equal(kp_batch_next(&batch, &ev), KP_END);
	kp_buf_free(&b);
}

/* Whatever they say of where, or of the heap. */
TEST(pauses)
{
	static const struct {
		const char *tag;
		enum kp_event_kind kind;
	} v[] = {
		{ "in", KP_EV_IN }, { "out", KP_EV_OUT },
		{ "gc_minor_start", KP_EV_GC_START },
		{ "gc_minor_end", KP_EV_GC_END },
		{ "gc_major_start", KP_EV_GC_START },
		{ "gc_major_end", KP_EV_GC_END },
	};
	struct kp_batch batch;
	struct kp_event ev;
	struct kp_buf b;

	batch_head(&b, "kprof_events", 1);
	kp_etf_list(&b, sizeof(v) / sizeof(v[0]));
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		return_to(&b, "trace_ts", v[i].tag, 1);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_OK);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_int_equal(kp_batch_next(&batch, &ev), KP_OK);
		assert_fields(ev, IS(kind, v[i].kind) IS(pid.id, 77)
		    IS(mfa.n, 0));
		assert_true(ev.ts == -9);
	}
	assert_int_equal(kp_batch_next(&batch, &ev), KP_END);
	kp_buf_free(&b);
}

/* An improper list, and bytes after the end. */
TEST(bad_ends)
{
	struct kp_batch batch;
	struct kp_event ev;
	struct kp_buf b;

	batch_head(&b, "kprof_events", 1);
	kp_etf_list(&b, 1);
	return_to(&b, "trace_ts", "return_to", 1);
	kp_etf_int(&b, 1);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_OK);
	assert_int_equal(kp_batch_next(&batch, &ev), KP_OK);
	assert_int_equal(kp_batch_next(&batch, &ev), KP_EFORMAT);
	assert_int_equal(kp_batch_next(&batch, &ev), KP_EFORMAT);
	kp_buf_free(&b);

	batch_head(&b, "kprof_events", 1);
	kp_etf_nil(&b);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_OK);
	assert_int_equal(kp_batch_next(&batch, &ev), KP_EFORMAT);
	kp_buf_free(&b);
}

static void
put_token(struct kp_buf *b, int64_t label, bool pid)
{
	kp_etf_tuple(b, 5);
	kp_etf_int(b, 1);
	kp_etf_int(b, label);
	kp_etf_int(b, 1000);
	if (pid)
		kp_etf_pid(b, "n@h", 5, 0, 1);
	else
		kp_etf_atom(b, "undefined");
	kp_etf_int(b, 999);
}

/* Labels that put `false` and [] in the place of a token. */
#define FOREIGN INT64_C(-17)
#define NO_NUMBER INT64_C(-18)

/* {trace_ts, Pid, call, MFA, {Id, undefined, Weight, New, true, true, Old}} */
static enum kp_err
entry(int64_t weight, int64_t label, int64_t old, struct kp_event *ev)
{
	struct kp_batch batch;
	struct kp_buf b;
	enum kp_err err;

	batch_head(&b, "kprof_events", 1);
	kp_etf_list(&b, 1);
	kp_etf_tuple(&b, 6);
	kp_etf_atom(&b, "trace_ts");
	kp_etf_pid(&b, "n@h", 5, 0, 1);
	kp_etf_atom(&b, "call");
	put_mfa(&b, "m", 2);
	kp_etf_tuple(&b, 7);
	kp_etf_atom(&b, "undefined");
	kp_etf_atom(&b, "undefined");
	kp_etf_int(&b, weight);
	if (label == FOREIGN)
		kp_etf_bool(&b, false);
	else if (label == NO_NUMBER)
		kp_etf_nil(&b);
	else
		put_token(&b, label, true);
	kp_etf_bool(&b, true);
	kp_etf_bool(&b, true);
	put_token(&b, old, false);
	kp_etf_int(&b, INT64_MIN);
	kp_etf_nil(&b);
	assert_int_equal(kp_batch_begin(&batch, b.p, b.len), KP_OK);
	err = kp_batch_next(&batch, ev);
	assert_int_equal(
	    kp_batch_next(&batch, &(struct kp_event){ 0 }), KP_END);
	kp_buf_free(&b);
	return err;
}

TEST(entry_limits)
{
	const int64_t top = (INT64_C(1) << 59) - 1;
	struct kp_event ev;

	assert_int_equal(entry(1, top, 1, &ev), KP_OK);
	assert_int_equal(ev.kind, KP_EV_ENTRY);
	assert_true(ev.label == (uint64_t)top);
	assert_true(ev.old_label == 1);
	assert_fields(ev, IS(weight, 1) IS(caller.n, 0) IS(identity.n, 0));
	assert_false(ev.has_from);
	assert_true(ev.ts == INT64_MIN);
	assert_int_equal(entry(UINT32_MAX, top + 1, -1, &ev), KP_OK);
	assert_true(ev.label == 0);
	assert_true(ev.old_label == 0);
	assert_true(ev.weight == UINT32_MAX);
	assert_false(ev.foreign);
	assert_int_equal(entry(1, FOREIGN, 1, &ev), KP_OK);
	assert_true(ev.foreign && ev.label == 0);
	assert_int_equal(entry(1, NO_NUMBER, 1, &ev), KP_OK);
	assert_true(!ev.foreign && ev.label == 0);
	assert_true(ev.old_label == 1);
	assert_int_equal(entry(0, 1, 1, &ev), KP_ENOENT);
	assert_int_equal(entry((int64_t)UINT32_MAX + 1, 1, 1, &ev), KP_ENOENT);
}

/* {kprof_events, Seq, SentAt, Queue, Dropped, []} */
static enum kp_err
head(int64_t seq, int64_t sent_at, int64_t queue, int64_t dropped)
{
	struct kp_batch batch;
	struct kp_buf b;
	enum kp_err err;

	kp_buf_init(&b, 1 << 16);
	kp_etf_version(&b);
	kp_etf_tuple(&b, 6);
	kp_etf_atom(&b, "kprof_events");
	kp_etf_int(&b, seq);
	kp_etf_int(&b, sent_at);
	kp_etf_int(&b, queue);
	kp_etf_int(&b, dropped);
	kp_etf_nil(&b);
	err = kp_batch_begin(&batch, b.p, b.len);
	kp_buf_free(&b);
	return err;
}

/*
 * A peer that lied sent times whose differences overflowed, and counts whose
 * sums did.
 */
TEST(what_cannot_be)
{
	const int64_t most = KP_TARGET_COUNT_MAX, end = KP_TARGET_TIME_MAX;

	assert_int_equal(head(most, end - 1, most, most), KP_OK);
	assert_int_equal(head(0, 1 - end, 0, 0), KP_OK);
	assert_int_equal(head(most + 1, 0, 0, 0), KP_EFORMAT);
	assert_int_equal(head(0, end, 0, 0), KP_EFORMAT);
	assert_int_equal(head(0, -end, 0, 0), KP_EFORMAT);
	assert_int_equal(head(0, INT64_MIN, 0, 0), KP_EFORMAT);
	assert_int_equal(head(0, 0, most + 1, 0), KP_EFORMAT);
	assert_int_equal(head(0, 0, 0, -1), KP_EFORMAT);
}

TESTS(NULL, NULL)
