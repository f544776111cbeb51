/*
 * What a node says of its supervisors and pools, the work of pools' processes, and
 * what a person reads of it.
 */
#include "cases.h"
#include "kprofd/etf.h"
#include "suggest/pools.h"

static void
put_pool(struct kp_buf *b, const char *app, const char *parent,
    const char *owner, const char *child, uint32_t first, uint32_t n, int gone)
{
	kp_etf_tuple(b, 9);
	kp_etf_atom(b, app);
	kp_etf_binary(b, parent, strlen(parent));
	kp_etf_atom(b, owner);
	kp_etf_binary(b, child, strlen(child));
	kp_etf_int(b, 1);
	kp_etf_int(b, n * 2);
	kp_etf_int(b, gone);
	kp_etf_bool(b, false);
	kp_etf_list(b, n);
	for (uint32_t i = 0; i < n; i++)
		kp_etf_pid(b, "a@b", first + i, 0, 1);
	kp_etf_nil(b);
}

static void
put_app(struct kp_buf *b, const char *app, int supervisors, const char *name)
{
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, app);
	kp_etf_int(b, 12);
	kp_etf_int(b, supervisors);
	if (supervisors > 0) {
		kp_etf_list(b, 1);
		kp_etf_binary(b, name, strlen(name));
	}
	kp_etf_nil(b);
}

static void
put_waits(struct kp_buf *b, const char *server, int waiting, const char *mod)
{
	kp_etf_tuple(b, 3);
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, server);
	kp_etf_nil(b);
	kp_etf_int(b, waiting);
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, mod);
	kp_etf_atom(b, "take");
	kp_etf_int(b, 1);
}

static void
put_all(struct kp_buf *b)
{
	kp_buf_init(b, 4096);
	kp_etf_version(b);
	kp_etf_tuple(b, 2);
	kp_etf_int(b, 30);
	kp_etf_int(b, 7);
	kp_etf_list(b, 3);
	put_app(b, "shop", 2, "shop_sup");
	put_app(b, "kernel", 5, "kernel_sup");
	put_app(b, "undefined", 0, "");
	kp_etf_nil(b);
	kp_etf_list(b, 3);
	put_pool(b, "shop", "db_sup\x1b", "poolboy", "db_worker:init/1", 10, 5,
	    0);
	put_pool(b, "shop", "tasks", "undefined", "shop_task:run/1", 20, 4, 3);
	put_pool(b, "kernel", "k", "undefined", "k:init/1", 30, 2, 0);
	kp_etf_nil(b);
	kp_etf_list(b, 1);
	put_waits(b, "shop_pool", 12, "shop_db");
	kp_etf_nil(b);
}

/* The terms stand behind others in a message. */
static enum kp_err
read_all(struct suggest_pools *p, const struct kp_buf *b, size_t len)
{
	struct kp_term r;

	*p = (struct suggest_pools){ 0 };
	kp_term_begin(&r, b->p, len);
	return suggest_pools_read(p, &r);
}

static bool
is_platform(const void *ctx, const char *app, const char *mod)
{
	(void)ctx, (void)mod;
	return strcmp(app, "kernel") == 0;
}

TEST(test_said)
{
	struct suggest_pools p;
	struct kp_buf b, text;

	put_all(&b);
	assert_int_equal(read_all(&p, &b, b.len), KP_OK);
	assert_int_equal(p.n, 3);
	/* Three of five members are at work, and there are ten. */
	for (uint64_t proc = 10; proc < 13; proc++)
		assert_true(suggest_pools_sample(&p, proc, true, KP_NS_PER_S));
	assert_true(suggest_pools_sample(&p, 13, false, KP_NS_PER_S));
	assert_false(suggest_pools_sample(&p, 20, true, KP_NS_PER_S));
	assert_false(suggest_pools_sample(&p, 99, true, KP_NS_PER_S));
	kp_buf_init(&text, 4096);
	suggest_pools_about(&p, KP_NS_PER_S, is_platform, NULL, &text);
	assert_string_equal(kp_buf_cstr(&text),
	    "shop: 12 processes, 2 supervisors (shop_sup).\n"
	    "db_sup\\x1b: 10 of db_worker:init/1 (a pool): 6.00 at work on "
	    "average.\n"
	    "tasks: 8 of shop_task:run/1, which come and go.\n"
	    "shop_pool answers later than it takes messages, as a pool does whose "
	    "workers are all taken: 12 processes waited for it at once in "
	    "shop_db:take/1.\n"
	    "What 30 processes are there for is known; 7 processes not seen "
	    "(at most 10 000 are asked, and only a second long).\n");
	kp_buf_free(&text);
	kp_buf_free(&b);
	suggest_pools_free(&p);
}

/*
 * Of the workers' module, and of the one that owns the supervisor; and functions that
 * several wait in, or of a pool that is known.
 */
TEST(test_marks)
{
	static const struct {
		const char *mod, *fun;
		uint32_t arity;
		bool pool, waits;
	} v[] = {
		{ "db_worker", "f", 0, true, false },
		{ "poolboy", "f", 0, true, false },
		{ "poolboy", "checkout", 2, true, true },
		{ "poolboy", "transaction", 2, true, true },
		{ "shop_task", "f", 0, false, false },
		{ "undefined", "f", 0, false, false },
		{ "shop_db", "take", 1, false, true },
		{ "shop_db", "take", 2, false, false },
		{ "Elixir.DBConnection.Holder", "checkout", 3, false, true }
	};
	struct kp_call_names *t = kp_call_names_new();
	struct suggest_fn fns[KP_FN_FIRST + sizeof(v) / sizeof(v[0])] = {
		{ .pool = false } };
	struct suggest_pools p;
	struct kp_span mod, fun;
	struct kp_buf b;
	uint32_t fn;
	bool added;

	put_all(&b);
	assert_int_equal(read_all(&p, &b, b.len), KP_OK);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		mod = (struct kp_span){ (const uint8_t *)v[i].mod,
			(uint32_t)strlen(v[i].mod) };
		fun = (struct kp_span){ (const uint8_t *)v[i].fun,
			(uint32_t)strlen(v[i].fun) };
		assert_int_equal(kp_call_fn_put(t, mod, fun, v[i].arity, &fn,
		    &added), KP_OK);
	}
	suggest_pools_mark(&p, t, fns);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_int_equal(fns[KP_FN_FIRST + i].pool, v[i].pool);
		assert_int_equal(fns[KP_FN_FIRST + i].waits, v[i].waits);
	}
	kp_call_names_free(t);
	kp_buf_free(&b);
	suggest_pools_free(&p);
}

/* Whatever ends too early, or has a byte that is another, is refused or read. */
TEST(test_broken)
{
	struct suggest_pools p;
	struct kp_buf b;

	put_all(&b);
	for (size_t n = 1; n < b.len; n++) {
		assert_int_not_equal(read_all(&p, &b, n), KP_OK);
		assert_false(p.answered);
		suggest_pools_free(&p);
	}
	for (size_t i = 1; i < b.len; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			b.p[i] ^= (uint8_t)(1u << bit);
			read_all(&p, &b, b.len);
			suggest_pools_sample(&p, 10, true, INT64_MAX);
			suggest_pools_sample(&p, 10, true, INT64_MAX);
			suggest_pools_free(&p);
			b.p[i] ^= (uint8_t)(1u << bit);
		}
	kp_buf_free(&b);
}

/* Processes with sockets may serve clients: they are a pool, and not for others. */
TEST(test_ports)
{
	struct suggest_pools p;
	struct kp_buf b;

	put_all(&b);
	assert_int_equal(read_all(&p, &b, b.len), KP_OK);
	assert_true(suggest_pools_sample(&p, 10, false, KP_NS_PER_S));
	suggest_pools_input(&p, 11);
	suggest_pools_input(&p, 99);
	assert_true(p.v[0].ports && !p.v[1].ports);
	assert_false(suggest_pools_sample(&p, 10, true, KP_NS_PER_S));
	assert_true(p.v[0].work == KP_NS_PER_S);
	kp_buf_free(&b);
	suggest_pools_free(&p);
}

/* A node that did not answer is not one without pools. */
TEST(test_unknown)
{
	const struct suggest_pools p = { .answered = false };
	struct kp_buf text;

	kp_buf_init(&text, 4096);
	suggest_pools_about(&p, KP_NS_PER_S, is_platform, NULL, &text);
	assert_has(kp_buf_cstr(&text), "did not answer");
	kp_buf_free(&text);
}

TESTS(NULL, NULL)
