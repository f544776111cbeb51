/*
 * test_request_messages.c - messages: which sends and receives are one, how long
 * that took, on which clock, and that each is counted once, whatever happens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"

static const char conf[] =
    "{tiers, [{web, {e,e,1}}]}.\n{sampling, all}.\n{messages, true}.\n";

static uint64_t waits_seen;
static uint32_t taken;		/* the message that the sender took last */
static uint64_t asked[64];
static unsigned nasked;

/* " 2:db 5.5" for a wait of 5.5 ms of process 2; "@1" on, "<1" from node 1 */
static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct feed *fd = ctx;
	const struct kp_wait *w;
	uint32_t n;

	w = kp_requests_waits(fd->rs, &n);
	waits_seen += n;
	kp_buf_printf(&fd->text, "#%llu:", (unsigned long long)rq->label);
	for (uint32_t i = 0; i < n; i++) {
		kp_buf_printf(&fd->text, " %u:%s",
		    (unsigned)(kp_proc_pid(w[i].proc) & 0xFFFFFF),
		    kp_requests_receiver(fd->rs, w[i].receiver));
		if (w[i].node != 0)
			kp_buf_printf(&fd->text, "@%u", w[i].node);
		if (w[i].node != w[i].from)
			kp_buf_printf(&fd->text, "<%u", w[i].from);
		kp_buf_printf(&fd->text, " %g", (double)w[i].wait / 1e6);
	}
	kp_buf_u8(&fd->text, '\n');
}

static void
on_receiver(void *ctx, uint32_t node, uint64_t proc)
{
	(void)ctx, (void)node;
	if (nasked < sizeof(asked) / sizeof(asked[0]))
		asked[nasked++] = proc;
}

static int
begin(const char *text)
{
	feed_init(&f, text, NULL);
	f.opts.on_request = on_request;
	f.opts.on_receiver = on_receiver;
	feed_requests(&f, 1);
	waits_seen = nasked = taken = 0;
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	return begin(conf);
}

static void
message(enum kp_event_kind kind, uint32_t pid, uint32_t other, uint64_t label,
    uint32_t serial, double ms)
{
	f.serial = serial;
	f.last = taken;
	feed_event(&f, &(struct kp_event){ .kind = kind, .pid = feed_pid(pid),
	    .ts = feed_time(ms), .label = label, .has_from = other != 0,
	    .from = feed_pid(other) }, NULL, NULL);
}

static void
sends(uint32_t from, uint32_t to, uint64_t label, uint32_t serial, double ms)
{
	message(KP_EV_SEND, from, to, label, serial, ms);
}

static void
takes(uint32_t who, uint32_t from, uint64_t label, uint32_t serial, double ms)
{
	message(KP_EV_RECEIVE, who, from, label, serial, ms);
}

/* The answer to what was asked for first; NULL: it is gone. */
static void
name(unsigned i, const char *mod, const char *fun)
{
	struct kp_buf b;

	kp_buf_init(&b, 1024);
	if (fun != NULL) {
		kp_etf_tuple(&b, 3);
		kp_etf_atom(&b, mod);
		kp_etf_atom(&b, fun);
		kp_etf_int(&b, 2);
	} else if (mod != NULL) {
		kp_etf_atom(&b, mod);
	} else {
		kp_etf_nil(&b);
	}
	assert_true(i < nasked);
	kp_requests_name_receiver(f.rs, asked[i],
	    (struct kp_span){ b.p, (uint32_t)b.len });
	kp_buf_free(&b);
}

static void
pairs(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 7, 0);
	sends(1, 2, 7, 1, 1);
	sends(1, 2, 7, 2, 2);
	takes(2, 1, 7, 1, 5);
	takes(2, 1, 7, 2, 6.5);
	/* another sender's of the same number */
	sends(3, 1, 7, 2, 3);
	takes(1, 3, 7, 2, 7);
	back_to(&f, 1, "u0", 8);
	assert_int_equal(nasked, 2);
	name(0, "db server", NULL);
	expire(&f, 500);
	CLOSED("#7: 2:db server 4 2:db server 4.5 1:_entry 4\n");
	/* the next one's are named at once, and nobody is asked again */
	name(1, "proc_lib", "init_p");
	entry(&f, 1, "e", "u0", 8, 600);
	sends(2, 1, 8, 1, 601);
	takes(1, 2, 8, 1, 602);
	back_to(&f, 1, "u0", 603);
	expire(&f, 1000);
	assert_int_equal(nasked, 2);
	CLOSED("#8: 1:proc_lib:init_p/2 1\n");
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 0);
	assert_int_equal(lost(&f, KP_LOSS_UNPAIRED), 0);
}

/* Between processes, and before the entry, events come in any order. */
static void
any_order(void **state)
{
	(void)state;
	takes(2, 1, 7, 1, 5);
	sends(1, 2, 7, 1, 1);
	entry(&f, 1, "e", "u0", 7, 0);
	back_to(&f, 1, "u0", 8);
	expire(&f, 500);
	CLOSED("#7: 2:_gone 4\n");
}

static void
gone(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 7, 0);
	sends(1, 2, 7, 1, 1);
	takes(2, 1, 7, 1, 3);
	name(0, NULL, NULL);
	back_to(&f, 1, "u0", 8);
	expire(&f, 500);
	CLOSED("#7: 2:_gone 2\n");
}

static void
losses(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 7, 0);
	sends(1, 2, 7, 1, 1);		/* nobody takes it in time */
	takes(2, 3, 7, 9, 2);		/* nobody has sent it */
	back_to(&f, 1, "u0", 3);
	expire(&f, 500);
	CLOSED("#7:\n");
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 1);
	assert_int_equal(lost(&f, KP_LOSS_UNPAIRED), 1);
	takes(2, 1, 7, 1, 600);		/* that one, too late: not again */
	sends(2, 1, 7, 4, 601);		/* sent too late */
	takes(1, 2, 7, 4, 602);
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 1);
	assert_int_equal(lost(&f, KP_LOSS_UNPAIRED), 1);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_LATE), 1);
	/* of a label that no entry comes for */
	sends(5, 6, 99, 1, 700);
	takes(6, 5, 99, 1, 701);
	sends(5, 6, 99, 2, 702);
	expire(&f, 9000);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_LATE), 3);
	/* of a request that a trip ends */
	entry(&f, 1, "e", "u0", 8, 9100);
	sends(1, 2, 8, 1, 9101);
	takes(2, 1, 8, 1, 9102);
	sends(1, 2, 8, 2, 9103);
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_GONE), 2);
	/* of two with one label */
	entry(&f, 1, "e", "u0", 9, 9200);
	entry(&f, 4, "e", "u0", 9, 9201);
	sends(1, 2, 9, 1, 9202);
	takes(2, 1, 9, 1, 9203);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_GONE), 3);
	CLOSED("");
}

static void
caps(void **state)
{
	uint32_t n = 3000;

	(void)state;
	entry(&f, 1, "e", "u0", 7, 0);
	for (uint32_t i = 1; i <= n; i++)
		sends(1, 2, 7, i, 1);
	for (uint32_t i = 1; i <= n; i++)
		takes(2, 1, 7, i, 2);
	back_to(&f, 1, "u0", 3);
	expire(&f, 500);
	assert_true(waits_seen > 100 && waits_seen < n);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_CAP), n - waits_seen);
	/* a receive whose send was not kept is no other loss */
	assert_int_equal(lost(&f, KP_LOSS_UNPAIRED), 0);
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 0);
	kp_buf_reset(&f.text);
}

#define AHEAD 5e8	/* ms: six days */

static void
across(void **state)
{
	(void)state;
	join(&f, 1, AHEAD);
	entry(&f, 1, "e", "u0", 7, 0);
	sends(1, AT(1, 2), 7, 1, 1);
	takes(AT(1, 2), 1, 7, 1, 5);
	sends(AT(1, 2), 1, 7, 2, 6);
	takes(1, AT(1, 2), 7, 2, 9);
	/* by what is known of their clocks it came before it was sent */
	sends(AT(1, 2), 1, 7, 3, 6);
	takes(1, AT(1, 2), 7, 3, 5.9);
	/* to and from a node that is none of ours */
	sends(1, AT(3, 2), 7, 5, 1);
	takes(1, AT(3, 2), 7, 6, 1);
	back_to(&f, 1, "u0", 10);
	expire(&f, 500);
	CLOSED("#7: 2:_gone@1<0 4 1:_entry<1 3 1:_entry<1 0\n");
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 0);
	assert_int_equal(lost(&f, KP_LOSS_UNPAIRED), 0);
}

/* What is of a node that goes: each is counted where it was sent. */
static void
node_goes(void **state)
{
	(void)state;
	join(&f, 1, AHEAD);
	entry(&f, 1, "e", "u0", 7, 0);
	sends(1, AT(1, 2), 7, 1, 1);
	takes(AT(1, 2), 1, 7, 1, 5);
	sends(AT(1, 2), 1, 7, 2, 6);
	sends(1, 3, 7, 3, 6);
	takes(3, 1, 7, 3, 7);
	kp_requests_abandon(f.rs, 1, KP_LOSS_DISCONNECTED);
	back_to(&f, 1, "u0", 10);
	expire(&f, 500);
	CLOSED("#7: 3:_gone 1\n");
	assert_int_equal(lost_at(&f, 1, KP_LOSS_UNRECEIVED), 1);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_GONE), 1);
}

/* Its message came first; then there was no room for the entry's call. */
static void
no_room(void **state)
{
	(void)state;
	f.opts.max_calls_in_flight = 1;
	feed_requests(&f, 1);
	entry(&f, 1, "e", "u0", 7, 0);
	sends(3, 4, 8, 1, 1);
	entry(&f, 2, "e", "u0", 8, 2);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_GONE), 1);
	expire(&f, 9000);
	assert_int_equal(lost(&f, KP_LOSS_REQUEST_CAP), 1);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_LATE), 0);
}

/* Sent and taken 1 ms later: its number, and that of what its sender took last. */
static void
passes(uint32_t from, uint32_t to, uint64_t label, uint32_t serial,
    uint32_t last, double ms)
{
	taken = last;
	sends(from, to, label, serial, ms);
	takes(to, from, label, serial, ms + 1);
}

enum { POOL = 8, WORKER, STORE };

/*
 * 1 gives its worker back, by which 2 is answered with 1's token (20), asks the
 * worker (22), which asks the store.  The pool and its like are not traced.
 */
static void
of_a_pool(void **state)
{
	(void)state;
	entry(&f, 1, "e", "u0", 1, 0);
	entry(&f, 2, "e", "u0", 2, 1);
	passes(2, POOL, 2, 3, 0, 2);
	passes(1, POOL, 1, 18, 16, 3);
	passes(POOL, 2, 1, 20, 18, 4);
	back_to(&f, 1, "u0", 5);
	passes(2, WORKER, 1, 22, 20, 6);
	passes(WORKER, STORE, 1, 24, 22, 7);
	passes(STORE, WORKER, 1, 26, 24, 9);
	expire(&f, 300);
	CLOSED("#1: 8:_gone 1 2:_gone 1\n");
	/* 1 has closed, and its token goes on; what has come late waits for it */
	taken = 26;
	takes(2, WORKER, 1, 28, 311);
	sends(WORKER, 2, 1, 28, 310);
	passes(2, POOL, 1, 31, 28, 312);
	/* of somebody who was not asked for any request that is known */
	passes(7, STORE, 1, 41, 40, 313);
	back_to(&f, 2, "u0", 320);
	/* nobody takes this one, and that is seen only when it is old */
	taken = 28;
	sends(2, STORE, 1, 33, 314);
	expire(&f, 700);
	CLOSED("#2: 8:_gone 1 9:_gone 1 10:_gone 1 9:_gone 1 2:_entry 1 "
	    "8:_gone 1\n");
	assert_int_equal(lost(&f, KP_LOSS_MAIL_CROSSED), 1);
	assert_int_equal(lost(&f, KP_LOSS_UNRECEIVED), 0);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_LATE), 0);
	expire(&f, 20000);
	assert_int_equal(lost(&f, KP_LOSS_MAIL_LATE), 1);
}

/* A token of before, where the configuration does not ask for messages. */
static void
unasked(void **state)
{
	(void)state;
	feed_free(&f);
	begin("{tiers, [{web, {e,e,1}}]}.\n{sampling, all}.\n");
	entry(&f, 1, "e", "u0", 7, 0);
	sends(1, 2, 7, 1, 1);
	takes(2, 1, 7, 1, 5);
	back_to(&f, 1, "u0", 8);
	expire(&f, 500);
	CLOSED("#7:\n");
	assert_int_equal(lost(&f, KP_LOSS_MAIL_GONE), 0);
	assert_int_equal(nasked, 0);
}

static uint64_t
rnd(uint64_t below)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

/* Whatever comes in whatever order: every send is a wait, or lost once. */
static void
conserved(void **state)
{
	static bool began[1000];
	uint64_t sent = 0;
	double ms = 0;

	(void)state;
	join(&f, 1, AHEAD);
	for (int i = 0; i < 100000; i++) {
		uint64_t label = 1 + rnd(20) + (uint64_t)i / 1000 * 8;
		uint32_t a = (uint32_t)(1 + rnd(5)), b = (uint32_t)(1 + rnd(5));
		uint32_t serial = (uint32_t)rnd(3);

		taken = (uint32_t)rnd(3);

		ms += (double)rnd(3);
		a = rnd(2) == 0 ? a : AT(1, a);
		b = rnd(2) == 0 ? b : AT(1, b);
		switch (rnd(12)) {
		case 0:
			/* a label that comes twice is a collision */
			if (!began[label] || rnd(100) == 0)
				entry(&f, a, "e", "u0", label, ms);
			began[label] = true;
			break;
		case 1:
			back_to(&f, a, "u0", ms);
			break;
		case 2:
			expire(&f, ms);
			break;
		case 3:
			if (rnd(50) == 0)
				kp_requests_abandon(f.rs,
				    (uint32_t)rnd(2), KP_LOSS_TRIPPED);
			break;
		case 4: case 5: case 6: case 7:
			sent++;
			sends(a, b, label, serial, ms);
			break;
		default:
			takes(b, a, label, serial, ms);
		}
	}
	kp_requests_abandon(f.rs, 0, KP_LOSS_TRIPPED);
	kp_requests_abandon(f.rs, 1, KP_LOSS_TRIPPED);
	kp_requests_losses_take(f.rs, 1, &f.lost);
	assert_true(waits_seen > 1000);
	assert_int_equal(sent, waits_seen + lost(&f, KP_LOSS_UNRECEIVED) +
	    lost(&f, KP_LOSS_MAIL_LATE) + lost(&f, KP_LOSS_MAIL_CAP) +
	    lost(&f, KP_LOSS_MAIL_GONE) + lost(&f, KP_LOSS_MAIL_CROSSED));
	assert_true(lost(&f, KP_LOSS_MAIL_CROSSED) > 0);
	kp_buf_reset(&f.text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pairs, setup, teardown),
		cmocka_unit_test_setup_teardown(any_order, setup, teardown),
		cmocka_unit_test_setup_teardown(gone, setup, teardown),
		cmocka_unit_test_setup_teardown(losses, setup, teardown),
		cmocka_unit_test_setup_teardown(caps, setup, teardown),
		cmocka_unit_test_setup_teardown(across, setup, teardown),
		cmocka_unit_test_setup_teardown(node_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(unasked, setup, teardown),
		cmocka_unit_test_setup_teardown(conserved, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
