/*
 * propose.h - which function begins requests, and which functions are worth
 * measuring, from call trees; and the text of the tiers.conf that is proposed.  Pure.
 *
 * An entry is the outermost call in a process that works and waits in turn, and
 * returns.  Tiers are modules, or applications that are not the entry's, in which
 * much of the requests' time passes, callees in other modules not included.  No name
 * has a part in this, but for frameworks with a file in priv/examples, and functions of
 * widely used pools: where requests wait for a worker is a tier of its own.
 */
#ifndef KPROFD_SUGGEST_PROPOSE_H
#define KPROFD_SUGGEST_PROPOSE_H

#include "kprofd/config.h"
#include "suggest/call_tree.h"

#define SUGGEST_ENTRIES_MAX 8	/* each has a digit */
#define SUGGEST_TIERS_MAX 12	/* more would be more than people read */
#define SUGGEST_TIER_FNS_MAX 12	/* functions of one tier */
#define SUGGEST_LEFT_MAX 12	/* functions of which the file says why not */
#define SUGGEST_CLAUSE_MAX 8192u	/* bytes */
#define SUGGEST_FILE_MAX (256u << 10)	/* bytes */

/* ---- entries (entry.c) ---- */

struct suggest_entry {
	uint32_t fn;
	uint64_t calls;		/* in the trace */
	kp_dur_ns total;
	uint64_t samples;	/* that show it; of samples */
	unsigned modules;	/* others that it calls, directly or not */
	bool callback;		/* the last resort: it returns a server's state */
	bool waits;		/* it does little but wait */
	bool cut;		/* samples do not show what is around it */
	bool framework;		/* a framework's request */
	bool worker;		/* in a pool, and calls hardly any other module */
	double score;
};

/*
 * The best first; at most SUGGEST_ENTRIES_MAX.  Returns their number; 0: nothing
 * was called that returned.
 */
size_t suggest_entries(const struct suggest_tree *c,
    const struct suggest_fn *fns, struct suggest_entry *v);

/*
 * A framework or a client that is widely used, by its modules.  Where one with an
 * example gets requests, that is proposed, with tiers of the application's own modules.
 */
struct suggest_framework {
	const char *module;	/* it is loaded where the framework is */
	const char *name;
	const char *does;	/* "HTTP requests" */
	const char *example;	/* in priv/examples, or NULL: */
	const char *stock;	/* its text, a tiers.conf */
	bool whole;		/* no application of its user's is part of it */
	bool layers;		/* it has what applications call: databases, templates */
};

#define SUGGEST_STOCKS_MAX 8	/* frameworks with an example */

/* Those that others are part of come first. */
extern const struct suggest_framework suggest_frameworks[];
extern const size_t suggest_nframeworks;

/* What tells requests apart, the best first. */
enum suggest_type {
	SUGGEST_WEB,	/* method and path */
	SUGGEST_ATOM,
	SUGGEST_MAP,	/* an atom in it */
	SUGGEST_TUPLE,	/* an atom at its beginning */
	SUGGEST_STRUCT,	/* its name, which is mostly the same for all */
	SUGGEST_NO_TYPE
};

/*
 * example: "mod:fun(atom, #{method := binary, ... 4 keys})", all of the line
 * behind "example: ".  Appends a clause, and why it is that, as a comment of one
 * line, to `why`.  If nothing distinguishes requests, the clause gives all of them
 * the function's name.
 */
enum suggest_type suggest_identity(const struct kp_mfa *f, const char *example,
    struct kp_buf *clause, struct kp_buf *why);

/* ---- tiers (tiers.c) ---- */

/* Why a module or a function is not in a tier. */
enum suggest_reason {
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
	kp_dur_ns whole;	/* with callees, in the requests' processes */
};

struct suggest_left {
	uint32_t fn;		/* its most called function */
	enum suggest_reason reason;
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

/* Which tiers are wanted. */
struct suggest_wanted {
	double hot;	/* calls a request of a function that is called too often */
	size_t most;	/* tiers, up to SUGGEST_TIERS_MAX */
	/*
	 * Beside those of an example that has what applications call: modules that
	 * others of the application call, as its controllers do, and that have enough
	 * of the requests' time with all that they call.
	 */
	bool own;
};

/* c: a trace by request.  Tiers are in the order of their names.  KP_ENOMEM. */
enum kp_err suggest_tiers(const struct suggest_tree *c,
    const struct suggest_fn *fns, uint32_t entry, struct suggest_wanted wanted,
    struct suggest_tiers *out);

#define SUGGEST_MEASURED_CALLS 8u	/* a request: who is called more often is not */

/*
 * The functions by which other modules call into one, to be measured alone, but not of
 * helpers in t, which is of the trace c: at most max of them in v, those with most of the
 * time, as long as together they have no more than `calls` calls a request.  *n: how
 * many; KP_ENOMEM.
 */
enum kp_err suggest_ways_in(const struct suggest_tiers *t, const struct suggest_tree *c,
    const struct suggest_fn *fns, double calls, uint32_t *v, size_t max, size_t *n);

/* ---- texts (write.c) ---- */

struct suggest_file {
	const char *node, *date;
	/* Other options with which kprofd reaches the node: " -dist-port 4370"; or "". */
	const char *reach;
	const struct kp_call_names *names;
	const struct suggest_fn *fns;
	/* The best first, of a trace with other names. */
	const struct suggest_entry *entries;
	const struct kp_call_names *entry_names;
	size_t nentries, chosen;	/* chosen: which of them it is for */
	const struct suggest_tiers *tiers;
	/* Calls a second; < 0: unknown. */
	double (*rate)(const void *ctx, const struct kp_call_fn *fn);
	const void *ctx;
	/* Lines without "% ", for the beginning; "" : none. */
	const char *about, *verdict;
	const char *clause, *why;	/* of the identity fun; or "" */
	bool paths;			/* request types are paths */
	/* Of a draft: other functions whose arguments are to be seen. */
	const uint32_t *asked;
	size_t nasked;
	/* NULL, or whose example has the entries, the identity fun and tiers more. */
	const struct suggest_framework *stock;
	const struct kp_conf *stock_conf;
};

void suggest_write(const struct suggest_file *f, struct kp_buf *b);
/*
 * A draft without comments, whose identity fun names no request: for kprofd -check
 * -explain.
 */
void suggest_write_draft(const struct suggest_file *f, struct kp_buf *b);

/* The work of one kind. */
struct suggest_work {
	uint64_t loads, questions, patterns;
	uint64_t processes;	/* whose flags were set */
	double counted, armed;	/* calls */
	double events;
};

/*
 * What it takes of the node's processor time.  Sampling measures itself there.  The
 * rest cannot be measured beside the node's own work, so it is estimated from what was
 * done.
 */
struct suggest_cost {
	kp_dur_ns sampling;	/* measured */
	struct suggest_work asked, counts, traces, checks;
};

/* An upper estimate. */
kp_dur_ns suggest_cost_time(const struct suggest_cost *c);
/*
 * Appends what it took in the node and of which parts, in `took` of time; all: all
 * processes were traced, too.
 */
void suggest_write_cost(const struct suggest_cost *c, kp_dur_ns took, bool all,
    struct kp_buf *b);

#endif
