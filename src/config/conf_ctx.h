/*
 * conf_ctx.h - a tiers.conf while its options are set: what their setters share,
 * and those setters that have files of their own.  conf.c calls them.
 */
#ifndef KPROFD_CONFIG_CONF_CTX_H
#define KPROFD_CONFIG_CONF_CTX_H

#include "base/vec.h"
#include "config/lang.h"

#define CONF_ONE_IN_MAX 1000000		/* well below the hash's 2^24 steps */
#define CONF_PER_SECOND_MAX 1000000
#define CONF_MS_MAX 3600000		/* an hour */
#define CONF_KEEP_MAX 64		/* all trees that are kept (tail.h) */
#define CONF_PERCENT_MIN 0.01
#define CONF_STACKS_MAX 1000		/* a second */
#define CONF_STACKS_PERCENT_MAX 100	/* of one scheduler */
#define CONF_PERCENT_MAX 10000	/* of one scheduler: a hundred of them */
#define CONF_NODES_MAX 64		/* globs of one entry */
#define CONF_REWRITE_MAX 100
#define CONF_REWRITE_BYTES_MAX 256	/* of a pattern, and of its text */
#define CONF_UNROLLED_MAX 2000		/* of a pattern, repetitions unrolled */
#define CONF_REPEAT_MAX 4		/* repetitions within each other */

struct conf_ctx {
	struct kp_conf *conf;
	struct kp_diags *diags;
	const struct node *identity, *label, *trace;	/* their funs, or NULL */
	const struct node *slo;	/* its list, or NULL */
	void *to;		/* what the option that is read is to set */
	bool tiers_seen;
	bool fns_missing;	/* some were refused: conf does not have all */
	bool nomem;
};

/* ---- conf.c ---- */

/* "found X, expected WHAT" at v's place. */
void conf_expected(struct conf_ctx *x, const struct node *v, const char *what);
/* Is it a proper list?  Reports if not. */
bool conf_list(struct conf_ctx *x, const struct node *v, const char *what);
/* The index of the atom in names; n, after reporting the nearest: none. */
size_t conf_name(struct conf_ctx *x, const struct node *atom, const char *kind,
    const char *const *names, size_t n);
/* A string's or binary's text, malloced; NULL, after reporting it: neither. */
char *conf_string(struct conf_ctx *x, const struct node *v, const char *what);
/* Makes room for one more of n elements; false, and sets nomem: no memory. */
#define conf_room(x, v, n) \
	conf_has_room(x, vec_room_by_len(v, n, VEC_NO_CAP))
bool conf_has_room(struct conf_ctx *x, enum kp_err room);

/*
 * Runs `add` for each element of a proper list, up to max, and reports those
 * past it as too many of `name`.
 */
void conf_each(struct conf_ctx *x, const struct node *list, const char *name,
    uint32_t max, void (*add)(struct conf_ctx *x, const struct node *v));

/* ---- conf_fns.c: each reports what is wrong and keeps what is right ---- */

void conf_functions(struct conf_ctx *x, const struct node *v,
    struct kp_mfa_pat **fns, size_t *n, size_t max);
void conf_tiers(struct conf_ctx *x, const struct node *list);
void conf_entry(struct conf_ctx *x, const struct node *form);

/*
 * Reports how {Name, Function} is written, without the function's own braces:
 * {web, m, f, 1}.  False: it is not like that, and nothing was reported.
 */
bool conf_flat_hint(struct conf_ctx *x, const struct node *v);
/* Reports functions of kprof that are named for what they are not. */
void conf_marks(struct conf_ctx *x);

/* ---- slo.c: sets the objectives, once all else is set ---- */

void conf_slo(struct conf_ctx *x);

/* ---- instructions.c: warns of functions whose calls are not traced ---- */

void conf_instructions(struct conf_ctx *x);

#endif
