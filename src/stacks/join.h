/*
 * join.h - the samples of one node: they wait for their requests, are joined
 * with the calls of those, and become the cells of the running window.
 *
 * Of a sample of process P that was asked at time T, the path is that of the
 * innermost call that P had open at T: its tiers, from the entry down.  Where P
 * showed its stack later and that call is over, the stack is not of it.  If P had none, it
 * worked for the request all the same unless it only waited for a message: then
 * it counts for the innermost call of the request that was open anywhere; a
 * server that waits for its next message is idle.  After the request's end, the
 * path begins with "_after", and a process without a call of the request that
 * waits is idle.  Where requests meet, the token of P may be another request's:
 * then kprofd only believes a call that P had open.
 */
#ifndef KPROFD_STACKS_JOIN_H
#define KPROFD_STACKS_JOIN_H

#include <stdbool.h>

#include "kprofd/config.h"
#include "kprofd/stacks.h"
#include "kprofd/stats.h"

/* Tiers in one path; of deeper ones the first and the last are kept. */
#define STACK_PATH_DEPTH 32
/*
 * So long after a sample its request must be known: batches wait 15 ms, and a
 * node may lag by KP_NODE_LAG_MAX.
 */
#define STACK_REQUEST_WAIT (KP_NODE_LAG_MAX + 1 * KP_NS_PER_S)

struct stack_join;

/* Where samples belong; the same until stack_join_reset(). */
struct stack_scope {
	const struct kp_conf *conf;
	const struct kp_requests *rs;
	uint32_t node;		/* its index in rs, not KP_NONE */
};

struct stack_totals {
	struct kp_stack_counts sampler;	/* as it last said */
	uint64_t joined;	/* samples that count for requests */
	uint64_t idle;		/* of processes that did nothing for one */
	uint64_t lost;		/* that count as losses */
	uint32_t waiting;	/* now */
};

/* NULL: out of memory. */
struct stack_join *stack_join_new(void);
void stack_join_free(struct stack_join *j);
/* Another sampler: its counts start from zero. */
void stack_join_restart(struct stack_join *j);
/*
 * Takes a message in; errors as of kp_stacks_decode().  *usage: what it says of the
 * node's processes, borrowed until the next message; NULL: nothing.
 */
enum kp_err stack_join_message(struct stack_join *j,
    const struct stack_scope *s, const void *p, size_t n,
    struct kp_usage **usage);
/* A request closed that may have samples of this node: only in on_request. */
void stack_join_request(struct stack_join *j, const struct stack_scope *s,
    const struct kp_request *rq);
/*
 * Decides about samples whose requests were lost or had closed before the sample
 * came.  now: by the node's clock.
 */
void stack_join_expire(struct stack_join *j, const struct stack_scope *s,
    kp_target_ns now);
/* Those that wait are lost: their requests are, or come from a lost node. */
void stack_join_drop(struct stack_join *j);
/* The same, and forgets the cells: the scope changes. */
void stack_join_reset(struct stack_join *j);
/* Gives w the cells, usage and losses so far, and starts from none; false: no memory,
 * and nothing has changed. */
bool stack_join_rotate(struct stack_join *j, const struct stack_scope *s,
    struct kp_window *w);
/* The same as a copy. */
bool stack_join_copy(const struct stack_join *j, const struct stack_scope *s,
    struct kp_window *w);
struct stack_totals stack_join_totals(const struct stack_join *j);

#endif
