/*
 * conf_file.c - reads and parses tiers.conf, and writes its mistakes to the log
 * and, at a reload, for the client; reads the file of targets; frees what a reload has
 * replaced once a sync of the store that began after the reload has ended.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/tiers_file.h"
#include "daemon/conf_file.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "kprofd/nodes.h"
#include "text/file_why.h"

#define MISTAKES_MAX (256u << 10)	/* bytes */

const char conf_file_messages[] = "{messages, true} needs the native probe "
    "(-probe native, or auto): the relay would be sent a copy of each message";

enum kp_err
conf_file_parse(struct conf_file *f, struct kp_diags *diags)
{
	enum kp_err e = kp_conf_parse(&f->conf, f->text, f->len, diags);

	f->warnings = kp_diags_warnings(diags);
	return e;
}

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
	e = conf_file_parse(f, &diags);
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

void
conf_file_diags_put(const struct conf_file *f, const struct kp_diags *d,
    const char *node, bool json, conf_file_put_fn *put, void *ctx)
{
	char before[KP_NODE_NAME_MAX + 8] = "";
	const struct kp_diags *shown = d;
	struct kp_diags named = { 0 };
	struct kp_buf b;

	if (node != NULL)
		snprintf(before, sizeof(before), "'%s': ", node);
	if (node != NULL && kp_diags_copy(&named, d, before))
		shown = &named;
	kp_buf_init(&b, MISTAKES_MAX);
	/* a log in JSON is without the source line below a mistake */
	for (size_t i = 0; json && i < shown->n; i++) {
		const struct kp_diag *v = &shown->v[i];
		const struct log_entry e = { .event = "config", .target = node,
			.level = v->warning ? LOG_LEVEL_WARNING :
			    LOG_LEVEL_ERROR,
			.fields = { { .key = "file", .text = f->path },
				{ .key = "line", .number = v->pos.line },
				{ .key = "column", .number = v->pos.col } } };

		kp_buf_reset(&b);
		log_put_json(&b, &e, v->text);
		put(ctx, e.level, (const char *)b.p, b.len);
	}
	if (!json) {
		diag_text(&b, f->path, f->text, f->len, shown);
		put(ctx, LOG_LEVEL_ERROR, (const char *)b.p, b.len);
	}
	kp_buf_free(&b);
	kp_diags_free(&named);
}

static void
put_log(void *ctx, enum log_level level, const char *text, size_t n)
{
	(void)ctx;
	log_lines(level, text, n);
}

static void
put_buf(void *ctx, enum log_level level, const char *text, size_t n)
{
	(void)level;
	kp_buf_put(ctx, text, n);
}

void
conf_file_diags(const struct conf_file *f, const struct kp_diags *d,
    const char *node, struct kp_buf *mistakes)
{
	conf_file_diags_put(f, d, node, log_is_json(), put_log, NULL);
	if (mistakes != NULL)
		conf_file_diags_put(f, d, node, false, put_buf, mistakes);
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

/* ---- the file of targets ---- */

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

bool
targets_file_read(const char *path, struct kp_node_list *list, char *why, size_t n)
{
	const char *wrong;
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

/* ---- after a sync ---- */

struct entry {
	void *what;
	void (*free_fn)(void *);		/* NULL: done */
	void (*done)(void *what, bool ok);
};

struct deferred {
	struct kp_store *store;
	struct event *synced;
	struct entry v[DEFERRED_MAX + DEFERRED_CALLS];	/* oldest first */
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
	size_t n = p->covered, kept = 0;

	(void)fd, (void)what;
	p->covered = 0;
	for (size_t i = 0; i < n; i++)
		if (p->v[i].free_fn == NULL)
			p->v[i].done(p->v[i].what, p->ok);
		else if (p->ok)
			p->v[i].free_fn(p->v[i].what);
		else
			p->v[kept++] = p->v[i];
	memmove(p->v + kept, p->v + n, (p->n - n) * sizeof(p->v[0]));
	p->n -= n - kept;
	/* what has only failed is tried again by the next deferred_tick() */
	if (p->n > kept)
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
	if (p->synced != NULL)
		return p;
	free(p);
	return NULL;
}

void
deferred_free(struct deferred *p)
{
	if (p == NULL)
		return;
	for (struct entry *e = p->v; e < p->v + p->n; e++)
		(e->free_fn != NULL ? e->free_fn : free)(e->what);
	event_free(p->synced);
	free(p);
}

/* How many are to be freed, or to be called. */
static size_t
waiting(const struct deferred *p, bool freed)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += (p->v[i].free_fn != NULL) == freed;
	return n;
}

bool
deferred_room(const struct deferred *p, size_t n)
{
	return waiting(p, true) + n <= DEFERRED_MAX;
}

void
deferred_put(struct deferred *p, void *what, void (*free_fn)(void *))
{
	p->v[p->n++] = (struct entry){ .what = what, .free_fn = free_fn };
	deferred_tick(p);
}

bool
deferred_may_call(const struct deferred *p)
{
	return waiting(p, false) < DEFERRED_CALLS;
}

void
deferred_call(struct deferred *p, void *what, void (*done)(void *, bool))
{
	p->v[p->n++] = (struct entry){ .what = what, .done = done };
	deferred_tick(p);
}
