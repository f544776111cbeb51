/*
 * reload.c - one round of a reload: reads the files, collects what each target
 * says to them, decides, and applies them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/log.h"
#include "daemon/control/reload.h"
#include "text/text.h"

#define CLIENTS_MAX 16		/* as many as the control socket has */
#define SAID_MAX (256u << 10)	/* bytes of what is wrong with a file */

struct clients {
	uint64_t v[CLIENTS_MAX];
	unsigned n;
};

/* What a target says to it. */
struct opinion {
	struct unresolved missing;		/* known: it was asked */
	struct kp_diags diags;		/* its own copy */
	bool refused;
	char why[600];
};

struct reload {
	struct reload_parts p;
	struct conf_file next;		/* being tried */
	struct kp_node_list nodes;	/* of the file of targets, likewise */
	struct kp_buf said;		/* what is wrong with it, for people */
	bool busy, again;
	bool same;			/* it reads as the one in force */
	unsigned left;			/* targets whose answer is waited for */
	unsigned away;			/* of those that answered */
	struct opinion opinions[TARGETS_MAX];	/* as targets_at() */
	struct kp_plan_change n;	/* of all targets */
	struct clients now, later;
};

static const char ending[] = "kprofd is ending";

static void reload_start(struct reload *r);

/* ---- one round ---- */

/* The target that it is all about, where there is no other. */
static const char *
only_target(const struct reload *r)
{
	return targets_several(r->p.targets) ||
	    targets_count(r->p.targets) != 1 ? NULL :
	    targets_at(r->p.targets, 0)->node;
}

static void
forget_opinions(struct reload *r)
{
	for (unsigned i = 0; i < TARGETS_MAX; i++) {
		kp_diags_free(&r->opinions[i].diags);
		r->opinions[i] = (struct opinion){ 0 };
	}
}

/* text: one line for everybody, where ok, else why nothing has changed. */
static void
round_end(struct reload *r, bool ok, const char *text)
{
	struct control_client *c;

	for (unsigned i = 0; i < r->now.n; i++) {
		c = control_client_get(r->p.control, r->now.v[i]);
		if (c == NULL)
			continue;
		if (r->said.len > 0)
			control_note(c, (const char *)r->said.p, r->said.len);
		control_answer(c, ok, text, strlen(text));
	}
	kp_buf_reset(&r->said);
	kp_node_list_free(&r->nodes);
	forget_opinions(r);
	r->now.n = 0;
	r->busy = false;
	targets_freeze(r->p.targets, false);
	if (r->again)
		reload_start(r);
}

/* path: of the file that is no good; NULL: why names it. */
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
	/* An event has room for a line: the first mistake. */
	snprintf(line, sizeof(line), "refused: %s", r->said.len > 0 ?
	    kp_buf_cstr(&r->said) : why);
	line[strcspn(line, "\n")] = '\0';
	targets_record(r->p.targets, "reload", line);
	conf_file_free(&r->next);
	round_end(r, false, text);
}

/* ---- what the targets say ---- */

/* NULL: it is not one of the targets. */
static struct opinion *
opinion_of(struct reload *r, const struct target *t)
{
	for (unsigned i = 0; i < targets_count(r->p.targets); i++)
		if (targets_at(r->p.targets, i) == t)
			return &r->opinions[i];
	return NULL;
}

/* The node first, where it could be another one. */
static void
name_node(const struct reload *r, const struct target *t, const char *why,
    char *text, size_t n)
{
	if (only_target(r) != NULL)
		snprintf(text, n, "%s", why);
	else
		snprintf(text, n, "'%s': %s", t->node, why);
}

/* Where a mistake is: on one target, and on none of the others otherwise. */
static bool
is_fine(struct reload *r, unsigned i, const struct unresolved *const *all)
{
	const struct opinion *o = &r->opinions[i];

	return !o->refused && (!o->missing.known ||
	    unresolved_elsewhere(&o->missing, all, targets_count(r->p.targets)));
}

/* Of the i-th target. */
static void
tell_diags(struct reload *r, unsigned i)
{
	const struct target *t = targets_at(r->p.targets, i);
	const struct kp_diags *d = &r->opinions[i].diags;

	if (d->n > 0)
		conf_file_diags(r->same ? r->p.conf : &r->next, d,
		    only_target(r) == NULL ? t->node : NULL, &r->said);
}

/* Is there one that will not have it?  Who, and why. */
static bool
refused(struct reload *r, char *why, size_t n)
{
	const struct unresolved *all[TARGETS_MAX];
	unsigned count = targets_count(r->p.targets);
	struct opinion *o;

	if (targets_stopping(r->p.targets)) {
		snprintf(why, n, "%s", ending);
		return true;
	}
	for (unsigned i = 0; i < count; i++)
		all[i] = &r->opinions[i].missing;
	for (unsigned i = 0; i < count; i++) {
		if (is_fine(r, i, all))
			continue;
		o = &r->opinions[i];
		name_node(r, targets_at(r->p.targets, i), o->refused ? o->why :
		    "it names what the target does not have", why, n);
		if (!o->refused)
			tell_diags(r, i);
		return true;
	}
	return false;
}

static void finish(struct reload *r);

static void
decide(struct reload *r)
{
	unsigned count = targets_count(r->p.targets);
	char why[700];

	if (refused(r, why, sizeof(why))) {
		for (unsigned i = 0; i < count; i++)
			agent_reload_cancel(targets_at(r->p.targets, i)->agent);
		if (!r->same)
			targets_discard(r->p.targets);
		refuse(r, r->p.conf->path, why);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		kp_diags_excuse(&r->opinions[i].diags);
		tell_diags(r, i);
	}
	r->left = count + 1;
	for (unsigned i = 0; i < count; i++)
		agent_reload_apply(targets_at(r->p.targets, i)->agent);
	if (--r->left == 0)
		finish(r);
}

void
reload_checked(struct target *t, const struct agent_checked *c)
{
	struct reload *r = t->p.reload;
	struct opinion *o = opinion_of(r, t);

	if (o == NULL || r->left == 0)
		return;
	switch (c->how) {
	case AGENT_CHECKED_AWAY:
		break;
	case AGENT_CHECKED_REFUSED:
		o->refused = true;
		snprintf(o->why, sizeof(o->why), "%s", c->why);
		break;
	case AGENT_CHECKED_DONE:
		unresolved_set(&o->missing, c->diags);
		/* Without memory some go untold; they are judged all the same. */
		(void)kp_diags_copy(&o->diags, c->diags, "");
		break;
	}
	if (--r->left == 0)
		decide(r);
}

/* ---- reading ---- */

/*
 * Can it be read only once?  A FIFO would hold up the loop.  A directory is
 * refused by who reads it.
 */
static bool
is_read_once(const char *path)
{
	struct stat st;

	return path != NULL && stat(path, &st) == 0 &&
	    !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* False: it was refused. */
static bool
read_files(struct reload *r)
{
	const struct conf_file *conf = r->p.conf;
	char why[512];

	if (targets_stopping(r->p.targets)) {
		refuse(r, conf->path, ending);
		return false;
	}
	if (strcmp(conf->path, "-") == 0) {
		refuse(r, conf->path,
		    "standard input cannot be read a second time");
		return false;
	}
	if (is_read_once(conf->path) ||
	    is_read_once(targets_file(r->p.targets))) {
		refuse(r, is_read_once(conf->path) ? conf->path :
		    targets_file(r->p.targets), "it is not a regular file: "
		    "it cannot be read a second time");
		return false;
	}
	if (!deferred_room(r->p.past, DEFERRED_RELOAD)) {
		refuse(r, conf->path, "the database takes nothing, and windows "
		    "of earlier reloads wait for it (kprof status)");
		return false;
	}
	if (conf_file_load(&r->next, conf->path, &r->said) != KP_OK) {
		refuse(r, conf->path, "it cannot be used");
		return false;
	}
	if (r->next.conf->messages && r->p.relay) {
		refuse(r, conf->path, conf_file_messages);
		return false;
	}
	if (!targets_file_read(r->p.targets, &r->nodes, why, sizeof(why))) {
		refuse(r, NULL, why);
		return false;
	}
	return true;
}

static void
reload_start(struct reload *r)
{
	const struct conf_file *conf = r->p.conf;
	unsigned count;

	r->busy = true;
	r->again = false;
	r->now = r->later;
	r->later.n = 0;
	r->n = (struct kp_plan_change){ 0 };
	r->away = 0;
	if (!read_files(r))
		return;
	targets_freeze(r->p.targets, true);
	r->same = r->next.len == conf->len &&
	    memcmp(r->next.text, conf->text, conf->len) == 0;
	if (r->same) {
		conf_file_free(&r->next);
	} else if (targets_prepare(r->p.targets, r->next.conf) != KP_OK) {
		refuse(r, conf->path, "out of memory");
		return;
	}
	count = targets_count(r->p.targets);
	r->left = count + 1;
	for (unsigned i = 0; i < count; i++)
		agent_reload(targets_at(r->p.targets, i)->agent, r->same ?
		    conf->conf : r->next.conf);
	if (--r->left == 0)
		decide(r);
}

void
reload_ask(struct reload *r, struct control_client *c)
{
	static const char busy[] = "too many wait already";

	if (c != NULL && r->later.n == CLIENTS_MAX) {
		control_answer(c, false, busy, strlen(busy));
		return;
	}
	if (c != NULL)
		r->later.v[r->later.n++] = control_client_id(c);
	r->again = true;
	if (!r->busy)
		reload_start(r);
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

void
reload_done(struct target *t, const struct agent_reloaded *how)
{
	struct reload *r = t->p.reload;

	if (opinion_of(r, t) == NULL || r->left == 0)
		return;
	r->away += how->how == AGENT_RELOAD_KEPT;
	r->n.added += how->n.added;
	r->n.removed += how->n.removed;
	r->n.changed += how->n.changed;
	r->n.kept += how->n.kept;
	if (!r->same)
		target_switch(t);
	if (--r->left == 0)
		finish(r);
}

/*
 * What each lacks of it, since who comes later is judged by the others.  One
 * that was away is taken to have all: nobody is kept out on its account.
 */
static void
keep_missing(struct reload *r)
{
	struct unresolved *m;
	bool known;

	for (unsigned i = 0; i < targets_count(r->p.targets); i++) {
		m = &targets_at(r->p.targets, i)->in_set.unresolved;
		known = m->known;
		*m = r->opinions[i].missing;
		m->known |= known;
	}
}

/* No target uses the last one any more. */
static void
put_in_force(struct reload *r)
{
	struct conf_file *old = malloc(sizeof(*old));

	keep_missing(r);
	deferred_put(r->p.past, targets_switch(r->p.targets), free_requests);
	/* Without memory for its place it is leaked: it may be read still. */
	if (old != NULL)
		*old = *r->p.conf;
	*r->p.conf = r->next;
	r->next = (struct conf_file){ 0 };
	kp_store_conf(r->p.store, r->p.conf->conf, r->p.conf->text);
	if (old != NULL)
		deferred_put(r->p.past, old, free_conf);
}

static void
describe(const struct reload *r, char *text, size_t n)
{
	unsigned count = targets_count(r->p.targets);
	const char *path = r->p.conf->path;
	const struct kp_plan_change *c = &r->n;
	char added[TEXT_MAX];
	int len;

	if (count > 0 && r->away == count && count == 1)
		len = snprintf(text, n, "not attached to the target just now "
		    "(kprof status): '%s' is checked and put in force there as "
		    "soon as it is", path);
	else if (r->same && c->added + c->removed + c->changed == 0)
		len = snprintf(text, n, "'%s' is as it was: nothing to change",
		    path);
	else
		len = snprintf(text, n, "'%s' is in force: %s added, %zu "
		    "removed, %zu changed, %zu kept", path,
		    text_counted(added, c->added, "function"), c->removed,
		    c->changed, c->kept);
	if (count > 1 && r->away > 0 && (size_t)len < n)
		snprintf(text + len, n - (size_t)len, "; %u of %u targets are "
		    "not attached just now: in force there as soon as they are",
		    r->away, count);
}

/* What the file of targets changes comes last: the set was frozen. */
static void
change_targets(struct reload *r, char *text, size_t n)
{
	unsigned added = 0, removed = 0;
	size_t len = strlen(text);

	targets_freeze(r->p.targets, false);
	targets_file_apply(r->p.targets, &r->nodes, &added, &removed);
	if (!r->same)
		targets_again(r->p.targets);
	if (added + removed > 0)
		snprintf(text + len, n - len, "; targets: %u added, %u removed",
		    added, removed);
}

static void
finish(struct reload *r)
{
	char text[900];
	bool changed = !r->same || r->n.added + r->n.changed + r->n.removed > 0;

	if (!r->same)
		put_in_force(r);
	/* In none of them any more, or not for long. */
	if (targets_stopping(r->p.targets)) {
		round_end(r, false, ending);
		return;
	}
	describe(r, text, sizeof(text) - 1);
	if (changed)
		targets_record(r->p.targets, "reload", text);
	change_targets(r, text, sizeof(text) - 1);
	log_info("reload", only_target(r), "%s", text);
	strcat(text, "\n");
	round_end(r, true, text);
}

/* ---- beginning and end ---- */

struct reload *
reload_new(const struct reload_parts *parts)
{
	struct reload *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->p = *parts;
	kp_buf_init(&r->said, SAID_MAX);
	return r;
}

void
reload_free(struct reload *r)
{
	if (r == NULL)
		return;
	conf_file_free(&r->next);
	kp_node_list_free(&r->nodes);
	forget_opinions(r);
	kp_buf_free(&r->said);
	free(r);
}
