/* cmd_slow.c - kprof slow: the slow requests that were kept; kprof tree: one of them. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "kprofd/request.h"
#include "export/viewers.h"
#include "report/requests.h"
#include "text/text.h"

#define LIMIT 20
#define NEW_AT_ONCE 16	/* in one output */

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
		    "(default 1); see also -since, -node, -identity, -outcome "
		    "and -trace, and kprof report", screen_width(), 0);
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

#define TRACE_FORM "32 hexadecimal digits in lower case"

static bool
opt_trace(struct opt_parser *p)
{
	*(const char **)p->at->to = p->value;
	return kp_is_trace_id(p->value) || OPT_BAD(p, "'%s' is not a trace id: expected "
	    TRACE_FORM, p->value);
}

int
cmd_slow(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .range = { .until = INT64_MAX }, .limit = LIMIT,
		.outcome = -1 };
	const struct opt opts[] = {
		OPT_N("20, the slowest", a.limit),
		OPTS_RANGE(a.range),
		OPT_TOOK("", a.range),
		OPT_SORT("total (default) or time", a.sort, "total,time"),
		{ "outcome", "KIND", "only those that raised, returned, "
		    "...; raised-inside: with a call that raised", opt_choice,
		    &a.outcome, OUTCOMES },
		{ "trace", "ID", "only those in this trace of the application "
		    "({trace_id, fun ... end} in tiers.conf)", opt_trace,
		    &a.range.trace, NULL },
		OPT_JSON(a.json),
		OPT_DB(a.place),
	};
	int st = opts_parse_range(cmd, OPTS(opts), argc, argv, &a.range);

	a.range.outcome = (uint8_t)(a.outcome + KP_RETURNED);
	return st == OPTS_GO_ON ? slow(&a) : st;
}

/* ---- tree ---- */

static enum kp_err
put_tree(struct kp_buf *b, struct kp_query *q, int64_t id, bool json)
{
	struct request_report rr;
	enum kp_err err = request_from_db(q, id, NULL, &rr);

	if (err != KP_OK)
		return err;
	if (json)
		tree_json(b, &rr);
	else
		tree_text(b, &rr, screen_width());
	request_free(&rr);
	return KP_OK;
}

/* The slowest request of the trace; KP_ENOENT: none was kept. */
static enum kp_err
find_traced(struct kp_query *q, const char *trace, int64_t *id)
{
	const struct kp_query_range all = { .since = INT64_MIN, .until = INT64_MAX,
		.trace = trace };
	struct kp_query_requests rs = { 0 };
	enum kp_err err = kp_query_slow(q, &all, KP_SLOW_TOTAL, NULL, 0, 1, &rs);

	if (err == KP_OK && rs.n == 0)
		err = KP_ENOENT;
	if (err == KP_OK)
		*id = rs.v[0].id;
	kp_query_requests_free(&rs);
	return err;
}

static enum kp_err
put_form(struct kp_buf *b, struct kp_query *q, int64_t id, bool json,
    enum trace_form form)
{
	return form != TRACE_TREE ? trace_from_db(q, id, form, b) :
	    put_tree(b, q, id, json);
}

/* The next ones after *tail; those that were deleted before this reads them are counted. */
static enum kp_err
put_new(struct kp_buf *b, struct kp_query *q, struct kp_request_tail *tail, bool json,
    enum trace_form form, size_t *n)
{
	int64_t ids[NEW_AT_ONCE], newest, gone = 0;
	enum kp_err err = kp_request_tail_next(q, tail, ids, NEW_AT_ONCE, n, &newest);
	size_t len;

	for (size_t i = 0; err == KP_OK && i < *n; i++) {
		len = b->len;
		err = put_form(b, q, ids[i], json, form);
		if (err != KP_OK && b->err == KP_OK)
			b->len = len;
		if (err != KP_OK && err != KP_ENOENT)
			break;
		if (err == KP_OK && form == TRACE_TREE && !json)
			kp_buf_u8(b, '\n');
		gone += ids[i] - 1 - tail->request + (err == KP_ENOENT);
		tail->request = ids[i];
		err = KP_OK;
	}
	if (gone > 0)
		say("slow requests that were deleted before they were read: %" PRId64, gone);
	return err;
}

/* To begin with, the last one that is stored: those after it are new. */
static enum kp_err
find_new(struct kp_query *q, struct kp_request_tail *tail)
{
	int64_t id, newest = 0;
	size_t n;
	enum kp_err err = kp_request_tail_next(q, tail, &id, 1, &n, &newest);

	tail->request = newest;
	return err;
}

/* Looks once.  quiet: what fails was said before. */
static bool
look_for_new(const char *file, struct kp_request_tail *tail, bool begins, bool json,
    enum trace_form form, bool quiet, struct kp_buf *b, size_t *n)
{
	struct kp_query *q;
	enum kp_err err;
	char *why;

	if (kp_query_open(&q, file, &why) != KP_OK) {
		if (!quiet)
			say("%s", why != NULL ? why : "out of memory");
		free(why);
		return false;
	}
	err = begins ? find_new(q, tail) : put_new(b, q, tail, json, form, n);
	if (err != KP_OK && !quiet)
		query_failed(q, err);
	kp_query_close(q);
	return err == KP_OK;
}

/*
 * Each request that is stored from now on, until this is killed or nobody reads.  The file
 * may be another one by then, or for a while none.
 */
static int
tree_new(const struct place *p, bool json, enum trace_form form)
{
	struct pollfd out = { .fd = STDOUT_FILENO };	/* an error ends the waiting */
	struct kp_request_tail tail = { .all = true };
	bool begins = true, ok = true;
	struct kp_buf b;
	size_t n;
	int st;

	do {
		n = 0;
		kp_buf_init(&b, OUTPUT_MAX);
		ok = look_for_new(place_dbs(p).v[0], &tail, begins, json, form, !ok, &b, &n);
		st = show(&b);
		if (st != EXIT_DONE || (begins && !ok))
			return EXIT_FAILED;
		begins = false;
	} while ((ok && n > 0) || poll(&out, 1, 1000) <= 0);
	return EXIT_DONE;
}

/* arg: an id, or that of a trace; id: its number. */
static int
tree(const struct place *p, const char *arg, int64_t id, bool json,
    enum trace_form form)
{
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err = KP_OK;
	char name[512];
	int st = EXIT_FAILED;

	if (open_db(&q, p) != KP_OK)
		return EXIT_FAILED;
	kp_buf_init(&b, OUTPUT_MAX);
	if (kp_is_trace_id(arg))
		err = find_traced(q, arg, &id);
	if (err == KP_OK)
		err = put_form(&b, q, id, json, form);
	if (err == KP_ENOENT)
		say("no request %s in '%s' (kprof slow lists those there are)", arg,
		    place_name(name, sizeof(name), p));
	else
		st = query_show(q, err, &b);
	kp_query_close(q);
	return st;
}

int
cmd_tree(const struct cmd *cmd, int argc, char **argv)
{
	struct place p = { .control = NULL };
	bool json = false;
	int form = TRACE_TREE;
	const struct opt opts[] = {
		{ "form", "FORM", "tree (default); for viewers of traces chrome "
		    "(Perfetto, chrome://tracing), speedscope or otlp, all in JSON",
		    opt_choice, &form, TRACE_FORMS },
		OPT_JSON(json),
		OPT_DB(p),
	};
	const char *arg;
	char *end;
	int64_t id;
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, &arg);
	if (st != OPTS_GO_ON)
		return st;
	if (json && form != TRACE_TREE)
		return opts_wrong(cmd, "-json is for the tree: other forms are JSON "
		    "anyway");
	if (strcmp(arg, "new") == 0)
		return p.dbs.n > 1 ? opts_wrong(cmd, "new is of one database: give one -db") :
		    tree_new(&p, json, (enum trace_form)form);
	errno = 0;
	id = strtoll(arg, &end, 10);
	if (!kp_is_trace_id(arg) && (arg[0] < '0' || arg[0] > '9' || *end != '\0' ||
	    errno != 0))
		return opts_wrong(cmd, "the ID '%s' is not a number, nor the id of a "
		    "trace, " TRACE_FORM ", nor new: kprof slow lists them", arg);
	return tree(&p, arg, id, json, (enum trace_form)form);
}
