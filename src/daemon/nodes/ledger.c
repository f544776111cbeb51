/*
 * ledger.c - compares successive statuses of an agent: how many calls are missing,
 * and which loss explains them.
 */
#include "daemon/nodes/ledger.h"

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

/* The base wraps below zero; differences to it stay right. */
void
ledger_recount(struct ledger *l, uint64_t entries)
{
	l->entries_base -= entries;
}

static uint64_t
increase(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void
ledger_batch(struct ledger *l, uint64_t seq)
{
	l->lost.n[KP_LOSS_GAP] += increase(seq, l->last_seq + 1);
	l->last_seq = seq;
}

/* Calls made while armed whose event was neither seen nor dropped. */
static uint64_t
missing(const struct ledger *l, const struct agent_status *st,
    uint64_t entries)
{
	uint64_t armed = increase(st->entry_calls, st->unarmed_calls);

	return increase(armed, entries - l->entries_base + st->dropped_entries);
}

/*
 * Events in transit look like missing ones.  They are at most as many as the agent
 * had queued, and those in transit at one status have come by the next.  While
 * sampling, calls missing beyond that are sampled out; without sampling they are
 * certain only when nothing is armed any more, or at the end.
 */
static void
report_missing(struct ledger *l, uint64_t now, bool last)
{
	uint64_t sure = increase(now < l->missing_last ? now : l->missing_last,
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

/* Calls that were seen or explained and that st has not counted. */
static uint64_t
uncounted(const struct ledger *l, const struct agent_status *st,
    uint64_t entries)
{
	uint64_t seen = entries - l->entries_base + st->dropped_entries +
	    l->reported;

	return increase(seen, increase(st->entry_calls, st->unarmed_calls));
}

/*
 * A call that was seen but is not in the count has been lost from the count.  The
 * VM counts a call just after it sent its event, so one count may lag behind;
 * what is missing from two in a row, or from the last, is lost.
 */
static void
count_forgotten(struct ledger *l, struct agent_status *st, uint64_t entries, bool last)
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

	/* Batches come in order, before the status. */
	l->lost.n[KP_LOSS_GAP] += increase(st->seq, l->last_seq);
	l->last_seq = st->seq;
	st->entry_calls += l->forgotten;
	count_forgotten(l, st, entries, last);
	l->entry_calls += increase(st->entry_calls, l->last.entry_calls);
	l->lost.n[l->slices ? KP_LOSS_SAMPLED_OUT : KP_LOSS_UNSEEN] +=
	    increase(st->unarmed_calls, l->last.unarmed_calls);
	/* What comes after a slice is of no request that is measured. */
	if (!l->slices)
		l->lost.n[KP_LOSS_DROPPED] += increase(st->dropped,
		    l->last.dropped);
	l->lost.n[KP_LOSS_DROPPED_ENTRIES] += increase(st->dropped_entries,
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

/* The last count may be a second old, or may never have come. */
void
ledger_lost(struct ledger *l, uint64_t entries)
{
	uint64_t before = l->last.entry_calls;

	count_forgotten(l, &l->last, entries, true);
	l->entry_calls += l->last.entry_calls - before;
	report_missing(l, missing(l, &l->last, entries), true);
}

static kp_mono_ns
later(kp_mono_ns a, kp_mono_ns b)
{
	return a > b ? a : b;
}

/* Time that was counted already, or was armed, does not count. */
void
ledger_unarmed(struct ledger *l, kp_mono_ns since)
{
	since = later(since, l->counted_to);
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

/* Counts whole milliseconds; the rest is for the next window. */
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
	l->counted_to = later(l->counted_to, l->unarmed_since);
}

void
ledger_armed(struct ledger *l, kp_mono_ns now)
{
	count_unarmed(l, now);
	l->unarmed_since = l->left_since = 0;
	l->counted_to = now;
}

void
ledger_gap(struct ledger *l, kp_dur_ns gap, kp_mono_ns now)
{
	kp_mono_ns since = later(now - gap, l->counted_to);

	if (l->unarmed_since != 0)
		return;		/* all of that time is counted */
	count_time(l, KP_LOSS_UNARMED, &since, now);
	l->counted_to = later(l->counted_to, since);
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
	    increase(missing(l, &l->last, entries), l->reported) -
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
