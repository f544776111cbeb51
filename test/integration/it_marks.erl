%% it_marks - programs that mark their requests with kprof's functions, for
%% mark_tests. Each runs in the target and knows how many calls it makes.
-module(it_marks).

-export([cleared/1, uncleared/1, applied/1, wrapped/1, kept/2, streams/1, nested/1, deep_end/1, raising/1,
         alone/0, unmarked/0, dying/1, elsewhere/1, mixed/1, deferred/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export([db/1, render/1, parse/1, raise/1, begin_request/0, answer/1, page/1, handle_simple/3]).

%% ------------------------------------------------------ tier functions ----

db(Ms) ->
    receive after Ms -> ok end.

render(Kind) ->
    atom_to_list(Kind).

parse(Text) ->
    binary_to_atom(Text).

raise(Why) ->
    error(Why).

%% As its last act: both end with one event.
begin_request() ->
    kprof:set_token().

%% Work in another process, waited for.
page(Kind) ->
    Me = self(),
    Pid = spawn(fun() -> ?MODULE:db(1), Me ! {self(), ?MODULE:render(Kind)} end),
    receive {Pid, Page} -> Page end.

answer(Kind) ->
    Page = page(Kind),
    kprof:clear_token(),
    Page.

%% Every process is one that kprofd has not seen before.
run(Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({done, Fun()}) end),
    receive {'DOWN', Ref, process, Pid, {done, Result}} -> Result end.

repeat(N, Fun) ->
    [Fun(I) || I <- lists:seq(1, N)],
    N.

kind(I) -> element(I rem 2 + 1, {read, write}).

%% ------------------------------------------------------------ programs ----

%% Two in a row and more, in one process: db twice, once in another process.
cleared(N) ->
    run(fun() -> repeat(N, fun one_cleared/1) end).

one_cleared(I) ->
    kprof:set_token(kind(I)),
    ?MODULE:db(1),
    page(kind(I)),
    kprof:clear_token(),
    ?MODULE:db(0).      % nobody's

%% Nobody clears: the next one ends it.
uncleared(N) ->
    run(fun() ->
                repeat(N, fun(I) -> kprof:set_token(kind(I)), ?MODULE:db(0), ok end),
                kprof:clear_token()
        end),
    N.

applied(N) ->
    run(fun() -> repeat(N, fun one_applied/1) end).

one_applied(I) ->
    Kind = kind(I),
    Page = atom_to_list(Kind),
    Page = kprof:do_apply(?MODULE, page, [Kind]),
    Page = kprof:do_apply(Kind, ?MODULE, page, [Kind]),
    Page = kprof:run(fun ?MODULE:page/1, [Kind]),
    Page = kprof:run(Kind, fun ?MODULE:page/1, [Kind]),
    %% What is applied is a tier function itself.
    Page = kprof:do_apply(?MODULE, render, [Kind]).

wrapped(N) ->
    Fun = kprof:wrap(fun ?MODULE:page/1),
    Named = kprof:wrap(named, fun(_, Kind) -> ?MODULE:page(Kind) end),
    run(fun() ->
                repeat(N, fun(I) ->
                                  Page = Fun(kind(I)),
                                  Page = Named(I, kind(I))
                          end)
        end).

%% A server that keeps its connection: reads, parses, and has the request done
%% by a wrapped fun, as misultin's loop was. The token stays behind in it until
%% it is cleared.
kept(N, Clear) ->
    {ok, L} = gen_tcp:listen(0, [binary, {packet, line}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(L),
    Server = spawn_monitor(fun() ->
                                   {ok, S} = gen_tcp:accept(L),
                                   kept_loop(S, kprof:wrap(fun ?MODULE:page/1), Clear)
                           end),
    {ok, C} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, line}, {active, false}]),
    repeat(N, fun(I) ->
                      ok = gen_tcp:send(C, [atom_to_list(kind(I)), $\n]),
                      {ok, _} = gen_tcp:recv(C, 0)
              end),
    ok = gen_tcp:close(C),
    {Pid, Ref} = Server,
    receive {'DOWN', Ref, process, Pid, normal} -> N end.

kept_loop(S, Handle, Clear) ->
    case gen_tcp:recv(S, 0) of
        {ok, Line} ->
            Page = Handle(?MODULE:parse(binary:part(Line, 0, byte_size(Line) - 1))),
            ok = gen_tcp:send(S, [Page, $\n]),
            Clear andalso kprof:clear_token(),
            kept_loop(S, Handle, Clear);
        {error, closed} ->
            ok
    end.

%% One process holds two requests, each worked on by a process of its own.
streams(N) ->
    run(fun() ->
                repeat(N, fun(_) ->
                                  A = stream(read),
                                  B = stream(write),
                                  ended(A),
                                  ended(B),
                                  [] = seq_trace:get_token()
                          end)
        end).

stream(Kind) ->
    kprof:set_token(Kind),
    Me = self(),
    Pid = spawn(fun() -> Me ! {self(), ?MODULE:page(Kind)} end),
    {Pid, kprof:detach()}.

%% The message brings the worker's token: it is put away.
ended({Pid, Token}) ->
    receive {Pid, _} -> ok end,
    kprof:detach(),
    kprof:clear_token(Token).

%% A request inside a request.
nested(N) ->
    run(fun() ->
                repeat(N, fun(_) ->
                                  kprof:set_token(outer),
                                  ?MODULE:db(0),
                                  kprof:run(inner, fun ?MODULE:page/1, [read]),
                                  ?MODULE:db(0),
                                  kprof:clear_token()
                          end)
        end).

%% Set by one function as its last act, cleared by another, deep inside.
deep_end(N) ->
    run(fun() ->
                repeat(N, fun(I) ->
                                  ?MODULE:begin_request(),
                                  ?MODULE:answer(kind(I))
                          end)
        end).

%% Through do_apply and run; who catches is told what was raised, and where.
raising(N) ->
    run(fun() -> repeat(N, fun one_raising/1) end).

one_raising(I) ->
    caught(fun() -> kprof:do_apply(?MODULE, raise, [I]) end, I, do_apply, 3),
    caught(fun() -> kprof:run(fun ?MODULE:raise/1, [I]) end, I, run, 2),
    {thrown, I} = (catch kprof:run(raising, fun() -> throw({thrown, I}) end, [])),
    {'EXIT', I} = (catch kprof:do_apply(raising, erlang, exit, [I])).

caught(Fun, I, By, Arity) ->
    try Fun() of
        _ -> error(not_raised)
    catch error:I:Stack ->
            [{?MODULE, raise, 1, _}, {kprof, By, Arity, _} | _] = Stack,
            ok
    end.

%% Where nobody profiles no token is set, and nothing is changed.
alone() ->
    run(fun() ->
                [begin
                     one_cleared(I), one_applied(I), one_raising(I)
                 end || I <- [1, 2]],
                [6 = apply(kprof:wrap(F), lists:sublist([1, 1, 1, 1, 2], A))
                 || {A, F} <- [{1, fun(X) -> X + 5 end}, {2, fun(X, Y) -> X + Y + 4 end},
                               {3, fun(X, Y, Z) -> X + Y + Z + 3 end},
                               {4, fun(X, Y, Z, U) -> X + Y + Z + U + 2 end},
                               {5, fun(X, Y, Z, U, V) -> X + Y + Z + U + V end}]],
                [6 = apply(kprof:wrap(x, F), lists:sublist([1, 1, 1, 1, 2], A))
                 || {A, F} <- [{1, fun(X) -> X + 5 end}, {2, fun(X, Y) -> X + Y + 4 end},
                               {3, fun(X, Y, Z) -> X + Y + Z + 3 end},
                               {4, fun(X, Y, Z, U) -> X + Y + Z + U + 2 end},
                               {5, fun(X, Y, Z, U, V) -> X + Y + Z + U + V end}]],
                ok = (kprof:wrap(fun() -> ok end))(),
                ok = (kprof:wrap(x, fun() -> ok end))(),
                {'EXIT', {function_clause, _}} = (catch kprof:wrap(fun(_, _, _, _, _, _) -> ok end)),
                {'EXIT', {undef, [{?MODULE, none, [1], _} | _]}} = (catch kprof:do_apply(?MODULE, none, [1])),
                [] = kprof:detach(),
                ok = kprof:attach([]),
                ok = kprof:clear_token([]),
                %% Somebody else's token is theirs.
                seq_trace:set_token(label, mine),
                Token = seq_trace:get_token(),
                ok = kprof:set_token(), ok = kprof:set_token(x), ok = kprof:clear_token(),
                Token = seq_trace:get_token(),
                Aside = kprof:detach(),
                [] = seq_trace:get_token(),
                ok = kprof:attach(Aside),
                {label, mine} = seq_trace:get_token(label),
                ok = kprof:clear_token(kprof:detach()),
                seq_trace:get_token()
        end).

%% Cleared, and nothing was set.
unmarked() ->
    run(fun() -> kprof:clear_token(), ?MODULE:db(0), kprof:clear_token(), ok end).

dying(N) ->
    repeat(N, fun(_) ->
                      {Pid, Ref} = spawn_monitor(fun() -> kprof:set_token(dying), ?MODULE:db(0) end),
                      receive {'DOWN', Ref, process, Pid, normal} -> ok end
              end).

%% Another process has the request, and ends it.
elsewhere(N) ->
    run(fun() ->
                repeat(N, fun(I) ->
                                  kprof:set_token(kind(I)),
                                  {Pid, Ref} = spawn_monitor(fun() -> ?MODULE:db(1), kprof:clear_token() end),
                                  kprof:detach(),
                                  receive {'DOWN', Ref, process, Pid, normal} -> ok end
                          end)
        end).

%% A gen_server answers each call later, in another callback, when it has taken
%% all of them; and has simple calls in between.
deferred(N) ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    Clients = [element(2, spawn_monitor(fun() -> I = gen_server:call(Server, {order, I}) end))
               || I <- lists:seq(1, N)],
    [plain = gen_server:call(Server, {simple, I}) || I <- lists:seq(1, N)],
    timer:sleep(20),
    [Server ! {delivered, I} || I <- lists:seq(N, 1, -1)],
    [receive {'DOWN', Ref, process, _, Why} -> normal = Why end || Ref <- Clients],
    gen_server:stop(Server),
    N.

init([]) -> {ok, #{}}.

handle_call({order, I}, From, State) ->
    kprof:set_token(kind(I)),
    ?MODULE:db(0),
    {noreply, State#{I => {From, kprof:detach()}}};
handle_call(Msg, From, State) ->
    kprof:do_apply(element(1, Msg), ?MODULE, handle_simple, [Msg, From, State]).

handle_cast(_, State) -> {noreply, State}.

handle_info({delivered, I}, State) ->
    {{From, Token}, Rest} = maps:take(I, State),
    kprof:attach(Token),
    ?MODULE:render(kind(I)),
    gen_server:reply(From, I),
    kprof:clear_token(),
    {noreply, Rest}.

handle_simple(_, _, State) ->
    ?MODULE:db(0),
    {reply, plain, State}.

%% From several processes at once, each in its own way.
mixed(N) ->
    Ways = [fun cleared/1, fun uncleared/1, fun applied/1, fun wrapped/1],
    Refs = [element(2, spawn_monitor(fun() -> F(N) end)) || F <- Ways],
    [receive {'DOWN', Ref, process, _, normal} -> ok end || Ref <- Refs],
    N.
