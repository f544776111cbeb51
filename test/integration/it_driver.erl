%% it_driver - load from inside the target, as much as it can bear, and the
%% truth of it: how many requests were begun, which of them were inside others,
%% and what sampling did to their tokens, which a program sees itself; and large
%% values.
-module(it_driver).

-export([start/1, stop/1, handle/1, paced/1, nested/2, values/2]).
-export([outer/2, inner/1, serve/0, value/1]).

%% ------------------------------------------- the sample application's ----

%% Processes that handle one request after the other.
start(N) ->
    [spawn(fun() -> drive(0) end) || _ <- lists:seq(1, N)].

%% How many they have handled.
stop(Pids) ->
    lists:sum([begin
                   Ref = erlang:monitor(process, P),
                   P ! {stop, self(), Ref},
                   receive
                       {Ref, N} -> erlang:demonitor(Ref, [flush]), N;
                       {'DOWN', Ref, _, _, Why} -> error(Why)
                   end
               end || P <- Pids]).

drive(N) ->
    receive
        {stop, From, Ref} -> From ! {Ref, N}
    after 0 ->
            drive(N + handle(1))
    end.

handle(0) -> 0;
handle(N) ->
    Bytes = requests:handle_request(read, #{op => read, key => <<"k">>, body => <<>>, fault => none}),
    true = is_binary(Bytes),
    handle(N - 1) + 1.

%% As fast as one relay can follow, on any machine.
paced(0) -> 0;
paced(N) ->
    Some = handle(min(N, 50)),
    receive after 5 -> ok end,
    Some + paced(N - Some).

%% ------------------------------------------------ requests in requests ----

%% N outer ones, each with an inner one, here or in a server. How many of them
%% have a token, how many pairs have both, and how many outer ones lost theirs
%% to an inner one that got none.
nested(N, Where) ->
    Me = self(),
    Pid = spawn(fun() -> Me ! {self(), pairs(N, server(Where), #{outer => 0, inner => 0, both => 0, cut => 0})} end),
    receive {Pid, Counts} -> Counts end.

server(here) -> none;
server(elsewhere) -> spawn_link(fun() -> ?MODULE:serve() end).

pairs(0, _, Counts) -> Counts;
pairs(N, Server, Counts) ->
    %% One relay can follow.
    N rem 100 =:= 0 andalso receive after 5 -> ok end,
    {Outer, Inner, After} = ?MODULE:outer(Server, N),
    Is = fun(true) -> 1; (false) -> 0 end,
    pairs(N - 1, Server,
          #{outer => map_get(outer, Counts) + Is(Outer =/= []),
            inner => map_get(inner, Counts) + Is(Inner =/= []),
            both => map_get(both, Counts) + Is(Outer =/= [] andalso Inner =/= []),
            cut => map_get(cut, Counts) + Is(Outer =/= [] andalso After =:= [])}).

outer(Server, N) ->
    Outer = seq_trace:get_token(label),
    Inner = ask(Server, N),
    {Outer, Inner, seq_trace:get_token(label)}.

ask(none, N) ->
    Inner = ?MODULE:inner(N),
    Inner;
ask(Server, N) ->
    Server ! {self(), N},
    receive {Server, Inner} -> Inner end.

serve() ->
    receive {From, N} ->
            Inner = ?MODULE:inner(N),
            From ! {self(), Inner},
            ?MODULE:serve()
    end.

inner(_) ->
    seq_trace:get_token(label).

%% ------------------------------------------------------ large values ----

%% One request, which asks N times for a list of this length.
values(N, Length) ->
    lists:foreach(fun(_) -> Length = length(?MODULE:value(Length)) end, lists:seq(1, N)).

value(Length) ->
    lists:duplicate(Length, 0).
