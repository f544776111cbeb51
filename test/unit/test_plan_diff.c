/*
 * test_plan_diff.c - from one tiers.conf to another: what is armed anew.
 *
 * Both plans are made from modules that have all that is asked for; what is
 * to be done is compared as one line: "+db:query/1 -w:h/1", "+" for what is
 * put, "-" for what is taken, in the order of the plans.
 */
#include "cases.h"
#include "kprofd/etf.h"
#include "kprofd/plan.h"

static const struct kp_spec_params params = { .one_in = 1,
	.label_const = UINT64_C(1) << 42 };

struct side {
	struct kp_conf *conf;
	struct kp_plan plan;
};

static struct side was, is;

static void
put_fns(struct kp_buf *b)
{
	static const char *const names[] = { "a", "b", "h" };

	kp_etf_list(b, 3);
	for (int i = 0; i < 3; i++) {
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, names[i]);
		kp_etf_int(b, 1);
	}
	kp_etf_nil(b);
}

/* Modules w and db, each with a/1, b/1 and h/1. */
static void
side_make(struct side *s, const char *src)
{
	static const char *const mods[] = { "w", "db" };
	struct kp_diags diags;
	struct kp_term r;
	struct kp_buf b;

	assert_int_equal(kp_conf_parse(&s->conf, src, strlen(src), &diags),
	    KP_OK);
	kp_diags_free(&diags);
	kp_buf_init(&b, 4096);
	kp_etf_list(&b, 2);
	for (int i = 0; i < 2; i++) {
		kp_etf_tuple(&b, 5);
		kp_etf_atom(&b, mods[i]);
		kp_etf_atom(&b, "ok");
		put_fns(&b);
		put_fns(&b);
		kp_etf_nil(&b);
	}
	kp_etf_nil(&b);
	kp_term_begin_raw(&r, b.p, b.len);
	assert_int_equal(kp_plan_make(&s->plan, s->conf, "n@h", false, &r,
	    &diags), KP_OK);
	assert_int_equal(diags.n, 0);
	kp_diags_free(&diags);
	kp_buf_free(&b);
}

static void
side_free(struct side *s)
{
	kp_plan_free(&s->plan);
	kp_conf_free(s->conf);
}

static void
put_ops(struct kp_buf *b, const struct kp_plan *plan, enum kp_plan_op op)
{
	for (const struct kp_plan_item *i = plan->v; i < plan->v + plan->n; i++)
		if (i->op == op)
			kp_buf_printf(b, "%s%c%s:%s/%u", b->len > 0 ? " " : "",
			    op == KP_PLAN_PUT ? '+' : '-', i->mod, i->fun,
			    i->arity);
}

static void
sides(const char *from, const char *to)
{
	side_make(&was, from);
	side_make(&is, to);
}

static void
carried_diff_is(const char *ops, struct kp_plan_change want, bool retry)
{
	struct kp_plan_change n;
	struct kp_buf b;

	kp_plan_carry(&is.plan, &was.plan, retry);
	assert_int_equal(kp_plan_diff(&is.plan, is.conf, &was.plan, was.conf,
	    &params, &n), KP_OK);
	kp_buf_init(&b, 4096);
	put_ops(&b, &is.plan, KP_PLAN_PUT);
	put_ops(&b, &was.plan, KP_PLAN_TAKE);
	assert_string_equal(kp_buf_cstr(&b), ops);
	assert_fields(n, IS(kept, want.kept) IS(changed, want.changed)
	    IS(added, want.added) IS(removed, want.removed));
	kp_buf_free(&b);
	side_free(&was);
	side_free(&is);
}

static void
diff_is(const char *ops, struct kp_plan_change want)
{
	carried_diff_is(ops, want, false);
}

#define N(k, c, a, r) ((struct kp_plan_change){ k, c, a, r })

TEST(the_same)
{
	sides("{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}.");
	diff_is("", N(2, 0, 0, 0));
}

/* Names, order, numbers: nothing that the target knows of. */
TEST(not_the_targets)
{
	sides("{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}. {slow_ms, 1}.",
	    "{tiers, [{store, {db,a,1}}, {web, {w,h,1}}]}. "
	    "{entry, {w,h,1}}. {sampling, {one_in, 7}}. {slow_ms, 9}.");
	diff_is("", N(2, 0, 0, 0));
}

TEST(come_and_go)
{
	sides("{tiers, [{web, {w,h,1}}, {db, [{db,a,1}, {db,b,1}]}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, [{db,b,1}, {db,h,1}]}]}.");
	diff_is("+db:h/1 -db:a/1", N(2, 0, 1, 1));
}

/* The function is the same, what it is for is not. */
TEST(another_entry)
{
	sides("{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}. {entry, {db,a,1}}.");
	diff_is("+w:h/1 +db:a/1", N(0, 2, 0, 0));
}

TEST(another_identity)
{
	sides("{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}. "
	    "{identity, fun({w,h,[X]}) when is_atom(X) -> X end}.",
	    "{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}. "
	    "{identity, fun({w,h,[X]}) when is_integer(X) -> X end}.");
	diff_is("+w:h/1", N(1, 1, 0, 0));
}

TEST(made_exact)
{
	sides("{tiers, [{web, {w,h,1}}, {db, {db,a,1}}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, {db,a,1}, [exact]}]}.");
	diff_is("+db:a/1", N(1, 1, 0, 0));
}

/* For good is for longer than a tiers.conf. */
TEST(disarmed_for_good)
{
	sides("{tiers, [{web, {w,h,1}}, {db, [{db,a,1}, {db,b,1}]}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, {db,a,1}, [exact]}]}.");
	was.plan.v[1].disarmed = true;
	was.plan.v[2].disarmed = true;
	diff_is("-db:b/1", N(1, 0, 0, 0));
}

/*
 * What was too hot is tried again with another tiers.conf; what is found to be is
 * taken.
 */
TEST(too_hot)
{
	sides("{tiers, [{web, {w,h,1}}, {db, [{db,a,1}, {db,b,1}]}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, [{db,a,1}, {db,b,1}]}]}.");
	was.plan.v[1].disarmed = was.plan.v[1].hot = true;
	diff_is("", N(2, 0, 0, 0));
	sides("{tiers, [{web, {w,h,1}}, {db, [{db,a,1}, {db,b,1}]}]}.",
	    "{tiers, [{web, {w,h,1}}, {db, [{db,a,1}, {db,b,1}]}]}.");
	was.plan.v[1].disarmed = was.plan.v[1].hot = true;
	is.plan.v[2].disarmed = is.plan.v[2].hot = true;
	carried_diff_is("+db:a/1 -db:b/1", N(1, 0, 1, 1), true);
}

TESTS(NULL, NULL)
