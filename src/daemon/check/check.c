/*
 * check.c - checks a tiers.conf on targets, in one of two ways, and reports what
 * is wrong with it and what it would cost.
 *
 * kprofd -check attaches to its targets, counts calls and traces some requests: a
 * struct check for each target.  The agent calls back in the middle of its steps:
 * so it is ended by an event of our own.
 *
 * kprofd -check -control asks the kprofd that is attached already, which counts,
 * and traces nothing: a struct checks for all targets.  It has them all look for the
 * functions, judges what is missing as at the start, and has the calls counted on
 * the targets that have enough.  Messages to the client, before its answer: "print"
 * for its standard output, "log" and "errors" for its log, and "failed", why the file
 * or a target failed.  The answer is the last line, or nothing where that failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/near_names.h"
#include "client/ctl_socket.h"
#include "daemon/check/check.h"
#include "daemon/check/check_message.h"
#include "daemon/check/traced_findings.h"
#include "daemon/control/reload.h"
#include "daemon/log.h"
#include "daemon/nodes/target.h"
#include "daemon/nodes/targets.h"
#include "kprofd/check.h"
#include "kprofd/fn_name.h"
#include "kprofd/instructions.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"

#define LINE_BYTES 4096		/* names are bounded: longer ones are cut */
#define PRINTED_MAX (64u << 20)	/* bytes of one target's plan */
#define EXPLAINED_BYTES (1u << 20)
#define WAITS_EVERY (50 * KP_NS_PER_MS)	/* between looks at what requests wait for */
#define TICK_S 1		/* how often the client is looked for */
#define ANSWERS_S 60		/* for all questions, besides counting */
/* Room in the answer that tables and diagnostics leave for failures. */
#define FAILED_MAX (2u << 10)
#define FAILED_ROOM (CHECK_NODES_MAX * FAILED_MAX)

const struct kp_sampling check_sampling = { .kind = KP_SAMPLE_PER_SECOND,
	.n = KP_CHECK_CALLS_MAX };

/* ---- the report ---- */

static void
tiers_cell(struct grid *g, const struct kp_conf *c, uint64_t tiers)
{
	struct kp_buf b;

	kp_buf_init(&b, LINE_BYTES);
	for (size_t i = 0; i < c->ntiers; i++)
		if ((tiers >> i & 1) != 0)
			kp_buf_printf(&b, "%s%s", b.len > 0 ? ", " : "",
			    c->tiers[i].name);
	grid_cell(g, tiers != 0 ? kp_buf_cstr(&b) : "-");
	kp_buf_free(&b);
}

/* Calls of an instruction are made, and not seen. */
static bool
is_uncalled(const struct kp_plan_item *p)
{
	return p->rate == 0 && !kp_is_instruction(
	    &(struct kp_mfa){ p->mod, p->fun, p->arity });
}

static const char *
plan_as(const struct kp_plan_item *p)
{
	return p->entry ? "entry" : p->clears ? "clear" : p->exact ? "exact" : "call";
}

static void
plan_row(struct grid *g, const struct kp_conf *c, const struct kp_plan_item *p)
{
	char fn[FN_NAME_MAX], rate[24] = "?";

	if (p->rate > 0 || is_uncalled(p))
		snprintf(rate, sizeof(rate), "%lld", (long long)p->rate);
	grid_cell(g, fn_name(fn, sizeof(fn), p->mod, p->fun, p->arity));
	grid_cell(g, rate);
	grid_cell(g, plan_as(p));
	tiers_cell(g, c, p->tiers);
}

/* Optional functions that nobody called: a stock file has many of them. */
static bool
is_unused(const struct kp_plan_item *p)
{
	return p->optional && is_uncalled(p);
}

/* Names the tiers of which nothing was called, in a line, where they are optional. */
static void
put_unused(struct kp_buf *b, const struct kp_conf *c, const struct kp_plan *plan)
{
	const char *before = "optional, and not there or not called: ";
	uint64_t used = 0;

	for (size_t i = 0; i < plan->n; i++)
		used |= is_unused(&plan->v[i]) ? 0 : plan->v[i].tiers;
	for (size_t i = 0; i < c->ntiers; i++) {
		if ((c->tiers[i].opts & KP_TIER_OPTIONAL) == 0 || (used >> i & 1) != 0)
			continue;
		kp_buf_printf(b, "%s%s", before, c->tiers[i].name);
		before = ", ";
	}
	kp_buf_str(b, before[0] == ',' ? "\n" : "");
}

/* The same for programs: one object on a line.  rate: null where it is not known. */
static void
json_counted(struct kp_buf *b, const struct kp_check *k, const char *node, bool only)
{
	struct kp_check_price price = kp_check_price(k);
	const struct kp_plan_item *p;
	char fn[FN_NAME_MAX];
	struct json j;

	json_open(&j, b);
	json_string(&j, "target", node);
	json_array(&j, "functions");
	for (p = k->plan->v; p < k->plan->v + k->plan->n; p++) {
		json_object(&j, NULL);
		json_string(&j, "function", fn_name(fn, sizeof(fn), p->mod, p->fun,
		    p->arity));
		if (p->rate > 0 || is_uncalled(p))
			json_int(&j, "calls_per_s", p->rate);
		else
			json_null(&j, "calls_per_s");
		json_string(&j, "as", plan_as(p));
		json_bool(&j, "optional", p->optional);
		json_array(&j, "tiers");
		for (size_t i = 0; i < k->conf->ntiers; i++)
			if ((p->tiers >> i & 1) != 0)
				json_string(&j, NULL, k->conf->tiers[i].name);
		json_end(&j);
		json_end(&j);
	}
	json_end(&j);
	json_number(&j, "events_per_s", price.events);
	json_number(&j, "scheduler_percent", price.percent);
	json_bool(&j, "counted_only", only);
	json_close(&j);
}

/*
 * Appends what would be traced, how often it is called, and what that would cost.
 * node: its name; several: there are others.  only: no requests are traced after that.
 */
static void
put_counted(struct kp_buf *b, const struct kp_check *k, const char *node, bool several,
    bool only, bool json)
{
	struct kp_check_price price = kp_check_price(k);
	double unit = 1;
	char text[TEXT_MAX];
	struct grid g;

	if (json) {
		json_counted(b, k, node, only);
		return;
	}
	grid_init(&g);
	grid_col(&g, "FUNCTION", GRID_LEFT);
	grid_col(&g, "CALLS/S", GRID_RIGHT);
	grid_col(&g, "AS", GRID_LEFT);
	grid_col(&g, "TIERS", GRID_LEFT);
	for (size_t i = 0; i < k->plan->n; i++)
		if (!is_unused(&k->plan->v[i]))
			plan_row(&g, k->conf, &k->plan->v[i]);
	if (several)
		kp_buf_printf(b, "%s:\n", node);
	grid_write(&g, 0, b);
	grid_free(&g);
	put_unused(b, k->conf, k->plan);
	/* two digits are as many as an estimate has */
	while (price.events / unit >= 100)
		unit *= 10;
	kp_buf_printf(b, "about %s events/s, ", text_count(text,
	    (uint64_t)(price.events / unit + 0.5) * (uint64_t)unit));
	if (price.percent < 0.01)
		kp_buf_str(b, "less than 0.01 % of a scheduler\n");
	else
		kp_buf_printf(b, "%.2g %% of a scheduler\n", price.percent);
	if (only)
		kp_buf_str(b, "counted only: the profile that is running goes on, "
		    "so no calls were traced to see whether they end\n");
}

#define PASSED_MAX (TEXT_MAX + 40)

/* The last line of a check that found no errors; buf has PASSED_MAX bytes. */
static const char *
passed(char *buf, uint64_t warnings, bool json)
{
	char text[TEXT_MAX];

	if (json)
		snprintf(buf, PASSED_MAX, "{\"ok\":true,\"warnings\":%" PRIu64 "}\n",
		    warnings);
	else
		snprintf(buf, PASSED_MAX, "ok, %s\n", text_counted(text, warnings,
		    "warning"));
	return buf;
}

void
check_passed(uint64_t warnings, bool json)
{
	char text[PASSED_MAX];

	fputs(passed(text, warnings, json), stdout);
}

/* Frees b. */
static void
print(struct kp_buf *b)
{
	fputs(kp_buf_cstr(b), stdout);
	fflush(stdout);
	kp_buf_free(b);
}

/* ---- on targets that kprofd attaches to ---- */

struct check {
	struct target *t;
	struct event *end;		/* tracing is over */
	struct findings *found;	/* NULL: nothing is traced */
	bool timed;			/* tracing has begun */
	const char *broken;		/* why it failed; NULL: it did not */
};

static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
	struct check *c = ctx;

	(void)fd, (void)what;
	agent_stop(c->t->agent);
}

struct check *
check_new(struct event_base *base, struct target *t)
{
	struct check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->t = t;
	c->end = event_new(base, -1, 0, on_end, c);
	if (c->end == NULL) {
		free(c);
		return NULL;
	}
	return c;
}

void
check_free(struct check *c)
{
	if (c == NULL)
		return;
	event_free(c->end);
	findings_free(c->found);
	free(c);
}

/* Is an entry called?  It may be where somebody else counts it, and its rate is -1. */
static bool
is_called(const struct kp_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].entry && plan->v[i].rate != 0 &&
		    !plan->v[i].disarmed)
			return true;
	return false;
}

/*
 * Errors are reported at once; what is only unusual may be explained by the
 * requests.
 */
void
check_counted(struct check *c, const struct kp_plan *plan)
{
	struct target *t = c->t;
	const struct kp_check k = { .conf = t->run.conf_run->conf, .plan = plan,
		.counted = t->opts.check_time };
	struct kp_diags diags = { 0 };
	char most[TEXT_MAX];
	struct kp_buf b;

	kp_buf_init(&b, PRINTED_MAX);
	put_counted(&b, &k, t->node, targets_node_name(t) != NULL, false, t->p->o->json);
	print(&b);
	kp_check_judge(&k, &diags);
	if (t->unfit || diags.errors > 0 || !is_called(plan)) {
		if (diags.n > 0)
			daemon_on_diags(t, &diags);
		agent_stop(t->agent);
	} else if ((c->found = findings_new(k.conf, plan)) == NULL) {
		c->broken = "out of memory";
		agent_stop(t->agent);
	} else {
		log_info("check", t->node, "tracing %s calls of entries at "
		    "most, for %.3g s at most", text_count(most,
		    KP_CHECK_CALLS_MAX), (double)k.counted / KP_NS_PER_S);
		/* If tiers.conf has {one_in, N}, arming would use that. */
		agent_sample(t->agent, t->sampler.one_in);
	}
	kp_diags_free(&diags);
}

void
check_state(struct check *c, enum agent_state s)
{
	kp_dur_ns time = c->t->opts.check_time;
	struct timeval tv = { time / KP_NS_PER_S,
		time % KP_NS_PER_S / KP_NS_PER_US };

	if (c->found == NULL)
		return;
	if (s == AGENT_ARMED && !c->timed) {
		c->timed = true;
		event_add(c->end, &tv);
	} else if (s == AGENT_TRIPPED) {
		log_warn("check", c->t->node, "the check traced no longer than "
		    "to this overload: profiling may not do better");
		daemon_on_warning(c->t);
		event_active(c->end, EV_TIMEOUT, 0);
	} else if (s == AGENT_LOST) {
		c->broken = "the connection was lost while requests were "
		    "traced: check again";
		event_active(c->end, EV_TIMEOUT, 0);
	}
}

void
check_events(struct check *c, struct kp_event *ev, size_t n)
{
	if (c->found == NULL)
		return;
	for (size_t i = 0; i < n; i++)
		findings_event(c->found, &ev[i]);
	servers_ask(c->t, WAITS_EVERY);
	if (findings_entered(c->found) >= KP_CHECK_CALLS_MAX)
		event_active(c->end, EV_TIMEOUT, 0);
}

void
check_request(struct check *c, const struct kp_request *rq)
{
	if (c->found != NULL)
		findings_request(c->found, c->t->run.conf_run->rs, rq);
}

static void
json_explained(struct kp_buf *b, const struct findings *found, const char *node)
{
	struct kp_buf text;
	struct json j;

	kp_buf_init(&text, EXPLAINED_BYTES);
	findings_explain(found, &text);
	json_open(&j, b);
	json_string(&j, "target", node);
	json_string(&j, "explained", kp_buf_cstr(&text));
	json_close(&j);
	kp_buf_free(&text);
}

const char *
check_ended(struct check *c)
{
	struct target *t = c->t;
	struct kp_check k = { .conf = t->run.conf_run->conf,
		.counted = t->opts.check_time,
		.explained = t->p->o->explain, .waits = t->servers.v,
		.nwaits = t->servers.n };
	struct kp_diags diags = { 0 };
	struct kp_buf b;

	event_del(c->end);
	if (c->found == NULL || !c->timed || c->broken != NULL ||
	    targets_stopping(t->p->targets))
		return c->broken;
	/* Closes requests whose end was seen just now. */
	kp_requests_abandon(t->run.conf_run->rs, t->run.slot,
	    KP_LOSS_DISCONNECTED);
	findings_get(c->found, &k);
	kp_check_judge(&k, &diags);
	if (diags.n > 0)
		daemon_on_diags(t, &diags);
	kp_diags_free(&diags);
	if (k.explained) {
		kp_buf_init(&b, EXPLAINED_BYTES);
		if (t->p->o->json)
			json_explained(&b, c->found, t->node);
		else if (targets_node_name(t) != NULL)
			kp_buf_printf(&b, "%s:\n", targets_node_name(t));
		if (!t->p->o->json)
			findings_explain(c->found, &b);
		print(&b);
	}
	return NULL;
}

/* ---- on targets that kprofd is attached to: what the client gets ---- */

enum step { LOOKING, LOOKED, COUNTING, OVER };

/* A target in the check. */
struct one {
	struct target *t;		/* NULL: OVER */
	enum step step;
	char node[KP_NODE_NAME_MAX + 1];
	struct unresolved missing;
	struct kp_diags diags;		/* of the first question; a copy */
	bool empty;			/* it has none of the functions */
};

struct checks {
	const struct parts *p;
	struct event *tick;
	struct check_message ask;	/* read when a check begins */
	bool busy;
	bool json;			/* the client's log is JSON */
	uint64_t client;
	struct conf_file file;		/* what is checked */
	struct one v[TARGETS_MAX];
	unsigned n, left;		/* targets; those that have to answer */
	uint64_t warnings;
	bool failed;			/* the client was told so */
	size_t room;			/* bytes that may still be sent */
	bool cut;			/* no room: that was sent */
	bool judged;			/* objectives were, by types that were seen */
};

static struct control_client *
client(const struct checks *a)
{
	return control_client_get(a->p->control, a->client);
}

static void
send_text(struct checks *a, const char *kind, const char *text, size_t n)
{
	const char *cut = a->json ? "{\"cut\":true}\n" : "the rest is too long and "
	    "is left out (name one -target)\n";
	struct control_client *c = client(a);

	if (c != NULL && n + FAILED_ROOM <= a->room) {
		control_message(c, kind, text, n);
		a->room -= n;
	} else if (c != NULL && !a->cut) {
		control_message(c, "print", cut, strlen(cut));
		a->cut = true;
	}
}

static void
send_failed(struct checks *a, const char *text)
{
	struct control_client *c = client(a);

	if (c != NULL)
		control_message(c, "failed", text, strlen(text));
	a->failed = true;
}

static void
send_line(void *ctx, enum log_level level, const char *text, size_t n)
{
	send_text(ctx, level == LOG_LEVEL_ERROR ? "errors" : "log", text, n);
}

/* The name to be shown; NULL: there is one target. */
static const char *
node_name(const struct checks *a, const struct one *o)
{
	return a->n > 1 ? o->node : NULL;
}

/* o: the target that they are about, or NULL. */
static void
send_diags(struct checks *a, const struct one *o, const struct kp_diags *diags)
{
	a->warnings += kp_diags_warnings(diags);
	if (diags->n > 0)
		conf_file_diags_put(&a->file, diags, o != NULL ?
		    node_name(a, o) : NULL, a->json, send_line, a);
}

/* ---- its end ---- */

static void
one_end(struct one *o)
{
	if (o->t != NULL)
		agent_check_end(o->t->agent);
	o->t = NULL;
	o->step = OVER;
}

static void
check_end(struct checks *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		one_end(&a->v[i]);
		kp_diags_free(&a->v[i].diags);
	}
	conf_file_free(&a->file);
	a->n = a->left = 0;
	a->busy = false;
	event_del(a->tick);
}

void
checks_abort(struct checks *a, const char *why)
{
	if (!a->busy)
		return;
	control_refuse(client(a), why);
	check_end(a);
}

static void
finish(struct checks *a)
{
	struct control_client *c = client(a);
	char text[PASSED_MAX];

	if (c != NULL)
		control_answer(c, true, a->failed ? "" :
		    passed(text, a->warnings, a->json));
	check_end(a);
}

/* Ends the check of one target, and reports that to the client. */
static void
one_failed(struct checks *a, struct one *o, const char *why)
{
	char text[FAILED_MAX];

	snprintf(text, sizeof(text), "'%s': %s", o->node, why);
	send_failed(a, text);
	one_end(o);
}

/* The target that answers the question of this step; NULL: none. */
static struct one *
answering(struct checks *a, const struct target *t, enum step step)
{
	for (unsigned i = 0; a->busy && i < a->n; i++)
		if (a->v[i].t == t)
			return a->v[i].step == step ? &a->v[i] : NULL;
	return NULL;
}

static bool
has_failed(struct checks *a, struct one *o, const struct agent_checked *c)
{
	if (c->how == AGENT_CHECKED_DONE)
		return false;
	one_failed(a, o, c->how == AGENT_CHECKED_REFUSED ? c->why :
	    targets_stopping(a->p->targets) ? "kprofd is ending" :
	    "not attached just now: kprof status has its state");
	return true;
}

void
checks_left(struct target *t)
{
	struct checks *a = t->p->checks;

	/* It has answered the first question, so nobody waits for it. */
	for (unsigned i = 0; a != NULL && a->busy && i < a->n; i++)
		if (a->v[i].t == t)
			one_failed(a, &a->v[i], "it is not a target any more");
}

/* ---- its second question: calls ---- */

/*
 * Types that the identity fun makes of arguments are known by requests alone: those that
 * were measured since the tiers.conf in force came there.
 */
static void
judge_types(struct checks *a, const struct kp_requests *rs)
{
	const struct near_rule rule = { .edits = 3, .share = 3, .kept = 1 };
	const struct kp_conf *c = a->file.conf;
	uint32_t n = kp_requests_identities(rs), first = KP_IDENT_OTHER + 1;
	const char **v = calloc(n + 1, sizeof(*v)), *near;
	struct kp_diags diags = { 0 };
	bool seen;

	for (uint32_t i = first; v != NULL && i < n; i++)
		v[i] = kp_requests_identity(rs, i);
	for (size_t k = 0; v != NULL && n > first && k < c->nslo; k++) {
		seen = !c->slo[k].computed;
		for (uint32_t i = first; i < n && !seen; i++)
			seen = strcmp(v[i], c->slo[k].name) == 0;
		if (seen)
			continue;
		near = near_name(c->slo[k].name, v + first, n - first, sizeof(*v), rule);
		kp_diags_add(&diags, c->slo[k].pos, true, "the objective '%s' is of a "
		    "type that none of the requests that are measured has had%s%s%s",
		    c->slo[k].text, near != NULL ? ": did you mean '" : " so far",
		    near != NULL ? near : "", near != NULL ? "'?" : "");
	}
	send_diags(a, NULL, &diags);
	kp_diags_free(&diags);
	free(v);
}

/* diags: what the rates showed already. */
static void
report(struct checks *a, struct one *o, const struct kp_plan *plan,
    const struct kp_diags *diags)
{
	const struct kp_check k = { .conf = a->file.conf, .plan = plan,
		.counted = a->ask.ms * KP_NS_PER_MS,
		.waits = o->t->servers.v, .nwaits = o->t->servers.n };
	struct kp_diags judged = { 0 };
	char text[FAILED_MAX];
	struct kp_buf b;

	send_diags(a, o, diags);
	kp_buf_init(&b, CHECK_ANSWER_MAX);
	put_counted(&b, &k, o->node, node_name(a, o) != NULL, true, a->json);
	/* what has no room is too long as well */
	send_text(a, "print", (const char *)b.p, b.err == KP_OK ? b.len : a->room);
	kp_buf_free(&b);
	kp_check_judge(&k, &judged);
	send_diags(a, o, &judged);
	if (!a->judged)
		judge_types(a, o->t->run.conf_run->rs);
	a->judged = true;
	if (diags->errors + judged.errors > 0) {
		snprintf(text, sizeof(text), "'%s' does not fit '%s': see the "
		    "errors above", a->ask.path, o->node);
		send_failed(a, text);
	}
	kp_diags_free(&judged);
}

static void
on_counted(struct target *t, const struct agent_checked *c)
{
	struct checks *a = t->p->checks;
	struct one *o = answering(a, t, COUNTING);

	if (o == NULL)
		return;
	if (!has_failed(a, o, c)) {
		report(a, o, c->plan, c->diags);
		one_end(o);
	}
	if (--a->left == 0)
		finish(a);
}

/* ---- its first question: functions ---- */

/*
 * Functions that the target lacks have to be on one of the others; those that these have
 * that are away is not known.  False: it has too little to be counted.
 */
static bool
judge_missing(struct checks *a, struct one *o)
{
	const struct unresolved *all[TARGETS_MAX];
	char text[FAILED_MAX];
	unsigned n = 0;
	bool good;

	for (unsigned i = 0; i < a->n; i++)
		if (a->v[i].t != NULL)
			all[n++] = &a->v[i].missing;
	good = unresolved_elsewhere(&o->missing, all, n);
	if (good)
		kp_diags_excuse(&o->diags);
	send_diags(a, o, &o->diags);
	snprintf(text, sizeof(text), "'%s' names what the target does not have",
	    a->ask.path);
	if (!good)
		one_failed(a, o, text);
	else if (o->empty)
		one_failed(a, o, "the target has none of the functions that "
		    "tiers.conf names");
	return o->t != NULL;
}

static void
count(struct checks *a)
{
	a->left = a->n + 1;
	for (unsigned i = 0; i < a->n; i++) {
		if (a->v[i].step != LOOKED || !judge_missing(a, &a->v[i])) {
			a->left--;
			continue;
		}
		a->v[i].step = COUNTING;
		agent_check_count(a->v[i].t->agent, a->ask.ms * KP_NS_PER_MS,
		    on_counted);
	}
	if (--a->left == 0)
		finish(a);
}

static void
on_looked(struct target *t, const struct agent_checked *c)
{
	struct checks *a = t->p->checks;
	struct one *o = answering(a, t, LOOKING);

	if (o == NULL)
		return;
	if (!has_failed(a, o, c)) {
		o->step = LOOKED;
		o->empty = c->plan->n == 0;
		unresolved_set(&o->missing, c->diags);
		/* out of memory some are not shown; the verdict is the same */
		(void)kp_diags_copy(&o->diags, c->diags, "");
	}
	if (--a->left == 0)
		count(a);
}

/* ---- its beginning ---- */

/* True: every node that is asked for is one of the targets; and there are some. */
static bool
find_targets(struct checks *a, char *why, size_t n)
{
	const struct targets *ts = a->p->targets;
	bool asked, found[CHECK_NODES_MAX] = { false };
	unsigned count = targets_count(ts);
	struct target *t;

	for (unsigned k = 0; k < count; k++) {
		t = targets_at(ts, k);
		asked = a->ask.nnodes == 0 && !t->in_set.over;
		for (unsigned i = 0; i < a->ask.nnodes; i++)
			if (target_is(t, a->ask.nodes[i]))
				asked = found[i] = true;
		if (!asked)
			continue;
		a->v[a->n] = (struct one){ .t = t };
		snprintf(a->v[a->n].node, sizeof(a->v[a->n].node), "%s",
		    t->node);
		a->n++;
	}
	for (unsigned i = 0; i < a->ask.nnodes; i++) {
		if (found[i])
			continue;
		snprintf(why, n, "'%s' is not one of its targets (kprof status "
		    "lists them%s%s)", a->ask.nodes[i], count == 1 ?
		    "; it profiles " : "", count == 1 ?
		    targets_at(ts, 0)->node : "");
		return false;
	}
	snprintf(why, n, "it has no target just now (kprof status)");
	return a->n > 0;
}

/* NULL: the file can be used. */
static const char *
read_conf(struct checks *a)
{
	const char *why = NULL;
	struct kp_diags diags;

	a->file = (struct conf_file){ .path = a->ask.path, .len = a->ask.n,
		.text = strndup(a->ask.text, a->ask.n) };
	if (a->file.text == NULL)
		return "out of memory";
	if (conf_file_parse(&a->file, &diags) != KP_OK) {
		/* the client has found none */
		send_diags(a, NULL, &diags);
		why = "the file cannot be used (are both of one version?)";
	} else if (a->file.conf->messages && a->p->o->probe == AGENT_RELAY) {
		why = conf_file_messages;
	}
	a->warnings = a->file.warnings;
	kp_diags_free(&diags);
	return why;
}

static void
start(struct checks *a, struct control_client *c, bool json)
{
	const struct timeval every = { TICK_S, 0 };
	char text[600];
	const char *why;

	a->busy = true;
	a->client = control_client_id(c);
	a->json = json;
	a->room = CHECK_ANSWER_MAX;
	a->cut = a->failed = a->judged = false;
	why = find_targets(a, text, sizeof(text)) ? read_conf(a) : text;
	a->ask.text = NULL;
	if (why != NULL) {
		a->n = 0;
		checks_abort(a, why);
		return;
	}
	control_allow(c, a->ask.ms / 1000 + ANSWERS_S);
	event_add(a->tick, &every);
	a->left = a->n + 1;
	for (unsigned i = 0; i < a->n; i++)
		agent_check(a->v[i].t->agent, a->file.conf, on_looked);
	if (--a->left == 0)
		count(a);
}

static void
take(struct checks *a, struct control_client *c, const char *text, size_t n,
    bool json)
{
	if (a->busy)
		control_refuse(c, "another check is under way: try again when "
		    "it has ended");
	else if (reload_busy(a->p->reload))
		control_refuse(c, "tiers.conf is being reloaded just now: try "
		    "again");
	else if (targets_stopping(a->p->targets))
		control_refuse(c, "kprofd is ending");
	else if (!check_message_read(&a->ask, text, n))
		control_refuse(c, "the command makes no sense: are both of one "
		    "version?");
	else
		start(a, c, json);
}

void
checks_take(void *ctx, struct control_client *c, const char *text, size_t n)
{
	take(ctx, c, text, n, false);
}

void
checks_take_json(void *ctx, struct control_client *c, const char *text,
    size_t n)
{
	take(ctx, c, text, n, true);
}

bool
checks_busy(const struct checks *a)
{
	return a->busy;
}

/* The client has gone: the targets need not count. */
static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct control_client *c = client(ctx);

	(void)fd, (void)what;
	/* Writing to a client that has gone is what frees it. */
	if (c == NULL || !control_client_waits(c))
		checks_abort(ctx, "nobody waits for the answer");
}

struct checks *
checks_new(struct event_base *base, const struct parts *p)
{
	struct checks *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->p = p;
	a->tick = event_new(base, -1, EV_PERSIST, on_tick, a);
	if (a->tick != NULL)
		return a;
	free(a);
	return NULL;
}

void
checks_free(struct checks *a)
{
	if (a == NULL)
		return;
	for (unsigned i = 0; i < a->n; i++)
		kp_diags_free(&a->v[i].diags);
	conf_file_free(&a->file);
	event_free(a->tick);
	free(a);
}

/* ---- kprofd -check -control: the client ---- */

/* Writes the daemon's text without terminal control characters. */
static void
put_received(struct kp_buf *b, const struct kp_buf *text)
{
	kp_buf_init(b, 8 * CHECK_ANSWER_MAX);
	text_put_lines(b, (const char *)text->p, text->len);
}

static bool
on_message(void *ctx, const char *kind, const struct kp_buf *text)
{
	bool *failed = ctx, errors = strcmp(kind, "errors") == 0;
	struct kp_buf b;

	put_received(&b, text);
	if (strcmp(kind, "print") == 0) {
		print(&b);
		return true;
	}
	if (errors || strcmp(kind, "log") == 0) {
		log_lines(errors ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING,
		    (const char *)b.p, b.len);
	} else if (strcmp(kind, "failed") == 0) {
		log_error("failed", NULL, "%.*s", (int)text->len,
		    (const char *)text->p);
		*failed = true;
	} else {
		kp_buf_free(&b);
		return false;
	}
	kp_buf_free(&b);
	return true;
}

int
check_ask(const struct options *o, const struct conf_file *f)
{
	bool failed = false;
	struct ctl_request r = { .path = o->control_path, .see = "-control",
		.patience = CTL_SILENCE_S + (unsigned)(o->duration /
		KP_NS_PER_S), .each = true, .most = 2 * CHECK_ANSWER_MAX,
		.quiet = o->duration + CTL_SILENCE_S / 6 * KP_NS_PER_S,
		.on_message = on_message, .ctx = &failed };
	struct kp_buf text, command, answer, shown;
	char why[1024];
	enum kp_err err;

	kp_buf_init(&text, CHECK_MESSAGE_MAX);
	kp_buf_init(&command, CHECK_MESSAGE_MAX + 64);
	kp_buf_init(&answer, 2 * CHECK_ANSWER_MAX);
	check_message_put(&text, (unsigned)(o->duration / KP_NS_PER_MS),
	    f->path, o->targets, o->ntargets, f->text, f->len);
	kp_buf_printf(&command, "check%s bytes=%zu\n",
	    o->json ? " json" : "", text.len);
	kp_buf_put(&command, text.p, text.len);
	r.bytes = (const char *)command.p;
	r.n = command.len;
	err = text.err != KP_OK ? text.err : command.err;
	snprintf(why, sizeof(why), "%s", kp_err_str(err));
	if (err == KP_OK)
		err = ctl_request(&r, &answer, why, sizeof(why));
	if (err == KP_ESTATE)
		log_error("check", NULL, "the kprofd at '%s' does not check "
		    "it: %s", o->control_path, why);
	else if (err != KP_OK)
		log_error("check", NULL, "%s", why);
	if (err == KP_OK && !failed) {
		put_received(&shown, &answer);
		print(&shown);
	}
	kp_buf_free(&text);
	kp_buf_free(&command);
	kp_buf_free(&answer);
	return err != KP_OK || failed;
}
