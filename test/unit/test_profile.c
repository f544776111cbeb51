/*
 * Profiles of counters: what a target answers, read within bounds, and as a
 * table, JSON and CSV in every order.
 */
#include "cases.h"
#include "kprofd/etf.h"
#include "profile/report/counts_report.h"
#include "profile/report/counts_diff.h"

static struct kp_counts profile;
static struct kp_call_names *names;
static struct kp_buf term, out;

FIXTURE(setup)
{
	names = kp_call_names_new();
	profile = (struct kp_counts){ .type = KP_COUNTS_TIME, .names = names };
	kp_buf_init(&term, 1 << 20);
	kp_buf_init(&out, 1 << 20);
	return 0;
}

FIXTURE(teardown)
{
	kp_counts_free(&profile);
	kp_call_names_free(names);
	kp_buf_free(&term);
	kp_buf_free(&out);
	return 0;
}

static void
put_fn(const char *mod, const char *fun, int arity, int64_t calls,
    int64_t value, uint32_t processes)
{
	kp_etf_tuple(&term, 6);
	kp_etf_atom(&term, mod);
	kp_etf_atom(&term, fun);
	kp_etf_int(&term, arity);
	kp_etf_int(&term, calls);
	kp_etf_int(&term, value);
	if (processes > 0)
		kp_etf_list(&term, processes);
}

static void
put_proc(uint32_t id, int64_t calls, int64_t value)
{
	kp_etf_tuple(&term, 3);
	if (id > 0)
		kp_etf_pid(&term, "a@b", id, 2, 3);
	else
		kp_etf_atom(&term, "others");
	kp_etf_int(&term, calls);
	kp_etf_int(&term, value);
}

static enum kp_err
read_rows(void)
{
	struct kp_term r;

	kp_term_begin_raw(&r, term.p, term.len);
	return kp_counts_rows(&profile, &r);
}

/* Three functions; of the last, two processes and some others. */
static void
sample(bool by_process)
{
	profile.by_process = by_process;
	kp_buf_reset(&term);
	kp_etf_list(&term, 3);
	put_fn("lists", "seq", 2, 10, 40, 0);
	kp_etf_nil(&term);
	put_fn("Elixir.MyApp.Repo", "all", 2, 4, 60, 0);
	kp_etf_nil(&term);
	put_fn("db", "q\x1b", 1, 6, 100, 3);
	put_proc(7, 1, 50);
	put_proc(8, 3, 30);
	put_proc(0, 2, 20);
	kp_etf_nil(&term);
	kp_etf_nil(&term);
	assert_int_equal(read_rows(), KP_OK);
}

static void
sample_end(void)
{
	struct kp_term r;

	kp_buf_reset(&term);
	kp_etf_map(&term, 6);
	kp_etf_atom(&term, "stretch");
	kp_etf_int(&term, 7);
	kp_etf_atom(&term, "elapsed");
	kp_etf_int(&term, 2 * KP_NS_PER_S);
	kp_etf_atom(&term, "gone");
	kp_etf_int(&term, 3);
	kp_etf_atom(&term, "merged");
	kp_etf_int(&term, 4);
	kp_etf_atom(&term, "later");
	kp_etf_nil(&term);
	kp_etf_atom(&term, "names");
	kp_etf_list(&term, 2);
	kp_etf_tuple(&term, 2);
	kp_etf_pid(&term, "a@b", 8, 2, 3);
	kp_etf_atom(&term, "server");
	kp_etf_tuple(&term, 2);
	kp_etf_pid(&term, "a@b", 7, 2, 3);
	kp_etf_atom(&term, "");
	kp_etf_nil(&term);
	kp_term_begin_raw(&r, term.p, term.len);
	assert_int_equal(kp_counts_end(&profile, &r), KP_OK);
}

static const struct kp_call_fn *
fn_of(size_t row)
{
	return &names->fns[profile.rows[row].fn];
}

TEST(test_read)
{
	sample(false);
	assert_int_equal(profile.nrows, 3);
	assert_string_equal(fn_of(1)->mod, "Elixir.MyApp.Repo");
	assert_int_equal(profile.rows[2].value, 100);
	assert_int_equal(profile.rows[2].proc, KP_PROC_ALL);
	kp_counts_free(&profile);
	sample(true);
	sample_end();
	assert_int_equal(profile.nrows, 3);
	assert_string_equal(fn_of(1)->mod, "db");
	assert_int_equal(names->procs[profile.rows[1].proc].id, 8);
	assert_string_equal(names->procs[profile.rows[1].proc].name, "server");
	assert_fields(profile, IS(rows[2].proc, KP_PROC_OTHERS)
	    IS(elapsed, 2 * KP_NS_PER_S) IS(gone, 3) IS(merged, 4)
	    IS(stretch, 7));
}

/* The same again and one more; rows of the same process become one. */
TEST(test_add)
{
	struct kp_counts before;

	sample(true);
	sample_end();
	before = profile;
	profile = (struct kp_counts){ .type = KP_COUNTS_TIME, .stretch = 1,
		.by_process = true, .names = names };
	kp_buf_reset(&term);
	kp_etf_list(&term, 2);
	put_fn("aaa", "f", 0, 1, 2, 1);
	put_proc(7, 1, 2);
	kp_etf_nil(&term);
	put_fn("db", "q\x1b", 1, 5, 7, 2);
	put_proc(8, 3, 4);
	put_proc(9, 2, 3);
	kp_etf_nil(&term);
	kp_etf_nil(&term);
	assert_int_equal(read_rows(), KP_OK);
	profile.elapsed = KP_NS_PER_S;
	profile.gone = 5;
	assert_int_equal(kp_counts_add(&profile, &before), KP_OK);
	assert_int_equal(profile.nrows, 5);
	for (size_t i = 0; i < profile.nrows; i++)
		if (profile.rows[i].proc < KP_PROC_OTHERS &&
		    names->procs[profile.rows[i].proc].id == 8)
			assert_int_equal(profile.rows[i].value, 34);
	assert_fields(profile, IS(elapsed, 3 * KP_NS_PER_S) IS(gone, 5)
	    IS(merged, 4));
	/* Of the same stretch: in place of it. */
	before.stretch = 1;
	assert_int_equal(kp_counts_add(&profile, &before), KP_OK);
	assert_fields(profile, IS(nrows, 3) IS(elapsed, 2 * KP_NS_PER_S)
	    IS(gone, 3));
	kp_counts_free(&before);
}

/* In total, the sums of a function are added up. */
TEST(test_add_total)
{
	struct kp_counts before;

	sample(false);
	before = profile;
	profile = (struct kp_counts){ .type = KP_COUNTS_TIME, .stretch = 1,
		.names = names };
	sample(false);
	assert_int_equal(kp_counts_add(&profile, &before), KP_OK);
	assert_int_equal(profile.nrows, 3);
	assert_string_equal(fn_of(2)->mod, "db");
	assert_fields(profile, IS(rows[2].calls, 12) IS(rows[2].value, 200));
	kp_counts_free(&before);
}

/* What was freed adds nothing to what is counted after it. */
TEST(test_add_nothing)
{
	struct kp_counts before;

	sample(true);
	sample_end();
	before = profile;
	kp_counts_free(&before);
	profile = (struct kp_counts){ .type = KP_COUNTS_TIME, .stretch = 1,
		.by_process = true, .names = names, .elapsed = KP_NS_PER_S };
	sample(true);
	profile.stretch = 7;
	assert_int_equal(kp_counts_add(&profile, &before), KP_OK);
	assert_fields(profile, IS(nrows, 3) IS(elapsed, KP_NS_PER_S) IS(gone, 0)
	    IS(merged, 0));
}

/* A second part of an answer adds to the first. */
TEST(test_parts)
{
	sample(true);
	sample(true);
	assert_fields(profile, IS(nrows, 6) IS(rows[3].fn, profile.rows[0].fn));
}

/* What is cut anywhere is an error, and what was read can be freed. */
TEST(test_cut)
{
	struct kp_term r;
	size_t whole;

	sample(true);
	whole = term.len;
	for (size_t n = 0; n < whole; n++) {
		kp_counts_free(&profile);
		kp_term_begin_raw(&r, term.p, n);
		assert_int_not_equal(kp_counts_rows(&profile, &r), KP_OK);
		for (size_t i = 0; i < profile.nrows; i++)
			assert_true(profile.rows[i].fn < names->nfns);
	}
}

static void
refused(int arity, int64_t calls, const char *others)
{
	kp_buf_reset(&term);
	kp_etf_list(&term, 1);
	put_fn("m", "f", arity, calls, 1, 1);
	kp_etf_tuple(&term, 3);
	kp_etf_atom(&term, others);
	kp_etf_int(&term, 1);
	kp_etf_int(&term, 1);
	kp_etf_nil(&term);
	kp_etf_nil(&term);
	assert_int_equal(read_rows(), KP_EFORMAT);
}

TEST(test_lies)
{
	profile.by_process = true;
	refused(256, 1, "others");
	refused(-1, 1, "others");
	refused(1, -1, "others");
	refused(1, INT64_C(1) << 43, "others");
	refused(1, 1, "some");
}

static const char *
table(enum counts_sort sort, bool reverse, size_t top)
{
	struct counts_view v = { .sort = sort, .reverse = reverse,
		.top = top, .target = "a@b", .otp = 27, .functions = 12 };

	kp_buf_reset(&out);
	counts_table(&out, &profile, &v, 0);
	return kp_buf_cstr(&out);
}

TEST(test_table)
{
	sample(false);
	sample_end();
	assert_string_equal(table(COUNTS_BY_VALUE, false, 0),
	    "FUNCTION          CALLS    TIME  PER CALL      %\n"
	    "------------------------------------------------\n"
	    "db:'q\\x{1b}'/1        6  100 us     17 us   50 %\n"
	    "MyApp.Repo.all/2      4   60 us     15 us   30 %\n"
	    "lists:seq/2          10   40 us    4.0 us   20 %\n"
	    "------------------------------------------------\n"
	    "all                  20  200 us     10 us  100 %\n"
	    "\n"
	    "2 000 ms on 'a@b' (OTP 27): 12 functions counted\n"
	    "3 functions: their module was loaded again meanwhile, and their "
	    "counters went with it\n"
	    "others: 4 rows of processes, added up (see -processes)\n");
}

/*
 * Of a module that was deleted: "none of these functions was called", and that the
 * module was loaded again, though neither was so.  What is known of new modules.
 */
TEST(test_notes)
{
	static const struct {
		uint64_t gone, deleted, came, missed;
		enum kp_counts_ahead ahead;
		const char *has, *lacks;
	} t[] = {
		{ 0, 0, 0, 0, 0, "none of these functions was called\n",
		    "meanwhile" },
		{ 2, 2, 0, 0, 0, "no calls are known (see below)\n",
		    "loaded again" },
		{ 2, 2, 0, 0, 0, "2 functions: their module was deleted "
		    "meanwhile, and their counters went with it\n",
		    "none of these" },
		{ 3, 1, 0, 0, 0, "2 functions: their module was loaded again "
		    "meanwhile", "none of these" },
		{ 3, 1, 0, 0, 0, "1 function: their module was deleted", "3" },
		{ 0, 9, 0, 0, 0, "none of these", "deleted" },
		{ 0, 0, 4, 0, 0, "4 modules loaded meanwhile, counted from the "
		    "first call\n", "missing" },
		{ 0, 0, 0, 1, KP_COUNTS_AHEAD, "1 module loaded meanwhile: "
		    "their calls are missing (see -max-functions)", "none of" },
		{ 0, 0, 0, 5, KP_COUNTS_OTHERS, "another tool has the node's "
		    "setting", "-max-functions" },
		{ 0, 0, 0, 5, KP_COUNTS_EXCLUDE, "with -exclude", "tool" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		profile.gone = t[i].gone;
		profile.deleted = t[i].deleted;
		profile.came = t[i].came;
		profile.missed = t[i].missed;
		profile.ahead = t[i].ahead;
		table(COUNTS_BY_VALUE, false, 0);
		if (strstr(kp_buf_cstr(&out), t[i].has) == NULL ||
		    strstr(kp_buf_cstr(&out), t[i].lacks) != NULL)
			fail_msg("%zu: %s", i, kp_buf_cstr(&out));
	}
}

/* Of a target that lies: times whose sum is no number of nanoseconds. */
TEST(test_sums)
{
	const uint32_t n = 4000;

	kp_etf_list(&term, n);
	for (uint32_t i = 0; i < n; i++) {
		put_fn("m", "f", 1, 1, INT64_C(1) << 42, 0);
		kp_etf_nil(&term);
	}
	kp_etf_nil(&term);
	assert_int_equal(read_rows(), KP_OK);
	assert_has(table(COUNTS_BY_VALUE, false, 1),
	    "\nall       4 000  9 223 372 037 s ");
}

/* The first cell of the first row. */
static void
first(enum counts_sort sort, bool reverse, const char *want)
{
	const char *row = table(sort, reverse, 1);

	row = strchr(strchr(row, '\n') + 1, '\n') + 1;
	if (strncmp(row, want, strlen(want)) != 0)
		fail_msg("order %d: '%s' is not first in: %s", (int)sort, want,
		    row);
	assert_has(row, "1 of 3 rows shown (see -n)");
}

TEST(test_order)
{
	sample(false);
	first(COUNTS_BY_FUNCTION, false, "MyApp.Repo.all/2 ");
	first(COUNTS_BY_FUNCTION, true, "lists:seq/2 ");
	first(COUNTS_BY_CALLS, false, "lists:seq/2 ");
	first(COUNTS_BY_CALLS, true, "MyApp.Repo.all/2 ");
	first(COUNTS_BY_VALUE, true, "lists:seq/2 ");
	first(COUNTS_BY_SHARE, false, "db:");
	first(COUNTS_BY_PER_CALL, false, "db:");
	first(COUNTS_BY_PER_CALL, true, "lists:seq/2 ");
}

TEST(test_processes)
{
	sample(true);
	sample_end();
	assert_non_null(strstr(table(COUNTS_BY_PROCESS, false, 0),
	    "PROCESS, FUNCTION  CALLS    TIME  PER CALL      %  % OF PROCESS\n"
	    "---------------------------------------------------------------\n"
	    "<0.7.2>                1   50 us     50 us   50 %\n"
	    "  db:'q\\x{1b}'/1       1   50 us     50 us   50 %         100 %\n"
	    "<0.8.2> server         3   30 us     10 us   30 %\n"
	    "  db:'q\\x{1b}'/1       3   30 us     10 us   30 %         100 %\n"
	    "others                 2   20 us     10 us   20 %\n"
	    "  db:'q\\x{1b}'/1       2   20 us     10 us   20 %         100 %\n"
	    "---------------------------------------------------------------\n"
	    "all                    6  100 us     17 us  100 %\n"));
}

/* Two functions in two processes: sections by their sums, rows within these. */
TEST(test_sections)
{
	struct counts_view v = { .sort = COUNTS_BY_VALUE, .top = 3,
		.target = "a@b" };

	profile.by_process = true;
	kp_etf_list(&term, 2);
	put_fn("m", "a", 1, 3, 90, 2);
	put_proc(7, 1, 60);
	put_proc(8, 2, 30);
	kp_etf_nil(&term);
	put_fn("m", "b", 1, 2, 110, 2);
	put_proc(8, 1, 70);
	put_proc(7, 1, 40);
	kp_etf_nil(&term);
	kp_etf_nil(&term);
	assert_int_equal(read_rows(), KP_OK);
	assert_has(table(COUNTS_BY_VALUE, false, 0),
	    "<0.7.2>                2  100 us     50 us   50 %\n"
	    "  m:a/1                1   60 us     60 us   30 %          60 %\n"
	    "  m:b/1                1   40 us     40 us   20 %          40 %\n"
	    "<0.8.2>                3  100 us     33 us   50 %\n"
	    "  m:b/1                1   70 us     70 us   35 %          70 %\n"
	    "  m:a/1                2   30 us     15 us   15 %          30 %\n");
	assert_has(table(COUNTS_BY_CALLS, false, 1),
	    "<0.8.2>                3  100 us     33 us   50 %\n"
	    "  m:a/1                2   30 us     15 us   15 %          30 %\n"
	    "---");
	kp_buf_reset(&out);
	counts_json(&out, &profile, &v);
	assert_has(kp_buf_cstr(&out), "\"us\":70,\"per_call\":70,"
	    "\"share\":0.35,\"process_share\":0.7},");
	assert_has(kp_buf_cstr(&out), "],\"sections\":["
	    "{\"process\":\"<0.7.2>\",\"name\":null,\"calls\":2,\"us\":100,"
	    "\"per_call\":50,\"share\":0.5},"
	    "{\"process\":\"<0.8.2>\",\"name\":null,\"calls\":3,\"us\":100,"
	    "\"per_call\":33.3333,\"share\":0.5}]}\n");
	kp_buf_reset(&out);
	v.top = 1;
	counts_csv(&out, &profile, &v);
	assert_string_equal(kp_buf_cstr(&out), "function,process,calls,us,"
	    "us_per_call,percent,percent_of_process\n"
	    "m:b/1,<0.8.2>,1,70,70.000,35.000,70.000\n");
}

TEST(test_memory)
{
	sample(false);
	profile.type = KP_COUNTS_MEMORY;
	assert_has(table(COUNTS_BY_VALUE, false, 1),
	    "FUNCTION        CALLS  WORDS  PER CALL      %\n"
	    "---------------------------------------------\n"
	    "db:'q\\x{1b}'/1      6    100      16.7   50 %\n");
}

TEST(test_nothing)
{
	profile.type = KP_COUNTS_CALLS;
	assert_string_equal(table(COUNTS_BY_CALLS, false, 0),
	    "none of these functions was called\n"
	    "0 on 'a@b' (OTP 27): 12 functions counted\n");
}

/* "None of these functions was called", though code that called them ran. */
TEST(test_instructions)
{
	static const struct kp_instruction get = { "maps", "get", 2, 0, 0 },
	    size = { "maps", "size", 1, 0, 0 };
	struct counts_view v = { .sort = COUNTS_BY_CALLS, .target = "a@b",
		.otp = 27, .functions = 2,
		.unseen = { .v = { &get, &size }, .n = 2 } };

	profile.type = KP_COUNTS_CALLS;
	counts_table(&out, &profile, &v, 0);
	assert_string_equal(kp_buf_cstr(&out),
	    "no calls are known (see below)\n"
	    "0 on 'a@b' (OTP 27): 2 functions counted\n"
	    "calls of maps:get/2 and maps:size/1 are compiled to instructions: "
	    "only those by apply or of a fun are counted\n");
	kp_buf_reset(&out);
	counts_json(&out, &profile, &v);
	assert_has(kp_buf_cstr(&out),
	    "\"compiled_to_instructions\":["
	    "{\"module\":\"maps\",\"function\":\"get\",\"arity\":2},"
	    "{\"module\":\"maps\",\"function\":\"size\",\"arity\":1}],");
}

TEST(test_csv)
{
	struct counts_view v = { .sort = COUNTS_BY_CALLS, .top = 2,
		.target = "a@b" };

	sample(false);
	counts_csv(&out, &profile, &v);
	assert_string_equal(kp_buf_cstr(&out),
	    "function,calls,us,us_per_call,percent\n"
	    "lists:seq/2,10,40,4.000,20.000\n"
	    "\"db:'q\\x{1b}'/1\",6,100,16.667,50.000\n");
	kp_buf_reset(&out);
	kp_counts_free(&profile);
	profile.type = KP_COUNTS_CALLS;
	sample(true);
	v.top = 1;
	counts_csv(&out, &profile, &v);
	assert_string_equal(kp_buf_cstr(&out),
	    "function,process,calls,percent,percent_of_process\n"
	    "\"db:'q\\x{1b}'/1\",<0.8.2>,3,50.000,100.000\n");
}

TEST(test_json)
{
	struct counts_view v = { .sort = COUNTS_BY_CALLS, .top = 1,
		.target = "a@b", .otp = 29, .functions = 12, .processes = 5, .ended = "early", .value = "[1,2]" };

	sample(true);
	sample_end();
	counts_json(&out, &profile, &v);
	assert_string_equal(kp_buf_cstr(&out), "{\"target\":\"a@b\","
	    "\"otp\":29,\"type\":\"time\",\"elapsed_ms\":2000,"
	    "\"limit\":null,\"functions\":12,\"processes\":5,\"ended\":\"early\",\"value\":\"[1,2]\","
	    "\"paused\":false,\"gone\":3,\"deleted\":0,\"merged\":4,\"skipped\":0,"
	    "\"loaded_and_counted\":0,\"loaded_and_missing\":0,"
	    "\"compiled_to_instructions\":[],\"all\":"
	    "{\"calls\":6,\"us\":100,\"per_call\":16.6667},\"rows\":"
	    "[{\"module\":\"db\",\"function\":\"q\\u001b\",\"arity\":1,"
	    "\"process\":\"<0.8.2>\",\"name\":\"server\",\"calls\":3,"
	    "\"us\":30,\"per_call\":10,\"share\":0.3,\"process_share\":1}],"
	    "\"sections\":[{\"process\":\"<0.8.2>\",\"name\":\"server\","
	    "\"calls\":3,\"us\":30,\"per_call\":10,\"share\":0.3}]}\n");
}

static enum kp_err
kept(struct counts_kept *k, const char *text)
{
	char why[200] = "";
	enum kp_err e = counts_kept_read(k, text, strlen(text), why,
	    sizeof(why));

	assert_int_equal(e == KP_OK, why[0] == '\0');
	return e;
}

/* Names of a file are as foreign as those of a target. */
TEST(test_limit)
{
	static const char *const entries[] = { "web:a/1", "web:b\x1b/2" };
	struct counts_limit limit = { .entries = entries, .nentries = 2,
		.identity = "GET /a,b", .tier = "db" };
	struct counts_view v = { .sort = COUNTS_BY_CALLS, .top = 1,
		.target = "a@b", .otp = 27, .limit = &limit };
	struct counts_kept k;

	sample(false);
	counts_table(&out, &profile, &v, 0);
	assert_has(kp_buf_cstr(&out), "\nonly in requests that "
	    "web:a/1 or web:b\\x1b/2 begin, of type 'GET /a,b', while "
	    "in a call of the tier 'db'\n");
	kp_buf_reset(&out);
	counts_json(&out, &profile, &v);
	assert_has(kp_buf_cstr(&out), "\"limit\":{\"entries\":["
	    "\"web:a/1\",\"web:b\\u001b/2\"],\"attached\":false,"
	    "\"identity\":\"GET /a,b\",\"tier\":\"db\"},");
	kp_buf_reset(&out);
	limit = (struct counts_limit){ .attached = true };
	counts_csv(&out, &profile, &v);
	assert_string_equal(kp_buf_cstr(&out),
	    "function,calls,us,us_per_call,percent,limit\n"
	    "lists:seq/2,10,40,4.000,20.000,\"only in requests that a kprofd "
	    "marks\"\n");
	assert_int_equal(kept(&k, kp_buf_cstr(&out)), KP_OK);
	assert_int_equal(k.rows[0].calls, 10);
	counts_kept_free(&k);
	kp_buf_reset(&out);
	counts_json(&out, &profile, &v);
	assert_has(kp_buf_cstr(&out), "\"limit\":{\"entries\":[],"
	    "\"attached\":true,\"identity\":null,\"tier\":null},");
}

/* What is written is read again, processes added up. */
TEST(test_kept)
{
	struct counts_view v = { .target = "a@b" };
	struct counts_kept k;

	sample(true);
	counts_csv(&out, &profile, &v);
	assert_int_equal(kept(&k, kp_buf_cstr(&out)), KP_OK);
	assert_fields(k, IS(type, KP_COUNTS_TIME) IS(n, 1)
	    IS(rows[0].fn, "db:'q\\x{1b}'/1") IS(rows[0].calls, 6)
	    IS(rows[0].value, 100));
	counts_kept_free(&k);
	assert_int_equal(kept(&k, "function,calls,percent\n"
	    "\"m:'a,\"\"b'/1\",5,100\n"), KP_OK);
	assert_string_equal(k.rows[0].fn, "m:'a,\"b'/1");
	counts_kept_free(&k);
}

TEST(test_kept_wrong)
{
	static const char *const wrong[] = { "", "function\n", "calls\n",
		"function,calls", "function,calls\nf\n",
		"function,calls\nf,1,2\n", "function,calls\nf,-1\n",
		"function,calls\nf,\n", "function,calls\n\"f,1\n",
		"function,calls\n\"f\"x,1\n", "function,calls\nf,1",
		"function,calls\nf,99999999999999999999\n",
		"{\"target\":1}\n" };
	struct counts_kept k;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (kept(&k, wrong[i]) != KP_EFORMAT)
			fail_msg("taken: %s", wrong[i]);
		assert_int_equal(k.n, 0);
	}
}

TEST(test_diff)
{
	struct counts_diff_view v = { .sort = COUNTS_DIFF_CHANGE };
	struct counts_kept a, b;

	assert_int_equal(kept(&a, "function,calls,us,us_per_call,percent\n"
	    "m:gone/0,1,10,10,1\nm:same/0,2,20,10,1\nm:more/0,4,40,10,1\n"),
	    KP_OK);
	assert_int_equal(kept(&b, "function,calls,us,us_per_call,percent\n"
	    "m:same/0,2,20,10,1\nm:more/0,5,100,20,1\nm:new/0,1,5,5,1\n"),
	    KP_OK);
	counts_diff_table(&out, &a, &b, &v, 0);
	assert_string_equal(kp_buf_cstr(&out),
	    "FUNCTION  CALLS  BEFORE  CHANGE    TIME  BEFORE  CHANGE\n"
	    "-------------------------------------------------------\n"
	    "m:more/0      5       4   +25 %  100 us   40 us  +150 %\n"
	    "m:gone/0      0       1  -100 %       0   10 us  -100 %\n"
	    "m:new/0       1       0     new  5.0 us       0     new\n"
	    "m:same/0      2       2     0 %   20 us   20 us     0 %\n"
	    "-------------------------------------------------------\n"
	    "all           8       7   +14 %  125 us   70 us   +79 %\n");
	kp_buf_reset(&out);
	v.sort = COUNTS_DIFF_FUNCTION;
	v.reverse = true;
	v.top = 1;
	counts_diff_json(&out, &a, &b, &v);
	assert_string_equal(kp_buf_cstr(&out), "{\"rows\":[{\"function\":"
	    "\"m:same/0\",\"calls\":2,\"calls_before\":2,\"us\":20,"
	    "\"us_before\":20}]}\n");
	counts_kept_free(&a);
	counts_kept_free(&b);
}

TESTS(setup, teardown)
