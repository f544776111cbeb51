%% it_health - how a target fares while somebody does their worst in it: the most
%% memory it had, the longest gap of a ticker of 1 ms, and whether anything that
%% is nobody's business has come to kprofd.
%%
%% Memory is asserted: max_memory_mb and what may come on top of it before the
%% guard looks. The gap is told only: on a machine with other work it says more
%% about that.
-module(it_health).

-export([begins/1, ends/2, many/2]).
-export([marker/0, has/2, keeps_out/2, told_of/3]).
-export([peak/1, forget_peak/1]).

-define(MIB, 1048576).
-define(GROWTH_MIB, 64 + 32).
-define(CHUNK, 1048576).

%% N in CI, and as often as that where all of it is asked for (make hostile).
many(Few, Whole) ->
    case os:getenv("KPROFD_HOSTILE") of
        "whole" -> Whole;
        _ -> Few
    end.

%% From now on; before anything of the case happens in the target.
begins(Target) ->
    _ = it:call(Target, it_ticker, start, []),
    #{rss => forget_peak(Target)}.

%% It has grown by no more than max_memory_mb and 32 MiB. Gives it as text, for a note.
ends(Target, #{rss := Rss}) ->
    Gap = it:call(Target, it_ticker, longest_us, []),
    ok = it:call(Target, it_ticker, stop, []),
    Grew = max(0, peak(Target) - Rss),
    it:check(Grew =< (?GROWTH_MIB) * ?MIB, "the target grew by ~.1f MiB, and may by ~b", [Grew / ?MIB, ?GROWTH_MIB]),
    io_lib:format("grew by ~.1f MiB, longest gap ~.1f ms", [Grew / ?MIB, Gap / 1000]).

%% ------------------------------------------------------------- memory ----

%% The most it had since then, in bytes, by the kernel's account.
peak(#{pid := Pid}) ->
    {ok, Text} = file:read_file(io_lib:format("/proc/~b/status", [Pid])),
    {match, [Kb]} = re:run(Text, "VmHWM:\\s+([0-9]+)", [{capture, [1], list}]),
    list_to_integer(Kb) * 1024.

%% What it has now is the most from now on.
forget_peak(#{pid := Pid} = Target) ->
    ok = file:write_file(io_lib:format("/proc/~b/clear_refs", [Pid]), "5"),
    peak(Target).

%% ----------------------------------------------- nothing foreign there ----

%% Put into arguments and values that kprofd is never to see: random, and found
%% in memory as it stands here.
marker() ->
    <<"it-foreign-", (binary:encode_hex(crypto_free_random()))/binary>>.

crypto_free_random() ->
    << <<(rand:uniform(256) - 1)>> || _ <- lists:seq(1, 12) >>.

%% Is it anywhere in this process's memory, freed or not?
has(#{pid := Pid}, Marker) ->
    {ok, Maps} = file:read_file(io_lib:format("/proc/~b/maps", [Pid])),
    {ok, Mem} = file:open(io_lib:format("/proc/~b/mem", [Pid]), [read, raw, binary]),
    try
        lists:any(fun({From, To}) -> is_in(Mem, From, To, Marker) end, writable(Maps))
    after
        file:close(Mem)
    end.

%% What it may have been read into; not the code's.
writable(Maps) ->
    [{binary_to_integer(From, 16), binary_to_integer(To, 16)}
     || Line <- binary:split(Maps, <<"\n">>, [global]),
        {match, [From, To]} <- [re:run(Line, "^([0-9a-f]+)-([0-9a-f]+) rw", [{capture, all_but_first, binary}])]].

%% Each part overlaps the next by a marker's length.
is_in(_, From, To, _) when From >= To ->
    false;
is_in(Mem, From, To, Marker) ->
    case file:pread(Mem, From, min(?CHUNK + byte_size(Marker), To - From)) of
        {ok, Bytes} -> binary:match(Bytes, Marker) =/= nomatch orelse is_in(Mem, From + ?CHUNK, To, Marker);
        _ -> is_in(Mem, From + ?CHUNK, To, Marker)      % gone meanwhile
    end.

keeps_out(P, Marker) ->
    it:check(not has(P, Marker), "~s has ~s in its memory, an argument or a value of somebody else's",
             [maps:get(name, P), Marker]).

%% Its log, and its events of this kind, say so.
told_of(P, Kind, Pattern) ->
    it:saw(P, ["^kprofd: .*", Pattern]),
    it:until(["an event of kind ", atom_to_list(Kind), " that says ", Pattern],
             fun() ->
                     lists:any(fun([Text]) -> re:run(Text, Pattern) =/= nomatch end,
                               it:sql(P, lists:concat(["select text from events where kind = '", Kind, "'"])))
             end).
