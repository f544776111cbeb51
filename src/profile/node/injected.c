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
#define LEAVING (2 * KP_NS_PER_S)
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
    const struct kp_buf *own, uint32_t nown, const char *self)
{
	char who[NODE_NAME_MAX + 64];

	snprintf(who, sizeof(who), "%s (process %ld)", self, (long)getpid());
	kp_etf_map(b, 12 + nown);
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
	kp_buf_put(b, own->p, own->len);
}

static enum kp_err
send_start(struct injected *g, const struct injected_opts *o,
    const struct kp_buf *own, uint32_t nown)
{
	const struct kp_span load = { g->code->load, g->code->load_len };
	const struct kp_span beam = { g->code->beam, g->code->beam_len };
	struct dist_ids *ids = dist_sync_ids(g->talk);
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, MESSAGE_MAX);
	msg_load_begin(&b, ids, load, beam);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "Daemon");
	kp_buf_put(&b, ids->self.p, ids->self.len);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "Opts");
	put_opts(&b, o, own, nown, dist_sync_name(g->talk));
	msg_eval_end(&b);
	e = own->err != KP_OK ? own->err : dist_sync_rpc(g->talk, &b);
	kp_buf_free(&b);
	return e;
}

void
injected_begin(struct injected *g, struct kp_buf *b)
{
	kp_buf_init(b, COMMAND_MAX);
	msg_command(b, dist_sync_ids(g->talk), ++g->ref);
}

enum kp_err
injected_send(struct injected *g, struct kp_buf *b)
{
	enum kp_err e = b->err == KP_OK ? dist_sync_send(g->talk, b) : b->err;

	kp_buf_free(b);
	return e;
}

enum kp_err
injected_command(struct injected *g, const char *word)
{
	struct kp_buf b;

	injected_begin(g, &b);
	kp_etf_atom(&b, word);
	return injected_send(g, &b);
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
injected_broken(const char *target, enum kp_err e, char *why, size_t n)
{
	snprintf(why, n, "'%s': %s", target,
	    e == KP_ETIMEOUT ? "no answer from the node" :
	    e == KP_EIO ? "the connection is over (did the node end?)" :
	    e == KP_ELIMIT ? "its answer is too large (fewer functions, or "
	    "see -processes)" : "its answer makes no sense");
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
	const char *text;	/* precedes the node's own */
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

void
injected_read_end(struct injected *g, struct kp_term *r)
{
	struct kp_span word = kp_term_atom(r);
	char said[INJECTED_TEXT_MAX] = "";
	const char *before = "";

	if (kp_term_peek(r) == KP_TERM_BINARY)
		injected_copy_text(kp_term_binary(r), said, sizeof(said));
	else
		kp_term_skip(r);
	if (kp_span_is(word, "overran"))
		snprintf(said, sizeof(said), "the call was stopped after %lld "
		    "ms, without an end (see -for); processes that it started "
		    "were not", (long long)(g->apply_limit / KP_NS_PER_MS));
	g->ended = true;
	g->end = KP_CALLS_GONE;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (kp_span_is(word, ends[i].word)) {
			g->end = ends[i].end;
			before = ends[i].text;
		}
	}
	snprintf(g->text, sizeof(g->text), "%s%s", before, said);
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

enum kp_err
injected_room(struct dist_sync *t, const char *target, uint64_t memory,
    char *why, size_t n)
{
	struct headroom h = { 0 };
	enum kp_err e = KP_OK;
	struct kp_term r;
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	while (e == KP_OK && headroom_ask(&h, &b, dist_sync_ids(t))) {
		e = dist_sync_rpc(t, &b);
		kp_buf_reset(&b);
		if (e == KP_OK)
			e = dist_sync_answer(t, kp_mono_now() + ANSWER_LIMIT,
			    &r);
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
		return e == KP_END ? e : injected_broken(target, e, why, n);
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

/* {ok, Pid, Info} */
static enum kp_err
read_started(struct injected *g, struct kp_term *r, struct injected_hello *h,
    char *why, size_t n)
{
	struct dist_ids *ids = dist_sync_ids(g->talk);
	struct kp_term answer = *r, check;
	struct kp_span pid;

	if (kp_term_tuple(r) != 3 || !kp_span_is(kp_term_atom(r), "ok"))
		return refused(g, &answer, why, n);
	pid = kp_term_raw(r);
	read_info(r, h);
	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK)
		return injected_broken(g->target, KP_EFORMAT, why, n);
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
		if (o->meanwhile != NULL)
			o->meanwhile(o->ctx);
		until = kp_mono_now() + LEASE_EVERY / 2;
		until = until < deadline ? until : deadline;
		e = dist_sync_answer(g->talk, until, &r);
	} while (e == KP_ETIMEOUT && until < deadline);
	if (e == KP_OK)
		return read_started(g, &r, h, why, n);
	return e == KP_END ? e : injected_broken(g->target, e, why, n);
}

/* A module that has just ended may still be there for a moment: tries again. */
static enum kp_err
start(struct injected *g, const struct injected_opts *o,
    const struct kp_buf *own, uint32_t nown, struct injected_hello *h, char *why,
    size_t n)
{
	struct pollfd wake = { .fd = o->talk.wake, .events = POLLIN };
	kp_mono_ns until = kp_mono_now() + (o->leaving > 0 ? o->leaving : LEAVING);
	enum kp_err e;

	for (;;) {
		e = send_start(g, o, own, nown);
		e = e == KP_OK ? await_start(g, o, h, why, n) :
		    injected_broken(g->target, e, why, n);
		if (e != KP_EBUSY || kp_mono_now() > until)
			return e;
		if (poll(&wake, 1, LEAVING_MS) > 0)
			return KP_END;
	}
}

enum kp_err
injected_start(struct injected **out, const struct injected_code *code,
    const struct injected_opts *o, const struct kp_buf *own, uint32_t nown,
    struct injected_hello *h, char *why, size_t n)
{
	struct injected *g = calloc(1, sizeof(*g));
	enum kp_err e;

	*out = NULL;
	*h = (struct injected_hello){ 0 };
	if (g == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	*g = (struct injected){ .code = code, .target = o->talk.target,
	    .value = o->value, .apply_limit = o->apply_limit };
	e = dist_sync_open(&g->talk, &o->talk, why, n);
	if (e == KP_OK) {
		h->doubt = dist_sync_doubt(g->talk);
		e = injected_room(g->talk, g->target, o->max_memory, why, n);
	}
	if (e == KP_OK)
		e = start(g, o, own, nown, h, why, n);
	g->lease_at = kp_mono_now();
	if (e == KP_OK) {
		*out = g;
		return e;
	}
	dist_sync_close(g->talk);
	free(g);
	return e;
}

void
injected_leave(struct injected *g)
{
	/* The module ends with the connection too, but later. */
	if (!g->left)
		g->gone |= injected_command(g, "stop") != KP_OK;
	g->left = true;
	g->lease_at = INT64_MAX;
}

bool
injected_stop(struct injected *g, kp_dur_ns wait)
{
	kp_mono_ns deadline = kp_mono_now() + wait;
	struct injected_message m;
	bool done;

	if (g == NULL)
		return true;
	injected_leave(g);
	while (!g->gone && kp_mono_now() < deadline &&
	    injected_next(g, deadline, &m) == KP_OK)
		;
	dist_sync_close(g->talk);
	done = g->gone || wait <= 0 || kp_mono_now() < deadline;
	free(g);
	return done;
}

/* ---- while it runs ---- */

/* True: the message was for us alone. */
static bool
look_at(struct injected *g, const struct injected_message *m)
{
	struct kp_term r = m->r;

	if (g->value != NULL && m->arity == 2 &&
	    kp_span_is(m->tag, "kprof_value") &&
	    kp_term_peek(&r) == KP_TERM_BINARY) {
		injected_copy_text(kp_term_binary(&r), g->value,
		    INJECTED_VALUE_MAX + 1);
		return true;
	}
	if (m->arity == 3 && kp_span_is(m->tag, "kprof_ended")) {
		/* The sentry's last message is that all is taken back. */
		g->gone |= kp_span_is(kp_term_atom(&r), "gone");
		r = m->r;
		injected_read_end(g, &r);
	}
	return false;
}

enum kp_err
injected_next(struct injected *g, kp_mono_ns deadline, struct injected_message *m)
{
	kp_mono_ns until;
	enum kp_err e;

	for (;;) {
		if (injected_lease(g) != KP_OK)
			return KP_EIO;
		until = deadline < g->lease_at ? deadline : g->lease_at;
		e = dist_sync_next(g->talk, until, &m->r);
		if (e == KP_ETIMEOUT && kp_mono_now() < deadline)
			continue;
		if (e != KP_OK)
			return e;
		m->whole.p = m->r.p - 1;
		m->whole.n = (uint32_t)(m->r.end - m->whole.p);
		m->arity = kp_term_tuple(&m->r);
		m->tag = kp_term_atom(&m->r);
		if (!look_at(g, m))
			return KP_OK;
	}
}
