/* report.c - kprof report: where the time of requests goes. */
#include <stdio.h>
#include <string.h>

#include "kprof.h"
#include "report/report_db.h"

struct args {
	struct place place;
	struct kp_query_range range;
	const char *sort;
	int what;
	bool percentiles, json, csv;
};

static int
no_such_tier(const struct cmd *cmd, const struct args *a,
    const struct report *r)
{
	const char *near = near_name(a->sort, r->tiers, r->ntiers,
	    sizeof(*r->tiers));

	if (near != NULL)
		return opts_wrong(cmd, "-sort '%s': no such tier: did you mean "
		    "'%s'?", a->sort, near);
	return opts_wrong(cmd, "-sort '%s': no such tier; sort by requests, "
	    "name or a tier of the table", a->sort);
}

/* Programs get their format even of nothing, people the reason. */
static int
write_report(const struct args *a, struct kp_query *q, const struct report *r)
{
	const struct report_opts o = { .what = (enum report_what)a->what,
		.percentiles = a->percentiles, .width = screen_width() };
	enum kp_err err = KP_OK;
	struct kp_buf b, why;
	bool program = a->json || a->csv;

	kp_buf_init(&b, OUTPUT_MAX);
	kp_buf_init(&why, OUTPUT_MAX);
	if (report_empty(r))
		err = explain_empty(program ? &why : &b, q, a->place.db,
		    &a->range, r);
	else if (!program)
		report_table(&b, r, &o);
	if (a->json)
		report_json(&b, r);
	if (a->csv)
		report_csv(&b, r);
	fputs(kp_buf_cstr(&why), stderr);
	kp_buf_free(&why);
	if (err == KP_OK)
		return show(&b);
	kp_buf_free(&b);
	return query_failed(q, err);
}

static int
report(const struct cmd *cmd, const struct args *a)
{
	struct report *r;
	struct kp_query *q;
	enum kp_err err;
	int st;

	if (open_db(&q, &a->place) != KP_OK)
		return EXIT_FAILED;
	err = report_from_db(q, &a->range, &r);
	if (err != KP_OK) {
		st = query_failed(q, err);
		kp_query_close(q);
		return st;
	}
	if (report_sort(r, a->sort, (enum report_what)a->what) != KP_OK &&
	    !report_empty(r))
		st = no_such_tier(cmd, a, r);
	else
		st = write_report(a, q, r);
	report_free(r);
	kp_query_close(q);
	return st;
}

int
cmd_report(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .place = { .db = DB_DEFAULT },
		.range = { .until = INT64_MAX } };
	const struct opt opts[] = {
		OPTS_RANGE(a.range),
		{ "what", "FIGURE", "busy (default), self, total, calls or "
		    "async", OPT_CHOICE, &a.what, report_whats },
		{ "sort", "KEY", "by requests (default), name or a tier",
		    OPT_TEXT, &a.sort, NULL },
		{ "percentiles", NULL, "also how long single calls take",
		    OPT_FLAG, &a.percentiles, NULL },
		OPT_JSON(a.json),
		{ "csv", NULL, "print CSV: a line for each identity and tier",
		    OPT_FLAG, &a.csv, NULL },
		OPT_DB(a.place),
	};
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = range_check(cmd, &a.range);
	if (st == OPTS_GO_ON && a.json && a.csv)
		st = opts_wrong(cmd, "-json and -csv: choose one");
	return st == OPTS_GO_ON ? report(cmd, &a) : st;
}
