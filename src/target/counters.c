/*
 * counters.c - see the header.
 *
 * To the node: the module and how to start it, one call over rex, so that
 * being killed in between leaves nothing; then {kprof, Self, Ref, Command} to
 * the process that started, Command being go, lease, peek, read or
 * stop.  From it:
 * {kprof_ended, Why, Text}, {kprof_rows, ..} and {kprof_reply, ..} (profile.h).
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters_beam.h"
#include "kprofd/etf.h"
#include "target/counters.h"

#define START_LIMIT (70 * KP_NS_PER_S)	/* its own is 60 s */
#define READ_LIMIT (120 * KP_NS_PER_S)	/* without a word from the node */
#define LEASE_EVERY KP_NS_PER_S
#define LEAVING_MS 100
#define LEAVING_TRIES 20
#define MESSAGE_MAX (1u << 20)

struct counters {
	struct talk *talk;
	const char *target;
	uint64_t ref;
	kp_mono_ns lease_at;	/* the next one */
	/* what was said of its end while it was read */
	enum counters_end end;
	char text[COUNTERS_TEXT_MAX];
};

/* ---- what is sent ---- */

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

static void
put_number(struct kp_buf *b, const char *key, uint64_t v)
{
	kp_etf_atom(b, key);
	kp_etf_int(b, (int64_t)v);
}

/* [{Module, Function, Arity}]: binaries, _ and -1 for any. */
static void
put_patterns(struct kp_buf *b, const char *key, const struct kp_mfa_pat *v,
    size_t n)
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
put_opts(struct kp_buf *b, const struct counters_opts *o, const char *self)
{
	static const char *const types[] = { "count", "time", "memory" };
	char who[NODE_NAME_MAX + 64];

	snprintf(who, sizeof(who), "%s (process %ld)", self, (long)getpid());
	kp_etf_map(b, 14);
	put_field(b, "who", who);
	kp_etf_atom(b, "type");
	kp_etf_atom(b, types[o->type]);
	kp_etf_atom(b, "by");
	kp_etf_atom(b, o->by_process ? "process" : "total");
	put_number(b, "lease_ms", COUNTERS_LEASE_MS);
	put_patterns(b, "patterns", o->patterns, o->npatterns);
	put_patterns(b, "exclude", o->exclude, o->nexclude);
	put_field(b, "processes", o->processes);
	kp_etf_atom(b, "spawned");
	kp_etf_bool(b, o->spawned);
	put_field(b, "apply", o->apply);
	put_number(b, "apply_ms", (uint64_t)(o->apply_limit / KP_NS_PER_MS));
	put_number(b, "max_functions", o->max_functions);
	put_number(b, "max_processes", o->max_processes);
	put_number(b, "max_rows", o->max_rows);
	put_number(b, "max_memory", o->max_memory);
}

static void
put_binding(struct kp_buf *b, const char *name)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, name);
}

static enum kp_err
send_start(struct counters *c, const struct counters_opts *o)
{
	const struct kp_span load = { kp_counters_load, kp_counters_load_len };
	const struct kp_span beam = { kp_counters_beam, kp_counters_beam_len };
	struct agent_ids *ids = talk_ids(c->talk);
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, MESSAGE_MAX);
	msg_load_begin(&b, ids, load, beam);
	put_binding(&b, "Daemon");
	kp_buf_put(&b, ids->self.p, ids->self.len);
	put_binding(&b, "Opts");
	put_opts(&b, o, talk_name(c->talk));
	msg_load_end(&b);
	e = talk_rex(c->talk, &b);
	kp_buf_free(&b);
	return e;
}

static enum kp_err
command(struct counters *c, const char *word)
{
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, 4096);
	msg_command(&b, talk_ids(c->talk), ++c->ref);
	kp_etf_atom(&b, word);
	e = talk_send(c->talk, &b);
	kp_buf_free(&b);
	return e;
}

/* ---- what comes ---- */

/* The words of KP_ETIMEOUT, KP_EIO and KP_ELIMIT. */
static enum kp_err
broken(const struct counters *c, enum kp_err e, char *why, size_t n)
{
	snprintf(why, n, "'%s': %s", c->target,
	    e == KP_ETIMEOUT ? "no answer from the node" :
	    e == KP_EIO ? "the connection is over (did the node end?)" :
	    e == KP_ELIMIT ? "its answer is too large (fewer functions, or "
	    "see -max-rows)" : "its answer makes no sense");
	return e;
}

static void
copy_text(struct kp_span s, char *text, size_t n)
{
	snprintf(text, n, "%.*s", (int)(s.n < n ? s.n : n - 1),
	    s.n > 0 ? (const char *)s.p : "");
}

static void
read_info(struct kp_term *r, struct counters_hello *h)
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
		else if (kp_span_is(key, "otp"))
			kp_term_string(r, otp, sizeof(otp) - 1);
		else
			kp_term_skip(r);
	}
	h->otp = atoi(otp);
}

/* {error, Text}, and what erlang/load.exprs and rex themselves say. */
static enum kp_err
refused(const struct counters *c, struct kp_term *r, char *why, size_t n)
{
	struct kp_term at = *r;
	char text[COUNTERS_TEXT_MAX];

	kp_term_tuple_n(&at, 2);
	kp_term_atom(&at);
	if (at.err == KP_OK && kp_term_peek(&at) == KP_TERM_BINARY)
		copy_text(kp_term_binary(&at), text, sizeof(text));
	else
		msg_text(r, text, sizeof(text));
	if (strcmp(text, "{error,already}") == 0) {
		snprintf(why, n, "'%s': somebody counts there already "
		    "(kprof_counters:stop() there ends it)", c->target);
		return KP_EBUSY;
	}
	snprintf(why, n, "'%s': %s", c->target, text);
	return KP_ESTATE;
}

/* {rex, {ok, Pid, Info}} */
static enum kp_err
read_started(struct counters *c, struct kp_term *r, struct counters_hello *h,
    char *why, size_t n)
{
	struct agent_ids *ids = talk_ids(c->talk);
	struct kp_term answer, check;
	struct kp_span pid;

	kp_term_tuple_n(r, 2);
	if (!kp_span_is(kp_term_atom(r), "rex") || r->err != KP_OK)
		return KP_END;
	answer = *r;
	if (kp_term_tuple(r) != 3 || !kp_span_is(kp_term_atom(r), "ok"))
		return refused(c, &answer, why, n);
	pid = kp_term_raw(r);
	read_info(r, h);
	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK)
		return broken(c, KP_EFORMAT, why, n);
	kp_buf_put(&ids->agent, pid.p, pid.n);
	return ids->agent.err;
}

static enum kp_err
await_start(struct counters *c, struct counters_hello *h, char *why, size_t n)
{
	kp_mono_ns deadline = kp_mono_now() + START_LIMIT;
	struct kp_term r;
	enum kp_err e;

	do {
		e = talk_next(c->talk, deadline, &r);
		if (e == KP_END)
			return e;
		if (e != KP_OK)
			return broken(c, e, why, n);
		e = read_started(c, &r, h, why, n);
	} while (e == KP_END);
	return e;
}

/* One that has just ended may still be on its way out. */
static enum kp_err
start(struct counters *c, const struct counters_opts *o,
    struct counters_hello *h, char *why, size_t n)
{
	struct pollfd wake = { .fd = o->talk.wake, .events = POLLIN };
	enum kp_err e;

	for (unsigned i = 0;; i++) {
		e = send_start(c, o);
		e = e == KP_OK ? await_start(c, h, why, n) :
		    broken(c, e, why, n);
		if (e != KP_EBUSY || i == LEAVING_TRIES)
			return e;
		if (poll(&wake, 1, LEAVING_MS) > 0)
			return KP_END;
	}
}

enum kp_err
counters_start(struct counters **out, const struct counters_opts *o,
    struct counters_hello *h, char *why, size_t n)
{
	struct counters *c = calloc(1, sizeof(*c));
	enum kp_err e;

	*h = (struct counters_hello){ 0 };
	if (c == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	c->target = o->talk.target;
	e = talk_open(&c->talk, &o->talk, why, n);
	if (e == KP_OK)
		e = start(c, o, h, why, n);
	if (e != KP_OK) {
		talk_close(c->talk);
		free(c);
		return e;
	}
	c->lease_at = kp_mono_now();
	*out = c;
	return KP_OK;
}

enum kp_err
counters_go(struct counters *c)
{
	return command(c, "go");
}

/* ---- while it counts ---- */

void
counters_gone_text(const char *target, const char *text, char *why, size_t n)
{
	snprintf(why, n, "'%s' counts no more: %s", target, text);
}

/* {kprof_ended, Why, Text}; KP_END: it is something else. */
static enum kp_err
read_ended(struct kp_term *r, enum counters_end *end, char *text, size_t n)
{
	static const char *const words[] = { [COUNTERS_RETURNED] = "returned",
		[COUNTERS_RAISED] = "raised", [COUNTERS_OVERRAN] = "overran",
		[COUNTERS_EXITED] = "exited", [COUNTERS_MEMORY] = "memory",
		[COUNTERS_GONE] = "gone" };
	struct kp_span word;

	kp_term_tuple_n(r, 3);
	if (!kp_span_is(kp_term_atom(r), "kprof_ended"))
		return KP_END;
	word = kp_term_atom(r);
	*end = COUNTERS_NOT;
	for (int i = COUNTERS_RETURNED; i <= COUNTERS_GONE; i++)
		if (kp_span_is(word, words[i]))
			*end = (enum counters_end)i;
	text[0] = '\0';
	if (kp_term_peek(r) == KP_TERM_BINARY)
		copy_text(kp_term_binary(r), text, n);
	else
		kp_term_skip(r);
	return r->err == KP_OK && *end != COUNTERS_NOT ? KP_OK : KP_EFORMAT;
}

/* The next message before the deadline, with leases meanwhile. */
static enum kp_err
next(struct counters *c, kp_mono_ns deadline, struct kp_term *r)
{
	kp_mono_ns until;
	enum kp_err e;

	for (;;) {
		if (kp_mono_now() >= c->lease_at) {
			if (command(c, "lease") != KP_OK)
				return KP_EIO;
			c->lease_at = kp_mono_now() + LEASE_EVERY;
		}
		until = deadline < c->lease_at ? deadline : c->lease_at;
		e = talk_next(c->talk, until, r);
		if (e != KP_ETIMEOUT || kp_mono_now() >= deadline)
			return e;
	}
}

enum kp_err
counters_wait(struct counters *c, kp_mono_ns deadline, enum counters_end *end,
    char *text, size_t n)
{
	struct kp_term r;
	enum kp_err e;

	if (c->end != COUNTERS_NOT) {
		*end = c->end;
		snprintf(text, n, "%s", c->text);
		return KP_OK;
	}
	do {
		e = next(c, deadline, &r);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		if (e == KP_OK)
			e = read_ended(&r, end, text, n);
		if (e != KP_OK && e != KP_END)
			return broken(c, e, text, n);
	} while (e == KP_END);
	return e;
}

/* It has ended by itself meanwhile: is there anything to be read? */
static enum kp_err
read_gone(struct counters *c, struct kp_term *r, char *why, size_t n)
{
	if (read_ended(r, &c->end, c->text, sizeof(c->text)) != KP_OK)
		return broken(c, KP_EFORMAT, why, n);
	if (c->end != COUNTERS_GONE)
		return KP_OK;
	counters_gone_text(c->target, c->text, why, n);
	return KP_ESTATE;
}

/* KP_END: all of it is there; KP_OK: more is to come. */
static enum kp_err
read_part(struct counters *c, uint64_t ref, struct kp_profile *p,
    struct kp_term *r, char *why, size_t n)
{
	struct kp_term whole = *r;
	struct kp_span tag;
	enum kp_err e;
	uint64_t of;

	kp_term_tuple(r);
	tag = kp_term_atom(r);
	if (kp_span_is(tag, "kprof_ended"))
		return read_gone(c, &whole, why, n);
	of = (uint64_t)kp_term_int(r);
	if (r->err != KP_OK || of > ref)
		return broken(c, KP_EFORMAT, why, n);
	if (of < ref)
		return KP_OK;	/* of one that was interrupted */
	if (kp_span_is(tag, "kprof_reply")) {
		e = kp_profile_end(p, r);
		return e == KP_OK ? KP_END : broken(c, e, why, n);
	}
	e = kp_span_is(tag, "kprof_rows") ? kp_profile_rows(p, r) : KP_EFORMAT;
	return e == KP_OK ? e : broken(c, e, why, n);
}

enum kp_err
counters_read(struct counters *c, bool last, struct kp_profile *p, char *why,
    size_t n)
{
	struct kp_term r;
	enum kp_err e = command(c, last ? "read" : "peek");
	uint64_t ref = c->ref;

	if (e != KP_OK)
		return broken(c, e, why, n);
	do {
		e = next(c, kp_mono_now() + READ_LIMIT, &r);
		if (e == KP_END) {
			snprintf(why, n, "interrupted");
			return e;
		}
		if (e != KP_OK)
			return broken(c, e, why, n);
		e = read_part(c, ref, p, &r, why, n);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

void
counters_stop(struct counters *c)
{
	if (c == NULL)
		return;
	/* It ends with the connection too; this is sooner. */
	command(c, "stop");
	talk_close(c->talk);
	free(c);
}
