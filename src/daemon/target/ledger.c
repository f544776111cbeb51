/*
 * ledger.c - turns two successive agent statuses into entry calls and losses:
 * which calls are missing, and what explains them.
 */
#include "daemon/target/ledger.h"

void
ledger_restart(struct ledger *l, uint64_t entries)
{
	l->last = (struct agent_status){ 0 };
	l->forgotten = 0;
	l->lag_last = 0;
	l->last_seq = 0;
	l->entries_base = entries;
	l->missing_last = 0;
	l->reported = 0;
}

/* Below zero it wraps, and differences to it stay right. */
void
ledger_recount(struct ledger *l, uint64_t entries)
{
	l->entries_base -= entries;
}

static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void
ledger_batch(struct ledger *l, uint64_t seq)
{
	l->lost.n[KP_LOSS_GAP] += grown(seq, l->last_seq + 1);
	l->last_seq = seq;
}

/* Calls made while armed, of which no event was seen or dropped. */
static uint64_t
missing(const struct ledger *l, const struct agent_status *st,
    uint64_t entries)
{
	uint64_t armed = grown(st->entry_calls, st->unarmed_calls);

	return grown(armed, entries - l->entries_base + st->dropped_entries);
}

/*
 * Events still on their way look like missing ones.  Those are at most as
 * many as the agent had queued; and what was on its way at one status is here
 * at the next.  While sampling, what is missing beyond that is sampled out;
 * without, nothing may be missing, and the last word is had when nothing is
 * armed any more, or at the end.
 */
static void
report_missing(struct ledger *l, uint64_t now, bool last)
{
	uint64_t sure = grown(now < l->missing_last ? now : l->missing_last,
	    l->last.queue);
	enum kp_loss cause = l->sampling ? KP_LOSS_SAMPLED_OUT :
	    KP_LOSS_UNSEEN;

	if (last)
		sure = now;
	if ((last || l->sampling || l->unarmed_since != 0) &&
	    sure > l->reported) {
		l->lost.n[cause] += sure - l->reported;
		l->reported = sure;
	}
	l->missing_last = now;
}

/* Calls that were seen or are explained, and that st has not counted. */
static uint64_t
uncounted(const struct ledger *l, const struct agent_status *st,
    uint64_t entries)
{
	uint64_t seen = entries - l->entries_base + st->dropped_entries +
	    l->reported;

	return grown(seen, grown(st->entry_calls, st->unarmed_calls));
}

/*
 * What was seen was called: what is not in the count has been lost from it.
 * The VM counts a call just after it has sent its event, though, so that one
 * count may lag behind what was seen; what is missing from two in a row, or
 * from the last, is lost.
 */
static void
remember(struct ledger *l, struct agent_status *st, uint64_t entries, bool last)
{
	uint64_t lag = uncounted(l, st, entries);
	uint64_t more = last || lag < l->lag_last ? lag : l->lag_last;

	l->forgotten += more;
	st->entry_calls += more;
	l->lag_last = lag - more;
}

void
ledger_status(struct ledger *l, const struct agent_status *status,
    uint64_t entries, bool last)
{
	struct agent_status now = *status, *st = &now;

	/* Batches before it have come before it. */
	l->lost.n[KP_LOSS_GAP] += grown(st->seq, l->last_seq);
	l->last_seq = st->seq;
	st->entry_calls += l->forgotten;
	remember(l, st, entries, last);
	l->entry_calls += grown(st->entry_calls, l->last.entry_calls);
	l->lost.n[KP_LOSS_UNSEEN] += grown(st->unarmed_calls,
	    l->last.unarmed_calls);
	l->lost.n[KP_LOSS_DROPPED] += grown(st->dropped, l->last.dropped);
	l->lost.n[KP_LOSS_DROPPED_ENTRIES] += grown(st->dropped_entries,
	    l->last.dropped_entries);
	l->last = *st;
	report_missing(l, missing(l, st, entries), last);
}

void
ledger_sampling(struct ledger *l)
{
	report_missing(l, l->missing_last, !l->sampling);
	l->sampling = true;
}

/* Its last count may be a second old, or may never have come. */
void
ledger_lost(struct ledger *l, uint64_t entries)
{
	uint64_t before = l->last.entry_calls;

	remember(l, &l->last, entries, true);
	l->entry_calls += l->last.entry_calls - before;
	report_missing(l, missing(l, &l->last, entries), true);
}

static kp_mono_ns
later(kp_mono_ns a, kp_mono_ns b)
{
	return a > b ? a : b;
}

/* Not before it was armed, nor time that was counted as unarmed already. */
void
ledger_unarmed(struct ledger *l, kp_mono_ns since)
{
	since = later(since, l->told_to);
	if (l->unarmed_since == 0 || since < l->unarmed_since)
		l->unarmed_since = since;
}

void
ledger_left(struct ledger *l, kp_mono_ns since)
{
	ledger_unarmed(l, since);
	if (l->left_since == 0)
		l->left_since = later(since, l->unarmed_since);
}

/* Whole milliseconds since then; the rest is for the next window. */
static void
count_time(struct ledger *l, enum kp_loss cause, kp_mono_ns *since,
    kp_mono_ns now)
{
	kp_dur_ns ms;

	if (*since == 0 || now < *since)
		return;
	ms = (now - *since) / KP_NS_PER_MS;
	l->lost.n[cause] += (uint64_t)ms;
	*since += ms * KP_NS_PER_MS;
}

static void
count_unarmed(struct ledger *l, kp_mono_ns now)
{
	count_time(l, KP_LOSS_UNARMED, &l->unarmed_since, now);
	count_time(l, KP_LOSS_UNCOUNTED, &l->left_since, now);
	l->told_to = later(l->told_to, l->unarmed_since);
}

void
ledger_armed(struct ledger *l, kp_mono_ns now)
{
	count_unarmed(l, now);
	l->unarmed_since = l->left_since = 0;
	l->told_to = now;
}

void
ledger_gap(struct ledger *l, kp_dur_ns gap, kp_mono_ns now)
{
	kp_mono_ns since = later(now - gap, l->told_to);

	if (l->unarmed_since != 0)
		return;		/* all of that time is counted */
	count_time(l, KP_LOSS_UNARMED, &since, now);
	l->told_to = later(l->told_to, since);
}

void
ledger_hot(struct ledger *l, bool hot, kp_mono_ns now)
{
	count_time(l, KP_LOSS_TOO_HOT, &l->hot_since, now);
	if (!hot)
		l->hot_since = 0;
	else if (l->hot_since == 0)
		l->hot_since = now;
}

void
ledger_take(struct ledger *l, kp_mono_ns now, uint64_t entries,
    uint64_t open, uint64_t *entry_calls, struct kp_losses *lost)
{
	int64_t held = (int64_t)(open +
	    grown(missing(l, &l->last, entries), l->reported) -
	    uncounted(l, &l->last, entries));
	int64_t calls = (int64_t)l->entry_calls + l->held - held;

	count_unarmed(l, now);
	count_time(l, KP_LOSS_TOO_HOT, &l->hot_since, now);
	*entry_calls = calls > 0 ? (uint64_t)calls : 0;
	l->held = held + (calls < 0 ? calls : 0);
	l->entry_calls = 0;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		lost->n[i] += l->lost.n[i];
	l->lost = (struct kp_losses){ 0 };
}
