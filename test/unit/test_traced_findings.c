/* test_traced_findings.c - what a check makes of the events and requests of a target. */
#include "cases.h"
#include "daemon/check/traced_findings.h"
#include "kprofd/etf.h"

#define TIERS "{tiers, [{db, {db, get, 1}}]}. {entry, {web, handle, 2}}.\n" \
	"{identity, fun({web, handle, [{get, P}, _]}) -> P; " \
	"(_) -> undefined end}."

enum fn { WEB, DB, OUTSIDE };

static const struct { const char *mod, *fun; int arity; } fns[] = {
	[WEB] = { "web", "handle", 2 }, [DB] = { "db", "get", 1 },
	[OUTSIDE] = { "cowboy", "run", 3 } };

static struct kp_conf *conf;
static struct findings *seen;
static struct kp_requests *rs;
static uint32_t node;
static kp_target_ns now;
static struct kp_buf mfa[3], identity;

static void
on_request(void *ctx, const struct kp_request *rq)
{
	(void)ctx;
	findings_request(seen, rs, rq);
}

static uint32_t process = 7;	/* whose events these are */

FIXTURE(begin)
{
	static char web[] = "web", handle[] = "handle", db[] = "db",
	    get[] = "get";
	static struct kp_plan_item items[] = {
		{ .mod = web, .fun = handle, .arity = 2, .entry = true },
		{ .mod = db, .fun = get, .arity = 1, .tiers = 1 } };
	const struct kp_plan plan = { .v = items, .n = 2 };
	struct kp_requests_opts ro = { .on_request = on_request };
	struct kp_diags d;

	assert_int_equal(kp_conf_parse(&conf, TIERS, strlen(TIERS), &d), KP_OK);
	kp_diags_free(&d);
	ro.conf = conf;
	rs = kp_requests_new(&ro);
	node = kp_requests_node(rs, "n@h");
	kp_requests_native(rs, node, true);
	kp_requests_set_otp(rs, node, 27);
	seen = findings_new(conf, &plan);
	assert_non_null(seen);
	for (int i = 0; i < 3; i++) {
		kp_buf_init(&mfa[i], 100);
		kp_etf_tuple(&mfa[i], 3);
		kp_etf_atom(&mfa[i], fns[i].mod);
		kp_etf_atom(&mfa[i], fns[i].fun);
		kp_etf_int(&mfa[i], fns[i].arity);
	}
	kp_buf_init(&identity, 1 << 16);
	now = 1000;
	process = 7;
	return 0;
}

FIXTURE(end)
{
	findings_free(seen);
	seen = NULL;
	kp_requests_free(rs);
	kp_conf_free(conf);
	for (int i = 0; i < 3; i++)
		kp_buf_free(&mfa[i]);
	kp_buf_free(&identity);
	return 0;
}

static struct kp_span
span(const struct kp_buf *b)
{
	return (struct kp_span){ b->p, (uint32_t)b->len };
}

static void
put(struct kp_event *ev)
{
	static const char name[] = "n@h";

	ev->pid = (struct kp_pid){ { (const uint8_t *)name, 3 }, process, 0, 1 };
	ev->ts = now += 1000;
	findings_event(seen, ev);
	assert_int_equal(ev->identity.n, 0);
	kp_requests_events(rs, node, ev, 1);
}

/* The message's identity is the number of a clause. */
static void
clause(int64_t n)
{
	kp_buf_reset(&identity);
	kp_etf_int(&identity, n);
}

static void
called(enum kp_event_kind kind, enum fn fn, enum fn caller, uint64_t label,
    uint64_t old)
{
	struct kp_event ev = { .kind = kind, .mfa = span(&mfa[fn]),
		.caller = span(&mfa[caller]), .label = label,
		.old_label = old, .weight = kind == KP_EV_ENTRY,
		.identity = span(&identity) };

	put(&ev);
}

static void
returned(enum fn fn)
{
	struct kp_event ev = { .kind = KP_EV_RETURN_FROM,
		.mfa = span(&mfa[fn]) };

	put(&ev);
}

static const struct kp_check *
got(void)
{
	static struct kp_check c;

	c = (struct kp_check){ .conf = conf };
	kp_requests_close_due(rs, node, now += KP_NS_PER_S);
	findings_get(seen, &c);
	return &c;
}

TEST(requests)
{
	struct kp_check c;

	for (uint64_t label = 1; label <= 3; label++) {
		clause(label == 1 ? 1 : 2);
		called(KP_EV_ENTRY, WEB, OUTSIDE, label, label - 1);
		clause(2);
		called(KP_EV_CALL, DB, WEB, label, 0);
		returned(DB);
		called(KP_EV_CALL, DB, WEB, label, 0);
		returned(DB);
		if (label < 3)
			returned(WEB);
	}
	c = *got();
	assert_fields(c, IS(requests, 2) IS(matched[0], 1) IS(matched[1], 2 + 6)
	    IS(seen[0].entered, 3) IS(seen[0].ended, 2) IS(seen[0].nested, 0)
	    IS(seen[0].known, 3) IS(seen[1].calls, 4) IS(seen[1].known, 6));
	assert_false(c.seen[1].recursive);
}

/* web:handle/2 calls itself, then is called by a function that it calls. */
TEST(nested)
{
	clause(2);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 1, 0);
	called(KP_EV_ENTRY, WEB, WEB, 2, 1);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 3, 2);
	for (int i = 0; i < 3; i++)
		returned(WEB);
	assert_fields(*got(), IS(seen[0].entered, 3) IS(seen[0].nested, 2));
}

/*
 * A process got a message of a request that goes on, and with it the token, which a
 * socket's data do not take away: what it begins then is no call of web:handle/2 by
 * itself, nor is there a function around both.
 */
TEST(nested_elsewhere)
{
	clause(2);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 1, 0);
	process = 8;
	called(KP_EV_ENTRY, WEB, OUTSIDE, 2, 1);
	returned(WEB);
	assert_fields(*got(), IS(requests, 1) IS(seen[0].nested, 0)
	    IS(seen[0].chained, 0));
}

/* As the relay of OTP 25 shows tail calls: one return ends the last of them. */
TEST(chained)
{
	kp_requests_native(rs, node, false);
	kp_requests_set_otp(rs, node, 25);
	clause(2);
	for (uint64_t label = 1; label <= 3; label++)
		called(KP_EV_ENTRY, WEB, OUTSIDE, label, label - 1);
	put(&(struct kp_event){ .kind = KP_EV_RETURN_TO,
	    .mfa = span(&mfa[OUTSIDE]) });
	assert_fields(*got(), IS(seen[0].entered, 3) IS(seen[0].chained, 2)
	    IS(seen[0].ended, 1));
}

TEST(tier_calls_itself)
{
	clause(2);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 1, 0);
	for (int i = 0; i < 3; i++)
		called(KP_EV_CALL, DB, i == 0 ? WEB : DB, 1, 0);
	for (int i = 0; i < 3; i++)
		returned(DB);
	returned(WEB);
	assert_int_equal(got()->seen[1].calls, 3);
	assert_true(got()->seen[1].recursive);
}

/* ranch_tcp:sendfile/5 with a path opens the file, and calls itself with that. */
TEST(tier_calls_itself_once)
{
	clause(2);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 1, 0);
	called(KP_EV_CALL, DB, WEB, 1, 0);
	called(KP_EV_CALL, DB, DB, 1, 0);
	returned(DB);
	returned(DB);
	returned(WEB);
	assert_int_equal(got()->seen[1].calls, 2);
	assert_false(got()->seen[1].recursive);
}

/* What has no number, or one of no clause, is not counted. */
TEST(unknown)
{
	clause(3);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 1, 0);
	clause(-1);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 2, 1);
	kp_buf_reset(&identity);
	kp_etf_atom(&identity, "_other");
	called(KP_EV_ENTRY, WEB, OUTSIDE, 3, 2);
	called(KP_EV_CALL, OUTSIDE, WEB, 3, 0);
	assert_fields(*got(), IS(seen[0].entered, 3) IS(seen[0].known, 0));
	clause(0);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 4, 3);
	assert_int_equal(got()->seen[0].known, 1);
	assert_int_equal(got()->matched[0] + got()->matched[1], 0);
}

TEST(limit)
{
	clause(1);
	for (uint64_t i = 1; i <= KP_CHECK_CALLS_MAX + 5; i++) {
		called(KP_EV_ENTRY, WEB, OUTSIDE, i, i - 1);
		returned(WEB);
	}
	assert_int_equal(findings_entered(seen), KP_CHECK_CALLS_MAX);
	assert_int_equal(got()->matched[0], KP_CHECK_CALLS_MAX);
	assert_int_equal(got()->seen[0].ended, KP_CHECK_CALLS_MAX);
}

static void
explained(const char *want)
{
	struct kp_buf b;

	kp_buf_init(&b, 1 << 16);
	findings_explain(seen, &b);
	assert_string_equal(kp_buf_cstr(&b), want);
	kp_buf_free(&b);
}

TEST(example)
{
	explained("");
	clause(1);
	called(KP_EV_ENTRY, WEB, OUTSIDE, 1, 0);
	explained("no example: a clause with a pattern matched each call of "
	    "web:handle/2\n");
	/* that was said too where the native probe could not show what fell through */
	kp_buf_reset(&identity);
	kp_etf_atom(&identity, "_other");
	called(KP_EV_ENTRY, WEB, OUTSIDE, 5, 0);
	explained("no example: of 1 call that no clause with a pattern matched, what "
	    "web:handle/2 was called with is too large for the native probe (-probe "
	    "relay shows it)\n");
	for (int type = 2; type < 4; type++) {	/* the first is kept */
		kp_buf_reset(&identity);
		kp_etf_tuple(&identity, 2);
		kp_etf_int(&identity, 2);
		kp_etf_tuple(&identity, 1);
		kp_etf_tuple(&identity, 6);
		kp_etf_tuple(&identity, 4);
		kp_etf_int(&identity, type);
		for (int i = 0; i < 8; i++)
			kp_etf_bool(&identity, false);
		called(KP_EV_ENTRY, WEB, OUTSIDE, (uint64_t)type, 1);
	}
	explained("example: web:handle(integer, ...)\n");
}

TESTS(begin, end)
