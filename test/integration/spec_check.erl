#!/usr/bin/env escript
%% -*- erlang -*-
%%! +S 2 -noinput
%%
%% Are kprofd's match specs accepted by this release, and do they say what
%% the identity fun says?
%%
%%     escript spec_check.erl PATH/TO/specdump
%%
%% Each case is an identity fun with calls and the identities written by
%% hand. The fun itself is also run by erl_eval, for those calls and for many
%% made from them at random, with the bounds that kprofd promises put around
%% each variable; both must agree with what a local tracer gets.

-module(spec_check).
-mode(compile).
-export([f0/0, f1/1, f2/2, f3/3, bounded/1]).

-define(KPROFD, 16#5A).         % signature and kind (include/kprofd/label.h)
-define(LABEL_CONST, ((?KPROFD bsl 52) bor (16#2AB bsl 42))).
-define(WORD, 16#7FFFFFFF).     % the number in the trace control word, and
-define(FREE, 16#80000000).     % that it can be taken
-define(WORD_HZ, (1 bsl 19)).
-define(AGE, (62 * ?WORD_HZ)).
-define(AHEAD, ((1 bsl 26) - 1 - ?AGE)).
-define(RANDOM_CALLS, 300).

f0() -> ok.
f1(_) -> ok.
f2(_, _) -> ok.
f3(_, _, _) -> ok.

main([Tool]) ->
    rand:seed(exsss, {1, 2, 3}),
    self() ! {passed, 0}, self() ! {failed, 0},
    Dir = "/tmp/spec_check." ++ os:getpid(),
    ok = file:make_dir(Dir),
    put(tool, Tool), put(dir, Dir),
    io:format("OTP ~s, ERTS ~s~n", [erlang:system_info(otp_release),
                                     erlang:system_info(version)]),
    lists:foreach(fun run_case/1, cases()),
    entry_shape(), entry_without_number(), entry_exact(), labels_unique(),
    [sampling_even(N, Kinds) || N <- [2, 3, 4, 7, 10, 16, 50, 100],
                                Kinds <- [1, 2, 3, 4, 5, 8]],
    unsampled_clears(), replaces(),
    [aged(W bor Free) || W <- [1 bsl 30, 0, 1, ?WORD, ?AGE, ?WORD - ?AGE, ?WORD - ?AHEAD], Free <- [?FREE, 0]],
    [foreign_at_tier(Exact) || Exact <- [[], ["exact"]]],
    word_kept_going(),
    clear_tells(), unsampled_set_tells(),
    os:cmd("rm -r " ++ Dir),
    Passed = take(passed), Failed = take(failed),
    io:format("~w passed, ~w failed~n", [Passed, Failed]),
    halt(min(Failed, 1));
main(_) ->
    io:format("usage: spec_check.erl PATH/TO/specdump~n"),
    halt(2).

take(Key) -> receive {Key, N} -> N end.
count(Key) -> N = take(Key), self() ! {Key, N + 1}.

check(_, X, X) -> count(passed);
check(What, Want, Got) ->
    count(failed),
    io:format("FAILED ~tp~n  expected ~tP~n  got      ~tP~n",
              [What, Want, 30, Got, 30]).

%% --- the catalogue: {fun, [{function, args, identity}]} ---

big() -> lists:duplicate(49, $x).
ok_str() -> lists:duplicate(48, $x).

cases() ->
    [{"(_) -> undefined", [{f0, [], []}, {f1, [a], []}]},
     {"(_) -> all", [{f0, [], all}, {f3, [1, 2, 3], all}]},
     {"({spec_check, f2, [create, _]}) -> create;"
      "({spec_check, f2, [Op, _]}) when is_atom(Op) -> Op;"
      "(_) -> undefined",
      [{f2, [create, 1], create}, {f2, [update, 1], update},
       {f2, ["x", 1], []}, {f1, [create], []}]},
     %% every kind of value, bounded
     {"({_, f1, [X]}) -> X",
      [{f1, [a], a}, {f1, ['_'], '_'}, {f1, ['$1'], '$1'}, {f1, [1.5], 1.5},
       {f1, [1 bsl 58], 1 bsl 58}, {f1, [(1 bsl 58) + 1], '_other'},
       {f1, [-(1 bsl 58)], -(1 bsl 58)}, {f1, [-(1 bsl 58) - 1], '_other'},
       {f1, [1 bsl 200], '_other'}, {f1, [<<>>], <<>>},
       {f1, [<<0:2048>>], <<0:2048>>}, {f1, [<<0:2056>>], '_other'},
       {f1, [<<1:3>>], '_other'}, {f1, [[]], []}, {f1, ["abc"], "abc"},
       {f1, [ok_str()], ok_str()}, {f1, [big()], '_other'},
       {f1, [[16#10FFFF]], [16#10FFFF]}, {f1, [[-1]], '_other'},
       {f1, [[1 bsl 70]], '_other'}, {f1, [[a]], '_other'},
       {f1, [[1.0]], '_other'}, {f1, [[1 | 2]], '_other'},
       {f1, [lists:seq(1, 100000)], '_other'}, {f1, [{a, b}], '_other'},
       {f1, [#{}], '_other'}, {f1, [self()], '_other'},
       {f1, [make_ref()], '_other'}, {f1, [fun() -> ok end], '_other'},
       {f1, [["abc", <<"d">>]], '_other'}, {f0, [], []}]},
     {"({M, F, [A | _]}) -> {M, F, A}; ({M, F, _}) -> {F, {M, none}}",
      [{f0, [], {f0, {spec_check, none}}}, {f1, [1], {spec_check, f1, 1}},
       {f3, [x, y, z], {spec_check, f3, x}},
       {f3, [{x}, y, z], '_other'}]},
     {"({_, _, Args}) when length(Args) > 1, hd(Args) =:= go -> many;"
      "({_, _, [_ | Rest]}) -> Rest; (_) -> none",
      [{f2, [go, 1], many}, {f2, [1, 2], [2]}, {f1, [1], []}, {f0, [], none},
       {f3, [1, $a, $b], "ab"}, {f3, [1, a, b], '_other'}]},
     {"({M, F, [M, F]}) -> same; ({M, M, _}) -> never; (_) -> other",
      [{f2, [spec_check, f2], same}, {f2, [spec_check, f1], other}]},
     {"({_, f2, [X, X]}) when is_integer(X) -> {twice, X};"
      "({_, f2, [X, {X, Y}]}) -> {X, Y}",
      [{f2, [1, 1], {twice, 1}}, {f2, [1, 1.0], []}, {f2, [a, {a, b}], {a, b}},
       {f2, [a, {b, b}], []}, {f2, [{}, {{}, 1}], '_other'}]},
     %% maps are matched in part
     {"({_, _, [#{method := M, path := P}]}) -> {M, P};"
      "({_, _, [#{method := get}]}) -> get;"
      "({_, _, [#{a := #{b := 1, c := #{}}}]}) -> deep;"
      "({_, _, [#{a := {x, [Y | _]}}]}) -> {y, Y};"
      "({_, _, [#{}]}) -> map; (_) -> no_map",
      [{f1, [#{method => 'GET', path => "/u"}], {'GET', "/u"}},
       {f1, [#{method => 'GET', path => <<"/u">>, more => 1}],
        {'GET', <<"/u">>}},
       {f1, [#{method => get}], get}, {f1, [#{method => get, x => 1}], get},
       {f1, [#{method => put}], map}, {f1, [#{}], map}, {f1, [[]], no_map},
       {f1, [#{a => #{b => 1, c => #{}, d => 2}, e => 1}], deep},
       {f1, [#{a => #{b => 1, c => #{z => 1}}}], deep},
       {f1, [#{a => #{b => 2, c => #{z => 1}}}], map},
       {f1, [#{a => {x, "qr"}}], {y, $q}}, {f1, [#{a => {x, []}}], map},
       {f1, [maps:from_list([{method, get} | [{I, I} || I <- lists:seq(1, 50)]])],
        get}]},
     {"({_, _, [{req, #{method := 'POST'}, [{k, V} | _]}]}) -> V;"
      "({_, _, [#{<<\"k\">> := V, 1 := _}]}) -> V;"
      "({_, _, [#{\"k\" := V, {a, 1} := _, 1.5 := _}]}) -> V;"
      "({_, _, [#{'_' := V}]}) -> {wild, V};"
      "({_, _, [#{k := V, 'k' := V, k := 1}]}) -> V;"
      "({_, _, [#{a := V, b := V}]}) -> V",
      [{f1, [{req, #{method => 'POST', z => 1}, [{k, v}]}], v},
       {f1, [{req, #{method => 'GET'}, [{k, v}]}], []},
       {f1, [#{<<"k">> => v, 1 => 2, 3 => 4}], v},
       {f1, [#{"k" => v, {a, 1} => 2, 1.5 => 4}], v},
       {f1, [#{'_' => v}], {wild, v}}, {f1, [#{zzz => v}], []},
       {f1, [#{k => 1}], 1}, {f1, [#{k => 2}], []},
       {f1, [#{a => 1, b => 1}], 1}, {f1, [#{a => 1, b => 2}], []}]},
     %% aliases
     {"({_, _, [{A, _} = {_, B}]}) -> {A, B};"
      "({_, _, [T = {x, [1, Y | Z], \"s\" ++ R}]}) when size(T) =:= 3 ->"
      "   {Y, Z, R};"
      "({_, _, [L = [_, #{k := V}]]}) when length(L) < 3 -> V;"
      "({_, _, [[H | _] = L]}) when tl(L) =:= [] -> H",
      [{f1, [{a, b}], {a, b}}, {f1, [{x, [1, 2, 3], "str"}], {2, [3], "tr"}},
       {f1, [{x, [1, 2 | 3], "str"}], {2, 3, "tr"}},
       {f1, [{x, [1], "str"}], []}, {f1, [{x, [1, 2], "x"}], []},
       {f1, [[a, #{k => v}]], v}, {f1, [[a, #{j => v}]], []},
       {f1, [[a]], a}, {f1, [[a, b]], []}, {f1, [[]], []}]},
     %% literals that mean something in a match spec
     {"({_, _, ['_']}) -> '_'; ({_, _, ['$1']}) -> '$1';"
      "({_, _, [{a, '$_'}]}) -> {'$_', '$$', [], \"s\"};"
      "({_, _, [[x, '_' | T]]}) -> {'_', T};"
      "({_, _, [X]}) when X =:= {'$$', {b, '$2'}} -> {{}, {{}}}",
      [{f1, ['_'], '_'}, {f1, ['$1'], '$1'}, {f1, [z], []},
       {f1, [{a, '$_'}], {'$_', '$$', [], "s"}}, {f1, [{a, b}], []},
       {f1, [[x, '_', $y]], {'_', "y"}}, {f1, [[x, y, $y]], []},
       {f1, [{'$$', {b, '$2'}}], {{}, {{}}}}]},
     {"({_, _, [\"get \" ++ P]}) -> {get, P}; ({_, _, [\"put\"]}) -> put;"
      "({_, _, [<<\"caf\\x{e9}\"/utf8>>]}) -> <<\"caf\\x{e9}\"/utf8>>;"
      "({_, _, [<<1,2,255>>]}) -> \"\\x{20ac}\"; ({_, _, [$a]}) -> 16#FF;"
      "({_, _, [1_000]}) -> -2.5e-3; ({_, _, [-7]}) -> $\\n",
      [{f1, ["get /x"], {get, "/x"}}, {f1, ["get "], {get, []}},
       {f1, ["ge"], []}, {f1, ["put"], put},
       {f1, [<<"café"/utf8>>], <<"café"/utf8>>},
       {f1, [<<1, 2, 255>>], [16#20AC]}, {f1, [$a], 255},
       {f1, [1000], -2.5e-3}, {f1, [-7], 10}]},
     %% an alternative that fails does not fail the others
     {"({_, _, [X]}) when hd(X) =:= a; X =:= b; map_get(k, X) > 1 -> yes;"
      "({_, _, [X]}) when X > 3, X < 9; X rem 2 =:= 1, X > 10 -> X;"
      "({_, _, [X]}) when length(X) > 1 orelse X =:= c -> strict",
      [{f1, [[a]], yes}, {f1, [b], yes}, {f1, [#{k => 2}], yes},
       {f1, [#{k => 1}], []}, {f1, [5], 5}, {f1, [11], 11}, {f1, [12], []},
       {f1, [c], []}, {f1, [[b, b]], strict}, {f1, [[b]], []}]},
     {"({_, _, [X]}) when is_boolean(X) -> {bool, X};"
      "({_, _, [X]}) when tuple_size(X) =:= 2 -> pair;"
      "({_, _, [X]}) when byte_size(X) =:= 2 -> two_bytes;"
      "({_, _, [X]}) when is_tuple(X) andalso element(1, X) =:= rec -> rec;"
      "({_, _, [X]}) when is_map_key(z, X) and (map_size(X) =:= 1) -> z;"
      "({_, _, [X]}) when not is_list(X), is_number(X) xor is_float(X) -> int;"
      "({_, _, [X]}) when abs(X) > 2.5 ; trunc(X) =:= -1 -> {x, X};"
      "({_, _, [X]}) when is_pid(X), node(X) =:= node() -> pid;"
      "({_, _, [X]}) when is_reference(X) or is_port(X) or is_function(X) -> r;"
      "({_, _, [[X, Y]]}) when X + Y * 2 - 1 =:= 6, X band 3 =:= 3,"
      "  X bor 4 =:= 7, X bxor 1 =:= 2, X bsl 1 =:= 6, 6 bsr 1 =:= X,"
      "  X div 2 =:= 1, X / 2 == 1.5, bnot X =:= -4, -X < 0, + X > 0,"
      "  round(1.5) =:= 2, {X, [Y]} =/= {1, 2}, X /= Y, X >= Y, Y =< X -> arith",
      [{f1, [true], {bool, true}}, {f1, [{a, b}], pair},
       {f1, [<<"ab">>], two_bytes}, {f1, [{rec, 1, 2}], rec},
       {f1, [#{z => 1}], z}, {f1, [#{z => 1, y => 1}], []}, {f1, [17], int},
       {f1, [3.5], {x, 3.5}}, {f1, [-1.5], {x, -1.5}}, {f1, [1.5], []},
       {f1, [self()], pid}, {f1, [make_ref()], r}, {f1, [[3, 2]], arith},
       {f1, [{}], []}]},
     {"({_, f2, [X, Y]}) when is_binary(X), is_list(Y) -> {X, Y};"
      "({_, f2, [X, Y]}) when is_float(X), is_integer(Y) -> {X, {Y, X}};"
      "({_, f2, [X, _]}) when is_pid(self()), not is_pid(X) -> pid",
      [{f2, [<<"a">>, "b"], {<<"a">>, "b"}}, {f2, [<<"a">>, [b]], '_other'},
       {f2, [<<0:2056>>, "b"], '_other'}, {f2, [1.0, 2], {1.0, {2, 1.0}}},
       {f2, [1.0, 1 bsl 60], '_other'}, {f2, [a, b], pid}]}] ++ calls_in_bodies().

%% What fails there, or gets too large, is '_other': never an 'EXIT', and the
%% clauses that follow are not asked.
calls_in_bodies() ->
    [{"({_, f1, [T]}) -> element(1, T); ({_, f2, [N, T]}) -> element(N, T);"
      "({_, F, _}) -> {F, node()}; (_) -> never",
      [{f1, [{get, 1}], get}, {f1, [{}], '_other'}, {f1, [x], '_other'}, {f1, [{self()}], '_other'},
       {f1, [{{a}}], '_other'}, {f2, [2, {a, "b"}], "b"}, {f2, [3, {a, b}], '_other'},
       {f2, [x, {a}], '_other'}, {f0, [], {f0, node()}}]},
     {"({_, f1, [L]}) when is_list(L) -> {n, length(L)}; ({_, f2, [L, _]}) -> hd(L); ({_, _, [_, _, L]}) -> hd(tl(L))",
      [{f1, [[]], {n, 0}}, {f1, [lists:seq(1, 100000)], {n, 100000}}, {f1, [[1 | 2]], '_other'},
       {f2, [[a | b], 1], a}, {f2, [[], 1], '_other'}, {f2, [["ab", 1], 1], "ab"}, {f2, [{}, 1], '_other'},
       {f3, [1, 2, [a, b]], b}, {f3, [1, 2, [a]], '_other'}]},
     {"({_, f1, [M]}) when is_map(M) -> map_get(method, M); ({_, f1, [{map, M}]}) -> {map_size(M), is_map_key(k, M)};"
      "({_, f1, [X]}) -> {size(X), tuple_size(X)}; ({_, f2, [X, Y]}) -> {byte_size(X), bit_size(X), binary_part(Y, 0, 2)};"
      "({_, f3, [A, B, C]}) -> {abs(A), round(B), trunc(B), float(C), is_boolean(A)}",
      [{f1, [#{method => 'GET'}], 'GET'}, {f1, [#{method => <<"PUT">>, a => 1}], <<"PUT">>}, {f1, [#{}], '_other'},
       {f1, [#{method => #{}}], '_other'}, {f1, [{map, #{k => 1}}], {1, true}}, {f1, [{map, #{}}], {0, false}},
       {f1, [{map, x}], '_other'}, {f1, [{a, b, c}], {3, 3}}, {f1, [<<"abc">>], '_other'}, {f1, [z], '_other'},
       {f2, [<<"abc">>, <<"abc">>], {3, 24, <<"ab">>}}, {f2, [<<"abc">>, <<"a">>], '_other'},
       {f2, [abc, <<"abc">>], '_other'}, {f3, [-1, 2.5, 3], {1, 3, 2, 3.0, false}},
       {f3, [a, 2.5, 3], '_other'}, {f3, [1, 1.0e300, 3], '_other'}, {f3, [-1.5, -2.5, 3.5], {1.5, -3, -2, 3.5, false}},
       {f3, [1 bsl 60, 1, 3], '_other'}]},
     {"({_, f1, [S]}) when is_integer(S) -> {status, S div 100}; ({_, f1, [X]}) -> X > 1 andalso tl(X);"
      "({_, f2, [X, Y]}) -> {X + Y, X * Y - 1, X bsl 2, - X, X =:= Y}; ({_, _, [X, Y, Z]}) -> {X / Y, not Z, X rem Y}",
      [{f1, [404], {status, 4}}, {f1, ["abc"], "bc"}, {f1, [[]], '_other'}, {f1, [0.5], false}, {f1, [a], '_other'},
       {f2, [2, 3], {5, 5, 8, -2, false}}, {f2, [2, a], '_other'}, {f2, [1 bsl 58, 0], '_other'},
       {f3, [4, 2, true], {2.0, false, 0}}, {f3, [4, 0, true], '_other'}, {f3, [4, 2, 1], '_other'}]},
     {"({_, f1, [X]}) when hd(X) =:= a -> {is_atom(hd(X)), node(element(2, hd(tl(X))))};"
      "({M, F, [X | R]}) -> {M, F, element(2, X), length(R)}; (_) -> {node(), 1 + 1, \"s\", element(1, {a, b})}",
      [{f1, [[a, {b, self()}]], {true, node()}}, {f1, [[a, {b, c}]], '_other'},
       {f2, [{a, b}, c], {spec_check, f2, b, 1}}, {f2, [{a}, c], '_other'}, {f0, [], {node(), 2, "s", a}}]}].

%% --- running one ---

run_case({Fun, Calls}) ->
    Conf = conf(Fun),
    Eval = eval_fun(Fun),
    Functions = [{f0, 0}, {f1, 1}, {f2, 2}, {f3, 3}],
    Specs = [{F, spec(tier, Conf, F, A, [])} || {F, A} <- Functions],
    arm(Specs),
    [begin
         Got = identity(F, Args),
         check({Fun, F, Args}, Want, Got),
         check({erl_eval, Fun, F, Args}, eval(Eval, F, Args), Got)
     end || {F, Args, Want} <- Calls],
    [begin
         {F, Args0, _} = pick(Calls),
         Args = [mutate(A) || A <- Args0],
         check({random, Fun, F, Args}, eval(Eval, F, Args), identity(F, Args))
     end || _ <- lists:seq(1, ?RANDOM_CALLS)],
    disarm().

conf(Fun) ->
    "{tiers, [{t, [{spec_check, '_', '_'}]}]}.\n{identity, fun " ++ Fun ++
        " end}.\n".

spec(Kind, Conf, F, A, More) ->
    spec(Kind, Conf, spec_check, F, A, More).

spec(Kind, Conf, M, F, A, More) ->
    File = filename:join(get(dir), "tiers.conf"),
    Out = filename:join(get(dir), "spec.bin"),
    ok = file:write_file(File, unicode:characters_to_binary(Conf)),
    Cmd = lists:flatten(io_lib:format("~s ~s ~s ~s ~s ~w ~s 2>&1 >~s",
        [get(tool), Kind, File, M, F, A, lists:join($\s, More), Out])),
    Said = os:cmd(Cmd),
    [io:format("~ts", [Said]) || string:find(Said, "warning") =:= nomatch],
    {ok, Bin} = file:read_file(Out),
    binary_to_term(Bin).

arm(Specs) ->
    [begin
         A = list_to_integer(tl(atom_to_list(F))),
         case catch erlang:trace_pattern({spec_check, F, A}, MS, [local]) of
             1 -> count(passed);
             No -> check({trace_pattern, F, MS}, 1, No)
         end
     end || {F, MS} <- Specs],
    put(armed, [F || {F, _} <- Specs]).

disarm() -> erlang:trace_pattern({spec_check, '_', '_'}, false, [local]).

%% Calls F in a fresh process that has a token; what its message carried.
identity(F, Args) ->
    erlang:system_flag(trace_control_word, 17),
    case traced(fun() -> seq_trace:set_token(label, made(17)),
                         apply(spec_check, F, Args) end) of
        [{trace_ts, _, call, {spec_check, F, _},
          {Id, {0, _, _, _, _}, Caller}, Ts}]
          when is_integer(Ts), tuple_size(Caller) =:= 3; Caller =:= undefined ->
            case Id of
                {'_other', Line} when is_integer(Line) -> '_other';
                _ -> Id
            end;
        Other -> {unexpected, Other}
    end.

%% A label of some kprofd's, from when the word was that.
made(Word) ->
    (?KPROFD bsl 52) bor (16#17 bsl 42) bor (16#155 bsl 32) bor (Word band ?WORD).

traced(Fun) ->
    Me = self(),
    Pid = spawn_link(fun() -> receive go -> Fun(), Me ! {done, self()} end,
                         receive stop -> ok end end),
    erlang:trace(Pid, true, [call, arity, monotonic_timestamp]),
    Pid ! go,
    receive {done, Pid} -> ok end,
    Ref = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Ref} -> ok end,
    Pid ! stop,
    drain(Pid).

drain(Pid) ->
    receive M when element(2, M) =:= Pid, element(1, M) =:= trace_ts ->
        [M | drain(Pid)]
    after 0 -> []
    end.

drain_all() ->
    receive M when element(1, M) =:= trace_ts -> [M | drain_all()]
    after 0 -> []
    end.

%% --- what Erlang says ---

eval_fun(Text) ->
    {ok, Tokens, _} = erl_scan:string("fun " ++ Text ++ " end."),
    {ok, [{'fun', L, {clauses, Cs}}]} = erl_parse:parse_exprs(Tokens),
    Bounded = [{clause, CL, P, G, [bound_vars(B) || B <- Bs]}
               || {clause, CL, P, G, Bs} <- Cs],
    {value, Fun, _} = erl_eval:exprs([{'fun', L, {clauses, Bounded}}], []),
    Fun.

bound_vars({var, L, _} = V) -> bound_call(L, V);
bound_vars({call, L, _, _} = C) -> bound_call(L, C);
bound_vars({op, L, _, _} = C) -> bound_call(L, C);
bound_vars({op, L, _, _, _} = C) -> bound_call(L, C);
bound_vars({tuple, L, Es}) -> {tuple, L, [bound_vars(E) || E <- Es]};
bound_vars(X) -> X.

bound_call(L, X) ->
    {call, L, {remote, L, {atom, L, spec_check}, {atom, L, bounded}}, [X]}.

bounded(X) when is_atom(X); is_float(X) -> X;
bounded(X) when is_integer(X), abs(X) =< 1 bsl 58 -> X;
bounded(X) when is_binary(X), byte_size(X) =< 256 -> X;
bounded(X) when is_list(X) ->
    case is_list(catch length(X)) orelse not is_integer(catch length(X)) of
        true -> throw(unbounded);
        false -> length(X) =< 48 andalso
                     lists:all(fun(C) -> is_integer(C) andalso C >= 0
                                             andalso C < 1 bsl 21 end, X)
                     orelse throw(unbounded), X
    end;
bounded(_) -> throw(unbounded).

eval(Fun, F, Args) ->
    try Fun({spec_check, F, Args}) of
        undefined -> [];
        Id -> Id
    catch
        throw:unbounded -> '_other';
        error:function_clause -> [];
        error:_ -> '_other'
    end.

%% --- random terms near those of the catalogue ---

pick(L) -> lists:nth(rand:uniform(length(L)), L).

mutate(T) ->
    case rand:uniform(4) of
        1 -> T;
        2 -> term(2);
        _ -> within(T)
    end.

within(T) when is_tuple(T), tuple_size(T) > 0 ->
    setelement(rand:uniform(tuple_size(T)), T, mutate(pick(tuple_to_list(T))));
within([H | T]) ->
    case rand:uniform(3) of
        1 -> [mutate(H) | T];
        2 when length(T) < 60 -> [H | within(T)];
        _ -> [H | term(1)]
    end;
within(M) when is_map(M), map_size(M) > 0 ->
    K = pick(maps:keys(M)),
    case rand:uniform(3) of
        1 -> maps:remove(K, M);
        2 -> M#{K := mutate(maps:get(K, M))};
        _ -> M#{term(0) => term(1)}
    end;
within(_) -> term(2).

term(0) ->
    pick([a, b, k, x, create, true, false, undefined, '_', '$1', [], {}, #{},
          0, 1, -1, 2, 3, 17, 1.5, -1.5, 1.0, 1 bsl 58, (1 bsl 58) + 1,
          -(1 bsl 58) - 1, 1 bsl 100, <<>>, <<"ab">>, <<0:2056>>, <<1:3>>,
          "abc", "s", "get /", big(), ok_str(), self(), make_ref()]);
term(N) ->
    case rand:uniform(6) of
        1 -> list_to_tuple([term(N - 1) || _ <- lists:seq(1, rand:uniform(3))]);
        2 -> [term(N - 1) || _ <- lists:seq(1, rand:uniform(3))];
        3 -> [term(N - 1) | term(N - 1)];
        4 -> maps:from_list([{term(0), term(N - 1)}
                             || _ <- lists:seq(1, rand:uniform(3))]);
        _ -> term(0)
    end.

%% --- entries ---

entry_conf() -> conf("({_, _, [Op | _]}) when is_atom(Op) -> Op").

entry_shape() ->
    arm([{f1, spec(entry, entry_conf(), f1, 1, [])}]),
    erlang:system_flag(trace_control_word, (?WORD - 1) bor ?FREE),
    Events = traced(fun() -> f1(one), f1(two), seq_trace:set_token(label, made(5)),
                             f1(3), seq_trace:set_token([]) end),
    [{one, _, 1, {0, L1, 0, _, 0}, true, [], false},
     {two, _, 1, {0, L2, 0, _, 0}, true, [], {0, L1, _, _, _}},
     {[], _, 1, {0, L3, 0, _, 0}, true, [], {0, _, _, _, _}}] =
        [X || {trace_ts, _, call, {spec_check, f1, 1}, X, _} <- Events],
    check(label_1, ?LABEL_CONST bor (?WORD - 1), L1),
    check(label_2, ?LABEL_CONST bor ?WORD, L2),
    check(label_3, ?LABEL_CONST, L3),
    check(tcw, ?FREE bor 1, erlang:system_info(trace_control_word)),
    [foreign_label(L) || L <- foreign()],
    disarm().

%% Another call has the number, or somebody has set the word. The token that the process has goes,
%% since it is another request's, and there is still no number in the word.
entry_without_number() ->
    arm([{f1, spec(entry, entry_conf(), f1, 1, [])}]),
    [begin
         erlang:system_flag(trace_control_word, Word),
         Me = self(),
         Events = traced(fun() -> f1(one), seq_trace:set_token(label, made(5)), seq_trace:set_token(send, true),
                                  f1(two), Me ! {left, seq_trace:get_token()} end),
         [{one, _, 1, {0, L1, _, _, _}, true, [], false}, {two, _, 1, {0, L2, _, _, _}, true, [], {_, Old, _, _, _}}] =
             [X || {trace_ts, _, call, {spec_check, f1, 1}, X, _} <- Events],
         check({no_number, Word}, {made(5), L2, true},
               {Old, element(2, receive {left, Left} -> Left end), erlang:system_info(trace_control_word) < ?FREE}),
         check({spare_labels, Word}, [true, true], [L bor (1023 bsl 31) =:= ?LABEL_CONST bor (2047 bsl 31) bor (L band ?WORD)
                                                    || L <- [L1, L2]]),
         seq_trace:set_token([])
     end || Word <- [0, 17, ?WORD]],
    [foreign_label(L) || L <- foreign()],
    disarm().

%% Labels of anybody else: what is no integer, and integers that do not begin as
%% ours do.
foreign() ->
    [0, 1, 17, 1001, -5, atom, 'EXIT', {a, tuple}, self(), make_ref(), [], <<"binary">>, 1.5, (?KPROFD bsl 52) * 1.0,
     1 bsl 58, -(1 bsl 58), 1 bsl 70, erlang:system_time(microsecond), erlang:system_time(nanosecond),
     made(17) bxor (1 bsl 54), made(17) bxor (1 bsl 58), made(17) bsl 1, made(17) + (1 bsl 59), -made(17)].

%% An entry leaves it where it is, flags and all, begins nothing, and says so
%% without it; one that is not sampled says nothing.
foreign_label(Label) ->
    Me = self(),
    Called = fun() -> seq_trace:set_token(label, Label),
                      seq_trace:set_token(send, true),
                      f1(3), Me ! {left, seq_trace:get_token()},
                      seq_trace:set_token([]) end,
    Word = erlang:system_info(trace_control_word),
    check({foreign_label, Label}, [{[], {spec_check, '-foreign_label/1-fun-0-', 2}, 1, false, true, [], false}],
          [X || {trace_ts, _, call, {spec_check, f1, 1}, X, _} <- traced(Called)]),
    check({foreign_label_stays, Label}, {1, Label}, receive {left, {Flags, L, _, _, _}} -> {Flags, L} end),
    check({foreign_label_counts_nothing, Label}, Word, erlang:system_info(trace_control_word)).

%% Unless tiers.conf says so: then whatever it is, ours is an integer.
replaces() ->
    erlang:system_flag(trace_control_word, ?FREE),
    Conf = entry_conf() ++ "{foreign_tokens, replace}.\n",
    arm([{f1, spec(entry, Conf, f1, 1, [])}]),
    [begin
         Events = traced(fun() -> seq_trace:set_token(label, L), seq_trace:set_token(send, true),
                                  f1(3), seq_trace:set_token([]) end),
         [{[], _, 1, {0, New, 0, _, 0}, true, [], false}] =
             [X || {trace_ts, _, call, {spec_check, f1, 1}, X, _} <- Events],
         check({replaced, L}, ?LABEL_CONST, New band bnot ?WORD)
     end || L <- foreign()],
    disarm().

%% A token is as old as the trace control word has gone on since, round its end
%% as well; and may be of a node that is ahead.
aged(Word) ->
    arm([{f1, spec(tier, entry_conf(), f1, 1, [])}]),
    [begin
         erlang:system_flag(trace_control_word, Word),
         Me = self(),
         Events = traced(fun() -> seq_trace:set_token(label, made(Word - Age)), f1(a), f1(b),
                                  Me ! {left, seq_trace:get_token()}, seq_trace:set_token([]) end),
         Left = receive {left, []} -> taken; {left, _} -> left end,
         check({aged, Word, Age}, case IsYoung of true -> {2, left}; false -> {0, taken} end,
               {length([1 || {trace_ts, _, call, _, _, _} <- Events]), Left})
     end || {Age, IsYoung} <- [{0, true}, {1, true}, {?AGE, true}, {?AGE + 1, false}, {?AGE + ?AHEAD, false},
                               {1 bsl 26, false}, {1 bsl 30, false}, {?WORD - ?AHEAD, false}, {-1, true},
                               {-?AHEAD, true}, {-?AHEAD - 1, false}, {-(1 bsl 30), false}]],
    disarm().

%% Somebody else's makes no event at a tier, nor of its return, and stays.
foreign_at_tier(Exact) ->
    arm([{f1, spec(tier, entry_conf(), f1, 1, ["1" | Exact])}]),
    erlang:system_flag(trace_control_word, 17),
    [begin
         Me = self(),
         Events = traced(fun() -> seq_trace:set_token(label, L), f1(x), Me ! {left, seq_trace:get_token(label)},
                                  seq_trace:set_token([]) end),
         check({foreign_at_tier, L}, {[], {label, L}}, {Events, receive {left, Is} -> Is end})
     end || L <- [made(17) bxor (1 bsl 52) | foreign()]],
    disarm().

%% The agent moves the word while entries count in it, and no label comes again.
word_kept_going() ->
    Mover = spawn_link(fun move_word/0),
    labels_unique(),
    unlink(Mover), exit(Mover, kill).

%% As kprof_word does, but 500 times a second and by a few numbers only.
move_word() ->
    receive after 2 -> ok end,
    case erlang:system_flag(trace_control_word, erlang:system_info(trace_control_word) band ?WORD) of
        Was when Was >= ?FREE -> erlang:system_flag(trace_control_word, (Was + 7) band ?WORD bor ?FREE);
        _ -> ok
    end,
    move_word().

entry_exact() ->
    erlang:system_flag(trace_control_word, ?FREE),
    arm([{f1, spec(entry, entry_conf(), f1, 1, ["1", "exact"])}]),
    Events = traced(fun() -> f1(one), seq_trace:set_token([]) end),
    check(entry_exact, [call, return_from], [element(3, E) || E <- Events]),
    disarm(),
    arm([{f1, spec(tier, entry_conf(), f1, 1, ["1", "exact"])}]),
    erlang:system_flag(trace_control_word, 3),
    Tier = traced(fun() -> f1(none), seq_trace:set_token(label, made(3)), f1(one),
                           seq_trace:set_token([]) end),
    check(tier_exact, [call, return_from], [element(3, E) || E <- Tier]),
    disarm().

%% Many processes at once, and past the end of the word: no label comes twice.
labels_unique() ->
    arm([{f1, spec(entry, entry_conf(), f1, 1, [])}]),
    erlang:system_flag(trace_control_word, (?WORD - 10000) bor ?FREE),
    Me = self(), Each = 6000,
    Pids = [spawn(fun() -> receive go -> ok end,
                           [f1(x) || _ <- lists:seq(1, Each)],
                           seq_trace:set_token([]), Me ! {done, self()},
                           receive stop -> ok end end)
            || _ <- lists:seq(1, 32)],
    [erlang:trace(P, true, [call, arity, monotonic_timestamp]) || P <- Pids],
    [P ! go || P <- Pids],
    [receive {done, P} -> ok end || P <- Pids],
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    %% not drain/1: eight processes' messages are mixed in the mailbox
    Tokens = [element(4, X) || {trace_ts, _, call, _, X, _} <- drain_all()],
    Labels = [element(2, T) || T <- Tokens, T =/= []],
    Without = length(Tokens) - length(Labels),
    [P ! stop || P <- Pids],
    disarm(),
    Repeats = length(Labels) - length(lists:usort(Labels)),
    io:format("labels: ~w, repeated ~w, without ~w~n", [length(Labels), Repeats, Without]),
    check(labels_all, 32 * Each, length(Labels) + Without),
    Spare = length([L || L <- Labels, (L bsr 41) band 1 =:= 1]),
    io:format("of these ~w without a number of their own~n", [Spare]),
    check(labels_ours, [], [L || L <- Labels, L bsr 42 =/= ?LABEL_CONST bsr 42]),
    Own = [L || L <- Labels, (L bsr 41) band 1 =:= 0],
    check(labels_unique, 0, length(Own) - length(lists:usort(Own))),
    check(spare_ones_hardly_repeat, true, Repeats =< Spare div 50 + 2),
    %% On a machine that is short of processors some calls find no number.
    check(most_have_one, true, Without < length(Labels)).

%% Kinds of requests in strict rotation: each must get its share of 1/N.
sampling_even(N, Kinds) ->
    arm([{f2, spec(entry, conf("({_, _, [K, _]}) -> K"), f2, 2,
                   [integer_to_list(N)])}]),
    erlang:system_flag(trace_control_word, (rand:uniform(1 bsl 31) - 1) bor ?FREE),
    Per = 100 * N, Mean = 100.0,
    Events = traced(fun() ->
        [[f2(K, x) || K <- lists:seq(1, Kinds)] || _ <- lists:seq(1, Per)],
        seq_trace:set_token([]) end),
    disarm(),
    Ids = [{element(1, element(5, E)), element(3, element(5, E))}
           || E <- Events],
    Shares = [length([1 || {I, W} <- Ids, I =:= K, W =:= N])
              || K <- lists:seq(1, Kinds)],
    %% five standard deviations of a fair draw
    Worst = lists:max([abs(S - Mean) || S <- Shares]),
    check({sampling_even, N, Kinds, Shares}, true, Worst < 5 * math:sqrt(Mean)).

%% A call that is not sampled takes a token of ours, and leaves another.
unsampled_clears() ->
    arm([{f1, spec(entry, entry_conf(), f1, 1, ["1000000"])}]),
    erlang:system_flag(trace_control_word, ?FREE bor 1),
    Me = self(),
    Left = fun(Label) ->
                   [] = traced(fun() ->
                       Me ! {tokens, [begin seq_trace:set_token(label, Label), f1(x),
                                            T = seq_trace:get_token(label),
                                            seq_trace:set_token([]), T end
                                      || _ <- lists:seq(1, 100)]} end),
                   receive {tokens, T} -> lists:usort(T) end
           end,
    check(unsampled_clears, [[]], Left(made(9))),
    check(unsampled_clears_a_killed_ones, [[]], Left(made(9) + (1 bsl 31))),
    check(tcw_steps_once, ?FREE bor 201, erlang:system_info(trace_control_word)),
    [check({unsampled_leaves, L}, [{label, L}], Left(L)) || L <- foreign()],
    %% Over its end; and without giving out a number, while another call has it.
    [begin
         erlang:system_flag(trace_control_word, Word),
         check(unsampled_clears, [[]], Left(made(9))),
         check({tcw_steps, Word}, Then, erlang:system_info(trace_control_word))
     end || {Word, Then} <- [{?FREE bor (?WORD - 49), ?FREE bor 50}, {17, 117}, {?WORD - 200, ?WORD - 100}]],
    disarm().

%% kprof:clear_token/0 tells whose token it took, once.
clear_tells() ->
    arm([{f0, spec(clear, entry_conf(), kprof, clear_token, 0, [])}]),
    Me = self(),
    Events = traced(fun() -> f0(), seq_trace:set_token(label, 7), f0(),
                             Me ! {left, seq_trace:get_token(label)},
                             seq_trace:set_token(label, made(7)),
                             f0(), Me ! {left, seq_trace:get_token()}, f0() end),
    Made = made(7),
    [{[], {_, Made, _, _, _}, _, []}] =
        [X || {trace_ts, _, call, {spec_check, f0, 0}, X, _} <- Events],
    check(clear_leaves_anothers, {label, 7}, receive {left, T1} -> T1 end),
    check(clear_takes_the_token, [], receive {left, T2} -> T2 end),
    disarm().

%% So does kprof:set_token/0 where sampling passes it over.
unsampled_set_tells() ->
    arm([{f0, spec(entry, entry_conf(), kprof, set_token, 0, ["1000000"])}]),
    erlang:system_flag(trace_control_word, ?FREE bor 1),
    Me = self(),
    Events = traced(fun() -> f0(), seq_trace:set_token(label, made(7)),
                             f0(), Me ! {left, seq_trace:get_token()}, f0() end),
    Made = made(7),
    [{[], {_, Made, _, _, _}, _, []}] =
        [X || {trace_ts, _, call, {spec_check, f0, 0}, X, _} <- Events],
    check(unsampled_set_takes_the_token, [], receive {left, T} -> T end),
    check(tcw_steps_at_each, ?FREE bor 4, erlang:system_info(trace_control_word)),
    disarm().
