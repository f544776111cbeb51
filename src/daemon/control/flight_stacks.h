/*
 * flight_stacks.h - `kprof flight -stacks`: asks the targets for the stacks of
 * the processes that requests in flight are in, and answers the client.
 */
#ifndef KPROFD_DAEMON_CONTROL_FLIGHT_STACKS_H
#define KPROFD_DAEMON_CONTROL_FLIGHT_STACKS_H

#include <event2/event.h>

#include "daemon/control/control.h"
#include "kprofd/stacks.h"
#include "kprofd/term.h"
#include "text/json.h"

/* A targets' answers that take longer are not waited for. */
#define FLIGHT_STACKS_MS 2000
/* Bytes of a frame's text: two names, arity and line. */
#define FLIGHT_FRAME_MAX 640

struct parts;
struct target;
struct flight_asks;
struct flight_stacks;
struct flights;

/* NULL when out of memory. */
struct flight_asks *flight_asks_new(struct event_base *base,
    const struct parts *p);
void flight_asks_free(struct flight_asks *fa);
/* Answers the client now or later.  Takes fs over; glob: what it is of. */
void flight_asks_add(struct flight_asks *fa, struct control_client *c,
    const char *glob, bool json, struct flights *fs);
/* Answers all who wait, with what has come: the lists are about to go stale. */
void flight_asks_end(struct flight_asks *fa);
/* As on_stacks_of of struct agent_ops. */
void flight_asks_take(struct target *t, uint64_t number,
    struct kp_span message);
/* The target is about to be freed: it answers nobody. */
void flight_asks_gone(struct flight_asks *fa, const struct target *t);

uint32_t flight_stack_depth(const struct flight_stacks *s, uint32_t stack);
/* Writes the i-th frame, from the outermost, to buf, and returns that. */
const char *flight_stack_frame(const struct flight_stacks *s, uint32_t stack,
    uint32_t i, char *buf, size_t n);
/* A line for each target whose requests may not be all there, and why. */
void flight_stacks_notes(const struct flight_stacks *s, struct kp_buf *b);
/* The same as an array, "notes". */
void flight_stacks_json(const struct flight_stacks *s, struct json *j);

#endif
