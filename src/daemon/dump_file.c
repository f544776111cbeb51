/*
 * dump_file.c - opens the file for every window, so that it may be rotated; logs
 * once that it cannot be written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/dump_file.h"
#include "report/report.h"
#include "text/file_why.h"

#define TABLE_MAX (4u << 20)	/* bytes of one window's table */

struct dump_file {
	const char *path;	/* borrowed */
	bool json, failed;
	bool made;		/* the file did not exist before */
};

/* Never waits: for a FIFO without a reader it fails. */
static FILE *
open_to_append(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC |
	    O_NONBLOCK, 0666);
	FILE *f = fd >= 0 ? fdopen(fd, "a") : NULL;

	if (f == NULL && fd >= 0)
		close(fd);
	return f;
}

static void
append(struct dump_file *t, const struct kp_buf *b)
{
	FILE *f = open_to_append(t->path);
	char why[FILE_WHY_MAX];
	bool ok = f != NULL;

	if (f != NULL) {
		ok = fwrite(b->p, 1, b->len, f) == b->len;
		ok = fclose(f) == 0 && ok;
	}
	if (!ok && !t->failed)
		log_warn("dump_file", NULL, "cannot write to '%s': %s",
		    t->path, file_why(why, t->path, errno));
	t->failed = !ok;
}

struct dump_file *
dump_file_open(const char *path, bool json)
{
	struct dump_file *t = calloc(1, sizeof(*t));
	char why[FILE_WHY_MAX];
	bool made;
	FILE *f;

	if (t == NULL)
		return NULL;
	made = access(path, F_OK) != 0;
	f = open_to_append(path);
	if (f == NULL) {
		log_error("dump_file", NULL, "cannot write to '%s': %s (see "
		    "-dump-file)", path, file_why(why, path, errno));
		free(t);
		return NULL;
	}
	fclose(f);
	*t = (struct dump_file){ .path = path, .json = json,
		.made = made };
	return t;
}

void
dump_file_window(struct dump_file *t, const struct kp_window *w,
    const struct kp_conf *conf)
{
	struct report_opts opts = { .what = REPORT_SELF };
	struct report *r;
	struct kp_buf b;

	if (report_from_window(w, conf, &r) != KP_OK)
		return;
	kp_buf_init(&b, TABLE_MAX);
	if (t->json) {
		report_json(&b, r);
	} else {
		report_sort(r, NULL, opts.what);
		report_table(&b, r, &opts);
		kp_buf_u8(&b, '\n');
	}
	if (b.err == KP_OK)
		append(t, &b);
	kp_buf_free(&b);
	report_free(r);
}

void
dump_file_close(struct dump_file *t, bool began)
{
	if (t != NULL && t->made && !began)
		unlink(t->path);
	free(t);
}
