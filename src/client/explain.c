/* explain.c - explains why a report is empty, and what to do about it. */
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "report/losses.h"
#include "report/report_db.h"
#include "text/text.h"
#include "text/timefmt.h"

#define NAMES_MAX 10	/* listed of those that exist */

static void
put_names(struct kp_buf *b, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
		kp_buf_str(b, i > 0 ? ", " : "there are: ");
		text_put(b, v[i]);
	}
	kp_buf_str(b, n > NAMES_MAX ? ", ...\n" : "\n");
}

static void
put_quoted(struct kp_buf *b, const char *s)
{
	kp_buf_u8(b, '\'');
	text_put(b, s);
	kp_buf_u8(b, '\'');
}

/* Windows, but no request of this type: looks for other types. */
static enum kp_err
explain_identity(struct kp_buf *b, struct kp_query *q,
    const struct kp_query_range *range, bool *found)
{
	struct kp_query_range any = *range;
	const char *names[NAMES_MAX + 1];
	struct report *r;
	enum kp_err err;
	size_t n = 0;

	any.identity_glob = NULL;
	err = report_from_db(q, &any, false, &r);
	if (err != KP_OK)
		return err;
	*found = !report_empty(r);
	if (*found) {
		for (size_t i = 1; i < r->nrows && n <= NAMES_MAX; i++)
			names[n++] = r->rows[i].identity;
		kp_buf_str(b, "no request type matches ");
		put_quoted(b, range->identity_glob);
		kp_buf_str(b, " (see -identity); ");
		put_names(b, names, n);
	}
	report_free(r);
	return KP_OK;
}

enum kp_err
explain_empty(struct kp_buf *b, struct kp_query *q,
    const struct kp_query_range *range, const struct report *r)
{
	bool others = false;
	enum kp_err err;

	if (r->windows > 0 && r->filtered) {
		err = explain_identity(b, q, range, &others);
		if (err != KP_OK || others)
			return err;
	}
	if (r->windows > 0) {
		kp_buf_str(b, "no request was measured: ");
		timefmt_put_range(b, r->start, r->end);
		kp_buf_u8(b, '\n');
	}
	report_put_running(b, r);
	if (r->running)
		kp_buf_u8(b, '\n');
	report_put_hints(b, r, screen_width());
	if (r->windows > 0)
		losses_text(b, &r->losses, screen_width());
	return KP_OK;
}
