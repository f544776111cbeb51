/*
 * fns.h - names met in events, each kept once.
 *
 * Functions and identities come as raw terms with every event.  They are
 * looked up by their bytes, so a name is decoded only the first time.  Both
 * tables are capped; texts are immortal, so that closed windows may point to
 * them from another thread.
 */
#ifndef KPROFD_REQUEST_FNS_H
#define KPROFD_REQUEST_FNS_H

#include <regex.h>

#include "kprofd/config.h"
#include "kprofd/request.h"
#include "base/map.h"

#define FN_MAX 65536		/* functions: tiers' and whoever called them */
#define IDENT_RAW_MAX 8192	/* identity terms remembered by their bytes, */
#define IDENT_RAW_BYTES 2048	/* if they are no longer than this */
#define IDENT_TEXT_MAX 256	/* bytes of an identity's text */
#define IDENT_LINES_MAX 1024	/* lines of tiers.conf that are told of */

/*
 * Appends a name that a target gave, until b has so many bytes or some more;
 * what would move a terminal's cursor or turn its text around becomes
 * \xhh or \u{h}, as do the bytes above 0x7f of what is no UTF-8.
 */
void name_put(struct kp_buf *b, const uint8_t *p, size_t n, size_t until);
/* "db:query/2", of such names; owned by the caller, NULL: no memory. */
char *fn_text(struct kp_span mod, struct kp_span fun, uint32_t arity);

/* Keys by bytes, values by number; the bytes are copied. */
struct interned {
	uint8_t *key;
	uint32_t keylen;
	uint32_t val;
	uint64_t hash;
};

struct intern {
	struct interned *slots;	/* open addressing, power of two */
	size_t cap, len;
};

void intern_free(struct intern *t);
/* The value, or NULL. */
uint32_t *intern_get(const struct intern *t, const void *key, size_t n,
    uint64_t hash);
bool intern_put(struct intern *t, const void *key, size_t n, uint64_t hash,
    uint32_t val);

/* A name met lately; its bytes are the table's. */
struct recent {
	const uint8_t *key;
	uint32_t keylen, val;
};

#define RECENT_BITS 6

struct fns {
	const struct kp_conf *conf;
	struct recent recent[1 << RECENT_BITS];
	struct intern by_raw;
	struct kp_fn *v;
	uint32_t len, cap;
};

void fns_free(struct fns *f);
/* The function's number, or KP_NONE when it is no MFA or the table full. */
uint32_t fns_intern(struct fns *f, struct kp_span raw);

struct idents {
	struct intern by_raw, by_text;
	char **text;
	uint32_t len, cap, max;
	const struct kp_conf *conf;
	regex_t *rewrites;	/* conf->nrewrites of them */
	struct map told;	/* lines, each told of once */
};

bool idents_init(struct idents *t, const struct kp_conf *conf, uint32_t max);
void idents_free(struct idents *t);
/* KP_IDENT_OTHER when the table is full: *overflow is then set. */
uint32_t idents_intern(struct idents *t, struct kp_span raw, bool *overflow);
/*
 * The line of {'_other', Line}, which the target says in place of an identity
 * that is too large; 0: it is not that.
 */
uint32_t ident_unbounded(struct kp_span raw);
/* Is this line to be told of: for the first time? */
bool idents_tell(struct idents *t, uint32_t line);

#endif
