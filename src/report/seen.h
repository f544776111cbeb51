/*
 * seen.h - how a figure looks, to people and to programs, that is known, known
 * in part, or cannot be seen.
 *
 *	known		12	5 %
 *	at least	>= 12	>= 12	more may be: never a rate
 *	... of samples	~120 or more	an estimate is not a bound
 *	not seen	-	-	never 0
 *
 * A figure that is estimated, or a change that chance may have made, has a ~
 * before it.
 */
#ifndef KP_REPORT_SEEN_H
#define KP_REPORT_SEEN_H

#include "kprofd/stats.h"
#include "text/text.h"

/* What shows how calls end, where it cannot be seen. */
#define SEEN_WAY_OUT "the native probe sees it (-probe auto, the default; " \
	"-probe-library where a target could not load it: the event probe "   \
	"says so), and the relay where the entry is in a tier that has [exact]"

/* "known", "at_least", "not_seen": for programs. */
const char *seen_name(enum kp_seen seen);
/*
 * Both write at most TEXT_MAX bytes and return buf.  n of `of`.  known: it was
 * counted, and is not estimated from samples.
 */
const char *seen_count(char *buf, enum kp_seen seen, uint64_t n, bool known);
const char *seen_share(char *buf, enum kp_seen seen, uint64_t n, uint64_t of,
    bool known);

#endif
