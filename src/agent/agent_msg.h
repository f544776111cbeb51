/*
 * agent_msg.h - writes and reads the messages between kprofd and kprof_agent.erl.
 *
 * To the agent:    {kprof, OurPid, Ref, Command}
 * From the agent:  {kprof_events, ...} (kprofd/trace.h),
 *                  {kprof_reply, Ref, Result},
 *                  {kprof_status | kprof_bye, ...17 fields},
 *                  {kprof_notice, Kind, ...} (agent_notice.c),
 *                  {kprof_moved, Pid}: another process goes on as the agent,
 *                  {kprof_stacks | kprof_groups, ...} (kprofd/stacks.h), which
 *                  its sampler sends
 *
 * Nobody checks who sends: our pid is a secret of the agent and its helpers.
 *
 * msg_command(), msg_eval_begin(), msg_load_begin(), msg_eval_end() and msg_text()
 * serve the other modules that are loaded into nodes, too (profile/node/injected.c).
 */
#ifndef KPROFD_AGENT_AGENT_MSG_H
#define KPROFD_AGENT_AGENT_MSG_H

#include "conn/rpc.h"
#include "agent/agent.h"

/* Opens {kprof, Self, Ref, Command}; the caller writes Command. */
void msg_command(struct kp_buf *b, const struct dist_ids *ids, uint64_t ref);

/*
 * Opens a call that has an expression evaluated, given as an external term, with n
 * bindings; the caller writes them, {Name, Value} each.  Then msg_eval_end() closes it.
 */
void msg_eval_begin(struct kp_buf *b, const struct dist_ids *ids,
    struct kp_span expr, uint32_t bindings);
void msg_eval_end(struct kp_buf *b);
/* The same for erlang/load.exprs, with Beam bound, and two bindings to write. */
void msg_load_begin(struct kp_buf *b, const struct dist_ids *ids,
    struct kp_span load, struct kp_span beam);

/* What erlang/load.exprs finds bound besides Beam: {'Daemon', _}, {'Opts', _}. */
void msg_start_bindings(struct kp_buf *b, const struct dist_ids *ids,
    const char *who, const struct kp_overload *limits, uint32_t word);
/* {check | look, Modules}: those that c names */
void msg_modules(struct kp_buf *b, const struct kp_conf *c,
    const char *command);
/* {arm, Items, Limits} */
enum kp_err msg_arm(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *plan, const struct kp_spec_params *params);
/* {tiers, Items}: those of the plan that are armed, with these parameters */
enum kp_err msg_tiers(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *plan, const struct kp_spec_params *params);
/* {close, Items}: the entries, if they are timed from now on */
enum kp_err msg_close(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *plan, const struct kp_spec_params *params);
/* {change, MFAs, Items, Limits}: what kp_plan_diff() found in both plans */
enum kp_err msg_change(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan *want, const struct kp_plan *armed,
    const struct kp_spec_params *params);
/* {may, MFAs}: those that kp_plan_diff() marked to be armed */
void msg_may(struct kp_buf *b, const struct kp_plan *want);
/* {spec, MFA, Spec}; spec NULL: false, which disarms. */
void msg_spec(struct kp_buf *b, const struct kp_plan_item *item,
    const struct kp_buf *spec);
/* {names | stacks, [{Number, Serial}]} of n processes, serial << 32 | number */
void msg_procs(struct kp_buf *b, const char *command, const uint64_t *procs,
    size_t n);
/* {waits, Processes, Servers}, likewise */
void msg_waits(struct kp_buf *b, const uint64_t *procs, size_t n,
    const uint64_t *servers, size_t m);
/*
 * {rates, MFAs, MaybeLoops, Ms}: functions to be counted for this time; those of
 * them that must not be loops, which in a check are the entries, too.
 */
void msg_rates(struct kp_buf *b, const struct kp_plan *plan, unsigned ms,
    bool check);

/* {ok, Pid, Hello}; copies the agent's raw pid to ids->peer. */
enum kp_err msg_read_hello(struct kp_term *r, struct dist_ids *ids,
    struct agent_hello *h);
/* The 17 fields after the tag; the state goes to *name, the reason as text. */
enum kp_err msg_read_status(struct kp_term *r, struct agent_status *st,
    struct kp_span *name, char *reason, size_t n);
/* [{MFA, CallsPerSecond, IsLoop, CallsItself}], into the plan. */
enum kp_err msg_read_rates(struct kp_term *r, struct kp_plan *plan);
/* The next term, printed. */
void msg_text(struct kp_term *r, char *text, size_t n);

#endif
