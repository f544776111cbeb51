/*
 * advice.c - looks at the figures of a report for each way in which they may be
 * missing or of little worth, and writes a sentence with the way out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "kprofd/fn_name.h"
#include "text/text.h"
#include "text/timefmt.h"

#define ENTRIES_NAMED 3
#define NODES_LISTED 10
#define THIN 30u	/* requests: with fewer, changes are uncertain, too */
#define UNNAMED_LEAST 10u	/* requests without a type: no accident */

/* ---- the sentences that kprofd logs as well ---- */

void
advice_absent(char *text, size_t n)
{
	snprintf(text, n, "no target is attached yet, so nothing is measured: "
	    "kprof status names each target's state; does the node run, under "
	    "this name, with this cookie?");
}

void
advice_uncalled(char *text, size_t n, const char *entries, const char *node)
{
	snprintf(text, n, "no call yet of the %s: is there load, and do "
	    "requests go through it? kprofd -check -target %s counts calls",
	    entries[0] != '\0' ? entries : "entry",
	    node[0] != '\0' ? node : "NODE");
}

void
advice_endless(char *text, size_t n, uint64_t calls, const char *entries)
{
	char count[TEXT_MAX];

	snprintf(text, n, "%s of the %s, and none has returned: is it a "
	    "server's loop? Then name the function that it calls for each "
	    "request", text_counted(count, calls, "call"),
	    entries[0] != '\0' ? entries : "entry");
}

void
advice_entries(char *text, size_t n, const struct kp_conf *c)
{
	const struct kp_mfa_pat *f;
	size_t of_tier = c->ntiers > 0 ? c->tiers[0].nfns : 0;
	size_t all = c->nentries > 0 ? c->nentries : of_tier;
	struct kp_buf b;

	kp_buf_init(&b, (ENTRIES_NAMED + 1) * FN_NAME_MAX);
	for (size_t i = 0; i < all && i < ENTRIES_NAMED; i++) {
		f = c->nentries > 0 ? &c->entries[i].fn : &c->tiers[0].fns[i];
		kp_buf_str(&b, i > 0 ? ", " : all == 1 ? "entry " :
		    "entries ");
		fn_pat_put(&b, f);
	}
	if (all > ENTRIES_NAMED)
		kp_buf_printf(&b, " and %zu more", all - ENTRIES_NAMED);
	snprintf(text, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* ---- no window ---- */

static void
add(struct report *r, const char *text)
{
	report_hint(r, strdup(text));
}

/* Nothing was ever stored here. */
static void
advise_none(struct report *r, const struct advice *a)
{
	char text[ADVICE_MAX];

	if (a->failed[0] != '\0')
		snprintf(text, sizeof(text), "nothing was measured: kprofd "
		    "failed to start: %s", a->failed);
	else if (a->absent[0] != '\0')
		snprintf(text, sizeof(text), "nothing was measured: %s",
		    a->absent);
	else if (a->run && !a->attached)
		advice_absent(text, sizeof(text));
	else
		snprintf(text, sizeof(text), "the database holds no "
		    "measurements yet: kprofd writes a window every interval "
		    "(10 s) while it is attached to a target; kprof status "
		    "shows whether it is");
	add(r, text);
}

static void
put_nodes(struct kp_buf *b, const struct kp_query_nodes *nodes)
{
	kp_buf_str(b, "; there are: ");
	for (size_t i = 0; i < nodes->n && i < NODES_LISTED; i++) {
		kp_buf_str(b, i > 0 ? ", " : "");
		kp_buf_str(b, nodes->v[i]);
	}
	kp_buf_str(b, nodes->n > NODES_LISTED ? ", ..." : "");
}

/* There are windows, but of other times, or of other nodes. */
static void
advise_elsewhere(struct report *r, const struct advice *a)
{
	struct kp_buf b;

	kp_buf_init(&b, 16384);
	if (a->nodes->n > 0) {
		kp_buf_printf(&b, "no node matches '%s' (see -node)", a->asked);
		put_nodes(&b, a->nodes);
	} else {
		kp_buf_str(&b, "nothing was measured in that time (see -since, "
		    "-until, -versus); the database covers ");
		timefmt_put_range(&b, a->first, a->last);
	}
	if (b.err == KP_OK)
		add(r, kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* ---- windows without requests ---- */

/* A loss of time. */
static kp_dur_ns
time_of(const struct report *r, enum kp_loss cause)
{
	uint64_t ms = r->losses.n[cause];

	return ms > INT64_MAX / KP_NS_PER_MS ? INT64_MAX :
	    (kp_dur_ns)ms * KP_NS_PER_MS;
}

static void
advise_off(struct report *r, const struct advice *a)
{
	char off[TEXT_MAX], of[TEXT_MAX], text[ADVICE_MAX];
	int64_t nodes = r->nnodes > 0 ? (int64_t)r->nnodes : 1;
	/* it adds up over nodes, the time of windows does not */
	kp_dur_ns lasted = time_of(r, KP_LOSS_UNARMED) / nodes;

	if (r->covered <= 0 || lasted < r->covered / 2 ||
	    (a->overload[0] == '\0' && !a->paused))
		return;
	text_about(off, lasted);
	text_about(of, r->covered);
	if (a->paused)
		snprintf(text, sizeof(text), "tracing was off for %s of %s: it "
		    "was paused by hand (kprof status shows whether it still "
		    "is; kprof resume ends that)", off, of);
	else
		snprintf(text, sizeof(text), "tracing was off for %s of %s, by "
		    "overload, so the figures are of the rest; the last time "
		    "kprofd logged: %s", off, of,
		    a->overload);
	add(r, text);
}

static void
advise_empty(struct report *r, const struct advice *a)
{
	const char *node = r->nnodes == 1 ? r->nodes[0] : "";
	char text[ADVICE_MAX], n[TEXT_MAX];

	if (r->entry_calls > 0 && r->losses.n[KP_LOSS_UNSEEN] +
	    r->losses.n[KP_LOSS_DROPPED_ENTRIES] +
	    r->losses.n[KP_LOSS_SAMPLED_OUT] == 0)
		advice_endless(text, sizeof(text), r->entry_calls, a->entries);
	else if (r->entry_calls > 0)
		snprintf(text, sizeof(text), "the VM counted %s of the %s; the "
		    "losses say why none was measured, and kprof status whether "
		    "measuring is paused",
		    text_counted(n, r->entry_calls, "call"),
		    a->entries[0] != '\0' ? a->entries : "entry");
	else if (r->losses.n[KP_LOSS_UNCOUNTED] > 0)
		snprintf(text, sizeof(text), "no call of the %s was counted, "
		    "but for %s no agent was in the target to count them: kprof "
		    "status has the reason", a->entries[0] != '\0' ?
		    a->entries : "entry", text_about(n,
		    time_of(r, KP_LOSS_UNCOUNTED)));
	else
		advice_uncalled(text, sizeof(text), a->entries, node);
	add(r, text);
}

/* ---- requests, but odd ones ---- */

static void
advise_unnamed(struct report *r, const struct advice *a)
{
	const char *node = r->nnodes == 1 ? r->nodes[0] : "NODE";
	char text[ADVICE_MAX], n[TEXT_MAX];

	if (!a->named || r->filtered || r->nrows != 2 ||
	    strcmp(r->rows[1].identity, "undefined") != 0 ||
	    r->rows[1].cells[0].sampled_requests < UNNAMED_LEAST)
		return;
	snprintf(text, sizeof(text), "all %s are of the type undefined: no "
	    "clause of the identity fun in tiers.conf fits the calls of the %s "
	    "(kprofd -check -target %s -tiers FILE -explain shows what they "
	    "look like)", text_counted(n, r->rows[1].cells[0].requests,
	    "request"), a->entries[0] != '\0' ? a->entries : "entry", node);
	add(r, text);
}

/* Tiers and types of both stand in one table, with means over requests of both. */
static void
advise_changed(struct report *r, const struct advice *a)
{
	char text[ADVICE_MAX], since[TIMEFMT_MAX];

	if (a->changed == 0)
		return;
	snprintf(text, sizeof(text), "these figures are of more than one "
	    "tiers.conf: -since %s shows those of the last",
	    timefmt_iso(since, a->changed));
	add(r, text);
}

static void
advise_thin(struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	char text[ADVICE_MAX], some[TEXT_MAX], of[TEXT_MAX];
	bool known;
	uint64_t n = report_requests(r, 0, &known);

	if (all->requests == all->sampled_requests ||
	    all->sampled_requests >= THIN)
		return;
	snprintf(text, sizeof(text), "only %s of %s requests were measured: "
	    "times and shares are rough guesses (wait for more, or sample more: "
	    "sampling and budget in tiers.conf)",
	    text_count(some, all->sampled_requests), text_known(of, n, known));
	add(r, text);
}

void
report_advise(struct report *r, const struct advice *a)
{
	if (r->windows == 0) {
		if (a->last == 0)
			advise_none(r, a);
		else
			advise_elsewhere(r, a);
		return;
	}
	advise_off(r, a);
	if (report_empty(r)) {
		if (!r->filtered)
			advise_empty(r, a);
		return;
	}
	advise_changed(r, a);
	advise_unnamed(r, a);
	advise_thin(r);
}
