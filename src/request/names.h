/*
 * names.h - tables of names: request types, functions and receivers of
 * messages.
 *
 * Names come as raw terms, and are looked up by their bytes, so that each is
 * decoded only the first time.  All tables are capped.  The texts of functions
 * and request types stay until the table is freed, so that closed windows may
 * point to them from another thread.
 */
#ifndef KPROFD_REQUEST_NAMES_H
#define KPROFD_REQUEST_NAMES_H

#include <regex.h>

#include "base/map.h"
#include "kprofd/config.h"
#include "kprofd/etf.h"
#include "kprofd/request.h"

/* ---- request types ("identities"), and labels of calls ---- */

#define IDENT_RAW_MAX 8192	/* identity terms remembered by their bytes, */
#define IDENT_RAW_BYTES 2048	/* if they are no longer than this */
#define IDENT_TEXT_MAX 256	/* bytes of an identity's text */
#define IDENT_LINES_MAX 1024	/* lines of tiers.conf that are reported */

struct idents {
	struct intern by_raw, by_text;
	char **text;
	uint32_t len, max;
	size_t room;
	const struct kp_conf *conf;
	regex_t *rewrites;	/* conf->nrewrites of them */
	struct map reported;	/* lines of tiers.conf */
};

bool idents_init(struct idents *t, const struct kp_conf *conf, uint32_t max);
void idents_free(struct idents *t);
/* The number of a term that is remembered by its bytes; KP_NONE: it is not. */
uint32_t idents_known(const struct idents *t, struct kp_span raw);
/* KP_IDENT_OTHER when the table is full: *overflow is then set. */
uint32_t idents_intern(struct idents *t, struct kp_span raw, bool *overflow);
/* Most identities and labels are not tuples, and need not be read to know that. */
static inline bool
ident_is_tuple(struct kp_span raw)
{
	return raw.n > 1 && raw.p[0] == ETF_SMALL_TUPLE;
}
/*
 * Takes Identity, which is empty for [] and undefined, out of {'_trace', Traceparent,
 * Identity}, and sets the span of Traceparent.  False: it is not such a term.
 */
bool ident_trace(struct kp_span *raw, struct kp_span *traceparent);
/* Reads such a Traceparent: "" if it is invalid, or the span empty. */
void ident_traceparent(struct kp_span raw, char traceparent[KP_TRACEPARENT]);
/* Takes Label out of {'_label', Label}; false: it is an identity. */
bool ident_label(struct kp_span *raw);
/*
 * The line of {'_other', Line}, which the target sends in place of an identity
 * that is too large; 0 for any other term.
 */
uint32_t ident_unbounded(struct kp_span raw);
/* Returns true the first time that it is called for this line. */
bool idents_report_once(struct idents *t, uint32_t line);

/*
 * ---- the functions that events name ----
 *
 * Traced functions are few, and stay.  Their callers may be any, also of modules that
 * are made and deleted all the time; they are only compared.  So the number of a
 * caller that is not traced is a hash of its name, and the table of these is a cache,
 * which is emptied when it is full.
 */

#define FN_MAX 65536		/* traced functions */
#define FN_CALLERS_MAX 8192	/* others, in the cache */
#define FN_CALLER UINT32_C(0x80000000)	/* in the number of one that is not traced */
#define RECENT_BITS 6

/* A name of a late event; its bytes are the table's. */
struct recent {
	const uint8_t *key;
	uint32_t keylen, val;
};

struct fns {
	const struct kp_conf *conf;
	struct recent recent[1 << RECENT_BITS];
	struct intern by_raw, callers;
	struct kp_fn *v;
	uint32_t len;
	size_t room;
	struct idents labels, parts;	/* of calls; "db: users" */
	struct map labelled;	/* function and label -> the function with that label */
};

/* False: out of memory. */
bool fns_init(struct fns *f, const struct kp_conf *conf);
void fns_free(struct fns *f);
/*
 * The number of a function that was called, an index into v; KP_NONE when it is not an
 * MFA or the table full.
 */
uint32_t fns_of_call(struct fns *f, struct kp_span raw);
/*
 * Of fn for calls with this label, of f->labels, or with _other if there are too many;
 * fn itself without memory.
 */
uint32_t fns_labelled(struct fns *f, uint32_t fn, uint32_t label);
/* The number of the function that called, or that control went back to. */
uint32_t fns_of_caller(struct fns *f, struct kp_span raw);


/*
 * ---- processes that receive messages ----
 *
 * Many processes may have the same name.  Names are few (KP_RECEIVERS_MAX) and
 * stay.  The table of processes is emptied when it is full, and then they are
 * asked for their names again.
 */

struct receivers {
	struct map procs;	/* process -> its name's id plus one; 0: asked */
	char *name[KP_RECEIVERS_MAX];	/* owned */
	uint32_t n;
};

/* False: out of memory. */
bool receivers_init(struct receivers *r);
void receivers_free(struct receivers *r);
/* Adds the process; false if it was there. */
bool receivers_add(struct receivers *r, uint64_t proc);
/* See kp_requests_name_receiver(). */
void receivers_name(struct receivers *r, uint64_t proc, struct kp_span name);
/* The id of its name; KP_RECEIVER_GONE where it has none, or not yet. */
uint32_t receivers_get(const struct receivers *r, uint64_t proc);

#endif
