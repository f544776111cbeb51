/*
 * check.h - kprofd -check: prints what would be traced on targets, what is wrong
 * with it and what it would cost.
 *
 * On a target that it attaches to, it counts calls first.  If that shows no error, it
 * traces some requests as kprofd would: KP_CHECK_CALLS_MAX calls of entries at most,
 * and no longer than it counted.
 */
#ifndef KPROFD_DAEMON_CHECK_CHECK_H
#define KPROFD_DAEMON_CHECK_CHECK_H

#include "daemon/control/control.h"
#include "daemon/daemon.h"
#include "kprofd/request.h"

struct event_base;
struct check;
struct checks;

/* A check traces no more than this, whatever `sampling` in tiers.conf is. */
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
void check_passed(uint64_t warnings, bool json);

/*
 * kprofd -check -control: checks the text of a tiers.conf, as a client sends it, on
 * the targets that a kprofd is attached to, since one at a time can be attached.
 * Tracing and the tiers.conf in force stay as they are.  There is one such check
 * at a time, and no reload meanwhile: both ask the same questions of the targets.
 */

/* NULL when out of memory. */
struct checks *checks_new(struct event_base *base, const struct parts *p);
/* To be called after the targets are freed. */
void checks_free(struct checks *a);
/* ctx: the struct checks; the text: check_message.h. */
control_text_fn checks_take;
/* The same for a client whose log is JSON. */
control_text_fn checks_take_json;
/* True: a check is under way. */
bool checks_busy(const struct checks *a);
/* Ends it, and reports the reason to the client. */
void checks_abort(struct checks *a, const char *why);
/* The target is about to be freed. */
void checks_left(struct target *t);
/*
 * The client.  f: read and without errors.  Prints what kprofd -check prints; returns
 * the exit status.
 */
int check_ask(const struct options *o, const struct conf_file *f);

#endif
