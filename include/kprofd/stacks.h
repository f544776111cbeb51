/*
 * stacks.h - sampled stacks of processes: tables of them, and the messages that
 * bring them.  Pure.
 *
 * A sampler in a target asks processes for their stacks and sends
 *   {kprof_stacks, SentAt, {Ticks, Looked, Taken, NotSeen, Unsent, Busy},
 *       [{Pid, Label, At, Took, StandsFor, Status, Frames | not_seen, Group}]}
 * kprofd's sampler adds Crowded and Late to its counts.
 *   {kprof_groups, [{Number, Name, Application | undefined}]}
 * and what they use, as a third element (usage.h).  A group of one registered
 * name has a fourth element, `one`.
 * Frames is [{M,F,A,Line}], innermost first; Line 0 is not known.  A process has
 * at most backtrace_depth of them (8 unless the application sets it).
 */
#ifndef KPROFD_STACKS_H
#define KPROFD_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/err.h"
#include "kprofd/usage.h"

/* What a process did when it was asked. */
enum kp_stack_state {
	KP_STACK_RUNNING,
	KP_STACK_RUNNABLE,	/* it waited for a scheduler */
	KP_STACK_GC,		/* it collected garbage */
	KP_STACK_CALL,		/* it waited for an answer of another process */
	KP_STACK_PORT,		/* for a port, socket or file */
	KP_STACK_WAIT,		/* in any other receive, or suspended */
	KP_STACK_NOT_SEEN,	/* it did not answer in time: no stack */
	KP_STACK_STATES
};
/* Bits of those in which a process works: it runs, or would if it could. */
#define KP_STACK_WORKING (1u << KP_STACK_RUNNING | 1u << KP_STACK_RUNNABLE | \
	1u << KP_STACK_GC)
/* Where the VM cuts stacks, unless the application sets backtrace_depth. */
#define KP_STACK_DEPTH 8u

/* Returns its name for people and the database: "in a call". */
const char *kp_stack_state_name(enum kp_stack_state s);

/*
 * Sets the interval that holds a share in 95 of 100 cases, where it is p of n
 * samples, 0 <= p <= 1.
 *
 * Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical
 * Inference, 1927: the score interval.
 */
void kp_stack_interval(double p, double n, double *low, double *high);

/* ---- a table of functions and stacks ---- */

/* The VM's own limit of backtrace_depth (MAX_BACKTRACE_SIZE of erl_init.c). */
#define KP_STACK_DEPTH_MAX 64
/* A node has some thousand functions on stacks; at most 2 MB of texts. */
#define KP_STACK_FNS_MAX 20000
/* 200 samples a second are 2000 in a window of 10 s, most of them repeated. */
#define KP_STACK_STACKS_MAX 20000
/* Of the texts of all stacks, since a hostile node could make each 128 KB. */
#define KP_STACK_TEXTS_MAX (16u << 20)

/* The stacks that every table starts with, by number. */
#define KP_STACK_OTHER 0	/* "_other": the rest, past a cap */
#define KP_STACK_NONE 1		/* "": not seen, or no frames */
#define KP_STACK_LATE 2		/* "_late": of a process that had gone on */

struct kp_stack_frame {
	uint32_t fn;		/* kp_stack_fn() */
	uint32_t line;		/* 0: not known */
};

struct kp_stack_table;

/* NULL: out of memory. */
struct kp_stack_table *kp_stack_table_new(void);
void kp_stack_table_free(struct kp_stack_table *t);
/*
 * Numbers of stacks are below _stacks(), of functions below _fns(); both grow as
 * messages are decoded.
 */
uint32_t kp_stack_table_stacks(const struct kp_stack_table *t);
uint32_t kp_stack_table_fns(const struct kp_stack_table *t);
/* The number of samples that became KP_STACK_OTHER, since the start. */
uint64_t kp_stack_table_overflow(const struct kp_stack_table *t);
/*
 * Returns the number of the stack of these frames, outermost first, whose
 * functions are of the table; KP_STACK_OTHER past a cap or without memory.
 */
uint32_t kp_stack_put(struct kp_stack_table *t,
    const struct kp_stack_frame *frames, uint32_t n);
/* Takes a stack over from another table; likewise. */
uint32_t kp_stack_copy(struct kp_stack_table *to,
    const struct kp_stack_table *from, uint32_t stack);
/* Its frames, outermost first, valid until the next stack; *n may be 0. */
const struct kp_stack_frame *kp_stack_frames(const struct kp_stack_table *t,
    uint32_t stack, uint32_t *n);
/*
 * The function's name, as fn_name() writes it but with ',' for ';'; valid as
 * long as the table.
 */
const char *kp_stack_fn(const struct kp_stack_table *t, uint32_t fn);
/*
 * Appends the stack's text: frames outermost first, joined by ';', each
 * "mod:fun/arity:line", without ":line" if that is not known.
 */
void kp_stack_text(const struct kp_stack_table *t, uint32_t stack,
    struct kp_buf *b);

/* ---- messages ---- */

struct kp_stack_sample {
	uint64_t proc;		/* on its own node: serial << 32 | number */
	uint64_t label;		/* of its token, mostly its request's; 0: no
				   token of ours */
	kp_target_ns at;	/* when it was asked; so is its label */
	kp_dur_ns took;		/* until its stack was read; 0: it is of then */
	kp_dur_ns time;		/* of the process; this sample stands for it */
	uint32_t stack;		/* in the table */
	uint32_t group;		/* 0: none */
	uint8_t state;		/* enum kp_stack_state */
};

/* A named group of processes. */
struct kp_stack_group {
	uint32_t number;		/* never 0 */
	const char *name, *application;	/* NUL-terminated UTF-8 without unsafe
					   characters; application "": none */
	bool one;	/* of a registered name: one process at a time */
};

/* The sampler's counts since it began. */
struct kp_stack_counts {
	uint64_t ticks;		/* turns */
	uint64_t looked;	/* processes looked at */
	uint64_t taken;		/* samples, seen or not */
	uint64_t not_seen;	/* of these */
	uint64_t unsent;	/* samples dropped by the sampler */
	kp_dur_ns busy;		/* what sampling took, in asked processes, too */
	uint64_t crowded;	/* processes that it had no room for */
	uint64_t late;		/* turns that came too late for the time before */
};

struct kp_stack_message {
	kp_target_ns sent_at;
	struct kp_stack_counts counts;
};

struct kp_stack_ops {
	void (*on_sample)(void *ctx, const struct kp_stack_sample *s);
	/* Borrowed during the call; may be NULL. */
	void (*on_group)(void *ctx, const struct kp_stack_group *g);
	/* Its owner from now on frees it with free(); may be NULL. */
	void (*on_usage)(void *ctx, struct kp_usage *u);
};

/*
 * Decodes one message, which begins with the version byte.  Nothing is called,
 * and neither t nor *m changes, unless all of it can be read.  *m is set by a
 * kprof_stacks only.  KP_ENOENT: it is another term; KP_ESHORT, KP_EFORMAT or
 * KP_ELIMIT: it cannot be read.
 */
enum kp_err kp_stacks_decode(const void *p, size_t n, struct kp_stack_table *t,
    struct kp_stack_message *m, const struct kp_stack_ops *ops, void *ctx);

#endif
