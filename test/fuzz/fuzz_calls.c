/*
 * fuzz_calls.c - a kept trace of any bytes: read, added up in both clocks, and
 * shown in every form; what was read is written, and reads the same.  Events of
 * several nodes are brought in one order as well, and shown.
 * The first byte says how it is shown, or that the rest is what a tracer sends.
 */
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "calls/merge_nodes.h"
#include "calls/decode.h"
#include "profile/report/trace_report.h"

#define SLICES_MAX 4096
#define OUT_MAX (1u << 20)

static size_t first_args;	/* bytes of them, in what was read first */
static struct trace_slice slices[SLICES_MAX];
static size_t nslices;

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	(void)ctx;
	REQUIRE(to > from);
	if (nslices < SLICES_MAX)
		slices[nslices++] = (struct trace_slice){ proc, path, from,
			to };
}

static void
check_sum(const struct kp_calls_sum *s, const struct kp_call_names *t)
{
	for (uint32_t i = 0; i < s->nclocks; i++)
		REQUIRE(s->clocks[i].fn < t->nfns &&
		    s->clocks[i].caller < t->nfns &&
		    s->clocks[i].proc < t->nprocs &&
		    s->clocks[i].acc >= 0 && s->clocks[i].own >= 0);
	for (uint32_t i = 0; i < s->npaths; i++)
		REQUIRE(s->paths[i].own >= 0 &&
		    s->paths[i].depth <= KP_CALLS_DEPTH_MAX &&
		    (s->paths[i].parent == KP_PATH_NONE ||
		    s->paths[i].parent < i));
}

static void
form(void (*put)(struct kp_buf *, const struct trace_view *),
    const struct trace_view *v)
{
	struct kp_buf b;

	kp_buf_init(&b, OUT_MAX);
	put(&b, v);
	REQUIRE(b.err == KP_ELIMIT || (b.err == KP_OK &&
	    utf8_valid((const char *)b.p, b.len)));
	kp_buf_free(&b);
}

static void
show_all(const struct kp_calls_sum *s, const struct kp_critical_path *way,
    const struct kp_call_names *t, const struct kp_calls_info *info,
    unsigned how)
{
	struct trace_view v = { .names = t, .sum = s, .critical = way, .info = info,
		.no_callers = how & 2, .totals = how & 4,
		.no_details = how & 8, .by_own = how & 16,
		.reverse = how & 32, .least = how & 64 ? 0.1 : 0 };
	struct kp_buf b;

	form(trace_fprof, &v);
	form(trace_tree, &v);
	form(trace_folded, &v);
	form(trace_callgrind, &v);
	form(trace_remarks, &v);
	form(trace_requests, &v);
	kp_buf_init(&b, OUT_MAX);
	trace_viewer(&b, &v, slices, nslices, how & 2 ? FLAME_CHROME :
	    FLAME_SPEEDSCOPE);
	REQUIRE(b.err == KP_ELIMIT || b.err == KP_OK);
	kp_buf_reset(&b);
	trace_pprof(&b, &v);
	REQUIRE(b.err == KP_ELIMIT || b.err == KP_OK);
	kp_buf_free(&b);
}

/* Written again, and read: the same events. */
static void
again(const struct kp_buf *file, const struct kp_calls_reader *first)
{
	struct kp_call_names *t = kp_call_names_new();
	struct kp_calls_reader r;
	struct kp_call_event ev;
	kp_target_ns last = 0;
	size_t args = 0;

	REQUIRE(t != NULL);
	REQUIRE(kp_calls_read_begin(&r, file->p, file->len, t, false) == KP_OK);
	while (kp_calls_read(&r, &ev) == KP_OK) {
		last = ev.ts;
		args += ev.args.n;
	}
	REQUIRE(r.in.err == KP_END && last == first->last);
	REQUIRE(args == first_args);
	REQUIRE(r.info.lost == first->info.lost);
	REQUIRE(strcmp(r.info.target, first->info.target) == 0);
	REQUIRE(t->nfns <= first->names->nfns);
	kp_call_names_free(t);
}

/* Terms, one after the other; and the events that they are, as text. */
static void
take_terms(const uint8_t *data, size_t size)
{
	struct kp_call_names *t = kp_call_names_new();
	uint32_t max = size > 0 ? 16 + data[0] : 16;
	struct kp_calls_decoder *d = kp_calls_decoder_new(t, 0, max);
	struct kp_call_event ev;
	struct kp_buf text;
	struct kp_term r;
	enum kp_err e;

	REQUIRE(t != NULL && d != NULL);
	kp_buf_init(&text, OUT_MAX);
	kp_term_begin_raw(&r, data, size);
	while (r.err == KP_OK && r.p < r.end) {
		e = kp_calls_decode(d, &r, &ev);
		if (e != KP_OK)
			continue;
		REQUIRE(ev.args.n <= max && utf8_valid((const char *)
		    ev.args.p, ev.args.n));
		trace_put_event(&text, t, &ev);
	}
	kp_buf_free(&text);
	kp_calls_decoder_free(d);
	kp_call_names_free(t);
}

/* Whatever clocks are said to be. */
static void
in_bounds(const struct kp_call_names *t, const struct kp_call_event *ev)
{
	REQUIRE(ev->ts < KP_CALLS_TIME_MAX && ev->ts > -KP_CALLS_TIME_MAX);
	REQUIRE(ev->proc < t->nprocs &&
	    t->procs[ev->proc].node < t->nnodes);
}

/* Brought in order, added up and shown. */
static void
merged(const uint8_t *data, size_t size, unsigned how)
{
	struct kp_call_names *t = kp_call_names_new();
	struct kp_calls_opts o = { .cpu = how & 1, .paths = true,
		.slice = on_slice };
	struct kp_calls_sum *s = kp_calls_sum_new(&o);
	struct kp_critical_path *way = kp_critical_path_new();
	struct kp_calls_merge m;
	struct kp_call_event ev;
	struct kp_buf text;
	enum kp_err e;

	REQUIRE(t != NULL && s != NULL && way != NULL);
	nslices = 0;
	kp_buf_init(&text, OUT_MAX);
	e = kp_calls_merge_begin(&m, data, size, t);
	while (e == KP_OK && (e = kp_calls_merge_next(&m, &ev)) == KP_OK) {
		in_bounds(t, &ev);
		REQUIRE(kp_calls_sum_add(s, &ev) == KP_OK);
		REQUIRE(kp_critical_path_add(way, &ev) == KP_OK);
		trace_put_event(&text, t, &ev);
	}
	REQUIRE(kp_calls_sum_end(s) == KP_OK);
	REQUIRE(kp_critical_path_end(way) == KP_OK);
	if (e == KP_END) {
		check_sum(s, t);
		show_all(s, way, t, &m.info, how);
	}
	kp_calls_merge_free(&m);
	kp_buf_free(&text);
	kp_calls_sum_free(s);
	kp_critical_path_free(way);
	kp_call_names_free(t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_call_names *t = kp_call_names_new();
	struct kp_calls_opts o = { .paths = true, .slice = on_slice };
	struct kp_calls_writer w;
	struct kp_calls_reader r;
	struct kp_call_event ev;
	struct kp_calls_sum *s;
	struct kp_critical_path *way;
	struct kp_buf file, text;

	if (size > 0 && data[0] & 128) {
		take_terms(data + 1, size - 1);
		kp_call_names_free(t);
		return 0;
	}
	nslices = 0;
	first_args = 0;
	o.cpu = size > 0 && data[0] & 1;
	s = kp_calls_sum_new(&o);
	way = kp_critical_path_new();
	REQUIRE(t != NULL && s != NULL && way != NULL);
	kp_buf_init(&file, 1 << 24);
	kp_buf_init(&text, OUT_MAX);
	if (size > 0 && kp_calls_read_begin(&r, data + 1, size - 1,
	    t, false) == KP_OK) {
		kp_calls_write_begin(&w, &file, &r.info);
		while (kp_calls_read(&r, &ev) == KP_OK) {
			REQUIRE(kp_calls_sum_add(s, &ev) == KP_OK);
			REQUIRE(kp_critical_path_add(way, &ev) == KP_OK);
			kp_calls_write(&w, t, &ev);
			trace_put_event(&text, t, &ev);
			first_args += ev.args.n;
		}
		REQUIRE(kp_calls_sum_end(s) == KP_OK);
		check_sum(s, t);
		REQUIRE(kp_critical_path_end(way) == KP_OK);
		show_all(s, way, t, &r.info, data[0]);
		kp_calls_write_end(&w, t, &r.info);
		if (r.in.err == KP_END && file.err == KP_OK)
			again(&file, &r);
	}
	kp_buf_free(&file);
	kp_buf_free(&text);
	kp_calls_sum_free(s);
	kp_critical_path_free(way);
	kp_call_names_free(t);
	if (size > 0)
		merged(data + 1, size - 1, data[0]);
	return 0;
}
