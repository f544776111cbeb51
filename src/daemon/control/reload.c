/*
 * reload.c - runs the rounds of a reload: reads the files, collects the verdict
 * of each target, decides, and applies them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/check/check.h"
#include "daemon/conf_file.h"
#include "daemon/log.h"
#include "daemon/control/in_flight.h"
#include "daemon/control/reload.h"
#include "daemon/nodes/node_run.h"
#include "export/totals.h"
#include "text/text.h"

#define MISTAKES_MAX (256u << 10)	/* bytes */

struct clients {
	uint64_t v[CONTROL_CLIENTS_MAX];
	unsigned n;
};

/* How a target finds tiers.conf. */
struct verdict {
	struct unresolved missing;	/* known: the target has checked it */
	struct kp_diags diags;		/* a copy */
	char why[600];			/* it refuses the file; "": it does not */
};

struct reload {
	struct parts *p;
	struct conf_file next;		/* read in this round */
	struct kp_node_list nodes;	/* the same, of the file of targets */
	struct kp_buf mistakes;		/* in next, for people */
	bool busy;			/* a round is running, */
	bool again;			/* and another follows */
	bool same;			/* next has the text of the one in force */
	bool stacks;			/* next has others */
	unsigned left;			/* targets that have to answer */
	unsigned away;			/* of those that have: not attached */
	struct verdict verdicts[TARGETS_MAX];	/* as targets_at() */
	struct kp_plan_change n;	/* of all targets */
	struct clients now, later;	/* of this round, of the next */
};

static const char ending[] = "kprofd is ending";

static void reload_start(struct reload *r);

/* ---- one round ---- */

/* The node's name, where there is one target; else NULL. */
static const char *
only_target(const struct reload *r)
{
	return targets_several(r->p->targets) ||
	    targets_count(r->p->targets) != 1 ? NULL :
	    targets_at(r->p->targets, 0)->node;
}

static void
forget_verdicts(struct reload *r)
{
	for (unsigned i = 0; i < TARGETS_MAX; i++) {
		kp_diags_free(&r->verdicts[i].diags);
		r->verdicts[i] = (struct verdict){ 0 };
	}
}

/* Apart from the round: tiers.conf may be good where the certificate is not. */
static void
renew_certificate(struct reload *r)
{
	char why[512];

	if (r->p->web == NULL || web_reload(r->p->web, why, sizeof(why)) == KP_OK)
		return;
	log_warn("http", NULL, "%s; the certificate before it stays", why);
	kp_buf_printf(&r->mistakes, "kprofd: %s; the certificate before it "
	    "stays\n", why);
}

/* text: one line for all clients; not ok: why nothing has changed. */
static void
round_end(struct reload *r, bool ok, const char *text)
{
	struct control_client *c;

	renew_certificate(r);
	for (unsigned i = 0; i < r->now.n; i++) {
		c = control_client_get(r->p->control, r->now.v[i]);
		if (c == NULL)
			continue;
		if (r->mistakes.len > 0)
			control_message(c, "note", (const char *)r->mistakes.p,
			    r->mistakes.len);
		control_answer(c, ok, text);
	}
	kp_buf_reset(&r->mistakes);
	kp_node_list_free(&r->nodes);
	forget_verdicts(r);
	r->now.n = 0;
	r->busy = false;
	targets_freeze(r->p->targets, false);
	if (r->again)
		reload_start(r);
}

/* path: the file that is refused; NULL: why names it. */
static void
refuse(struct reload *r, const char *path, const char *why)
{
	char text[900], line[256];

	if (path != NULL)
		snprintf(text, sizeof(text), "'%s' is refused: %s; nothing has "
		    "changed", path, why);
	else
		snprintf(text, sizeof(text), "%s; nothing has changed", why);
	log_warn("reload", only_target(r), "%s", text);
	/* an event has room for a line: the first mistake */
	snprintf(line, sizeof(line), "refused: %s", r->mistakes.len > 0 ?
	    kp_buf_cstr(&r->mistakes) : why);
	line[strcspn(line, "\n")] = '\0';
	targets_record(r->p->targets, "reload", line);
	conf_file_free(&r->next);
	round_end(r, false, text);
}

/* NULL: it is not one of the targets. */
static struct verdict *
verdict_of(struct reload *r, const struct target *t)
{
	for (unsigned i = 0; i < targets_count(r->p->targets); i++)
		if (targets_at(r->p->targets, i) == t)
			return &r->verdicts[i];
	return NULL;
}

/* ---- putting it in force ---- */

static void
free_requests(void *what)
{
	kp_requests_free(what);
}

static void
free_conf(void *what)
{
	conf_file_free(what);
	free(what);
}

/* Called when no target uses the old one any more. */
static void
put_in_force(struct reload *r)
{
	struct conf_file *old = malloc(sizeof(*old));
	struct unresolved *m;
	bool known;

	/*
	 * What each target does not have, by which later ones are judged.  One that
	 * is not attached is taken to have everything.
	 */
	for (unsigned i = 0; i < targets_count(r->p->targets); i++) {
		m = &targets_at(r->p->targets, i)->in_set.unresolved;
		known = m->known;
		*m = r->verdicts[i].missing;
		m->known |= known;
	}
	deferred_put(r->p->deferred, node_runs_switch(targets_runs(r->p->targets)),
	    free_requests);
	/* out of memory it is leaked: the store may still read it */
	if (old != NULL)
		*old = r->p->conf;
	r->p->conf = r->next;
	r->next = (struct conf_file){ 0 };
	kp_store_conf(r->p->store, r->p->conf.conf, r->p->conf.text);
	if (r->p->totals != NULL)
		totals_slo(r->p->totals, r->p->conf.conf->slo, r->p->conf.conf->nslo);
	if (old != NULL)
		deferred_put(r->p->deferred, old, free_conf);
}

/* Writes the changes on one line. */
static void
describe(const struct reload *r, struct kp_buf *b)
{
	unsigned count = targets_count(r->p->targets);
	const char *path = r->p->conf.path;
	const struct kp_plan_change *c = &r->n;
	const struct kp_conf *conf = r->p->conf.conf;
	char added[TEXT_MAX];

	if (count == 1 && r->away == count)
		kp_buf_printf(b, "not attached to the target just now "
		    "(kprof status): '%s' is checked and put in force there as "
		    "soon as it is", path);
	else if (r->same && c->added + c->removed + c->changed == 0)
		kp_buf_printf(b, "'%s' is as it was: nothing to change", path);
	else
		kp_buf_printf(b, "'%s' is in force: %s added, %zu removed, %zu "
		    "changed, %zu kept", path, text_counted(added, c->added,
		    "function"), c->removed, c->changed, c->kept);
	if (count > 1 && r->away > 0)
		kp_buf_printf(b, "; %u of %u targets are not attached just "
		    "now: in force there as soon as they are", r->away, count);
	/* functions do not show these */
	if (r->stacks && conf->stacks.per_second == 0)
		kp_buf_str(b, "; stacks are not sampled any more");
	else if (r->stacks)
		kp_buf_printf(b, "; stacks: %u a second, for at most %g %% of "
		    "a scheduler", conf->stacks.per_second,
		    conf->stacks.percent);
}

static void
finish(struct reload *r)
{
	bool changed = !r->same || r->n.added + r->n.changed + r->n.removed > 0;
	struct targets_change c;
	struct kp_buf b;

	if (!r->same)
		put_in_force(r);
	/* in force nowhere, or not for long */
	if (targets_stopping(r->p->targets)) {
		round_end(r, false, ending);
		return;
	}
	kp_buf_init(&b, MISTAKES_MAX);
	describe(r, &b);
	if (changed)
		targets_record(r->p->targets, "reload", kp_buf_cstr(&b));
	/* last, since the set of targets was frozen */
	targets_freeze(r->p->targets, false);
	c = targets_file_apply(r->p->targets, &r->nodes);
	if (!r->same)
		targets_again(r->p->targets, NULL);
	if (c.added + c.removed + c.moved > 0)
		kp_buf_printf(&b, "; targets: %u added, %u removed", c.added,
		    c.removed);
	if (c.moved > 0)
		kp_buf_printf(&b, ", %u at another port when next connected "
		    "to", c.moved);
	log_info("reload", only_target(r), "%s", kp_buf_cstr(&b));
	kp_buf_u8(&b, '\n');
	round_end(r, true, kp_buf_cstr(&b));
	kp_buf_free(&b);
}

void
reload_done(struct target *t, const struct agent_reloaded *how)
{
	struct reload *r = t->p->reload;

	if (verdict_of(r, t) == NULL || r->left == 0)
		return;
	r->away += how->how == AGENT_RELOAD_KEPT;
	r->n.added += how->n.added;
	r->n.removed += how->n.removed;
	r->n.changed += how->n.changed;
	r->n.kept += how->n.kept;
	if (!r->same) {
		if (t->p->flights != NULL)
			flight_asks_end(t->p->flights);
		target_switch(t);
	}
	if (--r->left == 0)
		finish(r);
}

/* ---- verdicts ---- */

static void
report_diags(struct reload *r, unsigned i)
{
	const struct kp_diags *d = &r->verdicts[i].diags;

	if (d->n > 0)
		conf_file_diags(r->same ? &r->p->conf : &r->next, d,
		    targets_node_name(targets_at(r->p->targets, i)),
		    &r->mistakes);
}

/*
 * What a target does not have has to be on one of the others.  False: the first
 * target that refuses it, and why.
 */
static bool
all_accept(struct reload *r, char *why, size_t n)
{
	const struct unresolved *all[TARGETS_MAX];
	unsigned count = targets_count(r->p->targets);
	const char *node;
	struct verdict *v;

	if (targets_stopping(r->p->targets)) {
		snprintf(why, n, "%s", ending);
		return false;
	}
	for (unsigned i = 0; i < count; i++)
		all[i] = &r->verdicts[i].missing;
	for (unsigned i = 0; i < count; i++) {
		v = &r->verdicts[i];
		if (v->why[0] == '\0' && (!v->missing.known ||
		    unresolved_elsewhere(&v->missing, all, count)))
			continue;
		node = targets_node_name(targets_at(r->p->targets, i));
		snprintf(why, n, "%s%s%s%s", node != NULL ? "'" : "",
		    node != NULL ? node : "", node != NULL ? "': " : "",
		    v->why[0] != '\0' ? v->why :
		    "it names what the target does not have");
		if (v->why[0] == '\0')
			report_diags(r, i);
		return false;
	}
	return true;
}

static void
decide(struct reload *r)
{
	unsigned count = targets_count(r->p->targets);
	char why[700];

	if (!all_accept(r, why, sizeof(why))) {
		for (unsigned i = 0; i < count; i++)
			agent_reload_cancel(targets_at(r->p->targets, i)->agent);
		if (!r->same)
			node_runs_discard(targets_runs(r->p->targets));
		refuse(r, r->p->conf.path, why);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		kp_diags_excuse(&r->verdicts[i].diags);
		report_diags(r, i);
	}
	r->left = count + 1;
	for (unsigned i = 0; i < count; i++)
		agent_reload_apply(targets_at(r->p->targets, i)->agent);
	if (--r->left == 0)
		finish(r);
}

static void
on_checked(struct target *t, const struct agent_checked *c)
{
	struct reload *r = t->p->reload;
	struct verdict *v = verdict_of(r, t);

	if (v == NULL || r->left == 0)
		return;
	switch (c->how) {
	case AGENT_CHECKED_AWAY:
		break;
	case AGENT_CHECKED_REFUSED:
		snprintf(v->why, sizeof(v->why), "%s", c->why);
		break;
	case AGENT_CHECKED_DONE:
		unresolved_set(&v->missing, c->diags);
		/* out of memory some are not shown; the verdict is the same */
		(void)kp_diags_copy(&v->diags, c->diags, "");
		break;
	}
	if (--r->left == 0)
		decide(r);
}

/* ---- reading ---- */

/* Why a file cannot be read again; NULL: it can.  A FIFO would block the loop. */
static const char *
read_once(const char *path)
{
	struct stat st;

	if (path == NULL)
		return NULL;
	if (strcmp(path, "-") == 0)
		return "standard input cannot be read a second time";
	/* of a directory the error of read(2) says more */
	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
	    !S_ISDIR(st.st_mode) ? "it is not a regular file: it cannot be "
	    "read a second time" : NULL;
}

/*
 * Returns why a file is refused, NULL if none is.  *path: that file; NULL: the
 * text names it.
 */
static const char *
read_files(struct reload *r, const char **path, char *text, size_t n)
{
	const char *targets = r->p->o->target_file, *why;

	*path = r->p->conf.path;
	if (targets_stopping(r->p->targets))
		return ending;
	if ((why = read_once(*path)) != NULL)
		return why;
	if ((why = read_once(targets)) != NULL) {
		*path = targets;
		return why;
	}
	if (!deferred_room(r->p->deferred, DEFERRED_RELOAD))
		return "the database takes nothing, and windows of earlier "
		    "reloads wait for it (kprof status)";
	if (conf_file_load(&r->next, *path, &r->mistakes) != KP_OK)
		return "it cannot be used";
	if (r->next.conf->messages && r->p->o->probe == AGENT_RELAY)
		return conf_file_messages;
	if (targets_file_read(targets, &r->nodes, text, n))
		return NULL;
	*path = NULL;
	return text;
}

static void
reload_start(struct reload *r)
{
	const struct conf_file *conf = &r->p->conf;
	const char *why, *path;
	char text[512];
	unsigned count;

	r->busy = true;
	r->again = false;
	r->now = r->later;
	r->later.n = 0;
	r->n = (struct kp_plan_change){ 0 };
	r->away = 0;
	why = read_files(r, &path, text, sizeof(text));
	if (why != NULL) {
		refuse(r, path, why);
		return;
	}
	targets_freeze(r->p->targets, true);
	r->same = r->next.len == conf->len &&
	    memcmp(r->next.text, conf->text, conf->len) == 0;
	r->stacks = !r->same && (r->next.conf->stacks.per_second !=
	    conf->conf->stacks.per_second || r->next.conf->stacks.percent <
	    conf->conf->stacks.percent || r->next.conf->stacks.percent >
	    conf->conf->stacks.percent);
	if (r->same) {
		conf_file_free(&r->next);
	} else if (node_runs_prepare(targets_runs(r->p->targets),
	    r->next.conf) != KP_OK) {
		refuse(r, conf->path, "out of memory");
		return;
	}
	count = targets_count(r->p->targets);
	r->left = count + 1;
	for (unsigned i = 0; i < count; i++)
		agent_reload(targets_at(r->p->targets, i)->agent, r->same ?
		    conf->conf : r->next.conf, on_checked);
	if (--r->left == 0)
		decide(r);
}

bool
reload_busy(const struct reload *r)
{
	return r->busy;
}

void
reload_ask(struct reload *r, struct control_client *c)
{
	static const char busy[] = "too many wait already";
	static const char checking[] = "a file is being checked just now "
	    "(kprofd -check -control): try again when that has ended";

	if (c != NULL && checks_busy(r->p->checks)) {
		control_refuse(c, checking);
		return;
	}
	checks_abort(r->p->checks, "tiers.conf is being reloaded (SIGHUP): "
	    "try again");
	if (c != NULL && r->later.n == CONTROL_CLIENTS_MAX) {
		control_refuse(c, busy);
		return;
	}
	if (c != NULL)
		r->later.v[r->later.n++] = control_client_id(c);
	r->again = true;
	if (!r->busy)
		reload_start(r);
}

/* ---- creation ---- */

struct reload *
reload_new(struct parts *p)
{
	struct reload *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->p = p;
	kp_buf_init(&r->mistakes, MISTAKES_MAX);
	return r;
}

void
reload_free(struct reload *r)
{
	if (r == NULL)
		return;
	conf_file_free(&r->next);
	kp_node_list_free(&r->nodes);
	forget_verdicts(r);
	kp_buf_free(&r->mistakes);
	free(r);
}
