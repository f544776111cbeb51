/* once.c - see the header. */
#include <stdio.h>

#include "kprofd/etf.h"
#include "target/once.h"
#include "dist/sync.h"

#define LIMIT (10 * KP_NS_PER_S)

static enum kp_err
ask(struct dist_sync *t, const char *mod, const char *fun)
{
	struct kp_buf msg;
	enum kp_err e;

	kp_buf_init(&msg, 4096);
	msg_rex_begin(&msg, dist_sync_ids(t), mod, fun);
	kp_etf_nil(&msg);
	msg_rex_end(&msg);
	e = dist_sync_rex(t, &msg);
	kp_buf_free(&msg);
	return e;
}

/* {rex, Answer}: is it one that is no error?  KP_END: it is something else. */
static enum kp_err
read_answer(struct kp_term *r, char *why, size_t n)
{
	struct kp_term at;

	kp_term_tuple_n(r, 2);
	if (!kp_span_is(kp_term_atom(r), "rex"))
		return KP_END;
	at = *r;
	if (kp_term_peek(&at) != KP_TERM_TUPLE || kp_term_tuple(&at) != 2 ||
	    !kp_span_is(kp_term_atom(&at), "badrpc"))
		return KP_OK;
	msg_text(r, why, n);
	return KP_EFORMAT;
}

static enum kp_err
await(struct dist_sync *t, kp_mono_ns deadline, char *why, size_t n)
{
	struct kp_term r;
	enum kp_err e;

	do {
		e = dist_sync_next(t, deadline, &r);
		if (e == KP_ETIMEOUT)
			snprintf(why, n, "no answer from the node");
		else if (e == KP_EIO)
			snprintf(why, n, "the node closed the connection");
		else if (e == KP_OK)
			e = read_answer(&r, why, n);
	} while (e == KP_END);
	return e;
}

enum kp_err
target_clear_tokens(const char *target, const char *name,
    const char *cookie_file, char *why, size_t n)
{
	struct dist_sync_opts o = { .target = target, .name = name,
		.cookie_file = cookie_file, .wake = -1 };
	struct dist_sync *t;
	enum kp_err e = dist_sync_open(&t, &o, why, n);

	if (e != KP_OK)
		return e;
	snprintf(why, n, "cannot ask '%s'", target);
	e = ask(t, "seq_trace", "reset_trace");
	if (e == KP_OK)
		e = await(t, kp_mono_now() + LIMIT, why, n);
	dist_sync_close(t);
	return e;
}
