/* reload.c - see the header. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/log.h"
#include "kprofd/reload.h"
#include "report/diag.h"

#define CLIENTS_MAX 16		/* as many as the control socket has */
#define SAID_MAX (256u << 10)	/* bytes of what is wrong with a file */
/*
 * Configurations whose windows may wait for the disk: some megabytes each.
 */
#define PAST_MAX 8

struct clients {
	uint64_t v[CLIENTS_MAX];
	unsigned n;
};

struct past {
	struct conf_file conf;
	struct kp_requests *requests;
};

struct reload {
	struct reload_parts p;
	struct conf_file next;		/* being tried */
	struct kp_buf said;		/* what is wrong with it, for people */
	bool busy, again;
	bool same;			/* it reads as the one in force */
	struct clients now, later;
	struct past past[PAST_MAX];	/* oldest first */
	unsigned npast;
	struct event *synced;
	unsigned covered;		/* of past, by the running sync; 0: none */
	bool ok;			/* of that */
};

static void reload_start(struct reload *r);

/* ---- what was in force ---- */

static void
past_free(struct past *p)
{
	kp_requests_free(p->requests);
	conf_file_free(&p->conf);
}

/* On the writer's thread, or at once. */
static void
sync_done(void *ctx, bool ok)
{
	struct reload *r = ctx;

	r->ok = ok;
	event_active(r->synced, EV_TIMEOUT, 0);
}

static void
past_sync(struct reload *r)
{
	if (r->npast == 0 || r->covered > 0)
		return;
	r->covered = r->npast;
	kp_store_sync(r->p.store, sync_done, r);
}

static void
on_synced(evutil_socket_t fd, short what, void *ctx)
{
	struct reload *r = ctx;
	unsigned n = r->covered;

	(void)fd, (void)what;
	r->covered = 0;
	if (!r->ok)
		return;		/* reload_tick() tries again */
	for (unsigned i = 0; i < n; i++)
		past_free(&r->past[i]);
	r->npast -= n;
	memmove(r->past, r->past + n, r->npast * sizeof(r->past[0]));
	past_sync(r);
}

void
reload_tick(struct reload *r)
{
	past_sync(r);
}

/* ---- one round ---- */

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
	r->now.n = 0;
	r->busy = false;
	if (r->again)
		reload_start(r);
}

static void
refuse(struct reload *r, const char *why)
{
	const char *target = r->p.target->opts.target;
	char text[700], line[256];

	snprintf(text, sizeof(text), "'%s' is refused: %s; nothing has changed",
	    r->p.conf->path, why);
	log_warn("reload", target, "%s", text);
	/* An event has room for a line: the first mistake. */
	snprintf(line, sizeof(line), "refused: %s", r->said.len > 0 ?
	    kp_buf_cstr(&r->said) : why);
	line[strcspn(line, "\n")] = '\0';
	target_happened(r->p.target, "reload", line);
	conf_file_free(&r->next);
	round_end(r, false, text);
}

static void
reload_start(struct reload *r)
{
	const struct conf_file *conf = r->p.conf;
	enum kp_err e;

	r->busy = true;
	r->again = false;
	r->now = r->later;
	r->later.n = 0;
	if (strcmp(conf->path, "-") == 0) {
		refuse(r, "standard input cannot be read a second time");
		return;
	}
	if (r->npast == PAST_MAX) {
		refuse(r, "the database takes nothing, and windows of earlier "
		    "reloads wait for it (kprof status)");
		return;
	}
	if (conf_file_load(&r->next, conf->path, &r->said) != KP_OK) {
		refuse(r, "it cannot be used");
		return;
	}
	r->same = r->next.len == conf->len &&
	    memcmp(r->next.text, conf->text, conf->len) == 0;
	if (r->same)
		conf_file_free(&r->next);
	e = target_reload(r->p.target, r->same ? conf->conf : r->next.conf);
	if (e != KP_OK)
		refuse(r, e == KP_ESTATE ? "kprofd is ending" :
		    "out of memory");
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

static void
put_in_force(struct reload *r)
{
	struct past *old = &r->past[r->npast++];

	old->requests = target_switch(r->p.target);
	old->conf = *r->p.conf;
	*r->p.conf = r->next;
	r->next = (struct conf_file){ 0 };
	if (r->p.tables != NULL)
		tables_conf(r->p.tables, r->p.conf->conf);
	kp_store_conf(r->p.store, r->p.conf->conf, r->p.conf->text);
	past_sync(r);
}

static void
describe(const struct reload *r, const struct agent_reloaded *how, char *text,
    size_t n)
{
	const struct kp_plan_change *c = &how->n;

	if (how->how == AGENT_RELOAD_KEPT)
		snprintf(text, n, "not attached to the target just now (kprof "
		    "status): '%s' is checked there and armed as soon as it "
		    "is", r->p.conf->path);
	else if (r->same && c->added + c->removed + c->changed == 0)
		snprintf(text, n, "'%s' is as it was: nothing to change",
		    r->p.conf->path);
	else
		snprintf(text, n, "'%s' is in force: %zu functions added, %zu "
		    "removed, %zu changed, %zu kept", r->p.conf->path,
		    c->added, c->removed, c->changed, c->kept);
}

void
reload_done(struct reload *r, const struct agent_reloaded *how)
{
	char text[700];

	if (how->diags != NULL)
		conf_file_diags(r->same ? r->p.conf : &r->next, how->diags,
		    &r->said);
	if (how->how == AGENT_RELOAD_REFUSED) {
		refuse(r, how->why);
		return;
	}
	if (!r->same)
		put_in_force(r);
	describe(r, how, text, sizeof(text) - 1);
	log_info("reload", r->p.target->opts.target, "%s", text);
	if (!r->same || how->n.added + how->n.changed + how->n.removed > 0)
		target_happened(r->p.target, "reload", text);
	snprintf(text + strlen(text), 2, "\n");
	round_end(r, true, text);
}

/* ---- beginning and end ---- */

struct reload *
reload_new(struct event_base *base, const struct reload_parts *parts)
{
	struct reload *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->p = *parts;
	kp_buf_init(&r->said, SAID_MAX);
	r->synced = event_new(base, -1, 0, on_synced, r);
	if (r->synced == NULL) {
		free(r);
		return NULL;
	}
	return r;
}

void
reload_free(struct reload *r)
{
	if (r == NULL)
		return;
	for (unsigned i = 0; i < r->npast; i++)
		past_free(&r->past[i]);
	conf_file_free(&r->next);
	kp_buf_free(&r->said);
	event_free(r->synced);
	free(r);
}
