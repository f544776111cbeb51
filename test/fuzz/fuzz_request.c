/*
 * fuzz_request.c - any sequence of events, expiries and abandons: every entry
 * and every call is accounted for, every request that comes out is well
 * formed, and nothing stays in flight.
 *
 * The first byte chooses the release, the caps and how many nodes there are,
 * each with a clock of its own, and whether messages are timed, so that every
 * odd step is one; then each step is four bytes: what happens, where, in which
 * function, and when.  What is sent of nodes and their clocks
 * may be anything.
 */
#include "kprofd/etf.h"
#include "kprofd/label.h"
#include "kprofd/request.h"
#include "fuzz.h"

#include <string.h>

#define T0 INT64_C(-576460751000000000)
#define FNS 8	/* the last is no function: an empty span */
#define NODES 4
#define SET_TOKEN 5
#define CLEAR_TOKEN 6
#define UNOWNED (KP_LABEL_KPROFD << KP_LABEL_KIND_SHIFT | \
	(uint64_t)KP_LABEL_UNOWNED << KP_LABEL_CONST_SHIFT | 7)

static const char conf_text[] =
    "{tiers, [{web, {a,a,1}}, {db, [{b,b,1}, {c,c,1}, {d,d,1}]}]}.\n"
    "{entry, [{a,a,1}, {b,b,1}]}.\n"
    "{sampling, all}.\n";
static const char conf_mail[] =
    "{tiers, [{web, {a,a,1}}, {db, [{b,b,1}, {c,c,1}, {d,d,1}]}]}.\n"
    "{entry, [{a,a,1}, {b,b,1}]}.\n"
    "{sampling, all}.\n{messages, true}.\n";
static const char conf_finish[] =
    "{tiers, [{web, {a,a,1}}, {db, [{b,b,1}, {c,c,1}, {d,d,1}]}]}.\n"
    "{finish, {d,d,1}}.\n"
    "{sampling, all}.\n";

static struct kp_conf *confs[3];
static struct kp_span fns[FNS], idents[4];

static struct kp_requests *rs;
static uint64_t assembled, expired;
static uint64_t sent, waits;	/* messages */
static bool mail;
static uint64_t opened, handed_on, crossed;	/* entries and calls */
static uint64_t unowned;		/* events with a token of no request */
static uint64_t labelled, traced;	/* calls and requests, of all runs */
static uint32_t nodes;
static uint32_t at[NODES];	/* the index of each node; KP_NONE: none left */
static uint64_t entries;	/* and losses, of nodes that went */
static struct kp_losses lost;
static const char *const names[NODES] = { "n@h", "m@h", "l@h", "k@h" };

static void
keep(struct kp_span *s, struct kp_buf *b)
{
	REQUIRE(b->err == KP_OK);
	*s = (struct kp_span){ b->p, (uint32_t)b->len };
}

static void
setup(void)
{
	struct kp_diags d;
	struct kp_buf b;

	REQUIRE(kp_conf_parse(&confs[0], conf_text, strlen(conf_text), &d) ==
	    KP_OK);
	REQUIRE(kp_conf_parse(&confs[2], conf_mail, strlen(conf_mail), &d) ==
	    KP_OK);
	REQUIRE(kp_conf_parse(&confs[1], conf_finish, strlen(conf_finish),
	    &d) == KP_OK);
	for (uint32_t i = 0; i < FNS - 1; i++) {
		char name[2] = { (char)('a' + i), '\0' };

		kp_buf_init(&b, 100);
		kp_etf_tuple(&b, 3);
		kp_etf_atom(&b, i < SET_TOKEN ? name : "kprof");
		kp_etf_atom(&b, i < SET_TOKEN ? name :
		    i == SET_TOKEN ? "set_token" : "clear_token");
		kp_etf_int(&b, i < SET_TOKEN);
		keep(&fns[i], &b);
	}
	kp_buf_init(&b, 100);
	kp_etf_atom(&b, "undefined");
	keep(&idents[1], &b);
	kp_buf_init(&b, 100);
	kp_etf_binary(&b, "x\xff", 2);
	keep(&idents[2], &b);
	kp_buf_init(&b, 100);
	kp_etf_nil(&b);
	keep(&idents[3], &b);
}

/* A traceparent with any two bytes somewhere, in the place of an identity. */
static struct kp_span
trace_of(const uint8_t *p)
{
	static const char good[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-"
	    "00f067aa0ba902b7-01-later";
	static struct kp_buf b;
	char text[sizeof(good)];

	memcpy(text, good, sizeof(good));
	text[p[3] % 16 * 4] = (char)p[1];
	kp_buf_free(&b);
	kp_buf_init(&b, 200);
	kp_etf_tuple(&b, 3);
	kp_etf_atom(&b, KP_TRACE_TAG);
	kp_etf_binary(&b, text, p[3] < 128 ? 55 : p[3] % sizeof(good));
	kp_etf_atom(&b, "traced");
	REQUIRE(b.err == KP_OK);
	return (struct kp_span){ b.p, (uint32_t)b.len };
}

/* What a call is about: any two bytes, or what is no label. */
static struct kp_span
label_of(const uint8_t *p)
{
	static struct kp_buf b;
	const uint8_t text[2] = { p[1], p[3] };

	kp_buf_free(&b);
	kp_buf_init(&b, 100);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, KP_LABEL_TAG);
	if (p[3] % 8 == 0) {
		kp_etf_tuple(&b, 2);
		kp_etf_atom(&b, "_other");
		kp_etf_int(&b, p[1]);
	} else if (p[3] % 8 == 1) {
		kp_etf_nil(&b);
	} else {
		kp_etf_binary(&b, text, sizeof(text));
	}
	REQUIRE(b.err == KP_OK);
	return (struct kp_span){ b.p, (uint32_t)b.len };
}

/* A function with a label is one without it, and of a part of its tier. */
static void
check_fn(uint32_t fn)
{
	const struct kp_fn *f = kp_requests_fn(rs, fn);
	const struct kp_fn *base = kp_requests_fn(rs, f->base);
	size_t n = strlen(base->text);

	labelled += f != base;
	REQUIRE(base->base == f->base && base->part == 0);
	REQUIRE(strncmp(f->text, base->text, n) == 0 &&
	    (f == base) == (f->text[n] == '\0'));
	REQUIRE((f->part > 0) == (f != base && f->tiers != 0));
	REQUIRE(f->part <= kp_requests_parts(rs) &&
	    kp_requests_parts(rs) <= KP_PARTS_MAX);
	REQUIRE(f->part == 0 || strstr(kp_requests_part(rs, f->part - 1),
	    KP_PART_SEP) != NULL);
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	const struct kp_call *c;
	const struct kp_wait *w;
	char again[KP_TRACEPARENT];
	uint32_t nwaits;

	(void)ctx;
	w = kp_requests_waits(rs, &nwaits);
	waits += nwaits;
	for (uint32_t i = 0; i < nwaits; i++)
		REQUIRE(w[i].wait >= 0 && w[i].node < KP_NODES_MAX &&
		    w[i].receiver <= KP_RECEIVER_ENTRY &&
		    kp_requests_receiver(rs, w[i].receiver)[0] == '_');
	assembled += !rq->expired;
	expired += rq->expired;
	handed_on += rq->ncalls;
	REQUIRE(rq->ncalls > 0 && rq->end >= rq->start && rq->label != 0);
	REQUIRE(rq->calls[0].parent == KP_NONE && !rq->calls[0].async);
	REQUIRE(rq->outcome != KP_OPEN && rq->parent_label != rq->label);
	REQUIRE(strlen(kp_requests_identity(rs, rq->identity)) > 0);
	traced += rq->traceparent[0] != '\0';
	REQUIRE(rq->traceparent[0] == '\0' || kp_traceparent_parse(again,
	    rq->traceparent, strlen(rq->traceparent)));
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		REQUIRE(c->outcome != KP_OPEN);
		REQUIRE(c->outcome == KP_UNFINISHED || c->end >= c->start);
		REQUIRE(i == 0 || c->parent == KP_NONE || c->parent < i);
		REQUIRE(i < 2 || c->start >= rq->calls[i - 1].start);
		REQUIRE(i == 0 || c->async == (c->start >= rq->end));
		check_fn(c->fn);
		REQUIRE((rq->nodes >> c->node & 1) != 0);
	}
	REQUIRE(rq->calls[0].node == rq->node);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	(void)ctx;
	handed_on += c->outlasts == 0;	/* its request had it; crossed: nobody */
	crossed += c->crossed;
	REQUIRE(c->outcome != KP_OPEN);
	REQUIRE(c->outcome == KP_UNFINISHED || c->end >= c->start);
	REQUIRE(c->outlasts == 0 || (c->limit >= c->start && c->waited >= 0));
	check_fn(c->fn);
	REQUIRE(c->node < KP_NODES_MAX);
}

static void
on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	(void)ctx;
	REQUIRE((fn->runaway >> node & 1) != 0);
}

/* Mostly small steps; sometimes seconds, and sometimes back. */
static kp_target_ns
later(kp_target_ns now, uint8_t by)
{
	if (by < 200)
		return now + by * KP_NS_PER_US;
	if (by < 250)
		return now + (by - 199) * 100 * KP_NS_PER_MS;
	if (by < 254)
		return now + (by - 249) * 20 * KP_NS_PER_S;
	return by == 254 ? now - KP_NS_PER_MS : now - 100 * KP_NS_PER_S;
}

static struct kp_span
name_of(uint32_t node)
{
	return (struct kp_span){ (const uint8_t *)names[node], 3 };
}

/* Of each node: far apart, and near together. */
static kp_target_ns
clock_of(uint32_t node, kp_target_ns now)
{
	return now + (node == 2 ? 7 * KP_NS_PER_MS :
	    node * INT64_C(1000) * KP_NS_PER_S);
}

/* A send says nobody's name: so it is to no node that is unknown. */
static void
message(const uint8_t *p, kp_target_ns now)
{
	uint32_t node = (uint32_t)(p[0] / 5) % nodes;
	struct kp_event ev = { .pid = { name_of(node), p[1] & 7, 0, 1 },
		.ts = clock_of(node, now), .label = 1 + (p[1] >> 3 & 7),
		.kind = p[0] % 2 == 0 ? KP_EV_SEND : KP_EV_RECEIVE,
		.serial = p[2] >> 5, .last = p[1] >> 6 };

	if (ev.kind == KP_EV_RECEIVE) {
		ev.has_from = true;
		ev.from = (struct kp_pid){ name_of((node + (p[2] >> 3 & 3)) %
		    NODES), p[2] & 7, 0, 1 };
	}
	if (at[node] == KP_NONE)
		return;
	if (ev.pid.id == 0)
		opened++;	/* a bad event */
	else
		sent += ev.kind == KP_EV_SEND;
	kp_requests_events(rs, at[node], &ev, 1);
}

static void
step(const uint8_t *p, kp_target_ns now)
{
	uint32_t node = (uint32_t)(p[0] / 5) % nodes;
	struct kp_event ev = { .pid = { name_of(node), p[1] & 7, 0, 1 },
		.ts = clock_of(node, now), .mfa = fns[p[2] & 7] };

	ev.kind = (enum kp_event_kind)(p[0] % 5);
	if (p[3] >= 200 && p[3] < 220)
		ev.kind = (enum kp_event_kind)(KP_EV_IN + p[3] % 4);
	if (ev.kind == KP_EV_CALL && ((p[2] & 7) == SET_TOKEN ||
	    (p[2] & 7) == CLEAR_TOKEN))
		ev.kind = KP_EV_CLEAR;
	if (ev.kind == KP_EV_ENTRY || ev.kind == KP_EV_CALL ||
	    ev.kind == KP_EV_CLEAR) {
		ev.caller = fns[p[2] >> 3 & 7];
		ev.label = p[1] >> 3 & 7;
		ev.identity = p[2] >> 6 == 3 && ev.kind == KP_EV_CALL ?
		    label_of(p) : p[2] >> 6 == 3 && ev.kind == KP_EV_ENTRY ?
		    trace_of(p) : idents[p[2] >> 6];
		ev.has_from = (p[1] & 0xC0) != 0;
		ev.serial = p[3] % 7;
		ev.last = p[3] / 7 % 5;
		/* Of the same node, another, or one that nobody knows. */
		ev.from = (struct kp_pid){ name_of((node + (p[2] & 3) *
		    (p[1] >> 6)) % NODES), p[1] >> 6, 0, 1 };
	}
	if (ev.kind == KP_EV_ENTRY) {
		ev.old_label = p[1] >> 6 < 3 ? p[1] >> 6 : UNOWNED;
		ev.weight = 1;
	} else if (ev.label == 7 && p[3] % 3 == 0) {
		ev.label = UNOWNED;
	}
	if (at[node] == KP_NONE)
		return;
	unowned += ev.label == UNOWNED;
	/* One that clears is no call, but counts as a bad event like one. */
	opened += ev.kind == KP_EV_ENTRY || ev.kind == KP_EV_CALL ||
	    (ev.kind == KP_EV_CLEAR && (ev.pid.id == 0 || ev.mfa.n == 0));
	if (p[3] == 199 && ev.kind != KP_EV_CLEAR)
		kp_requests_pass(rs, at[node], &ev);
	else
		kp_requests_events(rs, at[node], &ev, 1);
}

static void
take_losses(void)
{
	for (uint32_t i = 0; i < KP_NODES_MAX; i++)
		kp_requests_losses_take(rs, i, &lost);
}

/* It goes, and comes again: as another, while requests know it. */
static void
come_again(uint32_t node)
{
	if (at[node] != KP_NONE) {
		kp_requests_remove(rs, at[node], KP_LOSS_TRIPPED);
		entries += kp_requests_entries(rs, at[node]);
	}
	take_losses();
	at[node] = kp_requests_node(rs, names[node]);
}

/* Time passes, an offset is another one, or a node is lost. */
static void
pass(const uint8_t *p, kp_target_ns now)
{
	uint32_t node = p[1] % nodes;

	if (p[0] == 253)
		come_again(node);
	else if (at[node] == KP_NONE)
		return;
	else if (p[0] == 255)
		kp_requests_abandon(rs, at[node], KP_LOSS_TRIPPED);
	else if (p[0] == 254 && nodes > 1)
		kp_requests_offset(rs, at[node], now - clock_of(node, now) +
		    (p[2] - 128) * KP_NS_PER_MS, p[1] * KP_NS_PER_US * 100);
	else if (p[0] == 252)
		kp_requests_set_otp(rs, at[node], 25 + (p[2] & 2));
	else
		kp_requests_close_due(rs, at[node], clock_of(node, now));
}

static void
run(const uint8_t *data, size_t size)
{
	kp_target_ns now = T0;

	for (; size >= 4; data += 4, size -= 4) {
		now = later(now, data[3]);
		if (data[0] < 250 && mail && data[3] % 2 != 0)
			message(data, now);
		else if (data[0] < 250)
			step(data, now);
		else
			pass(data, now);
	}
	/* Time may have gone back by more than a day in all. */
	for (int i = 0; i < 8; i++)
		for (uint32_t n = 0; n < nodes; n++)
			if (at[n] != KP_NONE)
				kp_requests_close_due(rs, at[n],
				    T0 + (i + 1) * 1000000 * KP_NS_PER_S);
	for (uint32_t n = 0; n < nodes; n++)
		if (at[n] != KP_NONE)
			entries += kp_requests_entries(rs, at[n]);
	take_losses();
}

/* Where each entry, and each call, has gone. */
static void
check_balance(void)
{
	uint64_t found = assembled + expired + lost.n[KP_LOSS_COLLIDED] +
	    lost.n[KP_LOSS_REQUEST_CAP] + lost.n[KP_LOSS_TRIPPED] +
	    lost.n[KP_LOSS_FOREIGN_TOKEN];

	REQUIRE(lost.n[KP_LOSS_EXPIRED] == expired);
	REQUIRE(lost.n[KP_LOSS_CROSSED] == crossed);
	/* Bad events are entries here, or calls: not told apart. */
	REQUIRE(entries >= found);
	REQUIRE(entries <= found + lost.n[KP_LOSS_BAD_EVENT]);
	found = handed_on + lost.n[KP_LOSS_COLLIDED] +
	    lost.n[KP_LOSS_REQUEST_CAP] + lost.n[KP_LOSS_TRIPPED] +
	    lost.n[KP_LOSS_CALL_CAP] + lost.n[KP_LOSS_STALE] +
	    lost.n[KP_LOSS_WITH_REQUEST] + lost.n[KP_LOSS_BAD_EVENT] +
	    lost.n[KP_LOSS_FOREIGN_TOKEN];
	/* Calls with a token of no request may be of none. */
	REQUIRE(opened >= found && opened <= found + unowned);
	REQUIRE(sent == waits + lost.n[KP_LOSS_UNRECEIVED] +
	    lost.n[KP_LOSS_MAIL_LATE] + lost.n[KP_LOSS_MAIL_CAP] +
	    lost.n[KP_LOSS_MAIL_GONE] + lost.n[KP_LOSS_MAIL_CROSSED]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_requests_opts o = { .on_request = on_request,
		.on_late = on_late, .on_runaway = on_runaway };

	if (confs[0] == NULL)
		setup();
	if (size == 0)
		return 0;
	mail = (data[0] & 32) != 0;
	o.conf = confs[mail ? 2 : data[0] & 1];
	o.chain_is_ambiguous = (data[0] & 2) != 0;
	if ((data[0] & 4) != 0) {
		o.max_requests = 3;
		o.max_calls = 5;
		o.max_stack = 6;
		o.max_identities = 4;
	}
	rs = kp_requests_new(&o);
	REQUIRE(rs != NULL);
	nodes = 1 + (data[0] >> 3 & 3);
	entries = assembled = expired = opened = handed_on = unowned = crossed = 0;
	sent = waits = 0;
	lost = (struct kp_losses){ 0 };
	for (uint32_t n = 0; n < nodes; n++) {
		at[n] = kp_requests_node(rs, names[n]);
		REQUIRE(at[n] == n);
	}
	run(data + 1, size - 1);
	for (uint32_t i = 0; i < KP_NODES_MAX; i++)
		REQUIRE(kp_requests_in_flight(rs, i) == 0);
	check_balance();
	kp_requests_free(rs);
	return 0;
}

void
fuzz_replayed(void)
{
	REQUIRE(labelled > 0 && traced > 0);
}
