%% The programs of the catalogue (test/recordings) under kprofd: what is in the
%% database afterwards is what they wrote down of themselves, as far as this
%% release tells.
-module(catalogue_tests).

-export([tests/0]).

-define(ROUNDS, 3).

tests() ->
    [{atom_to_list(Conf), 120, fun(T) -> all(T, Conf) end} || Conf <- [layers, overlap, exact, mixed, finish, marks]].

all(T, Conf) ->
    {ok, Text} = file:read_file(lists:concat(["test/recordings/", Conf, ".conf"])),
    Target = it:target(T, #{kind => plain}),
    P = it:kprofd(T, Target, #{tiers => [Text, it:calm()]}),
    it:armed(P),
    {Conf, Programs} = lists:keyfind(Conf, 1, catalogue:programs(it:otp(Target))),
    %% As all requests are measured, tiers give tokens to whoever has none.
    Rules = (rules(told:conf(binary_to_list(Text)), it:is_native(), it:otp(Target)))#{gives_tokens => true},
    Told = [told:tell(it:otp(Target), Rules, it:call(Target, catalogue, run, [Program, many(Program)]))
            || _ <- lists:seq(1, ?ROUNDS), Program <- Programs],
    it:terminate(P),
    Losses = it:losses(P),
    %% Some of these are over when their process works for another request.
    Most = lists:sum([proplists:get_value(outlasted, maps:get(losses, One), 0) || One <- Told]),
    Open = lists:sum(maps:values(maps:with([outlasted, running_calls], Losses))),
    it:check(Open =< Most, "~b calls without an end at their requests', not ~b", [Most, Open]),
    Twice = lists:sum([twice(One) || One <- Told]),
    it:equal("losses", maps:from_list([{twice, Twice} || Twice > 0]), maps:without([outlasted, running_calls], Losses)),
    figures(Conf, P, Programs, Told).

%% How many requests began in a call of their own entry.
twice(#{requests := Requests, calls := Calls}) ->
    Entry = fun(Id) -> hd([{Name, Pid} || #{request := R, name := Name, pid := Pid} <- Calls, R =:= Id]) end,
    length([Id || #{id := Id, outer := Outer} <- Requests, Outer =/= none, Entry(Id) =:= Entry(Outer)]).

figures(Conf, P, Programs, Told) ->
    Cells = told:cells(together(Told)),
    Rows = rows(P),
    it:equal("tiers and identities", lists:sort(maps:keys(Cells)), lists:sort(maps:keys(Rows))),
    [compare(Key, Want, maps:get(Key, Rows)) || {Key, Want} <- maps:to_list(Cells)],
    Conf =:= layers andalso self_times(Told, Rows),
    Requests = length(maps:get(requests, together(Told))),
    it:equal("entry calls", Requests, it:balance(P)),
    it:equal("requests", Requests, it:number(P, "select sum(sampled) from time_window")),
    {note, io_lib:format("~b programs: ~b requests, ~b calls",
                         [length(Programs), Requests, length(maps:get(calls, together(Told)))])}.

%% With the native probe outcomes are exact everywhere: an exit is an exception,
%% and up to OTP 26 so is being killed.
rules(Rules, false, _) -> Rules;
rules(Rules, true, Otp) ->
    Rules#{exact := [do_apply, set_token | [F || {F, _} <- catalogue:module_info(functions)]],
           left := [quit | [hang || Otp =< 26]]}.

many(pool) -> 1000;
many(_) -> 5.

%% Ids are those of one program each: they are made different.
together(Told) ->
    #{tiers := Tiers} = hd(Told),
    Numbered = lists:zip(lists:seq(1, length(Told)), Told),
    #{tiers => Tiers,
      requests => [R#{id := {N, Id}} || {N, #{requests := Rs}} <- Numbered, #{id := Id} = R <- Rs],
      calls => [C#{request := {N, R}} || {N, #{calls := Cs}} <- Numbered, #{request := R} = C <- Cs]}.

-define(COUNTS, [requests, calls, raised, unfinished, ambiguous, unknown, async]).

rows(P) ->
    maps:from_list(
      [{{binary_to_atom(Tier), binary_to_atom(Identity)},
        maps:from_list(lists:zip(?COUNTS ++ [timed, total, busy, async_time, self],
                                 [binary_to_integer(N) || N <- Figures]))}
       || [Tier, Identity | Figures]
              <- it:sql(P, "select t.name, i.name, sum(requests), sum(calls), sum(raised), sum(unfinished),"
                        " sum(ambiguous), sum(s.unknown_outcomes), sum(async_calls), sum(timed), sum(total_ns), sum(busy_ns),"
                        " sum(async_ns), sum(self_ns) from stat s join tier t on t.id = s.tier_id"
                        " join identity i on i.id = s.identity_id where i.name <> '_total' group by t.id, i.id")]).

compare({Tier, Identity}, Want, Row) ->
    What = fun(K) -> io_lib:format("~s of ~s, ~s", [K, Identity, Tier]) end,
    [it:equal(What(K), maps:get(K, Want), maps:get(K, Row)) || K <- ?COUNTS],
    #{calls := Calls, unfinished := Unfinished, ambiguous := Ambiguous} = Want,
    it:equal(What(timed), Calls - Unfinished - Ambiguous, maps:get(timed, Row)),
    [within(What(K), maps:get(K, Want), maps:get(K, Row)) || K <- [total, busy, async_time]].

within(What, {Least, Most}, Got) ->
    it:check(Got >= Least andalso Got =< Most, "~ts: ~b ns, but it was ~b to ~b", [What, Got, Least, Most]).

%% Where each call waited for those that it made one after the other, they add
%% up to the requests' times.
self_times(Told, Rows) ->
    ByIdentity = lists:foldl(fun(#{identity := I, sequential := S, outcome := O}, Acc) ->
                                     Acc#{I => S andalso lists:member(O, [returned, unknown]) andalso maps:get(I, Acc, true)}
                             end, #{}, maps:get(requests, together(Told))),
    Sequential = [I || {I, true} <- maps:to_list(ByIdentity)],
    it:check(length(Sequential) > 20, "some were sequential"),
    [it:equal(io_lib:format("self times of ~s", [I]), maps:get(total, maps:get({'_total', I}, Rows)),
              lists:sum([Self || {{Tier, I1}, #{self := Self}} <- maps:to_list(Rows), I1 =:= I,
                                 Tier =/= '_total']))
     || I <- Sequential].
