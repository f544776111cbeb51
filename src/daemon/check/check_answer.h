/*
 * check_answer.h - `kprofd -check -control`: checks the text of a tiers.conf, as
 * a client sends it, on the targets that this kprofd is attached to.
 *
 * What is armed, and tiers.conf in force, stay as they are.  There is one check at
 * a time, and no reload meanwhile: both ask the same questions of the targets.
 */
#ifndef KPROFD_DAEMON_CHECK_CHECK_ANSWER_H
#define KPROFD_DAEMON_CHECK_CHECK_ANSWER_H

#include "daemon/control/control.h"
#include "daemon/daemon.h"

struct check_answer;

/* NULL when out of memory. */
struct check_answer *check_answer_new(struct event_base *base,
    const struct parts *p);
/* To be called after the targets are freed. */
void check_answer_free(struct check_answer *a);
/* ctx: the struct check_answer; the text: daemon/check/check_message.h. */
control_text_fn check_answer_take;
/* True: a check is under way. */
bool check_answer_busy(const struct check_answer *a);
/* Ends it; the client is told why. */
void check_answer_abort(struct check_answer *a, const char *why);
/* The target is about to be freed. */
void check_answer_left(struct target *t);
/* As on_looked and on_counted of struct agent_ops. */
void check_answer_looked(struct target *t, const struct agent_checked *c,
    const struct kp_plan *plan);
void check_answer_counted(struct target *t, const struct agent_checked *c,
    const struct kp_plan *plan);

#endif
