/*
 * test_plan.c - patterns of tiers.conf against what a target answers; most are in
 * cases/plan.txt.
 */
#include "cases.h"
#include "kprofd/cost.h"
#include "kprofd/etf.h"
#include "kprofd/plan.h"

static struct kp_conf *conf;
static struct kp_buf modules, answer, text;
static uint32_t nmodules;
static struct kp_plan plan, before;
static struct kp_diags diags;
static bool probe;	/* native */

FIXTURE(end)
{
	kp_plan_free(&plan);
	kp_plan_free(&before);
	kp_diags_free(&diags);
	kp_conf_free(conf);
	kp_buf_free(&modules);
	kp_buf_free(&answer);
	kp_buf_free(&text);
	conf = NULL;
	return 0;
}

/* Begins anew, with an answer about no module. */
static void
conf_is(const char *src)
{
	struct kp_diags d;

	end(NULL);
	assert_int_equal(kp_conf_parse(&conf, src, strlen(src), &d), KP_OK);
	kp_diags_free(&d);
	kp_buf_init(&modules, 1 << 24);
	kp_buf_init(&answer, 1 << 24);
	kp_buf_init(&text, 1 << 20);
	nmodules = 0;
}

/* As many atoms as there are words, or functions: "query/1 query/2". */
static void
put_words(const char *words, bool fns)
{
	char word[64], *slash;
	uint32_t n = 0;
	int len;

	for (const char *s = words; *s != '\0'; s++)
		n += *s != ' ' && (s[1] == ' ' || s[1] == '\0');
	if (n > 0)
		kp_etf_list(&modules, n);
	for (; n > 0; n--, words += len) {
		assert_int_equal(sscanf(words, " %63s%n", word, &len), 1);
		slash = fns ? strrchr(word, '/') : word + strlen(word);
		assert_non_null(slash);
		*slash = '\0';
		if (fns)
			kp_etf_tuple(&modules, 2);
		kp_etf_atom(&modules, word);
		if (fns)
			kp_etf_int(&modules, atoi(slash + 1));
	}
	kp_etf_nil(&modules);
}

/* One that exports these functions; NULL: the target has no such module. */
static void
module_is(const char *name, const char *exports, const char *fns,
    const char *behaviours_or_loaded)
{
	kp_etf_tuple(&modules, exports != NULL ? 5 : 4);
	kp_etf_atom(&modules, name);
	kp_etf_atom(&modules, exports != NULL ? "ok" : "error");
	if (exports != NULL) {
		put_words(exports, true);
		put_words(fns, true);
	} else {
		kp_etf_atom(&modules, "nofile");
	}
	put_words(behaviours_or_loaded, false);
	nmodules++;
}

static enum kp_err
make_from(const void *p, size_t n, const char *node)
{
	struct kp_term r;

	kp_diags_free(&diags);
	kp_term_begin_raw(&r, p, n);
	return kp_plan_make(&plan, conf, node, probe, &r, &diags);
}

/* From an answer about these modules. */
static void
make(const char *node)
{
	kp_buf_reset(&answer);
	if (nmodules > 0)
		kp_etf_list(&answer, nmodules);
	kp_buf_put(&answer, modules.p, modules.len);
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, node), KP_OK);
}

/* Makes it again, and keeps the one before. */
static void
again(void)
{
	kp_plan_free(&before);
	before = plan;
	make("n@h");
}

/* Makes the plan, and compares it and the only diag, if any. */
static void
plan_is(const struct one_case *c, const char *node, const char *want,
    const char *diag)
{
	const struct kp_plan_item *it;

	kp_plan_free(&plan);
	make(node);
	kp_buf_reset(&text);
	for (size_t i = 0; i < plan.n; i++) {
		it = &plan.v[i];
		assert_int_equal(it->rate, -1);
		kp_buf_printf(&text, "%s%s:%s/%u", i > 0 ? ", " : "", it->mod,
		    it->fun, it->arity);
		for (size_t t = 0; t < conf->ntiers; t++)
			if ((it->tiers >> t & 1) != 0)
				kp_buf_printf(&text, " %s",
				    conf->tiers[t].name);
		kp_buf_printf(&text, "%s%s%s", it->entry ? " entry" : "",
		    it->clears ? " clears" : "", it->exact ? " exact" : "");
	}
	case_equal(c, kp_buf_cstr(&text), want);
	kp_buf_reset(&text);
	for (size_t i = 0; i < diags.n; i++) {
		kp_buf_printf(&text, "%s %s", diags.v[i].warning ? "warning" :
		    "error", diags.v[i].text);
		assert_true(diags.v[i].pos.line > 0);
		assert_int_equal(diags.errors, !diags.v[i].warning);
	}
	case_equal(c, kp_buf_cstr(&text), diag);
}

/* "{db,qurey,1} | db close/1 query/1 | db:qurey/1: did you mean db:query/1?" */
static void
lacks(struct one_case *c, char *line)
{
	char src[128], diag[200], *pattern = strsep(&line, "|");
	char *fns = strsep(&line, "|"), *name;

	strsep(&fns, " ");
	name = strsep(&fns, " ");
	if (fns == NULL || line == NULL)
		case_fail(c, "lacks PATTERN | MODULE FUNCTIONS | WHAT");
	snprintf(src, sizeof(src), "{tiers, [{db, %s}]}.", pattern);
	snprintf(diag, sizeof(diag), "error the target has no function%s", line);
	conf_is(src);
	module_is(name, fns, fns, "");
	plan_is(c, "n@h", "", diag);
}

/* One of cases/plan.txt. */
static void
run_case(void **state)
{
	struct one_case *c = *state;
	const char *diag = "", *behaviour = "", *verb, *name;
	bool known = true, planned = false;
	char *line, *all;

	while (known && (line = case_line(c)) != NULL) {
		if (strncmp(line, "error ", 6) == 0 ||
		    strncmp(line, "warning ", 8) == 0) {
			diag = line;
			planned = false;
			continue;
		}
		verb = strsep(&line, " ");
		line = line != NULL ? line : strchr(verb, '\0');
		planned = strcmp(verb, "lacks") == 0;
		if (planned) {
			lacks(c, line);
		} else if (strcmp(verb, "conf") == 0) {
			conf_is(line);
		} else if (conf == NULL) {
			known = false;
		} else if (strncmp(verb, "plan", 4) == 0) {
			plan_is(c, verb[4] == '@' ? verb + 5 : "n@h", line, diag);
			diag = "";
			planned = true;
		} else if (strcmp(verb, "behaviour") == 0) {
			behaviour = line;
		} else {
			known = strcmp(verb, "module") == 0 ||
			    strcmp(verb, "missing") == 0;
			name = strsep(&line, " ");
			all = verb[1] == 'o' ? strsep(&line, "|") : NULL;
			line = line != NULL ? line : all != NULL ? all : "";
			module_is(name, all, line, all != NULL ? behaviour : line);
			behaviour = "";
		}
	}
	if (!known || !planned)
		case_fail(c, "makes no sense, or ends without a plan");
}

TEST(modules_asked_for)
{
	struct kp_term r;

	conf_is("{tiers, [{web, {w,h,1}}, {db, [{db,q,1}, {db,r,'_'}]}]}. "
	    "{entry, [{w,h,1}, {other,x,1}]}. {finish, {fin,f,1}}.");
	assert_int_equal(kp_plan_modules(conf, &answer), KP_OK);
	kp_term_begin_raw(&r, answer.p, answer.len);
	kp_term_print(&r, &text, 1000);
	assert_string_equal(kp_buf_cstr(&text), "[w,db,fin,other]");
	assert_int_equal(kp_term_finish(&r), KP_OK);
}

static void
make_one(const char *conf_text)
{
	conf_is(conf_text);
	module_is("db", "loop/1 query/1", "loop/1 query/1", "");
	make("n@h");
	assert_int_equal(kp_plan_probe(&plan, &(struct kp_plan){ 0 }, false),
	    plan.n);
	for (size_t i = 0; i < plan.n; i++)
		plan.v[i].rate = i == 0 ? 10 : 5001;
	plan.v[0].loop = true;
	kp_plan_judge(&plan, &diags);
}

static void
exact_is(bool first, bool second)
{
	assert_fields(plan, IS(v[0].exact, first) IS(v[1].exact, second));
}

/* Nor is it for loops, and for what is called all the time. */
TEST(exact_by_measure)
{
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], [exact]}]}.");
	assert_fields(diags, IS(n, 2) IS(errors, 0));
	assert_has(diags.v[0].text, "db:loop/1");
	assert_has(diags.v[0].text, "a server's loop");
	assert_has(diags.v[1].text, "db:query/1");
	assert_has(diags.v[1].text, "5001 times a second");
	exact_is(false, false);
	/* A plan made after a lost connection has no rates. */
	again();
	assert_true(plan.v[0].exact);
	kp_plan_carry(&plan, &before, false);
	exact_is(false, false);
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], "
	    "[{exact, force}]}]}.");
	assert_int_equal(diags.n, 0);
	exact_is(true, true);
}

/*
 * A function that is called too often is not armed, and a check fails for it.
 * It stays out of plans made later, but for those of another tiers.conf, which
 * measure it again.
 */
TEST(hot_is_not_armed)
{
	make_one("{tiers, [{web, {db,query,1}}, {db, {db,loop,1}}]}. "
	    "{hot_share, 0.5}. {budget, 0.1}.");
	kp_diags_free(&diags);
	plan.v[0].rate = (int64_t)kp_cost_calls(0.5);
	plan.v[1].rate = 13599392;
	kp_plan_heat(&plan, conf, false, &diags);
	assert_fields(diags, IS(errors, 0) IS(n, 2)
	    IS(v[0].text, "db:loop/1 is too hot to trace: 13599392 calls/s would take 4.76 "
	    "schedulers, more than hot_share, 0.5: it is not traced (name its caller "
	    "instead, or raise hot_share)")
	    IS(v[1].text, "the calls of all functions would take 0.5 % of a scheduler, "
	    "requests or not, more than the budget, 0.1: the hottest will not be traced "
	    "(name fewer, or raise the budget)"));
	assert_true(plan.v[1].disarmed && plan.v[1].hot);
	assert_false(plan.v[0].disarmed);
	assert_false(kp_plan_too_hot(&plan));
	again();
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
	assert_has(diags.v[0].text, "db:query/1 is too hot to trace: 1000000 "
	    "calls/s would take 35 % of a scheduler");
	assert_has(diags.v[0].text, "it would not be traced");
	assert_true(kp_plan_too_hot(&plan));
}

/*
 * What a reload adds is measured before it is armed, and so is 'exact' where it
 * is new; what was armed with it before is again only where code has changed.
 */
TEST(what_is_probed)
{
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], "
	    "[{exact, force}]}]}.");
	again();
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
	exact_is(true, false);
	plan.v[1].disarmed = true;
	assert_int_equal(kp_plan_probe(&plan, &before, true), 1);
}

/* As after a lost connection. */
static void
make_anew(void)
{
	again();
	kp_plan_carry(&plan, &before, false);
	if (probe)
		kp_plan_exact(&plan, &before);
}

/*
 * With the native probe all is exact, asked for or not, but for loops: those are
 * told of only to who asked, and are not taken for anything else later.
 */
TEST(exact_by_probe)
{
	probe = true;
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}]}]}.");
	exact_is(false, false);
	kp_plan_exact(&plan, &before);
	assert_int_equal(kp_plan_probe(&plan, &before, false), 2);
	exact_is(true, true);
	kp_plan_judge(&plan, &diags);
	assert_int_equal(diags.n, 0);
	exact_is(false, true);
	make_anew();
	assert_int_equal(kp_plan_probe(&plan, &before, false), 0);
	exact_is(false, true);
	probe = false;
}

/*
 * `-probe auto` found no library, and after the connection was lost there was
 * one: what the relay had not been given to copy stayed without exact outcomes.
 */
TEST(exact_after_relay)
{
	make_one("{tiers, [{db, [{db,loop,1}, {db,query,1}], [exact]}]}.");
	assert_true(plan.v[0].exact_refused && plan.v[1].exact_refused);
	probe = true;
	make_anew();
	exact_is(true, true);
	assert_false(plan.v[0].exact_refused || plan.v[1].exact_refused);
	/* and loops are looked for again, and told of: they were asked for */
	assert_int_equal(kp_plan_probe(&plan, &before, true), 2);
	plan.v[0].loop = true;
	kp_plan_judge(&plan, &diags);
	assert_int_equal(diags.n, 1);
	exact_is(false, true);
	/* The library is gone: what was asked for is judged as the relay's. */
	probe = false;
	make_anew();
	exact_is(false, true);
}

/*
 * Code was loaded with one function more and one less: the one is new, the
 * other stays, since it may come back.
 */
TEST(plan_grows)
{
	conf_is("{tiers, [{db, {db,'_','_'}}]}.");
	module_is("db", "a/1", "a/1", "");
	make("n@h");
	kp_buf_reset(&modules);
	nmodules = 0;
	module_is("db", "a/1 a/2", "a/1 a/2", "");
	again();
	assert_int_equal(kp_plan_probe(&plan, &before, true), 1);
	assert_true(!plan.v[0].probe && plan.v[1].probe);
	assert_int_equal(kp_plan_probe(&before, &plan, true), 0);
	before.v[0].disarmed = true;
	kp_plan_carry(&plan, &before, false);
	assert_true(plan.v[0].disarmed && !plan.v[1].disarmed);
	assert_int_equal(kp_plan_keep(&plan, &before), KP_OK);
	assert_int_equal(plan.n, 2);
	assert_int_equal(kp_plan_keep(&before, &plan), KP_OK);
	assert_fields(before, IS(n, 2) IS(v[1].fun, "a") IS(v[1].arity, 2));
}

TEST(too_many)
{
	char fns[KP_PLAN_MAX * 10 + 100], *s = fns;

	conf_is("{tiers, [{web, {w,h,1}}, {db, {db,'_','_'}}]}.");
	module_is("w", "h/1", "h/1", "");
	for (int i = 0; i < KP_PLAN_MAX + 5; i++)
		s += sprintf(s, "f%d/1 ", i);
	module_is("db", fns, fns, "");
	make("n@h");
	assert_int_equal(plan.n, KP_PLAN_MAX);
	assert_fields(diags, IS(n, 1)
	    IS(v[0].text, "more than 2000 functions to arm: name fewer"));
}

/* ---- answers that make no sense ---- */

static void
good_answer(void)
{
	conf_is("{tiers, [{web, {w,h,1}}, {db, [{db,query,2}, {x,y,1}]}]}.");
	module_is("w", "h/1 module_info/0", "h/1 module_info/0 inner/3", "");
	module_is("db", "query/1 query/2", "query/1 query/2", "");
	module_is("x", NULL, NULL, "kernel y");
	make("n@h");
	kp_plan_free(&plan);
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
		free(copy);
	}
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
		answer.p[i / 256] ^= (uint8_t)i;
	}
}

/* Of the function h of w, with so many fields; no function where arity is 0. */
static void
refused(uint32_t fields, int64_t arity)
{
	kp_buf_reset(&answer);
	kp_etf_list(&answer, 1);
	kp_etf_tuple(&answer, fields);
	kp_etf_atom(&answer, "w");
	kp_etf_atom(&answer, "ok");
	kp_etf_nil(&answer);
	if (arity > 0) {
		kp_etf_list(&answer, 1);
		kp_etf_tuple(&answer, 2);
		kp_etf_atom(&answer, "h");
		kp_etf_int(&answer, arity);
		kp_etf_nil(&answer);
	}
	kp_etf_nil(&answer);
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_EFORMAT);
}

TEST(malformed)
{
	conf_is("{tiers, [{web, {w,h,1}}]}.");
	kp_etf_atom(&answer, "error");
	assert_int_equal(make_from(answer.p, answer.len, "n@h"), KP_EFORMAT);
	refused(3, 0);
	/* an arity that no function has must not come out as another one */
	refused(4, (INT64_C(1) << 32) + 1);
}

CASES("test/unit/cases/plan.txt", run_case, NULL, end)
