/* conf_file.c - see the header. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kprofd/conf_file.h"
#include "report/diag.h"
#include "report/tiers_file.h"

enum kp_err
conf_file_load(struct conf_file *f, const char *path)
{
	struct kp_diags diags;
	char why[300];
	enum kp_err e;

	*f = (struct conf_file){ .path = path };
	f->text = tiers_file_read(path, &f->len, why, sizeof(why));
	if (f->text == NULL) {
		log_info("%s", why);
		return KP_EIO;
	}
	e = kp_conf_parse(&f->conf, f->text, f->len, &diags);
	conf_file_diags(f, &diags);
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
conf_file_diags(const struct conf_file *f, const struct kp_diags *d)
{
	diag_print(stderr, f->path, f->text, f->len, d);
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
