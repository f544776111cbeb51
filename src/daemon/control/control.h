/*
 * control.h - the control socket: a Unix stream socket, mode 0600.
 *
 * A client sends one line, a command with words behind it.  The answer is "ok
 * LENGTH\n" or "error LENGTH\n" and that many bytes; any number of "note
 * LENGTH\n..." may come before it, or other messages of that form.  Then the
 * connection closes.  A command may take a text, which follows its line.
 */
#ifndef KPROFD_DAEMON_CONTROL_CONTROL_H
#define KPROFD_DAEMON_CONTROL_CONTROL_H

#include <event2/event.h>

#include <stdbool.h>

#include "kprofd/buf.h"

#define CONTROL_CLIENTS_MAX 16	/* connected at once */
#define CONTROL_LINE_MAX 1024	/* bytes of a command */
#define CONTROL_ANSWER_MAX (1u << 20)	/* bytes: kprof takes no more */

struct control;
struct control_client;

/*
 * Called in the event loop with one line (no newline).  It answers at once
 * or later, exactly once, unless the client goes first.
 */
typedef void control_fn(void *ctx, struct control_client *c,
    const char *line);
/* The same for the text behind the line; borrowed during the call. */
typedef void control_text_fn(void *ctx, struct control_client *c,
    const char *text, size_t n);

/*
 * Replaces a stale socket, whose daemon is gone; KP_EBUSY: a daemon answers.
 * On error *why is one line for the user.
 */
enum kp_err control_open(struct control **out, struct event_base *base,
    const char *path, control_fn *fn, void *ctx, char *why, size_t whylen);
/* Closes every connection and removes the socket. */
void control_close(struct control *c);

/*
 * Called by a control_fn, instead of an answer: fn gets the n bytes that follow
 * the line, n > 0, unless the client goes first.
 */
void control_take(struct control_client *c, size_t n, control_text_fn *fn,
    void *ctx);
/* The client gets this many seconds more until it has its answer. */
void control_allow(struct control_client *c, unsigned seconds);
/* Any number before the answer; kind: one word.  kprof prints a "note". */
void control_message(struct control_client *c, const char *kind,
    const char *text, size_t n);
void control_answer(struct control_client *c, bool ok, const char *text);
/* Not done: why.  c may be NULL. */
void control_refuse(struct control_client *c, const char *why);
/* Frees b; an answer that is too large becomes an error. */
void control_answer_buf(struct control_client *c, struct kp_buf *b);
/* For answers that take time: stays valid when the client has gone. */
uint64_t control_client_id(const struct control_client *c);
/* NULL when it has gone, or has its answer.  c may be NULL. */
struct control_client *control_client_get(struct control *c, uint64_t id);
/*
 * False: it has closed the connection, so that nobody waits for the answer.  One
 * that closed only its sending side waits.
 */
bool control_client_waits(const struct control_client *c);

#endif
