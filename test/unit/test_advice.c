/*
 * Advice: each way in which a report is empty or odd gets its sentence, with the
 * way out, and a report that is neither gets none.
 */
#include "cases.h"
#include "report/advice.h"

#define S KP_NS_PER_S
#define T0 INT64_C(1795255200000000000)	/* 2026-11-21T10:00:00Z */

static const struct kp_query_nodes no_nodes;

/* A report of one minute of shop@vm, without figures. */
struct odd {
	struct report r;
	struct report_row rows[3];
	struct report_cell cells[3];
	char *nodes[1];
	struct advice a;
};

static void
begin(struct odd *o)
{
	*o = (struct odd){ .nodes = { "shop@vm" },
		.a = { .failed = "", .absent = "", .overload = "",
		    .asked = "", .nodes = &no_nodes,
		    .entries = "entry shop_handler:init/2", .named = true,
		    .run = true, .attached = true } };
	o->r = (struct report){ .windows = 6, .covered = 60 * S, .start = T0,
		.end = T0 + 60 * S, .nodes = o->nodes, .nnodes = 1,
		.rows = o->rows, .nrows = 1 };
	for (int i = 0; i < 3; i++)
		o->rows[i] = (struct report_row){ .cells = &o->cells[i] };
	o->rows[0].identity = "_total";
}

/* Of so many requests of a type, some were measured. */
static void
requests(struct odd *o, char *type, uint64_t n, uint64_t sampled)
{
	size_t row = o->r.nrows++;

	o->rows[row].identity = type;
	o->cells[row].requests = o->cells[row].calls = n;
	o->cells[row].sampled_requests = sampled;
	o->cells[0].requests = o->cells[0].calls += n;
	o->cells[0].sampled_requests += sampled;
	o->r.sampled += sampled;
	o->r.entry_calls += n;
}

/* The hints are exactly this one; NULL: there is none. */
static void
assert_advice(struct odd *o, const char *text)
{
	report_advise(&o->r, &o->a);
	if (text == NULL && o->r.nhints > 0)
		fail_msg("a hint too many: %s", o->r.hints[0]);
	assert_int_equal(o->r.nhints, text != NULL);
	if (text != NULL)
		assert_string_equal(o->r.hints[0], text);
	for (size_t i = 0; i < o->r.nhints; i++)
		free(o->r.hints[i]);
	free(o->r.hints);
}

TEST(test_good)
{
	struct odd o;

	begin(&o);
	requests(&o, "GET /", 90, 90);
	requests(&o, "undefined", 20, 20);
	assert_advice(&o, NULL);
	/* without an identity fun there is one type, and that is as it should be */
	begin(&o);
	o.a.named = false;
	requests(&o, "undefined", 100, 100);
	assert_advice(&o, NULL);
}

TEST(test_never_attached)
{
	struct odd o;

	begin(&o);
	o.r.windows = 0;
	o.a.attached = false;
	assert_advice(&o, "no target is attached yet, so nothing is measured: "
	    "kprof status names each target's state; does the node run, under "
	    "this name, with this cookie?");
	begin(&o);
	o.r.windows = 0;
	o.a.attached = false;
	o.a.absent = "cannot connect to 'shop@vm': no such node";
	assert_advice(&o, "nothing was measured: cannot connect to 'shop@vm': "
	    "no such node");
	begin(&o);
	o.r.windows = 0;
	o.a.failed = "'tiers.conf' does not fit";
	assert_advice(&o, "nothing was measured: kprofd failed to start: "
	    "'tiers.conf' does not fit");
}

TEST(test_no_window_yet)
{
	struct odd o;

	begin(&o);
	o.r.windows = 0;
	assert_advice(&o, "the database holds no measurements yet: kprofd "
	    "writes a window every interval (10 s) while it is attached to a "
	    "target; kprof status shows whether it is");
}

TEST(test_elsewhere)
{
	const char *names[] = { "web@a", "web@b" };
	const struct kp_query_nodes nodes = { names, 2 };
	struct odd o;

	setenv("TZ", "UTC", 1);
	begin(&o);
	o.r.windows = 0;
	o.a.first = T0;
	o.a.last = T0 + 60 * S;
	assert_advice(&o, "nothing was measured in that time (see -since, "
	    "-until, -versus); the database covers 2026-11-21 10:00:00 to "
	    "10:01:00 UTC (1m)");
	begin(&o);
	o.r.windows = 0;
	o.a.last = T0;
	o.a.asked = "x@*";
	o.a.nodes = &nodes;
	assert_advice(&o, "no node matches 'x@*' (see -node); there are: web@a, "
	    "web@b");
}

TEST(test_not_called)
{
	struct odd o;

	begin(&o);
	assert_advice(&o, "no call yet of the entry shop_handler:init/2: is "
	    "there load, and do requests go through it? kprof check FILE -target "
	    "shop@vm counts calls");
	/* unless nobody counted */
	begin(&o);
	o.r.losses.n[KP_LOSS_UNCOUNTED] = 4000;
	assert_advice(&o, "no call of the entry shop_handler:init/2 was "
	    "counted, but for 4 s no agent was in the target to count them: "
	    "kprof status has the reason");
	/* of one request type nothing is known about others */
	begin(&o);
	o.r.filtered = true;
	assert_advice(&o, NULL);
}

TEST(test_no_end)
{
	struct odd o;

	begin(&o);
	o.r.entry_calls = 1;
	assert_advice(&o, "1 call of the entry shop_handler:init/2, and none has "
	    "returned: is it a server's loop? Then name the function that it "
	    "calls for each request");
	/* they were lost, which is something else */
	begin(&o);
	o.r.entry_calls = 70;
	o.r.losses.n[KP_LOSS_UNSEEN] = 70;
	assert_advice(&o, "the VM counted 70 calls of the entry "
	    "shop_handler:init/2; the losses say why none was measured, and "
	    "kprof status whether measuring is paused");
}

TEST(test_unnamed)
{
	struct odd o;

	begin(&o);
	requests(&o, "undefined", 100, 100);
	assert_advice(&o, "all 100 requests are of the type undefined: no clause "
	    "of the identity fun in tiers.conf fits the calls of the entry "
	    "shop_handler:init/2 (kprof check FILE -target shop@vm "
	    "-explain shows what they look like)");
	/* a few may be so by chance */
	begin(&o);
	requests(&o, "undefined", 9, 9);
	assert_advice(&o, NULL);
}

TEST(test_thin)
{
	struct odd o;

	begin(&o);
	requests(&o, "GET /", 1200, 12);
	assert_advice(&o, "only 12 of 1 200 requests were measured: times and "
	    "shares are rough guesses (wait for more, or sample more: sampling "
	    "and budget in tiers.conf)");
	begin(&o);
	requests(&o, "GET /", 1200, 30);
	assert_advice(&o, NULL);
	/* so few came: nothing is estimated */
	begin(&o);
	requests(&o, "GET /", 12, 12);
	assert_advice(&o, NULL);
}

TEST(test_changed)
{
	struct odd o;

	begin(&o);
	requests(&o, "GET /", 100, 100);
	o.a.changed = 1700000000 * S;
	assert_advice(&o, "these figures are of more than one tiers.conf: "
	    "-since 2023-11-14T22:13:20.000Z shows those of the last");
}

TEST(test_overload)
{
	struct odd o;

	begin(&o);
	requests(&o, "GET /", 100, 100);
	o.r.losses.n[KP_LOSS_UNARMED] = 52000;
	o.a.overload = "tracing is paused for 10 s: events came";
	assert_advice(&o, "tracing was off for 52 s of 60 s, by overload, so "
	    "the figures are of the rest; the last time kprofd logged: "
	    "tracing is paused for 10 s: events "
	    "came");
	begin(&o);
	requests(&o, "GET /", 100, 100);
	o.r.losses.n[KP_LOSS_UNARMED] = 52000;
	o.a.paused = true;
	assert_advice(&o, "tracing was off for 52 s of 60 s: it was paused by "
	    "hand (kprof status shows whether it still is; kprof resume ends that)");
	/* the losses say enough of a short one, and of that of several nodes */
	begin(&o);
	requests(&o, "GET /", 100, 100);
	o.r.losses.n[KP_LOSS_UNARMED] = 10000;
	o.a.overload = "events came";
	assert_advice(&o, NULL);
}

/* More than three entries are counted; without any, the first tier's. */
TEST(test_entries)
{
	struct kp_conf *c;
	struct kp_diags diags;
	char text[700];
	const char *conf = "{tiers, [{web, [{a, b, 1}, {a, c, 2}, {a, d, 3}, "
	    "{a, e, '_'}]}]}.\n{entry, {'Elixir.Shop', init, 2}}.\n";

	assert_int_equal(kp_conf_parse(&c, conf, strlen(conf), &diags), KP_OK);
	kp_diags_free(&diags);
	advice_entries(text, sizeof(text), c);
	assert_string_equal(text, "entry Shop.init/2");
	c->nentries = 0;
	advice_entries(text, sizeof(text), c);
	assert_string_equal(text, "entries a:b/1, a:c/2, a:d/3 and 1 more");
	c->nentries = 1;
	kp_conf_free(c);
}

TESTS(NULL, NULL)
