/*
 * counters.c - the messages to kprof_counters.erl, and the decoding of its
 * rows.
 *
 * Commands are go, lease, peek, read, {continue, Ms} and stop.  From the node
 * come {kprof_ended, Why, Text}, {kprof_rows, ..} and {kprof_reply, ..}
 * (profile.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "counters_beam.h"
#include "kprofd/etf.h"
#include "profile/target/counters.h"

#define READ_LIMIT (120 * KP_NS_PER_S)	/* without a word from the node */

struct counters {
	struct injected guest;
	/* what was said of its end while it was read */
	enum counters_end end;
	char text[INJECTED_TEXT_MAX];
};

static void
put_own(struct kp_buf *b, const void *ctx)
{
	static const char *const types[] = { "count", "time", "memory" };
	const struct counters_opts *o = ctx;

	kp_etf_atom(b, "type");
	kp_etf_atom(b, o->list ? "list" : types[o->type]);
	kp_etf_atom(b, "by");
	kp_etf_atom(b, o->by_process ? "process" : "total");
	injected_put_number(b, "max_rows", o->max_rows);
}

enum kp_err
counters_start(struct counters **out, const struct counters_opts *o,
    struct injected_hello *h, char *why, size_t n)
{
	static const struct injected_code code = { "kprof_counters",
		"another kprof counts there already", kp_counters_beam,
		kp_counters_load, sizeof(kp_counters_beam),
		sizeof(kp_counters_load) };
	struct injected_own own = { 3, put_own, o };
	struct counters *c = calloc(1, sizeof(*c));
	enum kp_err e;

	if (c == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	e = injected_start(&c->guest, &code, &o->g, &own, h, why, n);
	if (e != KP_OK) {
		free(c);
		return e;
	}
	*out = c;
	return KP_OK;
}

enum kp_err
counters_go(struct counters *c)
{
	return injected_command(&c->guest, "go");
}

static void
put_continue(struct kp_buf *b, const void *ms)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "continue");
	kp_etf_int(b, *(const int64_t *)ms);
}

/* None is left of one that is over: it ends at once. */
enum kp_err
counters_continue(struct counters *c, kp_dur_ns span)
{
	int64_t ms = span / KP_NS_PER_MS;

	ms = span != 0 && ms <= 0 ? 1 : ms;
	return injected_send(&c->guest, put_continue, &ms);
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
		[COUNTERS_DISARMED] = "disarmed", [COUNTERS_GONE] = "gone" };
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
		injected_copy_text(kp_term_binary(r), text, n);
	else
		kp_term_skip(r);
	return r->err == KP_OK && *end != COUNTERS_NOT ? KP_OK : KP_EFORMAT;
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
		e = injected_next(&c->guest, deadline, &r);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		if (e == KP_OK)
			e = read_ended(&r, end, text, n);
		if (e != KP_OK && e != KP_END)
			return injected_broken(&c->guest, e, text, n);
	} while (e == KP_END);
	return e;
}

/* It has ended by itself meanwhile: is there anything to be read? */
static enum kp_err
read_gone(struct counters *c, struct kp_term *r, char *why, size_t n)
{
	if (read_ended(r, &c->end, c->text, sizeof(c->text)) != KP_OK)
		return injected_broken(&c->guest, KP_EFORMAT, why, n);
	if (c->end != COUNTERS_GONE)
		return KP_OK;
	counters_gone_text(c->guest.target, c->text, why, n);
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
		return injected_broken(&c->guest, KP_EFORMAT, why, n);
	if (of < ref)
		return KP_OK;	/* of one that was interrupted */
	if (kp_span_is(tag, "kprof_reply")) {
		e = kp_profile_end(p, r);
		return e == KP_OK ? KP_END : injected_broken(&c->guest, e, why, n);
	}
	e = kp_span_is(tag, "kprof_rows") ? kp_profile_rows(p, r) : KP_EFORMAT;
	return e == KP_OK ? e : injected_broken(&c->guest, e, why, n);
}

enum kp_err
counters_read(struct counters *c, bool pause, struct kp_profile *p, char *why,
    size_t n)
{
	struct kp_term r;
	enum kp_err e = injected_command(&c->guest, pause ? "read" : "peek");
	uint64_t ref = c->guest.ref;

	if (e != KP_OK)
		return injected_broken(&c->guest, e, why, n);
	do {
		e = injected_next(&c->guest, kp_mono_now() + READ_LIMIT, &r);
		if (e == KP_END)
			return e;
		if (e != KP_OK)
			return injected_broken(&c->guest, e, why, n);
		e = read_part(c, ref, p, &r, why, n);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

void
counters_stop(struct counters *c)
{
	if (c == NULL)
		return;
	injected_stop(&c->guest);
	free(c);
}
