/*
 * targets.c - adds targets that the command line, the target file or the cluster asks
 * for, and removes those that none of them asks for any more; decides what concerns
 * all: whether one is tried again, what it may lack, and when kprofd ends.
 *
 * Callbacks of one target may come while a loop goes through all of them, so
 * targets are removed in one place only, sweep_one(), which the event loop
 * calls by way of on_sweep().
 *
 * In a cluster every attached target is asked once a second for the nodes that it
 * sees, so no single node is needed.  The seed has a connection of its own only while
 * it is not a target itself.  nodes(visible) leaves hidden nodes out, so kprofd never
 * finds itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "conn/discovery.h"
#include "daemon/check/check.h"
#include "daemon/control/in_flight.h"
#include "daemon/control/traces.h"
#include "daemon/log.h"
#include "daemon/nodes/node_run.h"
#include "daemon/nodes/slices.h"
#include "daemon/nodes/targets.h"
#include "kprofd/etf.h"

#define TICK_S 1
#define AGAIN_TICKS 60	/* with -wait what failed is tried again */
#define NODES_MAX 5000		/* read of one answer */
#define AWAY (3 * KP_NS_PER_S)	/* the cluster is asked every second */
#define CONNECT_LIMIT (7 * KP_NS_PER_S)

/* What asks for a target. */
#define BY_NAME 0x1u
#define BY_FILE 0x2u
#define BY_CLUSTER 0x4u

struct targets {
	struct event_base *base;
	const struct parts *p;
	struct target *v[TARGETS_MAX];
	unsigned n;
	struct label_epochs labels;
	struct node_runs *runs;
	struct {			/* with -seed */
		struct discovery *seed;	/* NULL: it is a target, or not
					   needed */
		kp_mono_ns answered;	/* last, by any node; 0: never */
		bool failed;		/* the seed, since then */
	} cluster;
	struct event *tick, *sweep;
	struct slices *slices;
	size_t more_file, more_cluster;	/* for which there is no room */
	bool starting, stopping, frozen, paused;
	bool armed_ever;		/* any of them */
	bool waits;			/* none at the start: waits for some */
	bool over;			/* daemon_on_over() was called */
	bool seed_lost;			/* that was logged */
	bool no_room;			/* that was logged, since it is full */
	bool ready;			/* systemd was notified */
	unsigned ticks;
};

/* ---- the set ---- */

unsigned
targets_count(const struct targets *ts)
{
	return ts->n;
}

struct target *
targets_at(const struct targets *ts, unsigned i)
{
	return ts->v[i];
}

bool
targets_several(const struct targets *ts)
{
	return ts->n > 1 || ts->p->o->seed != NULL ||
	    ts->p->o->target_file != NULL;
}

unsigned
targets_armed(const struct targets *ts)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ts->n; i++)
		n += agent_state(ts->v[i]->agent) == AGENT_ARMED;
	return n;
}

size_t
targets_more(const struct targets *ts)
{
	return ts->more_file + ts->more_cluster;
}

/* Is it no end that none is profiled? */
static bool
waits(const struct targets *ts)
{
	return ts->waits || ts->p->o->wait;
}

bool
targets_began(const struct targets *ts)
{
	return ts->armed_ever || ts->waits;
}

bool
targets_reached(const struct targets *ts)
{
	const struct target *t;
	bool reached = targets_began(ts);

	for (unsigned i = 0; i < ts->n && !reached; i++) {
		t = ts->v[i];
		log_error("failed", t->node, "'%s' was not reached in that "
		    "time: %s%s%s", t->node,
		    agent_state_name(agent_state(t->agent)),
		    t->state_text[0] != '\0' ? ": " : "", t->state_text);
	}
	return reached;
}

void
targets_pause_new(struct targets *ts, bool paused)
{
	ts->paused = paused;
}

void
targets_record(struct targets *ts, const char *kind, const char *text)
{
	struct kp_happening h = { .at = kp_wall_now(), .node = "",
		.kind = kind };

	if (ts->n == 1 && !targets_several(ts)) {
		target_record(ts->v[0], kind, text);
		return;
	}
	snprintf(h.text, sizeof(h.text), "%s", text);
	if (ts->p->store != NULL)
		kp_store_happening(ts->p->store, &h);
}

const char *
targets_node_name(const struct target *t)
{
	return targets_several(t->p->targets) ? t->node : NULL;
}

/* NULL: no target has that name. */
static struct target *
targets_find(const struct targets *ts, const char *name)
{
	for (unsigned i = 0; i < ts->n; i++)
		if (target_is(ts->v[i], name))
			return ts->v[i];
	return NULL;
}

/* ---- the end ---- */

/* Ends kprofd with this exit status. */
static void
end(struct targets *ts, int status)
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
		    ts->v[i]->in_set.end == AGENT_KEPT_OUT;
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
	if (ts->armed_ever || waits(ts) || ts->n == 0 || is_searching(ts))
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
			end(ts, ts->p->o->check);
		else if (!is_searching(ts) && ((failed && !waits(ts)) ||
		    ts->p->o->check))
			end(ts, status);
	} else if (!ts->stopping && none_attachable(ts)) {
		log_error("failed", NULL, "none of the %u targets can be "
		    "attached to", ts->n);
		end(ts, 1);
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

/* After a change: decides for targets that wait for others, and ends if due. */
static void
settle(struct targets *ts)
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
	struct targets *ts = t->p->targets;
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
	struct targets *ts = t->p->targets;

	t->in_set.tried = t->in_set.unreached = true;
	t->in_set.awaits_verdict = false;
	event_active(ts->sweep, EV_TIMEOUT, 0);
	return ts->starting || !none_attachable(ts);
}

void
targets_on_ended(struct target *t, enum agent_end end, const char *why)
{
	struct targets *ts = t->p->targets;

	t->in_set.over = true;
	if (end != AGENT_STOPPED) {
		log_error("failed", t->node, "%s", why);
		t->in_set.failed = t->in_set.tried = true;
		t->in_set.awaits_verdict = false;
		t->in_set.end = end;
	}
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

void
targets_on_state(struct target *t, enum agent_state s)
{
	struct targets *ts = t->p->targets;

	ts->armed_ever |= s == AGENT_ARMED;
	slices_on_state(ts->slices, t);
	/* It can be reached after all: the attempt has not ended. */
	if (s == AGENT_CHECKING)
		t->in_set.tried = false;
}

/* ---- adding and removing ---- */

/* It may be the kprofd of this directory that is attached. */
static const char *
occupied_hint(const struct options *o)
{
	struct stat st;

	if (!o->check)
		return NULL;
	return stat(DB_NAME ".sock", &st) == 0 && S_ISSOCK(st.st_mode) ?
	    "-check -control " DB_NAME ".sock asks it" :
	    "-check -control SOCKET asks it";
}

/* Asks for a target.  False: there is no room or no memory. */
static bool
add(struct targets *ts, const char *name, unsigned source)
{
	const struct options *o = ts->p->o;
	struct agent_opts ao = { .target = name, .reach = &o->reach,
		.cookie = ts->p->cookie, .conf = ts->p->conf.conf,
		.conf_path = ts->p->conf.path,
		.labels = &ts->labels, .check_only = o->check,
		.check_time = o->duration,
		.shape = !o->explain ? KP_SHAPE_NONE : o->values ?
		    KP_SHAPE_VALUES : KP_SHAPE_TYPES,
		.probe = o->probe,
		.probe_library = o->probe_library,
		.probe_send = o->probe_send ? o->library_path : NULL,
		.connect_limit = CONNECT_LIMIT, .occupied_hint = occupied_hint(o) };
	struct target *t = targets_find(ts, name);

	if (t != NULL) {
		target_retype(t, name, true);
		t->in_set.sources |= source;
		return true;
	}
	if (ts->n == TARGETS_MAX)
		return false;
	t = target_new(ts->base, &ao, ts->p);
	if (t == NULL) {
		log_error("failed", name, "out of memory");
		return false;
	}
	t->in_set.sources = source;
	t->in_set.seen = kp_mono_now();
	ts->v[ts->n++] = t;
	if (ts->paused)
		agent_pause(t->agent);
	agent_start(t->agent);
	return true;
}

/* The same while kprofd runs, logged with the reason if it is new. */
static bool
join(struct targets *ts, const char *name, unsigned source, const char *why)
{
	struct target *t = targets_find(ts, name);
	bool is_new = t == NULL;

	if (!add(ts, name, source))
		return false;
	if (is_new && (t = targets_find(ts, name)) != NULL) {
		log_info("added", name, "'%s' is a target now: %s", name, why);
		target_record(t, "added", why);
	}
	return true;
}

/* Stops asking for it.  Its agent ends before it is removed. */
static void
leave(struct targets *ts, struct target *t, unsigned source, const char *why)
{
	t->in_set.sources &= ~source;
	if (t->in_set.sources != 0)
		return;
	log_info("removed", t->node, "'%s' is no longer a target: %s", t->node,
	    why);
	target_record(t, "removed", why);
	if (!t->in_set.over)
		agent_stop(t->agent);
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

static void
report_no_room(struct targets *ts, size_t more)
{
	char text[200];

	snprintf(text, sizeof(text), "%zu more nodes are wanted: no more than "
	    "%d are profiled by one kprofd", more, TARGETS_MAX);
	log_warn("too_many", NULL, "%s", text);
	targets_record(ts, "too_many", text);
}

/* ---- the nodes of a cluster ---- */

static bool
matches(const struct targets *ts, const char *typed)
{
	char name[KP_NODE_NAME_MAX + 1];

	kp_node_bare(typed, name);
	for (unsigned i = 0; i < ts->p->o->nmatches; i++)
		if (kp_glob(ts->p->o->matches[i], name))
			return true;
	return false;
}

/* A node that was away has been restarted, perhaps with what it lacked. */
static void
seen(struct target *t)
{
	kp_mono_ns now = kp_mono_now();

	if (now - t->in_set.seen > AWAY)
		t->in_set.failed = false;
	t->in_set.seen = now;
}

/*
 * Takes a node that matches.  False: there is no room.  No node knows the port of
 * another one, so the seed keeps the port that was typed.
 */
static bool
take_node(struct targets *ts, const char *name)
{
	struct target *t = targets_find(ts, name);
	const char *seed = ts->p->o->seed;

	if (t != NULL)
		seen(t);
	if (ts->frozen || ts->stopping || ts->over)
		return true;		/* the cluster is asked again in a second */
	/* One that is being removed is added again when it has ended. */
	return join(ts, kp_node_same(name, seed) ? seed : name,
	    BY_CLUSTER, "it is in the cluster");
}

/* False: it matches, but there is no room. */
static bool
take_atom(struct targets *ts, struct kp_span atom)
{
	char name[KP_NODE_NAME_MAX + 1];

	if (!kp_node_name_ok((const char *)atom.p, atom.n))
		return true;
	memcpy(name, atom.p, atom.n);
	name[atom.n] = '\0';
	return !matches(ts, name) || take_node(ts, name);
}

/* list: of atoms.  more: nodes that had no room already. */
static void
take_answer(struct targets *ts, const struct kp_term *list, size_t more)
{
	struct kp_term r = *list;
	uint32_t n = kp_term_list(&r);
	struct kp_span atom;

	for (uint32_t i = 0; i < n && i < NODES_MAX; i++) {
		atom = kp_term_atom(&r);
		if (r.err != KP_OK)
			break;
		more += !take_atom(ts, atom);
	}
	if (r.err != KP_OK)
		return;
	ts->cluster.answered = kp_mono_now();
	ts->cluster.failed = false;
	ts->seed_lost = false;
	/* Nodes see different parts of the cluster, so the number changes. */
	if (more > 0 && !ts->no_room)
		report_no_room(ts, more);
	ts->no_room |= more > 0;
	ts->more_cluster = more;
	/* Without targets there is nothing to wait for: kprofd is ready. */
	if (ts->n == 0 && !ts->ready) {
		ts->waits = true;
		notify_ready();
	}
	ts->ready = true;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

/* A list of atoms, the node's own name first. */
static void
on_nodes(void *ctx, uint64_t number, struct kp_term *list)
{
	struct target *t = ctx;

	(void)number;
	if (list != NULL && !t->p->targets->stopping)
		take_answer(t->p->targets, list, 0);
}

/* Every second; a node that does not answer for long is lost. */
static void
ask_nodes(struct target *t)
{
	struct kp_buf b;

	agent_ask_begin(t->agent, &b);
	kp_etf_atom(&b, "nodes");
	agent_ask(t->agent, &b, on_nodes, t, AGENT_ANSWER_S);
}

/* ---- the seed, where it is not a target ---- */

static void
on_seed_nodes(void *ctx, const struct kp_term *list)
{
	struct targets *ts = ctx;
	char seed[KP_NODE_NAME_MAX + 1];

	kp_node_bare(ts->p->o->seed, seed);
	take_answer(ts, list, !take_atom(ts, (struct kp_span){
	    (const uint8_t *)seed, (uint32_t)strlen(seed) }));
}

static void
on_seed_lost(void *ctx, const char *why)
{
	struct targets *ts = ctx;

	ts->cluster.failed = true;
	/* Only at the start; a seed that has answered once is asked again. */
	if (ts->n == 0 && !ts->armed_ever && ts->cluster.answered == 0 &&
	    !waits(ts)) {
		log_error("failed", ts->p->o->seed, "%s", why);
		end(ts, 1);
		return;
	}
	if (!ts->seed_lost)
		log_warn("cluster", ts->p->o->seed, "the seed cannot be asked "
		    "for the nodes of its cluster: %s; trying again", why);
	ts->seed_lost = true;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

static const struct discovery_ops discovery_ops = { on_seed_nodes,
	on_seed_lost };

/* Opens or closes the connection to the seed; not to be called by the above. */
static void
ask_seed(struct targets *ts, bool wanted)
{
	const struct node_opts o = { .target = ts->p->o->seed,
		.reach = &ts->p->o->reach, .cookie = ts->p->cookie,
		.limit = CONNECT_LIMIT };

	if (wanted && ts->cluster.seed == NULL) {
		ts->cluster.seed = discovery_new(ts->base, &o, &discovery_ops,
		    ts);
	} else if (!wanted && ts->cluster.seed != NULL) {
		discovery_free(ts->cluster.seed);
		ts->cluster.seed = NULL;
		ts->cluster.failed = false;
	}
}

/* A seed that is a target is asked on the target's connection. */
static bool
must_ask_seed(const struct targets *ts)
{
	const struct target *seed = targets_find(ts, ts->p->o->seed);

	return !ts->over && !ts->stopping && (seed == NULL ||
	    seed->in_set.over) && (!ts->p->o->check ||
	    ts->cluster.answered == 0);
}

/* ---- start, and every second ---- */

static void
cluster_start(struct targets *ts)
{
	const struct options *o = ts->p->o;

	/* The seed counts as named: it is never forgotten. */
	if (o->check || !matches(ts, o->seed))
		ask_seed(ts, true);
	else if (!add(ts, o->seed, BY_NAME))
		report_no_room(ts, 1);
}

/* Removes nodes that no attached node has seen for -forget. */
static void
forget(struct targets *ts)
{
	struct target *t;

	for (unsigned i = 0; i < ts->n; i++) {
		t = ts->v[i];
		if ((t->in_set.sources & BY_CLUSTER) != 0 &&
		    ts->cluster.answered - t->in_set.seen > ts->p->o->forget)
			leave(ts, t, BY_CLUSTER,
			    "it has left the cluster");
	}
}

static void
cluster_tick(struct targets *ts)
{
	if (!ts->frozen && !ts->stopping)
		forget(ts);
	for (unsigned i = 0; i < ts->n; i++)
		ask_nodes(ts->v[i]);
	ask_seed(ts, must_ask_seed(ts));
	if (ts->p->o->check && ts->n == 0 && !ts->over &&
	    ts->cluster.answered != 0) {
		log_error("failed", ts->p->o->seed, "no node that is visible in "
		    "the cluster of '%s' matches", ts->p->o->seed);
		end(ts, 1);
	}
}

/* ---- removing ---- */

/*
 * If it was asked for again meanwhile, it is added again.  Windows that wait for
 * the store borrow only its name, which stays (node_run.c).
 */
static void
sweep_one(struct targets *ts, unsigned i)
{
	struct target *t = ts->v[i];

	node_run_leave(&t->run, KP_LOSS_DISCONNECTED);
	target_rotate(t, kp_moment_now());
	checks_left(t);
	if (t->p->flights != NULL)
		flight_asks_gone(t->p->flights, t);
	if (t->p->traces != NULL)
		traces_gone(t->p->traces, t);
	ts->v[i] = ts->v[--ts->n];
	if (t->in_set.sources != 0)
		add(ts, t->opts.target, t->in_set.sources);
	target_free(t);
}

/* Removes targets that ended, unless they failed and are still asked for. */
static void
on_sweep(evutil_socket_t fd, short what, void *ctx)
{
	struct targets *ts = ctx;
	struct target *t;
	bool stays;

	(void)fd, (void)what;
	ts->no_room &= ts->n == TARGETS_MAX;
	/* A check counts how all ended. */
	stays = ts->stopping || ts->frozen || ts->p->o->check;
	for (unsigned i = 0; i < ts->n && !stays; i++) {
		t = ts->v[i];
		if (t->in_set.over &&
		    (!t->in_set.failed || t->in_set.sources == 0))
			sweep_one(ts, i--);
	}
	settle(ts);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct targets *ts = ctx;

	(void)fd, (void)what;
	if (ts->p->o->seed != NULL)
		cluster_tick(ts);
	if (!ts->p->o->check && !ts->stopping)
		daemon_on_tick(ts->p->daemon);
	if (ts->p->o->wait && ++ts->ticks % AGAIN_TICKS == 0)
		targets_again(ts, NULL);
	on_sweep(-1, 0, ts);
}

/* ---- the file ---- */

struct targets_change
targets_file_apply(struct targets *ts, const struct kp_node_list *list)
{
	struct targets_change n = { 0 };
	size_t more = list->more;
	struct target *t;
	bool is_new;

	for (unsigned i = 0; i < ts->n; i++) {
		t = ts->v[i];
		if ((t->in_set.sources & BY_FILE) == 0 ||
		    kp_node_list_find(list, t->opts.target) != NULL ||
		    kp_node_list_find(list, t->node) != NULL)
			continue;
		leave(ts, t, BY_FILE, "it is not in the file any more");
		n.removed += t->in_set.sources == 0;
	}
	for (size_t i = 0; i < list->n; i++) {
		t = targets_find(ts, list->v[i]);
		is_new = t == NULL;
		/* The port is the file's; if it has none, that of -target. */
		if (t != NULL)
			n.moved += target_retype(t, list->v[i],
			    (t->in_set.sources & BY_NAME) != 0);
		if (join(ts, list->v[i], BY_FILE, "it is in the file"))
			n.added += is_new;
		else
			more++;
	}
	if (more > 0 && ts->more_file == 0)
		report_no_room(ts, more);
	ts->more_file = more;
	return n;
}

/* ---- beginning and end ---- */

void
targets_freeze(struct targets *ts, bool frozen)
{
	ts->frozen = frozen;
	if (!frozen)
		event_active(ts->sweep, EV_TIMEOUT, 0);
}

unsigned
targets_again(struct targets *ts, const char *globs)
{
	struct target *t;
	unsigned n = 0;

	for (unsigned i = 0; i < ts->n; i++) {
		t = ts->v[i];
		if (!t->in_set.failed || (globs != NULL ? !kp_globs(globs, t->node) :
		    t->in_set.end != AGENT_FAILED))
			continue;
		t->in_set.failed = false;
		n++;
	}
	event_active(ts->sweep, EV_TIMEOUT, 0);
	return n;
}

struct node_runs *
targets_runs(const struct targets *ts)
{
	return ts->runs;
}

struct slices *
targets_slices(const struct targets *ts)
{
	return ts->slices;
}

void
targets_drain(struct targets *ts)
{
	const struct kp_moment now = kp_moment_now();

	for (unsigned i = 0; i < ts->n; i++)
		kp_requests_abandon(ts->v[i]->run.conf_run->rs,
		    ts->v[i]->run.slot, KP_LOSS_RUNNING);
	for (unsigned i = 0; i < ts->n; i++)
		target_rotate(ts->v[i], now);
}

void
targets_stop(struct targets *ts)
{
	ts->stopping = true;
	for (unsigned i = 0; i < ts->n; i++)
		if (!ts->v[i]->in_set.over)
			agent_stop(ts->v[i]->agent);
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

bool
targets_stopping(const struct targets *ts)
{
	return ts->stopping;
}

static bool
start_named(struct targets *ts)
{
	const struct options *o = ts->p->o;
	struct kp_node_list list;
	char why[512];
	bool ok = true;

	if (!targets_file_read(o->target_file, &list, why, sizeof(why))) {
		log_error("start", NULL, "%s", why);
		return false;
	}
	if (list.n == 0 && o->ntargets == 0 && o->seed == NULL) {
		log_error("start", NULL, "'%s' names no node", o->target_file);
		return false;
	}
	for (unsigned i = 0; i < o->ntargets && ok; i++)
		ok = add(ts, o->targets[i], BY_NAME);
	for (size_t i = 0; i < list.n && ok; i++)
		list.more += !add(ts, list.v[i], BY_FILE);
	if (list.more > 0)
		report_no_room(ts, list.more);
	ts->more_file = list.more;
	kp_node_list_free(&list);
	return ok;
}

bool
targets_start(struct targets *ts)
{
	const struct timeval every = { TICK_S, 0 };
	bool ok;

	ts->starting = true;
	ok = start_named(ts);
	if (ok && ts->p->o->seed != NULL)
		cluster_start(ts);
	ts->starting = false;
	if (ok && ts->p->o->wait)
		notify_ready();
	event_add(ts->tick, &every);
	event_active(ts->sweep, EV_TIMEOUT, 0);
	return ok;
}

struct targets *
targets_new(struct event_base *base, const struct parts *p)
{
	struct targets *ts = calloc(1, sizeof(*ts));
	uint64_t seed = 0;

	if (ts == NULL)
		return NULL;
	ts->base = base;
	ts->p = p;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint64_t)kp_wall_now();
	label_epochs_init(&ts->labels, seed, kp_wall_now(), kp_mono_now());
	ts->tick = event_new(base, -1, EV_PERSIST, on_tick, ts);
	ts->sweep = event_new(base, -1, 0, on_sweep, ts);
	ts->runs = node_runs_new(p->store, p->conf.conf);
	ts->slices = slices_new(base, ts, p->o->interval);
	if (ts->tick == NULL || ts->sweep == NULL || ts->runs == NULL ||
	    ts->slices == NULL) {
		targets_free(ts);
		return NULL;
	}
	return ts;
}

void
targets_free(struct targets *ts)
{
	if (ts == NULL)
		return;
	for (unsigned i = 0; i < ts->n; i++)
		target_free(ts->v[i]);
	slices_free(ts->slices);
	node_runs_free(ts->runs);
	discovery_free(ts->cluster.seed);
	if (ts->tick != NULL)
		event_free(ts->tick);
	if (ts->sweep != NULL)
		event_free(ts->sweep);
	free(ts);
}
