/* test_plan.c - what is armed of what tiers.conf names and a target has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kprofd/etf.h"
#include "kprofd/plan.h"

struct fn {
	const char *name;
	int arity;
};

static const struct fn db[] = { { "query", 1 }, { "query", 2 },
	{ "transaction", 1 }, { "inner", 0 }, { "module_info", 0 } };
#define DB_EXPORTS 3	/* inner is not exported */

static struct kp_conf *
conf(const char *text)
{
	struct kp_conf *c = NULL;
	struct kp_diags d;

	assert_int_equal(kp_conf_parse(&c, text, strlen(text), &d), KP_OK);
	kp_diags_free(&d);
	return c;
}

static void
put_fns(struct kp_buf *b, const struct fn *v, uint32_t n)
{
	kp_etf_list(b, n);
	for (uint32_t i = 0; i < n; i++) {
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, v[i].name);
		kp_etf_int(b, v[i].arity);
	}
	kp_etf_nil(b);
}

/* The agent's answer for a node that has db, and no bd. */
static void
answer(struct kp_buf *b)
{
	kp_buf_init(b, 65536);
	kp_etf_list(b, 2);
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "db");
	kp_etf_atom(b, "ok");
	put_fns(b, db, DB_EXPORTS);
	put_fns(b, db, sizeof(db) / sizeof(db[0]));
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "bd");
	kp_etf_atom(b, "error");
	kp_etf_atom(b, "nofile");
	kp_etf_list(b, 2);
	kp_etf_atom(b, "lists");
	kp_etf_atom(b, "db");
	kp_etf_nil(b);
	kp_etf_nil(b);
	assert_int_equal(b->err, KP_OK);
}

/* The plan for tiers.conf on app@host; what is wrong with it in *diags. */
static struct kp_plan
plan(const char *text, struct kp_diags *diags)
{
	struct kp_conf *c = conf(text);
	struct kp_plan p;
	struct kp_term r;
	struct kp_buf b;

	answer(&b);
	kp_term_begin_raw(&r, b.p, b.len);
	assert_int_equal(kp_plan_make(&p, c, "app@host", &r, diags), KP_OK);
	kp_buf_free(&b);
	kp_conf_free(c);
	return p;
}

/* The same where nothing is wrong. */
static struct kp_plan
good(const char *text)
{
	struct kp_diags d;
	struct kp_plan p = plan(text, &d);

	assert_int_equal(d.n, 0);
	kp_diags_free(&d);
	return p;
}

static const struct kp_plan_item *
item(const struct kp_plan *p, const char *fun, uint32_t arity)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->v[i].fun, fun) == 0 && p->v[i].arity == arity)
			return &p->v[i];
	return NULL;
}

static void
test_wildcards(void **state)
{
	struct kp_plan p = good("{tiers, [{all, {db, '_', '_'}},"
	    " {q, {db, query, '_'}}, {one, {db, inner, 0}}]}.");

	(void)state;
	/* exported ones and what is named; nothing twice, nothing generated */
	assert_int_equal(p.n, 4);
	assert_int_equal(item(&p, "query", 1)->tiers, 3);
	assert_int_equal(item(&p, "query", 2)->tiers, 3);
	assert_int_equal(item(&p, "transaction", 1)->tiers, 1);
	assert_int_equal(item(&p, "inner", 0)->tiers, 4);
	assert_null(item(&p, "module_info", 0));
	/* no entry is named: the first tier's are */
	assert_true(item(&p, "transaction", 1)->entry);
	assert_false(item(&p, "inner", 0)->entry);
	assert_int_equal(item(&p, "inner", 0)->rate, -1);
	kp_plan_free(&p);
}

static void
test_options(void **state)
{
	struct kp_plan p = good("{tiers, [{q, {db, query, 2}, [exact]}]}. "
	    "{entry, {db, query, 1}, [{nodes, ['app@*']}]}. "
	    "{finish, {db, inner, 0}}.");

	(void)state;
	assert_int_equal(p.n, 3);
	assert_true(item(&p, "query", 2)->exact);
	assert_false(item(&p, "query", 2)->entry);
	assert_true(item(&p, "query", 1)->entry);
	assert_int_equal(item(&p, "inner", 0)->tiers, 0);
	kp_plan_free(&p);
	/* an entry for other nodes */
	p = good("{tiers, [{q, {db, query, 2}}]}. "
	    "{entry, {db, transaction, 1}, [{nodes, ['other@*']}]}.");
	assert_int_equal(p.n, 1);
	assert_false(item(&p, "query", 2)->entry);
	kp_plan_free(&p);
}

static void
wrong(const char *tier, const char *text)
{
	char conf_text[200];
	struct kp_diags d;
	struct kp_plan p;

	snprintf(conf_text, sizeof(conf_text), "{tiers, [{t, {db, query, 1}},"
	    " {u, %s}]}.", tier);
	p = plan(conf_text, &d);
	assert_int_equal(d.errors, 1);
	assert_string_equal(d.v[0].text, text);
	/* what can be armed is in the plan all the same */
	assert_int_equal(p.n, 1);
	kp_diags_free(&d);
	kp_plan_free(&p);
}

static void
test_near_names(void **state)
{
	(void)state;
	wrong("{db, qurey, 1}", "the target has no function db:qurey/1: did "
	    "you mean db:query/1?");
	wrong("{db, transaction, 3}", "the target has no function "
	    "db:transaction/3: did you mean db:transaction/1?");
	wrong("{db, something_else, '_'}", "the target has no function "
	    "db:something_else/_");
	wrong("{bd, query, 1}", "the target has no module 'bd' (nofile): did "
	    "you mean 'db'?");
}

/*
 * A server loop was disarmed for good, and came back with the next
 * connection, whose plan was made anew.
 */
static void
test_carry(void **state)
{
	static const char text[] = "{tiers, [{q, {db, query, '_'}}]}.";
	struct kp_plan old = good(text), p = good(text), none = { 0 };

	(void)state;
	((struct kp_plan_item *)item(&old, "query", 2))->disarmed = true;
	kp_plan_carry(&p, &old);
	assert_true(item(&p, "query", 2)->disarmed);
	assert_false(item(&p, "query", 1)->disarmed);
	kp_plan_carry(&none, &old);
	kp_plan_carry(&p, &none);
	assert_true(item(&p, "query", 2)->disarmed);
	kp_plan_free(&old);
	kp_plan_free(&p);
}

/* Whatever a target answers: every beginning of an answer is refused. */
static void
test_cut_answers(void **state)
{
	struct kp_conf *c = conf("[{q, {db, query, '_'}}, {b, {bd, x, 1}}]");
	struct kp_diags d;
	struct kp_plan p;
	struct kp_term r;
	struct kp_buf b;

	(void)state;
	answer(&b);
	for (size_t n = 0; n < b.len; n++) {
		kp_term_begin_raw(&r, b.p, n);
		assert_int_not_equal(kp_plan_make(&p, c, "app@host", &r, &d),
		    KP_OK);
		assert_int_equal(p.n, 0);
		kp_diags_free(&d);
	}
	kp_buf_free(&b);
	kp_conf_free(c);
}

static void
test_modules(void **state)
{
	struct kp_conf *c = conf("{tiers, [{q, [{db, a, 1}, {db, b, 1}]}]}. "
	    "{entry, {web, x, 1}}. {finish, {db, c, 1}}.");
	struct kp_buf b;
	struct kp_term r;

	(void)state;
	kp_buf_init(&b, 1024);
	assert_int_equal(kp_plan_modules(c, &b), KP_OK);
	kp_term_begin_raw(&r, b.p, b.len);
	assert_int_equal(kp_term_list(&r), 2);
	assert_true(kp_span_is(kp_term_atom(&r), "db"));
	assert_true(kp_span_is(kp_term_atom(&r), "web"));
	kp_term_nil(&r);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	kp_buf_free(&b);
	kp_conf_free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_wildcards),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_near_names),
		cmocka_unit_test(test_carry),
		cmocka_unit_test(test_cut_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
