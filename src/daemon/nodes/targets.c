/*
 * targets.c - adds targets that the command line, the target file or the cluster
 * asks for, and removes those that none of them asks for any more.
 *
 * Callbacks of one target may come while a loop goes through all of them, so
 * targets are removed in one place only, sweep_one(), which the event loop
 * calls by way of on_sweep().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "daemon/check/check_answer.h"
#include "daemon/control/flight_stacks.h"
#include "daemon/log.h"
#include "daemon/nodes/target_events.h"
#include "daemon/nodes/targets_internal.h"
#include "text/file_why.h"

#define TICK_S 1

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

bool
targets_add(struct targets *ts, const char *name, unsigned source)
{
	const struct options *o = ts->p->o;
	struct agent_opts ao = { .target = name, .reach = &o->reach,
		.cookie = ts->p->cookie, .conf = ts->p->conf.conf,
		.conf_path = ts->p->conf.path,
		.labels = &ts->labels, .check_only = o->check,
		.check_time = o->duration,
		.shape = !o->explain ? KP_SHAPE_NONE : o->values ?
		    KP_SHAPE_VALUES : KP_SHAPE_TYPES,
		.nodes = o->seed != NULL, .probe = o->probe,
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
	t = target_new(ts->base, &ao, ts->p, ts->assembly, ts);
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

bool
targets_join(struct targets *ts, const char *name, unsigned source, const char *why)
{
	struct target *t = targets_find(ts, name);
	bool is_new = t == NULL;

	if (!targets_add(ts, name, source))
		return false;
	if (is_new && (t = targets_find(ts, name)) != NULL) {
		log_info("added", name, "'%s' is a target now: %s", name, why);
		target_record(t, "added", why);
	}
	return true;
}

void
targets_leave(struct targets *ts, struct target *t, unsigned source, const char *why)
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

/*
 * If it was asked for again meanwhile, it is added again.  Windows that wait for
 * the store borrow only its name, which stays (assembly.c).
 */
static void
sweep_one(struct targets *ts, unsigned i)
{
	struct target *t = ts->v[i];

	assembly_part_leave(&t->part, KP_LOSS_DISCONNECTED);
	target_rotate(t, kp_moment_now());
	check_answer_left(t);
	if (t->p->flights != NULL)
		flight_asks_gone(t->p->flights, t);
	ts->v[i] = ts->v[--ts->n];
	if (t->in_set.sources != 0)
		targets_add(ts, t->opts.target, t->in_set.sources);
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
	targets_settle(ts);
}

void
targets_report_no_room(struct targets *ts, size_t more)
{
	char text[200];

	snprintf(text, sizeof(text), "%zu more nodes are wanted: no more than "
	    "%d are profiled by one kprofd", more, TARGETS_MAX);
	log_warn("too_many", NULL, "%s", text);
	targets_record(ts, "too_many", text);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct targets *ts = ctx;

	(void)fd, (void)what;
	if (ts->p->o->seed != NULL)
		targets_cluster_tick(ts);
	if (!ts->p->o->check && !ts->stopping)
		daemon_on_tick(ts->p->daemon);
	on_sweep(-1, 0, ts);
}

/* ---- the file ---- */

static char *
read_text(const char *path, size_t *n, char *why, size_t whylen)
{
	char reason[FILE_WHY_MAX];
	FILE *f = fopen(path, "re");
	char *p = f != NULL ? malloc(KP_NODE_FILE_MAX + 1) : NULL;
	bool ok = false;

	if (p != NULL) {
		*n = fread(p, 1, KP_NODE_FILE_MAX + 1, f);
		ok = !ferror(f);
	}
	if (!ok)
		snprintf(why, whylen, "cannot read '%s': %s (see -target-file)",
		    path, file_why(reason, path, errno));
	if (f != NULL)
		fclose(f);
	if (ok)
		return p;
	free(p);
	return NULL;
}

const char *
targets_file(const struct targets *ts)
{
	return ts->p->o->target_file;
}

bool
targets_file_read(const struct targets *ts, struct kp_node_list *list,
    char *why, size_t n)
{
	const char *path = ts->p->o->target_file, *wrong;
	uint32_t line;
	enum kp_err e;
	size_t len;
	char *text;

	*list = (struct kp_node_list){ 0 };
	if (path == NULL)
		return true;
	text = read_text(path, &len, why, n);
	if (text == NULL)
		return false;
	e = kp_node_list_parse(list, text, len, TARGETS_MAX, &line, &wrong);
	if (e == KP_EFORMAT)
		snprintf(why, n, "'%s', line %u: %s", path, line, wrong);
	else if (e == KP_ELIMIT)
		snprintf(why, n, "'%s' is larger than %u bytes: it cannot be "
		    "a list of nodes", path, KP_NODE_FILE_MAX);
	else if (e != KP_OK)
		snprintf(why, n, "cannot read '%s': %s", path, kp_err_str(e));
	free(text);
	return e == KP_OK;
}

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
		targets_leave(ts, t, BY_FILE, "it is not in the file any more");
		n.removed += t->in_set.sources == 0;
	}
	for (size_t i = 0; i < list->n; i++) {
		t = targets_find(ts, list->v[i]);
		is_new = t == NULL;
		/* The port is the file's; if it has none, that of -target. */
		if (t != NULL)
			n.moved += target_retype(t, list->v[i],
			    (t->in_set.sources & BY_NAME) != 0);
		if (targets_join(ts, list->v[i], BY_FILE, "it is in the file"))
			n.added += is_new;
		else
			more++;
	}
	if (more > 0 && ts->more_file == 0)
		targets_report_no_room(ts, more);
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

/* A node that keeps kprofd out does so whatever tiers.conf says. */
void
targets_again(struct targets *ts)
{
	for (unsigned i = 0; i < ts->n; i++)
		if (ts->v[i]->in_set.failed &&
		    ts->v[i]->in_set.failure == AGENT_FAILED)
			ts->v[i]->in_set.failed = false;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

enum kp_err
targets_prepare(struct targets *ts, const struct kp_conf *conf)
{
	return assembly_prepare(ts->assembly, conf);
}

void
targets_discard(struct targets *ts)
{
	assembly_discard(ts->assembly);
}

struct kp_requests *
targets_switch(struct targets *ts)
{
	return assembly_switch(ts->assembly);
}

void
targets_rotate(struct targets *ts, struct kp_moment at)
{
	for (unsigned i = 0; i < ts->n; i++)
		target_rotate(ts->v[i], at);
}

void
targets_drain(struct targets *ts)
{
	for (unsigned i = 0; i < ts->n; i++)
		kp_requests_abandon(ts->v[i]->part.in->rs,
		    ts->v[i]->part.index, KP_LOSS_RUNNING);
	targets_rotate(ts, kp_moment_now());
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

	if (!targets_file_read(ts, &list, why, sizeof(why))) {
		log_error("start", NULL, "%s", why);
		return false;
	}
	if (list.n == 0 && o->ntargets == 0 && o->seed == NULL) {
		log_error("start", NULL, "'%s' names no node", o->target_file);
		return false;
	}
	for (unsigned i = 0; i < o->ntargets && ok; i++)
		ok = targets_add(ts, o->targets[i], BY_NAME);
	for (size_t i = 0; i < list.n && ok; i++)
		list.more += !targets_add(ts, list.v[i], BY_FILE);
	if (list.more > 0)
		targets_report_no_room(ts, list.more);
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
		targets_cluster_start(ts);
	ts->starting = false;
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
	ts->assembly = assembly_new(p->store, p->conf.conf);
	if (ts->tick == NULL || ts->sweep == NULL || ts->assembly == NULL) {
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
	assembly_free(ts->assembly);
	discovery_free(ts->cluster.seed);
	if (ts->tick != NULL)
		event_free(ts->tick);
	if (ts->sweep != NULL)
		event_free(ts->sweep);
	free(ts);
}
