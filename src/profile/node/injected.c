/*
 * injected.c - sends the module over rex, waits until it has started, and
 * exchanges messages with it.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/etf.h"
#include "conn/handshake.h"
#include "profile/node/injected.h"
#include "agent/agent_msg.h"
#include "agent/headroom.h"

#define START_LIMIT (70 * KP_NS_PER_S)	/* the module's own is 60 s */
#define ANSWER_LIMIT (10 * KP_NS_PER_S)
#define LEASE_EVERY KP_NS_PER_S
#define LEAVING_MS 100
#define LEAVING_TRIES 20
#define MESSAGE_MAX (1u << 20)
#define COMMAND_MAX (16u << 20)

/* ---- messages to the node ---- */

static void
put_text(struct kp_buf *b, const char *s)
{
	kp_etf_binary(b, s, strlen(s));
}

static void
put_field(struct kp_buf *b, const char *key, const char *text)
{
	kp_etf_atom(b, key);
	put_text(b, text);
}

void
injected_put_number(struct kp_buf *b, const char *key, uint64_t v)
{
	kp_etf_atom(b, key);
	kp_etf_int(b, (int64_t)v);
}

/* [{Module, Function, Arity}]: binaries, _ and -1 for any. */
void
injected_put_patterns(struct kp_buf *b, const char *key,
    const struct kp_mfa_pat *v, size_t n)
{
	kp_etf_atom(b, key);
	if (n > 0)
		kp_etf_list(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		kp_etf_tuple(b, 3);
		put_text(b, v[i].mod);
		put_text(b, v[i].fun != NULL ? v[i].fun : "_");
		kp_etf_int(b, v[i].arity);
	}
	kp_etf_nil(b);
}

static void
put_opts(struct kp_buf *b, const struct injected_opts *o,
    const struct injected_own *own, const char *self)
{
	char who[NODE_NAME_MAX + 64];

	snprintf(who, sizeof(who), "%s (process %ld)", self, (long)getpid());
	kp_etf_map(b, 12 + own->n);
	put_field(b, "who", who);
	injected_put_number(b, "lease_ms", INJECTED_LEASE_MS);
	injected_put_patterns(b, "patterns", o->patterns, o->npatterns);
	injected_put_patterns(b, "exclude", o->exclude, o->nexclude);
	put_field(b, "processes", o->processes);
	kp_etf_atom(b, "spawned");
	kp_etf_bool(b, o->spawned);
	put_field(b, "apply", o->apply);
	injected_put_number(b, "apply_ms",
	    (uint64_t)(o->apply_limit / KP_NS_PER_MS));
	injected_put_number(b, "span_ms", (uint64_t)(o->span / KP_NS_PER_MS));
	injected_put_number(b, "max_functions", o->max_functions);
	injected_put_number(b, "max_processes", o->max_processes);
	injected_put_number(b, "max_memory", o->max_memory);
	own->put(b, own->ctx);
}

static void
put_binding(struct kp_buf *b, const char *name)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, name);
}

static enum kp_err
send_start(struct injected *g, const struct injected_opts *o,
    const struct injected_own *own)
{
	const struct kp_span load = { g->code->load, g->code->load_len };
	const struct kp_span beam = { g->code->beam, g->code->beam_len };
	struct dist_ids *ids = dist_sync_ids(g->talk);
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, MESSAGE_MAX);
	msg_load_begin(&b, ids, load, beam);
	put_binding(&b, "Daemon");
	kp_buf_put(&b, ids->self.p, ids->self.len);
	put_binding(&b, "Opts");
	put_opts(&b, o, own, dist_sync_name(g->talk));
	msg_load_end(&b);
	e = dist_sync_rex(g->talk, &b);
	kp_buf_free(&b);
	return e;
}

enum kp_err
injected_send(struct injected *g, void (*put)(struct kp_buf *b, const void *ctx),
    const void *ctx)
{
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, COMMAND_MAX);
	msg_command(&b, dist_sync_ids(g->talk), ++g->ref);
	put(&b, ctx);
	e = b.err == KP_OK ? dist_sync_send(g->talk, &b) : b.err;
	kp_buf_free(&b);
	return e;
}

static void
put_word(struct kp_buf *b, const void *word)
{
	kp_etf_atom(b, word);
}

enum kp_err
injected_command(struct injected *g, const char *word)
{
	return injected_send(g, put_word, word);
}

int
injected_fd(const struct injected *g)
{
	return dist_sync_fd(g->talk);
}

enum kp_err
injected_lease(struct injected *g)
{
	if (kp_mono_now() < g->lease_at)
		return KP_OK;
	g->lease_at = kp_mono_now() + LEASE_EVERY;
	return injected_command(g, "lease");
}

/* ---- messages from the node ---- */

enum kp_err
injected_broken(const struct injected *g, enum kp_err e, char *why, size_t n)
{
	snprintf(why, n, "'%s': %s", g->target,
	    e == KP_ETIMEOUT ? "no answer from the node" :
	    e == KP_EIO ? "the connection is over (did the node end?)" :
	    e == KP_ELIMIT ? "its answer is too large (fewer functions, or "
	    "see -max-rows)" : "its answer makes no sense");
	return e;
}

void
injected_copy_text(struct kp_span s, char *text, size_t n)
{
	snprintf(text, n, "%.*s", (int)(s.n < n ? s.n : n - 1),
	    s.n > 0 ? (const char *)s.p : "");
}

static const struct {
	const char *word;
	enum kp_calls_end end;
	const char *text;	/* goes before the node's own */
} ends[] = {
	{ "returned", KP_CALLS_DONE, "" },
	{ "raised", KP_CALLS_DONE, "the call raised " },
	{ "exited", KP_CALLS_DONE, "the call's process exited: " },
	{ "overran", KP_CALLS_DONE, "" },
	{ "disarmed", KP_CALLS_DONE, "ended early: the kprofd there has gone, "
	    "and before OTP 27 counts go by its flags" },
	{ "events", KP_CALLS_EVENTS, "" },
	{ "queue", KP_CALLS_QUEUE, "" },
	{ "memory", KP_CALLS_MEMORY, "" },
};

enum kp_calls_end
injected_read_end(const struct injected *g, struct kp_term *r, char *text,
    size_t n)
{
	struct kp_span word = kp_term_atom(r);
	char said[INJECTED_TEXT_MAX] = "";

	if (kp_term_peek(r) == KP_TERM_BINARY)
		injected_copy_text(kp_term_binary(r), said, sizeof(said));
	else
		kp_term_skip(r);
	if (kp_span_is(word, "overran"))
		snprintf(said, sizeof(said), "the call was stopped after %lld "
		    "ms, without an end (see -for); processes that it started "
		    "were not", (long long)(g->apply_limit / KP_NS_PER_MS));
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (!kp_span_is(word, ends[i].word))
			continue;
		snprintf(text, n, "%s%s", ends[i].text, said);
		return ends[i].end;
	}
	snprintf(text, n, "%s", said);
	return KP_CALLS_GONE;
}

bool
injected_is_absent(const struct injected_hello *h, uint32_t place)
{
	return place < INJECTED_PATTERNS_MAX &&
	    (h->absent[place / 8] & 1 << place % 8) != 0;
}

/* A tuple of the numbers of patterns. */
static void
read_absent(struct kp_term *r, struct injected_hello *h)
{
	uint32_t n = kp_term_tuple(r);
	int64_t place;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		place = kp_term_int(r);
		if (place >= 0 && place < INJECTED_PATTERNS_MAX)
			h->absent[place / 8] |= (uint8_t)(1 << place % 8);
	}
}

static void
read_info(struct kp_term *r, struct injected_hello *h)
{
	uint32_t pairs = kp_term_map(r);
	struct kp_span key;
	char otp[8] = "";

	for (uint32_t i = 0; i < pairs && r->err == KP_OK; i++) {
		key = kp_term_atom(r);
		if (kp_span_is(key, "functions"))
			h->functions = (uint64_t)kp_term_int(r);
		else if (kp_span_is(key, "processes"))
			h->processes = (uint64_t)kp_term_int(r);
		else if (kp_span_is(key, "skipped"))
			h->skipped = (uint64_t)kp_term_int(r);
		else if (kp_span_is(key, "offset"))
			h->offset = kp_term_int(r);
		else if (kp_span_is(key, "probe"))
			h->native = kp_span_is(kp_term_atom(r), "native");
		else if (kp_span_is(key, "probe_why"))
			injected_copy_text(kp_term_binary(r), h->not_native,
			    sizeof(h->not_native));
		else if (kp_span_is(key, "collected"))
			h->no_gc = kp_span_is(kp_term_atom(r), "false");
		else if (kp_span_is(key, "evaluated"))
			h->evaluated = kp_span_is(kp_term_atom(r), "true");
		else if (kp_span_is(key, "depth"))
			h->depth = (unsigned)kp_term_int(r);
		else if (kp_span_is(key, "schedulers"))
			h->schedulers = (unsigned)kp_term_int(r);
		else if (kp_span_is(key, "absent"))
			read_absent(r, h);
		else if (kp_span_is(key, "otp"))
			kp_term_string(r, otp, sizeof(otp) - 1);
		else
			kp_term_skip(r);
	}
	h->otp = atoi(otp);
}

/* Waits for {rex, Answer}; r is at the answer. */
static enum kp_err
await_rex(struct dist_sync *t, struct kp_term *r)
{
	kp_mono_ns deadline = kp_mono_now() + ANSWER_LIMIT;
	enum kp_err e;

	do {
		e = dist_sync_next(t, deadline, r);
		if (e != KP_OK)
			return e;
		kp_term_tuple_n(r, 2);
	} while (!kp_span_is(kp_term_atom(r), "rex") || r->err != KP_OK);
	return e;
}

enum kp_err
injected_room(struct dist_sync *t, const char *target, uint64_t memory,
    char *why, size_t n)
{
	const struct injected g = { .target = target };
	struct headroom h = { 0 };
	enum kp_err e = KP_OK;
	struct kp_term r;
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	while (e == KP_OK && headroom_ask(&h, &b, dist_sync_ids(t))) {
		e = dist_sync_rex(t, &b);
		kp_buf_reset(&b);
		if (e == KP_OK)
			e = await_rex(t, &r);
		if (e != KP_OK)
			break;
		if (headroom_is_full(&r, target, why, n)) {
			kp_buf_free(&b);
			return KP_ESTATE;
		}
		headroom_answer(&h, &r);
	}
	kp_buf_free(&b);
	if (e != KP_OK)
		return e == KP_END ? e : injected_broken(&g, e, why, n);
	return headroom_refuses(&h, target, memory, why, n) ? KP_ESTATE : KP_OK;
}

/* {error, Text}, or an error of erlang/load.exprs or of rex. */
static enum kp_err
refused(const struct injected *g, struct kp_term *r, char *why, size_t n)
{
	struct kp_term at = *r;
	char text[INJECTED_TEXT_MAX];

	if (headroom_is_full(r, g->target, why, n))
		return KP_ESTATE;
	kp_term_tuple_n(&at, 2);
	kp_term_atom(&at);
	if (at.err == KP_OK && kp_term_peek(&at) == KP_TERM_BINARY)
		injected_copy_text(kp_term_binary(&at), text, sizeof(text));
	else
		msg_text(r, text, sizeof(text));
	if (strcmp(text, "{error,already}") == 0) {
		snprintf(why, n, "'%s': %s (%s:stop() there ends "
		    "it)", g->target, g->code->busy, g->code->module);
		return KP_EBUSY;
	}
	snprintf(why, n, "'%s': %s", g->target, text);
	return KP_ESTATE;
}

/* {rex, {ok, Pid, Info}} */
static enum kp_err
read_started(struct injected *g, struct kp_term *r, struct injected_hello *h,
    char *why, size_t n)
{
	struct dist_ids *ids = dist_sync_ids(g->talk);
	struct kp_term answer, check;
	struct kp_span pid;

	kp_term_tuple_n(r, 2);
	if (!kp_span_is(kp_term_atom(r), "rex") || r->err != KP_OK)
		return KP_END;
	answer = *r;
	if (kp_term_tuple(r) != 3 || !kp_span_is(kp_term_atom(r), "ok"))
		return refused(g, &answer, why, n);
	pid = kp_term_raw(r);
	read_info(r, h);
	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK)
		return injected_broken(g, KP_EFORMAT, why, n);
	kp_buf_put(&ids->peer, pid.p, pid.n);
	return ids->peer.err;
}

static enum kp_err
await_start(struct injected *g, const struct injected_opts *o,
    struct injected_hello *h, char *why, size_t n)
{
	kp_mono_ns deadline = kp_mono_now() + START_LIMIT, until;
	struct kp_term r;
	enum kp_err e;

	do {
		do {
			if (o->meanwhile != NULL)
				o->meanwhile(o->ctx);
			until = kp_mono_now() + LEASE_EVERY / 2;
			until = until < deadline ? until : deadline;
			e = dist_sync_next(g->talk, until, &r);
		} while (e == KP_ETIMEOUT && until < deadline);
		if (e == KP_END)
			return e;
		if (e != KP_OK)
			return injected_broken(g, e, why, n);
		e = read_started(g, &r, h, why, n);
	} while (e == KP_END);
	return e;
}

/* A module that has just ended may still be there for a moment: tries again. */
static enum kp_err
start(struct injected *g, const struct injected_opts *o,
    const struct injected_own *own, struct injected_hello *h, char *why, size_t n)
{
	struct pollfd wake = { .fd = o->talk.wake, .events = POLLIN };
	enum kp_err e;

	for (unsigned i = 0;; i++) {
		e = send_start(g, o, own);
		e = e == KP_OK ? await_start(g, o, h, why, n) :
		    injected_broken(g, e, why, n);
		if (e != KP_EBUSY || i == LEAVING_TRIES)
			return e;
		if (poll(&wake, 1, LEAVING_MS) > 0)
			return KP_END;
	}
}

enum kp_err
injected_start(struct injected *g, const struct injected_code *code,
    const struct injected_opts *o, const struct injected_own *own,
    struct injected_hello *h, char *why, size_t n)
{
	enum kp_err e;

	*h = (struct injected_hello){ 0 };
	*g = (struct injected){ .code = code, .target = o->talk.target,
	    .value = o->value, .apply_limit = o->apply_limit };
	e = dist_sync_open(&g->talk, &o->talk, why, n);
	if (e == KP_OK) {
		h->doubt = dist_sync_doubt(g->talk);
		e = injected_room(g->talk, g->target, o->max_memory, why, n);
	}
	if (e == KP_OK) {
		e = start(g, o, own, h, why, n);
	}
	if (e != KP_OK) {
		dist_sync_close(g->talk);
		g->talk = NULL;
	}
	g->lease_at = kp_mono_now();
	return e;
}

void
injected_leave(struct injected *g)
{
	/* The module ends with the connection too, but later. */
	if (g->talk != NULL && !g->left)
		g->gone |= injected_command(g, "stop") != KP_OK;
	g->left = true;
	g->lease_at = INT64_MAX;
}

bool
injected_stop(struct injected *g, kp_dur_ns wait)
{
	kp_mono_ns deadline = kp_mono_now() + wait;
	struct kp_term r;

	if (g->talk == NULL)
		return true;
	injected_leave(g);
	while (!g->gone && kp_mono_now() < deadline &&
	    injected_next(g, deadline, &r) == KP_OK)
		;
	dist_sync_close(g->talk);
	g->talk = NULL;
	return g->gone || wait <= 0 || kp_mono_now() < deadline;
}

/* ---- while it runs ---- */

/* {kprof_value, Text} */
static bool
is_value(const struct injected *g, const struct kp_term *r)
{
	struct kp_term at = *r;

	if (g->value == NULL || kp_term_tuple(&at) != 2 ||
	    !kp_span_is(kp_term_atom(&at), "kprof_value") ||
	    kp_term_peek(&at) != KP_TERM_BINARY)
		return false;
	injected_copy_text(kp_term_binary(&at), g->value, INJECTED_VALUE_MAX + 1);
	return true;
}

/* {kprof_ended, gone, Text}: the sentry's last message. */
static bool
is_gone(const struct kp_term *r)
{
	struct kp_term at = *r;

	return kp_term_tuple(&at) == 3 &&
	    kp_span_is(kp_term_atom(&at), "kprof_ended") &&
	    kp_span_is(kp_term_atom(&at), "gone");
}

enum kp_err
injected_next(struct injected *g, kp_mono_ns deadline, struct kp_term *r)
{
	kp_mono_ns until;
	enum kp_err e;

	for (;;) {
		if (injected_lease(g) != KP_OK)
			return KP_EIO;
		until = deadline < g->lease_at ? deadline : g->lease_at;
		e = dist_sync_next(g->talk, until, r);
		if (e == KP_OK && is_value(g, r))
			continue;
		if (e == KP_OK)
			g->gone |= is_gone(r);
		if (e != KP_ETIMEOUT || kp_mono_now() >= deadline)
			return e;
	}
}
