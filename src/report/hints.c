/*
 * hints.c - checks the figures and events of a range against the tiers.conf that
 * was in force, and writes hints.
 *
 * The figures alone show which clause of the identity fun never matched, so events
 * need not carry its number: a clause that always answers the same text has a row
 * in the report or not; and a clause about functions that were not called had
 * nothing to match.  Where there could be another reason, no hint is given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "report_db.h"
#include "kprofd/fn_name.h"
#include "request/names.h"
#include "text/text.h"
#include "text/timefmt.h"

#define CLAUSES_SHOWN 5
#define RUNS 20			/* read: have all the same tiers.conf? */
#define EVENTS 200		/* read */
#define EVENTS_SHOWN 3
#define ENDLESS 20u		/* requests without an end: enough for a hint */

/* What the tiers.conf in force has measured in the range. */
struct measured {
	struct kp_conf *conf;
	const struct kp_query_sum *sum;
	struct kp_query_sum since;	/* sum, if it is not of the whole range */
	kp_wall_ns changed;	/* since then, and not before; 0: all the while */
	struct idents names;	/* the texts of clauses' answers */
};

/* ---- the tiers.conf in force ---- */

/* When the run read its tiers.conf last. */
static kp_wall_ns
in_force_since(const struct kp_query_run *run)
{
	return run->reloaded > run->started ? run->reloaded : run->started;
}

/* Runs that failed to start measured nothing. */
static void
remove_failed(struct kp_query_runs *runs)
{
	size_t n = 0;

	for (size_t i = 0; i < runs->n; i++)
		if (runs->v[i].failed[0] == '\0')
			runs->v[n++] = runs->v[i];
	runs->n = n;
}

/* Did all runs since then have the same tiers.conf?  Figures do not name theirs. */
static bool
is_only_conf(const struct kp_query_runs *runs, kp_wall_ns since)
{
	for (size_t i = 1; i < runs->n; i++)
		if ((runs->v[i].ended == 0 || runs->v[i].ended > since) &&
		    runs->v[i].state != KP_RUN_UNCLEAN &&
		    strcmp(runs->v[i].tiers_text, runs->v[0].tiers_text) != 0)
			return false;
	return true;
}

/* Since when the range has another tiers.conf than before; 0: it has one. */
static kp_wall_ns
changed_at(const struct kp_query_runs *runs, const struct kp_query_sum *all)
{
	kp_wall_ns since = in_force_since(&runs->v[0]);

	if (all->windows == 0 || since <= all->start || since >= all->end)
		return 0;
	if (since > runs->v[0].started)
		return since;
	for (size_t i = 1; i < runs->n; i++)
		if (runs->v[i].ended > all->start &&
		    strcmp(runs->v[i].tiers_text, runs->v[0].tiers_text) != 0)
			return since;
	return 0;
}

/* NULL: this version cannot parse it, or out of memory. */
static struct kp_conf *
conf_of(const struct kp_query_run *run)
{
	struct kp_conf *conf = NULL;
	struct kp_diags diags;

	if (kp_conf_parse(&conf, run->tiers_text, strlen(run->tiers_text),
	    &diags) != KP_OK)
		conf = NULL;
	kp_diags_free(&diags);
	return conf;
}

/* The sum since then; `all` is not read again if it is that. */
static enum kp_err
measured_sum(struct measured *s, struct kp_query *q,
    const struct kp_query_range *r, kp_wall_ns since, const struct kp_query_sum *all)
{
	struct kp_query_range range = { since, r->until, .node = r->node,
		.exact = true };

	if (since <= all->start || all->windows == 0) {
		s->sum = all;
		return KP_OK;
	}
	s->sum = &s->since;
	return since < r->until ? kp_query_sum(q, &range, &s->since) : KP_OK;
}

/* Moves s->changed to the first window of the tiers.conf in force alone. */
static enum kp_err
first_after_change(struct measured *s, struct kp_query *q,
    const struct kp_query_range *r)
{
	struct kp_query_range range = { s->changed, r->until, .node = r->node,
		.exact = true };
	struct kp_query_sum cover = { 0 };
	enum kp_err err = kp_query_cover(q, &range, &cover);

	if (err == KP_OK && cover.windows > 0)
		s->changed = cover.start;
	kp_query_sum_free(&cover);
	return err;
}

static enum kp_err
measured_read(struct measured *s, struct kp_query *q,
    const struct kp_query_range *r, const struct kp_query_sum *all)
{
	struct kp_query_runs runs = { 0 };
	enum kp_err err = kp_query_runs(q, RUNS, &runs);
	kp_wall_ns since;

	if (err == KP_OK)
		remove_failed(&runs);
	if (err == KP_OK && runs.n > 0) {
		since = in_force_since(&runs.v[0]);
		s->changed = changed_at(&runs, all);
		if (is_only_conf(&runs, since))
			s->conf = conf_of(&runs.v[0]);
		if (s->conf != NULL)
			err = measured_sum(s, q, r, since, all);
		if (err == KP_OK && s->changed != 0)
			err = first_after_change(s, q, r);
	}
	kp_query_runs_free(&runs);
	return err;
}

static void
measured_free(struct measured *s)
{
	idents_free(&s->names);
	kp_conf_free(s->conf);
	kp_query_sum_free(&s->since);
}

/* ---- clauses ---- */

static bool
has_identity(const struct kp_query_sum *sum, const char *name)
{
	return kp_query_cell(sum, "_total", name) != NULL;
}

/* Does any request have a name? */
static bool
has_names(const struct kp_query_sum *sum)
{
	const struct kp_cell *c = sum->cells;

	for (size_t i = 0; i < sum->ncells; i++)
		if (strcmp(c[i].tier, "_total") == 0 &&
		    strcmp(c[i].identity, "_total") != 0 &&
		    strcmp(c[i].identity, "undefined") != 0)
			return true;
	return false;
}

static bool
meets_one(const struct kp_conf *c, uint32_t clause, const struct kp_tier *t)
{
	for (size_t i = 0; i < t->nfns; i++)
		if (kp_clause_meets(c, clause, &t->fns[i]))
			return true;
	return false;
}

/* Was a function called that the clause can match? */
static bool
is_called(const struct measured *s, uint32_t clause)
{
	const struct kp_conf *c = s->conf;
	const struct kp_cell *cell;

	for (size_t i = 0; i < c->nentries; i++)
		if (kp_clause_meets(c, clause, &c->entries[i].fn))
			return true;
	for (size_t i = 0; i < c->ntiers; i++) {
		cell = kp_query_cell(s->sum, c->tiers[i].name, "_total");
		if (((c->nentries == 0 && i == 0) || (cell != NULL &&
		    cell->calls + cell->async_calls > 0)) &&
		    meets_one(c, clause, &c->tiers[i]))
			return true;
	}
	return false;
}

/* Is there a request with the text that the clause answers? */
static bool
is_answered(struct measured *s, uint32_t clause)
{
	bool overflow = false, found = true;
	struct kp_buf raw;
	uint32_t id;

	kp_buf_init(&raw, KP_CONF_SIZE_MAX);
	if (kp_clause_answer(s->conf, clause, &raw) == KP_OK) {
		id = idents_intern(&s->names, (struct kp_span){ raw.p,
		    (uint32_t)raw.len }, &overflow);
		found = overflow || has_identity(s->sum, s->names.text[id]);
	}
	kp_buf_free(&raw);
	return found;
}

/* At the cap of identities its requests may be among those called _other. */
static bool
is_idle(struct measured *s, uint32_t i, const struct kp_clause *clause)
{
	if (clause->any || !clause->names)
		return false;
	if (!has_names(s->sum) || !is_called(s, i))
		return true;
	return clause->fixed && !has_identity(s->sum, "_other") &&
	    !is_answered(s, i);
}

static void
hint_clauses(struct measured *s, struct report *r)
{
	struct kp_clause clause;
	char count[TEXT_MAX], *text = NULL;
	struct kp_buf b;
	unsigned n = 0;

	if (s->sum->sampled < HINT_REQUESTS ||
	    !idents_init(&s->names, s->conf, UINT32_MAX))
		return;
	kp_buf_init(&b, 4096);
	for (uint32_t i = 0; kp_clause(s->conf, i, &clause); i++) {
		if (!is_idle(s, i, &clause))
			continue;
		if (n++ < CLAUSES_SHOWN)
			kp_buf_printf(&b, "%s%u (line %u)", n > 1 ? ", " : "",
			    i + 1, clause.line);
	}
	if (n > CLAUSES_SHOWN)
		kp_buf_printf(&b, " and %u more", n - CLAUSES_SHOWN);
	kp_buf_printf(&b, " of tiers.conf matched none of %s requests, or only "
	    "such as another clause named first",
	    text_count(count, s->sum->sampled));
	if (n > 0 && asprintf(&text, "identity clause%s %s", n > 1 ? "s" : "",
	    kp_buf_cstr(&b)) >= 0)
		report_hint(r, text);
	kp_buf_free(&b);
}

/* ---- entries ---- */

#define OF_A_LOOP "of a server's loop, name a function as the entry that it " \
	"calls for each request"

/* True if the last event about the probe says that it is the native one. */
static bool
is_native(const struct kp_query_events *e)
{
	for (size_t i = e->n; i-- > 0;)
		if (strcmp(e->v[i].kind, "probe") == 0)
			return strncmp(e->v[i].text, "native", 6) == 0;
	return false;
}

/* What to do about requests without an end; malloced, or NULL. */
static char *
advise_end(const struct kp_conf *c, bool native)
{
	const struct kp_mfa_pat *f = c->finishes;
	char name[FN_NAME_MAX], *text = NULL;

	if (c->nfinishes == 0)
		return strdup(native ? OF_A_LOOP :
		    "where exceptions end them, put the entry in an exact "
		    "tier, or use -probe native; " OF_A_LOOP);
	if (asprintf(&text, "is %s, which finish names, what ends one?",
	    fn_pat(name, sizeof(name), f)) < 0)
		return NULL;
	return text;
}

static void
hint_endless(const struct measured *s, bool native, struct report *r)
{
	const struct kp_cell *c = kp_query_cell(s->sum, "_total", "_total");
	char count[TEXT_MAX], *advice, *text = NULL;

	if (c == NULL || c->requests > c->unfinished || c->requests < ENDLESS)
		return;
	advice = advise_end(s->conf, native);
	if (advice != NULL && asprintf(&text, "of %s requests that began none was "
	    "seen to end: %s", text_count(count, c->requests), advice) < 0)
		text = NULL;
	free(advice);
	report_hint(r, text);
}

/* Did a target fall back from the native probe?  The event says why. */
static bool
is_fallback(const struct kp_query_event *e)
{
	return strcmp(e->kind, "probe") == 0 &&
	    strncmp(e->text, "relay: ", 7) == 0;
}

/* The texts of these events are hints already. */
static void
hint_events(const struct kp_query_events *e, struct report *r)
{
	unsigned n = 0;

	for (size_t i = e->n; i-- > 0 && n < EVENTS_SHOWN;)
		if (strcmp(e->v[i].kind, "runaway") == 0 ||
		    strcmp(e->v[i].kind, "drains") == 0 ||
		    strcmp(e->v[i].kind, "store_loss") == 0 ||
		    is_fallback(&e->v[i])) {
			report_hint(r, strdup(e->v[i].text));
			n++;
		}
}

/* Why fewer requests were measured than there were; the event says what it cost. */
static void
hint_sampling(const struct kp_query_events *e, struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	const struct kp_query_event *last = NULL;
	char at[TIMEFMT_MAX], *text;
	unsigned n = 0;

	for (size_t i = 0; i < e->n; i++) {
		if (strcmp(e->v[i].kind, "sampling") == 0) {
			last = &e->v[i];
			n++;
		}
	}
	if (last == NULL || all->requests == all->sampled_requests)
		return;
	if (asprintf(&text, "sampling changed %s in this time: from %s on %s",
	    n > 1 ? "several times" : "once", timefmt_local(at, last->at),
	    last->text) < 0)
		text = NULL;
	report_hint(r, text);
}

/* ---- empty or odd ---- */

/* The text of the last event of one of these kinds; "": there is none. */
static const char *
last_of(const struct kp_query_events *e, const char *const *kinds, size_t n)
{
	for (size_t i = e->n; i-- > 0;)
		for (size_t k = 0; k < n; k++)
			if (strcmp(e->v[i].kind, kinds[k]) == 0)
				return e->v[i].text;
	return "";
}

static bool
has_event(const struct kp_query_events *e, const char *kind)
{
	for (size_t i = 0; i < e->n; i++)
		if (strcmp(e->v[i].kind, kind) == 0)
			return true;
	return false;
}

/* Was it paused by hand after the last overload? */
static bool
is_paused(const struct kp_query_events *e)
{
	for (size_t i = e->n; i-- > 0;) {
		if (strcmp(e->v[i].kind, "trip") == 0)
			return false;
		if (strcmp(e->v[i].kind, "paused") == 0)
			return true;
	}
	return false;
}

/* Why there is no window, or none of that time and node. */
static enum kp_err
read_absence(struct advice *a, struct kp_query *q,
    const struct kp_query_range *r, struct kp_query_runs *runs,
    struct kp_query_nodes *nodes)
{
	struct kp_query_range any = { r->since, r->until, .node = NULL };
	enum kp_err err = kp_query_span(q, &a->first, &a->last);

	if (err == KP_OK)
		err = kp_query_runs(q, 1, runs);
	if (err == KP_OK)
		err = kp_query_nodes(q, &any, nodes);
	a->run = runs->n > 0;
	a->failed = runs->n > 0 ? runs->v[0].failed : "";
	return err;
}

/* whole: all figures are of the tiers.conf in force. */
static void
advise(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_query_events *events, const struct measured *s,
    bool whole, struct report *report)
{
	static const char *const absent[] = { "absent", "failed", "lost" };
	static const char *const trip[] = { "trip" };
	struct kp_query_runs runs = { 0 };
	struct kp_query_nodes nodes = { 0 };
	char entries[700] = "";
	struct advice a = { .failed = "", .nodes = &nodes,
		.asked = r->node != NULL ? r->node : "", .entries = entries,
		.attached = has_event(events, "attach"),
		.absent = last_of(events, absent, 3),
		.overload = last_of(events, trip, 1),
		.paused = is_paused(events), .changed = s->changed,
		.named = whole && s->conf != NULL &&
		    s->conf->identity != NULL };
	enum kp_err err = report->windows > 0 ? KP_OK :
	    read_absence(&a, q, r, &runs, &nodes);

	if (s->conf != NULL)
		advice_entries(entries, sizeof(entries), s->conf);
	if (err == KP_OK)
		report_advise(report, &a);
	kp_query_runs_free(&runs);
	kp_query_nodes_free(&nodes);
}

/* What is measured now is not in it, nor can the database say so. */
static void
hint_disk(struct kp_query *q, struct report *r)
{
	struct kp_query_runs runs = { 0 };
	const char *full = kp_query_disk_full(q);
	char *text;

	/* Of a run that has ended, all is there. */
	if (full != NULL && (kp_query_runs(q, 1, &runs) != KP_OK ||
	    runs.n == 0 || runs.v[0].ended != 0))
		full = NULL;
	kp_query_runs_free(&runs);
	if (full != NULL && asprintf(&text, "the disk of '%s' is full: what "
	    "kprofd measures now waits in its memory, and is lost when that is "
	    "full, or at its end (make room; kprof status)", full) >= 0)
		report_hint(r, text);
}

void
report_hints(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_query_sum *all, struct report *report)
{
	struct kp_query_events events = { 0 };
	struct measured s = { .conf = NULL };
	enum kp_err err = kp_query_events(q, r, EVENTS, &events);

	if (err == KP_OK)
		err = measured_read(&s, q, r, all);
	if (err == KP_OK) {
		report->hinted = true;
		hint_events(&events, report);
		hint_disk(q, report);
		if (report->nrows > 0)
			hint_sampling(&events, report);
		if (s.conf != NULL) {
			hint_endless(&s, is_native(&events), report);
			hint_clauses(&s, report);
		}
		advise(q, r, &events, &s, s.sum == all, report);
	}
	measured_free(&s);
	kp_query_events_free(&events);
}
