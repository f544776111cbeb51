/*
 * diff.c - kprof diff BEFORE NOW: compares two profiles of functions, or the last
 * two of one database.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "profile/report/profile_db.h"
#include "text/file_why.h"

#define TOP 30
#define FILE_MAX (64u << 20)	/* bytes */

/* False with a reason in `why`. */
static bool
read_file(struct kp_buf *b, const char *file, char *why, size_t whylen)
{
	FILE *f = fopen(file, "re");
	char part[65536], text[FILE_WHY_MAX];
	bool good = f != NULL;
	size_t n;

	while (good && (n = fread(part, 1, sizeof(part), f)) > 0)
		kp_buf_put(b, part, n);
	good = good && !ferror(f) && b->err == KP_OK;
	if (!good)
		snprintf(why, whylen, "%s", b->err != KP_OK ?
		    kp_err_str(b->err) : file_why(text, file, errno));
	if (f != NULL)
		fclose(f);
	return good;
}

static bool
is_db(const char *file)
{
	FILE *f = fopen(file, "re");
	char head[16];
	size_t n = f != NULL ? fread(head, 1, sizeof(head), f) : 0;

	if (f != NULL)
		fclose(f);
	return counts_db_begins(head, n);
}

static enum kp_err
read_csv(struct counts_kept *k, const char *file, char *why, size_t n)
{
	struct kp_buf text;
	enum kp_err e = KP_EIO;

	kp_buf_init(&text, FILE_MAX);
	if (read_file(&text, file, why, n))
		e = counts_kept_read(k, (const char *)text.p, text.len, why,
		    n);
	kp_buf_free(&text);
	return e;
}

/*
 * Cuts #N from FILE#N, the N-th profile of a database, and returns N; 0 if there
 * is no number, or if FILE#N is a file.
 */
static int64_t
take_number(char *file)
{
	char *mark = strrchr(file, '#'), *end;
	long long n;

	if (mark == NULL || access(file, F_OK) == 0)
		return 0;
	n = strtoll(mark + 1, &end, 10);
	if (n <= 0 || *end != '\0')
		return 0;
	*mark = '\0';
	return n;
}

/* which: the profile of a database if the name has no number. */
static int
read_kept(struct counts_kept *k, const char *name, int64_t which)
{
	char *file = strdup(name);
	enum kp_err e = KP_ENOMEM;
	char why[300] = "out of memory";
	int64_t number = file != NULL ? take_number(file) : 0;

	if (file != NULL && is_db(file))
		e = counts_db_read(file, number > 0 ? number : which, k, why,
		    sizeof(why));
	else if (file != NULL && which == COUNTS_DB_BEFORE)
		snprintf(why, sizeof(why), "one file is enough where it is a "
		    "database (-db); else give two, before and now");
	else if (file != NULL)
		e = read_csv(k, file, why, sizeof(why));
	if (e != KP_OK)
		say("cannot read '%s': %s", name, why);
	free(file);
	return e == KP_OK ? EXIT_DONE : EXIT_FAILED;
}

static int
diff(const struct opt_list *files, const struct counts_diff_view *v,
    bool json)
{
	struct counts_kept before = { 0 }, now = { 0 };
	bool both = files->n == 2;
	struct kp_buf b;
	int st;

	st = read_kept(&before, files->v[0], both ? COUNTS_DB_LAST :
	    COUNTS_DB_BEFORE);
	if (st == EXIT_DONE)
		st = read_kept(&now, files->v[both], COUNTS_DB_LAST);
	if (st == EXIT_DONE && before.type != now.type) {
		say("'%s' and '%s' are not of one kind (count, time or "
		    "memory)", files->v[0], files->v[both]);
		st = EXIT_FAILED;
	}
	if (st == EXIT_DONE) {
		kp_buf_init(&b, OUTPUT_MAX);
		if (json)
			counts_diff_json(&b, &before, &now, v);
		else
			counts_diff_table(&b, &before, &now, v,
			    screen_width());
		st = show(&b);
	}
	counts_kept_free(&before);
	counts_kept_free(&now);
	return st;
}

int
cmd_diff(const struct cmd *cmd, int argc, char **argv)
{
	struct counts_diff_view v = { .top = OPT_UNSET };
	struct opt_order sort = { .key = COUNTS_DIFF_CHANGE };
	struct opt_list files = { .n = 0 };
	bool json = false;
	int st;
	const struct opt opts[] = {
		OPT_ARGUMENTS(files),
		OPT_SORT("change (default), now, or function", sort,
		    "change,now,function"),
		OPT_N("30; -json: all", v.top),
		OPT_JSON(json),
	};

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (files.n > 2)
		return opts_wrong(cmd, "give two files: before and now");
	v.sort = (enum counts_diff_sort)sort.key;
	v.reverse = sort.reverse;
	if (v.top == OPT_UNSET)
		v.top = json ? 0 : TOP;
	return diff(&files, &v, json);
}
