/*
 * feed.h - events by hand for the requests stage, and what came of them as
 * text.
 *
 * Functions are named by one word ("db" is db:db/1; "set_token" and
 * "clear_token" are kprof's), processes by a number, times are in ms.  A
 * request that closes adds a line to the feed's text:
 *
 *	#1 unknown 0-10: e 0-10 | a 2-5 <0 | b 3-4 raised <1
 *
 * is request 1 of entry e, which called a, which called b; "unknown" (an end,
 * and no word of how) goes without saying for calls, "<1" names the parent by its place in the line.
 * "a@1" is a call on node 1, where the request began on another one.
 */
#ifndef TEST_FEED_H
#define TEST_FEED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/request.h"

#define FEED_NODE "n@h"
#define FEED_NODES 4
/* Where the clocks of real targets stand. */
#define FEED_T0 INT64_C(-576460751000000000)

/* Process AT(n, 7) is process 7 of node n. */
#define AT(node, pid) ((uint32_t)(node) << 24 | (pid))

static const char *const feed_names[FEED_NODES] = { FEED_NODE, "n1@h", "n2@h",
	"n3@h" };

struct feed {
	struct kp_conf *conf;
	struct kp_requests_opts opts;
	struct kp_requests *rs;
	struct kp_buf text;
	struct kp_losses lost;
	uint64_t closed, expired;
	unsigned runaways;
	uint32_t weight;	/* of the next entries */
	uint32_t serial, last;	/* of the next event's token, then 0 */
	uint32_t unbounded, unbounded_line;	/* warnings; the last one's */
	bool unbounded_label;	/* the last was of the label fun */
	kp_dur_ns queued;	/* of the last request; -1: not known */
	char traceparent[KP_TRACEPARENT];	/* its */
	kp_dur_ns clock[FEED_NODES];	/* of each, less that of node 0 */
	bool joined[FEED_NODES];
	const char *identity;	/* an atom for the next events, or NULL */
	const char *label;	/* the same, of calls */
	struct kp_span raw_identity;	/* a term instead */
};

static inline kp_target_ns
feed_time(double ms)
{
	return FEED_T0 + (kp_target_ns)(ms * 1e6);
}

static inline double
feed_ms(kp_target_ns t)
{
	return (double)(t - FEED_T0) / 1e6;
}

/* "db:db/1" as "db" */
static inline void
feed_put_fn(struct feed *f, uint32_t fn)
{
	const char *text = kp_requests_fn(f->rs, fn)->text;

	kp_buf_put(&f->text, text, strcspn(text, ":"));
	if (kp_requests_fn(f->rs, fn)->base != fn)
		kp_buf_str(&f->text, strstr(text, " ["));
}

static inline void
feed_on_request(void *ctx, const struct kp_request *rq)
{
	struct feed *f = ctx;
	const struct kp_call *c;

	f->closed++;
	f->expired += rq->expired;
	f->queued = rq->was_queued ? rq->queued : -1;
	memcpy(f->traceparent, rq->traceparent, sizeof(f->traceparent));
	/* One without a token has a label that no token has. */
	kp_buf_printf(&f->text, "#%llu%s %s",
	    rq->weight > 0 ? (unsigned long long)rq->label : 0,
	    rq->expired ? " expired" : "", kp_outcome_name(rq->outcome));
	if (rq->parent_label != 0)
		kp_buf_printf(&f->text, " in #%llu",
		    (unsigned long long)rq->parent_label);
	if (rq->identity != KP_IDENT_NONE)
		kp_buf_printf(&f->text, " '%s'",
		    kp_requests_identity(f->rs, rq->identity));
	if (rq->weight != 1)
		kp_buf_printf(&f->text, " x%u", rq->weight);
	kp_buf_printf(&f->text, " %g-%g:", feed_ms(rq->start),
	    feed_ms(rq->end));
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		kp_buf_str(&f->text, i > 0 ? " | " : " ");
		feed_put_fn(f, c->fn);
		if (c->node != rq->node)
			kp_buf_printf(&f->text, "@%u", c->node);
		kp_buf_printf(&f->text, " %g-", feed_ms(c->start));
		if (c->outcome != KP_UNFINISHED)
			kp_buf_printf(&f->text, "%g", feed_ms(c->end));
		if (c->outcome != KP_UNKNOWN)
			kp_buf_printf(&f->text, " %s",
			    kp_outcome_name(c->outcome));
		if (c->async)
			kp_buf_str(&f->text, " async");
		if (c->parent != KP_NONE)
			kp_buf_printf(&f->text, " <%u", c->parent);
	}
	kp_buf_str(&f->text, "\n");
}

static inline void
feed_on_late(void *ctx, const struct kp_late_call *c)
{
	struct feed *f = ctx;

	kp_buf_str(&f->text, c->crossed ? "crossed " : "late ");
	feed_put_fn(f, c->fn);
	if (c->crossed) {
		kp_buf_printf(&f->text, " %u\n", c->weight);
		return;
	}
	if (c->node != 0)
		kp_buf_printf(&f->text, "@%u", c->node);
	kp_buf_printf(&f->text, " %g-", feed_ms(c->start - f->clock[c->node]));
	if (c->outcome != KP_UNFINISHED)
		kp_buf_printf(&f->text, "%g",
		    feed_ms(c->end - f->clock[c->node]));
	kp_buf_printf(&f->text, " %s", kp_outcome_name(c->outcome));
	if (c->outlasts != 0 && c->outcome != KP_UNFINISHED)
		kp_buf_printf(&f->text, ", %g after",
		    (double)(c->end - c->limit) / 1e6);
	if (c->waited > 0)
		kp_buf_printf(&f->text, ", %g of it waited",
		    (double)c->waited / 1e6);
	if (c->identity != KP_IDENT_NONE)
		kp_buf_printf(&f->text, " '%s'",
		    kp_requests_identity(f->rs, c->identity));
	if (c->weight != 1)
		kp_buf_printf(&f->text, " x%u", c->weight);
	kp_buf_str(&f->text, "\n");
}

static inline void
feed_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	struct feed *f = ctx;

	(void)node;
	f->runaways++;
	kp_buf_printf(&f->text, "runaway %s\n", fn->text);
}

static inline void
feed_on_unbounded(void *ctx, uint32_t node, uint32_t line, bool label)
{
	struct feed *f = ctx;

	(void)node;
	f->unbounded_line = line;
	f->unbounded_label = label;
	f->unbounded++;
}

/* Requests of so many nodes, from the first one on. */
static inline void
feed_requests(struct feed *f, uint32_t nodes)
{
	kp_requests_free(f->rs);
	f->rs = kp_requests_new(&f->opts);
	if (f->rs == NULL)
		abort();
	for (uint32_t i = 0; i < nodes; i++)
		if (kp_requests_node(f->rs, feed_names[i]) != i)
			abort();
}

/* They go to the test's own callbacks, and runaways to nobody. */
static inline void
feed_hand_on(struct feed *f, uint32_t nodes,
    void (*on_request)(void *, const struct kp_request *),
    void (*on_late)(void *, const struct kp_late_call *))
{
	f->opts.on_request = on_request;
	f->opts.on_late = on_late;
	f->opts.on_runaway = NULL;
	feed_requests(f, nodes);
}

/* conf: text of a tiers.conf; opts: caps, or NULL for the defaults. */
static inline void
feed_init(struct feed *f, const char *conf,
    const struct kp_requests_opts *opts)
{
	struct kp_diags diags;

	*f = (struct feed){ .weight = 1 };
	if (kp_conf_parse(&f->conf, conf, strlen(conf), &diags) != KP_OK) {
		fprintf(stderr, "%s\n", diags.v[0].text);
		abort();
	}
	kp_diags_free(&diags);
	if (opts != NULL)
		f->opts = *opts;
	f->opts.conf = f->conf;
	f->opts.on_request = feed_on_request;
	f->opts.on_late = feed_on_late;
	f->opts.on_runaway = feed_on_runaway;
	f->opts.on_unbounded = feed_on_unbounded;
	f->opts.ctx = f;
	feed_requests(f, 1);
	kp_buf_init(&f->text, 1 << 24);
}

static inline void
feed_free(struct feed *f)
{
	kp_requests_free(f->rs);
	kp_conf_free(f->conf);
	kp_buf_free(&f->text);
}

static inline struct kp_pid
feed_pid(uint32_t id)
{
	const char *name = feed_names[id >> 24 & (FEED_NODES - 1)];

	return (struct kp_pid){ .node = { (const uint8_t *)name,
	    (uint32_t)strlen(name) }, .id = id & 0xFFFFFF, .creation = 1 };
}

/* The index of the node that a pid of feed_pid()'s names. */
static inline uint32_t
feed_node(const struct kp_pid *pid)
{
	uint32_t i = 0;

	while (strlen(feed_names[i]) != pid->node.n ||
	    memcmp(feed_names[i], pid->node.p, pid->node.n) != 0)
		i++;
	return i;
}

static inline struct kp_span
feed_mfa(struct kp_buf *b, const char *name)
{
	bool mark;

	kp_buf_init(b, 1 << 12);
	if (name == NULL)
		return (struct kp_span){ 0 };
	mark = strcmp(name, "set_token") == 0 ||
	    strcmp(name, "clear_token") == 0;
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, mark ? KP_MARK_MODULE : name);
	kp_etf_atom(b, name);
	kp_etf_int(b, !mark);
	return (struct kp_span){ b->p, (uint32_t)b->len };
}

/* Completes *ev with its terms and feeds it. */
static inline void
feed_event(struct feed *f, struct kp_event *ev, const char *fn,
    const char *caller)
{
	bool opens = ev->kind == KP_EV_ENTRY || ev->kind == KP_EV_CALL ||
	    ev->kind == KP_EV_CLEAR;
	struct kp_buf b[3];

	ev->mfa = feed_mfa(&b[0], fn);
	ev->caller = feed_mfa(&b[1], caller);
	kp_buf_init(&b[2], 1 << 12);
	if (ev->kind == KP_EV_CALL && f->label != NULL) {
		kp_etf_tuple(&b[2], 2);
		kp_etf_atom(&b[2], KP_LABEL_TAG);
		kp_etf_atom(&b[2], f->label);
		ev->identity = (struct kp_span){ b[2].p, (uint32_t)b[2].len };
	} else if (opens && f->identity != NULL) {
		kp_etf_atom(&b[2], f->identity);
		ev->identity = (struct kp_span){ b[2].p, (uint32_t)b[2].len };
	} else if (opens) {
		ev->identity = f->raw_identity;
	}
	ev->ts += f->clock[feed_node(&ev->pid)];
	ev->serial = f->serial;
	ev->last = f->last;
	f->serial = f->last = 0;
	kp_requests_events(f->rs, feed_node(&ev->pid), ev, 1);
	for (int i = 0; i < 3; i++)
		kp_buf_free(&b[i]);
}

static inline void
entry(struct feed *f, uint32_t pid, const char *fn, const char *caller,
    uint64_t label, double ms)
{
	feed_event(f, &(struct kp_event){ .kind = KP_EV_ENTRY,
	    .pid = feed_pid(pid), .ts = feed_time(ms), .label = label,
	    .weight = f->weight }, fn, caller);
}

/* from 0: the token names nobody. */
static inline void
call_from(struct feed *f, uint32_t pid, uint32_t from, const char *fn,
    const char *caller, uint64_t label, double ms)
{
	feed_event(f, &(struct kp_event){ .kind = KP_EV_CALL,
	    .pid = feed_pid(pid), .ts = feed_time(ms), .label = label,
	    .has_from = from != 0, .from = feed_pid(from) }, fn, caller);
}

static inline void
call(struct feed *f, uint32_t pid, const char *fn, const char *caller,
    uint64_t label, double ms)
{
	call_from(f, pid, 0, fn, caller, label, ms);
}

/* return_to */
static inline void
back_to(struct feed *f, uint32_t pid, const char *to, double ms)
{
	feed_event(f, &(struct kp_event){ .kind = KP_EV_RETURN_TO,
	    .pid = feed_pid(pid), .ts = feed_time(ms) }, to, NULL);
}

/* Time passes on the nodes that there are. */
static inline void
expire(struct feed *f, double ms)
{
	for (uint32_t i = 0; i < FEED_NODES; i++)
		if (i == 0 || f->joined[i])
			kp_requests_close_due(f->rs, i,
			    feed_time(ms) + f->clock[i]);
}

/* Another node; its clock is ahead of node 0's by this. */
static inline void
join(struct feed *f, uint32_t node, double ahead_ms)
{
	f->clock[node] = (kp_dur_ns)(ahead_ms * 1e6);
	f->joined[node] = true;
	if (kp_requests_node(f->rs, feed_names[node]) != node)
		abort();
	kp_requests_offset(f->rs, 0, 0, 0);
	kp_requests_offset(f->rs, node, -f->clock[node], 0);
}

/* The same on one node, since it was last asked. */
static inline uint64_t
lost_at(struct feed *f, uint32_t node, enum kp_loss cause)
{
	struct kp_losses l = { 0 };

	kp_requests_losses_take(f->rs, node, &l);
	return l.n[cause];
}

/* All that was lost so far for this cause. */
static inline uint64_t
lost(struct feed *f, enum kp_loss cause)
{
	kp_requests_losses_take(f->rs, 0, &f->lost);
	return f->lost.n[cause];
}

#endif
