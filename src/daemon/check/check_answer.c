/*
 * check_answer.c - runs one check at a time for a client: has all its targets
 * look for the functions, judges what is missing as at the start, has the calls
 * counted on the targets that have enough, and sends what was found.
 *
 * Messages to the client, before its answer: "print" for its standard output,
 * "diags" (daemon/check/check_message.h), and "failed", why the file or a target failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/check/check_answer.h"
#include "daemon/check/price.h"
#include "daemon/control/reload.h"
#include "daemon/print.h"
#include "daemon/nodes/targets.h"
#include "daemon/check/check_message.h"

#define TICK_S 1		/* how often the client is looked for */
#define ANSWERS_S 60		/* for all questions, besides counting */
/* Room in the answer that tables and diagnostics leave for failures. */
#define FAILED_MAX (2u << 10)
#define FAILED_ROOM (CHECK_NODES_MAX * FAILED_MAX)

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

struct check_answer {
	const struct parts *p;
	struct event *tick;
	struct check_message ask;	/* read when a check begins */
	bool busy;
	uint64_t client;
	struct kp_conf *conf;
	struct one v[TARGETS_MAX];
	unsigned n, left;		/* targets; those that have to answer */
	uint64_t warnings;
	size_t room;			/* bytes that may still be sent */
	bool cut;			/* no room: that was sent */
};

/* ---- what the client gets ---- */

static struct control_client *
client(const struct check_answer *a)
{
	return control_client_get(a->p->control, a->client);
}

/* Frees b. */
static void
send_buf(struct check_answer *a, const char *kind, struct kp_buf *b)
{
	static const char cut[] = "the rest is too long and is left out (name "
	    "one -target)\n";
	struct control_client *c = client(a);

	if (c != NULL && b->err == KP_OK && b->len + FAILED_ROOM <= a->room) {
		control_message(c, kind, (const char *)b->p, b->len);
		a->room -= b->len;
	} else if (c != NULL && !a->cut) {
		control_message(c, "print", cut, strlen(cut));
		a->cut = true;
	}
	kp_buf_free(b);
}

static void
send_failed(struct check_answer *a, const char *text)
{
	struct control_client *c = client(a);

	if (c != NULL)
		control_message(c, "failed", text, strlen(text));
}

/* The name to be shown; NULL: there is one target. */
static const char *
node_name(const struct check_answer *a, const struct one *o)
{
	return a->n > 1 ? o->node : NULL;
}

static void
send_diags(struct check_answer *a, const struct one *o,
    const struct kp_diags *diags)
{
	struct kp_buf b;

	a->warnings += kp_diags_warnings(diags);
	if (diags->n == 0)
		return;
	kp_buf_init(&b, CHECK_ANSWER_MAX);
	check_diags_put(&b, diags, o != NULL ? node_name(a, o) : NULL);
	send_buf(a, "diags", &b);
}

/* ---- the end ---- */

static void
one_end(struct one *o)
{
	if (o->t != NULL)
		agent_check_end(o->t->agent);
	o->t = NULL;
	o->step = OVER;
}

static void
check_end(struct check_answer *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		one_end(&a->v[i]);
		kp_diags_free(&a->v[i].diags);
	}
	kp_conf_free(a->conf);
	a->conf = NULL;
	a->n = a->left = 0;
	a->busy = false;
	event_del(a->tick);
}

void
check_answer_abort(struct check_answer *a, const char *why)
{
	if (!a->busy)
		return;
	control_refuse(client(a), why);
	check_end(a);
}

static void
finish(struct check_answer *a)
{
	struct control_client *c = client(a);
	char text[32];

	if (c != NULL) {
		snprintf(text, sizeof(text), "%" PRIu64, a->warnings);
		control_answer(c, true, text);
	}
	check_end(a);
}

/* Ends the check of one target, which the client is told. */
static void
one_failed(struct check_answer *a, struct one *o, const char *why)
{
	char text[FAILED_MAX];

	snprintf(text, sizeof(text), "'%s': %s", o->node, why);
	send_failed(a, text);
	one_end(o);
}

static bool
has_failed(struct check_answer *a, struct one *o,
    const struct agent_checked *c)
{
	if (c->how == AGENT_CHECKED_DONE)
		return false;
	one_failed(a, o, c->how == AGENT_CHECKED_REFUSED ? c->why :
	    targets_stopping(a->p->targets) ? "kprofd is ending" :
	    "not attached just now: kprof status has its state");
	return true;
}

static struct one *
one_of(struct check_answer *a, const struct target *t)
{
	for (unsigned i = 0; a->busy && i < a->n; i++)
		if (a->v[i].t == t)
			return &a->v[i];
	return NULL;
}

void
check_answer_left(struct target *t)
{
	struct check_answer *a = t->p->checks;
	struct one *o = a != NULL ? one_of(a, t) : NULL;

	/* It has answered the first question, so nobody waits for it. */
	if (o != NULL)
		one_failed(a, o, "it is not a target any more");
}

/* ---- the second question: calls ---- */

static void
send_plan(struct check_answer *a, const struct one *o, const struct kp_check *c)
{
	struct kp_buf b;

	kp_buf_init(&b, CHECK_ANSWER_MAX);
	put_plan(&b, a->conf, c->plan, node_name(a, o));
	check_put_price(&b, c);
	kp_buf_str(&b, "counted only: the profile that is running goes on, so "
	    "no calls were traced to see whether they end\n");
	send_buf(a, "print", &b);
}

/* diags: what the rates showed already. */
static void
report(struct check_answer *a, struct one *o, const struct kp_plan *plan,
    const struct kp_diags *diags)
{
	const struct kp_check c = { .conf = a->conf, .plan = plan,
		.counted = a->ask.ms * KP_NS_PER_MS,
		.waits = o->t->waits.v, .nwaits = o->t->waits.n };
	struct kp_diags judged = { 0 };
	char text[FAILED_MAX];

	send_diags(a, o, diags);
	send_plan(a, o, &c);
	kp_check_judge(&c, &judged);
	send_diags(a, o, &judged);
	if (diags->errors + judged.errors > 0) {
		snprintf(text, sizeof(text), "'%s' does not fit '%s': see the "
		    "errors above", a->ask.path, o->node);
		send_failed(a, text);
	}
	kp_diags_free(&judged);
}

void
check_answer_counted(struct target *t, const struct agent_checked *c,
    const struct kp_plan *plan)
{
	struct check_answer *a = t->p->checks;
	struct one *o = one_of(a, t);

	if (o == NULL || o->step != COUNTING)
		return;
	if (!has_failed(a, o, c)) {
		report(a, o, plan, c->diags);
		one_end(o);
	}
	if (--a->left == 0)
		finish(a);
}

/* ---- the first question: functions ---- */

/* What the target does not have has to be on one of the others. */
static bool
accepts(const struct check_answer *a, const struct one *o)
{
	const struct unresolved *all[TARGETS_MAX];

	unsigned n = 0;

	/* what targets that are away have is not known */
	for (unsigned i = 0; i < a->n; i++)
		if (a->v[i].t != NULL)
			all[n++] = &a->v[i].missing;
	return unresolved_elsewhere(&o->missing, all, n);
}

/* False: it has too little to be counted. */
static bool
judge_missing(struct check_answer *a, struct one *o)
{
	bool good = accepts(a, o);
	char text[FAILED_MAX];

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
count(struct check_answer *a)
{
	kp_dur_ns time = a->ask.ms * KP_NS_PER_MS;

	a->left = a->n + 1;
	for (unsigned i = 0; i < a->n; i++) {
		if (a->v[i].step != LOOKED || !judge_missing(a, &a->v[i])) {
			a->left--;
			continue;
		}
		a->v[i].step = COUNTING;
		agent_check_count(a->v[i].t->agent, time);
	}
	if (--a->left == 0)
		finish(a);
}

void
check_answer_looked(struct target *t, const struct agent_checked *c,
    const struct kp_plan *plan)
{
	struct check_answer *a = t->p->checks;
	struct one *o = one_of(a, t);

	if (o == NULL || o->step != LOOKING)
		return;
	if (!has_failed(a, o, c)) {
		o->step = LOOKED;
		o->empty = plan->n == 0;
		unresolved_set(&o->missing, c->diags);
		/* out of memory some are not shown; the verdict is the same */
		(void)kp_diags_copy(&o->diags, c->diags, "");
	}
	if (--a->left == 0)
		count(a);
}

/* ---- the beginning ---- */

static bool
is_asked(const struct check_answer *a, const struct target *t)
{
	for (unsigned i = 0; i < a->ask.nnodes; i++)
		if (target_is(t, a->ask.nodes[i]))
			return true;
	return a->ask.nnodes == 0 && !t->in_set.over;
}

static void
add_targets(struct check_answer *a)
{
	struct target *t;
	struct one *o;

	a->n = 0;
	for (unsigned i = 0; i < targets_count(a->p->targets); i++) {
		t = targets_at(a->p->targets, i);
		if (!is_asked(a, t))
			continue;
		o = &a->v[a->n++];
		*o = (struct one){ .t = t };
		snprintf(o->node, sizeof(o->node), "%s", t->node);
	}
}

/* True: every node that is asked for is one of the targets. */
static bool
find_targets(struct check_answer *a, char *why, size_t n)
{
	const struct targets *ts = a->p->targets;
	const char *name;
	bool found;

	for (unsigned i = 0; i < a->ask.nnodes; i++) {
		name = a->ask.nodes[i];
		found = false;
		for (unsigned k = 0; k < targets_count(ts) && !found; k++)
			found = target_is(targets_at(ts, k), name);
		if (found)
			continue;
		snprintf(why, n, "'%s' is not one of its targets (kprof status "
		    "lists them%s%s)", name, targets_count(ts) == 1 ?
		    "; it profiles " : "", targets_count(ts) == 1 ?
		    targets_at(ts, 0)->node : "");
		return false;
	}
	add_targets(a);
	snprintf(why, n, "it has no target just now (kprof status)");
	return a->n > 0;
}

/* NULL: the file can be used. */
static const char *
read_conf(struct check_answer *a)
{
	const char *why = NULL;
	struct kp_diags diags;

	if (kp_conf_parse(&a->conf, a->ask.text, a->ask.n, &diags) != KP_OK) {
		/* the client has found none */
		send_diags(a, NULL, &diags);
		why = "the file cannot be used (are both of one version?)";
	} else if (a->conf->messages && a->p->o->probe == AGENT_RELAY) {
		why = conf_file_messages;
	}
	kp_diags_free(&diags);
	return why;
}

static void
start(struct check_answer *a, struct control_client *c)
{
	const struct timeval every = { TICK_S, 0 };
	char text[600];
	const char *why;

	a->busy = true;
	a->client = control_client_id(c);
	a->warnings = 0;
	a->room = CHECK_ANSWER_MAX;
	a->cut = false;
	why = find_targets(a, text, sizeof(text)) ? read_conf(a) : text;
	a->ask.text = NULL;
	if (why != NULL) {
		for (unsigned i = 0; i < a->n; i++)
			a->v[i].t = NULL;
		check_answer_abort(a, why);
		return;
	}
	control_allow(c, a->ask.ms / 1000 + ANSWERS_S);
	event_add(a->tick, &every);
	a->left = a->n + 1;
	for (unsigned i = 0; i < a->n; i++)
		agent_check(a->v[i].t->agent, a->conf);
	if (--a->left == 0)
		count(a);
}

void
check_answer_take(void *ctx, struct control_client *c, const char *text,
    size_t n)
{
	struct check_answer *a = ctx;

	if (a->busy)
		control_refuse(c, "another check is under way: try again when it has "
		    "ended");
	else if (reload_busy(a->p->reload))
		control_refuse(c, "tiers.conf is being reloaded just now: try again");
	else if (targets_stopping(a->p->targets))
		control_refuse(c, "kprofd is ending");
	else if (!check_message_read(&a->ask, text, n))
		control_refuse(c, "the command makes no sense: are both of one "
		    "version?");
	else
		start(a, c);
}

bool
check_answer_busy(const struct check_answer *a)
{
	return a->busy;
}

/* Nobody waits for the answer any more: the targets need not count. */
static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct check_answer *a = ctx;
	struct control_client *c = client(a);

	(void)fd, (void)what;
	/* Writing to a client that has gone is what frees it. */
	if (c == NULL || !control_client_waits(c))
		check_answer_abort(a, "nobody waits for the answer");
}

struct check_answer *
check_answer_new(struct event_base *base, const struct parts *p)
{
	struct check_answer *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->p = p;
	a->tick = event_new(base, -1, EV_PERSIST, on_tick, a);
	if (a->tick == NULL) {
		free(a);
		return NULL;
	}
	return a;
}

void
check_answer_free(struct check_answer *a)
{
	if (a == NULL)
		return;
	for (unsigned i = 0; i < a->n; i++)
		kp_diags_free(&a->v[i].diags);
	kp_conf_free(a->conf);
	event_free(a->tick);
	free(a);
}
