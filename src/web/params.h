/*
 * params.h - parses the query of a request's URL.  Pure.
 *
 * The query is untrusted: a parameter that is unknown, repeated, malformed or out
 * of range is refused with a reason, never guessed at.
 */
#ifndef KPROFD_WEB_PARAMS_H
#define KPROFD_WEB_PARAMS_H

#include "text/timefmt.h"
#include "store/query.h"

#define WEB_QUERY_MAX 4096	/* bytes behind the '?' */
#define WEB_LIMIT_MAX 1000	/* rows of a page */

enum web_param {
	PARAM_SINCE = 1, PARAM_UNTIL = 2, PARAM_NODE = 4, PARAM_IDENTITY = 8,
	PARAM_TIER = 16, PARAM_STEP = 32, PARAM_LIMIT = 64, PARAM_OFFSET = 128,
	PARAM_SORT = 256, PARAM_WHAT = 512, PARAM_VERSUS = 1024,
	PARAM_OUTCOME = 2048
};
#define PARAM_RANGE (PARAM_SINCE | PARAM_UNTIL | PARAM_NODE)

struct web_params {
	unsigned given;		/* of enum web_param */
	struct kp_query_range range;	/* points into text */
	struct timefmt_range versus;
	const char *tier, *sort;	/* NULL: not given */
	kp_dur_ns step;			/* 0: not given */
	size_t limit, offset;
	int what;			/* enum report_what */
	const char *id;			/* of the path; set by the caller */
	char text[2 * WEB_QUERY_MAX];	/* decoded */
	size_t len;
};

/*
 * query: what follows the '?', or NULL; allowed: of enum web_param.  False: `why`
 * says what is wrong.  limit is 100 if not given.
 */
bool web_params_parse(struct web_params *p, const char *query,
    unsigned allowed, kp_wall_ns now, char *why, size_t n);

#endif
