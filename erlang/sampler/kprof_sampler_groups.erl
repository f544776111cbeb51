%% kprof_sampler_groups - numbers the groups that sampled processes belong to (kprof_names).
%%
%% A process answers for itself, and one in native code not at all meanwhile: so a namer asks, in a
%% process of its own, which is replaced where it waits too long.
-module(kprof_sampler_groups).

-export([new/0, name_all/2, asked_for/1, named/3, look/1, number/3, new_names/1, namer_of/1,
         namer_stop/1]).
-export_type([groups/0]).

-import(kprof_injected, [process_label/2]).
-import(kprof_names, [group_name/1, outermost/2]).

-define(PIDS_MAX, 20000).       % that are known: some MB
-define(GROUPS_MAX, 1000).      % a report of more helps nobody
-define(WAITING_MAX, 1000).     % processes to be named
-define(NAMER_WORDS, 4000000).  % of the namer's memory, with a dictionary and its collection
-define(OTHERS, 1).             % the number of the group past the last

-type news() :: {Number :: pos_integer(), Name :: binary(), Application :: atom()}
              | {pos_integer(), binary(), atom(), one}.

-record(groups, {
    namer :: pid(),
    waiting = #{} :: #{pid() => []},
    asked_for = 0 :: non_neg_integer(), % so far
    asked = queue:new() :: queue:queue(pid()),  % in order
    stuck = none :: none | pid(),       % whose answer was awaited at the last look
    pids = #{} :: #{pid() => none | {kprof_names:name(), atom()}},
    numbers = #{} :: #{others | {kprof_names:name(), atom()} => pos_integer()},
    news = [] :: [news()]       % to be sent
}).
-opaque groups() :: #groups{}.

-spec new() -> groups().
new() ->
    #groups{namer = namer_start()}.

%% Processes that were sampled, and so are to be named.
-spec name_all([pid()], groups()) -> groups().
name_all(Pids, G) ->
    lists:foldl(fun name_one/2, G, Pids).

name_one(P, #groups{pids = Pids, waiting = Waiting} = G)
  when is_map_key(P, Pids); is_map_key(P, Waiting); map_size(Waiting) >= ?WAITING_MAX ->
    G;
name_one(P, #groups{namer = Namer, waiting = Waiting, asked = Asked, asked_for = N} = G) ->
    Namer ! {name, P},
    G#groups{asked_for = N + 1, waiting = Waiting#{P => []}, asked = queue:in(P, Asked)}.

%% Names, of processes, that were asked for.
-spec asked_for(groups()) -> non_neg_integer().
asked_for(#groups{asked_for = N}) -> N.

%% The namer's answer: {kprof_named, Process, Name}.
-spec named(pid(), none | {kprof_names:name(), atom()}, groups()) -> groups().
named(P, Name, #groups{pids = Pids0, waiting = Waiting, asked = Asked} = G)
  when is_map_key(P, Waiting) ->
    Pids = if map_size(Pids0) >= ?PIDS_MAX -> #{}; true -> Pids0 end,
    G#groups{pids = Pids#{P => Name}, waiting = maps:remove(P, Waiting),
             asked = queue:delete(P, Asked)};
named(_, _, G) -> G.

%% Called now and then: a process that has not answered since the last time has no name.
-spec look(groups()) -> groups().
look(#groups{asked = Asked, stuck = Stuck} = G0) ->
    case queue:peek(Asked) of
        {value, Stuck} ->
            exit(G0#groups.namer, kill),
            G = named(Stuck, none, G0#groups{namer = namer_start(), stuck = none}),
            [G#groups.namer ! {name, P} || P <- queue:to_list(G#groups.asked)],
            G;
        {value, First} -> G0#groups{stuck = First};
        empty -> G0#groups{stuck = none}
    end.

%% The number of a process's group, 0 for none. One that ended before it was named is in the group
%% of the outermost function on its stack, unless that may have been cut off.
-spec number(pid(), not_seen | {[tuple()], pos_integer()}, groups()) ->
          {non_neg_integer(), groups()}.
number(P, Stack, #groups{pids = Pids} = G) ->
    case Pids of
        #{P := {<<>>, App}} -> group(outermost(Stack), App, G);
        #{P := {Name, App}} -> group(Name, App, G);
        _ -> group(outermost(Stack), undefined, G)
    end.

group(none, _, G) -> {0, G};
group(Name, App, #groups{numbers = Numbers, news = News} = G) ->
    Key = {Name, App},
    case Numbers of
        #{Key := N} -> {N, G};
        _ when map_size(Numbers) >= ?GROUPS_MAX -> others(G);
        _ ->
            N = map_size(Numbers) + ?OTHERS + 1,
            {N, G#groups{numbers = Numbers#{Key => N}, news = [news(N, Name, App) | News]}}
    end.

news(N, {registered, Name}, App) -> {N, Name, App, one};
news(N, Name, App) -> {N, Name, App}.

others(#groups{numbers = Numbers, news = News} = G) when not is_map_key(others, Numbers) ->
    Name = iolist_to_binary(io_lib:format("(past ~b groups)", [?GROUPS_MAX])),
    {?OTHERS, G#groups{numbers = Numbers#{others => ?OTHERS},
                       news = [{?OTHERS, Name, undefined} | News]}};
others(G) -> {?OTHERS, G}.

%% The groups that the client has not been told of.
-spec new_names(groups()) -> {[news()], groups()}.
new_names(#groups{news = News} = G) ->
    {lists:reverse(News), G#groups{news = []}}.

-spec namer_of(groups()) -> pid().
namer_of(#groups{namer = Namer}) -> Namer.

-spec namer_stop(groups()) -> true.
namer_stop(#groups{namer = Namer}) -> exit(Namer, kill).

%% The name by the stack and its greatest depth.
outermost({Frames, Depth}) -> outermost(Frames, Depth);
outermost(not_seen) -> none.

namer_start() ->
    Server = self(),
    spawn_opt(fun() ->
                      process_label(kprof_sampler, namer),
                      _ = erlang:monitor(process, Server),
                      namer(Server)
              end,
              [{max_heap_size, #{size => ?NAMER_WORDS, kill => true, error_logger => false}}]).

namer(Server) ->
    receive
        {name, P} ->
            Server ! {kprof_named, P, try group_name(P) catch _:_ -> none end},
            namer(Server);
        {'DOWN', _, process, Server, _} -> ok
    end.
