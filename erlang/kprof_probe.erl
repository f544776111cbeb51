%% kprof_probe - the native probe: trace events without messages.
%%
%% A tracer module (erl_tracer) whose functions are native: they write each event into a ring
%% of the thread that they run in. kprof_agent, which alone loads and unloads this module,
%% takes events from the rings in bulk.
%%
%% Why it is safe: recording an event neither locks nor waits; memory is limited and allocated
%% at once; full rings drop events and count them; if nobody empties a full ring for ten
%% seconds, the probe ends by itself.
-module(kprof_probe).

-export([load/3, tracer/0]).
-export([enabled/3, trace/5]).
-export([start/0, stop/0, sleep/0, drain/1, recent/0, definitions/1, info/0]).

-import(kprof_probes, [library_is_whole/1]).

-nifs([enabled/3, trace/5, start/0, stop/0, sleep/0, drain/1, recent/0, definitions/1, info/0]).

-define(VERSION, 3).            % of the records

%% Path: of the library, without its extension. MaxBytes: of all rings.
-spec load(file:filename_all(), pos_integer(), pos_integer()) ->
          ok | {error, {atom(), string()}}.
load(Path, Threads, MaxBytes) ->
    case library_is_whole(Path) of
        true -> erlang:load_nif(Path, {?VERSION, Threads, records(Threads, MaxBytes)});
        false -> {error, {load_failed, "its end is missing"}}
    end.

%% Records of a ring, a power of two. A record has 48 bytes.
records(Threads, MaxBytes) ->
    records(16384, MaxBytes div Threads div 48, 1024).

records(N, Max, Min) when N > Max, N > Min -> records(N div 2, Max, Min);
records(N, _, _) -> N.

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
