/*
 * pools.h - which supervisors and pools of processes a node has, and how many of a
 * pool's workers are at work.  Pure.
 *
 * A pool is several children of one parent that began with the same function and
 * stay.  Those that come and go, such as a process for each request, are not one.
 */
#ifndef KPROFD_SUGGEST_POOLS_H
#define KPROFD_SUGGEST_POOLS_H

#include "kprofd/term.h"
#include "kprofd/waits.h"
#include "suggest/call_tree.h"

/* More are counted; kprof_sampler_pools.erl sends fewer. */
#define SUGGEST_POOLS_MAX 100u
#define SUGGEST_POOL_APPS_MAX 200u
#define SUGGEST_POOL_MEMBERS_MAX 20000u	/* of all pools, that are named */

/* Texts are owned. */
struct suggest_pool {
	char *app, *parent, *child;	/* app, parent: "" if not known */
	char *owner;		/* the module that started the supervisor, or "" */
	uint64_t parents;	/* of that name */
	uint64_t count;		/* children */
	uint64_t members;	/* of these, that are named */
	uint64_t gone;		/* of these, that soon ended */
	bool ports;		/* they own ports, such as sockets */
	kp_dur_ns work;		/* of the members */
};

struct suggest_pool_app {
	char *name;		/* "": of none */
	char *supervisors;	/* names, each once, joined by ", " */
	uint64_t processes, nsupervisors, named;
	bool more;		/* have other names */
};

struct suggest_pools {
	struct suggest_pool *v;
	size_t n;
	struct suggest_pool_app *apps;
	size_t napps;
	/* Servers that answer later, for which several processes waited at once. */
	struct kp_waits waits[KP_WAITS_MAX];
	size_t nwaits;
	uint64_t seen, not_seen;	/* processes that were asked, and others */
	uint64_t over;		/* items past the caps: applications, pools, members */
	bool answered;		/* the node has answered */
	struct map members;	/* private: process -> pool + 1 */
};

/*
 * Reads {Seen, NotSeen}, [Application], [Pool], [Waits] into a zeroed one, which the
 * caller frees in any case.  KP_EFORMAT, KP_ENOMEM.
 */
enum kp_err suggest_pools_read(struct suggest_pools *p, struct kp_term *r);
void suggest_pools_free(struct suggest_pools *p);
/*
 * Adds a sample of a process; returns whether that is a pool's worker which is asked
 * by others in the node: one with a socket of its own may serve a client.
 */
bool suggest_pools_sample(struct suggest_pools *p, uint64_t proc, bool works,
    kp_dur_ns time);
/* A process waits for a client or a database: it may not have had a socket before. */
void suggest_pools_input(struct suggest_pools *p, uint64_t proc);
/*
 * Marks functions of modules by which others reach a pool: its workers', and that of
 * the server that owns it; and functions in which others wait for a worker.
 */
void suggest_pools_mark(const struct suggest_pools *p,
    const struct kp_call_names *t, struct suggest_fn *fns);
/*
 * Is it of the platform?  mod: of what a pool's processes began with; NULL: an
 * application as a whole.
 */
typedef bool suggest_is_platform(const void *ctx, const char *app,
    const char *mod);
/*
 * Appends what to say of supervisors and pools, a paragraph a line; but not of those
 * of the platform.  span: how long was sampled.
 */
void suggest_pools_about(const struct suggest_pools *p, kp_dur_ns span,
    suggest_is_platform *is_platform, const void *ctx, struct kp_buf *b);

#endif
