%% kprof_probes - loads a native probe, kprof_probe or kprof_calls_probe; and tells these whether
%% the file of their library is complete.
-module(kprof_probes).

-export([probe_load/4, probe_purge/1, library_is_whole/1]).

%% Path: of the library, without its extension; MaxBytes: of all rings.
-spec probe_load(module(), binary(), file:filename_all(), pos_integer()) -> ok | {error, term()}.
probe_load(Probe, Beam, Path, MaxBytes) ->
    Kinds = [schedulers, dirty_cpu_schedulers, dirty_io_schedulers],
    Threads = lists:sum([erlang:system_info(K) || K <- Kinds]),
    probe_purge(Probe),
    try
        {module, Probe} = code:load_binary(Probe, atom_to_list(Probe) ++ ".beam", Beam),
        ok = Probe:load(Path, Threads, MaxBytes),
        ok = Probe:start()
    catch
        error:Why ->
            probe_purge(Probe),
            {error, case Why of {badmatch, {error, Of}} -> Of; _ -> Why end}
    end.

%% While the VM waits for its descriptor it holds the library.
-spec probe_purge(module()) -> term().
probe_purge(Probe) ->
    [begin
         catch Probe:stop(),
         code:purge(Probe), code:delete(Probe), code:purge(Probe)
     end || erlang:module_loaded(Probe)].

%% A library whose end is missing, for instance while it is being copied, would crash the VM.
%% Section headers come last in it. Anything else that is wrong with the file is reported by
%% load_nif. Path: without its extension.
-spec library_is_whole(file:filename_all()) -> boolean().
library_is_whole(Path) ->
    case file:open(library_file(Path), [read, raw, binary]) of
        {ok, File} ->
            Head = file:read(File, 64),
            {ok, Size} = file:position(File, eof),
            ok = file:close(File),
            library_end(Head) =< Size;
        {error, _} -> true
    end.

library_file(Path) when is_binary(Path) -> <<Path/binary, ".so">>;
library_file(Path) -> Path ++ ".so".

%% The size that a 64-bit ELF file has at least. The pattern ends in `_/bits`, because OTP 29 does
%% not load what OTP 25 compiles for `_/binary` there.
library_end({ok, <<127, "ELF", 2, 1, _:34/binary, At:64/little, _:10/binary, Size:16/little,
                   N:16/little, _/bits>>}) ->
    At + Size * N;
library_end(_) ->
    0.
