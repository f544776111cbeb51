%% kprof_agent_library - the native probe's library where the target has no file of it: kprofd
%% sends the file, which is here for as long as it takes to load it.
%%
%% The operator of a node keeps such libraries out by {kprof, [{accept_library, false}]} in its
%% configuration.
%%
%% A process of its own, the keeper, writes the file and deletes it: also when the agent is killed
%% meanwhile, and when a file system hangs, for which the agent waits for seconds only.
-module(kprof_agent_library).

-export([library_accepts/1, library_load/2]).

-import(kprof_injected, [now_ms/0, spawn_monitored/3]).

-include_lib("kernel/include/file.hrl").

-define(LOAD_MS, 5000).         % all of it; less than a step of kprofd
-define(SLOTS, 32).             % directories of this many nodes in one place at the same moment
-define(LEFT_S, 60).            % what is older was left by a node that was killed meanwhile
-define(NAME, "kprofd-probe.").
-define(FILE_NAME, "kprof_probe.so").

%% Is a library for this machine, such as x86_64, one for this node? It needs Linux, and no C
%% library in particular.
-spec library_accepts(binary()) -> ok | {error, binary()}.
library_accepts(Machine) ->
    Wanted = {binary_to_list(Machine), linux},
    case {kprof_injected:configured(accept_library), node_kind()} of
        {{ok, false}, _} ->
            library_error("it accepts no library: {kprof, [{accept_library, false}]} is in its"
                          " configuration", []);
        {_, Wanted} -> ok;
        {_, {OurMachine, System}} ->
            library_error("it is on ~ts with ~ts, and kprofd's library is for ~ts with linux",
                          [OurMachine, System, Machine])
    end.

%% x86_64-pc-linux-gnu, aarch64-unknown-linux-musl, x86_64-apple-darwin23.1.0
node_kind() ->
    {_, System} = os:type(),
    {hd(string:lexemes(erlang:system_info(system_architecture), "-")), System}.

%% Try is called with the path, without its extension, of a file with these bytes, in one place
%% after the other until it is content. The file is gone when this returns, unless its file
%% system hangs.
-spec library_load(binary(), fun((file:filename()) -> ok | {error, term()})) ->
          ok | {error, binary()}.
library_load(Bytes, Try) ->
    Agent = self(),
    Keeper = spawn_monitored(kprof_agent, library,
                             fun() -> library_keep(library_places(), Agent, Bytes) end),
    library_load(Keeper, now_ms() + ?LOAD_MS, Try, []).

library_load({Pid, Ref} = Keeper, Deadline, Try, Why) ->
    case library_next(Keeper, Deadline) of
        {written, Place, Path} ->
            case Try(Path) of
                ok -> library_finish(Keeper, Deadline, ok);
                {error, Reason} ->
                    Tried = [{Place, format_error(Reason)} | Why],
                    case is_noexec(Reason) of
                        true ->
                            Pid ! {self(), next},
                            library_load(Keeper, Deadline, Try, Tried);
                        false ->
                            library_finish(Keeper, Deadline, places_error(Tried))
                    end
            end;
        {not_written, Place, Reason} ->
            library_load(Keeper, Deadline, Try, [{Place, format_error(Reason)} | Why]);
        ended when Why =:= [] ->
            library_error("the process that writes it has died", []);
        ended -> places_error(Why);
        late ->
            erlang:demonitor(Ref, [flush]),
            library_error("its file could not be written within ~b s", [?LOAD_MS div 1000])
    end.

%% Waits until the file is deleted.
library_finish({Pid, Ref} = Keeper, Deadline, Result) ->
    Pid ! {self(), done},
    _ = library_next(Keeper, Deadline),
    erlang:demonitor(Ref, [flush]),
    Result.

library_next({Pid, Ref}, Deadline) ->
    receive
        {library, Pid, What} -> What;
        {'DOWN', Ref, process, Pid, _} -> ended
    after max(0, Deadline - now_ms()) ->
            Pid ! {self(), done},
            late
    end.

places_error(Why) ->
    Texts = [[Place, ": ", Text] || {Place, Text} <- lists:reverse(Why)],
    library_error("~ts", [lists:join("; ", Texts)]).

%% What the loaders of glibc and of musl say where the file system is mounted noexec.
is_noexec({load_failed, Text}) ->
    lists:any(fun(Said) -> string:find(Text, Said) =/= nomatch end,
              ["failed to map segment", "Operation not permitted"]);
is_noexec(_) -> false.

format_error({_, Text} = Why) when is_list(Text) ->
    case is_noexec(Why) of
        true -> "nothing there may be executed (noexec)";
        false -> Text
    end;
format_error(enospc) -> "no space is left there";
format_error(erofs) -> "it is mounted read-only";
format_error(eacces) -> "permission denied";
format_error(enoent) -> "it does not exist";
format_error(enotdir) -> "it is not a directory";
format_error(Reason) -> io_lib:format("~0tP", [Reason, 12]).

library_error(Format, Args) ->
    {error, unicode:characters_to_binary(io_lib:format(Format, Args))}.

%% ------------------------------------------------------------- the keeper ----

library_places() ->
    Usual = ["/tmp", "/dev/shm"],
    Given = [os:getenv("TMPDIR", "")] -- Usual,
    [Dir || Dir <- Given, filename:pathtype(Dir) =:= absolute] ++ Usual.

library_keep(Places, Agent, Bytes) ->
    library_keep(Places, Agent, erlang:monitor(process, Agent), Bytes).

library_keep([], _, _, _) -> true;
library_keep([Place | More], Agent, Ref, Bytes) ->
    case make_dir(Place, erlang:phash2({node(), os:getpid()}, ?SLOTS), ?SLOTS) of
        {ok, Dir} ->
            Then = try library_keep_in(Dir, Place, Agent, Ref, Bytes)
                   after del_dir(Dir)
                   end,
            Then =:= done orelse library_keep(More, Agent, Ref, Bytes);
        {error, Why} ->
            library_not_written(Place, Why, Agent),
            library_keep(More, Agent, Ref, Bytes)
    end.

library_keep_in(Dir, Place, Agent, Ref, Bytes) ->
    case write_file(Dir, Bytes) of
        ok ->
            library_sweep(Place, Dir),
            Path = filename:join(Dir, filename:rootname(?FILE_NAME)),
            Agent ! {library, self(), {written, Place, Path}},
            receive
                {Agent, What} -> What;
                {'DOWN', Ref, process, Agent, _} -> done
            end;
        {error, Why} -> library_not_written(Place, Why, Agent)
    end.

library_not_written(Place, Why, Agent) ->
    Agent ! {library, self(), {not_written, Place, Why}},
    next.

%% One that is not there yet.
make_dir(_, _, 0) ->
    {error, {full, ?NAME "*: they are left from earlier probes (remove them)"}};
make_dir(Place, Slot, N) ->
    Dir = filename(Place, Slot),
    case file:make_dir(Dir) of
        ok -> {ok, Dir};
        {error, eexist} -> make_dir(Place, (Slot + 1) rem ?SLOTS, N - 1);
        {error, _} = Error -> Error
    end.

filename(Place, Slot) ->
    filename:join(Place, ?NAME ++ integer_to_list(Slot)).

%% Nobody else can put a file into the directory once its mode is set, and the file is made here or
%% not at all: nobody else has it open. It is read again before anything in it is executed.
write_file(Dir, Bytes) ->
    File = filename:join(Dir, ?FILE_NAME),
    try
        ok = file:change_mode(Dir, 8#700),
        {ok, Fd} = file:open(File, [write, exclusive, raw, binary]),
        Written = file:write(Fd, Bytes),
        ok = file:close(Fd),
        ok = Written,
        ok = file:change_mode(File, 8#600),
        {ok, Again} = file:read_file(File),
        case Again of
            Bytes -> ok;
            _ -> {error, {changed, "the file is not what was written"}}
        end
    catch
        error:{badmatch, {error, _} = Error} -> Error
    end.

%% What a node left that was killed while it loaded a library. Only this user's own: nobody else
%% can exchange those meanwhile.
library_sweep(Place, Ours) ->
    Old = erlang:system_time(second) - ?LEFT_S,
    [del_dir(Dir)
     || {ok, #file_info{uid = User}} <- [read_link_info(Ours)], N <- lists:seq(0, ?SLOTS - 1),
        Dir <- [filename(Place, N)], Dir =/= Ours,
        {ok, #file_info{type = directory, uid = Owner, mtime = At}} <- [read_link_info(Dir)],
        Owner =:= User, At < Old].

read_link_info(Dir) ->
    file:read_link_info(Dir, [raw, {time, posix}]).

del_dir(Dir) ->
    _ = file:delete(filename:join(Dir, ?FILE_NAME), [raw]),
    _ = file:del_dir(Dir).
