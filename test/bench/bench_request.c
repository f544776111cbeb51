/*
 * bench_request.c - what it costs to put requests together.
 *
 *	build/bench/bench_request [rounds]
 *	valgrind --tool=callgrind build/bench/bench_request 1
 *
 * Requests of ten calls each, over two processes, from bytes to statistics:
 * decode, requests, stats.  First with few in flight and then with many; then
 * how much memory those take that are in flight.  Batches are made before the
 * clock starts.  Aims: at most 500 ns an event, flat from 1 to 10,000 in
 * flight, and less than 32 MiB resident in all.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/stats.h"

#include "events.h"

#define CALLS 10			/* in a request, the entry among them */
#define EVENTS (2 * CALLS)
#define BATCH 500

static const char conf_text[] =
    "{tiers, [{handle, {requests,handle_request,2}},\n"
    "  {parsing, {network_server,parse_request,1}},\n"
    "  {formatter, {formatter,format_response,1}},\n"
    "  {db, [{db,network_request,1}, {db,transaction,'_'}]},\n"
    "  {accounting, {accounting,incr_reqs,1}}]}.\n"
    "{sampling, all}.\n";

/* Event number `step` of a request: odd calls are in a second process. */
static void
put_event(struct kp_buf *b, uint64_t label, uint32_t step)
{
	static const char *const idents[] = { "create", "update", "delete" };
	uint32_t pid = 1000 + (uint32_t)(label % 200000);
	uint32_t call = (step + 1) / 2, other = pid + 1000000;

	now += 1234;
	if (step == 0)
		put_entry(b, idents[label % 3], label, pid);
	else if (step == EVENTS - 1)
		put_return(b, &server, pid);
	else if (step % 2 == 1)
		put_call(b, &fns[call % 5 == 0 ? 1 : call % 5],
		    call % 2 == 1 ? &server : &fns[0], label,
		    call % 2 == 1 ? other : pid, pid);
	else
		put_return(b, call % 2 == 1 ? &server : &fns[0],
		    call % 2 == 1 ? other : pid);
}

static void
batch_head(struct kp_buf *b, uint32_t n)
{
	kp_buf_init(b, 1 << 20);
	kp_etf_version(b);
	kp_etf_tuple(b, 6);
	kp_etf_atom(b, "kprof_events");
	kp_etf_int(b, 1);
	kp_etf_int(b, now + 1234 * n);
	kp_etf_int(b, 0);
	kp_etf_int(b, 0);
	kp_etf_list(b, n);
}

/* One batch after the other; `flight` requests take turns, event by event. */
static void
make_batch(struct kp_buf *b, uint64_t flight, uint64_t *next)
{
	uint64_t i;

	batch_head(b, BATCH);
	for (int n = 0; n < BATCH; n++) {
		i = (*next)++;
		put_event(b, 1 + i / (flight * EVENTS) * flight + i % flight,
		    (uint32_t)(i / flight % EVENTS));
	}
	kp_etf_nil(b);
	if (b->err != KP_OK)
		exit(1);
}

struct run {
	struct kp_conf *conf;
	struct kp_requests *rs;
	struct kp_stats *st;
	uint64_t requests, calls;
};

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct run *r = ctx;

	r->requests++;
	r->calls += rq->ncalls;
	kp_stats_request(r->st, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	kp_stats_late(((struct run *)ctx)->st, c);
}

static void
run_init(struct run *r)
{
	struct kp_requests_opts o = { .on_request = on_request,
		.on_late = on_late, .ctx = r };
	struct kp_diags d;

	*r = (struct run){ 0 };
	if (kp_conf_parse(&r->conf, conf_text, sizeof(conf_text) - 1, &d) !=
	    KP_OK)
		exit(1);
	kp_diags_free(&d);
	o.conf = r->conf;
	r->rs = kp_requests_new(&o);
	r->st = kp_stats_new(r->conf, NODE);
	if (r->rs == NULL || r->st == NULL ||
	    kp_requests_node(r->rs, NODE) != 0)
		exit(1);
	kp_stats_names(r->st, r->rs);
}

static void
run_free(struct run *r)
{
	kp_requests_free(r->rs);
	kp_stats_free(r->st);
	kp_conf_free(r->conf);
}

static void
feed(struct run *r, const struct kp_buf *b)
{
	struct kp_batch batch;
	struct kp_event ev;

	if (kp_batch_begin(&batch, b->p, b->len) != KP_OK)
		exit(1);
	while (kp_batch_next(&batch, &ev) == KP_OK)
		kp_requests_event(r->rs, 0, &ev);
	kp_requests_expire(r->rs, 0, batch.sent_at);
}

static void
bench_speed(uint64_t flight, uint64_t events)
{
	struct kp_buf b;
	kp_mono_ns spent = 0, start;
	uint64_t next = 0, n = 0;
	struct run r;

	run_init(&r);
	while (n < events) {
		make_batch(&b, flight, &next);
		start = kp_mono_now();
		feed(&r, &b);
		spent += kp_mono_now() - start;
		kp_buf_free(&b);
		n += BATCH;
	}
	printf("requests: %6" PRIu64 " in flight: %5.0f ns/event "
	    "(%" PRIu64 " requests)\n", flight, (double)spent / (double)n,
	    r.requests);
	run_free(&r);
}

static long
resident_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib;
}

/* 10,000 requests, each with all ten calls made and none finished. */
static void
bench_memory(uint64_t flight)
{
	long before = resident_kib();
	uint64_t next = 0;
	struct kp_buf b;
	struct run r;

	run_init(&r);
	while (next < flight * (EVENTS - 1)) {
		make_batch(&b, flight, &next);
		feed(&r, &b);
		kp_buf_free(&b);
	}
	printf("requests: %zu in flight, of %d calls: %.1f MiB more resident, "
	    "%.1f in all\n", kp_requests_in_flight(r.rs, 0), CALLS,
	    (double)(resident_kib() - before) / 1024,
	    (double)resident_kib() / 1024);
	run_free(&r);
}

int
main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 10;

	if (rounds < 1)
		return 1;
	bench_memory(10000);
	for (uint64_t flight = 1; flight <= 10000; flight *= 10)
		bench_speed(flight, (uint64_t)rounds * 200000);
	return 0;
}
