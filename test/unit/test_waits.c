/* test_waits.c - servers that answer later, as a target names them. */
#include "cases.h"
#include "kprofd/etf.h"
#include "kprofd/waits.h"

static struct kp_buf term;

static void
put_fn(const char *mod, const char *fun, uint32_t arity)
{
	if (mod == NULL) {
		kp_etf_nil(&term);
		return;
	}
	kp_etf_tuple(&term, 3);
	kp_etf_atom(&term, mod);
	kp_etf_atom(&term, fun);
	kp_etf_int(&term, arity);
}

static void
put_server(const char *reg, const char *mod, const char *fun)
{
	kp_etf_tuple(&term, 2);
	if (reg != NULL)
		kp_etf_atom(&term, reg);
	else
		kp_etf_nil(&term);
	put_fn(mod, fun, 1);
}

TEST(names)
{
	static const struct {
		const char *reg, *mod, *fun, *name;
	} v[] = {
		{ "shop_pool", "poolboy", "init", "shop_pool (poolboy:init/1)" },
		{ "shop_pool", NULL, NULL, "shop_pool" },
		{ "shop_pool", "erlang", "apply", "shop_pool" },
		{ NULL, "Elixir.DBConnection.ConnectionPool", "init",
		    "DBConnection.ConnectionPool.init/1" },
		{ "Elixir.Shop.Pool", NULL, NULL, "Shop.Pool" },
		{ "odd\x1b[31m", NULL, NULL, "odd\\x1b[31m" },
		{ NULL, NULL, NULL, "" }
	};
	char name[KP_SERVER_NAME_MAX];
	struct kp_term r;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		kp_buf_init(&term, 1000);
		put_server(v[i].reg, v[i].mod, v[i].fun);
		kp_term_begin_raw(&r, term.p, term.len);
		assert_int_equal(kp_server_read(&r, name), KP_OK);
		assert_int_equal(kp_term_finish(&r), KP_OK);
		assert_string_equal(name, v[i].name);
		kp_buf_free(&term);
	}
}

/* What a list of one is read as; NULL: refused. */
static const struct kp_waits *
read_one(int64_t waiting, const char *mod, const char *fun, uint32_t arity)
{
	static struct kp_waits v[2];
	struct kp_term r;
	size_t n;
	enum kp_err e;

	kp_buf_init(&term, 1000);
	kp_etf_list(&term, 1);
	kp_etf_tuple(&term, 3);
	put_server("shop_pool", NULL, NULL);
	kp_etf_int(&term, waiting);
	put_fn(mod, fun, arity);
	kp_etf_nil(&term);
	kp_term_begin_raw(&r, term.p, term.len);
	e = kp_waits_read(&r, v, 2, &n);
	if (e == KP_OK)
		assert_int_equal(n, 1);
	/* No part of it is taken for the whole. */
	for (size_t cut = 0; cut < term.len; cut++) {
		struct kp_waits w[2];

		kp_term_begin_raw(&r, term.p, cut);
		assert_int_not_equal(kp_waits_read(&r, w, 2, &n), KP_OK);
	}
	kp_buf_free(&term);
	return e == KP_OK ? v : NULL;
}

TEST(reads)
{
	const struct kp_waits *w = read_one(3, "poolboy", "checkout", 3);

	assert_fields(*w, IS(server, "shop_pool") IS(waiting, 3)
	    IS(mod, "poolboy") IS(fun, "checkout") IS(arity, 3));
	/* Funs cannot be named, and the stack may show nothing. */
	assert_string_equal(read_one(3, "shop", "-pay/1-fun-0-", 1)->mod, "");
	assert_string_equal(read_one(3, NULL, NULL, 0)->mod, "");
	assert_null(read_one(-1, NULL, NULL, 0));
	assert_null(read_one(1, "a", "b", 256));
}

TEST(tiers)
{
	static const struct {
		const char *mod, *fun;
		uint32_t arity;
		const char *tiers, *advice;	/* advice "": it has a tier */
	} v[] = {
		{ "poolboy", "checkout", 3, "{db, {db, get, 1}}", "; to see how "
		    "long requests wait, add to tiers: {checkout, {poolboy, "
		    "checkout, '_'}} and {transaction, {poolboy, transaction, "
		    "'_'}}" },
		{ "poolboy", "checkout", 3, "{pool, {poolboy, checkout, 1}}", "" },
		{ "poolboy", "checkout", 3, "{pool, {poolboy, '_', '_'}}", "" },
		{ "poolboy", "checkout", 3, "{pool, {poolboy, transaction, 2}}",
		    "; to see how long requests wait, add to tiers: {checkout, "
		    "{poolboy, checkout, '_'}} and {transaction, {poolboy, "
		    "transaction, '_'}}" },
		{ "my_pool", "take", 0, "{db, {db, get, 1}}", "; to see how long "
		    "requests wait, add to tiers: {take, {my_pool, take, 0}}" },
		{ "my pool", "Take", 0, "{db, {db, get, 1}}", "; to see how long "
		    "requests wait, add to tiers: {pool, {'my pool', 'Take', "
		    "0}}" },
		{ "Elixir.DBConnection.Holder", "checkout", 3,
		    "{db, {db, get, 1}}", "; to see how long requests wait, add "
		    "to tiers: {checkout, \"DBConnection.Holder.checkout/_\"} "
		    "and {transaction, \"DBConnection.transaction/_\"}" },
		{ "Elixir.Shop.Pool", "take", 2, "{db, {db, get, 1}}", "; to see "
		    "how long requests wait, add to tiers: {take, "
		    "\"Shop.Pool.take/2\"}" },
		{ NULL, NULL, 0, "{db, {db, get, 1}}", "; to see how long requests "
		    "wait, name the function in which they do as a tier" }
	};
	static const char said[] = "shop_pool answers requests later than it "
	    "takes their messages, as a pool does whose workers are all taken (3 "
	    "waited for it at once): such an answer may have another request's "
	    "token, which kprofd puts right";
	const struct kp_waits *w;
	struct kp_conf *conf;
	struct kp_diags d;
	struct kp_buf b;
	char text[200], whole[1000];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(text, sizeof(text), "{tiers, [%s]}.", v[i].tiers);
		assert_int_equal(kp_conf_parse(&conf, text, strlen(text), &d),
		    KP_OK);
		kp_diags_free(&d);
		w = read_one(3, v[i].mod, v[i].fun, v[i].arity);
		assert_int_equal(kp_waits_has_tier(w, conf),
		    v[i].advice[0] == '\0');
		for (int all = 0; all < 2; all++) {
			kp_buf_init(&b, 2000);
			kp_waits_put(w, conf, all, &b);
			snprintf(whole, sizeof(whole), "%s%s%s", said, all ? "" :
			    " only where that one is sampled ({sampling, all} "
			    "samples each)", v[i].advice);
			assert_string_equal(kp_buf_cstr(&b), whole);
			kp_buf_free(&b);
		}
		kp_conf_free(conf);
	}
}

TESTS(NULL, NULL)
