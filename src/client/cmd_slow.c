/* cmd_slow.c - kprof slow: the slow requests that were kept; kprof tree: one of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client.h"
#include "kprofd/request.h"
#include "report/requests.h"
#include "text/text.h"

#define LIMIT 20

enum { SORT_TOTAL, SORT_TIME };

struct args {
	struct place place;
	struct kp_query_range range;
	size_t limit;		/* 0: all */
	struct opt_order sort;
	int outcome;		/* index of the choices; -1: all */
	bool json;
};

/* The outcomes of requests by name, then those with a call that raised. */
#define OUTCOMES "returned,raised,unfinished,ambiguous,unknown,raised-inside"

static int
by_time(const void *pa, const void *pb)
{
	const struct kp_query_request *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static void
put_slow(struct kp_buf *b, const struct args *a,
    const struct kp_query_requests *rs, const struct kp_query_sum *cover)
{
	struct kp_query_request one;

	if (a->sort.key == SORT_TIME && rs->n > 1)
		qsort(rs->v, rs->n, sizeof(*rs->v), by_time);
	for (size_t i = 0, j = rs->n; a->sort.reverse && i + 1 < j; i++) {
		one = rs->v[i];
		rs->v[i] = rs->v[--j];
		rs->v[j] = one;
	}
	if (a->json) {
		requests_json(b, rs, cover);
		return;
	}
	if (rs->n == 0)
		text_wrap(b, "no slow requests: those slower than {slow_ms, N} "
		    "of tiers.conf are kept (default 250 ms), and the "
		    "{keep_slowest, N} of each request type and window "
		    "(default 1); see also -since, -node, -identity and "
		    "-outcome, and kprof report", screen_width(), 0);
	if (rs->n > 0 || cover->windows > 0)
		requests_table(b, rs, cover, screen_width());
}

static int
slow(const struct args *a)
{
	struct kp_query_sum cover = { 0 };
	struct kp_query_requests rs = { 0 };
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err;
	int st;

	if (open_db(&q, &a->place) != KP_OK)
		return EXIT_FAILED;
	err = kp_query_slow(q, &a->range, KP_SLOW_TOTAL, NULL, 0,
	    a->limit > 0 ? a->limit : INT32_MAX, &rs);
	if (err == KP_OK)
		err = kp_query_cover(q, &a->range, &cover);
	kp_buf_init(&b, OUTPUT_MAX);
	if (err == KP_OK)
		put_slow(&b, a, &rs, &cover);
	st = query_show(q, err, &b);
	kp_query_requests_free(&rs);
	kp_query_close(q);
	return st;
}

int
cmd_slow(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .range = { .until = INT64_MAX }, .limit = LIMIT,
		.outcome = -1 };
	const struct opt opts[] = {
		OPT_N("20, the slowest", a.limit),
		OPTS_RANGE(a.range),
		OPT_SORT("total (default) or time", a.sort, "total,time"),
		{ "outcome", "KIND", "only those that raised, returned, "
		    "...; raised-inside: with a call that raised", opt_choice,
		    &a.outcome, OUTCOMES },
		OPT_JSON(a.json),
		OPT_DB(a.place),
	};
	int st = opts_parse_range(cmd, OPTS(opts), argc, argv, &a.range);

	a.range.outcome = (uint8_t)(a.outcome + KP_RETURNED);
	return st == OPTS_GO_ON ? slow(&a) : st;
}

/* ---- tree ---- */

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
		err = kp_query_related(q, id, &t);
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

	st = opts_parse(cmd, OPTS(opts), argc, argv, &arg);
	if (st != OPTS_GO_ON)
		return st;
	errno = 0;
	id = strtoll(arg, &end, 10);
	if (arg[0] < '0' || arg[0] > '9' || *end != '\0' || errno != 0)
		return opts_wrong(cmd, "the ID '%s' is not a number: kprof "
		    "slow lists them", arg);
	return tree(&p, id, json);
}
