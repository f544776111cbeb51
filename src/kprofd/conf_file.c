/* conf_file.c - see the header. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kprofd/conf_file.h"
#include "report/diag.h"

static enum kp_err
read_text(struct conf_file *f)
{
	FILE *in = fopen(f->path, "re");
	enum kp_err e = KP_EIO;

	if (in == NULL) {
		log_warn("cannot open '%s'", f->path);
		return KP_EIO;
	}
	f->text = malloc(KP_CONF_SIZE_MAX + 1);
	if (f->text == NULL)
		goto out;
	f->len = fread(f->text, 1, KP_CONF_SIZE_MAX + 1, in);
	if (ferror(in))
		log_warn("cannot read '%s'", f->path);
	else if (f->len > KP_CONF_SIZE_MAX)
		log_warnx("'%s' is larger than %u bytes", f->path,
		    KP_CONF_SIZE_MAX);
	else
		e = KP_OK;
out:
	fclose(in);
	return e;
}

enum kp_err
conf_file_load(struct conf_file *f, const char *path)
{
	struct kp_diags diags;
	enum kp_err e;

	*f = (struct conf_file){ .path = path };
	e = read_text(f);
	if (e == KP_OK) {
		e = kp_conf_parse(&f->conf, f->text, f->len, &diags);
		conf_file_diags(f, &diags);
		kp_diags_free(&diags);
		/* The store keeps it as a string. */
		f->text[f->len] = '\0';
	}
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
conf_file_diags(const struct conf_file *f, const struct kp_diags *d)
{
	diag_print(stderr, f->path, f->text, f->len, d);
}

void
conf_file_summary(const struct conf_file *f)
{
	const struct kp_conf *c = f->conf;
	size_t fns = 0;

	for (size_t i = 0; i < c->ntiers; i++)
		fns += c->tiers[i].nfns;
	printf("%s: good: %zu tiers, %zu function patterns, %zu entries%s\n",
	    f->path, c->ntiers, fns, c->nentries,
	    c->nentries == 0 ? " (the first tier's functions)" : "");
}
