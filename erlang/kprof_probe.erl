%% kprof_probe - the native probe: trace events without a message.
%%
%% A tracer module (erl_tracer) whose functions are native: they write each
%% event into a ring of the thread that they run in, from which kprof_agent
%% takes them in bulk. Loaded and unloaded by the agent only.
%%
%% What is safe about it: an event neither locks nor waits; memory is bounded
%% and got at once; rings that are full drop, and count; where nobody takes
%% anything for ten seconds it ends by itself.
-module(kprof_probe).

-export([load/3, tracer/0]).
-export([enabled/3, trace/5]).
-export([start/0, stop/0, drain/1, definitions/1, info/0]).

-nifs([enabled/3, trace/5, start/0, stop/0, drain/1, definitions/1, info/0]).

-define(VERSION, 1).            % of the records

%% Path: of the library, without its extension. MaxBytes: of all rings.
-spec load(file:filename_all(), pos_integer(), pos_integer()) ->
          ok | {error, {atom(), string()}}.
load(Path, Threads, MaxBytes) ->
    case kprof_library:library_is_whole(Path) of
        true -> erlang:load_nif(Path, {?VERSION, Threads, records(Threads, MaxBytes)});
        false -> {error, {load_failed, "its end is missing"}}
    end.

%% A power of two; of 40 bytes each.
records(Threads, MaxBytes) ->
    records(16384, MaxBytes div Threads div 40, 1024).

records(N, Max, Min) when N > Max, N > Min -> records(N div 2, Max, Min);
records(N, _, _) -> N.

%% For trace/3 and trace:session_create/3.
tracer() ->
    {?MODULE, []}.

enabled(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace(_Tag, _State, _Tracee, _What, _Opts) -> erlang:nif_error(not_loaded).
start() -> erlang:nif_error(not_loaded).
stop() -> erlang:nif_error(not_loaded).
drain(_Max) -> erlang:nif_error(not_loaded).
definitions(_Chunks) -> erlang:nif_error(not_loaded).
info() -> erlang:nif_error(not_loaded).
