/*
 * cmd_report.c - kprof report: where the time of requests goes; with -stacks the
 * functions of each tier; with -changed what is not as it was.
 */
#include <stdio.h>
#include <string.h>

#include "base/near_names.h"
#include "client.h"
#include "report/advice.h"
#include "report/changed.h"
#include "report/compare.h"
#include "report/losses.h"
#include "report/requests.h"
#include "report/slo.h"
#include "report/usage.h"
#include "stacks/stored/stored_stacks.h"
#include "text/text.h"
#include "text/timefmt.h"

/* ---- an empty report ---- */

#define NAMES_MAX 10	/* listed of those that exist */

/* Windows, but no request of this type: looks for other types. */
static enum kp_err
explain_identity(struct kp_buf *b, struct kp_query *q,
    const struct kp_query_range *range, bool *found)
{
	struct kp_query_range any = *range;
	const char *names[NAMES_MAX + 1];
	struct report *r;
	enum kp_err err;
	size_t n = 0;

	any.identity_glob = NULL;
	any.no_intervals = true;
	err = report_from_db(q, &any, &r);
	if (err != KP_OK)
		return err;
	*found = !report_empty(r);
	if (*found) {
		for (size_t i = 1; i < r->nrows && n <= NAMES_MAX; i++)
			names[n++] = r->rows[i].identity;
		kp_buf_str(b, "no request type matches '");
		text_put(b, range->identity_glob);
		kp_buf_str(b, "' (see -identity); ");
		for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
			kp_buf_str(b, i > 0 ? ", " : "there are: ");
			text_put(b, names[i]);
		}
		kp_buf_str(b, n > NAMES_MAX ? ", ...\n" : "\n");
	}
	report_free(r);
	return KP_OK;
}

/* Appends why a report is empty, and what to do. */
static enum kp_err
explain_empty(struct kp_buf *b, struct kp_query *q,
    const struct kp_query_range *range, const struct report *r)
{
	bool others = false;
	enum kp_err err;

	if (r->windows > 0 && r->filtered) {
		err = explain_identity(b, q, range, &others);
		if (err != KP_OK || others)
			return err;
	}
	if (r->windows > 0) {
		kp_buf_str(b, "no request was measured: ");
		timefmt_put_range(b, r->start, r->end);
		kp_buf_u8(b, '\n');
	}
	report_put_running(b, r);
	if (r->running)
		kp_buf_u8(b, '\n');
	report_put_hints(b, r, screen_width());
	if (r->windows > 0)
		losses_text(b, &r->losses, screen_width());
	return KP_OK;
}

/* ---- -stacks ---- */

struct stacks_args {
	int form;		/* index into the choices below; -1: not given */
	const char *tier;
	size_t rows;		/* OPT_UNSET: not given */
	int against;		/* as form */
	bool waits;
};

#define STACKS_ARGS { .form = -1, .rows = OPT_UNSET, .against = -1 }

#define OPTS_STACKS(a) \
	{ "form", "FORM", "-stacks: tree (default), folded, difffolded (of " \
	    "-versus), speedscope or pprof", opt_choice, &(a).form, \
	    "tree,folded,difffolded,speedscope,pprof" }, \
	{ "tier", "NAME", "-stacks: only what is in this tier", opt_text, \
	    &(a).tier, NULL }, \
	{ "against", "OTHERS", "-stacks: the functions that differ, per request, from " \
	    "the other nodes (see -node), types (see -identity) or durations (see " \
	    "-took: slow against fast); of times: -versus", \
	    opt_choice, &(a).against, "nodes,types,durations" }, \
	{ "waits", NULL, "-stacks with -versus or -against: with processes that wait", \
	    opt_flag, &(a).waits, NULL }, \
	OPT_N("all; -stacks: 3, -memory: 15 of each table", (a).rows)

#define ROWS 3
#define VERSUS_ROWS 15
#define MEMORY_ROWS 15

/* The others are those of enum stacks_form. */
#define FORM_TREE ((int)STACKS_JSON)

static enum kp_err
write_form(const struct stacks_args *a, const struct stacks *s,
    const struct stacks *versus, enum stacks_what what, struct kp_buf *b)
{
	const struct stacks_opts o = { .tier = a->tier,
		.rows = a->rows != OPT_UNSET ? a->rows : versus != NULL ?
		VERSUS_ROWS : ROWS, .width = screen_width(), .waits = a->waits };

	if (a->form > FORM_TREE)
		return stacks_put(b, s, versus, (enum stacks_form)a->form);
	return versus != NULL ? stacks_versus_table(b, s, versus, what, &o) :
	    stacks_table(b, s, &o);
}

/* Is it one of the database's, or of those that no tiers.conf has, "_after"? */
static int
check_tier(const struct cmd *cmd, struct kp_query *q, const char *tier)
{
	struct kp_query_tiers tiers = { 0 };
	const char *near;
	int st = OPTS_GO_ON;

	if (tier == NULL || tier[0] == '_' || kp_query_tier(q, tier) == KP_OK)
		return st;
	if (kp_query_tiers(q, &tiers) != KP_OK) {
		say("%s", kp_query_why(q));
		return EXIT_FAILED;
	}
	near = near_name(tier, tiers.v, tiers.n, sizeof(*tiers.v), NEAR_RULE);
	if (near != NULL)
		st = opts_wrong(cmd, "-tier '%s': no such tier: did you mean "
		    "'%s'?", tier, near);
	else
		st = opts_wrong(cmd, "-tier '%s': no such tier; kprof report "
		    "shows them", tier);
	kp_query_tiers_free(&tiers);
	return st;
}

/*
 * Prints the report.  Programs get their format in any case, people on stderr why it
 * is empty.
 */
static int
stacks_show(const struct cmd *cmd, const struct stacks_args *a,
    const struct place *place, const struct kp_query_range *range,
    const struct timefmt_range *time, bool json)
{
	const struct stacks_against with = { a->against < 0 ? STACKS_TIME :
		STACKS_NODES + (unsigned)a->against, *time };
	struct stacks *s = NULL, *versus = NULL;
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err;
	int st;

	if (open_db(&q, place) != KP_OK)
		return EXIT_FAILED;
	st = check_tier(cmd, q, a->tier);
	if (st != OPTS_GO_ON) {
		kp_query_close(q);
		return st;
	}
	kp_buf_init(&b, OUTPUT_MAX);
	err = stacks_from_db(q, range, KP_QUERY_STACKS_MAX, &s);
	if (err == KP_OK && (a->against >= 0 || time->until != 0))
		err = stacks_against_from_db(q, range, s, &with,
		    KP_QUERY_STACKS_MAX, &versus);
	if (err == KP_OK && json)
		stacks_json(&b, s, versus);
	else if (err == KP_OK)
		err = write_form(a, s, versus, with.what, &b);
	if (err == KP_OK && s->why != NULL && (json || a->form > FORM_TREE))
		say("%s", s->why);
	st = query_show(q, err, &b);
	stacks_free(versus);
	stacks_free(s);
	kp_query_close(q);
	return st;
}

/* ---- figures ---- */

struct args {
	struct place place;
	struct kp_query_range range;
	struct timefmt_range versus;	/* until 0: none was given */
	const char *sort;
	int what;			/* enum report_what; -1: not given */
	int by;				/* 1: node; -1: not given */
	bool percentiles, messages, less_tracing, json, csv;
	bool stacks, memory, changed, slo;
	struct stacks_args of_stacks;
};

/* One report, or two to be compared. */
struct reports {
	struct kp_query_range then_range;
	struct kp_query_waits queues;	/* of now, for people */
	struct report *now, *then;
	char running_why[512];		/* why the running window is not shown */
};

/* The key of -sort, without the dash of the other order; NULL: none is given. */
static const char *
sort_key(const struct args *a)
{
	return a->sort != NULL && a->sort[0] == '-' ? a->sort + 1 : a->sort;
}

static int
no_such_tier(const struct cmd *cmd, const struct args *a,
    const struct report *r)
{
	const char *near = near_name(sort_key(a), r->tiers, r->ntiers,
	    sizeof(*r->tiers), NEAR_RULE);

	if (strcmp(sort_key(a), "change") == 0)
		return opts_wrong(cmd, "-sort 'change': there is no change "
		    "without -versus");
	if (near != NULL)
		return opts_wrong(cmd, "-sort '%s': no such tier: did you mean "
		    "'%s'?", a->sort, near);
	return opts_wrong(cmd, "-sort '%s': no such tier; sort by requests, "
	    "total, cost, name or a tier of the table (kprof top sorts by p99 and "
	    "errors, too)",
	    a->sort);
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

/* Leaves the rows of -n, and that of all requests; returns how many it takes away. */
static size_t
cut_rows(const struct args *a, size_t *nrows)
{
	size_t n = a->of_stacks.rows, before = *nrows;

	if (n == OPT_UNSET || n == 0 || n + 1 >= before)
		return 0;
	*nrows = n + 1;
	return before - *nrows;
}

static void
put_left(const struct args *a, size_t left, struct kp_buf *b)
{
	char n[TEXT_MAX];

	if (left > 0 && !a->json && !a->csv)
		kp_buf_printf(b, "\nnot shown: %s (see -n)\n", text_counted(n,
		    left, "request type"));
}

static enum kp_err
write_versus(const struct args *a, const struct reports *rs,
    const struct report_opts *o, struct kp_buf *b)
{
	struct compare *v;
	size_t left;
	enum kp_err err = compare_make(&v, rs->now, rs->then);

	if (err != KP_OK)
		return err;
	if (a->sort == NULL || strcmp(sort_key(a), "change") == 0)
		compare_sort_change(v, a->sort != NULL && a->sort[0] == '-');
	left = cut_rows(a, &v->nrows);
	if (a->json)
		compare_json(b, v, o->what);
	else if (a->csv)
		compare_csv(b, v, o->what);
	else
		compare_table(b, v, o);
	put_left(a, left, b);
	compare_free(v);
	return KP_OK;
}

static enum kp_err
write_figures(const struct args *a, const struct reports *rs,
    struct kp_buf *b)
{
	const struct report_opts o = { .what = (enum report_what)a->what,
		.percentiles = a->percentiles, .width = screen_width(),
		.keep = sort_key(a), .queues = &rs->queues };
	size_t left;

	if (rs->then != NULL)
		return write_versus(a, rs, &o, b);
	left = cut_rows(a, &rs->now->nrows);
	if (a->json)
		report_json(b, rs->now);
	else if (a->csv)
		report_csv(b, rs->now);
	else
		report_table(b, rs->now, &o);
	rs->now->nrows += left;
	put_left(a, left, b);
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

/* Programs get them in JSON alone, unless they are why a report is empty. */
static void
read_hints(const struct args *a, struct kp_query *q,
    const struct kp_query_range *range, struct report *r)
{
	if (!a->csv || report_empty(r))
		report_hints(q, range, r);
}

static enum kp_err
read_reports(const struct args *a, struct kp_query *q, struct reports *rs)
{
	enum kp_err err = report_from_db(q, &a->range, &rs->now);

	/* ranges are of what is stored */
	if (err == KP_OK && a->range.since == 0 && a->range.until ==
	    INT64_MAX && a->versus.until == 0 && !a->range.by_node)
		err = running_report(q, &a->place, &a->range, false, &rs->now,
		    rs->running_why, sizeof(rs->running_why));
	if (err == KP_OK)
		read_hints(a, q, &a->range, rs->now);
	if (err == KP_OK && !a->json && !a->csv && a->versus.until == 0)
		err = kp_query_waits(q, &a->range, KP_QUEUE, &rs->queues);
	if (err != KP_OK || a->versus.until == 0)
		return err;
	rs->then_range = a->range;
	rs->then_range.since = a->versus.since;
	rs->then_range.until = a->versus.until;
	report_apart(&a->range, rs->now->start, rs->now->end, &rs->then_range);
	err = report_from_db(q, &rs->then_range, &rs->then);
	if (err == KP_OK)
		read_hints(a, q, &rs->then_range, rs->then);
	return err;
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

	if (rs->then != NULL && by != NULL && strcmp(sort_key(a), "change") == 0)
		by = NULL;
	now = report_sort(rs->now, by, (enum report_what)a->what);
	if (rs->then != NULL)
		then = report_sort(rs->then, by, (enum report_what)a->what);
	return now == KP_OK || report_empty(rs->now) ? KP_OK : then;
}

/* ---- reports of other things than request types ---- */

typedef enum kp_err put_fn(const struct args *a, struct kp_query *q, struct kp_buf *b);

static enum kp_err
put_messages(const struct args *a, struct kp_query *q, struct kp_buf *b)
{
	struct kp_query_waits waits = { 0 };
	struct kp_query_sum cover = { 0 };
	enum kp_err err = kp_query_waits(q, &a->range, NULL, &waits);

	if (err == KP_OK)
		err = kp_query_cover(q, &a->range, &cover);
	if (err == KP_OK)
		err = a->json ? messages_json(b, &waits, &cover) :
		    messages_table(b, &waits, &cover, screen_width());
	kp_query_waits_free(&waits);
	kp_query_sum_free(&cover);
	return err;
}

static enum kp_err
put_memory(const struct args *a, struct kp_query *q, struct kp_buf *b)
{
	struct kp_query_usage usage = { 0 };
	enum kp_err err = kp_query_usage(q, &a->range, &usage);
	struct json j;

	if (err == KP_OK && a->json) {
		json_open(&j, b);
		usage_json(&j, &usage);
		json_close(&j);
	} else if (err == KP_OK) {
		err = usage_tables(b, &usage, a->of_stacks.rows == OPT_UNSET ?
		    MEMORY_ROWS : a->of_stacks.rows, screen_width());
	}
	kp_query_usage_free(&usage);
	return err;
}

static enum kp_err
put_changes(const struct args *a, struct kp_query *q, struct kp_buf *b)
{
	struct changes c = { 0 };
	enum kp_err err = changes_from_db(q, &a->range, &c);

	if (err == KP_OK && a->json)
		changes_json(b, &c);
	else if (err == KP_OK)
		changes_text(b, &c, screen_width());
	changes_free(&c);
	return err;
}

static enum kp_err
put_slo(const struct args *a, struct kp_query *q, struct kp_buf *b)
{
	struct slo s;
	enum kp_err err = slo_from_db(q, &a->range, &s);

	if (err != KP_OK)
		return err;
	if (a->json)
		slo_json(b, &s);
	else
		slo_text(b, &s, screen_width());
	slo_free(&s);
	return KP_OK;
}

static int
show_put(const struct args *a, put_fn *put)
{
	struct kp_query *q;
	struct kp_buf b;
	int st;

	if (open_db(&q, &a->place) != KP_OK)
		return EXIT_FAILED;
	kp_buf_init(&b, OUTPUT_MAX);
	st = query_show(q, put(a, q, &b), &b);
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
	kp_query_waits_free(&rs.queues);
	kp_query_close(q);
	return st;
}

/* Returns OPTS_GO_ON, or EXIT_USAGE with a message. */
static int
stacks_check(const struct cmd *cmd, const struct args *a)
{
	const struct stacks_args *o = &a->of_stacks;
	bool given = o->form >= 0 || o->tier != NULL || o->against >= 0 || o->waits ||
	    a->range.took_to > 0;
	bool versus = o->against >= 0 || a->versus.until != 0;

	if (!a->stacks && given)
		return opts_wrong(cmd, "-form, -tier, -took, -against and -waits go "
		    "with -stacks");
	if (a->stacks && a->json && (o->form >= 0 || o->tier != NULL || o->waits ||
	    o->rows != OPT_UNSET))
		return opts_wrong(cmd, "-json has all stacks: it goes without "
		    "-form, -tier, -waits and -n");
	if (o->form > FORM_TREE && (o->tier != NULL || o->rows != OPT_UNSET))
		return opts_wrong(cmd, "-form folded, difffolded, speedscope and "
		    "pprof have all stacks: they go without -tier and -n");
	if (a->stacks && versus && o->form >= 0 && o->form != (int)STACKS_DIFFFOLDED)
		return opts_wrong(cmd, "-versus and -against have a form of their "
		    "own: they go without -form, or with -form difffolded");
	if (o->form == (int)STACKS_DIFFFOLDED && !versus)
		return opts_wrong(cmd, "-form difffolded needs the other side: "
		    "-versus or -against");
	if (o->waits && !versus)
		return opts_wrong(cmd, "-waits goes with -versus or -against: "
		    "without these waits are shown");
	if (o->against == 0 && a->range.node == NULL)
		return opts_wrong(cmd, "-against nodes: -node says which are compared "
		    "with the others");
	if (o->against == 2 && a->range.took_to == 0)
		return opts_wrong(cmd, "-against durations: -took says which are "
		    "compared with the others: -took 250ms");
	if (o->against == 1 && a->range.identity_glob == NULL)
		return opts_wrong(cmd, "-against types: -identity says which are "
		    "compared with the others");
	return OPTS_GO_ON;
}

int
cmd_report(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .range = { .until = INT64_MAX }, .what = -1, .by = -1,
		.of_stacks = STACKS_ARGS };
	const struct opt opts[] = {
		OPT_GROUP("Which requests"),
		OPTS_RANGE(a.range),
		{ "versus", "RANGE", "compare with that range: -2h,-1h",
		    opt_range, &a.versus, NULL },
		OPT_GROUP("What is shown"),
		{ "changed", NULL, "what got slower, or fails more often, since when, in "
		    "which tier, on which node, after which event", opt_flag,
		    &a.changed, NULL },
		{ "slo", NULL, "how the objectives of tiers.conf were met: {slo, "
		    "[{\"GET /orders\", 200, 99.9}]}", opt_flag, &a.slo, NULL },
		{ "by", "KEY", "a row for each identity (default) or node", opt_choice,
		    &a.by, "identity,node" },
		OPT_WHAT(a.what),
		{ "sort", "KEY", "in order of requests (default), total (the time of "
		    "one), cost (requests x time), name, or a tier; with -versus: "
		    "change (default); -KEY: the other way round", opt_text, &a.sort, NULL },
		{ "percentiles", NULL, "also how long single calls take",
		    opt_flag, &a.percentiles, NULL },
		{ "messages", NULL, "how long messages waited in mailboxes, "
		    "by receiver", opt_flag, &a.messages, NULL },
		{ "less-tracing", NULL, "subtract what tracing itself adds, "
		    "as estimated", opt_flag, &a.less_tracing, NULL },
		{ "stacks", NULL, "where sampled processes were: functions of "
		    "each tier", opt_flag, &a.stacks, NULL },
		{ "memory", NULL, "mailboxes and memory of processes, ETS "
		    "tables and the node, as last seen, and how it has grown",
		    opt_flag, &a.memory, NULL },
		OPT_TOOK("-stacks: ", a.range),
		OPTS_STACKS(a.of_stacks),
		OPT_GROUP("Form and source"),
		OPT_JSON(a.json),
		{ "csv", NULL, "print CSV: a line for each request type and "
		    "tier", opt_flag, &a.csv, NULL },
		OPT_DB(a.place),
		OPT_CONTROL(a.place),
	};
	int st;

	st = opts_parse_range(cmd, OPTS(opts), argc, argv, &a.range);
	if (st == OPTS_GO_ON && a.changed && (a.messages || a.stacks || a.memory ||
	    a.csv || a.percentiles || a.less_tracing || a.sort != NULL || a.by >= 0 ||
	    a.what >= 0 || a.of_stacks.rows != OPT_UNSET || a.versus.until != 0))
		st = opts_wrong(cmd, "-changed goes with -json, -db, -node, "
		    "-identity and a range alone");
	if (st == OPTS_GO_ON && a.slo && (a.changed || a.messages || a.stacks ||
	    a.memory || a.csv || a.percentiles || a.less_tracing || a.sort != NULL ||
	    a.what >= 0 || a.of_stacks.rows != OPT_UNSET || a.versus.until != 0 ||
	    a.range.identity_glob != NULL))
		st = opts_wrong(cmd, "-slo goes with -by, -json, -db, -node and a range "
		    "alone");
	/* programs keep the figure that they have always had */
	if (a.what < 0)
		a.what = a.json || a.csv ? REPORT_BUSY : REPORT_SELF;
	a.range.by_node = a.by == 1;
	if (st == OPTS_GO_ON && a.by >= 0 && (a.messages || a.stacks || a.memory))
		st = opts_wrong(cmd, "-by goes without -messages, -stacks and "
		    "-memory");
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &a.place);
	if (st == OPTS_GO_ON && a.json && a.csv)
		st = opts_wrong(cmd, "-json and -csv: choose one");
	if (st == OPTS_GO_ON && a.messages && (a.csv || a.percentiles ||
	    a.less_tracing || a.sort != NULL || a.of_stacks.rows != OPT_UNSET ||
	    a.versus.until != 0))
		st = opts_wrong(cmd, "-messages goes with -json, -db and a "
		    "range alone");
	if (st == OPTS_GO_ON && a.memory && (a.messages || a.stacks || a.csv ||
	    a.percentiles || a.less_tracing || a.sort != NULL ||
	    a.range.identity_glob != NULL || a.versus.until != 0))
		st = opts_wrong(cmd, "-memory goes with -n, -json, -db, -node and "
		    "a range alone");
	if (st == OPTS_GO_ON && a.stacks && (a.messages || a.csv ||
	    a.percentiles || a.less_tracing || a.sort != NULL))
		st = opts_wrong(cmd, "-stacks goes with -form, -tier, -took, "
		    "-n, -versus, -against, -json, -db and a range alone");
	if (st == OPTS_GO_ON)
		st = stacks_check(cmd, &a);
	if (st != OPTS_GO_ON)
		return st;
	if (a.memory)
		return show_put(&a, put_memory);
	if (a.changed)
		return show_put(&a, put_changes);
	if (a.slo)
		return show_put(&a, put_slo);
	if (a.stacks)
		return stacks_show(cmd, &a.of_stacks, &a.place, &a.range, &a.versus,
		    a.json);
	return a.messages ? show_put(&a, put_messages) : report(cmd, &a);
}
