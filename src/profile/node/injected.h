/*
 * injected.h - a session of a module that is loaded into a node for one profile of one
 * client (erlang/shared/kprof_oneshot.erl): load, lease, commands, end.  One call over
 * rex loads and starts it, so that a client that is killed in between leaves nothing;
 * commands are {kprof, Self, Ref, Command} to the process that it started.  Blocking.
 */
#ifndef KPROFD_PROFILE_NODE_INJECTED_H
#define KPROFD_PROFILE_NODE_INJECTED_H

#include "calls/call_trace.h"
#include "kprofd/config.h"
#include "conn/sync.h"

/* The client renews the lease every second, also while it waits. */
#define INJECTED_LEASE_MS 4000
/* How long a command waits until the node has taken everything back. */
#define INJECTED_STOP_WAIT (10 * KP_NS_PER_S)
#define INJECTED_TEXT_MAX 1024
#define INJECTED_VALUE_MAX 4096	/* bytes of an expression's value, as text */
#define INJECTED_PATTERNS_MAX 1024u	/* more than are ever given */

/* The module, and the expressions that load and start it (erlang/load.exprs). */
struct injected_code {
	const char *module;
	const char *busy;	/* message if the node has one already */
	const unsigned char *beam, *load;
	unsigned beam_len, load_len;
};

/* All strings are borrowed. */
struct injected_opts {
	struct dist_sync_opts talk;
	struct reach reach;	/* of talk, which functions_reach() points here */
	/* mod "_" is every module; exclude may be empty */
	const struct kp_mfa_pat *patterns, *exclude;
	size_t npatterns, nexclude;
	const char *processes;	/* "": all, or with `apply` its own */
	bool spawned;		/* and the processes that these spawn */
	const char *apply;	/* an expression, or "": none */
	/* INJECTED_VALUE_MAX + 1 bytes of the caller's for the expression's
	   value; NULL without one. */
	char *value;
	kp_dur_ns apply_limit;
	kp_dur_ns span;		/* it ends by itself then; 0: by a command */
	uint64_t max_functions, max_processes;
	uint64_t max_memory;	/* bytes that the VM may grow by */
	kp_dur_ns leaving;	/* for one like it that is about to leave; 0: 2 s */
	/* Called now and then during the start; or NULL. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

struct injected_hello {
	int otp;
	uint64_t functions, processes;	/* chosen */
	uint64_t skipped;	/* processes that another tool traces */
	kp_dur_ns offset;	/* of the node's clock to wall time, or 0 */
	char not_native[512];	/* why a trace is without the native probe, or "" */
	bool evaluated;		/* -apply is not one plain call */
	bool no_gc;		/* another tool traces garbage collection */
	unsigned depth;		/* of stacks: backtrace_depth there */
	unsigned schedulers;	/* online */
	const char *doubt;	/* what of the node is not verified; or NULL */
	/* Patterns without a function there (tracers.h); bit 0 is the first. */
	uint8_t absent[INJECTED_PATTERNS_MAX / 8];
};
bool injected_is_absent(const struct injected_hello *h, uint32_t place);

/* A session.  To be read. */
struct injected {
	struct dist_sync *talk;	/* private, as what follows */
	const struct injected_code *code;
	char *value;		/* as of injected_opts */
	kp_dur_ns apply_limit;
	kp_mono_ns lease_at;	/* the next one */
	bool left;		/* it was told to stop */
	bool gone;		/* has said that all is taken back, or cannot be told */

	const char *target;
	uint64_t ref;		/* of the last command: so its answer has */
	/* It has ended by itself: why, and what there is to say about that, or "". */
	bool ended;
	enum kp_calls_end end;
	char text[INJECTED_TEXT_MAX + 64];
};

/* A message from the node, valid until the next one. */
struct injected_message {
	struct kp_span whole;	/* from its version byte on */
	uint32_t arity;
	struct kp_span tag;	/* its first element, or empty */
	struct kp_term r;	/* behind that */
};

/* Write an option: a key and a value. */
void injected_put_number(struct kp_buf *b, const char *key, uint64_t v);
void injected_put_patterns(struct kp_buf *b, const char *key,
    const struct kp_mfa_pat *v, size_t n);

/*
 * KP_ESTATE: the node has too little left for a profile that may take this many bytes
 * of memory (agent/headroom.h); `why` has the reason.  KP_END: woken.
 */
enum kp_err injected_room(struct dist_sync *t, const char *target,
    uint64_t memory, char *why, size_t n);
/*
 * Connects, loads and starts; own: nown more options.  On error `why` is one line
 * for the user, and *g is NULL; KP_END: woken.
 */
enum kp_err injected_start(struct injected **g, const struct injected_code *code,
    const struct injected_opts *o, const struct kp_buf *own, uint32_t nown,
    struct injected_hello *h, char *why, size_t n);

/* Opens a command, which the caller writes; and sends it, and frees b. */
void injected_begin(struct injected *g, struct kp_buf *b);
enum kp_err injected_send(struct injected *g, struct kp_buf *b);
/* The same for a command of one word. */
enum kp_err injected_command(struct injected *g, const char *word);
/* Renews the lease if it is time. */
enum kp_err injected_lease(struct injected *g);
/*
 * dist_sync_next(), but it renews the lease, keeps an expression's value, and notes
 * in g that the module has ended, before it returns the message about that.
 */
enum kp_err injected_next(struct injected *g, kp_mono_ns deadline,
    struct injected_message *m);
/* Words for an error of injected_next(); returns e. */
enum kp_err injected_broken(const char *target, enum kp_err e, char *why,
    size_t n);
/*
 * Reads Why and Text, as the node sends them when it has ended by itself, into g.
 * Text of KP_CALLS_GONE: what has happened.
 */
void injected_read_end(struct injected *g, struct kp_term *r);

/* Has everything taken back, and waits for nothing. */
void injected_leave(struct injected *g);
/*
 * Has everything taken back, waits for that no longer than `wait`, and frees g: before
 * OTP 27 the next profile would take what is left for another tool's.  False: it was
 * waited for in vain.  NULL is allowed.
 */
bool injected_stop(struct injected *g, kp_dur_ns wait);

void injected_copy_text(struct kp_span s, char *text, size_t n);

#endif
