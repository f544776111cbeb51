/*
 * conf_file.c - reads and parses tiers.conf, and writes its mistakes to the log
 * and, at a reload, for the client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conf_file.h"
#include "daemon/log.h"
#include "kprofd/nodes.h"
#include "text/diag_text.h"
#include "config/tiers_file.h"

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
