/*
 * kprof suggest: which function begins requests and which are worth measuring, from
 * traces and samples of a small application whose names mean nothing; and the file.
 */
#include "cases.h"
#include "kprofd/config.h"
#include "suggest/propose.h"

#define US KP_NS_PER_US

/* The application: w1 is a server, whose callback calls ab:q/2, which is a request. */
static const struct {
	const char *mod, *fun;
	uint32_t arity;
	bool platform, callback, local;
} fns[] = {
	{ "gen_server", "loop", 7, true, false, false },
	{ "gen", "do_call", 4, true, false, false },
	{ "prim_inet", "recv0", 3, true, false, false },
	{ "ab", "handle_call", 3, false, true, false },
	{ "ab", "q", 2, false, false, false },
	{ "ab", "inner", 1, false, false, true },
	{ "Elixir.Cd", "get", 1, false, false, false },
	{ "Elixir.Cd", "ask", 1, false, false, true },
	{ "ef", "format", 1, false, false, false },
	{ "gh", "spend", 1, false, false, false },
	{ "ij", "read", 2, false, false, false },
	{ "ij", "accept", 1, false, false, false },
	{ "kl", "notify", 1, false, false, false },
};
enum { LOOP = KP_FN_FIRST, DO_CALL, RECV, CALLBACK, REQUEST, INNER, GET, ASK,
	FORMAT, SPEND, READ, ACCEPT, NOTIFY };
#define NFNS (sizeof(fns) / sizeof(fns[0]))

struct world {
	struct kp_call_names *names;
	struct suggest_fn *facts;
	struct suggest_tree *calls;
	kp_target_ns now;
	uint32_t proc;
};

static struct kp_span
span(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

static struct suggest_wanted
wanted(double hot)
{
	return (struct suggest_wanted){ .hot = hot, .most = SUGGEST_TIERS_MAX };
}

static void
begin(struct world *w)
{
	bool added;
	uint32_t n;

	*w = (struct world){ .names = kp_call_names_new(), .now = 1000 * US };
	assert_non_null(w->names);
	for (size_t i = 0; i < NFNS; i++) {
		assert_int_equal(kp_call_fn_put(w->names, span(fns[i].mod),
		    span(fns[i].fun), fns[i].arity, &n, &added), KP_OK);
		assert_int_equal(n, KP_FN_FIRST + i);
	}
	w->facts = calloc(NFNS + KP_FN_FIRST, sizeof(*w->facts));
	for (size_t i = 0; i < NFNS + KP_FN_FIRST; i++)
		w->facts[i] = (struct suggest_fn){ .app = "app",
			.users = true, .platform = i < KP_FN_FIRST };
	for (size_t i = 0; i < NFNS; i++) {
		w->facts[KP_FN_FIRST + i].platform = fns[i].platform;
		w->facts[KP_FN_FIRST + i].callback = fns[i].callback;
		w->facts[KP_FN_FIRST + i].exported = !fns[i].local;
	}
	w->calls = suggest_tree_new(w->names);
	assert_non_null(w->calls);
}

static void
end(struct world *w)
{
	suggest_tree_free(w->calls);
	kp_call_names_free(w->names);
	free(w->facts);
}

static void
event(struct world *w, enum kp_call_kind kind, uint32_t fn, uint32_t other,
    kp_dur_ns after)
{
	const struct kp_call_event ev = { .kind = kind, .proc = w->proc,
		.fn = fn, .other = other, .ts = w->now += after };

	assert_int_equal(suggest_tree_event(w->calls, &ev), KP_OK);
}

static void
call(struct world *w, uint32_t fn, uint32_t caller, kp_dur_ns takes)
{
	event(w, KP_CALL_CALL, fn, caller, 1 * US);
	event(w, KP_CALL_RETURN_TO, caller, 0, takes);
}

/* fn waits in `in`. */
static void
wait_in(struct world *w, uint32_t fn, uint32_t caller, uint32_t in, kp_dur_ns t)
{
	event(w, KP_CALL_CALL, fn, caller, 1 * US);
	event(w, KP_CALL_OUT, in, 0, 1 * US);
	event(w, KP_CALL_IN, in, 0, t);
	event(w, KP_CALL_RETURN_TO, caller, 0, 1 * US);
}

/* gh:spend/1 is called by ab, cd and ef: a helper. */
static void
request(struct world *w)
{
	event(w, KP_CALL_CALL, REQUEST, CALLBACK, 1 * US);
	call(w, SPEND, REQUEST, 20 * US);
	event(w, KP_CALL_CALL, INNER, REQUEST, 1 * US);
	event(w, KP_CALL_CALL, GET, INNER, 1 * US);
	call(w, SPEND, GET, 20 * US);
	wait_in(w, ASK, GET, DO_CALL, 900 * US);
	event(w, KP_CALL_RETURN_TO, INNER, 0, 1 * US);
	event(w, KP_CALL_CALL, FORMAT, INNER, 1 * US);
	call(w, SPEND, FORMAT, 20 * US);
	call(w, GET, FORMAT, 30 * US);
	event(w, KP_CALL_RETURN_TO, INNER, 0, 100 * US);
	event(w, KP_CALL_RETURN_TO, REQUEST, 0, 1 * US);
	event(w, KP_CALL_RETURN_TO, CALLBACK, 0, 1 * US);
}

/* A worker that serves, and a connection that mostly waits for its client. */
static void
serve(struct world *w)
{
	for (int i = 0; i < 40; i++) {
		w->proc = 0;
		event(w, KP_CALL_CALL, CALLBACK, LOOP, 100 * US);
		request(w);
		event(w, KP_CALL_RETURN_TO, LOOP, 0, 1 * US);
		w->proc = 1;
		wait_in(w, READ, LOOP, RECV, 20000 * US);
	}
}

TEST(test_entry)
{
	struct suggest_entry v[SUGGEST_ENTRIES_MAX];
	struct world w;
	size_t n;

	begin(&w);
	serve(&w);
	assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
	n = suggest_entries(w.calls, w.facts, v);
	assert_true(n >= 2);
	assert_fields(v[0], IS(fn, REQUEST) IS(calls, 40) IS(modules, 3));
	assert_false(v[0].callback);
	/* The last resort comes last. */
	assert_int_equal(v[n - 1].fn, CALLBACK);
	assert_true(v[n - 1].callback);
	end(&w);
}

static bool
has(const struct suggest_tiers *t, uint32_t fn)
{
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->v[i].nfns; k++)
			if (t->v[i].fns[k] == fn)
				return true;
	return false;
}

static void
tiers_of(struct world *w, struct suggest_tiers *t, double hot)
{
	begin(w);
	suggest_tree_entry(w->calls, "ab", "q", 2);
	serve(w);
	assert_int_equal(suggest_tree_end(w->calls, w->facts), KP_OK);
	assert_fields(*w->calls, IS(begun, 40) IS(ended, 40));
	assert_int_equal(suggest_tiers(w->calls, w->facts, REQUEST, wanted(hot), t),
	    KP_OK);
}

TEST(test_tiers)
{
	struct suggest_tiers t;
	struct world w;

	tiers_of(&w, &t, 100);
	assert_fields(t, IS(requests, 40) IS(n, 3));
	assert_true(t.v[0].entry);
	assert_int_equal(t.v[0].fns[0], REQUEST);
	assert_true(has(&t, GET));
	assert_true(has(&t, FORMAT));
	/* A local function is not the way in, and a helper is no tier. */
	assert_false(has(&t, ASK));
	assert_false(has(&t, SPEND));
	assert_true(t.nleft > 0);
	assert_int_equal(t.left[0].fn, SPEND);
	assert_int_equal(t.left[0].reason, SUGGEST_HELPER);
	/* What the connection waits for is not of requests. */
	assert_false(has(&t, READ));
	end(&w);
}

/* Those with most of the time, as long as there is room for their calls. */
TEST(test_ways_in)
{
	uint32_t v[9];
	struct suggest_tiers t;
	struct world w;
	size_t n;

	tiers_of(&w, &t, 100);
	assert_int_equal(suggest_ways_in(&t, w.calls, w.facts, 100, v, 9, &n), KP_OK);
	assert_in_range(n, 2, 8);
	for (size_t i = 0; i < n; i++)
		assert_true(v[i] != SPEND && v[i] != INNER && v[i] != ASK);
	assert_int_equal(suggest_ways_in(&t, w.calls, w.facts, 100, v, 2, &n), KP_OK);
	assert_int_equal(n, 2);
	assert_true(v[0] == REQUEST && v[1] == GET);
	assert_int_equal(suggest_ways_in(&t, w.calls, w.facts, 0.5, v, 9, &n), KP_OK);
	assert_int_equal(n, 0);
	end(&w);
}

/* A request, and what it has another process do. */
static void
request_and_more(struct world *w, uint64_t serial)
{
	struct kp_call_event ev = { .kind = KP_CALL_SEND, .proc = 0,
		.serial = (uint32_t)serial };

	w->proc = 0;
	event(w, KP_CALL_CALL, REQUEST, CALLBACK, 1 * US);
	ev.ts = w->now;
	assert_int_equal(suggest_tree_event(w->calls, &ev), KP_OK);
	wait_in(w, GET, REQUEST, DO_CALL, 2000 * US);
	event(w, KP_CALL_RETURN_TO, CALLBACK, 0, 1 * US);
	w->proc = 2;
	ev = (struct kp_call_event){ .kind = KP_CALL_RECEIVE, .proc = 2,
		.serial = (uint32_t)serial, .ts = w->now };
	assert_int_equal(suggest_tree_event(w->calls, &ev), KP_OK);
	call(w, NOTIFY, LOOP, 9 * US);
}

/* With few tiers, what takes less of the time is one, too. */
TEST(test_few)
{
	struct suggest_tiers t;
	struct world w;

	begin(&w);
	suggest_tree_entry(w.calls, "ab", "q", 2);
	for (uint64_t i = 1; i <= 40; i++)
		request_and_more(&w, i);
	assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
	assert_int_equal(suggest_tiers(w.calls, w.facts, REQUEST, wanted(100), &t),
	    KP_OK);
	assert_true(t.elsewhere > 0 && t.elsewhere * 50 < t.total);
	assert_int_equal(t.n, 3);
	assert_true(has(&t, NOTIFY));
	end(&w);
}

/*
 * The same load had other tiers each time: those with 1 % of the time came and went.  A
 * tier is on the side of the limit on which those near it are.  Beside an example's, it
 * is one that the entry does not call itself.
 */
TEST(test_near)
{
	static const struct {
		kp_dur_ns format, get;	/* ms of 100 */
		bool has_format, has_get;
	} cases[] = { { 9, 2, false, false }, { 11, 2, true, false },
		{ 12, 10, true, true }, { 12, 9, true, true }, { 6, 5, false, false },
		{ 40, 4, true, false }, { 4, 3, false, false } };
	struct suggest_tiers t;
	struct world w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(&w);
		suggest_tree_entry(w.calls, "ab", "q", 2);
		for (int k = 0; k < 40; k++) {
			event(&w, KP_CALL_CALL, REQUEST, CALLBACK, 1 * US);
			event(&w, KP_CALL_CALL, SPEND, REQUEST, 1 * US);
			call(&w, FORMAT, SPEND, cases[i].format * 1000 * US);
			call(&w, GET, SPEND, cases[i].get * 1000 * US);
			event(&w, KP_CALL_RETURN_TO, REQUEST, 0, 1 * US);
			event(&w, KP_CALL_RETURN_TO, CALLBACK, 0,
			    (100 - cases[i].format - cases[i].get) * 1000 * US);
		}
		assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
		assert_int_equal(suggest_tiers(w.calls, w.facts, REQUEST,
		    (struct suggest_wanted){ .hot = 100, .most = 9, .own = true },
		    &t), KP_OK);
		if (has(&t, FORMAT) != cases[i].has_format ||
		    has(&t, GET) != cases[i].has_get)
			fail_msg("case %zu: %d %d", i, has(&t, FORMAT), has(&t, GET));
		assert_false(has(&t, SPEND));
		end(&w);
	}
}

TEST(test_hot)
{
	struct suggest_tiers t;
	struct world w;

	tiers_of(&w, &t, 1.5);
	assert_false(has(&t, GET));
	assert_true(has(&t, FORMAT));
	end(&w);
}

/* An entry that was cut off is begun and not ended; one inside itself is nested. */
TEST(test_nested)
{
	struct world w;

	begin(&w);
	suggest_tree_entry(w.calls, "ab", "q", 2);
	event(&w, KP_CALL_CALL, REQUEST, CALLBACK, US);
	event(&w, KP_CALL_CALL, REQUEST, REQUEST, US);
	assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
	assert_fields(*w.calls, IS(begun, 1) IS(ended, 0) IS(nested, 1));
	end(&w);
}

/*
 * Neither a function that calls itself, be it once and by another one of its module, nor
 * one of a module without a file, is in a tier.
 */
TEST(test_unnamed)
{
	struct suggest_tiers t;
	struct world w;

	begin(&w);
	suggest_tree_entry(w.calls, "ab", "q", 2);
	serve(&w);
	event(&w, KP_CALL_CALL, GET, CALLBACK, US);
	event(&w, KP_CALL_CALL, ASK, GET, US);
	event(&w, KP_CALL_CALL, GET, ASK, US);
	w.facts[FORMAT].unnamed = true;
	assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
	assert_true(w.calls->recursive[GET]);
	assert_false(w.calls->recursive[ASK]);
	assert_int_equal(suggest_tiers(w.calls, w.facts, REQUEST, wanted(100), &t),
	    KP_OK);
	assert_int_equal(t.n, 1);
	assert_false(has(&t, GET));
	assert_false(has(&t, FORMAT));
	end(&w);
}

/* A stack that is cut is continued by who calls its outermost function elsewhere. */
TEST(test_samples)
{
	static const uint32_t whole[] = { LOOP, CALLBACK, REQUEST, FORMAT };
	static const uint32_t cut[] = { INNER, GET, ASK, DO_CALL };
	static const uint32_t edge[] = { LOOP, CALLBACK, REQUEST, INNER };
	static const uint32_t idle[] = { LOOP, ACCEPT, RECV };
	double rates[NFNS + KP_FN_FIRST];
	struct suggest_entry v[SUGGEST_ENTRIES_MAX];
	struct suggest_stacks s = { 0 };
	struct world w;

	begin(&w);
	s.names = w.names;
	for (size_t i = 0; i < NFNS + KP_FN_FIRST; i++)
		rates[i] = 100;
	rates[ACCEPT] = 0;
	for (int i = 0; i < 30; i++) {
		assert_int_equal(suggest_stacks_add(&s, 2, whole, 4, false,
		    SUGGEST_WORKS, 1000 * US), KP_OK);
		suggest_stacks_add(&s, 3, cut, 4, true, SUGGEST_WAIT_CALL,
		    9000 * US);
		suggest_stacks_add(&s, 4, edge, 4, false, SUGGEST_WORKS,
		    1000 * US);
		suggest_stacks_add(&s, 5, idle, 3, false, SUGGEST_WAIT_INPUT,
		    1000000 * US);
	}
	assert_int_equal(suggest_stacks_tree(&s, rates, KP_NS_PER_S, w.facts,
	    w.calls), KP_OK);
	/* Nobody calls it, and it is there all the time. */
	assert_true(w.facts[ACCEPT].loop);
	assert_true(suggest_entries(w.calls, w.facts, v) > 0);
	assert_int_equal(v[0].fn, REQUEST);
	assert_true(v[0].total == 30 * 11000 * US);
	assert_int_equal(v[0].modules, 2);
	suggest_stacks_free(&s);
	end(&w);
}

/*
 * A worker of a pool is at work more than who asks it: it is no entry, as long as it
 * calls hardly anything else.  One that calls more may serve requests itself.
 */
TEST(test_workers)
{
	const uint32_t asks[] = { LOOP, CALLBACK, REQUEST, GET, ASK };
	const uint32_t leaf[] = { LOOP, CALLBACK, READ };
	const uint32_t more[][4] = { { LOOP, CALLBACK, READ, FORMAT },
		{ LOOP, CALLBACK, READ, GET } };
	double rates[NFNS + KP_FN_FIRST];
	struct suggest_entry v[SUGGEST_ENTRIES_MAX];

	for (size_t i = 0; i < NFNS + KP_FN_FIRST; i++)
		rates[i] = 100;
	for (int pooled = 0; pooled < 3; pooled++) {
		struct suggest_stacks s = { 0 };
		struct world w;

		begin(&w);
		s.names = w.names;
		for (int i = 0; i < 30; i++) {
			suggest_stacks_add(&s, 2, asks, 5, false,
			    SUGGEST_WAIT_CALL, 1000 * US);
			suggest_stacks_add(&s, 3, leaf, 3, false,
			    SUGGEST_WORKS, 8000 * US);
			if (pooled > 0)
				suggest_stacks_pooled(&s, 3, 8000 * US);
			for (uint32_t k = 0; k < 2 && pooled == 2; k++) {
				suggest_stacks_add(&s, 4 + k, more[k], 4, false,
				    SUGGEST_WORKS, 400 * US);
				suggest_stacks_pooled(&s, 4 + k, 400 * US);
			}
		}
		assert_int_equal(suggest_stacks_tree(&s, rates, KP_NS_PER_S,
		    w.facts, w.calls), KP_OK);
		assert_true(suggest_entries(w.calls, w.facts, v) >= 2);
		assert_int_equal(v[0].fn, pooled == 1 ? REQUEST : READ);
		assert_false(v[0].worker);
		assert_int_equal(v[1].worker, pooled == 1);
		suggest_stacks_free(&s);
		end(&w);
	}
}

/* The way to a pool is a tier also where nobody waits long for it. */
TEST(test_way_to_pool)
{
	struct suggest_tiers t;
	struct world w;

	for (int pool = 0; pool < 2; pool++) {
		begin(&w);
		w.facts[ASK].exported = true;
		w.facts[READ].pool = pool;
		for (int i = 0; i < 20; i++) {
			w.proc = 1;
			event(&w, KP_CALL_CALL, REQUEST, CALLBACK, 1 * US);
			call(&w, GET, REQUEST, 20000 * US);
			wait_in(&w, READ, REQUEST, DO_CALL, 10 * US);
			event(&w, KP_CALL_RETURN_TO, CALLBACK, 0, 1 * US);
		}
		assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
		assert_int_equal(suggest_tiers(w.calls, w.facts, REQUEST,
		    wanted(100), &t), KP_OK);
		assert_int_equal(t.n, 2 + pool);
		if (pool)
			assert_int_equal(t.v[2].fns[0], READ);
		for (size_t i = 0; i < t.n; i++)
			assert_int_equal(t.v[i].pool, i == 2);
		end(&w);
	}
}

/*
 * Where others wait for a pool's worker is a tier of its own, also in the entry's own
 * module and where it takes little time.
 */
TEST(test_waits)
{
	static const uint32_t tiers[2][4] = { { REQUEST, GET },
		{ REQUEST, ASK, GET, INNER } };	/* by name, behind the entry's */
	struct suggest_tiers t;
	struct world w;

	for (int waits = 0; waits < 2; waits++) {
		begin(&w);
		w.facts[INNER].waits = w.facts[ASK].waits = waits;
		for (int i = 0; i < 20; i++) {
			w.proc = 1;
			event(&w, KP_CALL_CALL, REQUEST, CALLBACK, 1 * US);
			wait_in(&w, INNER, REQUEST, DO_CALL, 10 * US);
			event(&w, KP_CALL_CALL, GET, REQUEST, 1 * US);
			wait_in(&w, ASK, GET, DO_CALL, 900 * US);
			event(&w, KP_CALL_RETURN_TO, REQUEST, 0, 20000 * US);
			event(&w, KP_CALL_RETURN_TO, CALLBACK, 0, 1 * US);
		}
		assert_int_equal(suggest_tree_end(w.calls, w.facts), KP_OK);
		assert_int_equal(suggest_tiers(w.calls, w.facts, REQUEST,
		    wanted(100), &t), KP_OK);
		assert_int_equal(t.n, 2 + 2 * waits);
		for (size_t i = 0; i < t.n; i++) {
			assert_fields(t, IS(v[i].nfns, 1)
			    IS(v[i].fns[0], tiers[waits][i])
			    IS(v[i].waits, waits && i % 2 == 1));
		}
		end(&w);
	}
}

static double
rate(const void *ctx, const struct kp_call_fn *fn)
{
	(void)ctx, (void)fn;
	return 12;
}

/* What is written is a tiers.conf without mistakes, whatever the names are. */
TEST(test_file)
{
	struct suggest_entry v[SUGGEST_ENTRIES_MAX];
	struct suggest_tiers t;
	struct kp_diags diags;
	struct kp_conf *conf = NULL;
	struct kp_buf b;
	struct world w;
	struct suggest_file f = { .node = "a@b\n{x", .date = "today",
		.reach = " -dist-port 4370\n{y",
		.about = "one\ntwo \x1b[31m", .verdict = "ok\n", .why = "why\n",
		.clause = "({ab, q, [A, _]}) when is_atom(A) -> A",
		.rate = rate, .paths = true };

	tiers_of(&w, &t, 100);
	f.names = f.entry_names = w.names;
	f.fns = w.facts;
	f.nentries = suggest_entries(w.calls, w.facts, v);
	for (f.chosen = 0; v[f.chosen].fn != REQUEST; f.chosen++)
		;
	f.entries = v;
	f.tiers = &t;
	for (int draft = 0; draft < 2; draft++) {
		kp_buf_init(&b, SUGGEST_FILE_MAX);
		if (draft)
			suggest_write_draft(&f, &b);
		else
			suggest_write(&f, &b);
		assert_int_equal(b.err, KP_OK);
		if (kp_conf_parse(&conf, kp_buf_cstr(&b), b.len, &diags) != KP_OK)
			fail_msg("%s:\n%s", diags.v[0].text, kp_buf_cstr(&b));
		assert_int_equal(diags.n, 0);
		assert_fields(*conf, IS(ntiers, 3) IS(nentries, 1));
		assert_null(strchr(kp_buf_cstr(&b), '\x1b'));
		assert_true(draft || strstr(kp_buf_cstr(&b),
		    "{x -dist-port 4370") != NULL);
		/* each language as its users write it */
		assert_has(kp_buf_cstr(&b), "\"Cd.get/1\"");
		assert_has(kp_buf_cstr(&b), "{ab, q, 2}");
		assert_lacks(kp_buf_cstr(&b), "Elixir.");
		kp_conf_free(conf);
		kp_diags_free(&diags);
		kp_buf_free(&b);
	}
	end(&w);
}

TEST(test_identity)
{
	static const struct {
		const char *example, *clause;
	} cases[] = {
		{ "m:f(atom, #{... 4 keys})", "({m, f, [A, _]})\n        when "
		    "is_atom(A) -> A" },
		{ "m:f(pid, #{method := binary, path := binary, ... 9 keys})",
		    "({m, f, [_, #{method := M, path := P}]})\n        when "
		    "is_binary(M), is_binary(P) -> {M, P}" },
		{ "m:f(#{method := <<\"GET\">>, request_path := <<\"/\">>}, atom)",
		    "({m, f, [#{method := M, request_path := P}, _]})\n"
		    "        when is_binary(M), is_binary(P) -> {M, P}" },
		{ "m:f({{_, _}, atom}, {ch, binary})", "({m, f, [A, _]})\n"
		    "        when is_tuple(A), is_tuple(element(1, A)), "
		    "is_atom(element(1, element(1, A))) -> "
		    "element(1, element(1, A))" },
		{ "m:f(binary, {req, 'GET', list})", "({m, f, [_, A]})\n"
		    "        when is_tuple(A), is_atom(element(1, A)) -> "
		    "element(1, A)" },
		{ "m:f(atom, {http_request, atom, {_, _}, {_, _}})",
		    "({m, f, [_, {http_request, M, {abs_path, P}, _}]})\n"
		    "        when M =/= undefined -> {M, P}" },
		{ "m:f({mochiweb_request, list}, atom)",
		    "({m, f, [{mochiweb_request, [_, _, M, P | _]}, _]})\n"
		    "        when M =/= undefined -> {M, P}" },
		{ "m:f({mod, {_, _, _}, [], atom, port, ... 14 elements}, atom)",
		    "({m, f, [{mod, _, _, _, _, _, M, _, P, _, _, _, _, _}, _]})\n"
		    "        when M =/= undefined -> {M, P}" },
		{ "m:f({arg, port, {_, _}, {... 23 elements}, {_, _, _, _}, "
		    "... 21 elements}, atom)", "({m, f, [A, _]})\n        when "
		    "element(1, element(5, A)) =:= http_request -> "
		    "{element(2, element(5, A)), "
		    "element(2, element(3, element(5, A)))}" },
		{ "m:f({mod, atom}, integer)", "({m, f, [A, _]})\n"
		    "        when is_tuple(A), is_atom(element(1, A)) -> "
		    "element(1, A)" },
		{ "m:f(binary, integer)", "({m, f, _}) -> f" },
		{ "", "({m, f, _}) -> f" },
		{ "m:f(", "({m, f, _}) -> f" },
		{ "m:f({{{{((((''''", "({m, f, _}) -> f" },
	};
	const struct kp_mfa f = { "m", "f", 2 };
	struct kp_buf clause, why;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kp_buf_init(&clause, SUGGEST_CLAUSE_MAX);
		kp_buf_init(&why, SUGGEST_CLAUSE_MAX);
		suggest_identity(&f, cases[i].example, &clause, &why);
		assert_string_equal(kp_buf_cstr(&clause), cases[i].clause);
		kp_buf_free(&clause);
		kp_buf_free(&why);
	}
}

/* The application's tiers go into each example, which stays without mistakes. */
TEST(test_stock)
{
	const struct suggest_framework *k;
	struct suggest_tiers t;
	struct kp_diags diags;
	struct kp_conf *conf = NULL, *stock = NULL;
	struct kp_buf b;
	struct world w;
	struct suggest_file f = { .node = "a@b", .date = "today", .reach = "",
		.about = "one", .verdict = "ok\n", .why = "", .clause = "",
		.rate = rate };
	size_t stocks = 0;

	tiers_of(&w, &t, 100);
	f.names = f.entry_names = w.names;
	f.fns = w.facts;
	f.tiers = &t;
	for (k = suggest_frameworks; k < suggest_frameworks + suggest_nframeworks; k++) {
		if (k->stock == NULL)
			continue;
		assert_int_equal(kp_conf_parse(&stock, k->stock, strlen(k->stock),
		    &diags), KP_OK);
		kp_diags_free(&diags);
		assert_in_range(stock->nentries, 1, KP_ENTRY_MAX);
		f.stock = k;
		f.stock_conf = stock;
		kp_buf_init(&b, SUGGEST_FILE_MAX);
		suggest_write(&f, &b);
		if (kp_conf_parse(&conf, kp_buf_cstr(&b), b.len, &diags) != KP_OK)
			fail_msg("%s:\n%s", diags.v[0].text, kp_buf_cstr(&b));
		assert_int_equal(conf->ntiers, stock->ntiers + t.n);
		assert_int_equal(conf->nentries, stock->nentries);
		kp_diags_free(&diags);
		kp_conf_free(conf);
		kp_conf_free(stock);
		kp_buf_free(&b);
		stocks++;
	}
	assert_in_range(stocks, 1, SUGGEST_STOCKS_MAX);
	end(&w);
}

/*
 * It printed a quarter of what a node spent: armed calls that become no event, counted
 * calls and kprofd -check were not in it.  Each part is there, and none overflows.
 */
TEST(test_cost)
{
	struct suggest_cost c = { .sampling = 50 * KP_NS_PER_MS,
		.asked = { .loads = 1, .questions = 100 },
		.counts = { .loads = 1, .patterns = 10, .counted = 1e6 },
		.traces = { .loads = 2, .patterns = 100, .processes = 1000,
		    .armed = 1e5, .events = 30000 },
		.checks = { .loads = 2, .armed = 1e4, .events = 5000 } };

	assert_true(suggest_cost_time(&(struct suggest_cost){
	    .asked = c.asked }) == 20 * KP_NS_PER_MS);
	assert_true(suggest_cost_time(&(struct suggest_cost){
	    .counts = c.counts }) == 113200 * US);
	assert_true(suggest_cost_time(&(struct suggest_cost){
	    .traces = c.traces }) == 165 * KP_NS_PER_MS);
	assert_true(suggest_cost_time(&(struct suggest_cost){
	    .checks = c.checks }) == 34500 * US);
	assert_true(suggest_cost_time(&c) == 382700 * US);
	c.traces.processes = c.checks.patterns = UINT64_MAX;
	c.counts.counted = 1e300;
	assert_true(suggest_cost_time(&c) == INT64_MAX);
}

TESTS(NULL, NULL)
