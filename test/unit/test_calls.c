/*
 * Full traces, made by hand so that their truth is known: what each function
 * is charged, called by whom, in which process; and the call trees.  Most are in
 * cases/calls.txt.
 */
#include <ctype.h>

#include "cases.h"
#include "calls_feed.h"

static struct calls_feed feed;
static struct kp_calls_sum *sum;

FIXTURE(setup)
{
	feed.names = kp_call_names_new();
	feed.n = 0;
	sum = NULL;
	return feed.names == NULL;
}

FIXTURE(teardown)
{
	kp_calls_sum_free(sum);
	kp_call_names_free(feed.names);
	return 0;
}

static void
add_up(const struct kp_calls_opts *o)
{
	sum = feed_sum(&feed, o);
	assert_non_null(sum);
	assert_int_equal(sum->overflow, 0);
}

/* One event, as cases/calls.txt has them; the nth of a range.  False: no event. */
static bool
put_event(uint32_t proc, int64_t us, const char *word, size_t nth)
{
	static const struct {
		const char *name;
		enum kp_call_kind kind;
	} kinds[] = {
		{ "<", KP_CALL_RETURN_TO }, { "OUT:", KP_CALL_OUT },
		{ "IN:", KP_CALL_IN }, { "GC_START", KP_CALL_GC_START },
		{ "GC_END", KP_CALL_GC_END }, { "EXIT", KP_CALL_EXIT },
		{ "SPAWN:", KP_CALL_SPAWN }, { "REQUEST:", KP_CALL_REQUEST },
	};
	size_t n = strlen(word);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strncmp(word, kinds[i].name, strlen(kinds[i].name)) != 0)
			continue;
		word += strlen(kinds[i].name);
		if (i >= 6 && !isdigit(word[0]))
			return false;
		if (kinds[i].kind == KP_CALL_SPAWN)
			feed_spawn(&feed, proc, us, (uint32_t)word[0] - '0',
			    word[1]);
		else if (kinds[i].kind == KP_CALL_REQUEST)
			feed_put(&feed, KP_CALL_REQUEST, proc, us, 0,
			    (uint32_t)word[0] - '0');
		else
			feed_at(&feed, kinds[i].kind, proc, us,
			    word[0] != '\0' ? word[0] : '?');
		return true;
	}
	if (n < 2 || (word[0] != '?' && !islower(word[0])) ||
	    strspn(word + 1, "abcdefghijklmnopqrstuvwxyz") != n - 1)
		return false;
	feed_call(&feed, proc, us, word[1 + nth % (n - 1)], word[0]);
	return true;
}

/* "0 ?a 10 ab 17 <a": see there. */
static bool
put_events(uint32_t proc, const char *s)
{
	char word[16], *end;
	long from, to;
	int n = 0;

	for (; *s != '\0'; s = end + n) {
		from = to = strtol(s, &end, 10);
		if (strncmp(end, "..", 2) == 0)
			to = strtol(end + 2, &end, 10);
		if (end == s || sscanf(end, " %15s%n", word, &n) != 1)
			return false;
		for (long i = from; i <= to; i++)
			if (!put_event(proc, i, word, (size_t)(i - from)))
				return false;
	}
	return true;
}

static const struct kp_calls_clock *
clock_find(uint32_t proc, char caller, char fn)
{
	uint32_t c = feed_fn(&feed, caller), f = feed_fn(&feed, fn);

	for (uint32_t i = 0; i < sum->nclocks; i++)
		if (sum->clocks[i].proc == proc &&
		    sum->clocks[i].caller == c && sum->clocks[i].fn == f)
			return &sum->clocks[i];
	return NULL;
}

/* The node that the letters lead to. */
static const struct kp_calls_path *
path_find(uint32_t proc, const char *way)
{
	const struct kp_calls_path *p;
	size_t n = strlen(way), depth;

	for (uint32_t i = 0; i < sum->npaths; i++) {
		p = &sum->paths[i];
		depth = n;
		while (depth > 0 && p->depth == depth &&
		    p->fn == feed_fn(&feed, way[depth - 1])) {
			p = &sum->paths[p->parent];
			depth--;
		}
		if (depth == 0 && p->depth == 0 && p->proc == proc)
			return &sum->paths[i];
	}
	return NULL;
}

static bool
is_t(void *ctx, uint32_t fn)
{
	(void)ctx;
	return fn == feed_fn(&feed, 't');
}

/* ---- what must come out: true, or it has failed ---- */

/* "ab 2 14 9": caller, function, calls, acc and own in us. */
static bool
clock_is(struct one_case *c, uint32_t proc, const char *s)
{
	const struct kp_calls_clock *k;
	unsigned long long calls;
	long long acc, own;
	char caller, fn, more;

	if (sscanf(s, " %c%c %llu %lld %lld %c", &caller, &fn, &calls, &acc,
	    &own, &more) != 5)
		return false;
	k = clock_find(proc, caller, fn);
	if (k == NULL)
		case_fail(c, "%c is not called by %c", fn, caller);
	if (k->calls != calls || k->acc != acc * KP_NS_PER_US ||
	    k->own != own * KP_NS_PER_US)
		case_fail(c, "%c by %c: %llu calls, acc %lld, own %lld", fn,
		    caller, (unsigned long long)k->calls,
		    (long long)k->acc / KP_NS_PER_US,
		    (long long)k->own / KP_NS_PER_US);
	return true;
}

/* "ab 2 9": the letters that lead to the node, calls, own in us. */
static bool
path_is(struct one_case *c, uint32_t proc, const char *s)
{
	const struct kp_calls_path *p;
	unsigned long long calls;
	long long own;
	char way[16], more;

	if (sscanf(s, " %15s %llu %lld %c", way, &calls, &own, &more) != 3)
		return false;
	p = path_find(proc, way);
	if (p == NULL)
		case_fail(c, "no path %s", way);
	if (p->calls != calls || p->own != own * KP_NS_PER_US)
		case_fail(c, "%s: %llu calls, own %lld", way,
		    (unsigned long long)p->calls,
		    (long long)p->own / KP_NS_PER_US);
	return true;
}

/* "b 4": of all processes and callers. */
static bool
calls_are(struct one_case *c, const char *s)
{
	unsigned long long calls, n = 0;
	char fn, more;

	if (sscanf(s, " %c %llu %c", &fn, &calls, &more) != 2)
		return false;
	for (uint32_t i = 0; i < sum->nclocks; i++)
		if (sum->clocks[i].fn == feed_fn(&feed, fn))
			n += sum->clocks[i].calls;
	if (n != calls)
		case_fail(c, "%llu calls of %c", n, fn);
	return true;
}

/* "0 c cd": by process 0, as c, and what it called first. */
static bool
spawned_is(struct one_case *c, uint32_t proc, const char *s)
{
	const struct kp_calls_proc *p = &sum->procs[proc];
	char as, first[16], more;
	uint32_t parent;

	if (sscanf(s, " %u %c %15s %c", &parent, &as, first, &more) != 3 ||
	    parent >= feed.names->nprocs)
		return false;
	if (!p->spawned || p->parent != parent || sum->procs[parent].spawned ||
	    p->spawned_as != feed_fn(&feed, as) || p->nfirst != strlen(first))
		case_fail(c, "spawned by %u, %u of its calls first", p->parent,
		    (unsigned)p->nfirst);
	for (uint32_t i = 0; i < p->nfirst; i++)
		assert_int_equal(p->first[i], feed_fn(&feed, first[i]));
	return true;
}

/* "clocks ab 2 14 9" and the like; "odd 5". */
static bool
item_is(struct one_case *c, const char *what, uint32_t proc, const char *s)
{
	long long got = 0, want;
	char more;

	if (strcmp(what, "clocks") == 0)
		return clock_is(c, proc, s);
	if (strcmp(what, "paths") == 0)
		return path_is(c, proc, s);
	if (strcmp(what, "calls") == 0)
		return calls_are(c, s);
	if (strcmp(what, "spawned") == 0)
		return spawned_is(c, proc, s);
	if (sscanf(s, "%lld %c", &want, &more) != 1)
		return false;
	if (strcmp(what, "odd") == 0)
		got = sum->odd;
	else if (strcmp(what, "nclocks") == 0)
		got = sum->nclocks;
	else if (strcmp(what, "first") == 0)
		got = sum->first / KP_NS_PER_US;
	else if (strcmp(what, "last") == 0)
		got = sum->last / KP_NS_PER_US;
	else if (strcmp(what, "own") == 0)
		for (uint32_t i = 0; i < sum->npaths; i++)
			got += sum->paths[i].own / KP_NS_PER_US;
	else
		return false;
	if (got != want)
		case_fail(c, "%s %lld", what, got);
	return true;
}

/* One of cases/calls.txt. */
static void
run_case(void **state)
{
	struct kp_calls_opts o = { .paths = true };
	struct one_case *c = *state;
	bool good = true, odd = false;
	char what[16], *line;
	unsigned proc;
	int n;

	while (good && (line = case_line(c)) != NULL) {
		proc = 0;
		if (strcmp(line, "with cpu") == 0) {
			o.cpu = true;
		} else if (strcmp(line, "with inside t") == 0) {
			o = (struct kp_calls_opts){ .inside = is_t };
		} else if (sscanf(line, "p%u %n", &proc, &n) == 1) {
			good = sum == NULL && put_events(proc, line + n);
		} else {
			if (sum == NULL)
				add_up(&o);
			good = sscanf(line, "%15[a-z]@%u", what, &proc) >= 1;
			odd |= strcmp(what, "odd") == 0;
			line += strcspn(line, " ");
			while (good && line != NULL)
				good = item_is(c, what, proc, strsep(&line, ","));
		}
	}
	if (!good || sum == NULL)
		case_fail(c, "makes no sense");
	if (!odd && sum->odd != 0)
		case_fail(c, "odd %u", (unsigned)sum->odd);
}

/* Never the same way twice: the level is cut, the counts are right. */
TEST(test_tail_states)
{
	uint32_t x = 1, calls = 0, seen = 0;

	assert_true(put_events(0, "0 ?a"));
	for (int i = 1; i <= 4000; i++) {
		x = x * 1103515245 + 12345;
		feed_call(&feed, 0, i, (char)('p' + (x >> 16) % 7), 'a');
	}
	assert_true(put_events(0, "4001 <a"));
	add_up(&(struct kp_calls_opts){ .paths = true });
	for (uint32_t i = 0; i < sum->nclocks; i++) {
		if (sum->clocks[i].fn == feed_fn(&feed, 'a'))
			continue;
		calls += (uint32_t)sum->clocks[i].calls;
		seen += sum->clocks[i].acc > 0;
	}
	assert_int_equal(calls, 4000);
	assert_int_equal(seen, 7);
}

/* A stack far deeper than a call tree: the rest is its deepest node's. */
TEST(test_deep)
{
	uint64_t calls = 0;

	assert_true(put_events(0, "0 ?a 1 af"));
	for (int i = 2; i < 2000; i++)
		assert_true(put_event(0, i, i % 2 ? "gf" : "fg", 0));
	add_up(&(struct kp_calls_opts){ .paths = true });
	for (uint32_t i = 0; i < sum->npaths; i++) {
		calls += sum->paths[i].calls;
		assert_true(sum->paths[i].depth <= KP_CALLS_DEPTH_MAX);
	}
	assert_int_equal(calls, 2000);
	assert_int_equal(clock_find(0, 'f', 'g')->calls, 999);
}

/* Slices are where the process was, without gaps. */
struct slices {
	size_t n;
	kp_target_ns at;
};

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct slices *l = ctx;

	assert_int_equal(proc, 0);
	assert_int_equal(from, l->at);
	assert_true(to > from);
	assert_true(path != 0);
	l->at = to;
	l->n++;
}

TEST(test_slices)
{
	struct slices l = { .n = 0 };
	struct kp_calls_opts o = { .paths = true, .slice = on_slice,
		.ctx = &l };

	assert_true(put_events(0, "0 ?a 1 ab 3 OUT:b 7 IN:b 8 <a 9 <?"));
	add_up(&o);
	assert_fields(l, IS(n, 5) IS(at, 9 * KP_NS_PER_US));
}

CASES("test/unit/cases/calls.txt", run_case, setup, teardown)
