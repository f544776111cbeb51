%% The same cases as in test/unit/test_fn_name.c, which prints with C.
-module(kprof_fn_text_tests).

-include_lib("eunit/include/eunit.hrl").

fn_text_test_() ->
    [?_assertEqual(Text, lists:flatten(kprof_text:fn_text({M, F, 2})))
     || {M, F, Text} <-
            [{lists, seq, "lists:seq/2"}, {'MY-mod', 'weird fun', "'MY-mod':'weird fun'/2"},
             {erlang, '+', "erlang:'+'/2"}, {lists, '-map/2-fun-0-', "lists:'-map/2-fun-0-'/2"},
             {'Elixir.MyApp.Repo', one, "MyApp.Repo.one/2"}, {'Elixir.MyApp.Repo', 'one!', "MyApp.Repo.one!/2"},
             {'Elixir.Kernel', '+', "Kernel.+/2"}, {'Elixir.Kernel', '/', "Kernel.//2"},
             {'Elixir.Kernel', '..', "Kernel.\"..\"/2"}, {'Elixir.A', '_', "A.\"_\"/2"},
             {'Elixir.A', 'odd name', "A.\"odd name\"/2"}, {'Elixir.A', 'MACRO-m', "A.\"MACRO-m\"/2"},
             {'Elixir.A', 'say "so"', "A.\"say \\\"so\\\"\"/2"},
             {'Elixir.String.Chars.A.B', to_string, "String.Chars.A.B.to_string/2"},
             {'Elixir.A.B', '-b/1-fun-0-', "anonymous fn/2 in A.B.b/1"},
             {'Elixir.A', '-b?/1-fun-0-', "anonymous fn/2 in A.b?/1"},
             {'Elixir.A', '-+/1-fun-0-', "anonymous fn/2 in A.+/1"},
             {'Elixir.A', '-odd name/1-fun-0-', "anonymous fn/2 in A.\"odd name\"/1"},
             {'Elixir.A', '-b/1-fun-3-', "anonymous fn/2 (fun-3) in A.b/1"},
             {'Elixir.A', '-b/1-lc$^0/1-0-', "A.\"-b/1-lc$^0/1-0-\"/2"},
             {'Elixir.A', '-b/01-fun-0-', "A.\"-b/01-fun-0-\"/2"},
             {'Elixir.my-app', f, "'Elixir.my-app':f/2"}, {'Elixir', f, "'Elixir':f/2"},
             {'Elixir.Elixir.A', f, "'Elixir.Elixir.A':f/2"}]].

fn_local_test() ->
    Text = fun(M, F) -> lists:flatten(kprof_text:fn_local(M, {F, 1})) end,
    ?assertEqual("'empty?'/1", Text(cart, 'empty?')),
    ?assertEqual("empty?/1", Text('Elixir.Cart', 'empty?')),
    ?assertEqual("\"thank you\"/1", Text('Elixir.Cart', 'thank you')),
    ?assertEqual("anonymous fn/1 in Cart.total/1", Text('Elixir.Cart', '-total/1-fun-0-')).
