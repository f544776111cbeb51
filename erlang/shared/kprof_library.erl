%% kprof_library - is the file of a native probe's library all there?
-module(kprof_library).

-export([library_is_whole/1]).

%% Where the end of a library is missing, as while it is being copied, the VM would
%% die of loading it. What comes last in it are section headers. What else is wrong
%% with it, or with Path, load_nif says. Path: without its extension.
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

%% Of ELF for 64 bits, as the VM can load. The rest is bits: what OTP 25 makes of a
%% binary that nobody looks at, at the end of a pattern, OTP 29 does not load.
library_end({ok, <<127, "ELF", 2, 1, _:34/binary, At:64/little, _:10/binary, Size:16/little, N:16/little, _/bits>>}) ->
    At + Size * N;
library_end(_) ->
    0.
