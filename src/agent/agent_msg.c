/*
 * agent_msg.c - encodes commands, and decodes and checks answers; has no state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "kprofd/cost.h"
#include "kprofd/etf.h"
#include "kprofd/trace.h"
#include "agent/agent_msg.h"
#include "decode/term_bytes.h"

#define PPM_PER_PERCENT 10000

static void
put_raw(struct kp_buf *b, const struct kp_buf *raw)
{
	if (raw->err != KP_OK && b->err == KP_OK)
		b->err = raw->err;
	kp_buf_put(b, raw->p, raw->len);
}

/* erl_eval:expr(Expr, Bindings, none, none, value) */
void
msg_eval_begin(struct kp_buf *b, const struct dist_ids *ids,
    struct kp_span expr, uint32_t bindings)
{
	rpc_begin(b, ids, "erl_eval", "expr");
	kp_etf_list(b, 5);
	/* Without the version byte of an external term. */
	kp_buf_put(b, expr.p + 1, expr.n - 1);
	kp_etf_list(b, bindings);
}

void
msg_load_begin(struct kp_buf *b, const struct dist_ids *ids,
    struct kp_span load, struct kp_span beam)
{
	msg_eval_begin(b, ids, load, 3);
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "Beam");
	kp_etf_binary(b, beam.p, beam.n);
}

void
msg_eval_end(struct kp_buf *b)
{
	kp_etf_nil(b);
	kp_etf_atom(b, "none");
	kp_etf_atom(b, "none");
	kp_etf_atom(b, "value");
	kp_etf_nil(b);
	rpc_end(b);
}

void
msg_command(struct kp_buf *b, const struct dist_ids *ids, uint64_t ref)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "kprof");
	put_raw(b, &ids->self);
	kp_etf_int(b, (int64_t)ref);
}

static void
put_pair(struct kp_buf *b, const char *key, int64_t v)
{
	kp_etf_atom(b, key);
	kp_etf_int(b, v);
}

static void
put_limits(struct kp_buf *b, const struct kp_overload *l)
{
	put_pair(b, "max_queue", l->max_queue);
	put_pair(b, "max_memory", (int64_t)l->max_memory);
	put_pair(b, "max_age_ms", l->max_age / KP_NS_PER_MS);
}

void
msg_start_bindings(struct kp_buf *b, const struct dist_ids *ids,
    const char *who, const struct kp_overload *limits, uint32_t word)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "Daemon");
	put_raw(b, &ids->self);
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "Opts");
	kp_etf_map(b, 7);
	put_pair(b, "protocol", AGENT_PROTOCOL);
	put_pair(b, "word", word);
	put_pair(b, "lease_ms", AGENT_LEASE_MS);
	kp_etf_atom(b, "who");
	kp_etf_binary(b, who, strlen(who));
	put_limits(b, limits);
}

/* Only `check` has the modules loaded. */
void
msg_modules(struct kp_buf *b, const struct kp_conf *c, const char *command)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, command);
	if (kp_plan_modules(c, b) != KP_OK && b->err == KP_OK)
		b->err = KP_ENOMEM;
}

/* A limit in calls of armed functions per second; 0: no limit. */
static void
put_calls(struct kp_buf *b, const char *key, double percent)
{
	if (percent > 0)
		put_pair(b, key, (int64_t)kp_cost_calls(percent));
}

/*
 * The match spec for the agent's own function that measures what tracing adds to
 * a call; exact with the native probe, as most tiers' are.
 */
static void
put_traced(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_spec_params *params, bool native)
{
	const struct kp_mfa f = { "kprof_agent", "traced_inside", 0 };
	struct kp_spec_params p = *params;

	p.exact = native;
	p.gives_tokens = false;
	if (kp_spec_tier(c, &f, &p, b) != KP_OK && b->err == KP_OK)
		b->err = KP_ENOMEM;
}

/* The limits that the agent observes, and the flags that match specs set. */
static void
put_terms(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_spec_params *p, bool native)
{
	/* Slices keep to the budget by themselves, and need no function to go. */
	bool keeps = c->budget > 0 && c->sampling.kind != KP_SAMPLE_SLICES;

	kp_etf_map(b, 6 + (c->hot_share > 0) + keeps +
	    (c->stacks.per_second > 0));
	put_limits(b, &c->overload);
	put_calls(b, "hot", c->hot_share);
	if (keeps)
		put_calls(b, "calls", c->budget);
	if (c->stacks.per_second > 0) {
		kp_etf_atom(b, "stacks");
		kp_etf_tuple(b, 2);
		kp_etf_int(b, c->stacks.per_second);
		kp_etf_int(b, (int64_t)(c->stacks.percent * PPM_PER_PERCENT +
		    0.5));
	}
	kp_etf_atom(b, "messages");
	kp_etf_bool(b, c->messages);
	kp_etf_atom(b, "flags");
	kp_spec_flags(c, p->gc_shared, b);
	kp_etf_atom(b, "traced");
	put_traced(b, c, p, native);
}

/* ---- lists of functions of a plan ---- */

static bool
is_armed(const struct kp_plan_item *i)
{
	return !i->disarmed;
}

static bool
is_tier(const struct kp_plan_item *i)
{
	return !i->entry && !i->clears && !i->disarmed;
}

static bool
is_entry(const struct kp_plan_item *i)
{
	return i->entry && !i->disarmed;
}

static bool
is_put(const struct kp_plan_item *i)
{
	return i->op == KP_PLAN_PUT;
}

static bool
is_taken(const struct kp_plan_item *i)
{
	return i->op == KP_PLAN_TAKE;
}

static bool
is_measured(const struct kp_plan_item *i)
{
	return i->probe;
}

static bool
may_be_loop(const struct kp_plan_item *i)
{
	return i->probe && i->exact && !i->exact_forced;
}

static bool
may_be_loop_in_check(const struct kp_plan_item *i)
{
	return i->probe && (i->entry || (i->exact && !i->exact_forced));
}

/* params: with their match specs; NULL: {Mod, Fun, Arity} alone. */
static enum kp_err
put_items(struct kp_buf *b, const struct kp_plan *plan,
    bool (*picked)(const struct kp_plan_item *), const struct kp_conf *c,
    const struct kp_spec_params *params)
{
	const struct kp_plan_item *p, *end = plan->v + plan->n;
	enum kp_err e = KP_OK;
	uint32_t n = 0;

	for (p = plan->v; p < end; p++)
		n += picked(p);
	if (n > 0)
		kp_etf_list(b, n);
	for (p = plan->v; p < end && e == KP_OK; p++) {
		if (!picked(p))
			continue;
		if (params != NULL)
			e = kp_plan_put_item(b, c, p, *params);
		else
			kp_plan_put_mfa(b, p);
	}
	kp_etf_nil(b);
	return e != KP_OK ? e : b->err;
}

enum kp_err
msg_arm(struct kp_buf *b, const struct kp_conf *c, const struct kp_plan *plan,
    const struct kp_spec_params *params)
{
	enum kp_err e;

	kp_etf_tuple(b, 3);
	kp_etf_atom(b, params->sliced ? "plan" : "arm");
	e = put_items(b, plan, is_armed, c, params);
	put_terms(b, c, params, plan->native);
	return e != KP_OK ? e : b->err;
}

enum kp_err
msg_close(struct kp_buf *b, const struct kp_conf *c, const struct kp_plan *plan,
    const struct kp_spec_params *params)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "close");
	if (params->watch)
		return put_items(b, plan, is_entry, c, params);
	kp_etf_nil(b);
	return b->err;
}

enum kp_err
msg_tiers(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *plan, const struct kp_spec_params *params)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "tiers");
	return put_items(b, plan, is_tier, c, params);
}

enum kp_err
msg_change(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *want, const struct kp_plan *armed,
    const struct kp_spec_params *params)
{
	enum kp_err e;

	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "change");
	put_items(b, armed, is_taken, NULL, NULL);
	e = put_items(b, want, is_put, c, params);
	put_terms(b, c, params, want->native);
	return e != KP_OK ? e : b->err;
}

void
msg_may(struct kp_buf *b, const struct kp_plan *want)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "may");
	put_items(b, want, is_put, NULL, NULL);
}

void
msg_rates(struct kp_buf *b, const struct kp_plan *plan, unsigned ms,
    bool check)
{
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "rates");
	put_items(b, plan, is_measured, NULL, NULL);
	put_items(b, plan, check ? may_be_loop_in_check : may_be_loop, NULL, NULL);
	kp_etf_int(b, ms);
}

/* ---- other commands ---- */

void
msg_spec(struct kp_buf *b, const struct kp_plan_item *item,
    const struct kp_buf *spec)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "spec");
	kp_plan_put_mfa(b, item);
	if (spec != NULL)
		put_raw(b, spec);
	else
		kp_etf_bool(b, false);
}

static void
procs_list(struct kp_buf *b, const uint64_t *procs, size_t n)
{
	if (n > 0)
		kp_etf_list(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		kp_etf_tuple(b, 2);
		kp_etf_int(b, (int64_t)(uint32_t)procs[i]);
		kp_etf_int(b, (int64_t)(procs[i] >> 32));
	}
	kp_etf_nil(b);
}

void
msg_procs(struct kp_buf *b, const char *command, const uint64_t *procs,
    size_t n)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, command);
	procs_list(b, procs, n);
}

void
msg_waits(struct kp_buf *b, const uint64_t *procs, size_t n,
    const uint64_t *servers, size_t m)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "waits");
	procs_list(b, procs, n);
	procs_list(b, servers, m);
}

/* ---- answers ---- */

/* An implausible value ends the reading like any other error. */
static void
demand(struct kp_term *r, bool good)
{
	if (!good)
		term_fail(r, KP_EFORMAT);
}

/* The name goes into match specs, logs and the database: only safe UTF-8. */
static void
read_node(struct kp_term *r, char *node, size_t size)
{
	struct kp_span s = kp_term_atom(r);
	size_t len = 1;
	uint32_t c;

	demand(r, s.n > 0 && s.n < size);
	for (size_t i = 0; r->err == KP_OK && i < s.n; i += len) {
		c = utf8_next(s.p + i, s.n - i, &len);
		demand(r, c != UTF8_BAD && !utf8_unsafe(c));
	}
	if (r->err == KP_OK)
		snprintf(node, size, "%.*s", (int)s.n, (const char *)s.p);
}

static void
hello_field(struct kp_term *r, struct kp_span key, struct agent_hello *h)
{
	char otp[8] = "";

	if (kp_span_is(key, "node")) {
		read_node(r, h->node, sizeof(h->node));
	} else if (kp_span_is(key, "otp")) {
		kp_term_string(r, otp, sizeof(otp) - 1);
		h->otp = atoi(otp);
		demand(r, h->otp > 0 && h->otp < 1000);
	} else if (kp_span_is(key, "protocol")) {
		h->protocol = kp_term_int(r);
	} else if (kp_span_is(key, "time_offset")) {
		h->time_offset = kp_term_time(r);
	} else if (kp_span_is(key, "session")) {
		h->session = kp_span_is(kp_term_atom(r), "true");
	} else if (kp_span_is(key, "gc_shared")) {
		h->gc_shared = kp_span_is(kp_term_atom(r), "true");
	} else {
		kp_term_skip(r);
	}
}

enum kp_err
msg_read_hello(struct kp_term *r, struct dist_ids *ids,
    struct agent_hello *h)
{
	struct kp_span tag, pid;
	struct kp_term check;
	uint32_t n;

	*h = (struct agent_hello){ 0 };
	kp_term_tuple_n(r, 3);
	tag = kp_term_atom(r);
	pid = kp_term_raw(r);
	n = kp_term_map(r);
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		tag = kp_term_atom(r);
		hello_field(r, tag, h);
	}
	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK ||
	    h->node[0] == '\0' || h->otp == 0)
		return KP_EFORMAT;
	kp_buf_reset(&ids->peer);
	kp_buf_put(&ids->peer, pid.p, pid.n);
	return ids->peer.err;
}

void
msg_text(struct kp_term *r, char *text, size_t n)
{
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	kp_term_print(r, &b, n - 1);
	snprintf(text, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

enum kp_err
msg_read_status(struct kp_term *r, struct agent_status *st,
    struct kp_span *name, char *reason, size_t n)
{
	*st = (struct agent_status){ 0 };
	st->now = kp_term_time(r);
	st->time_offset = kp_term_time(r);
	*name = kp_term_atom(r);
	msg_text(r, reason, n);
	st->seq = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->queue = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->memory = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->sent = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->dropped = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->dropped_entries = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->entry_calls = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->unarmed_calls = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->busy = kp_term_time(r);
	demand(r, st->busy >= 0);
	st->tier_calls = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->lease = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->foreign = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->ceded = kp_term_count(r, KP_TARGET_COUNT_MAX);
	st->held = kp_term_time(r);
	demand(r, st->held >= 0);
	st->switches = kp_term_count(r, KP_TARGET_COUNT_MAX);
	return kp_term_finish(r);
}

enum kp_err
msg_read_rates(struct kp_term *r, struct kp_plan *plan)
{
	uint32_t n = kp_term_list(r);
	struct kp_plan_item *p;
	struct kp_span m, f;
	int64_t arity, rate;
	bool loop, recursive;

	/* More than were asked for would cost a search of the plan each. */
	if (n > plan->n)
		return KP_EFORMAT;
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 4);
		kp_term_tuple_n(r, 3);
		m = kp_term_atom(r);
		f = kp_term_atom(r);
		arity = kp_term_int(r);
		rate = kp_term_int(r);
		loop = kp_span_is(kp_term_atom(r), "true");
		recursive = kp_span_is(kp_term_atom(r), "true");
		p = kp_plan_find(plan, m, f, arity);
		if (p != NULL) {
			p->rate = rate;
			p->loop = loop;
			p->recursive = recursive;
		}
	}
	if (n > 0)
		kp_term_nil(r);
	return kp_term_finish(r);
}
