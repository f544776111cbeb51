/*
 * api.h - the answers of the HTTP API that come from a database, as JSON.
 *
 * Each is made by the code that `kprof` prints with.  One kp_query serves one
 * request, so that nothing stays open between them.
 */
#ifndef KP_WEB_API_H
#define KP_WEB_API_H

#include <stdatomic.h>

#include "kprofd/buf.h"
#include "params.h"

#define API_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

struct api_answer {
	int status;		/* of HTTP; 200: b holds the answer */
	struct kp_buf b;	/* owned by the caller; also of an error */
};

/* One question: params are those that it allows. */
typedef enum kp_err api_fn(struct kp_query *q, const struct web_params *p,
    struct kp_buf *b);

struct api_route {
	const char *name;	/* behind /api/v1/ */
	unsigned params;
	api_fn *fn;
};

/* NULL: there is none. */
const struct api_route *api_find(const char *name);

/*
 * Of the databases: opens, asks, closes.  *stop set from another thread ends
 * it early; NULL: nothing does but the time limit.
 */
void api_ask(struct api_answer *a, const struct kp_query_files *dbs,
    const struct api_route *route, const struct web_params *p,
    const atomic_bool *stop);
/* The tree of one slow request; id as it stands in the path. */
void api_tree(struct api_answer *a, const struct kp_query_files *dbs,
    const char *id, const atomic_bool *stop);
/* {"error": TEXT} instead of what there is. */
void api_error(struct api_answer *a, int status, const char *text);

#endif
