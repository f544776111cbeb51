/*
 * test_assembly.c - random programs, the events that the VM would send of
 * them, and what the requests and stats stages make of those, against the
 * truth.
 *
 * The programs run in vmsim.h.  Their events come in order within one process
 * and, between processes, up to 100 ms late.
 *
 * What is compared: every call's function, start, end, outcome, parent and
 * request; each request's end, outcome, identity and weight; late calls; each
 * figure of each cell, with one that figures.h makes from the truth.  Self
 * times of a request of which nothing runs in parallel add up to its total.
 * Where the VM does not tell:
 *
 * - A request inside work that another one did not wait for: there are none
 *   here, but in test_conservation.c.
 * - Where requests inside each other end in tail calls, what the process
 *   calls next may belong to any of them: labels are not compared then.
 * - An exception that only one traced call let pass, to its caller, reads as
 *   returned; in it what had ended in tail calls, too.
 * - OTP 25: calls that ended in a tail call are ambiguous, with the right
 *   end.  So are those that an exception passed before it reached the call
 *   whose caller caught it; that one reads as returned.
 * - OTP 25: no event tells of an exception caught by the caller of an
 *   untraced function.  The calls it passed stay open, and until its process
 *   is back in its loop nothing is compared there but starts (`loose`).
 * - OTP 27: such an exception is caught by a function that no call on the
 *   stack names.  The next exception in that process before it is back in its
 *   loop may be taken for it, where both passed more than the call on top;
 *   the same where that function is traced and was called again in between.
 *   And a call that it may have passed may have ended in a tail call later.
 *   All calls since the process left its loop are loose then, and those of
 *   the process that ended in tail calls before.
 * - An entry that ends in a call of itself reads as one that left no end
 *   before its process had the next request.  There are none here.
 * - A process that dies leaves its calls open: they are unfinished; where one
 *   was in doubt then, loose.
 * - A process that gets a token that has nothing to do with what it has open
 *   (an entry inside lost its own to one that was not sampled, or on OTP 25
 *   has none): what is open there is taken for over.  A tier's function that
 *   is called without a token and calls on with one looks like the last call
 *   of it that was traced.  Loose, until the process is in its loop.
 * - Functions that call themselves, where processes die or requests are inside
 *   each other: who goes on is in doubt for longer.  There are none here.
 * - What a process calls from a server's loop that is a tier's function is the
 *   loop's child, so selfs do not add up there.
 *
 * Figures of a request with a loose call are compared with what was handed on
 * instead.  KP_SEED=n repeats a run, KP_SOAK=s goes on for s seconds.
 */
#include <inttypes.h>
#include <time.h>

#include "cases.h"
#include "vmtruth.h"

static uint64_t seed;

static void
one_round(const struct sim_traits *t, int requests)
{
	static const kp_dur_ns skews[] = { 0, KP_NS_PER_MS,
		100 * KP_NS_PER_MS };
	/* What began inside what, and was passed over, must be known. */
	struct vmfeed_opts o = { .entries_first = t->nested };

	rnd_seed(seed);
	o.skew = skews[rnd(3)];
	sim_make(t, requests);
	for (unsigned i = 0; t->nodes > 1 && i < t->nodes; i++) {
		sim.clock[i].skew = (kp_dur_ns)rnd(2000000 * KP_NS_PER_S) -
		    1000000 * KP_NS_PER_S;
		o.delay[i] = chance(50) ? 0 : (kp_dur_ns)rnd(KP_NS_PER_S);
	}
	vmtruth_begin(t, seed);
	vmtruth_feed(&o);
}

static void
count_reset(void)
{
	vmtruth_counts = (struct vmtruth_counts){ 0 };
}

static void
count_check(unsigned max_loose)
{
	const struct vmtruth_counts *n = &vmtruth_counts;

	print_message("%" PRIu64 " calls, %" PRIu64 " loose; the selfs of %"
	    PRIu64 " requests add up, %" PRIu64 " are of several nodes\n",
	    n->calls, n->loose, n->summed, n->crossed);
	assert_true(n->loose * 100 <= n->calls * max_loose ||
	    getenv("KP_SEED") != NULL);
}

static void
rounds(const struct sim_traits *t, int n, int requests, unsigned max_loose)
{
	uint64_t first = seed;

	count_reset();
	for (int i = 0; i < n; i++) {
		one_round(t, requests);
		if (getenv("KP_SEED") != NULL)
			break;
		seed++;
	}
	count_check(max_loose);
	seed = first;
	sim_free();
}

/* The same programs on either release; percent of calls that may be loose. */
static void
both(struct sim_traits t, unsigned max_27, unsigned max_25)
{
	t.otp25 = false;
	rounds(&t, 20, 48, max_27);
	t.otp25 = true;
	rounds(&t, 20, 48, max_25);
}

TEST(plain)
{
	both((struct sim_traits){ .recursive = true }, 0, 0);
}

TEST(tail_calls)
{
	both((struct sim_traits){ .tail = 30 }, 0, 0);
}

TEST(nested)
{
	both((struct sim_traits){ .nested = true }, 0, 0);
	both((struct sim_traits){ .nested = true, .tail = 30 }, 0, 0);
}

TEST(exceptions)
{
	both((struct sim_traits){ .raise = 3 }, 8, 20);
	both((struct sim_traits){ .raise = 3, .tail = 30 }, 8, 20);
}

TEST(exact)
{
	both((struct sim_traits){ .exact = true, .recursive = true }, 0, 0);
	both((struct sim_traits){ .exact = true, .tail = 30 }, 0, 0);
	both((struct sim_traits){ .exact = true, .raise = 3 }, 8, 20);
	both((struct sim_traits){ .exact = true, .raise = 3, .tail = 30
	    }, 8, 20);
}

TEST(late_work)
{
	both((struct sim_traits){ .cast = 20, .timer = 20 }, 0, 0);
	both((struct sim_traits){ .cast = 20, .timer = 20, .tail = 30 }, 0, 0);
	both((struct sim_traits){ .cast = 20, .timer = 20, .raise = 3
	    }, 8, 20);
}

TEST(children)
{
	both((struct sim_traits){ .spawn = 20 }, 0, 0);
	both((struct sim_traits){ .spawn = 20, .raise = 3, .die = 2 }, 8, 20);
	both((struct sim_traits){ .spawn = 20, .tail = 30, .cast = 10 }, 0, 0);
}

TEST(deaths)
{
	both((struct sim_traits){ .die = 3 }, 8, 20);
	both((struct sim_traits){ .die = 3, .cast = 10, .exact = true
	    }, 8, 20);
}

TEST(deferred_replies)
{
	both((struct sim_traits){ .defer = 40 }, 0, 0);
	both((struct sim_traits){ .defer = 40, .pool = true, .cast = 10
	    }, 0, 0);
}

TEST(finishes)
{
	both((struct sim_traits){ .finish = true, .cast = 20 }, 0, 0);
	both((struct sim_traits){ .finish = true, .cast = 20, .tail = 30,
	    .spawn = 10 }, 0, 0);
}

TEST(server_loops)
{
	both((struct sim_traits){ .loops = true, .timer = 20 }, 0, 0);
	both((struct sim_traits){ .loops = true, .cast = 20, .spawn = 10
	    }, 0, 0);
}

TEST(not_sampled_inside)
{
	both((struct sim_traits){ .cut = 5 }, 0, 0);
	both((struct sim_traits){ .cut = 5, .nested = true }, 15, 30);
}

/* Servers, tasks and workers on other nodes, whose clocks differ by days. */
TEST(several_nodes)
{
	both((struct sim_traits){ .nodes = 2, .recursive = true }, 0, 0);
	both((struct sim_traits){ .nodes = 3, .tail = 30 }, 0, 0);
	both((struct sim_traits){ .nodes = 4, .spawn = 20, .cast = 20 }, 0, 0);
	both((struct sim_traits){ .nodes = 2, .defer = 40, .pool = true,
	    .timer = 20 }, 0, 0);
	both((struct sim_traits){ .nodes = 3, .exact = true, .raise = 3 },
	    8, 20);
	both((struct sim_traits){ .nodes = 3, .nested = true }, 0, 0);
	both((struct sim_traits){ .nodes = 2, .finish = true, .cast = 20 },
	    0, 0);
	both((struct sim_traits){ .nodes = 2, .rpc = 30 }, 0, 0);
	both((struct sim_traits){ .nodes = 4, .die = 3, .cast = 10 }, 8, 20);
	assert_true(vmtruth_counts.crossed > 0);
	assert_true(vmtruth_counts.outlasting > 0);
}

/* One worker serves them all, a thousand times. */
TEST(one_worker)
{
	struct sim_traits t = { .pool = true, .tail = 10 };

	rounds(&t, 2, 3000, 0);
	t.otp25 = true;
	rounds(&t, 2, 3000, 0);
}

static unsigned
sometimes(unsigned percent)
{
	return chance(30) ? 1 + (unsigned)rnd(percent) : 0;
}

/* What goes together at all; see above for the rest. */
static struct sim_traits
pick_traits(void)
{
	struct sim_traits t = { .otp25 = chance(50), .nested = chance(20),
		.exact = chance(30), .pool = chance(30),
		.raise = sometimes(15), .tail = sometimes(40),
		.spawn = sometimes(20), .cast = sometimes(30),
		.defer = sometimes(50), .die = sometimes(4),
		.timer = sometimes(30), .cut = sometimes(5),
		.nodes = chance(50) ? 1 + (unsigned)rnd(4) : 1,
		.rpc = sometimes(20) };

	if (t.nested)
		t.raise = t.die = 0;
	t.finish = !t.nested && chance(20);
	t.loops = !t.nested && !t.finish && t.raise + t.die == 0 &&
	    chance(20);
	t.recursive = !t.nested && chance(30) && t.raise + t.tail + t.die + t.cut +
	    t.cast + t.timer + t.spawn + t.rpc == 0;
	return t;
}

static void
mixed_round(void)
{
	struct sim_traits t;

	rnd_seed(seed);
	t = pick_traits();
	one_round(&t, 48);
}

TEST(mixed)
{
	const char *soak = getenv("KP_SOAK");
	time_t until = time(NULL) + (soak != NULL ? atoi(soak) : 0);
	uint64_t first = seed;

	count_reset();
	for (int i = 0; i < 300 || time(NULL) < until; i++) {
		mixed_round();
		if (getenv("KP_SEED") != NULL && soak == NULL)
			break;
		seed++;
	}
	count_check(10);
	seed = first;
	sim_free();
}

/* KP_SEED=n repeats a run. */
FIXTURE(pick_seed)
{
	const char *s = getenv("KP_SEED");

	seed = s != NULL ? strtoull(s, NULL, 10) : 1;
	return 0;
}

TESTS_ONCE(pick_seed, NULL)
