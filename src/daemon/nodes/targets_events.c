/*
 * targets_events.c - reacts to reports of one target that concern all: whether it
 * is tried again, what it may lack, and when kprofd ends.
 */
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/nodes/targets_internal.h"

/* ---- the end ---- */

void
targets_end(struct targets *ts, int status)
{
	if (ts->over)
		return;
	ts->over = true;
	daemon_on_over(ts->p->daemon, status);
}

/* True: every target has ended; sets the exit status. */
static bool
all_over(const struct targets *ts, bool *failed, int *status)
{
	unsigned nfailed = 0, kept_out = 0;

	for (unsigned i = 0; i < ts->n; i++) {
		if (!ts->v[i]->in_set.over)
			return false;
		nfailed += ts->v[i]->in_set.failed;
		kept_out += ts->v[i]->in_set.failed &&
		    ts->v[i]->in_set.failure == AGENT_KEPT_OUT;
	}
	*failed = nfailed == ts->n;
	*status = nfailed == 0 ? 0 : kept_out == ts->n ? EXIT_KEPT_OUT : 1;
	return true;
}

/* True: the cluster may still show other nodes. */
static bool
is_searching(const struct targets *ts)
{
	const struct target *seed;

	if (ts->p->o->seed == NULL || ts->cluster.failed)
		return false;
	seed = targets_find(ts, ts->p->o->seed);
	/* A seed that cannot be reached as a target cannot be asked either. */
	if (seed != NULL && seed->in_set.unreached)
		return false;
	return ts->cluster.answered == 0;
}

/* At the start: true if no target can be attached to. */
static bool
none_attachable(const struct targets *ts)
{
	if (ts->armed_ever || ts->waits || ts->n == 0 || is_searching(ts))
		return false;
	for (unsigned i = 0; i < ts->n; i++)
		if (!ts->v[i]->in_set.tried && !ts->v[i]->in_set.over)
			return false;
	return true;
}

static void
check_over(struct targets *ts)
{
	bool failed;
	int status;

	if (ts->starting || ts->over || (ts->n == 0 && !ts->stopping))
		return;
	if (all_over(ts, &failed, &status)) {
		/* A check that was interrupted has shown nothing. */
		if (ts->stopping)
			targets_end(ts, ts->p->o->check);
		else if (!is_searching(ts) && ((failed && !ts->waits) ||
		    ts->p->o->check))
			targets_end(ts, status);
	} else if (!ts->stopping && none_attachable(ts)) {
		log_error("failed", NULL, "none of the %u targets can be "
		    "attached to", ts->n);
		targets_end(ts, 1);
	}
}

/* ---- functions that a target lacks ---- */

static enum agent_verdict
judge(const struct targets *ts, const struct target *t)
{
	const struct unresolved *others[TARGETS_MAX];
	const struct target *u;
	bool pending = is_searching(ts);
	size_t n = 0;

	if (t->in_set.unresolved.n == 0 && !t->in_set.unresolved.more)
		return AGENT_GO_ON;
	for (unsigned i = 0; i < ts->n; i++) {
		u = ts->v[i];
		if (u == t)
			continue;
		others[n++] = &u->in_set.unresolved;
		pending |= !u->in_set.unresolved.known && !u->in_set.tried &&
		    !u->in_set.over;
	}
	if (unresolved_elsewhere(&t->in_set.unresolved, others, n))
		return AGENT_GO_ON;
	return pending || ts->starting ? AGENT_WAIT : AGENT_REFUSE;
}

void
targets_settle(struct targets *ts)
{
	enum agent_verdict v;
	struct target *t;

	for (unsigned i = 0; i < ts->n; i++) {
		t = ts->v[i];
		if (!t->in_set.awaits_verdict)
			continue;
		v = judge(ts, t);
		if (v == AGENT_WAIT)
			continue;
		t->in_set.awaits_verdict = false;
		agent_judge(t->agent, v);
	}
	check_over(ts);
}

enum agent_verdict
targets_on_missing(struct target *t, const struct kp_diags *diags)
{
	struct targets *ts = t->set;
	enum agent_verdict v;

	unresolved_set(&t->in_set.unresolved, diags);
	v = judge(ts, t);
	t->in_set.awaits_verdict = v == AGENT_WAIT;
	/* Later, since its own agent is in the middle of a step. */
	event_active(ts->sweep, EV_TIMEOUT, 0);
	return v;
}

/* ---- reports of one target ---- */

bool
targets_on_unreached(struct target *t)
{
	struct targets *ts = t->set;

	t->in_set.tried = t->in_set.unreached = true;
	t->in_set.awaits_verdict = false;
	event_active(ts->sweep, EV_TIMEOUT, 0);
	return ts->starting || !none_attachable(ts);
}

void
targets_on_failed(struct target *t, enum agent_failure f, const char *why)
{
	struct targets *ts = t->set;

	log_error("failed", t->node, "%s", why);
	t->in_set.over = t->in_set.failed = t->in_set.tried = true;
	t->in_set.awaits_verdict = false;
	t->in_set.failure = f;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

void
targets_on_stopped(struct target *t)
{
	struct targets *ts = t->set;

	t->in_set.over = true;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

void
targets_on_state(struct target *t, enum agent_state s)
{
	struct targets *ts = t->set;

	ts->armed_ever |= s == AGENT_ARMED;
	/* It can be reached after all: the attempt has not ended. */
	if (s == AGENT_CHECKING)
		t->in_set.tried = false;
}
