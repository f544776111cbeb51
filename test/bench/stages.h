/*
 * stages.h - decode, requests and statistics in a row, for several targets, as
 * kprofd has them, but for the socket and the store.
 */
#ifndef BENCH_STAGES_H
#define BENCH_STAGES_H

#include <stdio.h>
#include <stdlib.h>

#include "kprofd/native.h"
#include "kprofd/stats.h"

#define STAGES_AT_ONCE 128

static const char stages_conf[] =
    "{tiers, [{handle, {requests,handle_request,2}},\n"
    "  {parsing, {network_server,parse_request,1}},\n"
    "  {formatter, {formatter,format_response,1}},\n"
    "  {db, [{db,network_request,1}, {db,transaction,'_'}]},\n"
    "  {accounting, {accounting,incr_reqs,1}}]}.\n"
    "{sampling, all}.\n";

struct stages {
	struct kp_conf *conf;
	struct kp_requests *rs;
	struct kp_stats *st[KP_NODES_MAX];
	struct kp_native *nd[KP_NODES_MAX];
	uint32_t targets;
	uint64_t requests, calls;
	uint64_t events;
	bool no_stats;		/* decode and requests alone */
};

static void
stages_request(void *ctx, const struct kp_request *rq)
{
	struct stages *r = ctx;

	r->requests++;
	r->calls += rq->ncalls;
	if (!r->no_stats)
		kp_stats_request(r->st[rq->node], rq);
}

static void
stages_late(void *ctx, const struct kp_late_call *c)
{
	struct stages *r = ctx;

	kp_stats_late(r->st[c->node], c);
}

static void
stages_init(struct stages *r, uint32_t targets, bool native)
{
	struct kp_requests_opts o = { .on_request = stages_request,
		.on_late = stages_late, .max_identities = 2000, .ctx = r };
	struct kp_diags d;
	char name[64];

	*r = (struct stages){ .targets = targets };
	if (kp_conf_parse(&r->conf, stages_conf, sizeof(stages_conf) - 1,
	    &d) != KP_OK)
		exit(1);
	kp_diags_free(&d);
	o.conf = r->conf;
	r->rs = kp_requests_new(&o);
	if (r->rs == NULL)
		exit(1);
	for (uint32_t i = 0; i < targets; i++) {
		snprintf(name, sizeof(name), "shop@web-%u.example.com", i + 1);
		r->st[i] = kp_stats_new(r->conf, name);
		r->nd[i] = kp_native_new();
		if (r->st[i] == NULL || r->nd[i] == NULL ||
		    kp_requests_node(r->rs, name) != i)
			exit(1);
		kp_native_restart(r->nd[i], name);
		if (native)
			kp_requests_native(r->rs, i, true);
		kp_stats_names(r->st[i], r->rs);
		kp_stats_peers(r->st[i], r->st);
	}
}

static void
stages_free(struct stages *r)
{
	kp_requests_free(r->rs);
	for (uint32_t i = 0; i < r->targets; i++) {
		kp_stats_free(r->st[i]);
		kp_native_free(r->nd[i]);
	}
	kp_conf_free(r->conf);
}

/* Reads alone; the sum is so that no work can be left out. */
static inline uint64_t
stages_decode(struct stages *r, uint32_t target, const struct kp_buf *b)
{
	struct kp_batch batch;
	struct kp_event ev;
	uint64_t sum = 0;

	if (kp_batch_begin(&batch, b->p, b->len) != KP_OK)
		exit(1);
	while (kp_events_next(r->nd[target], &batch, &ev) == KP_OK) {
		sum += ev.label + ev.pid.id + ev.mfa.n + (uint64_t)ev.ts;
		r->events++;
	}
	return sum;
}

/* As target.c does. */
static inline void
stages_feed(struct stages *r, uint32_t target, const struct kp_buf *b)
{
	struct kp_event ev[STAGES_AT_ONCE];
	struct kp_batch batch;
	enum kp_err e;
	size_t n;

	if (kp_batch_begin(&batch, b->p, b->len) != KP_OK)
		exit(1);
	do {
		n = 0;
		e = KP_OK;
		while (n < STAGES_AT_ONCE && (e = kp_events_next(r->nd[target],
		    &batch, &ev[n])) == KP_OK)
			n++;
		kp_requests_events(r->rs, target, ev, n);
		r->events += n;
	} while (e == KP_OK);
	if (e != KP_END)
		exit(1);
	kp_requests_close_due(r->rs, target, batch.sent_at);
}

#endif
