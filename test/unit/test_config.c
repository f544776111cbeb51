/* test_config.c - tiers.conf, good and bad. */
#include "cases.h"
#include "base/near_names.h"
#include "kprofd/config.h"
#include "kprofd/instructions.h"
#include "bad_conf.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct kp_conf *
good(const char *text)
{
	struct kp_conf *c = NULL;
	struct kp_diags d;
	enum kp_err err = kp_conf_parse(&c, text, strlen(text), &d);

	for (size_t i = 0; i < d.n && err != KP_OK; i++)
		print_error("%u:%u: %s\n", d.v[i].pos.line, d.v[i].pos.col,
		    d.v[i].text);
	assert_int_equal(err, KP_OK);
	kp_diags_free(&d);
	return c;
}

static void
assert_fn(const struct kp_mfa_pat *p, const char *mod, const char *fun,
    int arity)
{
	assert_string_equal(p->mod, mod);
	if (fun == NULL)
		assert_null(p->fun);
	else
		assert_string_equal(p->fun, fun);
	assert_int_equal(p->arity, arity);
}

static const char full[] =
    "%% a comment\n"
    "{tiers, [\n"
    "  {parsing, {network_server, parse_request, 1}},\n"
    "  {db, [{db, request, 1}, {db, '_', '_'}, \"db:query/_\", \"dbx\"]},\n"
    "  {repo, \"MyApp.Repo.all/2\", [exact]},\n"
    "  {'caf\\x{e9}', ['m':f, \":lists.map/2\", \"Elixir.A.B:c?/1\"]}\n"
    "]}.\n"
    "{entry, {h, handle, 2}, [{nodes, ['web@*', \"b@c\"]}]}.\n"
    "{finish, [{h, done, '_'}]}.\n"
    "{identity, fun ({h, handle, [Op, _]}) when is_atom(Op) -> Op end}.\n"
    "{sampling, {one_in, 16#A}}.\n"
    "{slow_ms, 1_000}.\n{keep_slowest, 3}.\n{budget, 0.5}.\n{hot_share, 120}.\n"
    "{gc, force}.\n{scheduling, true}.\n"
    "{messages, true}.\n"
    "{overload, [{max_age_ms, 500}, {max_queue, 100}, {max_memory_mb, 8},\n"
    "  {max_lag_ms, 700}, {max_kprofd_mb, 90}, {max_backlog_percent, 50},\n"
    "            {pause_s, 3}]}.\n"
    "{rewrite, [{\"/users/[0-9]+\", \"/users/:id\"}]}.\n";

TEST(test_full)
{
	char text[sizeof(full)];
	struct kp_conf *c;

	memcpy(text, full, sizeof(full));
	memcpy(strstr(text, "'m':f"), "\"m:f\"", 5);
	c = good(text);
	assert_fields(*c, IS(ntiers, 4) IS(tiers[0].name, "parsing")
	    IS(tiers[0].pos.line, 3) IS(tiers[0].pos.col, 3));
	assert_fn(&c->tiers[0].fns[0], "network_server", "parse_request", 1);
	assert_int_equal(c->tiers[1].nfns, 4);
	assert_fn(&c->tiers[1].fns[1], "db", NULL, -1);
	assert_fn(&c->tiers[1].fns[2], "db", "query", -1);
	assert_fn(&c->tiers[1].fns[3], "dbx", NULL, -1);
	assert_int_equal(c->tiers[1].fns[2].pos.col, 43);
	assert_fn(&c->tiers[2].fns[0], "Elixir.MyApp.Repo", "all", 2);
	assert_int_equal(c->tiers[2].opts, KP_TIER_EXACT);
	assert_string_equal(c->tiers[3].name, "caf\xc3\xa9");
	assert_fn(&c->tiers[3].fns[0], "m", "f", -1);
	assert_fn(&c->tiers[3].fns[1], "lists", "map", 2);
	assert_fn(&c->tiers[3].fns[2], "Elixir.A.B", "c?", 1);
	assert_int_equal(c->nentries, 1);
	assert_fn(&c->entries[0].fn, "h", "handle", 2);
	assert_fields(*c, IS(entries[0].nnodes, 2)
	    IS(entries[0].nodes[1], "b@c") IS(nfinishes, 1));
	assert_non_null(c->funs);
	assert_fields(*c, IS(sampling.kind, KP_SAMPLE_ONE_IN) IS(sampling.n, 10)
	    IS(slow, 1000 * KP_NS_PER_MS) IS(keep_slowest, 3));
	assert_true(c->budget == 0.5);
	assert_true(c->hot_share == 120);
	assert_true(c->gc && c->gc_forced && c->scheduling);
	assert_true(kp_conf_gc(c, false));
	assert_true(c->messages);
	assert_fields(*c, IS(overload.max_age, 500 * KP_NS_PER_MS)
	    IS(overload.max_queue, 100) IS(overload.max_memory, 8 << 20)
	    IS(overload.pause, 3 * KP_NS_PER_S)
	    IS(overload.max_lag, 700 * KP_NS_PER_MS)
	    IS(overload.max_kprofd, 90 << 20) IS(overload.max_backlog, 50)
	    IS(rewrites[0].to, "/users/:id"));
	kp_conf_free(c);
}

TEST(test_list_alone)
{
	static const char *const texts[] = { "[{db, {db, query, '_'}}]",
		"[{db, {db, query, '_'}}].", "\xEF\xBB\xBF[{db,\"db:query\"}] % x",
		"[{db, {db, query, '_'}}].\n{slow_ms, 250}." };
	struct kp_conf *c;

	for (size_t i = 0; i < LEN(texts); i++) {
		c = good(texts[i]);
		assert_int_equal(c->ntiers, 1);
		assert_fn(&c->tiers[0].fns[0], "db", "query", -1);
		assert_fields(*c, IS(sampling.kind, KP_SAMPLE_SLICES)
		    IS(sampling.n, 1) IS(slow, 250 * KP_NS_PER_MS)
		    IS(overload.max_queue, 20000));
		assert_null(c->funs);
		kp_conf_free(c);
	}
}

/* A limit is there unless somebody says that there is none. */
TEST(test_limits_of_cost)
{
	struct kp_conf *c;

	c = good("[{db, {db, query, 1}}].");
	assert_true(c->budget == KP_BUDGET && c->hot_share == KP_HOT_SHARE);
	kp_conf_free(c);
	c = good("[{db, {db, query, 1}}].\n{budget, none}.\n{hot_share, none}.");
	assert_true(c->budget == 0 && c->hot_share == 0);
	kp_conf_free(c);
	c = good("[{db, {db, query, 1}}].\n{budget, 0.01}.\n{hot_share, 1.0e4}.");
	assert_true(c->budget == 0.01 && c->hot_share == 10000);
	kp_conf_free(c);
}

TEST(test_stacks)
{
	static const struct {
		const char *text;
		uint32_t per_second;
		double percent;
	} v[] = {
		{ "", 0, KP_STACKS_SHARE },
		{ "{stacks, none}.", 0, KP_STACKS_SHARE },
		{ "{stacks, {per_second, 20}}.", 20, KP_STACKS_SHARE },
		{ "{stacks, [{per_second, 1000}]}.", 1000, KP_STACKS_SHARE },
		{ "{stacks, [{percent, 0.01}, {per_second, 1}]}.", 1, 0.01 },
	};
	struct kp_conf *c;
	char text[200];

	for (size_t i = 0; i < LEN(v); i++) {
		snprintf(text, sizeof(text), "[{db, {db, query, 1}}].\n%s",
		    v[i].text);
		c = good(text);
		assert_int_equal(c->stacks.per_second, v[i].per_second);
		assert_true(c->stacks.percent == v[i].percent);
		kp_conf_free(c);
	}
}

TEST(test_slo)
{
	static const char text[] = "{slo, [{\"GET /orders\", 200, 99.9}, {db, 0.5, 99},\n"
	    "  {\"GET /orders\", 1000, 99.99}, {\"db\", 50, 50}, {'_total', 250, 90}]}.\n"
	    "{tiers, [{db, {db, query, 1}}]}.\n"
	    "{identity, fun ({db, query, [X]}) when is_atom(X) -> X end}.\n";
	static const struct {
		const char *text, *name;
		kp_dur_ns limit;
		double percent;
		bool tier;
	} v[] = {
		{ "GET /orders within 200 ms", "GET /orders", 200 * KP_NS_PER_MS, 99.9,
		    false },
		{ "tier db within 0.5 ms", "db", KP_NS_PER_MS / 2, 99, true },
		{ "GET /orders within 1000 ms", "GET /orders", KP_NS_PER_S, 99.99,
		    false },
		{ "db within 50 ms", "db", 50 * KP_NS_PER_MS, 50, false },
		{ "all requests within 250 ms", "_total", 250 * KP_NS_PER_MS, 90,
		    false },
	};
	struct kp_conf *c = good(text);

	assert_int_equal(c->nslo, LEN(v));
	for (size_t i = 0; i < LEN(v); i++) {
		assert_fields(c->slo[i], IS(text, v[i].text) IS(name, v[i].name)
		    IS(limit, v[i].limit) IS(tier, v[i].tier));
		assert_true(c->slo[i].percent == v[i].percent);
	}
	kp_conf_free(c);
	c = good("[{db, {db, query, 1}}].\n{slo, []}.");
	assert_int_equal(c->nslo, 0);
	kp_conf_free(c);
	/* what cannot be known is not refused */
	c = good("[{db, {db, query, 1}}].\n{slo, [{\"/u/:id\", 1, 1}, {undefined, 1, 1}]}.\n"
	    "{rewrite, [{\"/u/[0-9]+\", \"/u/:id\"}]}.");
	assert_int_equal(c->nslo, 2);
	kp_conf_free(c);
}

/* What the fun returns is not known, so the name may be that of a type. */
TEST(test_slo_maybe)
{
	static const char text[] = "[{database, {m, f, 1}}].\n"
	    "{slo, [{databse, 5, 99}, {\"databse\", 6, 99}, {order, 5, 99}]}.\n"
	    "{identity, fun ({m, f, [X]}) when is_atom(X) -> X end}.\n";
	static const char no_fun[] = "[{db, {m, f, 1}}].\n{slo, [{\"GET /\", 5, 99}]}.";
	struct kp_diags d;
	struct kp_conf *c;

	assert_int_equal(kp_conf_parse(&c, text, strlen(text), &d), KP_OK);
	assert_int_equal(d.n, 1);
	assert_string_equal(d.v[0].text, "there is no tier 'databse', so a request type "
	    "is meant (did you mean 'database'? Else write it as a text)");
	assert_fields(d.v[0], IS(warning, true) IS(pos.line, 2) IS(pos.col, 9));
	kp_diags_free(&d);
	kp_conf_free(c);
	assert_int_equal(kp_conf_parse(&c, no_fun, strlen(no_fun), &d), KP_OK);
	assert_int_equal(d.n, 1);
	assert_string_equal(d.v[0].text, "no request can be of the type 'GET /': there is "
	    "no identity fun, which names types");
	kp_diags_free(&d);
	kp_conf_free(c);
}

#define T "[{t, {m, f, 1}}].\n"
#define FN "{Module, Function, Arity} or \"Module:Function/Arity\""
#define LIKE ": the fun becomes a match spec, which calls only guard " \
    "functions such as map_get/2; match the value in a pattern instead, " \
    "such as #{method := M}"

static const struct bad bads[] = {
	{ "", "1:1: no tiers, expected {tiers, [{Name, Functions}, ...]}.\n" },
	{ "{slow_ms, 1}.", "1:1: no tiers, expected {tiers, [{Name, "
	    "Functions}, ...]}.\n" },
	{ "[].", "1:1: no tiers, expected a list of {Name, Functions}\n" },
	{ T "{slow, ever}.", "2:8: found the atom 'ever', expected always or slices\n" },
	{ T "{slow, always}.\n{sampling, {one_in, 2}}.",
	    "2:1: {slow, always} is about requests between slices of time: it needs "
	    "{sampling, auto} or {slices, N}\n" },
	{ T "{slow, always}.\n{finish, {m, f, 1}}.",
	    "2:1: {slow, always} knows no end of a request but its entry's: it cannot be "
	    "used with {finish, Function}\n" },
	{ T "{samplng, all}.", "2:2: unknown option 'samplng' (did you mean "
	    "'sampling'?)\n" },
	{ T "{zzz, all}.", "2:2: unknown option 'zzz'\n" },
	{ T "{tiers, []}.", "2:1: 'tiers' is given twice: it is also on line "
	    "1\n" },
	{ T "{slow_ms, fast}.\n{sampling, {one_in, 0}}.\n{sampling, some}.",
	    "2:11: found the atom 'fast', expected slow_ms to be an integer "
	    "within 0..3600000\n"
	    "3:21: found 0, expected one_in to be an integer within "
	    "1..1000000\n"
	    "4:1: 'sampling' is given twice: it is also on line 3\n" },
	{ T "{budget, 0}.\n{hot_share, 0.001}.",
	    "2:10: found 0, expected budget to be a number within 0.01..10000 "
	    "(percent of one scheduler), or none\n"
	    "3:13: found 0.001, expected hot_share to be a number within "
	    "0.01..10000 (percent of one scheduler), or none\n" },
	{ T "{budget, <<\"5\">>}.\n{hot_share, \"10 %\"}.",
	    "2:10: found a binary, expected budget to be a number within "
	    "0.01..10000 (percent of one scheduler), or none\n"
	    "3:13: found the string \"10 %\", expected hot_share to be a number "
	    "within 0.01..10000 (percent of one scheduler), or none\n" },
	{ T "{budget, 10000.1}.\n{hot_share, all}.\n{budget, 1}.",
	    "2:10: found 10000.1, expected budget to be a number within "
	    "0.01..10000 (percent of one scheduler), or none\n"
	    "3:13: found the atom 'all', expected hot_share to be a number "
	    "within 0.01..10000 (percent of one scheduler), or none\n"
	    "4:1: 'budget' is given twice: it is also on line 2\n" },
	{ "[{a, {m, f}}, {b, []}, {a, \"m:f/x\"}, {_x, {m,f,1}},\n"
	    "{'_total', {m, f, 256}}, {c, {m, f, 1}, [exat]}].",
	    "1:6: found a tuple of 2, expected {m, f, '_'} (_: any arity)\n"
	    "1:19: this tier is empty, expected " FN "\n"
	    "1:25: the tier 'a' is given twice: it is also on line 1\n"
	    "1:28: found the string \"m:f/x\", expected \"module:function/"
	    "arity\", \"Module.function/arity\" or \"module\"\n"
	    "1:39: found the variable _x, expected a tier's name\n"
	    "2:2: the tier name '_total' is reserved\n"
	    "2:19: found 256, expected an arity within 0..255 or '_'\n"
	    "2:42: unknown option 'exat' (did you mean 'exact'?)\n" },
	{ "[{'a: b', \"m:f/1\"}].\n{label, x}.",
	    "1:3: found ': ' in a tier's name: there a label follows\n"
	    "2:9: found the atom 'x', expected fun ({Module, Function, Args}) -> "
	    "Label; ... end\n" },
	/* several syntax errors; the elements between them are still read */
	{ "[{a, {m f, 1}}, {b, 1}, {c, , 2}, {d, {m, f, }}, {e, {m, f, 1}}]",
	    "1:9: found 'f', expected ',' or '}'\n"
	    "1:21: found 1, expected " FN "\n"
	    "1:29: found ',', expected a term\n"
	    "1:46: found '}', expected an element after ','\n" },
	{ "[{a, {m, f, 1}, {b, {m, f, 1}}].\n{slow_ms, x}.",
	    "1:31: found ']', expected ',' or '}'\n"
	    "2:11: found the atom 'x', expected slow_ms to be an integer "
	    "within 0..3600000\n" },
	{ "{tiers, [{a, {m, f, 1}}]}\n{slow_ms, 1}\n",
	    "2:1: found '{', expected '.' after a term\n"
	    "3:1: found the end of the file, expected '.' after a term\n" },
	/* columns count characters, not bytes */
	{ "[{'\xc3\xa9\xe2\x82\xac', ~}].", "1:9: found the character '~', "
	    "which has no meaning here\n" },
	{ "[{a, \"m:f}].\n{slow_ms, -1}.", "1:6: no closing \" for this "
	    "string\n" },
	{ "[{a, \xff}].", "1:6: this is not UTF-8 text\n" },
	{ T "{rewrite, [{\"(\", \"x\"}, {\"((a{99}){99})\", \"\"}, {a, b}]}.",
	    "2:13: bad regular expression: Unmatched ( or \\(\n"
	    "2:25: this pattern is longer than 2000 characters with its "
	    "repetitions written out\n"
	    "2:48: found the atom 'a', expected a regular expression\n"
	    "2:51: found the atom 'b', expected a text\n" },
	/* one behind the other adds up: a UUID */
	{ T "{rewrite, [{\"/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}"
	    "-[0-9a-f]{12}\", \"/:id\"}, {\"(a{30}){30}(b{40}){40}\", \"\"}, "
	    "{\"(x{10}(y{10}){10}){20}\", \"\"}]}.",
	    "2:88: this pattern is longer than 2000 characters with its "
	    "repetitions written out\n"
	    "2:120: this pattern is longer than 2000 characters with its "
	    "repetitions written out\n" },
	/* each + over another doubles it */
	{ T "{rewrite, [{\"/a++++++++++++b\", \"\"}, "
	    "{\"((((((((((a+)+)+)+)+)+)+)+)+)+)+\", \"\"}, "
	    "{\"/[0-9]+/[[:alpha:]+]+/\\\\++/[]+}]+/a+/b+/c+/d+/e+\", \"\"}, "
	    "{a, \"\"}]}.",
	    "2:13: this pattern is longer than 2000 characters with its "
	    "repetitions written out\n"
	    "2:38: this pattern is longer than 2000 characters with its "
	    "repetitions written out\n"
	    "2:138: found the atom 'a', expected a regular expression\n" },
	/* regcomp went through all ways of 20 times ? in + within + for ever */
	{ T "{rewrite, [{\"a????+\", \"\"}, {\"(((((a)?)+)?)+)*\", \"\"}, "
	    "{\"((/a+)*(/[0-9]+)?)+x\", \"\"}, {a, \"\"}]}.",
	    "2:13: this pattern repeats what is repeated itself, more than 4 "
	    "deep\n"
	    "2:29: this pattern repeats what is repeated itself, more than 4 "
	    "deep\n"
	    "2:85: found the atom 'a', expected a regular expression\n" },
	{ T "{overload, [{max_que, 1}, {pause_s, 1}, {pause_s, 0}, x]}.",
	    "2:14: unknown limit 'max_que' (did you mean 'max_queue'?)\n"
	    "2:41: 'pause_s' is given twice\n"
	    "2:51: found 0, expected pause_s to be an integer within "
	    "1..86400\n"
	    "2:55: found the atom 'x', expected {Limit, Value}\n" },
	{ T "{stacks, {per_secnd, 1}}.\n{stacks, {per_second, 1}}.",
	    "2:11: unknown option of stacks 'per_secnd' (did you mean "
	    "'per_second'?)\n"
	    "3:1: 'stacks' is given twice: it is also on line 2\n" },
	{ T "{stacks, {per_second, 1001}}.",
	    "2:23: found 1001, expected per_second to be an integer within "
	    "1..1000\n" },
	{ T "{stacks, [{per_second, 5}, {percent, 0}, {per_second, 6}, x]}.",
	    "2:38: found 0, expected percent to be a number within 0.01..100 "
	    "(percent of one scheduler)\n"
	    "2:42: 'per_second' is given twice\n"
	    "2:59: found the atom 'x', expected {per_second, N} or "
	    "{percent, P}\n" },
	{ T "{stacks, [{percent, 1}]}.",
	    "2:10: found a list, expected {per_second, N} among them\n" },
	{ T "{stacks, 20}.",
	    "2:10: found 20, expected {per_second, N}, [{per_second, N}, "
	    "{percent, P}] or none\n" },
	{ T "{slo, {t, 1, 99}}.", "2:7: found a tuple of 3, expected a list of "
	    "{NameOrTier, Milliseconds, Percent}\n" },
	{ T "{slo, [{t, 1}, {t, 0, 99}, {t, fast, 100}, {t, 3600001, 0}, {7, 1, 1},\n"
	    "{\"\", 1, -1}, {\"a\\nb\", 1, 1}, {<<255>>, 1, \"99 %\"}]}.",
	    "2:8: found a tuple of 2, expected {NameOrTier, Milliseconds, Percent}\n"
	    "2:20: found 0, expected milliseconds, a number within 0.001..3600000\n"
	    "2:32: found the atom 'fast', expected milliseconds, a number within "
	    "0.001..3600000\n"
	    "2:38: found 100, expected percent, a number above 0 and below 100 (99.9: "
	    "of 1000 one may miss)\n"
	    "2:48: found 3600001, expected milliseconds, a number within "
	    "0.001..3600000\n"
	    "2:57: found 0, expected percent, a number above 0 and below 100 (99.9: "
	    "of 1000 one may miss)\n"
	    "2:62: found 7, expected a tier's name, or a request type such as \"GET "
	    "/orders\"\n"
	    "3:2: found the string \"\", expected a tier's name, or a request type such "
	    "as \"GET /orders\"\n"
	    "3:9: found -1, expected percent, a number above 0 and below 100 (99.9: of "
	    "1000 one may miss)\n"
	    "3:15: no request type has such a name, expected one as kprof report shows "
	    "it, of at most 256 bytes\n"
	    "3:31: no request type has such a name, expected one as kprof report shows "
	    "it, of at most 256 bytes\n"
	    "3:43: found the string \"99 %\", expected percent, a number above 0 and below "
	    "100 (99.9: of 1000 one may miss)\n" },
	{ T "{slo, [{t, 5, 99},\n{t, 5.0, 98}, {t, 6, 98}, {\"tier t\", 5, 9}]}.\n"
	    "{identity, fun ({m, f, [X]}) -> X end}.\n",
	    "3:1: the objective 'tier t within 5 ms' is given twice: it is also on line "
	    "2 (leave one out, or give another limit)\n"
	    "3:27: the objective 'tier t within 5 ms' is given twice: it is also on line "
	    "2 (leave one out, or give another limit)\n" },
	/* a name that nothing has would never miss */
	{ "[{db, {m, f, 1}}].\n{slo, [{bd, 5, 99}, {\"creat\", 5, 99}, {create, 5, 9}, "
	    "{\"GET /\", 5, 9}, {\"db\", 1, 1}]}.\n"
	    "{identity, fun ({m, f, [1]}) -> create; ({m, f, [2]}) -> \"GET /\" end}.",
	    "2:9: no tier and no request type is called 'bd': no clause of "
	    "the identity fun returns it (did you mean 'db'?)\n"
	    "2:22: no request can be of the type 'creat': no clause of the identity fun "
	    "returns it (did you mean 'create'?)\n"
	    "2:73: no request can be of the type 'db': no clause of the identity fun "
	    "returns it (did you mean 'db'?)\n" },
	/* the identity fun: errors in three clauses, all found */
	{ T "{identity, fun\n"
	    "  ({m, f, [<<\"/u\", _/binary>>]}) -> x;\n"
	    "  ({m, f [X]}) -> X;\n"
	    "  ({m, f, [X]}) when foo(X), Z =:= 1 -> [X];\n"
	    "  (foo) -> #{a => 1}\n"
	    "end}.",
	    "3:12: a pattern cannot look into a binary: take it whole, and "
	    "shorten it with {rewrite, [{\"/users/.*\", \"/users/:id\"}]}\n"
	    "4:10: found '[', expected ',' or '}'\n"
	    "5:22: found a call of foo/1" LIKE "\n"
	    "5:30: the variable Z is not bound by {Module, Function, Args}\n"
	    "5:41: found a list, expected an atom, a string, a number, a "
	    "binary, a variable of the pattern or a tuple of these\n"
	    "6:4: found the atom 'foo', expected {Module, Function, Args} or "
	    "_\n"
	    "6:12: found a map, expected an atom, a string, a number, a "
	    "binary, a variable of the pattern or a tuple of these\n" },
	/* calls in an identity: those of guards, and no pid */
	{ T "{identity, fun\n"
	    "  ({m, f, [X]}) when X > 1 -> {element(1, X), foo(X), X + Y};\n"
	    "  ({m, f, [X]}) -> self(); ({m, f, L}) -> length(L, 1)\n"
	    "end}.",
	    "3:47: found a call of foo/1" LIKE "\n"
	    "3:59: the variable Y is not bound by {Module, Function, Args}\n"
	    "4:20: found a call of self/0, expected a value that many "
	    "requests share: a pid is of one process\n"
	    "4:43: found a call of length/2" LIKE "\n" },
	{ T "{identity, fun (X) -> X; (A, B) -> c; (_) when _ -> d end}.",
	    "2:23: the variable X is not bound by {Module, Function, Args}\n"
	    "2:28: found ',', expected ')': the fun takes one argument, "
	    "{Module, Function, Arguments}\n"
	    "2:39: warning: this clause is never reached: one above it takes "
	    "every call\n"
	    "2:48: found the variable _, expected a value\n" },
	{ "{tiers, [{a, [{m, f, 1}, {kprof, clear_token, 0}]}]}.\n"
	    "{entry, [{kprof, set_token, 0}, \"kprof:clear_token\"]}.\n"
	    "{finish, {kprof, clear_token, '_'}}.",
	    "1:26: kprof:clear_token/0 cannot be in a tier: it is armed by "
	    "itself, together with entries of kprof\n"
	    "2:33: kprof:clear_token/0 cannot be an entry: it is armed by "
	    "itself, together with entries of kprof\n"
	    "3:10: kprof:clear_token/0 cannot be a finish: it is armed by "
	    "itself, together with entries of kprof\n" },
	{ "{tiers, [{a, {m, f, 1}}, {b, [{kprof, set_token, 0},\n"
	    "{kprof, set_token, 1}, {kprof, do_apply, 3}, \"kprof\"]}]}.\n"
	    "{entry, [{kprof, set_token, 1}, {kprof, wrap, 1}]}.\n"
	    "{slow_ms, x}.",
	    "1:31: warning: kprof:set_token/0 starts no request here: it is "
	    "not among the entries\n"
	    "3:33: warning: no function of kprof that starts a request, "
	    "expected set_token/0,1, do_apply/3,4 or run/2,3\n"
	    "4:11: found the atom 'x', expected slow_ms to be an integer "
	    "within 0..3600000\n" },
	/* where no entries are named, they are the first tier's */
	{ "[{a, {m, f, 1}}, {b, {kprof, set_token, 0}}].\n{slow_ms, x}.",
	    "1:22: warning: kprof:set_token/0 starts no request here: it is "
	    "not among the entries\n"
	    "2:11: found the atom 'x', expected slow_ms to be an integer "
	    "within 0..3600000\n" },
	{ T "{identity, fun({m, f, [X]}) when is_atom(X) -> X end}.\n"
	    "{entry, {m, f, 1}}.\n{label, fun({m, f, [X]}) when is_atom(X) -> X;\n"
	    "({m, g, _}) -> q end}.\n{slow_ms, x}.",
	    "4:13: warning: these are calls of an entry, which the identity fun names "
	    "on line 2: they have no label\n"
	    "5:2: warning: no tier and no entry names a function that this clause "
	    "is for\n"
	    "6:11: found the atom 'x', expected slow_ms to be an integer "
	    "within 0..3600000\n" },
	{ "[{t, [\"m:f/1\", \"m:q/2\"]}].\n{entry, {m, f, 1}}.\n"
	    "{identity, fun({m, q, [x, _]}) -> x; ({_, _, _}) -> y; ({m, f, [_]}) -> "
	    "{'_label', a}; ({m, f, [a]}) -> {'_other', 7} end}.\n"
	    "{label, fun({m, q, [X, _]}) when is_atom(X) -> X; (_) -> undefined end}.",
	    "3:73: a result {'_label', _} is reserved\n"
	    "3:105: a result {'_other', _} is reserved\n" },
	{ "[{t, [\"m:f/1\", \"m:q/2\"]}].\n{entry, {m, f, 1}}.\n"
	    "{identity, fun({m, q, [x, _]}) -> x; ({_, _, _}) -> y end}.\n"
	    "{label, fun({m, q, [X, _]}) when is_atom(X) -> X; ({m, f, _}) -> undefined end}.\n"
	    "{slow_ms, x}.",
	    "4:13: warning: calls that have a label name no request: line 3 is for "
	    "these, too\n"
	    "5:11: found the atom 'x', expected slow_ms to be an integer "
	    "within 0..3600000\n" },
	/* without entries these are the first tier's; another arity is another function */
	{ "[{t, [\"m:f/1\", \"m:f/2\"]}, {u, \"m:q/1\"}].\n"
	    "{identity, fun({m, f, [x]}) -> x; ({m, q, [a, _]}) -> a end}.\n"
	    "{label, fun({m, f, [a]}) -> a; ({m, f, [_, b]}) -> b; ({m, q, [b]}) -> b end}.\n"
	    "{slow_ms, x}.",
	    "2:43: warning: this clause has a pattern for 2 arguments, and q has 1\n"
	    "3:13: warning: these are calls of an entry, which the identity fun names "
	    "on line 2: they have no label\n"
	    "4:11: found the atom 'x', expected slow_ms to be an integer "
	    "within 0..3600000\n" },
	{ "[{t, [\"m:f/1\", \"m:q/2\"]}].\n{entry, {m, f, 1}}.\n"
	    "{trace_id, fun({m, f, [#{tp := T}]}) -> T; ({m, f, [{H, _}]}) -> "
	    "proplists:get_value(tp, H);\n({m, f, _}) -> none; ({m, f, [{a, T, S}]}) -> "
	    "{T, S}; (_) -> undefined end}.",
	    "3:66: found a call of proplists:get_value/2: the fun becomes a match spec, which calls "
	    "only guard functions such as map_get/2; match the value in a pattern "
	    "instead, such as #{method := M}\n" },
	{ "[{t, [\"m:f/1\", \"m:q/2\"]}].\n{entry, {m, f, 1}}.\n"
	    "{trace_id, fun({m, f, [#{tp := T}]}) when is_list(T) -> T;\n"
	    "({m, f, _}) -> none; ({m, f, [{a, T, S}]}) -> {T, S};\n"
	    "({m, q, [T, _]}) -> T; ({m, f, [T, _]}) -> T; ({n, f, [T]}) -> T;\n"
	    "({kprof, trace_id, [T]}) -> T; ({m, f, [T]}) -> element(2, T);\n"
	    "(_) -> undefined end}.",
	    "4:16: found the atom 'none', expected what has the traceparent whole, such "
	    "as a variable of the pattern, or undefined\n"
	    "4:47: found a tuple of 2, expected what has the traceparent whole, such as a "
	    "variable of the pattern, or undefined\n"
	    "5:2: warning: no entry is a function that this clause is for: a request has "
	    "the traceparent of its entry's call\n"
	    "5:25: warning: no entry is a function that this clause is for: a request has "
	    "the traceparent of its entry's call\n"
	    "5:32: warning: this clause has a pattern for 2 arguments, and f has 1\n"
	    "5:48: warning: no tier and no entry names a function that this clause is for\n" },
	{ T "{trace_id, x}.\n{keep_sampled, 65}.", "2:12: found the atom 'x', expected fun "
	    "({Module, Function, Args}) -> Traceparent; ... end\n"
	    "3:16: found 65, expected keep_sampled to be an integer within 0..64\n" },
	{ "[{t, {kprof, trace_id, 1}}].\n{entry, {kprof, trace_id, '_'}}.",
	    "1:6: kprof:trace_id/1 cannot be in a tier: it is armed by itself, together "
	    "with entries of kprof\n"
	    "2:9: kprof:trace_id/1 cannot be an entry: it is armed by itself, together "
	    "with entries of kprof\n" },
	{ T "{identity, all}.", "2:12: found the atom 'all', expected fun "
	    "({Module, Function, Args}) -> Identity; ... end\n" },
};

/*
 * A tier of maps:get/2 stayed empty without a word, and "was not called" though code
 * that called it ran: the compiler had made instructions of the calls.
 */
TEST(test_instructions)
{
#define CALLS "warning: calls of "
#define ONLY " are compiled to instructions: only those by apply or of a fun " \
	"are traced (name the function around them)\n"
	static const struct {
		const char *text, *warns;
	} t[] = {
		{ "[{a, {maps, get, 2}}].", "1:6: " CALLS "maps:get/2" ONLY },
		{ "[{a, [{m, f, 1}, \"erlang:'+'/2\"]}].",
		    "1:18: " CALLS "erlang:'+'/2" ONLY },
		{ T "{entry, {erlang, self, 0}}.\n"
		    "{finish, {erlang, is_map, '_'}}.",
		    "2:9: " CALLS "erlang:self/0" ONLY
		    "3:10: " CALLS "erlang:is_map/1" ONLY },
		{ "[{a, \"maps:get\"}].", "1:6: " CALLS "maps:get/2 and "
		    "maps:get/3 (where OTP 26 or later compiled them)" ONLY },
		{ "[{a, {maps, '_', '_'}}].", "1:6: " CALLS "maps:get/2, "
		    "maps:get/3 (where OTP 26 or later compiled them), "
		    "maps:is_key/2 and 2 other functions" ONLY },
		{ "[{a, [\"maps:put/3\", \"m:self/0\", \"erlang:self/1\"]}].", "" },
	};
	static char all[] = "_", maps[] = "maps", get[] = "get";
	const struct kp_mfa_pat any = { .mod = all, .arity = -1 },
	    of_maps = { .mod = maps, .arity = -1 },
	    gets = { .mod = maps, .fun = get, .arity = -1 };
	struct kp_diags d;
	struct kp_conf *c;
	struct kp_buf b;

	for (size_t i = 0; i < LEN(t); i++) {
		assert_int_equal(kp_conf_parse(&c, t[i].text,
		    strlen(t[i].text), &d), KP_OK);
		kp_buf_init(&b, 4096);
		for (size_t k = 0; k < d.n; k++)
			kp_buf_printf(&b, "%u:%u: %s%s\n", d.v[k].pos.line,
			    d.v[k].pos.col, d.v[k].warning ? "warning: " : "",
			    d.v[k].text);
		assert_string_equal(kp_buf_cstr(&b), t[i].warns);
		kp_buf_free(&b);
		kp_diags_free(&d);
		kp_conf_free(c);
	}
	/* what a release has not */
	assert_int_equal(kp_instructions(&of_maps, 1, NULL, 0, 25).n, 4);
	assert_int_equal(kp_instructions(&of_maps, 1, NULL, 0, 29).n, 5);
	assert_int_equal(kp_instructions(&of_maps, 1, &gets, 1, 29).n, 3);
	/* erlang:hibernate/3 is one no more, other functions became some */
	assert_int_equal(kp_instructions(&any, 1, NULL, 0, 27).n,
	    kp_instructions(&any, 1, NULL, 0, 25).n + 3);
	assert_int_equal(kp_instructions(&any, 1, NULL, 0, 29).n,
	    kp_instructions(&any, 1, NULL, 0, 27).n + 2);
	assert_true(kp_is_instruction(&(struct kp_mfa){ "math", "pi", 0 }));
	assert_false(kp_is_instruction(&(struct kp_mfa){ "maps", "put", 3 }));
}

/* The library's functions, by whatever way they are named. */
TEST(test_marks)
{
	static const char *const good_ones[] = {
		"[{web, {kprof, set_token, 0}}].",
		"[{web, \"kprof:set_token\"}, {b, {kprof, set_token, 1}}].",
		"[{web, \"kprof\"}].",
		T "{entry, \"kprof\"}.",
		T "{entry, [{kprof, set_token, '_'}, {kprof, do_apply, 3}]}.",
	};
	struct kp_conf *c;
	struct kp_diags d;

	for (size_t i = 0; i < LEN(good_ones); i++) {
		assert_int_equal(kp_conf_parse(&c, good_ones[i],
		    strlen(good_ones[i]), &d), KP_OK);
		assert_int_equal(d.n, 0);
		kp_diags_free(&d);
		kp_conf_free(c);
	}
	assert_int_equal(kp_mark(&(struct kp_mfa){ "kprof", "set_token", 1 }),
	    KP_MARK_SET);
	assert_int_equal(kp_mark(&(struct kp_mfa){ "kprof", "run", 3 }),
	    KP_MARK_RUN);
	assert_int_equal(kp_mark(&(struct kp_mfa){ "kprof", "clear_token",
	    0 }), KP_MARK_CLEAR);
	assert_int_equal(kp_mark(&(struct kp_mfa){ "kprof", "clear_token",
	    1 }), KP_MARK_NONE);
	assert_int_equal(kp_mark(&(struct kp_mfa){ "m", "set_token", 0 }),
	    KP_MARK_NONE);
}

TEST(test_bad)
{
	for (size_t i = 0; i < LEN(bads); i++)
		assert_bad(&bads[i]);
}

TEST(test_deep_and_long)
{
	size_t n = KP_CONF_SIZE_MAX + 1;
	char *s = malloc(n);
	struct kp_conf *c;
	struct kp_diags d;
	static const char fill[] = "[{(#1-<'\"";

	assert_non_null(s);
	for (size_t i = 0; i < sizeof(fill) - 1; i++) {
		memset(s, fill[i], n);
		assert_int_equal(kp_conf_parse(&c, s, n - 1, &d), KP_EFORMAT);
		assert_true(d.errors >= 1);
		kp_diags_free(&d);
	}
	/* a long chain of operators is as deep a tree as brackets are */
	for (size_t i = 0; i + 2 <= n; i += 2)
		memcpy(s + i, "1+", 2);
	assert_int_equal(kp_conf_parse(&c, s, n - 1, &d), KP_EFORMAT);
	kp_diags_free(&d);
	assert_int_equal(kp_conf_parse(&c, s, n, &d), KP_EFORMAT);
	assert_int_equal(d.n, 1);
	kp_diags_free(&d);
	free(s);
}

TEST(test_many_errors)
{
	struct kp_buf b;
	struct kp_conf *c;
	struct kp_diags d;

	kp_buf_init(&b, 1 << 20);
	kp_buf_str(&b, "[");
	for (int i = 0; i < 60; i++)
		kp_buf_printf(&b, "{t%d, x},\n", i);
	kp_buf_str(&b, "{u, {m, f, 1}}].");
	assert_int_equal(kp_conf_parse(&c, (char *)b.p, b.len, &d),
	    KP_EFORMAT);
	assert_fields(d, IS(n, KP_DIAG_MAX) IS(errors, 60));
	kp_diags_free(&d);
	kp_buf_free(&b);
}

TEST(test_covers)
{
	static const struct {
		const char *pat;
		bool covers;
	} v[] = { { "m", true }, { "m:f", true }, { "m:f/_", true },
		{ "m:f/2", true }, { "m:_/2", true }, { "m:_", true },
		{ "'m':'f'/2", true }, { ":m.f/2", true }, { "m:f/1", false },
		{ "m:g/2", false }, { "n", false }, { "M.f/2", false } };
	struct kp_mfa f = { "m", "f", 2 };
	struct kp_mfa_pat p;

	for (size_t i = 0; i < LEN(v); i++) {
		assert_int_equal(kp_mfa_pat_parse(&p, v[i].pat,
		    strlen(v[i].pat)), KP_OK);
		assert_int_equal(kp_mfa_pat_covers(&p, &f), v[i].covers);
		kp_mfa_pat_free(&p);
	}
}

TEST(test_pattern_forms)
{
	static const char *const bad[] = { "", "_", "m:", ":", "m:f/", "m:f/256",
		"m:f/-1", "m:f/2x", "m/2", "_:f/2", "M.", "M./2", "M/2", "'m:f",
		"m f", "m:f g", "''", ".f", "m.f/2" };
	struct kp_mfa_pat p;

	for (size_t i = 0; i < LEN(bad); i++)
		assert_int_equal(kp_mfa_pat_parse(&p, bad[i], strlen(bad[i])),
		    KP_EFORMAT);
	assert_int_equal(kp_mfa_pat_parse(&p, "MyApp.Repo", 10), KP_OK);
	assert_fn(&p, "Elixir.MyApp.Repo", NULL, -1);
	kp_mfa_pat_free(&p);
	assert_int_equal(kp_mfa_pat_parse(&p, "Repo.one!/_", 11), KP_OK);
	assert_fn(&p, "Elixir.Repo", "one!", -1);
	kp_mfa_pat_free(&p);
}

TEST(test_distance)
{
	assert_int_equal(kp_name_distance("tiers", "tiers", 3), 0);
	assert_int_equal(kp_name_distance("samplng", "sampling", 3), 1);
	assert_int_equal(kp_name_distance("teirs", "tiers", 3), 1);
	assert_int_equal(kp_name_distance("", "abc", 5), 3);
	assert_int_equal(kp_name_distance("", "abc", 1), 2);
	assert_int_equal(kp_name_distance("kitten", "sitting", 9), 3);
	assert_int_equal(kp_name_distance("abcdef", "uvwxyz", 2), 3);
}

TESTS(NULL, NULL)
