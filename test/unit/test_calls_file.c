/*
 * Kept traces: what is written is read again, cut anywhere it is read up to
 * there, and what is no trace is refused; and what a tracer sends as terms.
 */
#include "cases.h"
#include "calls_feed.h"
#include "calls/decode.h"
#include "kprofd/etf.h"

static struct calls_feed feed;
static struct kp_buf file;

FIXTURE(setup)
{
	feed.names = kp_call_names_new();
	feed.n = 0;
	kp_buf_init(&file, 1 << 20);
	return feed.names == NULL;
}

FIXTURE(teardown)
{
	kp_call_names_free(feed.names);
	kp_buf_free(&file);
	return 0;
}

/* One event of each kind, in two processes, one of which has a name. */
static void
sample(void)
{
	struct kp_calls_info info = { .target = "app@host", .otp = 27,
		.offset = -5, .end = KP_CALLS_QUEUE, .lost = 300,
		.requests = 900, .begun = 7, .ended = 6 };
	struct kp_calls_writer w;

	feed_call(&feed, 0, -5000000, 'a', '?');
	feed_call(&feed, 0, -4999999, 'b', 'a');
	feed.v[feed.n - 1].args = feed_span("1, {a,\"b\"}");
	feed_spawn(&feed, 0, -4999990, 1, 'c');
	feed_at(&feed, KP_CALL_RETURN_TO, 0, -4999980, 'a');
	feed_at(&feed, KP_CALL_IN, 1, -4999985, 'c');
	feed_at(&feed, KP_CALL_OUT, 1, -4999970, '?');
	feed_at(&feed, KP_CALL_GC_START, 1, 0, '?');
	feed_at(&feed, KP_CALL_GC_END, 1, 1, '?');
	feed_at(&feed, KP_CALL_EXIT, 1, 7000000, '?');
	feed_put(&feed, KP_CALL_REQUEST, 1, 7000000, 0, 300);
	kp_call_proc_name(feed.names, 1, feed_span("server"));
	kp_calls_write_begin(&w, &file, &info);
	for (size_t i = 0; i < feed.n; i++)
		kp_calls_write(&w, feed.names, &feed.v[i]);
	kp_calls_write_end(&w, feed.names, &info);
	assert_int_equal(file.err, KP_OK);
}

static void
same_event(const struct kp_call_event *a, const struct kp_call_event *b)
{
	assert_memory_equal(a, b, offsetof(struct kp_call_event, args));
	assert_int_equal(a->args.n, b->args.n);
	if (a->args.n > 0)
		assert_memory_equal(a->args.p, b->args.p, a->args.n);
}

TEST(test_round_trip)
{
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_reader r;
	struct kp_call_event ev;

	sample();
	assert_int_equal(kp_calls_read_begin(&r, file.p, file.len, names, false),
	    KP_OK);
	for (size_t i = 0; i < feed.n; i++) {
		assert_int_equal(kp_calls_read(&r, &ev), KP_OK);
		same_event(&ev, &feed.v[i]);
	}
	assert_int_equal(kp_calls_read(&r, &ev), KP_END);
	assert_int_equal(kp_calls_read(&r, &ev), KP_END);
	assert_fields(r, IS(info.target, "app@host") IS(info.otp, 27)
	    IS(info.offset, -5) IS(info.end, KP_CALLS_QUEUE) IS(info.lost, 300)
	    IS(info.requests, 900) IS(info.begun, 7) IS(info.ended, 6));
	assert_int_equal(names->nfns, feed.names->nfns);
	assert_string_equal(names->fns[KP_FN_FIRST + 1].fun, "b");
	assert_fields(*names, IS(nprocs, 2) IS(procs[1].id, 101)
	    IS(procs[1].name, "server"));
	assert_null(names->procs[0].name);
	kp_call_names_free(names);
}

/* How many events are read of so many bytes; -1: it is refused. */
static int
read_part(size_t n, enum kp_calls_end *end)
{
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_reader r;
	struct kp_call_event ev;
	int events = 0;

	if (kp_calls_read_begin(&r, file.p, n, names, false) == KP_OK)
		while (kp_calls_read(&r, &ev) == KP_OK)
			events++;
	if (r.in.err != KP_END)
		events = -1;
	*end = r.info.end;
	kp_call_names_free(names);
	return events;
}

/* Whoever wrote it was killed: what is there counts. */
TEST(test_cut)
{
	enum kp_calls_end end;
	int last = -1, n;

	sample();
	for (size_t i = 0; i < file.len; i++) {
		n = read_part(i, &end);
		assert_true(n >= last && n <= (int)feed.n);
		assert_int_equal(end, KP_CALLS_CUT);
		last = n;
	}
	assert_int_equal(last, feed.n);
	assert_int_equal(read_part(file.len, &end), feed.n);
	assert_int_equal(end, KP_CALLS_QUEUE);
}

TEST(test_refused)
{
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_reader r;

	sample();
	file.p[7]++;
	assert_int_equal(kp_calls_read_begin(&r, file.p, file.len, names, false),
	    KP_ESTATE);
	file.p[7]--;
	file.p[0]++;
	assert_int_equal(kp_calls_read_begin(&r, file.p, file.len, names, false),
	    KP_EFORMAT);
	assert_int_equal(kp_calls_read_begin(&r, "", 0, names, false), KP_EFORMAT);
	kp_call_names_free(names);
}

/* After a good beginning: records that cannot be. */
TEST(test_bad_records)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
		{ "\x63", 1 },			/* no such tag */
		{ "\x01\0\0\3\0", 5 },		/* a process that is not */
		{ "P\1\0\x01\0\0\x09\0", 8 },	/* a function that is not */
		{ "P\1\0\x02\0\0\1", 7 },	/* suspend, by its number */
		{ "P\1\0\x01\0\0\0\0", 8 },	/* a call of nothing */
		{ "P\1\0P\1\0", 6 },		/* twice the same */
		{ "P\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f", 11 },
		{ "F\0\1f\0", 5 },		/* no module */
		{ "F\1m\1f\x80\x02", 7 },	/* an arity of 256 */
		{ "F\x81\x08", 3 },		/* a name that is too long */
		{ "N\0\1n", 4 },		/* of a process that is not */
		{ "E\x63\0", 3 },		/* no such end */
		{ "E\1\0E", 4 },		/* something after it */
		{ "A\0", 2 },			/* no arguments */
		{ "A\x81\x20", 3 },		/* more than there can be */
		{ "A\1xA\1x", 6 },		/* of no call */
		{ "A\1xE\1\0", 6 },
		{ "P\1\0A\1x\x08\0\0", 9 },
		{ "Q\2\3\0", 4 },		/* more than were asked for */
		{ "Q\2\1\2", 4 },		/* more ended than begun */
		{ "P\1\0\x09\0\0\x80\x80\x40", 9 },	/* too many requests */
		{ "P\1\0\x08\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 15 },
		{ "P\1\0\x08\0\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", 14 },
	};
	struct kp_calls_info info = { .target = "a@b" };
	struct kp_calls_writer w;
	enum kp_calls_end end;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		kp_buf_reset(&file);
		kp_calls_write_begin(&w, &file, &info);
		assert_int_equal(read_part(file.len, &end), 0);
		kp_buf_put(&file, bad[i].bytes, bad[i].n);
		if (read_part(file.len, &end) != -1)
			fail_msg("bad record %zu is read", i);
	}
}

/* ---- terms ---- */

static void
put_mfa(char c)
{
	char fun[2] = { c, '\0' };

	kp_etf_tuple(&file, 3);
	kp_etf_atom(&file, "t");
	kp_etf_atom(&file, fun);
	kp_etf_int(&file, 0);
}

static void
put_head(uint32_t arity, const char *word)
{
	kp_etf_tuple(&file, arity);
	kp_etf_atom(&file, "trace_ts");
	kp_etf_pid(&file, "a@b", 100, 0, 3);
	kp_etf_atom(&file, word);
}

static char args[64];		/* of the event that was decoded last */
static enum kp_call_kind second;	/* its kind when it came again */

static enum kp_err
decode(struct kp_call_event *ev)
{
	struct kp_calls_decoder *d = kp_calls_decoder_new(feed.names,
	    0, 40);
	struct kp_call_event again;
	struct kp_term r;
	enum kp_err e;

	/* The second time by its bytes alone. */
	kp_term_begin_raw(&r, file.p, file.len);
	e = kp_calls_decode(d, &r, ev);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	kp_term_begin_raw(&r, file.p, file.len);
	assert_int_equal(kp_calls_decode(d, &r, &again), e);
	second = again.kind;
	again.kind = ev->kind;
	assert_memory_equal(ev, &again,
	    offsetof(struct kp_call_event, args));
	snprintf(args, sizeof(args), "%.*s", (int)again.args.n,
	    (const char *)again.args.p);
	kp_calls_decoder_free(d);
	kp_buf_reset(&file);
	return e;
}

static void
event_is(const struct kp_call_event *ev, enum kp_call_kind kind, char fn,
    uint32_t other)
{
	assert_fields(*ev, IS(kind, kind) IS(proc, 0) IS(ts, -77)
	    IS(fn, feed_fn(&feed, fn)) IS(other, other));
}

/* What -apply names is evaluated by a process of ours, which then waits to be asked
   for the value: in a trace it has exited. */
TEST(test_decode_applied)
{
	static const struct {
		const char *mod, *fun, *word;
		enum kp_call_kind kind;
	} met[] = {
		{ "kprof_tracer", "told", "out", KP_CALL_EXIT },
		{ "kprof_tracer", "told", "in", KP_CALL_IN },
		{ "kprof_tracer", "told", "return_to", KP_CALL_RETURN_TO },
		{ "kprof_tracer", "applied", "out", KP_CALL_OUT },
	};
	struct kp_call_event ev;

	for (size_t i = 0; i < sizeof(met) / sizeof(met[0]); i++) {
		put_head(5, met[i].word);
		kp_etf_tuple(&file, 3);
		kp_etf_atom(&file, met[i].mod);
		kp_etf_atom(&file, met[i].fun);
		kp_etf_int(&file, 2);
		kp_etf_int(&file, -77);
		assert_int_equal(decode(&ev), KP_OK);
		event_is(&ev, met[i].kind, '?', 0);
		/* The process of -apply exits once. */
		assert_int_equal(second, met[i].kind != KP_CALL_EXIT ?
		    met[i].kind : KP_CALL_OUT);
	}
}

TEST(test_decode)
{
	struct kp_call_event ev;

	put_head(6, "call");
	put_mfa('f');
	put_mfa('g');
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_OK);
	event_is(&ev, KP_CALL_CALL, 'f', feed_fn(&feed, 'g'));
	put_head(6, "call");
	put_mfa('f');
	kp_etf_atom(&file, "undefined");
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_OK);
	event_is(&ev, KP_CALL_CALL, 'f', KP_FN_UNDEFINED);
	put_head(5, "out");
	kp_etf_int(&file, 0);
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_OK);
	event_is(&ev, KP_CALL_OUT, '?', 0);
	put_head(6, "spawn");
	kp_etf_pid(&file, "a@b", 101, 0, 3);
	put_mfa('h');
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_OK);
	event_is(&ev, KP_CALL_SPAWN, 'h', 1);
	put_head(5, "gc_end");
	kp_etf_int(&file, 0);
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_OK);
	event_is(&ev, KP_CALL_GC_END, '?', 0);
	put_head(5, "request");
	kp_etf_int(&file, 9);
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_OK);
	event_is(&ev, KP_CALL_REQUEST, '?', 9);
}

TEST(test_decode_refused)
{
	struct kp_call_event ev;

	put_head(5, "link");
	kp_etf_int(&file, 0);
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_ENOENT);
	put_head(5, "call");
	put_mfa('f');
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_ENOENT);
	put_head(5, "request");
	kp_etf_int(&file, -1);
	kp_etf_int(&file, -77);
	assert_int_equal(decode(&ev), KP_ENOENT);
	put_head(5, "in");
	kp_etf_int(&file, 0);
	kp_etf_int(&file, KP_CALLS_TIME_MAX);
	assert_int_equal(decode(&ev), KP_ENOENT);
	kp_etf_atom(&file, "x");
	assert_int_equal(decode(&ev), KP_ENOENT);
	assert_int_equal(feed.names->nfns, KP_FN_FIRST);
}

/* ---- arguments ---- */

/* f(..) called by g: up to where its arguments begin. */
static void
put_call(void)
{
	put_head(6, "call");
	put_mfa('f');
	kp_etf_tuple(&file, 2);
	put_mfa('g');
}

/* A description, in letters: its result as text, or NULL if it is none. */
static const char *
described(const char *s)
{
	struct kp_call_event ev;

	put_call();
	for (; *s != '\0'; s++) {
		if (*s >= '0' && *s <= '9')
			kp_etf_tuple(&file, (uint32_t)(*s - '0'));
		else if (*s == 'T' || *s == 'F')
			kp_etf_atom(&file, *s == 'T' ? "true" : "false");
		else if (*s == 'i')
			kp_etf_int(&file, *++s);
		else if (*s == 'n')
			kp_etf_int(&file, *++s - '0');
		else if (*s == 'b')
			kp_etf_binary(&file, "bin\x1b", 4);
		else if (*s == 'p')
			kp_etf_pid(&file, "a@b", 7, 1, 3);
		else if (*s == 'q')
			kp_etf_pid(&file, "c@d", 7, 1, 3);
		else
			kp_etf_atom(&file, *s == 'm' ? "more" : "other");
	}
	kp_etf_int(&file, -77);
	return decode(&ev) == KP_OK ? args : NULL;
}

TEST(test_args)
{
	static const struct {
		const char *of, *text;
	} all[] = {
		{ "0", "" },
		{ "11p", "<0.7.1>" },
		{ "32" "1iaF" "1T" "F", "97, true, ..." },
		{ "21oF", "other, ..." },
		{ "21oo", NULL },
		{ "21om", "other, ..." },
		{ "12F7FFFFFFF", "..." },
		{ "12F7FFFFTFF", "#Fun" },
		{ "12F7FFFFFTF", "#Ref" },
		{ "12F7FFFFFFT", "#Integer" },
		/* {a tuple of 2, 3}, of none, and of what is not looked at */
		{ "12F73n2" "1o" "21TF" "FFFFFF", "{other,true}" },
		{ "12F73n3" "1o" "F" "FFFFFF", "{other,...,...}" },
		{ "12F73n1" "1o" "F" "FFFFFF", "{other}" },
		{ "12F71n0" "FFFFFF", "{}" },
		{ "12F71n2" "FFFFFF", "{...}" },
		{ "12F73n1" "FF" "FFFFFF", "{...}" },
		/* lists: proper, cut, improper; and of characters */
		{ "12F7F2" "1o" "F" "FFFFF", "[other]" },
		{ "12F7F2" "1o" "12" "F" "F" "FFFFF", "[other,...]" },
		{ "12F7F2" "1o" "1T" "FFFFF", "[other,...]" },
		{ "12F7F2" "1o" "1F" "FFFFF", "[other|...]" },
		{ "12F7F2" "1ia" "12" "21ibF" "F" "FFFFF", "\"ab\"" },
		{ "12F7F2" "1ia" "12" "1ib" "1T" "FFFFF", "\"ab\"..." },
		{ "12F7F2" "1ia" "1F" "FFFFF", "[97|...]" },
		{ "12F7F2" "1ia" "12" "1n0" "F" "FFFFF", "[97,0]" },
		/* maps, and with a struct */
		{ "12F7FF2n0F" "FFFF", "#{}" },
		{ "12F7FF2n1F" "FFFF", "#{1 key}" },
		{ "12F7FF2n2o" "FFFF", "#other{2 keys}" },
		{ "12F7FFF2n9F" "FFF", "<<9 bytes>>" },
		{ "12F7FFF2n9b" "FFF", "<<98,105,110,27...>>" },
		/* what is none of these */
		{ "o", NULL },
		{ "14FFFF", NULL },
		{ "12F6FFFFFF", NULL },
		{ "12F7F2" "1o" "2FF" "FFFFF", NULL },
		{ "12F7oFFFFFF", NULL },
		{ "12F70FFFFFF", NULL },
		/* deeper than it is ever looked at */
		{ "12F72n1" "2F72n1" "2F72n1" "2F72n1" "2F72n1" "2F72n1" "1o"
		    "FFFFFF" "FFFFFF" "FFFFFF" "FFFFFF" "FFFFFF" "FFFFFF",
		    NULL },
		/* 40 bytes, no more */
		{ "61bF1bF1bF", "<<98,105,110,27>>, ..., <<98,105,110,..." },
		{ "61b1b1b1b1b1b", "<<98,105,110,27>>, <<98,105,110,27>>,..." },
	};
	const char *text;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		text = described(all[i].of);
		if ((text == NULL) != (all[i].text == NULL))
			fail_msg("'%s' is %s", all[i].of,
			    text != NULL ? text : "refused");
		if (text != NULL)
			assert_string_equal(text, all[i].text);
	}
	assert_has(described("11q"), "c@d");
}

TESTS(setup, teardown)
