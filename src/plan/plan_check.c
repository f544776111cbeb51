/*
 * plan_check.c - what is wrong with a plan by the rates and requests that were
 * seen, and what it would cost.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/check.h"
#include "kprofd/cost.h"
#include "kprofd/fn_name.h"
#include "kprofd/instructions.h"
#include "kprofd/stats.h"

#define SEE(c) ((c)->explained ? "" : " (see -explain)")
#define HANDED_MIN 5	/* requests that an entry handed on: one may be late */
#define HANDED 0.9	/* as a part of all */
#define LONGER "look longer, as kprof check -for 20s does"

static const char *
name_of(char *text, size_t n, const struct kp_plan_item *p)
{
	return fn_name(text, n, p->mod, p->fun, p->arity);
}

static const struct kp_check_seen *
seen_of(const struct kp_check *c, const struct kp_plan_item *p)
{
	static const struct kp_check_seen none;

	return c->seen != NULL ? &c->seen[p - c->plan->v] : &none;
}

static double
seconds(const struct kp_check *c)
{
	return (double)c->counted / KP_NS_PER_S;
}

/*
 * ---- the identity and label funs, by the calls that each clause matched ----
 *
 * A clause that names nothing is there for all other calls, and so is one whose
 * pattern is a variable: nobody has to call for them.
 */

uint32_t
kp_check_clauses(const struct kp_conf *c)
{
	struct kp_clause clause;
	uint32_t n = 0;

	while (kp_clause(c, n, &clause))
		n++;
	return n;
}

/* The functions that a clause may match, of those that were called. */
struct callees {
	const struct kp_plan_item *first;
	unsigned functions;
	uint64_t calls;
};

static struct callees
callees_of(const struct kp_check *c, uint32_t clause)
{
	struct callees out = { 0 };
	const struct kp_plan_item *p;
	uint64_t calls;

	for (p = c->plan->v; p < c->plan->v + c->plan->n; p++) {
		const struct kp_mfa f = { p->mod, p->fun, p->arity };

		calls = c->seen[p - c->plan->v].known;
		if (calls == 0 || !kp_clause_takes(c->conf, clause, &f))
			continue;
		if (out.functions++ == 0)
			out.first = p;
		out.calls += calls;
	}
	return out;
}

/*
 * Clauses for the same functions are alternatives where they named every call: then
 * there is none that the others are for, such as those of other versions.
 */
static bool
others_name(const struct kp_check *c, bool label, const struct callees *of)
{
	struct kp_clause clause;
	struct callees its;
	uint64_t named = 0;

	for (uint32_t i = 0; kp_clause(c->conf, i, &clause); i++) {
		if (c->matched[i] == 0 || clause.label != label ||
		    !clause.names || clause.any)
			continue;
		its = callees_of(c, i);
		if (its.first == of->first && its.functions == of->functions)
			named += c->matched[i];
	}
	return named == of->calls;
}

static void
judge_clause(const struct kp_check *c, uint32_t i, const struct kp_clause *at,
    struct kp_diags *diags)
{
	const struct callees of = callees_of(c, i);
	char name[FN_NAME_MAX], text[FN_NAME_MAX + 64];

	/* Nobody called what it is for, or nobody needs it. */
	if (of.calls == 0 || others_name(c, at->label, &of))
		return;
	fn_name(name, sizeof(name), of.first->mod, of.first->fun,
	    of.first->arity);
	if (of.functions == 1)
		snprintf(text, sizeof(text), "%s", name);
	else
		snprintf(text, sizeof(text), "%s and %u more functions", name,
		    of.functions - 1);
	kp_diags_add(diags, at->pos, true, "this clause matched none of the %llu "
	    "calls of %s that were seen (%s" LONGER ")",
	    (unsigned long long)of.calls, text, c->explained ? "" :
	    "see -explain, or ");
}

static uint64_t
entered(const struct kp_check *c)
{
	uint64_t n = 0;

	for (size_t i = 0; i < c->plan->n; i++)
		n += c->seen[i].entered;
	return n;
}

static void
judge_identity(const struct kp_check *c, struct kp_diags *diags)
{
	size_t before = diags->n;
	struct kp_clause clause;
	uint64_t named = 0, calls = entered(c);

	for (uint32_t i = 0; kp_clause(c->conf, i, &clause); i++) {
		named += clause.names && !clause.label ? c->matched[i] : 0;
		if (c->matched[i] == 0 && clause.names && !clause.any)
			judge_clause(c, i, &clause, diags);
	}
	/* One mistake, one message. */
	if (diags->n > before || named > 0 || calls == 0 ||
	    !kp_conf_has_identity(c->conf))
		return;
	kp_clause(c->conf, 0, &clause);
	kp_diags_add(diags, clause.pos, true, "no clause gave a type to any of the "
	    "%llu requests that were seen: all would be 'undefined'%s",
	    (unsigned long long)calls, SEE(c));
}

/* ---- rates and requests ---- */

/*
 * One pattern may stand for several functions, and one of them is enough, as of
 * all the entries that are optional.
 */
static bool
is_alike(const struct kp_plan_item *p, const struct kp_plan_item *like)
{
	return p->entry && (like->optional || (p->pos.line == like->pos.line &&
	    p->pos.col == like->pos.col));
}

static bool
is_called(const struct kp_plan *plan, const struct kp_plan_item *like)
{
	const struct kp_plan_item *p;

	for (p = plan->v; p < plan->v + plan->n; p++)
		if (p->rate != 0 && is_alike(p, like))
			return true;
	return false;
}

static bool
is_first(const struct kp_plan *plan, const struct kp_plan_item *like)
{
	const struct kp_plan_item *p;

	for (p = plan->v; p < like; p++)
		if (is_alike(p, like))
			return false;
	return true;
}

/*
 * Half of the calls inside another one is a loop.  A few are requests inside
 * requests, which kprofd follows; so one look at stacks is not enough for an error,
 * unless they are too many to be traced.
 */
static void
judge_nested(const struct kp_check *c, const struct kp_plan_item *p,
    struct kp_diags *diags)
{
	const struct kp_check_seen *seen = seen_of(c, p);
	bool mostly = seen->nested > 0 ? seen->nested * 2 >= seen->entered :
	    p->disarmed;
	char name[FN_NAME_MAX];

	if (!p->recursive && seen->nested == 0)
		return;
	kp_diags_add(diags, p->pos, !mostly, "%s %scalls itself: each of these calls "
	    "begins a request inside the request (name a function around it, "
	    "which is called once for each request)",
	    name_of(name, sizeof(name), p),
	    mostly || seen->entered == 0 ? "" : "sometimes ");
}

/*
 * The relay of OTP 25 and 26 does not see exceptions that pass untraced callers:
 * then the next call looks like a tail call.  The native probe sees them all.
 */
static void
judge_chained(const struct kp_check *c, const struct kp_plan_item *p,
    struct kp_diags *diags)
{
	const struct kp_check_seen *seen = seen_of(c, p);
	char name[FN_NAME_MAX];

	kp_diags_add(diags, p->pos, true, "%s calls itself by tail calls%s: no end "
	    "was seen of %llu of the %llu calls traced (%s)", name_of(name,
	    sizeof(name), p), c->plan->native ? "" : ", or ends by exceptions",
	    (unsigned long long)seen->chained,
	    (unsigned long long)seen->entered, c->plan->native ?
	    "name a function that it calls for each request" :
	    "check with -probe native, which can tell");
}

/* Without a call meanwhile, a process may have been in a long request. */
static void
judge_loop(const struct kp_check *c, const struct kp_plan_item *p,
    struct kp_diags *diags)
{
	char name[FN_NAME_MAX];

	kp_diags_add(diags, p->pos, p->rate == 0, "%s %s: a process was in it for "
	    "all of %.3g s, and requests would have no end (name the function "
	    "that handles one message)", name_of(name, sizeof(name), p),
	    p->rate == 0 ? "was not called, and may never return" :
	    "never returns", seconds(c));
}

static void
judge_end(const struct kp_check *c, const struct kp_plan_item *p,
    struct kp_diags *diags)
{
	const struct kp_check_seen *seen = seen_of(c, p);
	size_t before = diags->n;
	char name[FN_NAME_MAX];

	if (seen->chained > 0 && seen->chained * 2 >= seen->entered)
		judge_chained(c, p, diags);
	if (seen->ended > 0 || diags->n > before)
		return;
	if (p->loop)
		judge_loop(c, p, diags);
	else if (seen->entered > 0)
		kp_diags_add(diags, p->pos, true, "%s did not return from any of the "
		    "%llu calls traced in %.3g s: its requests are longer, or "
		    "never end (" LONGER "; of a server's "
		    "loop, name the function that handles one message)",
		    name_of(name, sizeof(name), p),
		    (unsigned long long)seen->entered, seconds(c));
}

/*
 * An entry that gives its request to another process, and returns.  One that waits
 * for the answer is as long as its request: only OTP's own calls are not to be named.
 */
static void
judge_handing(const struct kp_check *c, const struct kp_plan_item *p,
    struct kp_diags *diags)
{
	static const char *const others[][2] = { { "gen_server", "call" },
		{ "gen_server", "cast" }, { "gen_statem", "call" },
		{ "gen_statem", "cast" }, { "gen_event", "notify" },
		{ "gen_event", "sync_notify" }, { "Elixir.GenServer", "call" },
		{ "Elixir.GenServer", "cast" } };
	const struct kp_check_seen *seen = seen_of(c, p);
	char name[FN_NAME_MAX], worker[FN_NAME_MAX];

	name_of(name, sizeof(name), p);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(p->mod, others[i][0]) == 0 &&
		    strcmp(p->fun, others[i][1]) == 0) {
			kp_diags_add(diags, p->pos, true, "%s only hands on, and for all "
			    "that call it, the node's own servers, too (name the "
			    "function that calls it for a request, or the one that "
			    "does the work)", name);
			return;
		}
	if (seen->handed < HANDED_MIN || (double)seen->handed < HANDED *
	    (double)seen->ended)
		return;
	kp_diags_add(diags, p->pos, true, "%s only hands on: in %llu of %llu traced "
	    "requests all calls of tiers came when it had returned, so they are not "
	    "in the request's time, but after it (name the function that does the "
	    "work, such as %s, or a finish)", name, (unsigned long long)seen->handed,
	    (unsigned long long)seen->ended, name_of(worker, sizeof(worker),
	    &c->plan->v[seen->worker]));
}

static bool
is_instruction(const struct kp_plan_item *p)
{
	return kp_is_instruction(&(struct kp_mfa){ p->mod, p->fun, p->arity });
}

static void
judge_entry(const struct kp_check *c, const struct kp_plan_item *p,
    struct kp_diags *diags)
{
	char name[FN_NAME_MAX];

	if (!is_called(c->plan, p)) {
		/* A call that is not seen may have been made: tiers.conf was
		   warned of already. */
		if (is_first(c->plan, p) && !p->loop && !is_instruction(p))
			kp_diags_add(diags, p->pos, true, "%s was not called in "
			    "%.3g s: without its calls there are no requests "
			    "(send the node a request meanwhile, " LONGER ", or "
			    "name another entry)",
			    name_of(name, sizeof(name), p), seconds(c));
	} else if (p->recursive || seen_of(c, p)->nested > 0) {
		judge_nested(c, p, diags);
		return;
	}
	judge_handing(c, p, diags);
	judge_end(c, p, diags);
}

static double
entry_rate(const struct kp_plan *plan)
{
	double sum = 0;

	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].entry && plan->v[i].rate > 0)
			sum += (double)plan->v[i].rate;
	return sum;
}

/* Without traced requests: as if all its calls were made in requests. */
static double
calls_a_request(const struct kp_check *c, const struct kp_plan_item *p,
    double entries)
{
	if (c->requests > 0)
		return (double)seen_of(c, p)->calls / (double)c->requests;
	return entries > 0 && p->rate > 0 ? (double)p->rate / entries : 0;
}

/* The part of the requests that is sampled. */
static double
sampled(const struct kp_sampling *s, double entries)
{
	if (s->kind == KP_SAMPLE_ONE_IN || s->kind == KP_SAMPLE_SLICES)
		return 1.0 / s->n;
	if (s->kind == KP_SAMPLE_PER_SECOND && entries > s->n)
		return s->n / entries;
	return 1;
}

/*
 * Calls that came with another request's token: with the configured sampling most
 * of those requests are not sampled, and then no token comes at all.
 */
static void
judge_tokens(const struct kp_check *c, const struct kp_plan_item *p,
    double entries, struct kp_diags *diags)
{
	const struct kp_check_seen *seen = seen_of(c, p);
	double strayed = (double)(seen->strayed + seen->missed) /
	    (double)(seen->calls + seen->missed);
	double share = sampled(&c->conf->sampling, entries);
	char name[FN_NAME_MAX];

	if (seen->strayed < KP_STRAYED_MIN ||
	    strayed * (1 - share) < KP_MISSED_MIN)
		return;
	kp_diags_add(diags, p->pos, true, "%s: %.0f %% of its calls in traced "
	    "requests came with another request's token, from an answer that "
	    "another request set off (a pool's worker that was given back, a "
	    "deferred reply): where one request in %.3g is sampled, about %.0f %% "
	    "of its calls would not be seen ({sampling, all} sees them)",
	    name_of(name, sizeof(name), p), 100 * strayed, 1 / share,
	    100 * strayed * (1 - share));
}

/* The VM counted its calls, and requests hardly have any. */
static void
judge_absent(const struct kp_check *c, const struct kp_plan_item *p,
    double entries, struct kp_diags *diags)
{
	const struct kp_check_seen *seen = seen_of(c, p);
	double calls = entries > 0 && p->rate > 0 ? (double)p->rate / entries : 0;
	char name[FN_NAME_MAX];

	if (c->requests < KP_ABSENT_MIN ||
	    calls * (double)c->requests < KP_ABSENT_MIN ||
	    (double)seen->calls >= calls * (double)c->requests * KP_ABSENT)
		return;
	kp_diags_add(diags, p->pos, true, "%s is called %.3g times for each request, "
	    "as the VM counts, and traced requests have hardly any of these "
	    "calls: they are made outside of requests, or tokens are lost before "
	    "them, as where all workers of a pool are taken, and a request gets "
	    "its worker from one that is not measured", name_of(name,
	    sizeof(name), p), calls);
}

static void
judge_tier(const struct kp_check *c, const struct kp_plan_item *p,
    double entries, struct kp_diags *diags)
{
	double calls = calls_a_request(c, p, entries);
	char name[FN_NAME_MAX];

	name_of(name, sizeof(name), p);
	if (seen_of(c, p)->recursive)
		kp_diags_add(diags, p->pos, true, "%s calls itself, and every call of "
		    "it is traced (name a function around it)", name);
	else if (calls >= KP_CHECK_LOOP)
		kp_diags_add(diags, p->pos, true, "%s is called %.0f times for each "
		    "request: it is in a loop (name the function that has the "
		    "loop, unless each of its calls is of interest)", name,
		    calls);
	judge_tokens(c, p, entries, diags);
	judge_absent(c, p, entries, diags);
}

/* Time that requests wait for a pool is in whichever tier is around it. */
static void
judge_waits(const struct kp_check *c, double entries, struct kp_diags *diags)
{
	const struct kp_plan_item *p = c->plan->v;
	struct kp_buf b;

	while (p < c->plan->v + c->plan->n && !p->entry)
		p++;
	for (size_t i = 0; i < c->nwaits && p < c->plan->v + c->plan->n; i++) {
		if (kp_waits_has_tier(&c->waits[i], c->conf))
			continue;
		kp_buf_init(&b, 4096);
		kp_waits_put(&c->waits[i], c->conf, sampled(&c->conf->sampling,
		    entries) >= 1, &b);
		kp_diags_add(diags, p->pos, true, "%s", kp_buf_cstr(&b));
		kp_buf_free(&b);
	}
}

void
kp_check_judge(const struct kp_check *c, struct kp_diags *diags)
{
	double entries = entry_rate(c->plan);
	const struct kp_plan_item *p;

	for (p = c->plan->v; p < c->plan->v + c->plan->n; p++) {
		if (p->entry)
			judge_entry(c, p, diags);
		else if (!p->disarmed && p->tiers != 0)
			judge_tier(c, p, entries, diags);
	}
	judge_waits(c, entries, diags);
	if (c->matched != NULL)
		judge_identity(c, diags);
}

struct kp_check_price
kp_check_price(const struct kp_check *c)
{
	double calls = 0, share = sampled(&c->conf->sampling,
	    entry_rate(c->plan));
	const struct kp_plan_item *p;
	struct kp_cost cost;

	for (p = c->plan->v; p < c->plan->v + c->plan->n; p++)
		if (!p->disarmed && p->rate > 0)
			calls += (double)p->rate;
	cost = kp_cost_foresee(calls, entry_rate(c->plan), share, c->plan->native);
	return (struct kp_check_price){ .events = 2 * share * calls,
		.percent = (double)kp_cost_total(&cost) * 100 /
		    (double)KP_NS_PER_S };
}
