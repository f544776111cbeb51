/*
 * health.c - compares the status of the store and of the exporter with that of
 * the last check, logs what changed, and writes both for `kprof status` and /metrics.
 */
#include <inttypes.h>
#include <stddef.h>

#include "daemon/health.h"
#include "daemon/log.h"
#include "export/metrics.h"
#include "text/text.h"

/* ---- the database ---- */

#define MIB (1u << 20)

/* "18 rows (12 disk full, 6 locked)" */
void
store_put_dropped(struct kp_buf *b, const struct kp_store_status *st)
{
	const char *before = " (";
	char n[TEXT_MAX];

	kp_buf_str(b, text_counted(n, kp_store_dropped(st), "row"));
	for (int i = 0; i < KP_STORE_CAUSES; i++) {
		if (st->dropped[i] == 0)
			continue;
		kp_buf_printf(b, "%s%" PRIu64 " %s", before, st->dropped[i],
		    kp_store_cause_text((enum kp_store_cause)i));
		before = ", ";
	}
	kp_buf_str(b, before[0] == ',' ? ")" : "");
}

static void
put_stuck(struct kp_buf *b, const struct kp_store_status *st)
{
	kp_buf_printf(b, "cannot be written: %s; %zu windows (%zu KiB) wait",
	    st->why, st->windows, st->bytes / 1024);
}

static void
put_ahead(struct kp_buf *b, const struct kp_store_status *st)
{
	kp_buf_printf(b, "the clock is %.1f days ahead of the last windows: "
	    "nothing is deleted or rolled up by it until it has been so for a "
	    "day", (double)st->ahead / 86400e9);
}

/* Logs "the database ..." and empties b. */
static void
log_store(bool warning, struct kp_buf *b)
{
	const struct log_entry e = { .event = "store",
		.level = warning ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO };

	log_put(&e, "the database %s", kp_buf_cstr(b));
	kp_buf_reset(b);
}

void
store_health_check(struct store_health *h, struct kp_store *s)
{
	struct kp_store_status st;
	struct kp_buf b;

	kp_store_status(s, &st);
	kp_buf_init(&b, 1024);
	if ((st.ahead > 0) != h->retention_held) {
		h->retention_held = st.ahead > 0;
		if (h->retention_held) {
			kp_buf_str(&b, "keeps what it has: ");
			put_ahead(&b, &st);
		} else {
			kp_buf_str(&b, "is deleted from and rolled up by the "
			    "clock again");
		}
		log_store(h->retention_held, &b);
	}
	if (st.begun != h->begun) {
		h->begun = st.begun;
		kp_buf_printf(&b, "was %s: begun again under its name",
		    st.begun_why);
		log_store(st.begun_lost, &b);
	}
	if (st.stuck != h->stuck) {
		h->stuck = st.stuck;
		if (st.stuck)
			put_stuck(&b, &st);
		else
			kp_buf_str(&b, "is written again");
		log_store(st.stuck, &b);
	}
	if (kp_store_dropped(&st) != h->dropped) {
		h->dropped = kp_store_dropped(&st);
		kp_buf_str(&b, "has not got ");
		store_put_dropped(&b, &st);
		log_store(true, &b);
	}
	if (st.ages_percent < (h->ages_percent > 0 ? h->ages_percent : 100)) {
		h->ages_percent = st.ages_percent;
		kp_buf_printf(&b, "would grow past %" PRIu64 " MiB: what it "
		    "holds is kept %u %% as long (see -max-db-size)",
		    st.max_bytes / MIB, st.ages_percent);
		log_store(true, &b);
	}
	kp_buf_free(&b);
}

void
store_put_text(struct kp_buf *b, struct kp_store *s, const char *path)
{
	static const char below[] = "\n            ";
	struct kp_store_status st;

	kp_store_status(s, &st);
	kp_buf_printf(b, "database    %s: %.1f MiB", path,
	    (double)st.file_bytes / MIB);
	if (st.max_bytes > 0)
		kp_buf_printf(b, " of at most %" PRIu64 " MiB",
		    st.max_bytes / MIB);
	if (st.ages_percent < 100)
		kp_buf_printf(b, "; what it holds is kept %u %% as long",
		    st.ages_percent);
	if (st.ahead > 0) {
		kp_buf_str(b, below);
		put_ahead(b, &st);
	}
	if (st.stuck) {
		kp_buf_str(b, below);
		put_stuck(b, &st);
	}
	if (kp_store_dropped(&st) > 0) {
		kp_buf_printf(b, "%snot written: ", below);
		store_put_dropped(b, &st);
	}
	kp_buf_u8(b, '\n');
}

void
store_put_json(struct json *j, struct kp_store *s, const char *path)
{
	struct kp_store_status st;

	kp_store_status(s, &st);
	json_object(j, "store");
	json_string(j, "database", path);
	json_uint(j, "bytes", st.file_bytes);
	json_uint(j, "max_bytes", st.max_bytes);
	json_uint(j, "ages_percent", st.ages_percent);
	json_bool(j, "stuck", st.stuck);
	json_string(j, "error", st.why);
	json_uint(j, "windows_waiting", st.windows);
	json_uint(j, "bytes_waiting", st.bytes);
	json_uint(j, "rows_not_written", kp_store_dropped(&st));
	json_object(j, "rows_not_written_by_cause");
	for (int i = 0; i < KP_STORE_CAUSES; i++)
		json_uint(j, kp_store_cause_name((enum kp_store_cause)i),
		    st.dropped[i]);
	json_end(j);
	json_end(j);
}

void
store_put_metrics(struct kp_buf *b, struct kp_store *s)
{
	struct kp_store_status st;

	kp_store_status(s, &st);
	health_put(b, HEALTH_DB_BYTES, "", "", (double)st.file_bytes);
	health_put(b, HEALTH_DB_MAX, "", "", (double)st.max_bytes);
	health_put(b, HEALTH_DB_STUCK, "", "", st.stuck);
	health_put(b, HEALTH_DB_AGES, "", "", st.ages_percent / 100.0);
	health_put(b, HEALTH_DB_WINDOWS, "", "", (double)st.windows);
	health_put(b, HEALTH_DB_WAITING, "", "", (double)st.bytes);
	for (int i = 0; i < KP_STORE_CAUSES; i++)
		health_put(b, HEALTH_DB_DROPPED, "",
		    kp_store_cause_name((enum kp_store_cause)i),
		    (double)st.dropped[i]);
}

/* ---- the collector of -otlp ---- */

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
		log_warn("otlp", NULL, "the collector did not take the data: "
		    "%s; kprofd tries again", st.why);
	else if (!st.failing && h->failing)
		log_info("otlp", NULL, "the collector takes data again");
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
#define COUNTER(st, i) \
	(*(const uint64_t *)((const char *)&(st) + counters[i].at))

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
		json_uint(j, counters[i].key, COUNTER(st, i));
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
		    (double)COUNTER(st, i));
}
