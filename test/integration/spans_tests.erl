%% The application's own trace ids: what kprofd measures and exports is in the
%% application's trace, as children of its spans, across processes and nodes.
-module(spans_tests).

-export([tests/0]).

-define(N, 5).

tests() ->
    [{"one tree below the application's span, over two nodes", 90, fun one_tree/1},
     {"the trace that a process has", 60, fun in_process/1},
     {"what is no traceparent", 60, fun invalid/1},
     {"a request inside another", 60, fun nested/1},
     {"those whose caller sampled the trace are kept", 60, fun sampled/1}].

tiers(Entry, More) ->
    [it:calm(), "{tiers, [{task, {it_spans, task, 1}}, {query, {it_spans, query, 1}}, {render, {it_spans, render, 1}}]}.\n"
     "{entry, ", Entry, "}.\n{sampling, all}.\n{budget, none}.\n" | More].

-define(FROM_HEADERS, "{trace_id, fun ({it_spans, handle, [#{headers := #{<<\"traceparent\">> := T}}, _]}) -> T end}.\n").

trace(I) -> iolist_to_binary(io_lib:format("4bf92f3577b34da6a3ce929d0e0e~4.16.0b", [I])).
span(I) -> iolist_to_binary(io_lib:format("00f067aa0ba9~4.16.0b", [I])).
traceparent(I) -> traceparent(I, <<"01">>).
traceparent(I, Flags) -> iolist_to_binary(["00-", trace(I), "-", span(I), "-", Flags]).

target(T, Name) ->
    Node = lists:concat([Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]),
    it:target(T, #{kind => plain, name => Name, node => Node}).

profiled(T, Targets, Tiers, Args, Program) ->
    P = it:kprofd(T, Targets, #{tiers => Tiers, args => ["-interval", "1s" | Args]}),
    it:until("all are armed", fun() -> it:times_armed(P) >= length(Targets) end),
    Program(),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    P.

%% ------------------------------------------------------------ collector ----

%% Takes what both send; its spans are #{trace, span, parent, text}.
collector() ->
    Self = self(),
    {ok, Listener} = gen_tcp:listen(0, [binary, {packet, http_bin}, {active, false}, {ip, {127, 0, 0, 1}}]),
    spawn_link(fun() -> accept(Listener, Self) end),
    {ok, Port} = inet:port(Listener),
    Port.

accept(Listener, To) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn_link(fun() -> receive go -> serve(Socket, To) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listener, To).

serve(Socket, To) ->
    ok = inet:setopts(Socket, [{packet, http_bin}]),
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, 'POST', {abs_path, Path}, _}} ->
            Headers = headers(Socket, #{}),
            ok = inet:setopts(Socket, [{packet, raw}]),
            {ok, Body} = gen_tcp:recv(Socket, binary_to_integer(maps:get('Content-Length', Headers))),
            Text = case Headers of
                       #{'Content-Encoding' := <<"gzip">>} -> zlib:gunzip(Body);
                       _ -> Body
                   end,
            Path =:= <<"/v1/traces">> andalso (To ! {traces, Text}),
            ok = gen_tcp:send(Socket, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
            serve(Socket, To);
        {error, closed} -> ok
    end.

headers(Socket, Headers) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_header, _, Name, _, Value}} -> headers(Socket, Headers#{Name => Value});
        {ok, http_eoh} -> Headers
    end.

taken() ->
    receive {traces, Text} -> spans(Text) ++ taken()
    after 0 -> []
    end.

spans(Text) ->
    [_ | Parts] = binary:split(Text, <<"{\"traceId\":">>, [global]),
    [#{trace => of_key("^\"([0-9a-f]{32})\"", Part), span => of_key("\"spanId\":\"([0-9a-f]{16})\"", Part),
       parent => of_key("\"parentSpanId\":\"([0-9a-f]{16})\"", Part), text => Part} || Part <- Parts].

of_key(Re, Text) ->
    case re:run(Text, Re, [{capture, all_but_first, binary}]) of
        {match, [Id]} -> Id;
        nomatch -> none
    end.

%% -------------------------------------------------------------- tests ----

%% "One trace in which the application's spans and kprofd's calls across spawned
%% processes are one tree."
one_tree(T) ->
    [A, B] = Targets = [target(T, Name) || Name <- ["web", "far"]],
    Far = list_to_atom(maps:get(node, B)),
    true = it:call(A, net_kernel, connect_node, [Far]),
    [true = it:call(Target, it_spans, start, []) || Target <- Targets],
    Port = collector(),
    P = profiled(T, Targets, tiers("{it_spans, handle, 2}", [?FROM_HEADERS, "{slow_ms, 0}.\n"]),
                 ["-otlp", "http://127.0.0.1:" ++ integer_to_list(Port)],
                 fun() ->
                         ok = it:call(A, it_spans, run, [[traceparent(I) || I <- lists:seq(1, ?N)], list_to_atom(maps:get(node, A)), Far]),
                         ok = it:call(A, it_spans, post, [Port, own_spans()])
                 end),
    Spans = taken(),
    it:equal("traces", [trace(I) || I <- lists:seq(1, ?N)], lists:usort([Id || #{trace := Id} <- Spans])),
    [is_tree(I, [S || #{trace := Id} = S <- Spans, Id =:= trace(I)]) || I <- lists:seq(1, ?N)],
    it:equal("calls of each", [{"it_spans:query/1", 2 * ?N}, {"it_spans:render/1", ?N}, {"it_spans:task/1", ?N}],
             [{F, length([x || #{text := Text} <- Spans, binary:match(Text, list_to_binary(["\"name\":\"", F, "\""])) =/= nomatch])}
              || F <- ["it_spans:query/1", "it_spans:render/1", "it_spans:task/1"]]),
    it:equal("calls on the other node", [[integer_to_binary(?N)]],
             it:sql(P, ["select count(*) from slow_calls where node = '", maps:get(node, B), "'"])),
    found(T, P).

%% The application's root span and, below it, the one that it names in its traceparent.
own_spans() ->
    ["{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[",
     lists:join(",", [[own(trace(I), <<"b7ad6b7169203331">>, none), ",", own(trace(I), span(I), <<"b7ad6b7169203331">>)]
                      || I <- lists:seq(1, ?N)]), "]}]}]}"].

own(Trace, Span, Parent) ->
    ["{\"traceId\":\"", Trace, "\",\"spanId\":\"", Span, "\",\"name\":\"of the application\"",
     [[",\"parentSpanId\":\"", Parent, "\""] || Parent =/= none], "}"].

is_tree(I, Spans) ->
    Ids = [Id || #{span := Id} <- Spans],
    it:equal("ids are different", length(Ids), length(lists:usort(Ids))),
    it:equal("one root", [<<"b7ad6b7169203331">>], [Id || #{span := Id, parent := none} <- Spans]),
    it:equal("all others are below another", [], [S || #{parent := Up} = S <- Spans, Up =/= none, not lists:member(Up, Ids)]),
    Below = [S || #{parent := Up} = S <- Spans, Up =:= span(I)],
    it:equal("one is below the application's span", 1, length(Below)),
    it:check(binary:match(maps:get(text, hd(Below)), <<"\"flags\":1">>) =/= nomatch, "it is sampled"),
    it:check(length(Spans) >= 2 + 5, "and the calls are below that").

%% By its id, in the commands' text and JSON.
found(T, P) ->
    Trace = binary_to_list(trace(2)),
    it:check(re:run(said(T, P, ["slow", "-trace", Trace]), Trace) =/= nomatch, "kprof slow -trace"),
    it:equal("and no other", nomatch, re:run(said(T, P, ["slow", "-trace", Trace]), trace(3))),
    Json = said(T, P, ["slow", "-json", "-trace", Trace]),
    it:check(re:run(Json, ["\"trace_id\":\"", Trace, "\",\"trace_span_id\":\"", span(2), "\",\"trace_sampled\":true"]) =/= nomatch, Json),
    Tree = said(T, P, ["tree", Trace]),
    it:check(re:run(Tree, ["^trace ", Trace, ", below its span ", span(2), "$"], [multiline]) =/= nomatch, Tree),
    it:check(re:run(said(T, P, ["tree", Trace, "-form", "otlp"]), ["\"parentSpanId\":\"", span(2), "\""]) =/= nomatch, "kprof tree -form otlp").

said(T, P, [Cmd | Args]) ->
    K = it:start(T, "kprof" ++ integer_to_list(erlang:unique_integer([positive])),
                 [it:build(T) ++ "/kprof", Cmd, "-db", it:db(P) | Args], []),
    it:ended(K, 0),
    it:output(K).

traced(P) ->
    lists:sort([{I, T} || [I, T] <- it:sql(P, "select i.name, coalesce(q.traceparent, '') from request q"
                                           " join identity i on i.id = q.identity_id")]).

%% Where the library's functions are entries.
in_process(T) ->
    Target = target(T, "web"),
    Trace = binary_to_integer(trace(1), 16),
    Span = binary_to_integer(span(1), 16),
    Hex = #{otel_trace_id => trace(2), otel_span_id => span(2)},
    Contexts = [{older, {span, {span_ctx, Trace, Span, 1, [], true, false, true, undefined}}},
                {newer, {span, {span_ctx, Trace, trace(1), Span, span(1), 0, [], true, false, true, undefined}}},
                {metadata, {metadata, Hex#{otel_trace_flags => <<"01">>}}},
                {text, {metadata, maps:map(fun(_, V) -> binary_to_list(V) end, Hex)}},
                {whole, {metadata, #{traceparent => traceparent(3)}}},
                {odd, {metadata, #{traceparent => {no, iolist}}}},
                {zero, {span, {span_ctx, 0, 0, 0, [], false, false, false, undefined}}},
                {other, {metadata, #{request_id => <<"x">>}}}, {nothing, none}],
    Identity = "{identity, fun ({kprof, do_apply, [Kind | _]}) -> Kind end}.\n{slow_ms, 0}.\n",
    Program = fun() -> ok = it:call(Target, it_spans, in_process, [Contexts]) end,
    P = profiled(T, [Target], tiers("\"kprof\"", [Identity, "{trace_id, fun ({kprof, trace_id, [T]}) -> T end}.\n"]), [], Program),
    Read = fun({Kind, _}) when Kind =:= older -> traceparent(1);
              ({newer, _}) -> traceparent(1, "00");
              ({metadata, _}) -> traceparent(2);
              ({text, _}) -> traceparent(2, "00");
              ({whole, _}) -> traceparent(3);
              (_) -> <<>>
           end,
    it:equal("traces", lists:sort([{atom_to_binary(Kind), Read(C)} || {Kind, _} = C <- Contexts]), traced(P)),
    it:equal("calls", [[<<"kprof:do_apply/4">>]], it:sql(P, "select distinct call from slow_calls")),
    %% nobody asks
    Q = profiled(T, [Target], tiers("\"kprof\"", [Identity]), [], Program),
    it:equal("none", [<<>>], lists:usort([Is || {_, Is} <- traced(Q)])).

%% It is not seen, whatever it is, and no more of it is copied than 64 bytes.
invalid(T) ->
    Target = target(T, "web"),
    Terms = [{binary, traceparent(1)}, {string, binary_to_list(traceparent(2))}, {later, <<(binary:replace(traceparent(3), <<"00-4">>, <<"cc-4">>))/binary, "-more">>},
             {upper, string:uppercase(traceparent(1))}, {long, binary:copy(<<"a">>, 1000000)}, {list, lists:seq(1, 100000)},
             {bits, <<1:3>>}, {atom, none}, {deep, [[traceparent(1)]]}, {improper, [$0 | $1]}, {pid, self()}, {map, #{}}],
    P = profiled(T, [Target], tiers("{it_spans, as_string, 2}",
        ["{identity, fun ({it_spans, as_string, [Kind, _]}) when is_atom(Kind) -> Kind end}.\n"
         "{trace_id, fun ({_, _, [_, T]}) when is_binary(T) -> T; ({_, _, [_, T]}) when is_list(T) -> T end}.\n{slow_ms, 0}.\n"]), [],
        fun() -> ok = it:call(Target, it_spans, many, [Terms]) end),
    Read = #{binary => traceparent(1), string => traceparent(2), later => traceparent(3)},
    it:equal("traces", lists:sort([{atom_to_binary(Kind), maps:get(Kind, Read, <<>>)} || {Kind, _} <- Terms]), traced(P)).

nested(T) ->
    Target = target(T, "web"),
    P = profiled(T, [Target], tiers("[{it_spans, handle, 2}, {it_spans, inner, 1}]", [?FROM_HEADERS, "{slow_ms, 0}.\n"
        "{identity, fun ({_, F, _}) -> F end}.\n"]), [],
        fun() -> ok = it:call(Target, it_spans, nested, [traceparent(7)]) end),
    it:equal("traces", [{<<"handle">>, traceparent(7)}, {<<"inner">>, traceparent(7)}], traced(P)),
    [[Inner]] = it:sql(P, "select request from slow_requests where identity = 'inner'"),
    Otlp = said(T, P, ["tree", binary_to_list(Inner), "-form", "otlp"]),
    it:check(re:run(Otlp, ["\"links\":\\[\\{\"traceId\":\"", trace(7), "\""]) =/= nomatch, Otlp).

%% None of them is slow.
sampled(T) ->
    Target = target(T, "web"),
    true = it:call(Target, it_spans, start, []),
    Node = list_to_atom(maps:get(node, Target)),
    P = profiled(T, [Target], tiers("{it_spans, handle, 2}", [?FROM_HEADERS, "{keep_slowest, 0}.\n{keep_sampled, 64}.\n"]), [],
        fun() -> ok = it:call(Target, it_spans, run, [[traceparent(I, element(I rem 2 + 1, {"00", "01"})) || I <- lists:seq(1, 6)], Node, Node]) end),
    it:equal("kept", [traceparent(I) || I <- [1, 3, 5]], [Is || {_, Is} <- traced(P)]),
    it:equal("requests measured", 6, it:number(P, "select sum(sampled) from time_window")).
