/*
 * propose.h - which function begins requests, and which functions are worth
 * measuring, from traces of calls (calls.h).  Pure.
 *
 * An entry is the outermost call in a process that works and waits in turn, and
 * returns.  Tiers are modules, or applications that are not the entry's, in which
 * much of the requests' time passes, callees in other modules not included.  No name
 * has a part in this, but for functions of widely used pools: where requests wait for
 * a worker is a tier of its own.
 */
#ifndef KPROFD_SUGGEST_PROPOSE_H
#define KPROFD_SUGGEST_PROPOSE_H

#include "suggest/calls.h"

#define SUGGEST_ENTRIES_MAX 8
#define SUGGEST_TIERS_MAX 12	/* more would be more than people read */
#define SUGGEST_TIER_FNS_MAX 12	/* functions of one tier */
#define SUGGEST_LEFT_MAX 12	/* functions of which the file says why not */

struct suggest_entry {
	uint32_t fn;
	uint64_t calls;		/* in the trace */
	kp_dur_ns total;
	uint64_t samples;	/* that show it; of samples */
	unsigned modules;	/* others that it calls, directly or not */
	bool callback;		/* the last resort: it returns a server's state */
	bool waits;		/* it does little but wait */
	bool cut;		/* samples do not show what is around it */
	bool known;		/* a framework's request */
	bool worker;		/* in a pool, and calls hardly any other module */
	double score;
};

/*
 * The best first; at most SUGGEST_ENTRIES_MAX.  Returns their number; 0: nothing
 * was called that returned.
 */
size_t suggest_entries(const struct suggest_calls *c,
    const struct suggest_fn *fns, struct suggest_entry *v);

/* Why a module or a function is not in a tier. */
enum suggest_why {
	SUGGEST_HELPER,		/* called from everywhere: part of its callers */
	SUGGEST_SHORT,		/* too little of the time */
	SUGGEST_QUICK,		/* tracing would take as long as its calls */
	SUGGEST_HOT,		/* called too often */
	SUGGEST_ENOUGH		/* there are SUGGEST_TIERS_MAX already */
};

struct suggest_tier {
	uint32_t fns[SUGGEST_TIER_FNS_MAX];
	uint64_t calls[SUGGEST_TIER_FNS_MAX];	/* in requests */
	size_t nfns;
	size_t more;		/* functions that had no room */
	bool by_app;		/* of an application, without its big modules */
	bool entry;		/* the entry's own */
	bool pool;		/* requests reach a pool of processes by it */
	bool waits;		/* they wait in it for a worker of a pool */
	kp_dur_ns own;		/* in requests, other tiers not included */
	kp_dur_ns elsewhere;	/* of that, in other processes */
};

struct suggest_left {
	uint32_t fn;		/* its most called function */
	enum suggest_why why;
	uint64_t calls;
	kp_dur_ns own;
};

struct suggest_tiers {
	struct suggest_tier v[SUGGEST_TIERS_MAX];
	size_t n;
	struct suggest_left left[SUGGEST_LEFT_MAX];
	size_t nleft;
	kp_dur_ns total;	/* of all requests, in their own processes */
	kp_dur_ns elsewhere;	/* and for them, in other processes */
	uint64_t requests;
};

/* c: a trace by request.  hot: of calls a request; KP_ENOMEM. */
enum kp_err suggest_tiers(const struct suggest_calls *c,
    const struct suggest_fn *fns, uint32_t entry, double hot,
    struct suggest_tiers *out);

#endif
