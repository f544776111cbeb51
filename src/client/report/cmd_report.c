/* cmd_report.c - kprof report: where the time of requests goes. */
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "stacks.h"
#include "report/message_waits.h"
#include "report/report_db.h"
#include "report/compare/compare.h"
#include "text/text.h"
#include "text/timefmt.h"

struct args {
	struct place place;
	struct kp_query_range range;
	struct timefmt_range versus;	/* until 0: none was given */
	const char *sort;
	int what;			/* enum report_what; -1: not given */
	bool percentiles, messages, less_tracing, json, csv;
	bool stacks;
	struct stacks_args of_stacks;
};

/* One report, or two to be compared. */
struct reports {
	struct kp_query_range then_range;
	struct report *now, *then;
	char running_why[512];		/* why the running window is not shown */
};

static int
no_such_tier(const struct cmd *cmd, const struct args *a,
    const struct report *r)
{
	const char *near = near_name(a->sort, r->tiers, r->ntiers,
	    sizeof(*r->tiers), NEAR_RULE);

	if (strcmp(a->sort, "change") == 0)
		return opts_wrong(cmd, "-sort 'change': there is no change "
		    "without -versus");
	if (near != NULL)
		return opts_wrong(cmd, "-sort '%s': no such tier: did you mean "
		    "'%s'?", a->sort, near);
	return opts_wrong(cmd, "-sort '%s': no such tier; sort by requests, "
	    "cost, name or a tier of the table", a->sort);
}

/*
 * Appends why a report is empty; of two to be compared, for each that is, since
 * neither may be.
 */
static enum kp_err
explain(const struct args *a, struct kp_query *q, const struct reports *rs,
    struct kp_buf *why)
{
	enum kp_err err = KP_OK;

	if (report_empty(rs->now))
		err = explain_empty(why, q, &a->range, rs->now);
	if (rs->running_why[0] != '\0') {
		text_put(why, rs->running_why);
		kp_buf_u8(why, '\n');
	}
	if (err != KP_OK || rs->then == NULL || !report_empty(rs->then))
		return err;
	kp_buf_str(why, "-versus: ");
	return explain_empty(why, q, &rs->then_range, rs->then);
}

static enum kp_err
write_versus(const struct args *a, const struct reports *rs,
    const struct report_opts *o, struct kp_buf *b)
{
	struct compare *v;
	enum kp_err err = compare_make(&v, rs->now, rs->then);

	if (err != KP_OK)
		return err;
	if (a->sort != NULL && strcmp(a->sort, "change") == 0)
		compare_sort_change(v);
	if (a->json)
		compare_json(b, v, o->what);
	else if (a->csv)
		compare_csv(b, v, o->what);
	else
		compare_table(b, v, o);
	compare_free(v);
	return KP_OK;
}

static enum kp_err
write_figures(const struct args *a, const struct reports *rs,
    struct kp_buf *b)
{
	const struct report_opts o = { .what = (enum report_what)a->what,
		.percentiles = a->percentiles, .width = screen_width() };

	if (rs->then != NULL)
		return write_versus(a, rs, &o, b);
	if (a->json)
		report_json(b, rs->now);
	else if (a->csv)
		report_csv(b, rs->now);
	else
		report_table(b, rs->now, &o);
	return KP_OK;
}

/* An empty report: programs get its format all the same, people the reason. */
static int
write_reports(const struct args *a, struct kp_query *q,
    const struct reports *rs)
{
	bool program = a->json || a->csv;
	struct kp_buf b, why;
	enum kp_err err;

	kp_buf_init(&b, OUTPUT_MAX);
	kp_buf_init(&why, OUTPUT_MAX);
	err = explain(a, q, rs, program ? &why : &b);
	if (err == KP_OK && (program || b.len == 0))
		err = write_figures(a, rs, &b);
	fputs(kp_buf_cstr(&why), stderr);
	kp_buf_free(&why);
	return query_show(q, err, &b);
}

static enum kp_err
read_reports(const struct args *a, struct kp_query *q, struct reports *rs)
{
	enum kp_err err = report_from_db(q, &a->range, true, &rs->now);

	/* ranges are of what is stored */
	if (err == KP_OK && a->range.since == 0 && a->range.until ==
	    INT64_MAX && a->versus.until == 0)
		err = running_report(q, &a->place, &a->range, false, &rs->now,
		    rs->running_why, sizeof(rs->running_why));
	if (err != KP_OK || a->versus.until == 0)
		return err;
	rs->then_range = a->range;
	rs->then_range.since = a->versus.since;
	rs->then_range.until = a->versus.until;
	report_apart(&a->range, rs->now, &rs->then_range);
	return report_from_db(q, &rs->then_range, true, &rs->then);
}

/*
 * Takes what tracing adds out of the reports that are not empty.  False, with
 * a message: it was not measured for one of them.
 */
static bool
less_tracing(const struct args *a, const struct reports *rs)
{
	struct report *const v[] = { rs->now, rs->then };

	for (size_t i = 0; a->less_tracing && i < 2; i++) {
		if (v[i] == NULL || report_empty(v[i]) ||
		    report_less_tracing(v[i]))
			continue;
		say("-less-tracing: what tracing adds was not measured in all "
		    "of this range (report without it shows the times as "
		    "they were)");
		return false;
	}
	return true;
}

/* KP_ENOENT: none of them has the tier to sort by. */
static enum kp_err
sort_reports(const struct args *a, const struct reports *rs)
{
	const char *by = a->sort;
	enum kp_err now, then = KP_ENOENT;

	if (rs->then != NULL && by != NULL && strcmp(by, "change") == 0)
		by = NULL;
	now = report_sort(rs->now, by, (enum report_what)a->what);
	if (rs->then != NULL)
		then = report_sort(rs->then, by, (enum report_what)a->what);
	return now == KP_OK || report_empty(rs->now) ? KP_OK : then;
}

static enum kp_err
write_messages(const struct args *a, struct kp_query *q, struct kp_buf *b)
{
	struct kp_query_waits waits = { 0 };
	struct kp_query_sum cover = { 0 };
	enum kp_err err = kp_query_waits(q, &a->range, &waits);

	if (err == KP_OK)
		err = kp_query_cover(q, &a->range, &cover);
	if (err == KP_OK)
		err = a->json ? messages_json(b, &waits, &cover) :
		    messages_table(b, &waits, &cover, screen_width());
	kp_query_waits_free(&waits);
	kp_query_sum_free(&cover);
	return err;
}

static int
messages(const struct args *a)
{
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err;
	int st;

	if (open_db(&q, &a->place) != KP_OK)
		return EXIT_FAILED;
	kp_buf_init(&b, OUTPUT_MAX);
	err = write_messages(a, q, &b);
	st = query_show(q, err, &b);
	kp_query_close(q);
	return st;
}

static int
report(const struct cmd *cmd, const struct args *a)
{
	struct reports rs = { .now = NULL };
	struct kp_query *q;
	enum kp_err err;
	int st;

	if (open_db(&q, &a->place) != KP_OK)
		return EXIT_FAILED;
	err = read_reports(a, q, &rs);
	if (err != KP_OK)
		st = query_failed(q, err);
	else if (!less_tracing(a, &rs))
		st = EXIT_FAILED;
	else if (sort_reports(a, &rs) != KP_OK)
		st = no_such_tier(cmd, a, rs.now);
	else
		st = write_reports(a, q, &rs);
	report_free(rs.now);
	report_free(rs.then);
	kp_query_close(q);
	return st;
}

/* Programs keep the figure and the order that they have always had. */
static int
what_by_default(const struct args *a)
{
	return a->json || a->csv ? REPORT_BUSY : REPORT_SELF;
}

int
cmd_report(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .range = { .until = INT64_MAX }, .what = -1,
		.of_stacks = STACKS_ARGS };
	const struct opt opts[] = {
		OPT_GROUP("Which requests"),
		OPTS_RANGE(a.range),
		{ "versus", "RANGE", "compare with that range: -2h,-1h",
		    opt_range, &a.versus, NULL },
		OPT_GROUP("What is shown"),
		OPT_WHAT(a.what),
		{ "sort", "KEY", "requests (default), cost (requests x time), "
		    "change, name, or a tier's name", opt_text, &a.sort, NULL },
		{ "percentiles", NULL, "also how long single calls take",
		    opt_flag, &a.percentiles, NULL },
		{ "messages", NULL, "how long messages waited in mailboxes, "
		    "by receiver", opt_flag, &a.messages, NULL },
		{ "less-tracing", NULL, "subtract what tracing itself adds, "
		    "as estimated", opt_flag, &a.less_tracing, NULL },
		{ "stacks", NULL, "where sampled processes were: functions of "
		    "each tier", opt_flag, &a.stacks, NULL },
		OPTS_STACKS(a.of_stacks),
		OPT_GROUP("Form and source"),
		OPT_JSON(a.json),
		{ "csv", NULL, "print CSV: a line for each request type and "
		    "tier", opt_flag, &a.csv, NULL },
		OPT_DB(a.place),
		OPT_CONTROL(a.place),
	};
	int st;

	st = opts_parse_range(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc,
	    argv, &a.range);
	if (a.what < 0)
		a.what = what_by_default(&a);
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &a.place);
	if (st == OPTS_GO_ON && a.json && a.csv)
		st = opts_wrong(cmd, "-json and -csv: choose one");
	if (st == OPTS_GO_ON && a.messages && (a.csv || a.percentiles ||
	    a.less_tracing || a.sort != NULL || a.versus.until != 0))
		st = opts_wrong(cmd, "-messages goes with -json, -db and a "
		    "range alone");
	if (st == OPTS_GO_ON && a.stacks && (a.messages || a.csv ||
	    a.percentiles || a.less_tracing || a.sort != NULL ||
	    a.versus.until != 0))
		st = opts_wrong(cmd, "-stacks goes with -form, -tier, -n, "
		    "-json, -db and a range alone");
	if (st == OPTS_GO_ON)
		st = stacks_check(cmd, &a.of_stacks, a.stacks, a.json);
	if (st != OPTS_GO_ON)
		return st;
	if (a.stacks)
		return stacks_show(cmd, &a.of_stacks, &a.place, &a.range, a.json);
	return a.messages ? messages(&a) : report(cmd, &a);
}
