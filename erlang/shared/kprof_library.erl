%% kprof_library - is the file of a native probe's library complete?
-module(kprof_library).

-export([library_is_whole/1]).

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
        {error, _} ->
            true
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
