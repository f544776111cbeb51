%% A server that drains its mailbox into a queue of its own (RabbitMQ's gen_server2)
%% carries the token of the message it took last while it handles an earlier one:
%% identities behind it were wrong by a factor, with no loss counted, and nothing
%% said so. It is noticed by its answers; of ordinary servers nothing is said.
-module(drain_tests).

-export([tests/0]).

tests() ->
    [{"drains: 4 clients", 30, fun(T) -> warned(T, 4) end},
     {"drains: 16 clients", 30, fun(T) -> warned(T, 16) end},
     {"drains: one client", 30, fun(T) -> silent(T, drains, 1) end},
     {"plain server: 16 clients", 30, fun(T) -> silent(T, plain, 16) end},
     {"pool: 16 clients", 30, fun(T) -> silent(T, pool, 16) end},
     {"several calls a message: 16 clients", 30, fun(T) -> silent(T, casts, 16) end}].

tiers() ->
    ["{tiers, [{work, {it_drain, work, 1}}, {later, {it_drain, after_it, 1}}]}.\n{entry, {it_drain, request, 2}}.\n"
     "{identity, fun({it_drain, request, [_, N]}) when is_integer(N) -> N end}.\n"
     "{sampling, all}.\n{budget, none}.\n", it:calm()].

run(T, Kind, Clients) ->
    Target = it:target(T, #{kind => plain}),
    {module, it_drain} = it:call(Target, code, ensure_loaded, [it_drain]),
    ok = it:call(Target, it_drain, start, [Kind]),
    P = it:kprofd(T, Target, #{tiers => tiers(), args => ["-interval", "1s"]}),
    it:armed(P),
    Each = 320 div Clients,
    ok = it:call(Target, it_drain, load, [Kind, Clients, Each]),
    it:assembled(P, Clients * Each),
    {ok, Status} = it:control(P, "status"),
    it:terminate(P),
    {P, Status, told(P)}.

told(P) ->
    [binary_to_list(Text) || [Text] <- it:sql(P, "select text from event where kind = 'drains'")].

%% Requests without any call in the tier, which each has one of.
note(P) ->
    io_lib:format("~b requests, in ~b of them work is seen; losses ~p",
                  [it:number(P, "select sum(requests) from request_stats where identity = '_total'"),
                   it:number(P, "select sum(requests) from tier_stats where identity = '_total' and tier = 'work'"),
                   it:losses(P)]).

warned(T, Clients) ->
    {P, Status, Told} = run(T, drains, Clients),
    [Text] = Told,
    it:check(string:find(Text, "request types of tier work are estimated") =/= nomatch, "it names the tier: ~ts", [Text]),
    it:check(string:find(Text, ", drains, handles requests") =/= nomatch, "it names the server: ~ts", [Text]),
    it:check(binary:match(Status, <<"types       process <0.">>) =/= nomatch, "status says so: ~ts", [Status]),
    {0, Report, _} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    it:check(string:find(Report, "are estimated there") =/= nomatch, "the report says so: ~ts", [Report]),
    {note, note(P)}.

silent(T, Kind, Clients) ->
    {P, _, Told} = run(T, Kind, Clients),
    it:equal("warnings", [], Told),
    {note, note(P)}.
