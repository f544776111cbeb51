/*
 * otlp_health.c - compares the exporter's counters with those of the last
 * check, logs what changed, and writes them out.
 */
#include <inttypes.h>
#include <stddef.h>

#include "export/health.h"
#include "daemon/log.h"
#include "daemon/otlp_health.h"
#include "text/text.h"

static uint64_t
refused(const struct otlp_status *st)
{
	return st->spans_refused + st->points_refused;
}

void
otlp_health_check(struct otlp_health *h, struct otlp *x)
{
	struct otlp_status st;
	char n[TEXT_MAX];

	if (x == NULL)
		return;
	otlp_status(x, &st);
	if (st.failing && !h->failing)
		log_warn("otlp", NULL, "the collector has not got what was "
		    "sent: %s; it is tried again", st.why);
	else if (!st.failing && h->failing)
		log_info("otlp", NULL, "the collector takes what is sent "
		    "again");
	if (refused(&st) > h->refused)
		log_warn("otlp", NULL, "the collector refused %" PRIu64
		    " spans and points so far: %s", refused(&st), st.why);
	if (st.requests_lost > h->lost)
		log_warn("otlp", NULL, "not sent so far: %s; too many waited, "
		    "or could not be read", text_counted(n, st.requests_lost,
		    "slow request"));
	*h = (struct otlp_health){ st.failing, refused(&st),
		st.requests_lost };
}

void
otlp_put_text(struct kp_buf *b, struct otlp *x)
{
	struct otlp_status st;

	if (x == NULL)
		return;
	otlp_status(x, &st);
	kp_buf_printf(b, "collector   %" PRIu64 " spans, %" PRIu64 " points "
	    "sent; %" PRIu64 " refused, %" PRIu64 " requests lost, %" PRIu64
	    " wait%s%s\n", st.spans, st.points, refused(&st),
	    st.requests_lost, st.requests_waiting,
	    st.failing ? "; failing: " : "", st.failing ? st.why : "");
}

/* uint64_t each */
static const struct {
	const char *key;	/* in JSON */
	enum health metric;
	size_t at;		/* in struct otlp_status */
} counters[] = {
	{ "failures", HEALTH_OTLP_FAILURES,
	    offsetof(struct otlp_status, failures) },
	{ "spans", HEALTH_OTLP_SPANS, offsetof(struct otlp_status, spans) },
	{ "points", HEALTH_OTLP_POINTS, offsetof(struct otlp_status, points) },
	{ "spans_refused", HEALTH_OTLP_REFUSED_SPANS,
	    offsetof(struct otlp_status, spans_refused) },
	{ "points_refused", HEALTH_OTLP_REFUSED_POINTS,
	    offsetof(struct otlp_status, points_refused) },
	{ "requests_lost", HEALTH_OTLP_LOST,
	    offsetof(struct otlp_status, requests_lost) },
	{ "requests_waiting", HEALTH_OTLP_WAITING,
	    offsetof(struct otlp_status, requests_waiting) },
};
#define NCOUNTERS (sizeof(counters) / sizeof(counters[0]))

static uint64_t
counter(const struct otlp_status *st, size_t i)
{
	return *(const uint64_t *)((const char *)st + counters[i].at);
}

void
otlp_put_json(struct json *j, struct otlp *x)
{
	struct otlp_status st;

	if (x == NULL)
		return;
	otlp_status(x, &st);
	json_object(j, "otlp");
	json_bool(j, "failing", st.failing);
	json_string(j, "error", st.why);
	for (size_t i = 0; i < NCOUNTERS; i++)
		json_uint(j, counters[i].key, counter(&st, i));
	json_end(j);
}

void
otlp_put_metrics(struct kp_buf *b, struct otlp *x)
{
	struct otlp_status st;

	if (x == NULL)
		return;
	otlp_status(x, &st);
	health_put(b, HEALTH_OTLP_FAILING, "", "", st.failing);
	for (size_t i = 0; i < NCOUNTERS; i++)
		health_put(b, counters[i].metric, "", "",
		    (double)counter(&st, i));
}
