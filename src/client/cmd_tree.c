/* cmd_tree.c - kprof tree ID: one slow request, call by call. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client.h"
#include "report/requests.h"

static int
tree(const struct place *p, int64_t id, bool json)
{
	struct kp_query_sum cover = { 0 };
	struct kp_query_range around;
	struct kp_query_tree t = { 0 };
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err;
	char name[512];
	int st = EXIT_FAILED;

	if (open_db(&q, p) != KP_OK)
		return EXIT_FAILED;
	err = kp_query_tree(q, id, &t);
	if (err == KP_OK)
		err = kp_query_around(q, &t.request, &around);
	if (err == KP_OK)
		err = kp_query_cover(q, &around, &cover);
	kp_buf_init(&b, OUTPUT_MAX);
	if (err == KP_OK && json)
		tree_json(&b, &t, &cover);
	else if (err == KP_OK)
		tree_text(&b, &t, &cover, screen_width());
	if (err == KP_ENOENT)
		say("no request %" PRId64 " in '%s' (kprof slow lists those "
		    "there are)", id, place_name(name, sizeof(name), p));
	else
		st = query_show(q, err, &b);
	kp_query_tree_free(&t);
	kp_query_close(q);
	return st;
}

int
cmd_tree(const struct cmd *cmd, int argc, char **argv)
{
	struct place p = { .control = NULL };
	bool json = false;
	const struct opt opts[] = { OPT_JSON(json), OPT_DB(p) };
	const char *arg;
	char *end;
	int64_t id;
	int st;

	st = opts_parse(cmd, opts, 2, argc, argv, &arg);
	if (st != OPTS_GO_ON)
		return st;
	errno = 0;
	id = strtoll(arg, &end, 10);
	if (arg[0] < '0' || arg[0] > '9' || *end != '\0' || errno != 0)
		return opts_wrong(cmd, "the ID '%s' is not a number: kprof "
		    "slow lists them", arg);
	return tree(&p, id, json);
}
