%% A load generator: many clients, each with a keep-alive connection, together
%% doing an exact number of requests, or as many as fit into a time.
%%
%%     sample_load:run(#{port => Port, clients => 64, requests => 200000,
%%                       mix => [{read, 50}, {create, 20}, {raise, 1}], think_ms => 0}).
%%
%% The n-th request is the same in every run of one mix, whoever of the clients
%% does it: so how many there are of each operation is known beforehand, and their
%% order has no period that a sampler could fall in with.
%%
%% A request whose connection breaks is made again until it is answered, and
%% counted under `errors`; a client that gets no answer for GIVE_UP_MS ends the run.
-module(sample_load).

-export([run/1, main/1]).

-define(GIVE_UP_MS, 30000).
-define(RECONNECT_MS, 50).
-define(PROGRESS_MS, 2000).
-define(KEYS, 1000).

%% Latencies are counted in classes of 2^(1/32), which makes percentiles right to about 1 %.
-define(CLASSES_PER_OCTAVE, 32).
-define(CLASSES, 32 * 32).

-record(client, {port, socket = none, buffer = <<>>, until, limit, mix, think_ms, shared}).
-record(shared, {tickets, done, errors, statuses, ops, latency, total_us}).

%% #{requests, errors, statuses, ops, seconds, rps, latency_ms}, or an exit
%% with {no_answer, Reason}.
run(Options) ->
    Defaults = #{clients => 64, requests => infinity, duration_ms => infinity, think_ms => 0, progress => false,
                 mix => [{read, 50}, {create, 20}, {update, 20}, {delete, 10}]},
    #{port := Port, clients := Clients, requests := Requests, duration_ms := Duration,
      think_ms := Think, mix := Mix, progress := Progress} = maps:merge(Defaults, Options),
    Start = erlang:monotonic_time(millisecond),
    Shared = new_shared(),
    Client = #client{port = Port, limit = Requests, until = later(Start, Duration), think_ms = Think,
                     mix = list_to_tuple(lists:append([lists:duplicate(N, Op) || {Op, N} <- Mix])),
                     shared = Shared},
    Monitors = [element(2, spawn_monitor(fun() -> client(Client) end)) || _ <- lists:seq(1, Clients)],
    await(maps:from_keys(Monitors, []), Shared, Progress, {Start, 0}),
    report(Shared, erlang:monotonic_time(millisecond) - Start).

%% load's command line: PORT CLIENTS REQUESTS|SECONDSs [THINK_MS [OP=N,...]]
main(Args) ->
    try options(Args) of
        Options ->
            try run(Options#{progress => true}) of
                Report -> io:put_chars(summary(Report)), halt(0)
            catch
                exit:Reason -> stop(1, "no answer: ~0p", [Reason])
            end
    catch
        error:_ -> stop(2, "usage: load EBIN PORT CLIENTS REQUESTS|SECONDSs [THINK_MS [OP=N,...]]", [])
    end.

stop(Code, Format, Args) ->
    io:format(standard_error, "load: " ++ Format ++ "~n", Args),
    halt(Code).

options([Port, Clients, Amount | More]) ->
    Options = maps:merge(#{port => list_to_integer(Port), clients => list_to_integer(Clients)}, amount(Amount)),
    case More of
        [] -> Options;
        [Think] -> Options#{think_ms => list_to_integer(Think)};
        [Think, Mix] -> Options#{think_ms => list_to_integer(Think), mix => mix(Mix)}
    end.

amount(Amount) ->
    case string:to_integer(Amount) of
        {N, ""} -> #{requests => N};
        {N, "s"} -> #{duration_ms => N * 1000}
    end.

mix(Text) ->
    [begin
         [Op, N] = string:split(Part, "="),
         _ = request(list_to_atom(Op), 1),
         {list_to_atom(Op), list_to_integer(N)}
     end || Part <- string:lexemes(Text, ",")].

later(_Start, infinity) -> infinity;
later(Start, Duration) -> Start + Duration.

new_shared() ->
    New = fun(Size) -> counters:new(Size, [write_concurrency]) end,
    #shared{tickets = atomics:new(1, []), done = New(1), errors = New(1), total_us = New(1),
            statuses = New(5), latency = New(?CLASSES), ops = ets:new(ops, [public, {write_concurrency, true}])}.

%% Wait for all clients, and say every two seconds how far they are.
await(Monitors, _Shared, _Progress, _Last) when map_size(Monitors) =:= 0 ->
    ok;
await(Monitors, Shared, Progress, {LastTime, LastDone} = Last) ->
    Next = max(0, LastTime + ?PROGRESS_MS - erlang:monotonic_time(millisecond)),
    receive
        {'DOWN', Ref, process, _, normal} -> await(maps:remove(Ref, Monitors), Shared, Progress, Last);
        {'DOWN', _, process, _, Reason} -> exit(Reason)
    after Next ->
        Now = erlang:monotonic_time(millisecond),
        Done = counters:get(Shared#shared.done, 1),
        [io:format(standard_error, "~b answered, ~b/s, ~b errors~n",
                   [Done, (Done - LastDone) * 1000 div max(1, Now - LastTime),
                    counters:get(Shared#shared.errors, 1)]) || Progress],
        await(Monitors, Shared, Progress, {Now, Done})
    end.

%% One client: take a ticket, do its request, think, until there are no more.
client(#client{limit = Limit, until = Until, shared = Shared} = C) ->
    Ticket = atomics:add_get(Shared#shared.tickets, 1, 1),
    case Ticket =< Limit andalso erlang:monotonic_time(millisecond) < Until of
        true ->
            Next = do(Ticket, C),
            think(C#client.think_ms),
            client(Next);
        false ->
            ok
    end.

%% Uniform around the mean, so that the clients do not fall into step.
think(0) -> ok;
think(Ms) -> receive after rand:uniform(2 * Ms + 1) - 1 -> ok end.

do(Ticket, #client{mix = Mix, shared = S} = C) ->
    Op = element(erlang:phash2({op, Ticket}) rem tuple_size(Mix) + 1, Mix),
    Bytes = request(Op, Ticket),
    Start = erlang:monotonic_time(microsecond),
    {Status, Next} = answered(Bytes, C, Start),
    Us = erlang:monotonic_time(microsecond) - Start,
    counters:add(S#shared.done, 1, 1),
    counters:add(S#shared.statuses, Status div 100, 1),
    counters:add(S#shared.total_us, 1, Us),
    counters:add(S#shared.latency, class(Us), 1),
    ets:update_counter(S#shared.ops, Op, 1, {Op, 0}),
    Next.

request(Op, Ticket) ->
    Key = integer_to_binary(erlang:phash2({key, Ticket}, ?KEYS)),
    case Op of
        read -> bytes(<<"GET">>, [<<"/kv/">>, Key], <<>>);
        create -> bytes(<<"POST">>, [<<"/kv/">>, Key], [<<"value=made-by-">>, integer_to_binary(Ticket)]);
        update -> bytes(<<"PUT">>, [<<"/kv/">>, Key], [<<"value=changed-by-">>, integer_to_binary(Ticket)]);
        delete -> bytes(<<"DELETE">>, [<<"/kv/">>, Key], <<>>);
        _ ->
            true = lists:member(Op, sample_fault:ops()),
            bytes(<<"POST">>, [<<"/fault/">>, atom_to_binary(Op)], <<"value=fault">>)
    end.

bytes(Method, Path, Body) ->
    iolist_to_binary([Method, $\s, Path, <<" HTTP/1.1\r\nhost: localhost\r\ncontent-length: ">>,
                      integer_to_binary(iolist_size(Body)), <<"\r\n\r\n">>, Body]).

%% Make the request until it is answered.
answered(Bytes, C, Start) ->
    case exchange(Bytes, C) of
        {ok, Status, Next} ->
            {Status, Next};
        {error, Reason} ->
            counters:add(C#client.shared#shared.errors, 1, 1),
            C#client.socket =/= none andalso gen_tcp:close(C#client.socket),
            erlang:monotonic_time(microsecond) - Start < ?GIVE_UP_MS * 1000 orelse exit({no_answer, Reason}),
            receive after ?RECONNECT_MS -> ok end,
            answered(Bytes, C#client{socket = none, buffer = <<>>}, Start)
    end.

exchange(Bytes, #client{socket = none, port = Port} = C) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true}], ?GIVE_UP_MS) of
        {ok, Socket} -> exchange(Bytes, C#client{socket = Socket});
        {error, _} = Error -> Error
    end;
exchange(Bytes, #client{socket = Socket} = C) ->
    case gen_tcp:send(Socket, Bytes) of
        ok -> receive_answer(C);
        {error, _} = Error -> Error
    end.

receive_answer(#client{socket = Socket, buffer = Buffer} = C) ->
    case split_answer(Buffer) of
        {ok, Status, Rest} ->
            {ok, Status, C#client{buffer = Rest}};
        more ->
            case gen_tcp:recv(Socket, 0, ?GIVE_UP_MS) of
                {ok, Bytes} -> receive_answer(C#client{buffer = <<Buffer/binary, Bytes/binary>>});
                {error, _} = Error -> Error
            end
    end.

%% An answer at the start of the bytes: our server always says its length, in lower case.
%% (`_/bits`, since what OTP 25 compiles `_/binary` to does not load in OTP 29.)
split_answer(Bytes) ->
    case binary:split(Bytes, <<"\r\n\r\n">>) of
        [<<"HTTP/1.1 ", Status:3/binary, _/bits>> = Head, Body] ->
            [_, Field] = binary:split(Head, <<"content-length: ">>),
            Length = binary_to_integer(hd(binary:split(Field, <<"\r\n">>))),
            case Body of
                <<_:Length/binary, Rest/binary>> -> {ok, binary_to_integer(Status), Rest};
                _ -> more
            end;
        _ ->
            more
    end.

%% The figures.

class(Us) ->
    min(?CLASSES, trunc(math:log2(max(1, Us)) * ?CLASSES_PER_OCTAVE) + 1).

report(S, Ms) ->
    Done = counters:get(S#shared.done, 1),
    Classes = [{Class, N} || Class <- lists:seq(1, ?CLASSES), (N = counters:get(S#shared.latency, Class)) > 0],
    Statuses = [{Hundred * 100, N} || Hundred <- lists:seq(1, 5), (N = counters:get(S#shared.statuses, Hundred)) > 0],
    #{requests => Done,
      errors => counters:get(S#shared.errors, 1),
      statuses => maps:from_list(Statuses),
      ops => maps:from_list(ets:tab2list(S#shared.ops)),
      seconds => Ms / 1000,
      rps => Done * 1000 / max(1, Ms),
      latency_ms => maps:from_list(
          [{mean, counters:get(S#shared.total_us, 1) / max(1, Done) / 1000}
           | [{Name, percentile(Classes, Q * Done)} || {Name, Q} <- percentiles()]])}.

percentiles() ->
    [{p50, 0.5}, {p90, 0.9}, {p99, 0.99}, {p999, 0.999}, {max, 1.0}].

percentile([], _Rank) -> 0.0;
percentile([{_, N} | More], Rank) when N < Rank, More =/= [] -> percentile(More, Rank - N);
percentile([{Class, _} | _], _Rank) -> math:pow(2, (Class - 0.5) / ?CLASSES_PER_OCTAVE) / 1000.

summary(#{requests := Requests, errors := Errors, seconds := Seconds, rps := Rps,
          latency_ms := Latency, statuses := Statuses, ops := Ops}) ->
    [io_lib:format("requests=~b errors=~b seconds=~.3f rps=~.1f", [Requests, Errors, Seconds, Rps]),
     [io_lib:format(" ~s_ms=~.3f", [Name, maps:get(Name, Latency)])
      || Name <- [mean | [Name || {Name, _} <- percentiles()]]],
     [io_lib:format(" ~bxx=~b", [Status div 100, N]) || {Status, N} <- lists:sort(maps:to_list(Statuses))],
     [io_lib:format(" ~s=~b", [Op, N]) || {Op, N} <- lists:sort(maps:to_list(Ops))],
     "\n"].
