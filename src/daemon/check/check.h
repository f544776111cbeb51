/*
 * check.h - kprofd -check of one target: prints what would be traced, what is
 * wrong with it and what it would cost.
 *
 * First calls are counted.  If that shows no error, some requests are traced as
 * kprofd would trace them: KP_CHECK_CALLS_MAX calls of entries at most, and no
 * longer than calls were counted.
 */
#ifndef KPROFD_DAEMON_CHECK_CHECK_H
#define KPROFD_DAEMON_CHECK_CHECK_H

#include "daemon/daemon.h"
#include "kprofd/request.h"

struct event_base;
struct check;

/* Whatever tiers.conf says of sampling: a check traces no more than this. */
extern const struct kp_sampling check_sampling;

/* NULL: out of memory. */
struct check *check_new(struct event_base *base, struct target *t);
void check_free(struct check *c);

/* Calls were counted: prints the plan and its price; ends it, or lets it trace. */
void check_counted(struct check *c, const struct kp_plan *plan);
/* The agent's state has changed. */
void check_state(struct check *c, enum agent_state s);
/* Looks at events, and removes their identities: these are numbers of clauses. */
void check_events(struct check *c, struct kp_event *ev, size_t n);
/* A request that began there has closed. */
void check_request(struct check *c, const struct kp_request *rq);
/*
 * The agent has ended: reports what is wrong, if requests were traced.  Returns
 * why the check has failed, or NULL.
 */
const char *check_ended(struct check *c);

/* Prints the last line of a check that found no errors. */
void check_passed(uint64_t warnings);

#endif
