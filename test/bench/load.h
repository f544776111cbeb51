/*
 * load.h - batches of a load that benchmarks and tests run through the stages:
 * requests of ten calls each over two processes, of which `flight` take turns,
 * event by event.  As the relay sends them, or as the native probe does, which
 * says of each call how it ended.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdio.h>
#include <stdlib.h>

#include "kprofd/native.h"

#include "../support/native_feed.h"
#include "events.h"

#define LOAD_CALLS 10		/* in a request, the entry among them */
#define LOAD_EVENTS (2 * LOAD_CALLS)
#define LOAD_BATCH 500

/* From event to event, ns. */
static kp_dur_ns step = 1234;

struct load {
	uint64_t flight;
	uint32_t idents;
	bool native;
	uint64_t next;		/* event */
	uint64_t label;		/* of the first request; 0 is 1 */
};

struct happens {
	uint64_t label;
	uint32_t nr, ident, pid, other;
	bool end;		/* of the call of fn */
	const struct fn *fn, *caller;
	uint32_t in, from;
};

/* Odd calls are in a second process. */
static inline struct happens
load_step(struct load *l)
{
	uint64_t i = l->next++;
	struct happens s = {
		.label = l->label + 1 + i / (l->flight * LOAD_EVENTS) * l->flight +
		    i % l->flight,
		.nr = (uint32_t)(i / l->flight % LOAD_EVENTS),
	};
	uint32_t call = (s.nr + 1) / 2;
	bool entry = s.nr == 0 || s.nr == LOAD_EVENTS - 1;
	bool odd = call % 2 == 1 && !entry;

	s.ident = (uint32_t)(s.label % l->idents);
	s.pid = 1000 + (uint32_t)(s.label % 200000);
	s.other = s.pid + 1000000;
	s.in = odd ? s.other : s.pid;
	s.from = s.pid;
	s.end = s.nr == LOAD_EVENTS - 1 || (s.nr > 0 && s.nr % 2 == 0);
	s.fn = &fns[entry ? 0 : call % 5 == 0 ? 1 : call % 5];
	s.caller = odd || entry ? &server : &fns[0];
	return s;
}

static inline void
ident_name(char *to, size_t n, uint32_t ident)
{
	static const char *const names[] = { "create", "update", "delete" };

	if (ident < 3)
		snprintf(to, n, "%s", names[ident]);
	else
		snprintf(to, n, "operation_%u", ident);
}

/* ---- as the relay does ---- */

static inline void
put_step(struct kp_buf *b, const struct happens *s)
{
	char ident[32];

	now += step;
	if (s->end)
		put_return(b, s->caller, s->in);
	else if (s->nr > 0)
		put_call(b, s->fn, s->caller, s->label, s->in, s->from);
	else {
		ident_name(ident, sizeof(ident), s->ident);
		put_entry(b, ident, s->label, s->pid);
	}
}

static inline void
load_head(struct kp_buf *b, uint32_t elements)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 6);
	kp_etf_atom(b, "kprof_events");
	kp_etf_int(b, 1);
	kp_etf_int(b, now + step * LOAD_BATCH);
	kp_etf_int(b, 0);
	kp_etf_int(b, 0);
	kp_etf_list(b, elements);
}

/* ---- as the native probe does: functions 1 to 6, identities from 1 on ---- */

static inline uint16_t
fn_slot(const struct fn *f)
{
	return f == &server ? 6 : (uint16_t)(f - fns + 1);
}

static inline void
record_step(struct kp_buf *b, const struct happens *s)
{
	struct kp_native_record r = { .kind = KP_NATIVE_RETURN_FROM,
		.fn = fn_slot(s->fn), .ts = now += step, .pid = s->in };

	if (!s->end) {
		r.kind = s->nr == 0 ? KP_NATIVE_ENTRY : KP_NATIVE_CALL;
		r.caller = fn_slot(s->caller);
		r.label = s->label;
		r.identity = s->nr == 0 ? (uint16_t)(1 + s->ident) : 0;
		r.flags = s->nr > 0 ? KP_NATIVE_HAS_FROM : 0;
		r.other = s->nr > 0 ? s->from : 0;
	}
	feed_record(b, &r);
}

static inline uint32_t
define_all(struct kp_buf *b, uint32_t idents)
{
	struct kp_native_record weight = { .kind = KP_NATIVE_WEIGHT,
		.label = 1 };
	const struct fn *f;
	struct kp_buf term;
	char ident[32];

	feed_record(b, &weight);
	for (uint16_t i = 1; i <= 6 + idents; i++) {
		kp_buf_init(&term, 1 << 10);
		if (i <= 6) {
			f = i == 6 ? &server : &fns[i - 1];
			feed_mfa(&term, f->mod, f->fun, f->arity);
			feed_define(b, KP_NATIVE_FN, i, &term);
		} else {
			ident_name(ident, sizeof(ident), i - 7u);
			kp_etf_atom(&term, ident);
			feed_define(b, KP_NATIVE_IDENTITY, (uint16_t)(i - 6),
			    &term);
		}
		kp_buf_free(&term);
	}
	return (uint32_t)(b->len / sizeof(weight));
}

/* ---- batches ---- */

/* The next one; what is in the native probe's first defines all. */
static inline void
load_batch(struct load *l, struct kp_buf *b)
{
	bool first = l->next == 0;
	struct kp_buf chunk;
	struct happens s;
	uint32_t records = LOAD_BATCH;

	b->len = 0;
	if (!l->native) {
		load_head(b, LOAD_BATCH);
		for (int i = 0; i < LOAD_BATCH; i++) {
			s = load_step(l);
			put_step(b, &s);
		}
	} else {
		kp_buf_init(&chunk, 1 << 20);
		if (first)
			records += define_all(&chunk, l->idents);
		for (int i = 0; i < LOAD_BATCH; i++) {
			s = load_step(l);
			record_step(&chunk, &s);
		}
		load_head(b, 1);
		kp_buf_u8(b, 109);	/* a binary of the header and these */
		kp_buf_be32(b, (uint32_t)(8 + chunk.len));
		feed_head(b, 0, records);
		kp_buf_put(b, chunk.p, chunk.len);
		kp_buf_free(&chunk);
	}
	kp_etf_nil(b);
	if (b->err != KP_OK)
		exit(1);
}

#endif
