/*
 * injected.h - a module of ours in a node, for one client and one profile
 * (erlang/kprof_oneshot.hrl): it is loaded and started by one call over rex, so
 * that being killed in between leaves nothing; then {kprof, Self, Ref, Command}
 * goes to the process that started.  Blocking.
 */
#ifndef KPROFD_PROFILE_TARGET_INJECTED_H
#define KPROFD_PROFILE_TARGET_INJECTED_H

#include "kprofd/config.h"
#include "dist/sync.h"

/* Renewed every second, also while something is waited for. */
#define GUEST_LEASE_MS 4000
#define GUEST_TEXT_MAX 1024
#define GUEST_PATTERNS_MAX 1024u	/* more than are ever given */

/* What is loaded, and how it is started (erlang/load.exprs). */
struct guest_code {
	const char *module;
	const char *busy;	/* what is said where one is there already */
	const unsigned char *beam, *load;
	unsigned beam_len, load_len;
};

/* All strings are borrowed. */
struct guest_opts {
	struct talk_opts talk;
	/* mod "_": every module; exclude may leave nothing out */
	const struct kp_mfa_pat *patterns, *exclude;
	size_t npatterns, nexclude;
	const char *processes;	/* "": all, or with a call, its own */
	bool spawned;		/* and those that these spawn */
	const char *apply;	/* "m:f(1, 2)", or "": no call */
	kp_dur_ns apply_limit;
	uint64_t max_functions, max_processes;
	uint64_t max_memory;	/* bytes that the VM may grow by */
	/* Called now and then while an answer is waited for; or NULL. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

struct guest_hello {
	int otp;
	uint64_t functions, processes;	/* chosen */
	uint64_t skipped;	/* processes that somebody else traces */
	kp_dur_ns offset;	/* of the node's clock, if it was said */
	bool native;		/* of a trace: by the native probe */
	char not_native[512];	/* why not, or "" */
	bool no_gc;		/* without garbage collection: somebody else
				   traces that */
	/* Of what was asked for (tracer.h): a bit each, the first the lowest. */
	uint8_t absent[GUEST_PATTERNS_MAX / 8];
};
bool guest_is_absent(const struct guest_hello *h, uint32_t place);

/* Fields are private. */
struct guest {
	struct talk *talk;
	const struct guest_code *code;
	const char *target;
	uint64_t ref;		/* of the last command */
	kp_mono_ns lease_at;	/* the next one */
};

/* Writes n more options, key and value each, for put_own(). */
struct guest_own {
	uint32_t n;
	void (*put)(struct kp_buf *b, const void *ctx);
	const void *ctx;
};
void guest_put_number(struct kp_buf *b, const char *key, uint64_t v);
void guest_put_patterns(struct kp_buf *b, const char *key,
    const struct kp_mfa_pat *v, size_t n);

/*
 * Connects, loads, starts.  On error `why` is one line for the user and there
 * is nothing to be stopped; KP_END: woken.
 */
enum kp_err guest_start(struct guest *g, const struct guest_code *code,
    const struct guest_opts *o, const struct guest_own *own,
    struct guest_hello *h, char *why, size_t n);
enum kp_err guest_command(struct guest *g, const char *word);
/* Readable when something has come. */
int guest_fd(const struct guest *g);
/* Sends one where that is due. */
enum kp_err guest_lease(struct guest *g);
/* A command that is any term, which put writes. */
enum kp_err guest_send(struct guest *g,
    void (*put)(struct kp_buf *b, const void *ctx), const void *ctx);
/* talk_next(), with leases meanwhile. */
enum kp_err guest_next(struct guest *g, kp_mono_ns deadline,
    struct kp_term *r);
/* Takes everything back.  Does nothing where nothing was started. */
void guest_stop(struct guest *g);

/* The words of what talk_next() returned; returns e. */
enum kp_err guest_broken(const struct guest *g, enum kp_err e, char *why,
    size_t n);
void guest_copy_text(struct kp_span s, char *text, size_t n);

#endif
