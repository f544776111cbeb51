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

/* ---- the collectors, and Pyroscope ---- */

/* uint64_t each, at an offset in struct push_status. */
struct push_counter {
	const char *key;	/* in JSON */
	enum health metric;
	size_t at;
};

static const struct push_to_of {
	const char *whose, *lost;	/* the other side; a singular */
	enum health failing;
	struct push_counter v[8];	/* those with a key */
} push_to[PUSH_TO] = {
#define AT(member) offsetof(struct push_status, member)
	[PUSH_OTLP] = { "the collector", "slow request", HEALTH_OTLP_FAILING, {
	    { "failures", HEALTH_OTLP_FAILURES, AT(failures) },
	    { "spans", HEALTH_OTLP_SPANS, AT(taken[PUSH_SPANS]) },
	    { "points", HEALTH_OTLP_POINTS, AT(taken[PUSH_POINTS]) },
	    { "spans_refused", HEALTH_OTLP_REFUSED_SPANS, AT(refused[PUSH_SPANS]) },
	    { "points_refused", HEALTH_OTLP_REFUSED_POINTS, AT(refused[PUSH_POINTS]) },
	    { "requests_lost", HEALTH_OTLP_LOST, AT(lost) },
	    { "requests_waiting", HEALTH_OTLP_WAITING, AT(waiting) } } },
#define OF_PROFILES(to, whose) \
	[PUSH_##to] = { whose, "second", HEALTH_##to##_FAILING, { \
	    { "failures", HEALTH_##to##_FAILURES, AT(failures) }, \
	    { "profiles", HEALTH_##to##_PROFILES, AT(taken[PUSH_PROFILES]) }, \
	    { "profiles_refused", HEALTH_##to##_REFUSED, AT(refused[PUSH_PROFILES]) }, \
	    { "seconds_lost", HEALTH_##to##_LOST, AT(lost) }, \
	    { "seconds_waiting", HEALTH_##to##_WAITING, AT(waiting) } } }
	OF_PROFILES(OTLP_PROFILES, "the collector of profiles"),
	OF_PROFILES(PYROSCOPE, "Pyroscope"),
#undef OF_PROFILES
#undef AT
};

#define EACH_COUNTER(c, of) \
	for (const struct push_counter *c = (of)->v; c->key != NULL; c++)

static uint64_t
counted(const struct push_status *st, const struct push_counter *c)
{
	return *(const uint64_t *)((const char *)st + c->at);
}

static uint64_t
refused(const struct push_status *st)
{
	uint64_t n = 0;

	for (int k = 0; k < PUSH_KINDS; k++)
		n += st->refused[k];
	return n;
}

static void
check_push(struct push_health *h, enum push_to to, struct push *x)
{
	const struct push_to_of *of = &push_to[to];
	struct push_status st;
	char n[TEXT_MAX];

	push_status(x, &st);
	if (st.failing && !h->failing)
		log_warn(push_name(to), NULL, "%s did not take the data: %s; kprofd "
		    "tries again", of->whose, st.why);
	else if (!st.failing && h->failing)
		log_info(push_name(to), NULL, "%s takes data again", of->whose);
	/* at the first, the second, the fourth ... */
	if (refused(&st) > 0 && refused(&st) >= 2 * h->refused) {
		h->refused = refused(&st);
		log_warn(push_name(to), NULL, "%s refused %s so far: %s", of->whose,
		    text_counted(n, h->refused, to == PUSH_OTLP ? "span or point" :
		    "profile"), st.why);
	}
	if (st.lost > 0 && st.lost >= 2 * h->lost) {
		h->lost = st.lost;
		log_warn(push_name(to), NULL, "not sent so far: %s; too far behind, or "
		    "could not be read", text_counted(n, st.lost, of->lost));
	}
	h->failing = st.failing;
}

void
push_health_check(struct push_health *h, struct push *const *v)
{
	for (int to = 0; to < PUSH_TO; to++)
		if (v[to] != NULL)
			check_push(&h[to], (enum push_to)to, v[to]);
}

void
push_put_text(struct kp_buf *b, struct push *const *v)
{
	struct push_status st;

	for (int to = 0; to < PUSH_TO; to++) {
		if (v[to] == NULL)
			continue;
		push_status(v[to], &st);
		if (to == PUSH_OTLP)
			kp_buf_printf(b, "collector   %" PRIu64 " spans, %" PRIu64
			    " points sent; %" PRIu64 " refused, %" PRIu64 " requests "
			    "lost, %" PRIu64 " wait", st.taken[PUSH_SPANS],
			    st.taken[PUSH_POINTS], refused(&st), st.lost, st.waiting);
		else
			kp_buf_printf(b, "%-11s %" PRIu64 " profiles sent; %"
			    PRIu64 " refused, %" PRIu64 " s lost, %" PRIu64 " s wait",
			    to == PUSH_PYROSCOPE ? "pyroscope" : "profiles",
			    st.taken[PUSH_PROFILES], refused(&st), st.lost, st.waiting);
		kp_buf_printf(b, "%s%s\n", st.failing ? "; failing: " : st.why[0] != '\0' ?
		    "; last: " : "", st.why);
	}
}

void
push_put_json(struct json *j, struct push *const *v)
{
	struct push_status st;

	for (int to = 0; to < PUSH_TO; to++) {
		if (v[to] == NULL)
			continue;
		push_status(v[to], &st);
		json_object(j, push_name((enum push_to)to));
		json_bool(j, "failing", st.failing);
		json_string(j, "error", st.why);
		EACH_COUNTER(c, &push_to[to])
			json_uint(j, c->key, counted(&st, c));
		json_end(j);
	}
}

void
push_put_metrics(struct kp_buf *b, struct push *const *v)
{
	struct push_status st;

	for (int to = 0; to < PUSH_TO; to++) {
		if (v[to] == NULL)
			continue;
		push_status(v[to], &st);
		health_put(b, push_to[to].failing, "", "", st.failing);
		EACH_COUNTER(c, &push_to[to])
			health_put(b, c->metric, "", "", (double)counted(&st, c));
	}
}
