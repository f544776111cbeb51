/*
 * api.h - the part of the HTTP API that is answered from a database, as JSON.
 *
 * The answers are written by the code that `kprof` prints with.  Each request opens
 * a kp_query of its own, so that nothing stays open between them.
 */
#ifndef KPROFD_WEB_API_H
#define KPROFD_WEB_API_H

#include <stdatomic.h>

#include "kprofd/buf.h"
#include "params.h"

#define API_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

struct api_answer {
	int status;		/* of HTTP; 200: b holds the answer */
	struct kp_buf b;	/* the caller frees it, also after an error */
};

typedef enum kp_err api_fn(struct kp_query *q, const struct web_params *p,
    struct kp_buf *b);

struct api_route {
	const char *name;	/* behind /api/v1/; after a / follows p->id */
	unsigned params;	/* that it allows */
	api_fn *fn;
};

/* NULL: there is none. */
const struct api_route *api_find(const char *name);

/*
 * Opens the databases, answers and closes them.  Setting *stop from another thread
 * interrupts it; NULL: only the time limit does.
 */
void api_ask(struct api_answer *a, const struct kp_query_files *dbs,
    const struct api_route *route, const struct web_params *p,
    const atomic_bool *stop);
/* Replaces the answer by {"error": TEXT}. */
void api_error(struct api_answer *a, int status, const char *text);

#endif
