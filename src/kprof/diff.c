/* diff.c - kprof diff BEFORE NOW: two profiles of functions, side by side. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kprof.h"
#include "report/profile_diff.h"

#define TOP 30
#define FILE_MAX (64u << 20)	/* bytes */

/* False, and said: it cannot be read, or is too large. */
static bool
read_file(struct kp_buf *b, const char *file)
{
	FILE *f = fopen(file, "re");
	char part[65536];
	bool good = f != NULL;
	size_t n;

	while (good && (n = fread(part, 1, sizeof(part), f)) > 0)
		kp_buf_put(b, part, n);
	if (!good || ferror(f))
		say("cannot read '%s': %s", file, strerror(errno));
	else if (b->err != KP_OK)
		say("cannot read '%s': %s", file, kp_err_str(b->err));
	good = good && !ferror(f) && b->err == KP_OK;
	if (f != NULL)
		fclose(f);
	return good;
}

static int
read_kept(struct profile_kept *k, const char *file)
{
	enum kp_err e = KP_EIO;
	struct kp_buf text;
	char why[300];

	kp_buf_init(&text, FILE_MAX);
	if (read_file(&text, file)) {
		e = profile_kept_read(k, (const char *)text.p, text.len, why,
		    sizeof(why));
		if (e != KP_OK)
			say("cannot read '%s': %s", file, why);
	}
	kp_buf_free(&text);
	return e == KP_OK ? EXIT_DONE : EXIT_FAILED;
}

static int
diff(const struct opt_list *files, const struct profile_diff_view *v,
    bool json)
{
	struct profile_kept before = { 0 }, now = { 0 };
	struct kp_buf b;
	int st;

	st = read_kept(&before, files->v[0]);
	if (st == EXIT_DONE)
		st = read_kept(&now, files->v[1]);
	if (st == EXIT_DONE && before.type != now.type) {
		say("'%s' and '%s' are not of one kind (count, time or "
		    "memory)", files->v[0], files->v[1]);
		st = EXIT_FAILED;
	}
	if (st == EXIT_DONE) {
		kp_buf_init(&b, OUTPUT_MAX);
		if (json)
			profile_diff_json(&b, &before, &now, v);
		else
			profile_diff_table(&b, &before, &now, v,
			    screen_width());
		st = show(&b);
	}
	profile_kept_free(&before);
	profile_kept_free(&now);
	return st;
}

int
cmd_diff(const struct cmd *cmd, int argc, char **argv)
{
	struct profile_diff_view v = { .top = 0 };
	struct opt_list files = { .n = 0 };
	bool json = false;
	int sort = PROFILE_DIFF_CHANGE, st;
	const struct opt opts[] = {
		OPT_ARGUMENTS(files),
		{ "sort", "KEY", "in order of the change (default), of what "
		    "it is now, or by name", OPT_CHOICE, &sort,
		    "change,now,function" },
		{ "reverse", NULL, "in the other order", OPT_FLAG, &v.reverse,
		    NULL },
		{ "n", "N", "so many rows (default 30; -json: all)",
		    OPT_COUNT, &v.top, NULL },
		OPT_JSON(json),
	};

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (files.n != 2)
		return opts_wrong(cmd, "give two files: before and now");
	v.sort = (enum profile_diff_sort)sort;
	if (v.top == 0 && !json)
		v.top = TOP;
	return diff(&files, &v, json);
}
