/*
 * injected.h - loads a module into a node for one profile of one client, and talks
 * to it (erlang/shared/kprof_oneshot.erl).  One call over rex loads and starts it,
 * so that a client that is killed in between leaves nothing; commands are
 * {kprof, Self, Ref, Command} to the process that it started.  Blocking.
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
	/* Called now and then during the start; or NULL. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

struct injected_hello {
	int otp;
	uint64_t functions, processes;	/* chosen */
	uint64_t skipped;	/* processes that another tool traces */
	kp_dur_ns offset;	/* of the node's clock to wall time, or 0 */
	bool native;		/* a trace uses the native probe */
	char not_native[512];	/* why it does not, or "" */
	bool evaluated;		/* -apply is not one plain call */
	bool no_gc;		/* another tool traces garbage collection */
	unsigned depth;		/* of stacks: backtrace_depth there */
	unsigned schedulers;	/* online */
	const char *doubt;	/* what of the node is not verified; or NULL */
	/* Patterns without a function there (tracer.h); bit 0 is the first. */
	uint8_t absent[INJECTED_PATTERNS_MAX / 8];
};
bool injected_is_absent(const struct injected_hello *h, uint32_t place);

/* Fields are private. */
struct injected {
	struct dist_sync *talk;
	const struct injected_code *code;
	const char *target;
	char *value;		/* as of injected_opts */
	kp_dur_ns apply_limit;
	uint64_t ref;		/* of the last command */
	kp_mono_ns lease_at;	/* the next one */
	bool left;		/* it was told to stop */
	bool gone;		/* has said that all is taken back, or cannot be told */
};

/* put() writes n more options, each a key and a value. */
struct injected_own {
	uint32_t n;
	void (*put)(struct kp_buf *b, const void *ctx);
	const void *ctx;
};
void injected_put_number(struct kp_buf *b, const char *key, uint64_t v);
void injected_put_patterns(struct kp_buf *b, const char *key,
    const struct kp_mfa_pat *v, size_t n);

/*
 * KP_ESTATE: the node has too little left for a profile that may take so many bytes
 * of memory (agent/headroom.h); why says so.  KP_END: woken.
 */
enum kp_err injected_room(struct dist_sync *t, const char *target,
    uint64_t memory, char *why, size_t n);
/*
 * Connects, loads and starts.  On error `why` is one line for the user, and there
 * is nothing to stop; KP_END: woken.
 */
enum kp_err injected_start(struct injected *g, const struct injected_code *code,
    const struct injected_opts *o, const struct injected_own *own,
    struct injected_hello *h, char *why, size_t n);
enum kp_err injected_command(struct injected *g, const char *word);
/* Readable when a message has come. */
int injected_fd(const struct injected *g);
/* Renews the lease if it is time. */
enum kp_err injected_lease(struct injected *g);
/* Sends the command that put() writes. */
enum kp_err injected_send(struct injected *g,
    void (*put)(struct kp_buf *b, const void *ctx), const void *ctx);
/* dist_sync_next(), but it renews the lease and keeps an expression's value. */
enum kp_err injected_next(struct injected *g, kp_mono_ns deadline,
    struct kp_term *r);
/* Has everything taken back, and waits for nothing. */
void injected_leave(struct injected *g);
/*
 * Has everything taken back, and waits for that no longer than `wait`: before OTP 27
 * the next profile would take what is left for another tool's.  False: it was waited
 * for in vain.  Does nothing if nothing was started.
 */
bool injected_stop(struct injected *g, kp_dur_ns wait);

/* Words for an error of dist_sync_next(); returns e. */
enum kp_err injected_broken(const struct injected *g, enum kp_err e, char *why,
    size_t n);
/*
 * Reads Why and Text, as the node sends them when it has ended by itself.  text:
 * what there is to say about that, or ""; for KP_CALLS_GONE what has happened.
 */
enum kp_calls_end injected_read_end(const struct injected *g,
    struct kp_term *r, char *text, size_t n);
void injected_copy_text(struct kp_span s, char *text, size_t n);

#endif
