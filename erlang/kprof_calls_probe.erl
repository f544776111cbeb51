%% kprof_calls_probe - the native probe of full traces.
%%
%% Like kprof_probe, which belongs to kprofd's agent: a tracer module whose functions write each
%% event into a ring of the thread that they run in, from which kprof_tracer takes them. A node
%% can have both.
%%
%% Why it is safe: recording an event neither locks nor waits; memory is limited and allocated
%% at once; when a ring is full the trace ends, for all processes.
-module(kprof_calls_probe).

-export([load/3, tracer/0]).
-export([enabled/3, trace/5]).
-export([start/0, stop/0, sleep/0, drain/1, recent/0, definitions/1, info/0]).

-import(kprof_probes, [library_is_whole/1]).

-nifs([enabled/3, trace/5, start/0, stop/0, sleep/0, drain/1, recent/0, definitions/1, info/0]).

-define(VERSION, 3).            % of the records
-define(RECORD, 48).            % bytes
-define(MOST, 262144).          % records of a ring: those of a tenth of a second, or more
-define(LEAST, 1024).

%% Path: of the library, without its extension. MaxBytes: of all rings.
-spec load(file:filename_all(), pos_integer(), pos_integer()) ->
          ok | {error, {atom(), string()}}.
load(Path, Threads, MaxBytes) ->
    case library_is_whole(Path) of
        true -> erlang:load_nif(Path,
                                {?VERSION, Threads,
                                 records(?MOST, MaxBytes div Threads div ?RECORD)});
        false -> {error, {load_failed, "its end is missing"}}
    end.

%% Records of a ring, a power of two.
records(N, Max) when N > Max, N > ?LEAST -> records(N div 2, Max);
records(N, _) -> N.

%% For trace/3 and trace:session_create/3.
tracer() ->
    {?MODULE, []}.

enabled(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace(_Tag, _State, _Tracee, _What, _Opts) -> erlang:nif_error(not_loaded).
start() -> erlang:nif_error(not_loaded).
stop() -> erlang:nif_error(not_loaded).
sleep() -> erlang:nif_error(not_loaded).
drain(_Max) -> erlang:nif_error(not_loaded).
recent() -> erlang:nif_error(not_loaded).
definitions(_Chunks) -> erlang:nif_error(not_loaded).
info() -> erlang:nif_error(not_loaded).
