/* test_config_hints.c - what is to be written instead, in messages on tiers.conf. */
#include "cases.h"
#include "kprofd/config.h"
#include "bad_conf.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define T "[{t, {m, f, 1}}].\n"
#define NO_CALL ": the fun becomes a match spec, which calls only guard " \
    "functions such as map_get/2; match the value "
#define LIKE "in a pattern instead, such as #{method := M}"

/* A function as code has it, and what is to be written instead. */
TEST(test_functions_as_in_code)
{
	static const char *const v[][2] = {
		{ "shop_handler:init/2", "{shop_handler, init, 2}" },
		{ "shop_handler:init", "{shop_handler, init, '_'} (_: any "
		    "arity)" },
		{ "shop_handler:init/_", "{shop_handler, init, '_'} (_: any "
		    "arity)" },
		{ "shop_handler:_/2", "{shop_handler, '_', 2}" },
		{ "shop_handler.init/2", "{shop_handler, init, 2}" },
		{ "shop_handler:init(Req, State)", "{shop_handler, init, 2}" },
		{ "fun shop_handler:init/2", "{shop_handler, init, 2}" },
		{ "'MY-mod':'my fun'/2", "{'MY-mod', 'my fun', 2}" },
		{ "erlang:send/2", "{erlang, send, 2}" },
		{ "init/2", "{Module, init, 2}" },
		{ "fun init/2", "{Module, init, 2}" },
		{ "{shop_handler, init/2}", "{shop_handler, init, 2}" },
		{ "{shop_handler, init}", "{shop_handler, init, '_'} (_: any "
		    "arity)" },
		{ "shop_handler", "{shop_handler, Function, Arity}, or "
		    "\"shop_handler\" for all that it exports" },
		{ "Shop.Repo.all/2", "\"Shop.Repo.all/2\"" },
		{ "Shop.Repo.get!/2", "\"Shop.Repo.get!/2\"" },
		{ "Shop.Repo.all", "\"Shop.Repo.all/_\" (_: any arity)" },
		{ "Elixir.Shop.Repo.all/2", "\"Shop.Repo.all/2\"" },
		{ "Shop.Repo:all/2", "\"Shop.Repo.all/2\"" },
		{ "Repo.all(queryable, opts)", "\"Repo.all/2\"" },
		{ "Repo.'two words'/2", "{'Elixir.Repo', 'two words', 2}" },
		{ "&Shop.Repo.all/2", "\"Shop.Repo.all/2\"" },
		{ "&:lists.map/2", "{lists, map, 2}" },
		{ "&init/2", "{Module, init, 2}" },
		{ ":lists.map/2", "{lists, map, 2}" },
		{ "Shop.Repo", "\"Shop.Repo.function/arity\", or "
		    "\"Shop.Repo\" for all that it exports" },
		{ "Repo", "\"Repo.function/arity\", or \"Repo\" for all that "
		    "it exports" },
		{ ":lists", "{lists, Function, Arity}, or \"lists\" for all "
		    "that it exports" },
		{ "{MyApp.Repo, :all, 2}", "\"MyApp.Repo.all/2\"" },
		{ "{MyApp.Repo, :all}", "\"MyApp.Repo.all/_\" (_: any "
		    "arity)" },
		{ "{Repo, all, 2}", "\"Repo.all/2\"" },
		{ "{Repo, :get!, 2}", "\"Repo.get!/2\"" },
		{ "{:lists, :map, 2}", "{lists, map, 2}" },
		{ "{'Elixir.Repo', :all, 2}", "{'Elixir.Repo', all, 2}" },
	};
	/* in a tier, in a list of one, and as the entry */
	static const char *const at[] = { "[{t, %}, {u, {m, f, 1}}].",
		"[{t, [\"m:f\", %]}, {u, {m, f, 1}}].",
		"[{t, {m, f, 1}}].\n{entry, %}.",
		"[{t, {m, f, 1}}].\n{entry, [%, {m, f, 1}]}." };
	char text[256], what[128];
	const char *hole;
	struct kp_conf *c;
	struct kp_diags d;

	for (size_t i = 0; i < LEN(v) * LEN(at); i++) {
		hole = strchr(at[i % LEN(at)], '%');
		snprintf(text, sizeof(text), "%.*s%s%s",
		    (int)(hole - at[i % LEN(at)]), at[i % LEN(at)],
		    v[i / LEN(at)][0], hole + 1);
		snprintf(what, sizeof(what), ", expected %s",
		    v[i / LEN(at)][1]);
		assert_int_equal(kp_conf_parse(&c, text, strlen(text), &d),
		    KP_EFORMAT);
		assert_int_equal(d.n, 1);
		assert_has(d.v[0].text, what);
		assert_string_equal(strstr(d.v[0].text, ", expected "), what);
		kp_diags_free(&d);
	}
}

/* Other things that Elixir writes another way, and what lacks its braces. */
static const struct bad elixir[] = {
	{ "[{:t, {m, f, 1}}].\n{:slow_ms, 1}.\n{sampling, :all}.",
	    "1:3: found ':t', expected a tier's name (write t)\n"
	    "2:2: found ':slow_ms', expected an option's name (write "
	    "slow_ms)\n"
	    "3:12: found ':all', expected auto, all, {slices, N}, {one_in, N} or {per_second, N} "
	    "(write all)\n" },
	{ "[t: {m, f, 1}, u: m:f/1].", "1:2: found 't:', which is how Elixir "
	    "writes {t, ...}\n"
	    "1:16: found 'u:', which is how Elixir writes {u, ...}\n" },
	{ "[{t, m, f, 1}, {u, M, :f, 1}, {v, m, f}].\n{entry, m, f, 1}.",
	    "1:2: found a tuple of 4, expected {t, {m, f, 1}}\n"
	    "1:16: found a tuple of 4, expected {u, \"M.f/1\"}\n"
	    "1:31: found a tuple of 3, expected {v, {m, f, '_'}} (_: any "
	    "arity)\n"
	    "2:1: found a tuple of 4, expected {entry, {m, f, 1}}\n" },
	{ "[{t, {m, f, 1}, exact}, {u, {m, f, 1}, :exact}].",
	    "1:17: found the atom 'exact', expected a list of options such as "
	    "[exact]\n"
	    "1:40: found ':exact', expected a list of options such as [exact] "
	    "(write exact)\n" },
	/* a full stop that ends no term, and forms that are cut off */
	{ T "{slow_ms, 1}.{gc, x}.",
	    "2:13: found '.', expected a blank or a new line after the '.'\n"
	    "2:19: found the atom 'x', expected true, false or force\n" },
	{ "[{t, m:}, {u, :}, {v, &}, {w, m:f/x}, {x, M.}, {y, M.3}].",
	    "1:8: found '}', expected a function's name\n"
	    "1:16: found '}', expected an atom after ':'\n"
	    "1:24: found '}', expected a term\n"
	    "1:35: found 'x', expected an arity within 0..255 or '_'\n"
	    "1:45: found '}', expected a function's name\n"
	    "1:54: found '3', expected a function's name\n" },
	{ "[{t, &2}, {u, m:f/256}, {v, fun m}].",
	    "1:6: found '&', expected a term\n"
	    "1:19: found '256', expected an arity within 0..255 or '_'\n"
	    "1:29: found 'fun m', expected {Module, m, '_'} (_: any arity)\n" },
	/* A function that is not known makes no other look wrong. */
	{ "[{t, m:f/1}, {u, {kprof, set_token, 0}}].\n"
	    "{entry, kprof:set_token/0}.\n"
	    "{identity, fun({m, f, [X]}) -> X end}.",
	    "1:6: found 'm:f/1', expected {m, f, 1}\n"
	    "2:9: found 'kprof:set_token/0', expected {kprof, set_token, "
	    "0}\n" },
};

/* One mistake, one message: what another language or Erlang's functions have. */
static const struct bad foreign[] = {
	{ T "{identity, fun({m, f, [#req{op = Op}]}) -> Op; (_) -> undefined end}.",
	    "2:24: found the record #req, which is a tuple here: write {req, Field, "
	    "_}, or element(2, R) for its first field\n" },
	{ T "{identity, fun({m, f, [R]}) -> R#req.op; (_) -> undefined end}.",
	    "2:32: found the record #req, which is a tuple here: write {req, Field, "
	    "_}, or element(2, R) for its first field\n" },
	{ T "{identity, fun({m, f, [R]}) -> R#{a := 1}; (_) -> undefined end}.",
	    "2:32: found the change of a map, which a match spec cannot make\n" },
	{ T "{identity, fun({m, f, [R]}) -> case R of {a, X} -> X; _ -> b end; "
	    "(_) -> undefined end}.\n{slow_ms, x}.",
	    "2:32: found 'case', expected a value: the fun becomes a match spec, "
	    "which has no blocks (write a clause for each case)\n"
	    "3:11: found the atom 'x', expected slow_ms to be an integer within "
	    "0..3600000\n" },
	{ "{\"tiers\": [{\"name\": \"web\", \"functions\": [\"m:f/1\"]}]}",
	    "1:9: found ':', as JSON has it; a tiers.conf has Erlang's terms: "
	    "{tiers, [{Name, Functions}, ...]}.\n" },
	{ T "{identity, fun({m, f, [%{a := A}]}) -> A; (_) -> undefined end}.\n",
	    "2:24: found '%', which begins a comment: a map is #{...}\n" },
	{ T "{identity, fun({m, f, [%Plug.Conn{a: a}]}) ->\n A end}.\n",
	    "2:24: found '%', which begins a comment: a map is #{...}\n" },
	{ T "{identity, fun({m, f, [#Plug.Conn{a = A}]}) -> A end}.\n",
	    "2:24: found a struct of Elixir, which is a map here: write #{method := M} "
	    "for its fields\n" },
	{ T "{identity, fn {m, f, [a]} -> a end}.\n",
	    "2:12: found Elixir's fn: write fun ({Module, Function, Args}) -> Identity; "
	    "... end\n" },
	{ "[{t, {m, f, 1}}, # this one\n {u, {m, f, 2}}].",
	    "1:18: found '#', expected a term: comments begin with %\n" },
	{ T "{slow_ms, 100} # ms\n.",
	    "2:16: found '#', expected '.' after a term: comments begin with %\n" },
	{ "[{t, \"M.f/1\"}].\n{identity, fun({'Elixir.M', f, [#{p := \"/\"}]}) -> a;\n"
	    "({'Elixir.M', f, [A]}) when A == \"x\" -> <<\"b\">>;\n"
	    "({'Elixir.M', f, [#{p := <<\"/\">>}]}) -> \"c\"; (_) -> undefined end}.\n"
	    "{slow_ms, x}.",
	    "2:40: warning: \"...\" is a list of characters here, and Elixir's strings are "
	    "binaries: <<\"...\">>\n"
	    "3:34: warning: \"...\" is a list of characters here, and Elixir's strings are "
	    "binaries: <<\"...\">>\n"
	    "5:11: found the atom 'x', expected slow_ms to be an integer within "
	    "0..3600000\n" },
	/* No second message about what the first one's mistake left unknown. */
	{ T "{identity, fun({m, f, [<<\"/a/\", R/binary>>]}) -> R; (_) -> undefined end}.\n",
	    "2:24: a pattern cannot look into a binary: take it whole, and shorten it "
	    "with {rewrite, [{\"/users/.*\", \"/users/:id\"}]}\n" },
	{ T "{identity, fun({m, f, [f(R)]}) -> R; (_) -> undefined end}.\n",
	    "2:24: found a call of f/1, expected a pattern\n" },
	{ T "{identity, fun({m, f, [R]}) -> [X || X <- R]; (_) -> undefined end}.\n",
	    "2:35: found '||', expected ',' or ']'\n" },
	{ T "{identity, fun({m, f, [#{a: A}]}) -> A; (_) -> undefined end}.\n",
	    "2:26: found 'a:', as Elixir has it in a map: write a := Value\n" },
	{ "# my tiers\n" T,
	    "1:1: found '#', expected a term: comments begin with %\n" },
	{ "[{t, {'MyApp.Repo', all, 2}}].\n{slow_ms, x}.",
	    "1:7: warning: a module of Elixir has the name 'Elixir.MyApp.Repo': is "
	    "{'Elixir.MyApp.Repo', ...} meant?\n"
	    "2:11: found the atom 'x', expected slow_ms to be an integer within "
	    "0..3600000\n" },
	{ T "{identity, fun({m, f, [A, B]}) -> A; (_) -> undefined end}.\n{slow_ms, x}.",
	    "2:23: warning: this clause has a pattern for 2 arguments, and f has 1\n"
	    "3:11: found the atom 'x', expected slow_ms to be an integer within "
	    "0..3600000\n" },
};

TEST(test_foreign)
{
	for (size_t i = 0; i < LEN(foreign); i++)
		assert_bad(&foreign[i]);
}

/* Calls in an identity, and the clause to write instead. */
static const struct bad calls[] = {
	{ T "{identity, fun({m, f, [R, _]}) -> cowboy_req:method(R) end}.",
	    "2:35: found a call of cowboy_req:method/1" NO_CALL "instead: "
	    "({m, f, [#{method := M}, _]}) -> M\n" },
	/* one line for all of them */
	{ T "{identity, fun({'M', f, [R, S, M]}) ->\n"
	    "  {cowboy_req:method(R), req:get_path(S), S, web,\n"
	    "   maps:get(host, R, none), req:peer(R), req:port(R)} end}.",
	    "3:4: found a call of cowboy_req:method/1" NO_CALL "instead: "
	    "({'M', f, [#{method := Method, host := H, peer := Peer, port := "
	    "Port}, #{path := P} = S, _]}) -> {Method, P, S, web, H, Peer, "
	    "Port}\n" },
	{ T "{identity, fun({m, f, [Conn]}) -> {Conn.method, Conn.path} end}.",
	    "2:36: found 'Conn.method'" NO_CALL "instead: ({m, f, "
	    "[#{method := M, path := P}]}) -> {M, P}\n" },
	{ T "{identity, fun({m, f, [C]}) -> Plug.Conn.host(C) end}.",
	    "2:32: found a call of Plug.Conn.host/1" NO_CALL "instead: "
	    "({m, f, [#{host := H}]}) -> H\n" },
	/* the same arguments */
	{ T "{identity, fun({m, f, [R]}) -> {maps:get(a, R), maps:size(R)} "
	    "end}.",
	    "2:33: found a call of maps:get/2, expected map_get/2: the fun "
	    "becomes a match spec, which calls only guard functions\n"
	    "2:49: found a call of maps:size/1, expected map_size/1: the fun "
	    "becomes a match spec, which calls only guard functions\n" },
	/* too much for one line: each is reported */
	{ T "{identity, fun({m, f, [R | _]}) -> {r:a(R), r:b(R)};\n"
	    "  ({m, f, [R]}) when r:a(R) -> a; ({_, _, [R]}) -> r:a(R);\n"
	    "  ({m, f, [R]}) -> {r:a(R), r:a(R)}; (_) -> r:a(x) end}.",
	    "2:37: found a call of r:a/1" NO_CALL LIKE "\n"
	    "2:45: found a call of r:b/1" NO_CALL LIKE "\n"
	    "3:22: found a call of r:a/1" NO_CALL LIKE "\n"
	    "3:52: found a call of r:a/1" NO_CALL LIKE "\n"
	    "4:21: found a call of r:a/1" NO_CALL LIKE "\n"
	    "4:29: found a call of r:a/1" NO_CALL LIKE "\n"
	    "4:45: found a call of r:a/1" NO_CALL LIKE "\n" },
	/* Elixir's modules are atoms */
	{ T "{identity, fun({Shop.Web, init, [#{'__struct__' := Shop.Cart}]}) -> Shop.X; (_) -> a end}.",
	    "2:17: found 'Shop.Web', expected a module's name or a variable "
	    "(write 'Elixir.Shop.Web')\n"
	    "2:52: found 'Shop.Cart', expected a pattern (write "
	    "'Elixir.Shop.Cart')\n"
	    "2:69: found 'Shop.X', expected an atom, a string, a number, a "
	    "binary, a variable of the pattern or a tuple of these (write "
	    "'Elixir.Shop.X')\n" },
	/* in a pattern nothing is called; a module is no value */
	{ T "{identity, fun({m, f, [r:a(b), :c, m:f/1]}) -> Repo.x;\n"
	    "  ({m, f, [X]}) -> fun x/1 end}.",
	    "2:24: found a call of r:a/1, expected a pattern\n"
	    "2:32: found ':c', expected a pattern (write c)\n"
	    "2:36: found 'm:f/1', expected a pattern\n"
	    "2:48: found 'Repo.x', expected an atom, a string, a number, a "
	    "binary, a variable of the pattern or a tuple of these\n"
	    "3:20: found 'fun x/1', expected an atom, a string, a number, a "
	    "binary, a variable of the pattern or a tuple of these\n" },
};

TEST(test_elixir)
{
	for (size_t i = 0; i < LEN(elixir); i++)
		assert_bad(&elixir[i]);
}

TEST(test_identity_calls)
{
	static const char ok[] = T "{identity, fun({m, f, [X]}) -> "
	    "{element(1, X), erlang:length(X), map_get(method, hd(X))} end}.";
	struct kp_conf *c;
	struct kp_diags d;

	for (size_t i = 0; i < LEN(calls); i++)
		assert_bad(&calls[i]);
	/* what may be called is not affected, by its full name either */
	assert_int_equal(kp_conf_parse(&c, ok, strlen(ok), &d), KP_OK);
	assert_int_equal(d.n, 0);
	kp_conf_free(c);
}

TESTS(NULL, NULL)
