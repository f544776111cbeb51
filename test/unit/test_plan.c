/*
 * test_plan.c - patterns of tiers.conf against what a target answers.
 *
 * The answer is built by hand; a plan is compared as one line of text:
 * "db:query/1 db", with "entry" and "exact" behind where they hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "kprofd/cost.h"
#include "kprofd/etf.h"
#include "kprofd/plan.h"

static struct kp_conf *conf;
static struct kp_buf answer;
static struct kp_plan plan;
static struct kp_diags diags;
static struct kp_buf text;

static void
conf_is(const char *src)
{
	struct kp_diags d;

	assert_int_equal(kp_conf_parse(&conf, src, strlen(src), &d), KP_OK);
	kp_diags_free(&d);
}

/* "query/1 query/2"; the arity is behind the last slash of a word. */
static void
put_fns(const char *fns)
{
	char word[64], *slash;
	uint32_t n = 0;
	int len;

	for (const char *s = fns; *s != '\0'; s++)
		n += *s != ' ' && (s[1] == ' ' || s[1] == '\0');
	if (n > 0)
		kp_etf_list(&answer, n);
	for (; n > 0; n--) {
		assert_int_equal(sscanf(fns, " %63s%n", word, &len), 1);
		fns += len;
		slash = strrchr(word, '/');
		assert_non_null(slash);
		*slash = '\0';
		kp_etf_tuple(&answer, 2);
		kp_etf_atom(&answer, word);
		kp_etf_int(&answer, atoi(slash + 1));
	}
	kp_etf_nil(&answer);
}

static void
answer_begin(uint32_t modules)
{
	kp_buf_init(&answer, 1 << 24);
	if (modules > 0)
		kp_etf_list(&answer, modules);
}

static const char *behaviour;	/* of the next module */

static void
module_ok(const char *name, const char *exports, const char *fns)
{
	kp_etf_tuple(&answer, 5);
	kp_etf_atom(&answer, name);
	kp_etf_atom(&answer, "ok");
	put_fns(exports);
	put_fns(fns);
	if (behaviour != NULL) {
		kp_etf_list(&answer, 1);
		kp_etf_atom(&answer, behaviour);
		behaviour = NULL;
	}
	kp_etf_nil(&answer);
}

/* Others: the modules that are loaded, "a b c". */
static void
module_missing(const char *name, const char *others)
{
	char copy[256], *save = NULL;
	uint32_t n = 1;

	kp_etf_tuple(&answer, 4);
	kp_etf_atom(&answer, name);
	kp_etf_atom(&answer, "error");
	kp_etf_atom(&answer, "nofile");
	snprintf(copy, sizeof(copy), "%s", others);
	for (const char *s = copy; *s != '\0'; s++)
		n += *s == ' ';
	kp_etf_list(&answer, n);
	for (char *s = strtok_r(copy, " ", &save); s != NULL;
	     s = strtok_r(NULL, " ", &save))
		kp_etf_atom(&answer, s);
	kp_etf_nil(&answer);
}

static void
plan_text(void)
{
	const struct kp_plan_item *it;

	kp_buf_init(&text, 1 << 20);
	for (size_t i = 0; i < plan.n; i++) {
		it = &plan.v[i];
		assert_int_equal(it->rate, -1);
		kp_buf_printf(&text, "%s%s:%s/%u", i > 0 ? ", " : "", it->mod,
		    it->fun, it->arity);
		for (size_t t = 0; t < conf->ntiers; t++)
			if ((it->tiers >> t & 1) != 0)
				kp_buf_printf(&text, " %s",
				    conf->tiers[t].name);
		if (it->entry)
			kp_buf_str(&text, " entry");
		if (it->clears)
			kp_buf_str(&text, " clears");
		if (it->exact)
			kp_buf_str(&text, " exact");
	}
}

static bool probe;	/* native */

static enum kp_err
make_from(const void *p, size_t n, const char *node)
{
	struct kp_term r;

	kp_term_begin_raw(&r, p, n);
	return kp_plan_make(&plan, conf, node, probe, &r, &diags);
}

static void
end(void)
{
	kp_plan_free(&plan);
	kp_diags_free(&diags);
	kp_conf_free(conf);
	kp_buf_free(&answer);
	kp_buf_free(&text);
}

/* Completes the answer, and compares the plan and the only diag, if any. */
static void
plan_is(const char *node, const char *want, const char *diag)
{
	bool warning;

	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, node), KP_OK);
	plan_text();
	assert_string_equal(kp_buf_cstr(&text), want);
	if (diag == NULL) {
		assert_int_equal(diags.n, 0);
	} else {
		assert_int_equal(diags.n, 1);
		warning = strncmp(diag, "warning: ", 9) == 0;
		diag += warning ? 9 : 0;
		assert_int_equal(diags.v[0].warning, warning);
		assert_int_equal(diags.errors, !warning);
		assert_true(diags.v[0].pos.line > 0);
		assert_string_equal(diags.v[0].text, diag);
	}
	end();
}

TEST(modules_asked_for)
{
	struct kp_buf b;
	struct kp_term r;

	conf_is("{tiers, [{web, {w,h,1}}, {db, [{db,q,1}, {db,r,'_'}]}]}. "
	    "{entry, [{w,h,1}, {other,x,1}]}. {finish, {fin,f,1}}.");
	kp_buf_init(&b, 1 << 16);
	assert_int_equal(kp_plan_modules(conf, &b), KP_OK);
	kp_term_begin_raw(&r, b.p, b.len);
	assert_int_equal(kp_term_list(&r), 4);
	assert_true(kp_span_is(kp_term_atom(&r), "w"));
	assert_true(kp_span_is(kp_term_atom(&r), "db"));
	assert_true(kp_span_is(kp_term_atom(&r), "fin"));
	assert_true(kp_span_is(kp_term_atom(&r), "other"));
	kp_term_nil(&r);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	kp_buf_free(&b);
	kp_conf_free(conf);
}

TEST(good)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,query,2}}]}.");
	answer_begin(2);
	module_ok("w", "h/1 module_info/0", "h/1 module_info/0 inner/3");
	module_ok("db", "query/1 query/2", "query/1 query/2");
	plan_is("n@h", "w:h/1 web entry, db:query/2 db", NULL);
}

/* Every exported function, but for those that every module has. */
TEST(whole_module)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,'_','_'}}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	module_ok("db", "a/1 b/0 module_info/0 module_info/1 __info__/1",
	    "a/1 b/0 local/1 module_info/0 module_info/1 __info__/1");
	plan_is("n@h", "w:h/1 web entry, db:a/1 db, db:b/0 db", NULL);
}

/* Named functions need not be exported. */
TEST(every_arity)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,q,'_'}}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	module_ok("db", "q/1", "q/1 q/2 r/1 q/0");
	plan_is("n@h", "w:h/1 web entry, db:q/1 db, db:q/2 db, db:q/0 db",
	    NULL);
}

#define KPROF_FNS "set_token/0 set_token/1 clear_token/0 clear_token/1 " \
	"do_apply/3 do_apply/4 run/2 run/3 token/0 wrap/1 wrap/2 module_info/0"

/* Requests that the application marks: their end is armed with them. */
TEST(marks)
{
	conf_is("{tiers, [{db, {db,q,1}}]}. "
	    "{entry, [{kprof,set_token,0}, {kprof,do_apply,'_'}]}.");
	answer_begin(2);
	module_ok("db", "q/1", "q/1");
	module_ok("kprof", KPROF_FNS, KPROF_FNS);
	plan_is("n@h", "db:q/1 db, kprof:set_token/0 entry, "
	    "kprof:do_apply/3 entry, kprof:do_apply/4 entry, "
	    "kprof:clear_token/0 clears", NULL);
	/* the whole module: what starts requests */
	conf_is("{tiers, [{web, \"kprof\"}]}.");
	answer_begin(1);
	module_ok("kprof", KPROF_FNS, KPROF_FNS);
	plan_is("n@h", "kprof:set_token/0 web entry, "
	    "kprof:set_token/1 web entry, kprof:do_apply/3 web entry, "
	    "kprof:do_apply/4 web entry, kprof:run/2 web entry, "
	    "kprof:run/3 web entry, kprof:clear_token/0 clears", NULL);
	/* no entry there: nothing is set, and nothing to be cleared */
	conf_is("{tiers, [{db, {db,q,1}}]}. {entry, [{db,q,1}, "
	    "{{kprof,run,2}, [{nodes, ['web@*']}]}]}.");
	answer_begin(2);
	module_ok("db", "q/1", "q/1");
	module_ok("kprof", KPROF_FNS, KPROF_FNS);
	plan_is("n@h", "db:q/1 db entry", NULL);
}

TEST(marks_missing)
{
	conf_is("{tiers, [{db, {db,q,1}}]}. {entry, {kprof,set_token,0}}.");
	answer_begin(2);
	module_ok("db", "q/1", "q/1");
	module_missing("kprof", "eprof fprof");
	plan_is("n@h", "db:q/1 db", "the target has no module 'kprof' "
	    "(nofile): it comes with kprofd's library for applications");
}

TEST(entries_by_node)
{
	static const char src[] =
	    "{tiers, [{web, {w,h,1}}]}. "
	    "{entry, [{{w,h,1}, [{nodes, ['web@*']}]},"
	    "         {{w,job,1}, [{nodes, ['job@*']}]}]}.";

	conf_is(src);
	answer_begin(1);
	module_ok("w", "h/1 job/1", "h/1 job/1");
	plan_is("web@h1", "w:h/1 web entry", NULL);
	conf_is(src);
	answer_begin(1);
	module_ok("w", "h/1 job/1", "h/1 job/1");
	plan_is("job@h1", "w:h/1 web, w:job/1 entry", NULL);
	conf_is(src);
	answer_begin(1);
	module_ok("w", "h/1 job/1", "h/1 job/1");
	plan_is("db@h1", "w:h/1 web", NULL);
}

TEST(finish_and_exact)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,q,1}, [exact]}]}. "
	    "{finish, {w,done,1}}.");
	answer_begin(2);
	module_ok("w", "h/1 done/1", "h/1 done/1");
	module_ok("db", "q/1", "q/1");
	plan_is("n@h", "w:h/1 web entry, db:q/1 db exact, w:done/1", NULL);
}

TEST(in_two_tiers)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,q,1}},"
	    "         {all, {db,'_','_'}, [exact]}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	module_ok("db", "q/1 r/1", "q/1 r/1");
	plan_is("n@h", "w:h/1 web entry, db:q/1 db all exact, "
	    "db:r/1 all exact", NULL);
}

/* ---- what is not there ---- */

TEST(missing_module)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {databse,q,1}}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	module_missing("databse", "kernel database databank stdlib");
	plan_is("n@h", "w:h/1 web entry", "warning: the target has no module "
	    "'databse' (nofile): did you mean 'database'? Else it is "
	    "traced when it is loaded");
}

TEST(missing_module_like_none)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {postgres,q,1}}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	module_missing("postgres", "kernel stdlib");
	plan_is("n@h", "w:h/1 web entry", "warning: the target cannot load "
	    "module 'postgres' (nofile); traced when it is loaded");
}

/* A server's callbacks return its state. */
TEST(exact_on_callbacks)
{
	conf_is("{tiers, [{db, {db,handle_call,3}, [exact]}]}.");
	answer_begin(1);
	behaviour = "gen_server";
	module_ok("db", "handle_call/3", "handle_call/3");
	plan_is("n@h", "db:handle_call/3 db entry", "warning: "
	    "db:handle_call/3 is traced without 'exact': a callback of "
	    "gen_server returns its process's state, all of which would be "
	    "copied each time ({exact, force} insists)");
	conf_is("{tiers, [{db, {db,handle_call,3}, [{exact, force}]}]}.");
	answer_begin(1);
	behaviour = "gen_server";
	module_ok("db", "handle_call/3", "handle_call/3");
	plan_is("n@h", "db:handle_call/3 db entry exact", NULL);
	conf_is("{tiers, [{db, [{db,handle_call,3}, {db,query,3}], [exact]}]}.");
	answer_begin(1);
	module_ok("db", "handle_call/3 query/3", "handle_call/3 query/3");
	plan_is("n@h", "db:handle_call/3 db entry exact, "
	    "db:query/3 db entry exact", NULL);
	conf_is("{tiers, [{db, {db,idle,3}, [exact]}]}.");
	answer_begin(1);
	behaviour = "gen_statem";
	module_ok("db", "idle/3", "idle/3 inner/3");
	plan_is("n@h", "db:idle/3 db entry", "warning: db:idle/3 is traced "
	    "without 'exact': a callback of gen_statem returns its process's "
	    "state, all of which would be copied each time ({exact, force} "
	    "insists)");
}

static void
make_one(const char *conf_text)
{
	conf_is(conf_text);
	answer_begin(1);
	module_ok("db", "loop/1 query/1", "loop/1 query/1");
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	kp_diags_free(&diags);
	assert_int_equal(kp_plan_probe(&plan, &(struct kp_plan){ 0 }, false),
	    plan.n);
	for (size_t i = 0; i < plan.n; i++)
		plan.v[i].rate = i == 0 ? 10 : 5001;
	plan.v[0].loop = true;
	kp_plan_judge(&plan, &diags);
}

/* Nor is it for loops, and for what is called all the time. */
TEST(exact_by_measure)
{
	struct kp_plan before;

	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], [exact]}]}.");
	assert_int_equal(diags.n, 2);
	assert_int_equal(diags.errors, 0);
	assert_non_null(strstr(diags.v[0].text, "db:loop/1"));
	assert_non_null(strstr(diags.v[0].text, "a server's loop"));
	assert_non_null(strstr(diags.v[1].text, "db:query/1"));
	assert_non_null(strstr(diags.v[1].text, "5001 times a second"));
	assert_false(plan.v[0].exact || plan.v[1].exact);
	/* A plan made after a lost connection has no rates. */
	before = plan;
	kp_diags_free(&diags);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	assert_true(plan.v[0].exact);
	kp_plan_carry(&plan, &before, false);
	assert_false(plan.v[0].exact || plan.v[1].exact);
	kp_plan_free(&before);
	kp_buf_init(&text, 16);
	end();
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], "
	    "[{exact, force}]}]}.");
	assert_int_equal(diags.n, 0);
	assert_true(plan.v[0].exact && plan.v[1].exact);
	kp_buf_init(&text, 16);
	end();
}

/*
 * A function that is called too often is not armed, and a check fails for it.
 * It stays out of plans made later, but for those of another tiers.conf, which
 * measure it again.
 */
TEST(hot_is_not_armed)
{
	struct kp_plan before;

	make_one("{tiers, [{web, {db,query,1}}, {db, {db,loop,1}}]}. "
	    "{hot_share, 0.5}. {budget, 0.1}.");
	kp_diags_free(&diags);
	plan.v[0].rate = (int64_t)kp_cost_calls(0.5);
	plan.v[1].rate = 13599392;
	kp_plan_heat(&plan, conf, false, &diags);
	assert_int_equal(diags.errors, 0);
	assert_int_equal(diags.n, 2);
	assert_string_equal(diags.v[0].text, "db:loop/1 is too hot to trace: "
	    "13599392 calls/s would take 8.16 schedulers, more than hot_share, "
	    "0.5: it is not traced (name its caller instead, or raise "
	    "hot_share)");
	assert_string_equal(diags.v[1].text, "the calls of all functions would "
	    "take 0.5 % of a scheduler, requests or not, more than the budget, "
	    "0.1: the hottest will not be traced (name fewer, or raise the "
	    "budget)");
	assert_true(plan.v[1].disarmed && plan.v[1].hot);
	assert_false(plan.v[0].disarmed);
	assert_true(kp_plan_has_entry(&plan));
	before = plan;
	kp_diags_free(&diags);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	kp_plan_carry(&plan, &before, true);
	assert_false(plan.v[1].disarmed);
	assert_int_equal(kp_plan_probe(&plan, &before, false), 1);
	assert_true(plan.v[1].probe);
	kp_plan_carry(&plan, &before, false);
	assert_true(plan.v[1].disarmed && plan.v[1].hot);
	assert_int_equal(kp_plan_probe(&plan, &before, false), 0);
	/* Its check is an error, and an entry is no exception. */
	plan.v[0].rate = 1000000;
	kp_plan_heat(&plan, conf, true, &diags);
	assert_int_equal(diags.errors, 1);
	assert_non_null(strstr(diags.v[0].text, "db:query/1 is too hot to trace: "
	    "1000000 calls/s would take 60 % of a scheduler"));
	assert_non_null(strstr(diags.v[0].text, "it would not be traced"));
	assert_false(kp_plan_has_entry(&plan));
	kp_plan_free(&before);
	kp_buf_init(&text, 16);
	end();
}

/*
 * What a reload adds is measured before it is armed, and so is 'exact' where it
 * is new; what was armed with it before is again only where code has changed.
 */
TEST(what_is_probed)
{
	struct kp_plan before;

	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], "
	    "[{exact, force}]}]}.");
	before = plan;
	kp_diags_free(&diags);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	assert_int_equal(kp_plan_probe(&plan, &before, true), 0);
	plan.v[0].exact_forced = plan.v[1].exact_forced = false;
	assert_int_equal(kp_plan_probe(&plan, &before, false), 0);
	assert_int_equal(kp_plan_probe(&plan, &before, true), 2);
	before.v[1].exact = false;
	assert_int_equal(kp_plan_probe(&plan, &before, false), 1);
	assert_true(plan.v[1].probe);
	/* what was not measured is not judged */
	plan.v[0].loop = plan.v[1].loop = true;
	kp_plan_judge(&plan, &diags);
	assert_int_equal(diags.n, 1);
	assert_true(plan.v[0].exact);
	assert_false(plan.v[1].exact);
	plan.v[1].disarmed = true;
	assert_int_equal(kp_plan_probe(&plan, &before, true), 1);
	kp_plan_free(&before);
	kp_buf_init(&text, 16);
	end();
}

/* As after a lost connection; plan must not be freed before. */
static void
make_anew(const struct kp_plan *before)
{
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	kp_plan_carry(&plan, before, false);
	if (probe)
		kp_plan_exact(&plan, before);
}

/*
 * With the native probe all is exact, asked for or not, but for loops: those are
 * told of only to who asked, and are not taken for anything else later.
 */
TEST(exact_by_probe)
{
	struct kp_plan before = { 0 };

	probe = true;
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}]}]}.");
	assert_false(plan.v[0].exact || plan.v[1].exact);
	kp_plan_exact(&plan, &before);
	assert_int_equal(kp_plan_probe(&plan, &before, false), 2);
	assert_true(plan.v[0].exact && plan.v[1].exact);
	kp_plan_judge(&plan, &diags);
	assert_int_equal(diags.n, 0);
	assert_false(plan.v[0].exact);
	assert_true(plan.v[1].exact);
	before = plan;
	make_anew(&before);
	assert_int_equal(kp_plan_probe(&plan, &before, false), 0);
	assert_false(plan.v[0].exact);
	assert_true(plan.v[1].exact);
	kp_plan_free(&before);
	kp_buf_init(&text, 16);
	end();
	probe = false;
}

/*
 * `-probe auto` found no library, and after the connection was lost there was
 * one: what the relay had not been given to copy stayed without exact outcomes.
 */
TEST(exact_after_relay)
{
	struct kp_plan before;

	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], [exact]}]}.");
	assert_true(plan.v[0].exact_refused && plan.v[1].exact_refused);
	before = plan;
	probe = true;
	kp_diags_free(&diags);
	make_anew(&before);
	assert_true(plan.v[0].exact && plan.v[1].exact);
	assert_false(plan.v[0].exact_refused || plan.v[1].exact_refused);
	/* and loops are looked for again, and told of: they were asked for */
	assert_int_equal(kp_plan_probe(&plan, &before, true), 2);
	plan.v[0].loop = true;
	kp_plan_judge(&plan, &diags);
	assert_int_equal(diags.n, 1);
	assert_false(plan.v[0].exact);
	assert_true(plan.v[1].exact);
	kp_plan_free(&before);
	/* The library is gone: what was asked for is judged as the relay's. */
	before = plan;
	probe = false;
	kp_diags_free(&diags);
	make_anew(&before);
	assert_false(plan.v[0].exact);
	assert_true(plan.v[1].exact);
	kp_plan_free(&before);
	kp_buf_init(&text, 16);
	end();
}

/* 'A.B' is not the module that Elixir calls A.B. */
TEST(missing_elixir)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, {'A.B',q,1}}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	module_missing("A.B", "kernel Elixir.A.B stdlib");
	plan_is("n@h", "w:h/1 web entry", "warning: the target has no module "
	    "'A.B' (nofile): did you mean 'Elixir.A.B'? Else it is traced "
	    "when it is loaded");
}

/* Nothing would be measured: rather a misspelling than a later module. */
TEST(missing_entry)
{
	conf_is("{tiers, [{web, {wbe,h,1}}, {db, {db,q,1}}]}.");
	answer_begin(2);
	module_missing("wbe", "kernel web");
	module_ok("db", "q/1", "q/1");
	plan_is("n@h", "db:q/1 db", "the target has no module 'wbe' "
	    "(nofile): did you mean 'web'?");
	conf_is("{tiers, [{db, {db,q,1}}]}. {entry, [{w,h,1}, {late,h,1}]}.");
	answer_begin(3);
	module_ok("w", "h/1", "h/1");
	module_missing("late", "kernel");
	module_ok("db", "q/1", "q/1");
	plan_is("n@h", "db:q/1 db, w:h/1 entry", "warning: the target cannot "
	    "load module 'late' (nofile); traced when it is loaded");
}

/*
 * Code was loaded with one function more and one less: the one is new, the
 * other stays, since it may come back.
 */
TEST(plan_grows)
{
	struct kp_plan small;

	conf_is("{tiers, [{db, {db,'_','_'}}]}.");
	answer_begin(1);
	module_ok("db", "a/1", "a/1");
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	small = plan;
	kp_diags_free(&diags);
	kp_buf_free(&answer);
	answer_begin(1);
	module_ok("db", "a/1 a/2", "a/1 a/2");
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	assert_int_equal(kp_plan_probe(&plan, &small, true), 1);
	assert_false(plan.v[0].probe);
	assert_true(plan.v[1].probe);
	assert_int_equal(kp_plan_probe(&small, &plan, true), 0);
	small.v[0].disarmed = true;
	kp_plan_carry(&plan, &small, false);
	assert_true(plan.v[0].disarmed);
	assert_false(plan.v[1].disarmed);
	assert_int_equal(kp_plan_keep(&plan, &small), KP_OK);
	assert_int_equal(plan.n, 2);
	assert_int_equal(kp_plan_keep(&small, &plan), KP_OK);
	assert_int_equal(small.n, 2);
	assert_string_equal(small.v[1].fun, "a");
	assert_int_equal(small.v[1].arity, 2);
	kp_plan_free(&small);
	kp_buf_init(&text, 16);
	end();
}

TEST(module_without_answer)
{
	conf_is("{tiers, [{web, {w,h,1}}]}.");
	answer_begin(0);
	plan_is("n@h", "", "the target cannot load module 'w' (no answer)");
}

static void
missing_of(const char *mod, const char *pattern, const char *there,
    const char *want)
{
	char src[128];

	snprintf(src, sizeof(src), "{tiers, [{db, %s}]}.", pattern);
	conf_is(src);
	answer_begin(1);
	module_ok(mod, there, there);
	plan_is("n@h", "", want);
}

static void
missing_function(const char *pattern, const char *there, const char *want)
{
	missing_of("db", pattern, there, want);
}

TEST(missing_functions)
{
	missing_of("Elixir.A.B", "\"A.B.qurey/1\"", "close/1 query/1",
	    "the target has no function A.B.qurey/1: did you mean "
	    "A.B.query/1?");
	missing_function("{db,qurey,1}", "close/1 query/2 query/1",
	    "the target has no function db:qurey/1: did you mean db:query/1?");
	missing_function("{db,qurey,1}", "query/1 query/2",
	    "the target has no function db:qurey/1: did you mean db:query/1?");
	/* another arity of the very name is nearer than any other name */
	missing_function("{db,query,3}", "quer/3 query/1",
	    "the target has no function db:query/3: did you mean db:query/1?");
	missing_function("{db,qurey,'_'}", "query/2",
	    "the target has no function db:qurey/_: did you mean db:query/2?");
	missing_function("{db,abcdefgh,1}", "abcde/1 close/1",
	    "the target has no function db:abcdefgh/1: did you mean "
	    "db:abcde/1?");
	missing_function("{db,abcdefgh,1}", "abcde/2",
	    "the target has no function db:abcdefgh/1: did you mean "
	    "db:abcde/2?");
	/* as Elixir's stack traces have the second one */
	missing_of("Elixir.A", "\"anonymous fn/1 in A.b/2\"",
	    "-b/2-fun-0-/2 -b/2-fun-1-/1 b/2",
	    "the target has no function anonymous fn/1 in A.b/2: did you mean "
	    "anonymous fn/1 (fun-1) in A.b/2?");
	missing_function("{db,transaction,1}", "close/1 query/2",
	    "the target has no function db:transaction/1");
	missing_function("{db,abcdefgh,1}", "abcd/1",
	    "the target has no function db:abcdefgh/1");
}

TEST(nothing_exported)
{
	conf_is("{tiers, [{db, {db,'_','_'}}]}.");
	answer_begin(1);
	module_ok("db", "module_info/0", "module_info/0 q/1");
	plan_is("n@h", "", "the target has no function db");
}

TEST(too_many)
{
	char fns[KP_PLAN_MAX * 10 + 100], *s = fns;

	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,'_','_'}}]}.");
	answer_begin(2);
	module_ok("w", "h/1", "h/1");
	for (int i = 0; i < KP_PLAN_MAX + 5; i++)
		s += sprintf(s, "f%d/1 ", i);
	module_ok("db", fns, fns);
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_OK);
	assert_int_equal(plan.n, KP_PLAN_MAX);
	assert_int_equal(diags.n, 1);
	assert_string_equal(diags.v[0].text,
	    "more than 2000 functions to arm: name fewer");
	end();
}

/* ---- answers that make no sense ---- */

static void
good_answer(void)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, [{db,query,2}, {x,y,1}]}]}.");
	answer_begin(3);
	module_ok("w", "h/1 module_info/0", "h/1 module_info/0 inner/3");
	module_ok("db", "query/1 query/2", "query/1 query/2");
	module_missing("x", "kernel y");
	kp_etf_nil(&answer);
}

TEST(every_prefix)
{
	uint8_t *copy;

	good_answer();
	for (size_t n = 0; n < answer.len; n++) {
		copy = malloc(n + 1);
		memcpy(copy + 1, answer.p, n);
		assert_int_equal(make_from(copy + 1, n, "n@h"), KP_ESHORT);
		assert_int_equal(plan.n, 0);
		kp_plan_free(&plan);
		kp_diags_free(&diags);
		free(copy);
	}
	end();
}

TEST(every_byte_changed)
{
	enum kp_err err;

	good_answer();
	for (size_t i = 0; i < answer.len * 256; i++) {
		answer.p[i / 256] ^= (uint8_t)i;
		err = make_from(answer.p, answer.len, "n@h");
		assert_true(err == KP_OK || plan.n == 0);
		kp_plan_free(&plan);
		kp_diags_free(&diags);
		answer.p[i / 256] ^= (uint8_t)i;
	}
	end();
}

TEST(malformed)
{
	conf_is("{tiers, [{web, {w,h,1}}]}.");
	kp_buf_init(&answer, 1 << 16);
	kp_etf_atom(&answer, "error");
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_EFORMAT);
	kp_buf_reset(&answer);
	kp_etf_list(&answer, 1);
	kp_etf_tuple(&answer, 3);
	kp_etf_atom(&answer, "w");
	kp_etf_atom(&answer, "ok");
	kp_etf_nil(&answer);
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_EFORMAT);
	/* an arity that no function has must not come out as another one */
	kp_buf_reset(&answer);
	kp_etf_list(&answer, 1);
	kp_etf_tuple(&answer, 4);
	kp_etf_atom(&answer, "w");
	kp_etf_atom(&answer, "ok");
	kp_etf_nil(&answer);
	kp_etf_list(&answer, 1);
	kp_etf_tuple(&answer, 2);
	kp_etf_atom(&answer, "h");
	kp_etf_int(&answer, (INT64_C(1) << 32) + 1);
	kp_etf_nil(&answer);
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_EFORMAT);
	end();
}

TESTS(NULL, NULL)
