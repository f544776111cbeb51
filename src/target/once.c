/* once.c - see the header. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kprofd/etf.h"
#include "kprofd/frame.h"
#include "target/agent_msg.h"
#include "target/node.h"
#include "target/once.h"

#define LIMIT (10 * KP_NS_PER_S)

static enum kp_err
send_call(int fd, const struct node_conn *conn, const char *mod,
    const char *fun)
{
	struct agent_ids ids = { 0 };
	struct kp_buf msg, frame;
	enum kp_err e = KP_OK;
	size_t sent = 0;
	ssize_t n;

	kp_buf_init(&ids.self, 1024);
	kp_buf_init(&msg, 4096);
	kp_buf_init(&frame, 8192);
	kp_etf_pid(&ids.self, conn->name, 1, 0, conn->creation);
	msg_rex_begin(&msg, &ids, mod, fun);
	kp_etf_nil(&msg);
	msg_rex_end(&msg);
	kp_frame_reg_send(&frame, (struct kp_span){ ids.self.p,
	    (uint32_t)ids.self.len }, "rex", msg.p, msg.len);
	e = msg.err != KP_OK ? msg.err : frame.err;
	while (e == KP_OK && sent < frame.len) {
		n = send(fd, frame.p + sent, frame.len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			e = KP_EIO;
		sent += n > 0 ? (size_t)n : 0;
	}
	kp_buf_free(&frame);
	kp_buf_free(&msg);
	kp_buf_free(&ids.self);
	return e;
}

/* {rex, Answer}: is it one that is no error? */
static enum kp_err
read_answer(const struct kp_frame *f, char *why, size_t n)
{
	struct kp_term r, at;

	kp_term_begin(&r, f->payload.p, f->payload.n);
	kp_term_tuple_n(&r, 2);
	if (f->kind != KP_FRAME_SEND || !kp_span_is(kp_term_atom(&r), "rex"))
		return KP_END;
	at = r;
	if (kp_term_peek(&at) != KP_TERM_TUPLE || kp_term_tuple(&at) != 2 ||
	    !kp_span_is(kp_term_atom(&at), "badrpc"))
		return KP_OK;
	msg_text(&r, why, n);
	return KP_EFORMAT;
}

/* One read; KP_END when the answer has not come yet. */
static enum kp_err
read_some(int fd, struct kp_frames *in, kp_mono_ns deadline, char *why,
    size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	kp_dur_ns left = deadline - kp_mono_now();
	struct kp_frame f;
	enum kp_err e;
	uint8_t *to;
	size_t room;
	ssize_t got;

	if (left <= 0 || poll(&p, 1, (int)(left / KP_NS_PER_MS) + 1) == 0) {
		snprintf(why, n, "no answer from the node");
		return KP_ETIMEOUT;
	}
	e = kp_frames_space(in, &to, &room);
	if (e != KP_OK)
		return e;
	got = recv(fd, to, room, 0);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return KP_END;
	if (got <= 0) {
		snprintf(why, n, "the node closed the connection");
		return KP_EIO;
	}
	kp_frames_filled(in, (size_t)got);
	while ((e = kp_frames_next(in, &f)) != KP_END) {
		if (e == KP_ELIMIT)
			return e;
		if (e != KP_OK || f.kind == KP_FRAME_TICK)
			continue;
		e = read_answer(&f, why, n);
		if (e != KP_END)
			return e;
	}
	return KP_END;
}

enum kp_err
target_clear_tokens(const char *target, const char *name,
    const char *cookie_file, char *why, size_t n)
{
	char cookie[NODE_COOKIE_MAX + 1];
	struct node_opts o = { .target = target, .name = name,
		.cookie = cookie, .limit = LIMIT };
	kp_mono_ns deadline = kp_mono_now() + LIMIT;
	struct node_conn conn;
	struct kp_frames in;
	enum kp_err e;

	e = node_cookie(cookie_file, cookie, why, n);
	if (e == KP_OK)
		e = node_connect(&o, &conn, why, n);
	explicit_bzero(cookie, sizeof(cookie));
	if (e != KP_OK)
		return e;
	snprintf(why, n, "cannot ask '%s'", target);
	kp_frames_init(&in, 0);
	e = send_call(conn.fd, &conn, "seq_trace", "reset_trace");
	if (e == KP_OK)
		do
			e = read_some(conn.fd, &in, deadline, why, n);
		while (e == KP_END);
	kp_frames_free(&in);
	close(conn.fd);
	return e;
}
