/*
 * naming.h - the request types ("identities") that requests are counted under.
 *
 * They come as raw terms, and are looked up by their bytes first, then by their
 * text.  Both tables are capped; texts stay until idents_free(), so that closed
 * windows may point to them from another thread.
 */
#ifndef KPROFD_REQUEST_NAMING_H
#define KPROFD_REQUEST_NAMING_H

#include <regex.h>

#include "base/intern.h"
#include "base/map.h"
#include "kprofd/config.h"
#include "kprofd/request.h"

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
	struct map told;	/* lines, each reported once */
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
/* Is this line to be reported, for the first time? */
bool idents_tell(struct idents *t, uint32_t line);

#endif
