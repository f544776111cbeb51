/*
 * advice.c - looks at the figures of a report for each way in which they may be missing
 * or of little worth, and checks them and the events of its range against the tiers.conf
 * that was in force; writes a sentence with the way out for each.
 *
 * The figures alone show which clause of the identity fun never matched, so events
 * need not carry its number: a clause that always answers the same text has a row
 * in the report or not; and a clause about functions that were not called had
 * nothing to match.  Where there could be another reason, no hint is given.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "kprofd/fn_name.h"
#include "kprofd/waits.h"
#include "report/usage.h"
#include "request/names.h"
#include "text/text.h"
#include "text/timefmt.h"

#define ENTRIES_NAMED 3
#define NODES_LISTED 10
#define THIN 30u	/* requests: with fewer, changes are uncertain, too */
#define UNNAMED_LEAST 10u	/* requests without a type: no accident */
#define CLAUSES_SHOWN 5
#define RUNS 20			/* read: have all the same tiers.conf? */
#define EVENTS 200		/* read */
#define EVENTS_SHOWN 3
#define ENDLESS 20u		/* requests without an end: enough for a hint */
#define SEVERAL 1.5		/* calls a request: no wrapper around it */
#define REPEATED 10.0		/* calls a request that are probably in a loop ... */
#define REPEATED_PART 0.3	/* ... and worth a hint: of the request's time */
#define POOL_PART 0.5		/* of the request's time */
#define TYPES_SHOWN 5

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
	    "requests go through it? kprof check FILE -target %s counts calls",
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

/* Adds a sentence to the report's hints. */
static void hint(struct report *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
hint(struct report *r, const char *fmt, ...)
{
	char **v = realloc(r->hints, (r->nhints + 1) * sizeof(*v));
	va_list ap;

	if (v == NULL)
		return;
	r->hints = v;
	va_start(ap, fmt);
	if (vasprintf(&v[r->nhints], fmt, ap) >= 0)
		r->nhints++;
	va_end(ap);
}

/* ---- no window ---- */

/* Nothing was ever stored here. */
static void
advise_none(struct report *r, const struct advice *a)
{
	char text[ADVICE_MAX];

	advice_absent(text, sizeof(text));
	if (a->failed[0] != '\0')
		hint(r, "nothing was measured: kprofd failed to start: %s",
		    a->failed);
	else if (a->absent[0] != '\0')
		hint(r, "nothing was measured: %s", a->absent);
	else if (a->run && !a->attached)
		hint(r, "%s", text);
	else
		hint(r, "the database holds no measurements yet: kprofd writes "
		    "a window every interval (10 s) while it is attached to a "
		    "target; kprof status shows whether it is");
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
		hint(r, "%s", kp_buf_cstr(&b));
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
	char off[TEXT_MAX], of[TEXT_MAX];
	int64_t nodes = r->nnodes > 0 ? (int64_t)r->nnodes : 1;
	/* it adds up over nodes, the time of windows does not */
	kp_dur_ns lasted = time_of(r, KP_LOSS_UNARMED) / nodes;

	if (r->covered <= 0 || lasted < r->covered / 2 ||
	    (a->overload[0] == '\0' && !a->paused))
		return;
	text_about(off, lasted);
	text_about(of, r->covered);
	if (a->paused)
		hint(r, "tracing was off for %s of %s: it was paused by hand "
		    "(kprof status shows whether it still is; kprof resume ends "
		    "that)", off, of);
	else
		hint(r, "tracing was off for %s of %s, by overload, so the "
		    "figures are of the rest; the last time kprofd logged: %s",
		    off, of, a->overload);
}

static void
advise_empty(struct report *r, const struct advice *a)
{
	const char *entries = a->entries[0] != '\0' ? a->entries : "entry";
	const char *node = r->nnodes == 1 ? r->nodes[0] : "";
	char text[ADVICE_MAX], n[TEXT_MAX];

	if (r->entry_calls > 0 && r->losses.n[KP_LOSS_UNSEEN] +
	    r->losses.n[KP_LOSS_DROPPED_ENTRIES] +
	    r->losses.n[KP_LOSS_SAMPLED_OUT] == 0) {
		advice_endless(text, sizeof(text), r->entry_calls, a->entries);
		hint(r, "%s", text);
	} else if (r->entry_calls > 0) {
		hint(r, "the VM counted %s of the %s; the losses say why none "
		    "was measured, and kprof status whether measuring is "
		    "paused", text_counted(n, r->entry_calls, "call"), entries);
	} else if (r->losses.n[KP_LOSS_UNCOUNTED] > 0) {
		hint(r, "no call of the %s was counted, but for %s no agent was "
		    "in the target to count them: kprof status has the reason",
		    entries, text_about(n, time_of(r, KP_LOSS_UNCOUNTED)));
	} else {
		advice_uncalled(text, sizeof(text), a->entries, node);
		hint(r, "%s", text);
	}
}

/* ---- requests, but odd ones ---- */

static void
advise_unnamed(struct report *r, const struct advice *a)
{
	const char *node = r->nnodes == 1 ? r->nodes[0] : "NODE";
	char n[TEXT_MAX];

	if (!a->named || r->filtered || r->nrows != 2 ||
	    strcmp(r->rows[1].identity, "undefined") != 0 ||
	    r->rows[1].cells[0].sampled_requests < UNNAMED_LEAST)
		return;
	hint(r, "all %s are of the type undefined: no clause of the identity "
	    "fun in tiers.conf fits the calls of the %s (kprof check FILE "
	    "-target %s -explain shows what they look like)",
	    text_counted(n, r->rows[1].cells[0].requests, "request"),
	    a->entries[0] != '\0' ? a->entries : "entry", node);
}

/* Tiers and types of both stand in one table, with means over requests of both. */
static void
advise_changed(struct report *r, const struct advice *a)
{
	char since[TIMEFMT_MAX];

	if (a->changed != 0)
		hint(r, "these figures are of more than one tiers.conf: -since "
		    "%s shows those of the last", timefmt_iso(since, a->changed));
}

static void
advise_thin(struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	char some[TEXT_MAX], of[TEXT_MAX];
	bool known;
	uint64_t n = report_requests(r, 0, &known);

	if (all->requests == all->sampled_requests ||
	    all->sampled_requests >= THIN)
		return;
	hint(r, "only %s of %s requests were measured: times and shares are "
	    "rough guesses (wait for more, or sample more: sampling and budget "
	    "in tiers.conf)", text_count(some, all->sampled_requests),
	    text_known(of, n, known));
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

/* The tiers.conf in force, and its figures in the range. */
struct measured {
	struct kp_conf *conf;	/* NULL: it is not known */
	const struct report *figures;	/* of all request types */
	struct report *since;	/* figures, if they are not of the whole range */
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
changed_at(const struct kp_query_runs *runs, const struct report *all)
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

/* The figures since then; `all` is not read again if it is that. */
static enum kp_err
measured_figures(struct measured *s, struct kp_query *q,
    const struct kp_query_range *r, kp_wall_ns since, const struct report *all)
{
	const struct kp_query_range range = { since, r->until,
		.node = r->node, .exact = true, .no_intervals = true };
	enum kp_err err = KP_OK;

	s->figures = all;
	if (since <= all->start || all->windows == 0)
		return KP_OK;
	if (since < r->until)
		err = report_from_db(q, &range, &s->since);
	s->figures = s->since;
	/* Of too many request types there are other hints. */
	return err == KP_ELIMIT ? KP_OK : err;
}

static enum kp_err
measured_read(struct measured *s, struct kp_query *q,
    const struct kp_query_range *r, const struct report *all)
{
	struct kp_query_runs runs = { 0 };
	enum kp_err err = kp_query_runs(q, RUNS, &runs);
	kp_wall_ns since;

	remove_failed(&runs);
	if (err == KP_OK && runs.n > 0) {
		since = in_force_since(&runs.v[0]);
		s->changed = changed_at(&runs, all);
		if (is_only_conf(&runs, since))
			s->conf = conf_of(&runs.v[0]);
		if (s->conf != NULL || s->changed != 0)
			err = measured_figures(s, q, r, since, all);
		/* from the first window on that is of it alone */
		if (s->changed != 0 && s->since != NULL && s->since->windows > 0)
			s->changed = s->since->start;
	}
	kp_query_runs_free(&runs);
	return err;
}

static void
measured_free(struct measured *s)
{
	idents_free(&s->names);
	kp_conf_free(s->conf);
	report_free(s->since);
}

/* ---- clauses ---- */

static bool
was_called(const struct report_cell *c)
{
	return c->calls + c->async_calls > 0;
}

static bool
has_requests(const struct report_row *row)
{
	return row->cells[0].requests > 0 || was_called(&row->cells[0]);
}

static bool
has_identity(const struct report *r, const char *name)
{
	for (size_t i = 1; i < r->nrows; i++)
		if (strcmp(r->rows[i].identity, name) == 0)
			return has_requests(&r->rows[i]);
	return false;
}

/* Does any request have a name? */
static bool
has_names(const struct report *r)
{
	for (size_t i = 1; i < r->nrows; i++)
		if (strcmp(r->rows[i].identity, "undefined") != 0 &&
		    has_requests(&r->rows[i]))
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
	size_t tier;

	for (size_t i = 0; i < c->nentries; i++)
		if (kp_clause_meets(c, clause, &c->entries[i].fn))
			return true;
	for (size_t i = 0; i < c->ntiers; i++) {
		tier = report_tier(s->figures, c->tiers[i].name);
		if (((c->nentries == 0 && i == 0) || (tier != REPORT_NO_TIER &&
		    was_called(&s->figures->rows[0].cells[tier]))) &&
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
		found = overflow || has_identity(s->figures, s->names.text[id]);
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
	if (!has_names(s->figures) || !is_called(s, i))
		return true;
	return clause->fixed && !has_identity(s->figures, "_other") &&
	    !is_answered(s, i);
}

static void
hint_clauses(struct measured *s, struct report *r)
{
	struct kp_clause clause;
	char count[TEXT_MAX];
	struct kp_buf b;
	unsigned n = 0;

	if (s->figures->sampled < HINT_REQUESTS ||
	    !idents_init(&s->names, s->conf, UINT32_MAX))
		return;
	kp_buf_init(&b, 4096);
	for (uint32_t i = 0; kp_clause(s->conf, i, &clause) &&
	    !clause.label; i++) {
		if (!is_idle(s, i, &clause))
			continue;
		if (n++ < CLAUSES_SHOWN)
			kp_buf_printf(&b, "%s%u (line %u)", n > 1 ? ", " : "",
			    i + 1, clause.line);
	}
	if (n > CLAUSES_SHOWN)
		kp_buf_printf(&b, " and %u more", n - CLAUSES_SHOWN);
	if (n > 0)
		hint(r, "identity clause%s %s of tiers.conf matched none of %s "
		    "requests, or only such as another clause named first",
		    n > 1 ? "s" : "", kp_buf_cstr(&b),
		    text_count(count, s->figures->sampled));
	kp_buf_free(&b);
}

/* ---- what a look at the table should not miss ---- */

/* The part of the time of the row's requests that passes in the calls of c. */
static double
part_of(const struct report_row *row, const struct report_cell *c)
{
	double part = report_value_of(row, c, REPORT_BUSY) /
	    (double)row->cells[0].mean;

	return row->cells[0].mean > 0 && part > 0 ? part : 0;
}

/*
 * The outermost tier that this type calls several times in each request, if it does so
 * often, and most of the time passes there.  What a tier inside it does for each of its
 * calls, such as prepare and execute, is not meant.  REPORT_NO_TIER: there is none.
 */
static size_t
repeated_tier(const struct report *r, const struct report_row *row, double *calls)
{
	size_t best = REPORT_NO_TIER;
	double n;

	for (size_t t = 1; t <= r->ntiers; t++) {
		n = (double)row->cells[t].calls / (double)row->cells[0].requests;
		if (n < SEVERAL || (best != REPORT_NO_TIER &&
		    part_of(row, &row->cells[t]) <=
		    part_of(row, &row->cells[best])))
			continue;
		best = t;
		*calls = n;
	}
	return best != REPORT_NO_TIER && *calls >= REPEATED &&
	    part_of(row, &row->cells[best]) >= REPEATED_PART ? best : REPORT_NO_TIER;
}

/* Do requests wait in this tier for a worker or a connection of a pool? */
static bool
is_pool(const struct kp_tier *t)
{
	const struct kp_pool_fn *known = NULL;

	for (size_t k = 0; k < t->nfns && known == NULL; k++)
		if (t->fns[k].fun != NULL)
			known = kp_pool_fn(t->fns[k].mod, t->fns[k].fun);
	return known != NULL && known->gives;
}

/*
 * The part of the time of this type's requests that they wait for this pool of the
 * tier: that of calls with its label.  NULL: those without, unless one with a label
 * has most of it.
 */
static double
waits_for(const struct report_row *row, size_t tier, const char *pool)
{
	const struct report_label *l;
	double part;

	for (l = row->labels; l < row->labels + row->nlabels; l++) {
		part = l->tier == tier ? part_of(row, &l->cell) : 0;
		if (pool != NULL && l->tier == tier && strcmp(l->name, pool) == 0)
			return part;
		if (pool == NULL && part >= POOL_PART)
			return 0;
	}
	return pool == NULL ? part_of(row, &row->cells[tier]) : 0;
}

/* The types that wait for one pool. */
static void
hint_pool(struct report *r, size_t tier, const char *pool)
{
	const struct report_row *row;
	char part[TEXT_MAX];
	struct kp_buf b;
	unsigned n = 0;

	kp_buf_init(&b, 16384);
	for (size_t i = 1; i < r->nrows; i++) {
		row = &r->rows[i];
		if (row->cells[0].sampled_requests < THIN ||
		    waits_for(row, tier, pool) < POOL_PART || n++ >= TYPES_SHOWN)
			continue;
		kp_buf_printf(&b, "%s%s of %s", n == 1 ? "" : n == 2 ?
		    ", and so does " : ", ", text_share(part,
		    waits_for(row, tier, pool)), row->identity);
		if (n == 1)
			kp_buf_printf(&b, " waits for %s (tier %s)", pool != NULL ?
			    pool : "a pool", r->tiers[tier - 1]);
	}
	if (n > TYPES_SHOWN)
		kp_buf_printf(&b, " and %u more types", n - TYPES_SHOWN);
	if (n > 0)
		hint(r, "%s: are all its workers or connections taken?",
		    kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* By pool, where labels tell several of one tier apart, and by type. */
static void
hint_pools(const struct kp_conf *c, struct report *r)
{
	const struct report_row *all = &r->rows[0];
	size_t tier;

	for (size_t i = 0; i < c->ntiers; i++) {
		tier = report_tier(r, c->tiers[i].name);
		if (tier == REPORT_NO_TIER || !is_pool(&c->tiers[i]))
			continue;
		for (size_t k = 0; k < all->nlabels; k++)
			if (all->labels[k].tier == tier)
				hint_pool(r, tier, all->labels[k].name);
		hint_pool(r, tier, NULL);
	}
}

static bool
is_pool_name(const struct kp_conf *c, const char *name)
{
	for (size_t i = 0; i < c->ntiers; i++)
		if (strcmp(c->tiers[i].name, name) == 0)
			return is_pool(&c->tiers[i]);
	return false;
}

/*
 * The label that most calls of the tier have, or if none has one, of a tier inside it
 * that is no pool; NULL: none has more than half as many.
 */
static const struct report_label *
most_called(const struct kp_conf *c, const struct report *r,
    const struct report_row *row, size_t tier)
{
	const struct report_label *l = row->labels, *best = NULL;
	bool own = false;

	for (size_t i = 0; i < row->nlabels; i++)
		own |= l[i].tier == tier;
	for (; l < row->labels + row->nlabels; l++) {
		if (own ? l->tier != tier : is_pool_name(c, r->tiers[l->tier - 1]))
			continue;
		if (best == NULL || l->cell.calls > best->cell.calls)
			best = l;
	}
	return best != NULL && best->cell.calls * 2 > row->cells[tier].calls ?
	    best : NULL;
}

/* Types that make one call for each row of a list. */
static void
hint_repeated(const struct kp_conf *c, struct report *r)
{
	const struct report_row *row;
	const struct report_label *label;
	char part[TEXT_MAX], each[TEXT_MAX];
	unsigned shown = 0;
	struct kp_buf of;
	double calls;
	size_t tier;

	kp_buf_init(&of, 4096);
	for (size_t i = 1; i < r->nrows && shown < TYPES_SHOWN; i++) {
		row = &r->rows[i];
		if (row->cells[0].sampled_requests < THIN)
			continue;
		tier = repeated_tier(r, row, &calls);
		if (tier == REPORT_NO_TIER)
			continue;
		shown++;
		label = most_called(c, r, row, tier);
		kp_buf_reset(&of);
		if (label != NULL)
			kp_buf_printf(&of, "%s of them %s, ", text_average(each,
			    report_value_of(row, &label->cell, REPORT_CALLS)),
			    label->name);
		hint(r, "%s: %s calls of %s in each request, %sin which %s of its time "
		    "passes: is it one for each row of a list (N+1)?", row->identity,
		    text_average(each, calls), r->tiers[tier - 1],
		    kp_buf_cstr(&of), text_share(part, part_of(row,
		    &row->cells[tier])));
	}
	kp_buf_free(&of);
}

/* ---- entries ---- */

/* True if the last event about the probe says that it is the native one. */
static bool
is_native(const struct kp_query_events *e)
{
	for (size_t i = e->n; i-- > 0;)
		if (strcmp(e->v[i].kind, "probe") == 0)
			return strncmp(e->v[i].text, "native", 6) == 0;
	return false;
}

static void
hint_endless(const struct measured *s, bool native, struct report *r)
{
	const struct report_cell *c = &s->figures->rows[0].cells[0];
	char count[TEXT_MAX], name[FN_NAME_MAX];

	if (c->requests > c->unfinished || c->sampled_requests < ENDLESS)
		return;
	text_count(count, c->sampled_requests);
	if (s->conf->nfinishes > 0)
		hint(r, "of %s requests that began none was seen to end: is %s, "
		    "which finish names, what ends one?", count,
		    fn_pat(name, sizeof(name), s->conf->finishes));
	else
		hint(r, "of %s requests that began none was seen to end: %sof a "
		    "server's loop, name a function as the entry that it calls "
		    "for each request", count, native ? "" : "where exceptions "
		    "end them, put the entry in an exact tier, or use -probe "
		    "native; ");
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
			hint(r, "%s", e->v[i].text);
			n++;
		}
}

/* Why fewer requests were measured than there were; the event says what it cost. */
static void
hint_sampling(const struct kp_query_events *e, struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	const struct kp_query_event *last = NULL;
	char at[TIMEFMT_MAX];
	unsigned n = 0;

	for (size_t i = 0; i < e->n; i++) {
		if (strcmp(e->v[i].kind, "sampling") == 0) {
			last = &e->v[i];
			n++;
		}
	}
	if (last != NULL && all->requests != all->sampled_requests)
		hint(r, "sampling changed %s in this time: from %s on %s",
		    n > 1 ? "several times" : "once",
		    timefmt_local(at, last->at), last->text);
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

/* Of the last look at the processes: queues that are long. */
static enum kp_err
hint_mailboxes(struct kp_query *q, const struct kp_query_range *range,
    struct report *r)
{
	struct kp_query_usage usage = { 0 };
	enum kp_err err = kp_query_usage(q, range, &usage);
	struct kp_buf b;
	unsigned n = 0;

	kp_buf_init(&b, 4096);
	for (size_t i = 0; err == KP_OK && i < usage.n && n < EVENTS_SHOWN; i++) {
		kp_buf_reset(&b);
		if (!usage_mailbox(&b, &usage.v[i], KP_QUEUE_LONG))
			continue;
		hint(r, "%s%s%s: kprof report -memory has all",
		    r->nnodes > 1 ? usage.v[i].node : "",
		    r->nnodes > 1 ? ": " : "", kp_buf_cstr(&b));
		n++;
	}
	kp_buf_free(&b);
	kp_query_usage_free(&usage);
	return err;
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
		    kp_conf_has_identity(s->conf) };
	enum kp_err err = report->windows > 0 ? KP_OK :
	    read_absence(&a, q, r, &runs, &nodes);

	if (s->conf != NULL)
		advice_entries(entries, sizeof(entries), s->conf);
	if (err == KP_OK)
		report_advise(report, &a);
	kp_query_runs_free(&runs);
	kp_query_nodes_free(&nodes);
}

/* On a full disk, the latest figures are not in the database. */
static void
hint_disk(struct kp_query *q, struct report *r)
{
	struct kp_query_runs runs = { 0 };
	const char *full = kp_query_disk_full(q);

	/* Of a run that has ended, all is there. */
	if (full != NULL && kp_query_runs(q, 1, &runs) == KP_OK && runs.n > 0 &&
	    runs.v[0].ended == 0)
		hint(r, "the disk of '%s' is full: what kprofd measures now "
		    "waits in its memory, and is lost when that is full, or at "
		    "its end (make room; kprof status)", full);
	kp_query_runs_free(&runs);
}

void
report_hints(struct kp_query *q, const struct kp_query_range *range,
    struct report *report)
{
	const struct report *all = report->whole != NULL ? report->whole :
	    report;
	const struct kp_query_range r = { range->since, range->until,
		.node = range->node, .exact = range->exact };
	struct kp_query_events events = { 0 };
	struct measured s = { .conf = NULL };
	enum kp_err err = KP_OK;
	char in[TEXT_MAX];

	/* names of nodes say nothing of tiers.conf */
	if (report->by_node && !report_empty(report))
		return;
	err = kp_query_events(q, &r, EVENTS, &events);
	if (err == KP_OK)
		err = measured_read(&s, q, &r, all);
	if (err == KP_OK) {
		hint_events(&events, report);
		hint_disk(q, report);
		hint_sampling(&events, report);
		report->hinted = hint_mailboxes(q, &r, report) == KP_OK;
		if (s.conf != NULL && s.figures != NULL && !s.figures->totals) {
			hint_endless(&s, is_native(&events), report);
			hint_clauses(&s, report);
			hint_pools(s.conf, report);
			hint_repeated(s.conf, report);
		}
		advise(q, &r, &events, &s, s.figures == all, report);
	}
	if (!report->running && report->left > 0)
		hint(report, "these figures are of earlier runs; those of the "
		    "running kprofd follow in %s", text_about(in, report->left));
	measured_free(&s);
	kp_query_events_free(&events);
}
