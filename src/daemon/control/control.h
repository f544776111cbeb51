/*
 * control.h - the control socket: a Unix stream socket, mode 0600.
 *
 * A client sends one line, a command with words behind it.  The answer is "ok
 * LENGTH\n" or "error LENGTH\n" and that many bytes; any number of "note
 * LENGTH\n..." may come before it.  Then the connection closes.
 */
#ifndef KPROFD_DAEMON_CONTROL_CONTROL_H
#define KPROFD_DAEMON_CONTROL_CONTROL_H

#include <event2/event.h>

#include <stdbool.h>

#include "kprofd/buf.h"

#define CONTROL_CLIENTS_MAX 16	/* connected at once */

struct control;
struct control_client;

/*
 * Called in the event loop with one line (no newline).  It answers at once
 * or later, exactly once, unless the client goes first.
 */
typedef void control_fn(void *ctx, struct control_client *c,
    const char *line);

/*
 * Replaces a stale socket, whose daemon is gone; KP_EBUSY: a daemon answers.
 * On error *why is one line for the user.
 */
enum kp_err control_open(struct control **out, struct event_base *base,
    const char *path, control_fn *fn, void *ctx, char *why, size_t whylen);
/* Closes every connection and removes the socket. */
void control_close(struct control *c);

/* Any number before the answer; kprof prints it. */
void control_note(struct control_client *c, const char *text, size_t n);
void control_answer(struct control_client *c, bool ok, const char *text,
    size_t n);
/* For answers that take time: stays valid when the client has gone. */
uint64_t control_client_id(const struct control_client *c);
/* NULL when it has gone, or has its answer. */
struct control_client *control_client_get(struct control *c, uint64_t id);

#endif
