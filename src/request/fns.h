/*
 * fns.h - the functions that events name, each kept once.
 *
 * They come as raw terms with every event, and are looked up by their bytes, so
 * that a name is decoded only the first time.  The table is capped; texts stay
 * until fns_free(), so that closed windows may point to them from another
 * thread.
 */
#ifndef KPROFD_REQUEST_FNS_H
#define KPROFD_REQUEST_FNS_H

#include "base/intern.h"
#include "base/map.h"
#include "kprofd/config.h"
#include "kprofd/request.h"

#define FN_MAX 65536		/* functions: tiers' and their callers */

/* "db:query/2", of such names; owned by the caller, NULL: no memory. */
char *fn_text(struct kp_span mod, struct kp_span fun, uint32_t arity);

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
	uint32_t len;
	size_t room;
};

void fns_free(struct fns *f);
/* The function's number, or KP_NONE when it is not an MFA or the table full. */
uint32_t fns_intern(struct fns *f, struct kp_span raw);

#endif
