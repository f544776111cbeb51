/* test_options.c - the table of options and its parser; kprofd's own table. */
#include "cases.h"
#include "text/options.h"
#include "daemon/options.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Where the values of the table go. */
static struct got {
	bool quiet;
	const char *file;
	size_t count, number;
	int sort;
	struct opt_list list;
	kp_wall_ns when;
	const char *states;
	struct opt_order order;
} got;

/* A program's own kind: it gets the time, and says nothing. */
static bool
opt_ago(struct opt_parser *p)
{
	*(kp_wall_ns *)p->at->to = p->now - atoi(p->value);
	return p->value[0] != '-';
}

static const struct opt table[] = {
	{ "", NULL, "", opt_list, &got.list, NULL },
	{ "quiet", NULL, "print nothing", opt_flag, &got.quiet, NULL },
	{ "file", "FILE", "read it", opt_text, &got.file, NULL },
	{ "n", "N", "so many", opt_count, &got.count, NULL },
	{ "least", "N", "this much", opt_number, &got.number, NULL },
	{ "sort", "KEY", "in this order", opt_choice, &got.sort,
	    "name,time,nam" },
	{ "db", "FILE", "databases", opt_list, &got.list, NULL },
	{ "ago", "T", "before now", opt_ago, &got.when, NULL },
	{ "cookie-file", "FILE", "the cookie", opt_text, &got.file, NULL },
	{ "states", "LIST", "these", opt_commas, &got.states, NULL },
	{ "analysis", "LIST", "parts", opt_commas, &got.states, NULL },
	{ "order", "KEY", "in this order", opt_sort, &got.order, "name,time" },
};

/* What is said of these arguments, at most two; "" when they are right. */
static const char *
said(bool good, const char *one, const char *two)
{
	static char why[256];
	char *argv[] = { (char *)one, (char *)two, NULL };
	struct opt_parser p = { .table = table, .n = LEN(table),
		.near = { .edits = 2, .kept = 1 }, .now = 1000 };
	int i = 0;

	got = (struct got){ .sort = -1 };
	kp_buf_init(&p.why, OPT_WHY_MAX);
	assert_int_equal(opt_take(&p, argv, &i), good);
	if (good)
		assert_int_equal(i, two != NULL);
	snprintf(why, sizeof(why), "%s", kp_buf_cstr(&p.why));
	kp_buf_free(&p.why);
	return why;
}

static void
right(const char *one, const char *two)
{
	assert_string_equal(said(true, one, two), "");
}

static void
bad(const char *one, const char *why)
{
	assert_string_equal(said(false, one, NULL), why);
}

TEST(test_spellings)
{
	static const char *const forms[][2] = {
		{ "-file", "a=b" }, { "--file", "a=b" },
		{ "-file=a=b", NULL }, { "--file=a=b", NULL },
	};

	for (size_t i = 0; i < LEN(forms); i++) {
		right(forms[i][0], forms[i][1]);
		assert_string_equal(got.file, "a=b");
	}
	/* the next argument is the value, whatever it looks like */
	right("-file", "-quiet");
	assert_string_equal(got.file, "-quiet");
	assert_false(got.quiet);
	right("-quiet", NULL);
	assert_true(got.quiet);
	right("--quiet", NULL);
	assert_true(got.quiet);
	right("-ago=7", NULL);
	assert_int_equal(got.when, 993);
	assert_true(opt_is("-h", "h") && opt_is("--h", "h"));
	assert_false(opt_is("h", "h") || opt_is("-h=", "h") ||
	    opt_is("---h", "h") || opt_is("-", "h") || opt_is("", "h"));
}

TEST(test_wrong)
{
	static const char *const unknown[][2] = {
		{ "-fiel", "unknown option '-fiel': did you mean '-file'?" },
		{ "--fil=x", "unknown option '-fil': did you mean '-file'?" },
		{ "-files", "unknown option '-files': did you mean '-file'?" },
		{ "-bd", "unknown option '-bd': did you mean '-db'?" },
		/* as many edits as the name has letters */
		{ "-x", "unknown option '-x'" },
		{ "-xy", "unknown option '-xy'" },
		{ "-quxyz", "unknown option '-quxyz'" },
		{ "-", "unknown option '-'" },
		{ "--", "unknown option '-'" },
		/* not the arguments, whose name is empty */
		{ "-=x", "unknown option '-'" },
	};

	for (size_t i = 0; i < LEN(unknown); i++)
		assert_string_equal(said(false, unknown[i][0], NULL),
		    unknown[i][1]);
	assert_string_equal(said(false, "-quiet=", NULL),
	    "option '-quiet' takes no value");
	assert_false(got.quiet);
	assert_string_equal(said(false, "--file", NULL),
	    "option '-file' needs a value: FILE");
	bad("-file=", "-file: the FILE is empty");
	/* a kind that says nothing leaves the words to the program */
	bad("-ago=-1", "");
}

/* An argument that is none looks like the value of an option that the table has. */
TEST(test_unexpected)
{
	static const char *const v[][2] = {
		{ "kprofd.db", ": did you mean '-db kprofd.db'?" },
		{ "42", ": did you mean '-n 42'?" },
		{ "stray", "" },
		{ "app@host", "" },	/* no -target here, nor -node */
		{ "30m", "" }, { "", "" }, { ".conf", "" },
	};
	struct opt_parser p = { .table = table, .n = LEN(table) };
	char want[128];

	for (size_t i = 0; i < LEN(v); i++) {
		kp_buf_init(&p.why, OPT_WHY_MAX);
		opt_unexpected(&p, v[i][0]);
		snprintf(want, sizeof(want), "unexpected argument '%s'%s", v[i][0],
		    v[i][1]);
		assert_string_equal(kp_buf_cstr(&p.why), want);
		kp_buf_free(&p.why);
	}
	bad("-database=x", "unknown option '-database': did you mean '-db'?");
	bad("-limit", "unknown option '-limit': did you mean '-n'?");
}

/* A secret on the command line is refused, not repeated, and helped on. */
TEST(test_cookie)
{
	static const char *const given[] = { "-cookie", "--cookie=SECRET",
		"-setcookie" };
	const char *why;

	for (size_t i = 0; i < LEN(given); i++) {
		why = said(false, given[i], "SECRET");
		assert_has(why, "-cookie-file FILE");
		assert_has(why, "$KPROFD_COOKIE_FILE");
		assert_lacks(why, "SECRET");
	}
}

/* Longer than any name: it is told as it is. */
TEST(test_long)
{
	char name[201], want[256];

	memset(name, 'f', sizeof(name) - 1);
	name[0] = '-';
	name[sizeof(name) - 1] = '\0';
	snprintf(want, sizeof(want), "unknown option '%s'", name);
	assert_string_equal(said(false, name, NULL), want);
}

/* What kprofd counts as near: in proportion to what was given. */
TEST(test_near_share)
{
	static const char *const names[] = { "log", "target-file", "db" };
	struct near_rule rule = { .edits = 3, .share = 2 };

#define NEAR(s) near_name(s, names, LEN(names), sizeof(names[0]), rule)
	assert_string_equal(NEAR("trgetfil"), "target-file");
	assert_string_equal(NEAR("logger"), "log");
	assert_null(NEAR("logge1x"));
	assert_string_equal(NEAR("bd"), "db");
	assert_null(NEAR("b"));
	assert_null(NEAR("lxy"));
	assert_null(NEAR(""));
#undef NEAR
}

TEST(test_numbers)
{
	static const char *const no[] = { "-n=0", "-n=1000000001", "-n=-1",
		"-n= 1", "-n=+1", "-n=1x", "-n=", "-n=18446744073709551617" };
	char want[128];

	right("-n=1", NULL);
	assert_int_equal(got.count, 1);
	right("-n", "1000000000");
	assert_int_equal(got.count, OPT_COUNT_MAX);
	right("-least=0", NULL);
	assert_int_equal(got.number, 0);
	right("-least=007", NULL);
	assert_int_equal(got.number, 7);
	for (size_t i = 0; i < LEN(no); i++) {
		snprintf(want, sizeof(want), "-n '%s': not a number from 1 to "
		    "1000000000", no[i] + 3);
		bad(no[i], want);
		assert_int_equal(got.count, 0);
	}
	bad("-least=1000000001", "-least '1000000001': not a number from 0 to "
	    "1000000000");
}

TEST(test_choice)
{
	right("-sort=name", NULL);
	assert_int_equal(got.sort, 0);
	right("-sort=time", NULL);
	assert_int_equal(got.sort, 1);
	right("-sort=nam", NULL);
	assert_int_equal(got.sort, 2);
	bad("-sort=na", "-sort 'na': choose one of name,time,nam");
	bad("-sort=name,time", "-sort 'name,time': choose one of "
	    "name,time,nam");
	bad("-sort=", "-sort '': choose one of name,time,nam");
	assert_int_equal(got.sort, -1);
}

TEST(test_order)
{
	right("-order=time", NULL);
	assert_true(got.order.key == 1 && !got.order.reverse);
	right("-order", "-name");
	assert_true(got.order.key == 0 && got.order.reverse);
	bad("-order=-", "-order '-': choose one of name,time (-KEY is the other "
	    "way round)");
	bad("-order=--name", "-order '--name': choose one of name,time (-KEY is "
	    "the other way round)");
}

/* What an option was called before works, and says so; what is gone says why. */
TEST(test_old_names)
{
	assert_string_equal(said(true, "-totals", NULL),
	    "-totals is called -analysis totals now");
	assert_string_equal(got.states, "totals");
	assert_string_equal(said(true, "--no-callers", NULL),
	    "-no-callers is called -analysis no-callers now");
	bad("-totals=x", "option '-totals' takes no value");
	bad("-reverse", "there is no option -reverse any more: -sort -KEY is the "
	    "other way round");
	bad("-cols=80", "there is no option -cols any more: an analysis is as "
	    "wide as the terminal, or as $COLUMNS");
	/* only of those that have what takes its place */
	bad("-yes", "unknown option '-yes'");
	bad("-max-rows=3", "unknown option '-max-rows'");
}

/*
 * A report of -node A -node B once was B's alone, without a word.  Given again,
 * a list has all in their order, and a flag is set; all others are refused.
 */
TEST(test_repeated)
{
	char *argv[] = { "-db=a", "-n=1", "--db", "b", "-quiet", "--quiet",
		"-states=x,y", "-states", "z", "-least=1", NULL };
	static const char *const twice[][2] = {
		{ "-n=1", "-n is given twice: give it once" },
		{ "--least=1", "-least is given twice: give it once" },
		{ "-file=x", "" },
		{ "-file=x", "-file is given twice: give it once" },
		{ "-sort=name", "" },
		{ "-sort=time", "-sort is given twice: give it once" },
		{ "-ago=1", "" },
		{ "-ago=1", "-ago is given twice: give it once" },
	};
	struct opt_parser p = { .table = table, .n = LEN(table) };
	char *one[2] = { NULL };

	got = (struct got){ .sort = 0 };
	kp_buf_init(&p.why, OPT_WHY_MAX);
	for (int i = 0; argv[i] != NULL; i++)
		assert_true(opt_take(&p, argv, &i));
	assert_fields(got, IS(list.n, 2) IS(list.v[0], "a") IS(list.v[1], "b")
	    IS(states, "x,y,z"));
	assert_true(got.quiet);
	for (size_t k = 0; k < LEN(twice); k++) {
		int i = 0;

		one[0] = (char *)(uintptr_t)twice[k][0];
		p.why.len = 0;
		assert_int_equal(opt_take(&p, one, &i), twice[k][1][0] == '\0');
		assert_string_equal(kp_buf_cstr(&p.why), twice[k][1]);
	}
	p.why.len = 0;
	p.value = "c";
	while (got.list.n < OPT_LIST_MAX) {
		p.at = &table[6];
		assert_true(p.at->convert(&p));
	}
	assert_false(p.at->convert(&p));
	assert_string_equal(kp_buf_cstr(&p.why), "more than 256 times a FILE");
	assert_int_equal(got.list.n, OPT_LIST_MAX);
	kp_buf_free(&p.why);
	bad("-db=", "a FILE is empty");
	assert_int_equal(got.list.n, 0);
	bad("-states=", "-states: the LIST is empty");
}

TEST(test_help)
{
	static const struct opt rows[] = {
		OPT_GROUP("First"),
		{ .name = "a-name-of-its-own", .arg = "FILE", .help = "wide" },
		OPT_GROUP("Second"),
		{ .name = "n", .help = "words that need more than the fifty-six "
		    "columns which a line has" },
		OPT_ELSEWHERE("(others)", "see another page"),
		{ .name = "other", .help = "on another page" },
	};
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	opt_help(&b, table, 3);
	opt_help(&b, rows, LEN(rows));
	assert_string_equal(kp_buf_cstr(&b),
	    "  -quiet                print nothing\n"
	    "  -file FILE            read it\n"
	    "First:\n"
	    "  -a-name-of-its-own FILE wide\n"
	    "\nSecond:\n"
	    "  -n                    words that need more than the fifty-six "
	    "columns which a\n"
	    "                        line has\n"
	    "  (others)              see another page\n");
	kp_buf_free(&b);
}

/* kprofd takes both spellings, too. */
TEST(test_kprofd)
{
	char *argv[] = { "kprofd", "-target=a@b", "--target", "c@d",
		"-tiers=t.conf", "--interval=5s", "-log=json", "-probe=native",
		"-max-db-size=0", "-requests=5000000000", "-verbose",
		"-dump-file=x.jsonl", NULL };
	char *wrong[] = { "kprofd", "-verbose=1", NULL };
	char *port[] = { "kprofd", "-target=a@b", "-tiers=t.conf",
		"-http=4711", NULL };
	char *no_port[] = { "kprofd", "-target=a@b", "-tiers=t.conf",
		"-http=localhost", NULL };
	char *both[] = { "kprofd", "-target=a@b", "-tiers=t.conf", "-quiet",
		"-verbose", NULL };
	char *twice[] = { "kprofd", "-target=a@b", "-target=a@b",
		"-target=c@d", "-tiers=t.conf", "-tiers=u.conf", NULL };
	char *sent[] = { "kprofd", "-target=a@b", "-tiers=t.conf",
		"-probe-library=/theirs.so", "-probe-send", NULL };
	char *relay[] = { "kprofd", "-target=a@b", "-tiers=t.conf",
		"-probe=relay", "-probe-send", NULL };
	struct options *o = malloc(sizeof(*o));

	assert_non_null(o);
	assert_int_equal(options_parse(o, LEN(argv) - 1, argv), 0);
	assert_fields(*o, IS(ntargets, 2) IS(targets[0], "a@b")
	    IS(targets[1], "c@d") IS(tiers, "t.conf"));
	assert_true(o->interval == 5 * KP_NS_PER_S);
	assert_fields(*o, IS(log_json, 1) IS(probe, AGENT_NATIVE));
	assert_true(o->requests == 5000000000);
	assert_int_equal(o->max_db, 0);
	assert_true(o->verbose && o->dump_json && !o->check);
	assert_string_equal(o->control_path, "kprofd.db.sock");
	assert_int_equal(options_parse(o, LEN(wrong) - 1, wrong), 2);
	assert_int_equal(options_parse(o, LEN(port) - 1, port), 0);
	assert_string_equal(o->web.addr, "4711");
	assert_int_equal(options_parse(o, LEN(no_port) - 1, no_port), 2);
	assert_int_equal(options_parse(o, LEN(both) - 1, both), 2);
	assert_int_equal(options_parse(o, LEN(twice) - 1, twice), 2);
	assert_int_equal(options_parse(o, LEN(twice) - 2, twice), 0);
	assert_int_equal(o->ntargets, 2);
	assert_int_equal(options_parse(o, LEN(sent) - 1, sent), 0);
	assert_true(o->probe_send);
	/* What is sent is ours, wherever theirs is. */
	assert_string_equal(o->probe_library, "/theirs.so");
	assert_has(o->library_path, "/kprof_probe.so");
	assert_int_equal(options_parse(o, LEN(relay) - 1, relay), 2);
	free(o);
}

/* A node that is named twice is one target, with the port that it was given. */
TEST(test_target_ports)
{
	char *argv[] = { "kprofd", "-tiers=t", "-target", "a@h", "-target",
		"a@h:4370", "-target", "a@h", "-target", "b@[::1]:1",
		"-target", "b@::1", NULL };
	char *two[] = { "kprofd", "-tiers=t", "-target", "a@h:1", "-target",
		"a@h:2", NULL };
	char *bad[] = { "kprofd", "-tiers=t", "-target", "a@h:0", NULL };
	struct options *o = malloc(sizeof(*o));

	assert_non_null(o);
	assert_int_equal(options_parse(o, LEN(argv) - 1, argv), 0);
	assert_fields(*o, IS(ntargets, 2) IS(targets[0], "a@h:4370")
	    IS(targets[1], "b@[::1]:1"));
	assert_int_equal(options_parse(o, LEN(two) - 1, two), 2);
	assert_int_equal(options_parse(o, LEN(bad) - 1, bad), 2);
	free(o);
}

/* A check by the kprofd that is attached, and what checks ignore. */
TEST(test_check_control)
{
	static const struct {
		int status;
		char *argv[10];
	} all[] = {
		{ 0, { "kprofd", "-check", "-tiers", "t", "-control", "s" } },
		{ 0, { "kprofd", "-check", "-tiers", "t", "-control", "s",
		    "-target", "a@b" } },
		{ 0, { "kprofd", "-check", "-tiers", "t", "-control", "s",
		    "-duration", "5s" } },
		{ 2, { "kprofd", "-check", "-tiers", "t", "-control", "s",
		    "-duration", "5ms" } },
		{ 2, { "kprofd", "-check", "-tiers", "t", "-control", "s",
		    "-target", "a@b", "-explain" } },
		/* the command line of a profile */
		{ 0, { "kprofd", "-check", "-tiers", "t", "-control", "s",
		    "-name", "me" } },
		{ 0, { "kprofd", "-check", "-tiers", "t", "-db", "x" } },
	};
	struct options *o = malloc(sizeof(*o));
	int n;

	assert_non_null(o);
	for (size_t i = 0; i < LEN(all); i++) {
		for (n = 0; all[i].argv[n] != NULL; n++)
			;
		assert_int_equal(options_parse(o, n, (char **)all[i].argv),
		    all[i].status);
		assert_string_equal(o->control_path, i < LEN(all) - 1 ? "s" :
		    "x.sock");
	}
	free(o);
}

TESTS(NULL, NULL)
