/*
 * conf_file.c - reads and parses tiers.conf, and writes its mistakes to the log
 * and, at a reload, for the client; frees what a reload has replaced when the
 * store has completed a sync that began after that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/tiers_file.h"
#include "daemon/conf_file.h"
#include "daemon/log.h"
#include "kprofd/nodes.h"
#include "text/diag_text.h"

const char conf_file_messages[] = "{messages, true} needs the native probe "
    "(-probe native, or auto): the relay would be sent a copy of each message";

enum kp_err
conf_file_load(struct conf_file *f, const char *path, struct kp_buf *mistakes)
{
	struct kp_diags diags;
	char why[300];
	enum kp_err e;

	*f = (struct conf_file){ .path = path };
	f->text = tiers_file_read(path, &f->len, why, sizeof(why));
	if (f->text == NULL) {
		log_error("config", NULL, "%s", why);
		if (mistakes != NULL)
			kp_buf_printf(mistakes, "%s\n", why);
		return KP_EIO;
	}
	e = kp_conf_parse(&f->conf, f->text, f->len, &diags);
	f->warnings = kp_diags_warnings(&diags);
	conf_file_diags(f, &diags, NULL, mistakes);
	kp_diags_free(&diags);
	if (e != KP_OK)
		conf_file_free(f);
	return e;
}

void
conf_file_free(struct conf_file *f)
{
	kp_conf_free(f->conf);
	free(f->text);
	f->conf = NULL;
	f->text = NULL;
}

/* For a log in JSON: without the source line below it. */
static void
diag_log(const struct conf_file *f, const struct kp_diag *d, const char *node)
{
	const struct log_entry e = { .event = "config",
		.target = node,
		.level = d->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
		.fields = { { .key = "file", .text = f->path },
			{ .key = "line", .number = d->pos.line },
			{ .key = "column", .number = d->pos.col } } };

	log_put(&e, "%s", d->text);
}

static void
put_diags(const struct conf_file *f, const struct kp_diags *d,
    const char *node, struct kp_buf *mistakes)
{
	FILE *to[2];
	unsigned n = log_streams(to);

	for (unsigned i = 0; i < n; i++) {
		diag_print(to[i], f->path, f->text, f->len, d);
		fflush(to[i]);
	}
	if (mistakes != NULL)
		diag_text(mistakes, f->path, f->text, f->len, d);
	for (size_t i = 0; n == 0 && i < d->n; i++)
		diag_log(f, &d->v[i], node);
}

void
conf_file_diags(const struct conf_file *f, const struct kp_diags *d,
    const char *node, struct kp_buf *mistakes)
{
	char before[KP_NODE_NAME_MAX + 8];
	struct kp_diags named;

	if (node == NULL) {
		put_diags(f, d, NULL, mistakes);
		return;
	}
	snprintf(before, sizeof(before), "'%s': ", node);
	put_diags(f, kp_diags_copy(&named, d, before) ? &named : d, node,
	    mistakes);
	kp_diags_free(&named);
}

void
conf_file_summary(const struct conf_file *f)
{
	struct kp_buf b;

	kp_buf_init(&b, 8192);
	tiers_file_summary(&b, f->path, f->conf);
	fputs(kp_buf_cstr(&b), stdout);
	kp_buf_free(&b);
}

/* ---- no longer in force ---- */

struct entry {
	void *what;
	void (*free_fn)(void *);
};

struct deferred {
	struct kp_store *store;
	struct event *synced;
	struct entry v[DEFERRED_MAX];	/* oldest first */
	size_t n;
	size_t covered;		/* by the running sync; 0: none runs */
	bool ok;		/* that sync succeeded */
};

/* Runs on the writer's thread, or within kp_store_sync(). */
static void
sync_done(void *ctx, bool ok)
{
	struct deferred *p = ctx;

	p->ok = ok;
	event_active(p->synced, EV_TIMEOUT, 0);
}

void
deferred_tick(struct deferred *p)
{
	if (p->n == 0 || p->covered > 0)
		return;
	p->covered = p->n;
	kp_store_sync(p->store, sync_done, p);
}

static void
on_synced(evutil_socket_t fd, short what, void *ctx)
{
	struct deferred *p = ctx;
	size_t n = p->covered;

	(void)fd, (void)what;
	p->covered = 0;
	if (!p->ok)
		return;		/* deferred_tick() tries again */
	for (size_t i = 0; i < n; i++)
		p->v[i].free_fn(p->v[i].what);
	p->n -= n;
	memmove(p->v, p->v + n, p->n * sizeof(p->v[0]));
	deferred_tick(p);
}

struct deferred *
deferred_new(struct event_base *base, struct kp_store *store)
{
	struct deferred *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->store = store;
	p->synced = event_new(base, -1, 0, on_synced, p);
	if (p->synced == NULL) {
		free(p);
		return NULL;
	}
	return p;
}

void
deferred_free(struct deferred *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].free_fn(p->v[i].what);
	event_free(p->synced);
	free(p);
}

bool
deferred_room(const struct deferred *p, size_t n)
{
	return p->n + n <= DEFERRED_MAX;
}

void
deferred_put(struct deferred *p, void *what, void (*free_fn)(void *))
{
	p->v[p->n++] = (struct entry){ what, free_fn };
	deferred_tick(p);
}
