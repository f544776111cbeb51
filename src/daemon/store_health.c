/*
 * store_health.c - compares the store's status with that of the last check,
 * logs what changed, and writes it out.
 */
#include <inttypes.h>

#include "daemon/log.h"
#include "daemon/store_health.h"

#define MIB (1u << 20)

/* "18 rows (12 disk_full, 6 locked)" */
static void
put_dropped(struct kp_buf *b, const struct kp_store_status *st)
{
	const char *before = " (";

	kp_buf_printf(b, "%" PRIu64 " rows", kp_store_dropped(st));
	for (int i = 0; i < KP_STORE_CAUSES; i++) {
		if (st->dropped[i] == 0)
			continue;
		kp_buf_printf(b, "%s%" PRIu64 " %s", before, st->dropped[i],
		    kp_store_cause_name((enum kp_store_cause)i));
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
say(enum log_level level, const struct kp_buf *b)
{
	const struct log_entry e = { .level = level, .event = "store" };

	log_put(&e, "the database %.*s", (int)b->len, (const char *)b->p);
}

static void
watch_writes(struct store_health *w, const struct kp_store_status *st,
    struct kp_buf *b)
{
	if (st->stuck && !w->stuck) {
		put_stuck(b, st);
		say(LOG_LEVEL_WARNING, b);
	} else if (!st->stuck && w->stuck) {
		kp_buf_str(b, "is written again");
		say(LOG_LEVEL_INFO, b);
	}
	w->stuck = st->stuck;
}

static void
watch_losses(struct store_health *w, const struct kp_store_status *st,
    struct kp_buf *b)
{
	uint64_t dropped = kp_store_dropped(st);

	if (dropped == w->dropped)
		return;
	kp_buf_reset(b);
	kp_buf_str(b, "has not got ");
	put_dropped(b, st);
	say(LOG_LEVEL_WARNING, b);
	w->dropped = dropped;
}

static void
watch_size(struct store_health *w, const struct kp_store_status *st,
    struct kp_buf *b)
{
	if (w->ages_percent == 0)
		w->ages_percent = 100;
	if (st->ages_percent >= w->ages_percent)
		return;
	kp_buf_reset(b);
	kp_buf_printf(b, "would grow past %" PRIu64 " MiB: what it holds is "
	    "kept %u %% as long (see -max-db-size)", st->max_bytes / MIB,
	    st->ages_percent);
	say(LOG_LEVEL_WARNING, b);
	w->ages_percent = st->ages_percent;
}

static void
put_ahead(struct kp_buf *b, const struct kp_store_status *st)
{
	kp_buf_printf(b, "the clock is %.1f days ahead of the last windows: "
	    "nothing is deleted or rolled up by it until it has been so for a "
	    "day", (double)st->ahead / 86400e9);
}

static void
watch_ages(struct store_health *w, const struct kp_store_status *st,
    struct kp_buf *b)
{
	if ((st->ahead > 0) == w->waits)
		return;
	w->waits = st->ahead > 0;
	kp_buf_reset(b);
	if (w->waits) {
		kp_buf_str(b, "keeps what it has: ");
		put_ahead(b, st);
	} else {
		kp_buf_str(b, "is deleted from and rolled up by the clock again");
	}
	say(w->waits ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, b);
	kp_buf_reset(b);
}

static void
watch_file(struct store_health *w, const struct kp_store_status *st,
    struct kp_buf *b)
{
	if (st->begun == w->begun)
		return;
	kp_buf_reset(b);
	kp_buf_printf(b, "was %s: begun again under its name", st->begun_why);
	say(st->begun_lost ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, b);
	kp_buf_reset(b);
	w->begun = st->begun;
}

void
store_health_watch(struct store_health *w, struct kp_store *s)
{
	struct kp_store_status st;
	struct kp_buf b;

	kp_store_status(s, &st);
	kp_buf_init(&b, 1024);
	watch_ages(w, &st, &b);
	watch_file(w, &st, &b);
	watch_writes(w, &st, &b);
	watch_losses(w, &st, &b);
	watch_size(w, &st, &b);
	kp_buf_free(&b);
}

void
store_put_text(struct kp_buf *b, struct kp_store *s, const char *path)
{
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
	kp_buf_u8(b, '\n');
	if (st.ahead > 0) {
		kp_buf_str(b, "            ");
		put_ahead(b, &st);
		kp_buf_u8(b, '\n');
	}
	if (st.stuck) {
		kp_buf_str(b, "            ");
		put_stuck(b, &st);
		kp_buf_u8(b, '\n');
	}
	if (kp_store_dropped(&st) > 0) {
		kp_buf_str(b, "            not written: ");
		put_dropped(b, &st);
		kp_buf_u8(b, '\n');
	}
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
