/*
 * usage.h - what the processes and tables of a node use: messages that wait,
 * memory, binaries, reductions, by group of processes; ETS tables; the memory of the
 * node.  Pure.
 *
 * A walk over the processes of a node (kprof_usage.erl) sends
 *   {kprof_groups, Groups, {At, {Looked, Of, Sized, SizedOf, Walk, Round},
 *       [{Name, Application, Processes, Memory, Binaries, Reductions | -1,
 *         Messages, Longest, Pid | none} | {.., one}],
 *       [{Name, Owner, Tables, Memory, Objects}],
 *       [{Kind, Memory, Count, Limit}]}}
 */
#ifndef KPROFD_USAGE_H
#define KPROFD_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/term.h"

enum kp_usage_kind {
	KP_USAGE_PROCESSES,	/* a group of them; owner: its application */
	KP_USAGE_TABLES,	/* ETS tables of one name; owner: the process */
	KP_USAGE_NODE,		/* "binary", "code", .. as of erlang:memory/0 */
	KP_USAGE_KINDS
};

/* For people and the database: "processes". */
const char *kp_usage_kind_name(enum kp_usage_kind k);

#define KP_USAGE_ROWS_MAX 160u	/* of all kinds; a walk sends some 70 */

struct kp_usage_row {
	uint8_t kind;		/* enum kp_usage_kind */
	const char *name, *owner;	/* owner "": none */
	uint64_t count;		/* processes, tables, atoms; 0: not counted */
	uint64_t limit;		/* of the node, of what is counted; 0: none */
	int64_t memory;		/* bytes; -1: not seen */
	int64_t binaries;	/* bytes of those that the processes refer to */
	int64_t reductions;	/* a second; -1: not known */
	uint64_t messages;	/* that wait, in all queues; of tables: objects */
	uint64_t longest;	/* in one queue, */
	uint64_t proc;		/* of this process: kp_proc_text(); 0: none */
	kp_wall_ns since;	/* it has been long since; 0: it is not */
};

/* Rows and texts are in the same allocation. */
struct kp_usage {
	kp_target_ns at;	/* the walk began */
	uint64_t looked, of;	/* processes whose queue was read, of those there */
	uint64_t sized, sized_of;	/* whose size is known, of those there then */
	kp_dur_ns walk, round;	/* how long the queues, and the sizes took */
	/* Counts, sizes and reductions stand for processes that were not sized;
	   not those of a group that is `one` process, a registered name. */
	bool estimated;
	size_t n, bytes;	/* rows; of the allocation */
	struct kp_usage_row rows[];
};

/*
 * Reads the last element of the message.  make: returns it, to be freed with
 * free(), or NULL after an error, which is r's, and without memory.
 */
struct kp_usage *kp_usage_read(struct kp_term *r, bool make);
/* Copies it; NULL: no memory. */
struct kp_usage *kp_usage_copy(const struct kp_usage *u);

/* ---- queues that grow ---- */

#define KP_QUEUES_MAX 48u	/* groups with a long queue; a walk sends fewer */
#define KP_QUEUE_FOLLOWED 100u	/* messages */
#define KP_QUEUE_LONG 1000u	/* messages that wait: an event, while they become more */
#define KP_QUEUE_VERY_LONG 10000u	/* an event in any case */
#define KP_QUEUE_UNSEEN_MAX 8u	/* walks that do not see whether it is long */

/*
 * The longest queue of each group; from one walk to the next it may be that of another
 * process.  A walk may not see it: the process does not answer, or the walk reads only
 * a part.  Zeroed: none is followed.
 */
struct kp_queues {
	struct kp_queue {
		uint64_t group;		/* a hash of its name and application */
		uint64_t proc;		/* whose queue it was last */
		char name[128];		/* of its group */
		kp_wall_ns since;	/* the walk that found it, by our clock, */
		kp_target_ns since_at, at;	/* by the target's; the last walk */
		uint64_t first, last, most;	/* messages */
		uint64_t reported;	/* messages at the last event; 0: none */
		uint32_t unseen;	/* as many walks since did not see it */
	} v[KP_QUEUES_MAX];
	size_t n;
};

#define KP_QUEUE_TEXT_MAX 400u

/* "box: 5,000 messages wait, growing 80 a second since 02:33 (process <0.90.0>)" */
char *kp_queue_text(const struct kp_queue *q, kp_wall_ns now, char *text,
    size_t n);

/*
 * Looks for long queues, sets `since` of rows, and calls back with kp_queue_text()
 * when one grows, again whenever it has doubled, and when it is short again, or not
 * seen any more.
 */
void kp_queues_look(struct kp_queues *q, struct kp_usage *u, kp_wall_ns now,
    void (*report)(void *ctx, const char *text), void *ctx);

#endif
