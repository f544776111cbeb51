%% kprof's stream handler and middleware in a real cowboy, which is RabbitMQ's
%% (as Debian has no package of it), with clients that keep their connections.
-module(cowboy_tests).

-export([tests/0]).

-define(CONNECTIONS, 4).
-define(ROUNDS, 5).
-define(REQUESTS, [{"GET", "/read"}, {"POST", "/write"}, {"GET", "/read"}]).

tests() ->
    [{"stream handler, HTTP/1.1", 60, here(fun streams1/1)},
     {"stream handler, HTTP/2", 60, here(fun streams2/1)},
     {"stream handler, sampled", 60, here(fun sampled/1)},
     {"stream handler, with nobody profiling", 60, here(fun alone/1)},
     {"middleware", 60, here(fun middleware/1)}].

%% cowboy needs ssl and crypto, which not every root file system has. OTP 29 does
%% not load what Debian 12 compiled: a root has one of its own (root.sh).
here(Test) ->
    fun(T) ->
            Target = it:target(T, #{kind => plain}),
            it:call(Target, code, add_pathsa, [it:call(Target, filelib, wildcard, ["/opt/cowboy/*/ebin"])]),
            case [{M, Why} || M <- [cowboy, cowboy_req, ssl, crypto],
                              {error, Why} <- [it:call(Target, code, ensure_loaded, [M])]] of
                [] -> Test(T#{target => Target});
                Missing -> {skipped, io_lib:format("the target cannot load ~0tp", [Missing])}
            end
    end.

tiers(Entry, Sampling) ->
    ["{tiers, [{db, {it_marks, db, 1}}, {render, {it_marks, render, 1}}, {head, {cowboy_http, request, 3}}]}.\n"
     "{entry, {kprof, ", Entry, "}}.\n"
     "{identity, fun ({kprof, _, [{Method, Path} | _]}) -> {Method, Path} end}.\n"
     "{sampling, ", Sampling, "}.\n{budget, none}.\n"
     "{slow_ms, 0}.\n", it:calm()].

-define(STREAM, #{stream_handlers => [kprof_cowboy_stream, cowboy_stream_h]}).

profile(#{target := Target} = T, Opts, Tiers, Load) ->
    Port = it:call(Target, it_cowboy, start, [Opts]),
    P = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P),
    Load(Port),
    %% A client has the answer before the stream's end.
    it:until("all streams have ended", fun() -> it:call(Target, ranch, procs, [it_cowboy, connections]) =:= [] end),
    it:terminate(P),
    P.

http1(#{target := Target}) ->
    fun(Port) ->
            it:call(Target, it_cowboy, http1,
                    [Port, ?CONNECTIONS, lists:append(lists:duplicate(?ROUNDS, ?REQUESTS))])
    end.

%% The reading of the next head is nobody's work.
streams1(T) ->
    P = profile(T, ?STREAM, tiers("set_token, 1", "all"), http1(T)),
    N = ?CONNECTIONS * ?ROUNDS,
    it:equal("requests", [{"GET /read", 2 * N}, {"POST /write", N}], it:requests_by_identity(P)),
    it:equal("calls", [{"db", "GET /read", 2 * N, 0}, {"db", "POST /write", 2 * N, 0},
                       {"render", "GET /read", 2 * N, 0}, {"render", "POST /write", N, 0}], it:calls_by_tier(P)),
    whole(P, "returned").

%% The stream handler says itself that a request has ended; of a return the relay
%% cannot tell.
whole(P, Outcome) ->
    it:equal("outcomes", [[list_to_binary(Outcome)]], it:sql(P, "select distinct outcome from slow_requests")),
    it:equal("self times that do not add up", 0,
             it:number(P, "select count(*) from request r where abs(r.total_ns - (select sum(self_ns) from call"
                       " where request_id = r.id and not async)) > 1000")),
    it:equal("losses", #{}, it:lost(P)).

%% Each stream's calls are its own, though one process moves all their bodies.
streams2(T = #{target := Target}) ->
    Paths = ["/s" ++ integer_to_list(I) || I <- lists:seq(1, 8)],
    P = profile(T, ?STREAM, tiers("set_token, 1", "all"),
                fun(Port) -> it:call(Target, it_cowboy, http2, [Port, Paths]) end),
    it:equal("requests", [{"POST " ++ Path, 1} || Path <- Paths], it:requests_by_identity(P)),
    it:equal("calls", [{"db", "POST " ++ Path, 2, 0} || Path <- Paths] ++
                 [{"render", "POST " ++ Path, 1, 0} || Path <- Paths], it:calls_by_tier(P)),
    whole(P, "returned").

sampled(T) ->
    P = profile(T, ?STREAM, tiers("set_token, 1", "{one_in, 3}"), http1(T)),
    Calls = 3 * ?CONNECTIONS * ?ROUNDS,
    it:equal("entry calls", Calls, it:balance(P)),
    Sampled = it:number(P, "select sum(sampled) from time_window"),
    it:check(Sampled > 0 andalso Sampled < Calls, "~b of ~b sampled", [Sampled, Calls]),
    it:equal("losses", #{sampled_out => Calls - Sampled}, it:lost(P)),
    it:equal("one render for each", Sampled,
             it:number(P, "select count(*) from slow_calls where trim(call) = 'it_marks:render/1' and async = ''")).

%% It serves, and a handler that raises has its answer.
alone(#{target := Target}) ->
    Port = it:call(Target, it_cowboy, start, [?STREAM]),
    it:call(Target, it_cowboy, http1, [Port, 1, ?REQUESTS ++ [{"GET", "/crash"}] ++ ?REQUESTS]).

middleware(T) ->
    P = profile(T, #{middlewares => [kprof_cowboy_middleware]}, tiers("do_apply, 4", "all"), http1(T)),
    N = ?CONNECTIONS * ?ROUNDS,
    it:equal("requests", [{"GET /read", 2 * N}, {"POST /write", N}], it:requests_by_identity(P)),
    it:equal("calls in time", [{"db", "GET /read", 2 * N}, {"db", "POST /write", 2 * N},
                               {"render", "GET /read", 2 * N}, {"render", "POST /write", N}],
             [{Tier, I, C} || {Tier, I, C, _} <- it:calls_by_tier(P), C > 0]),
    whole(P, it:outcome()).
