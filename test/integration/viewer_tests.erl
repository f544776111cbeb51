%% What the tools that read a trace's exports make of them: speedscope's schema
%% (test/viewers), and callgrind_annotate. They agree on where the time went.
%% KPROFD_VIEWERS: where npm put what the former needs.
-module(viewer_tests).

-export([tests/0]).

tests() ->
    [{"callgrind_annotate and speedscope's schema", 60, fun viewers/1}].

viewers(T) ->
    Target = #{node := Node} = it:target(T, #{kind => plain}),
    {module, it_counted} = it:call(Target, code, ensure_loaded, [it_counted]),
    Trace = it:path(T, "a.trace"),
    #{cookie := Cookie} = T,
    _ = kprof(T, "trace", ["trace", "-target", Node, "-cookie-file", Cookie, "-apply", "it_counted:work(50)", "-o",
                           Trace, "-quiet", "it_counted", "lists"]),
    {Total, Own} = callgrind_annotate(T, kept(T, Trace, "callgrind")),
    it:check(map_size(Own) > 15, "functions: ~p", [Own]),
    it:equal("the total", Total, lists:sum(maps:values(Own))),
    Seen = speedscope(T, kept(T, Trace, "speedscope")),
    %% The compiler's functions have its names there, and those for people here.
    Times = fun(Of) -> lists:sort(maps:values(nonzero(Of))) end,
    Named = fun(Of) -> maps:filter(fun(Name, _) -> string:find(Name, "'") =:= nomatch andalso
                                                       string:find(Name, " (") =:= nomatch end, nonzero(Of)) end,
    it:equal("own times", Times(Own), Times(Seen)),
    it:equal("own times by name", Named(Own), Named(Seen)),
    %% What is collected while a process waits is in both, for callgrind.
    it:check(map_get("suspend", Own) >= map_get("suspend", Seen), "suspend: ~p, ~p", [Own, Seen]).

kept(T, Trace, Form) ->
    File = it:path(T, Form),
    ok = file:write_file(File, kprof(T, "analyse_" ++ Form, ["analyse", "-form", Form, Trace])),
    File.

%% Lines "1,407,263 (47.12%)  pseudo:suspend [<0.94.0>]".
callgrind_annotate(T, File) ->
    Out = tool(T, "callgrind_annotate", ["--threshold=100", "--auto=no", File]),
    {match, [[Total]]} = re:run(Out, "^([0-9,]+) \\(100.0%\\)  PROGRAM TOTALS$", [global, multiline | texts()]),
    {match, Rows} = re:run(Out, "^ *([0-9,]+) +(?:\\([ 0-9.]+%\\) +)?[^ :]+:(\\S+) \\[.*\\]$",
                           [global, multiline | texts()]),
    {number(Total), maps:from_list([{Name, number(Ns)} || [Ns, Name] <- Rows])}.

speedscope(T, File) ->
    Modules = filename:absname(os:getenv("KPROFD_VIEWERS")),
    Out = tool(T, "node", ["test/viewers/speedscope.mjs", Modules, File]),
    maps:from_list([begin
                        [Ns, Name] = string:split(Line, " "),
                        {Name, number(Ns)}
                    end || Line <- string:lexemes(Out, "\n")]).

texts() -> [{capture, all_but_first, list}].

number(Text) ->
    list_to_integer(lists:append(string:lexemes(Text, ","))).

nonzero(Own) ->
    maps:filter(fun(Name, Ns) -> Ns > 0 andalso Name =/= "suspend" end, Own).

kprof(#{build := Build} = T, Name, Args) ->
    ends(it:start(T, Name, [filename:join(Build, "kprof") | Args], [])).

tool(T, Name, Args) ->
    ends(it:start(T, Name, [os:find_executable(Name) | Args], [])).

%% They have nothing to complain of.
ends(P) ->
    it:equal("its status", {0, <<>>}, {it:exited(P), iolist_to_binary(it:errors(P))}),
    unicode:characters_to_list(it:output(P)).
