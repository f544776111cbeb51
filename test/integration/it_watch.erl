%% it_watch - who is told, in the target, of calls that concern all processes, and of
%% a port's data that somebody else traces.
-module(it_watch).

-export([start/0, calls/0, port/0, ported/1, port_of/1]).

%% BIFs that can name all processes; `new` ones are a setting, which stops nobody.
-define(BIFS, [{erlang, trace, 3}, {trace, process, 4}]).

%% Meta tracing sees a call whoever makes it. The ways to name all are none that a
%% profiler needs: it visits processes one by one.
start() ->
    Watch = spawn(fun() -> watch([]) end),
    register(?MODULE, Watch),
    _ = code:ensure_loaded(trace),
    Spec = [{args(MFA, What), [], []} || MFA <- [erlang], What <- all()],
    1 = erlang:trace_pattern({erlang, trace, 3}, Spec, [{meta, Watch}]),
    case erlang:function_exported(trace, process, 4) of
        true -> 1 = erlang:trace_pattern({trace, process, 4}, [{args(trace, What), [], []} || What <- all()], [{meta, Watch}]);
        false -> ok
    end,
    %% That it sees them.
    erlang:trace(processes, false, [call]),
    [{erlang, trace, [processes, false, [call]]}] = calls(),
    ok.

all() ->
    [all, existing, processes, existing_processes, ports, existing_ports, new_ports, new].

args(erlang, What) -> [What, '_', '_'];
args(trace, What) -> ['_', What, '_', '_'].

%% Those since the last time.
calls() ->
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, _, Ref} -> ok end,
    ?MODULE ! {calls, self()},
    receive {calls, Calls} -> Calls end.

watch(Calls) ->
    receive
        {calls, From} ->
            From ! {calls, lists:reverse(Calls)},
            watch([]);
        {trace_ts, _, call, MFA, _} -> watch([MFA | Calls]);
        {trace_ts, _, call, MFA, _, _} -> watch([MFA | Calls]);
        _ -> watch(Calls)
    end.

%% A port whose data somebody traces; it sends back what it is sent.
port() ->
    Self = self(),
    Owner = spawn(fun() ->
                          Port = open_port({spawn, "cat"}, [binary]),
                          Told = spawn(fun() -> told([]) end),
                          register(it_port_told, Told),
                          1 = erlang:trace(Port, true, [ports, send, 'receive', {tracer, Told}]),
                          Self ! {port, self(), Port},
                          owner(Port)
                  end),
    register(it_port, Owner),
    receive {port, Owner, Port} -> port_of(Port) end.

owner(Port) ->
    receive
        {echo, From, Data} ->
            true = port_command(Port, Data),
            receive {Port, {data, Data}} -> From ! {echoed, Data} end,
            owner(Port);
        {which, From} ->
            From ! {port, self(), Port},
            owner(Port)
    end.

told(Events) ->
    receive
        {told, From} ->
            From ! {told, Events},
            told([]);
        Event -> told([element(3, Event) | Events])
    end.

%% Its data goes to and fro: of what its tracer was told, and how the port is traced.
ported(Data) ->
    it_port ! {which, self()},
    Port = receive {port, _, P} -> P end,
    it_port ! {echo, self(), Data},
    receive {echoed, Data} -> ok end,
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, _, Ref} -> ok end,
    it_port_told ! {told, self()},
    receive {told, Events} -> {lists:usort(Events), port_of(Port)} end.

port_of(Port) ->
    {flags, Flags} = erlang:trace_info(Port, flags),
    {tracer, Tracer} = erlang:trace_info(Port, tracer),
    {lists:sort(Flags), Tracer =:= whereis(it_port_told)}.
