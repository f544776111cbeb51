/* test_check.c - what kprofd -check says of a plan, by rates and traced requests. */
#include <math.h>

#include "cases.h"
#include "kprofd/check.h"

static struct kp_conf *conf;
static struct kp_diags diags;

/* An entry, and a function of a tier. */
static struct kp_plan_item items[2];
static struct kp_check_seen seen[2];
static const struct kp_plan plan = { .v = items, .n = 2 };
static struct kp_check check;

#define LONGER "look longer, as kprof check -for 20s does"

static void
begin(const char *more)
{
	static char web[] = "web", handle[] = "handle", db[] = "db",
	    get[] = "get";
	char text[256];
	struct kp_diags d;

	snprintf(text, sizeof(text), "{tiers, [{db, {db,get,1}}]}. "
	    "{entry, {web,handle,2}}. %s", more);
	assert_int_equal(kp_conf_parse(&conf, text, strlen(text), &d), KP_OK);
	kp_diags_free(&d);
	items[0] = (struct kp_plan_item){ .mod = web, .fun = handle, .arity = 2,
		.entry = true, .rate = 10, .pos = { 2, 1 } };
	items[1] = (struct kp_plan_item){ .mod = db, .fun = get, .arity = 1,
		.tiers = 1, .rate = 20, .pos = { 1, 9 } };
	memset(seen, 0, sizeof(seen));
	check = (struct kp_check){ .conf = conf, .plan = &plan,
		.counted = 2 * KP_NS_PER_S };
}

static void
judge(void)
{
	kp_diags_free(&diags);
	diags = (struct kp_diags){ 0 };
	kp_check_judge(&check, &diags);
}

static void
judged(bool warning, uint32_t line, const char *text)
{
	judge();
	assert_fields(diags, IS(n, 1) IS(v[0].warning, warning)
	    IS(v[0].pos.line, line) IS(v[0].text, text));
}

static void
nothing_wrong(void)
{
	judge();
	assert_int_equal(diags.n, 0);
}

static void
end(void)
{
	kp_diags_free(&diags);
	diags = (struct kp_diags){ 0 };
	kp_conf_free(conf);
}

TEST(called)
{
	static char maps[] = "maps", web[] = "web", handle[] = "handle";

	begin("");
	nothing_wrong();
	items[0].rate = -1;	/* somebody else counts it */
	nothing_wrong();
	items[0].rate = 0;
	/* its calls are not seen */
	items[0].mod = maps, items[0].fun = items[1].fun;
	nothing_wrong();
	items[0].mod = web, items[0].fun = handle;
	judged(true, 2, "web:handle/2 was not called in 2 s: without its calls "
	    "there are no requests (send the node a request meanwhile, " LONGER
	    ", or name another entry)");
	/* of the functions of one pattern one is enough */
	items[1].entry = true;
	items[1].pos = items[0].pos;
	nothing_wrong();
	items[1].rate = 0;
	judge();
	assert_int_equal(diags.n, 1);
	end();
}

TEST(returns)
{
	begin("");
	items[0].loop = true;
	judged(false, 2, "web:handle/2 never returns: a process was in it for "
	    "all of 2 s, and requests would have no end (name the function "
	    "that handles one message)");
	items[0].rate = 0;	/* it waits for a message, or its request is long */
	judged(true, 2, "web:handle/2 was not called, and may never return: a "
	    "process was in it for all of 2 s, and requests would have no end "
	    "(name the function that handles one message)");
	items[0].rate = 10;
	check.seen = seen;
	seen[0] = (struct kp_check_seen){ .entered = 5, .ended = 1 };
	nothing_wrong();	/* a long request */
	items[0].loop = false;
	seen[0].ended = 0;
	judged(true, 2, "web:handle/2 did not return from any of the 5 calls "
	    "traced in 2 s: its requests are longer, or never end (" LONGER "; of a "
	    "server's loop, name the function that handles one message)");
	end();
}

/* A cast: the request was over after 5 us, whatever it set off. */
TEST(hands_on)
{
	static char gen[] = "gen_server", cast[] = "cast";

	begin("");
	check.seen = seen;
	seen[0] = (struct kp_check_seen){ .entered = 20, .ended = 20, .handed = 18,
		.worker = 1 };
	judged(true, 2, "web:handle/2 only hands on: in 18 of 20 traced requests all "
	    "calls of tiers came when it had returned, so they are not in the "
	    "request's time, but after it (name the function that does the work, "
	    "such as db:get/1, or a finish)");
	seen[0].handed = 17;
	nothing_wrong();
	seen[0] = (struct kp_check_seen){ .entered = 4, .ended = 4, .handed = 4,
		.worker = 1 };
	nothing_wrong();
	items[0].mod = gen, items[0].fun = cast;
	judged(true, 2, "gen_server:cast/2 only hands on, and for all that call it, the "
	    "node's own servers, too (name the function that calls it for a "
	    "request, or the one that does the work)");
	end();
}

/* The relay of OTP 25 cannot tell tail calls from exceptions. */
TEST(chained)
{
	struct kp_plan native = plan;

	native.native = true;
	begin("");
	check.seen = seen;
	seen[0] = (struct kp_check_seen){ .entered = 6, .ended = 4,
		.chained = 2 };
	nothing_wrong();
	seen[0] = (struct kp_check_seen){ .entered = 6, .chained = 5 };
	judged(true, 2, "web:handle/2 calls itself by tail calls, or ends by "
	    "exceptions: no end was seen of 5 of the 6 calls traced (check with "
	    "-probe native, which can tell)");
	/* it was proposed there as well, where there is no doubt */
	check.plan = &native;
	judged(true, 2, "web:handle/2 calls itself by tail calls: no end was seen of 5 "
	    "of the 6 calls traced (name a function that it calls for each request)");
	end();
}

TEST(calls_itself)
{
	begin("");
	items[0].recursive = true;
	judged(true, 2, "web:handle/2 calls itself: each of these calls begins "
	    "a request inside the request (name a function around it, which is "
	    "called once for each request)");
	items[0].disarmed = true;	/* too hot */
	judge();
	assert_int_equal(diags.errors, 1);
	items[0].disarmed = false;
	items[0].recursive = false;
	check.seen = seen;
	seen[0] = (struct kp_check_seen){ .entered = 10, .ended = 10,
		.nested = 5 };
	judge();
	assert_int_equal(diags.errors, 1);
	seen[0].nested = 4;
	judge();
	assert_int_equal(diags.errors, 0);
	assert_has(diags.v[0].text, "sometimes calls itself");
	end();
}

TEST(in_a_loop)
{
	begin("");
	items[1].rate = 999;
	nothing_wrong();
	items[1].rate = 1000;
	judged(true, 1, "db:get/1 is called 100 times for each request: it is in "
	    "a loop (name the function that has the loop, unless each of its "
	    "calls is of interest)");
	/* most of its calls are not of requests */
	check.seen = seen;
	check.requests = 10;
	seen[0].ended = 10;
	seen[1].calls = 30;
	nothing_wrong();
	seen[1].recursive = true;
	judged(true, 1, "db:get/1 calls itself, and every call of it is traced "
	    "(name a function around it)");
	items[1].disarmed = true;	/* reported as too hot */
	nothing_wrong();
	end();
}

#define IDENTITY "\n{identity, fun({web, handle, [{get, P}, _]}) -> {get, P};\n" \
	"({web, handle, [{put, P}, _]}) -> {put, P};\n" \
	"({db, get, [K]}) when is_atom(K) -> K;\n" \
	"(_) -> undefined end}."

static uint64_t matched[4];

static void
begin_identity(void)
{
	begin(IDENTITY);
	check.seen = seen;
	check.matched = matched;
	seen[0] = (struct kp_check_seen){ .entered = 7, .ended = 7, .known = 7 };
	memcpy(matched, (uint64_t [4]){ 3, 4, 0, 0 }, sizeof(matched));
}

/*
 * A pool gives a worker to whoever waits longest, and its answer has the token of
 * who gave the worker back.  With {one_in, 10} nine of ten answers have none: a
 * function called once in each request showed 0.09, and the check said "ok".
 */
TEST(loses_tokens)
{
	begin("{sampling, {one_in, 10}}.");
	check.seen = seen;
	check.requests = 100;
	seen[0].entered = seen[0].ended = 100;
	seen[1] = (struct kp_check_seen){ .calls = 100, .strayed = 90 };
	judged(true, 1, "db:get/1: 90 % of its calls in traced requests came with "
	    "another request's token, from an answer that another request set "
	    "off (a pool's worker that was given back, a deferred reply): where "
	    "one request in 10 is sampled, about 81 % of its calls would not be "
	    "seen ({sampling, all} sees them)");
	/* as the check sampled one request in 10, too */
	seen[1] = (struct kp_check_seen){ .calls = 19, .strayed = 9,
		.missed = 81 };
	judge();
	assert_int_equal(diags.n, 1);
	assert_has(diags.v[0].text, "about 81 % of");
	seen[1] = (struct kp_check_seen){ .calls = 100, .strayed = 2 };
	nothing_wrong();
	/* none came back: all workers were taken when tracing began */
	seen[1] = (struct kp_check_seen){ .calls = 3 };
	judged(true, 1, "db:get/1 is called 2 times for each request, as the VM "
	    "counts, and traced requests have hardly any of these calls: they "
	    "are made outside of requests, or tokens are lost before them, as "
	    "where all workers of a pool are taken, and a request gets its "
	    "worker from one that is not measured");
	seen[1] = (struct kp_check_seen){ .calls = 1000, .strayed = 40 };
	nothing_wrong();
	end();
	/* All are sampled: at 10 a second, of 1000 at most. */
	begin("");
	check.seen = seen;
	check.requests = 100;
	seen[0].entered = seen[0].ended = 100;
	seen[1] = (struct kp_check_seen){ .calls = 100, .strayed = 90 };
	nothing_wrong();
	end();
}

TEST(clauses)
{
	begin_identity();
	assert_int_equal(kp_check_clauses(conf), 4);
	nothing_wrong();	/* nobody called db:get/1 */
	matched[1] = 0;
	judged(true, 3, "this clause matched none of the 7 calls of web:handle/2 "
	    "that were seen (see -explain, or " LONGER ")");
	assert_int_equal(diags.v[0].pos.col, 2);
	check.explained = true;
	judged(true, 3, "this clause matched none of the 7 calls of web:handle/2 "
	    "that were seen (" LONGER ")");
	matched[0] = 0;
	judge();
	assert_fields(diags, IS(n, 2) IS(v[0].pos.line, 2));
	/* the other one named all: this one is for other versions of web */
	matched[0] = 7;
	nothing_wrong();
	matched[0] = matched[1] = 1;
	seen[1].known = 2;
	judged(true, 4, "this clause matched none of the 2 calls of db:get/1 that "
	    "were seen (" LONGER ")");
	end();
}

/* Clauses of functions that are not called say nothing; all is undefined. */
TEST(all_undefined)
{
	begin("\n{identity, fun({db, get, [K]}) when is_atom(K) -> K; "
	    "(_) -> undefined end}.");
	check.seen = seen;
	check.matched = matched;
	memset(matched, 0, sizeof(matched));
	nothing_wrong();	/* no requests */
	seen[0] = (struct kp_check_seen){ .entered = 7, .ended = 7, .known = 7 };
	matched[1] = 7;
	judged(true, 2, "no clause gave a type to any of the 7 requests that were "
	    "seen: all would be 'undefined' (see -explain)");
	matched[0] = 1;
	nothing_wrong();
	end();
	begin("");
	check.seen = seen;
	check.matched = matched;
	seen[0] = (struct kp_check_seen){ .entered = 7, .ended = 7, .known = 7 };
	nothing_wrong();	/* there is no identity fun */
	end();
}

TEST(waits)
{
	static const struct kp_waits w = { .server = "shop_pool", .waiting = 7,
		.mod = "db", .fun = "take", .arity = 1 };
	static const struct kp_waits has = { .server = "shop_pool", .waiting = 7,
		.mod = "db", .fun = "get", .arity = 1 };

	begin("{sampling, all}.");
	check.waits = &w;
	check.nwaits = 1;
	judged(true, 2, "shop_pool answers requests later than it takes their "
	    "messages, as a pool does whose workers are all taken (7 waited for it "
	    "at once): such an answer may have another request's token, which "
	    "kprofd puts right; to see how long requests wait, add to tiers: "
	    "{take, {db, take, 1}}");
	check.waits = &has;
	nothing_wrong();
	end();
}

TEST(price)
{
	struct kp_check_price p;

	begin("{sampling, all}.");
	p = kp_check_price(&check);
	assert_true(fabs(p.events - 60) < 1e-9);
	/* 30 calls of 350 ns, 60 events of 1 us, 25 times 280 ns in 10 requests */
	assert_true(fabs(p.percent - (30 * 350 + 60 * 1000 + 10 * 25 * 280) /
	    1e7) < 1e-9);
	end();
	begin("{sampling, {per_second, 5}}.");
	assert_true(fabs(kp_check_price(&check).events - 30) < 1e-9);
	items[1].disarmed = true;
	items[0].rate = -1;
	assert_true(fabs(kp_check_price(&check).events - 0) < 1e-9);
	end();
	begin("{sampling, {one_in, 10}}.");
	assert_true(fabs(kp_check_price(&check).events - 6) < 1e-9);
	end();
}

TESTS(NULL, NULL)
