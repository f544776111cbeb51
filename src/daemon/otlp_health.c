/*
 * otlp_health.c - compares the exporter's counters with those of the last
 * check, logs what changed, and writes them out.
 */
#include <inttypes.h>

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
otlp_health_watch(struct otlp_health *w, struct otlp *x)
{
	struct otlp_status st;
	char n[TEXT_MAX];

	if (x == NULL)
		return;
	otlp_status(x, &st);
	if (st.failing && !w->failing)
		log_warn("otlp", NULL, "the collector has not got what was "
		    "sent: %s; it is tried again", st.why);
	else if (!st.failing && w->failing)
		log_info("otlp", NULL, "the collector takes what is sent "
		    "again");
	if (refused(&st) > w->refused)
		log_warn("otlp", NULL, "the collector refused %" PRIu64
		    " spans and points so far: %s", refused(&st), st.why);
	if (st.requests_lost > w->lost)
		log_warn("otlp", NULL, "not sent so far: %s; too many waited, "
		    "or could not be read", text_counted(n, st.requests_lost,
		    "slow request"));
	*w = (struct otlp_health){ st.failing, refused(&st),
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
	json_uint(j, "failures", st.failures);
	json_uint(j, "spans", st.spans);
	json_uint(j, "points", st.points);
	json_uint(j, "spans_refused", st.spans_refused);
	json_uint(j, "points_refused", st.points_refused);
	json_uint(j, "requests_lost", st.requests_lost);
	json_uint(j, "requests_waiting", st.requests_waiting);
	json_end(j);
}

void
otlp_put_metrics(struct kp_buf *b, struct otlp *x)
{
	struct otlp_status st;

	if (x == NULL)
		return;
	otlp_status(x, &st);
	const struct {
		enum health which;
		uint64_t v;
	} all[] = {
		{ HEALTH_OTLP_FAILING, st.failing },
		{ HEALTH_OTLP_FAILURES, st.failures },
		{ HEALTH_OTLP_SPANS, st.spans },
		{ HEALTH_OTLP_POINTS, st.points },
		{ HEALTH_OTLP_REFUSED_SPANS, st.spans_refused },
		{ HEALTH_OTLP_REFUSED_POINTS, st.points_refused },
		{ HEALTH_OTLP_LOST, st.requests_lost },
		{ HEALTH_OTLP_WAITING, st.requests_waiting },
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		health_put(b, all[i].which, "", "", (double)all[i].v);
}
