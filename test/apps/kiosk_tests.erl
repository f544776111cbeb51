%% A service in Elixir on cowboy (test/apps/kiosk), with a tiers.conf as its author
%% writes it: figures are exact by route, and every command that shows a function
%% shows it as Elixir does, and reads it.
-module(kiosk_tests).

-export([tests/0]).

-define(TIERS, "test/apps/kiosk/tiers.conf").

tests() ->
    [{"figures by route, of structs, protocols and a GenServer", 90, fun figures/1},
     {"every name is Elixir's", 120, fun names/1}].

server(T) ->
    Dir = apps:compiled(T, "kiosk", "elixirc", "test/apps/kiosk/*.ex", [{"LC_ALL", "C.UTF-8"}, {"ERL_LIBS", apps:plugins(T)}]),
    Node = apps:node_name(T, "apps_kiosk"),
    Server = it:server(T, "kiosk", Node,
                       fun(Stub) -> apps:erl(T, Node, [Dir | [D ++ "/ebin" || D <- apps:elixir() ++ apps:cowboy(T)]], [],
                                             Stub, ["Elixir.Kiosk", "run"]) end, []),
    apps:ready(Server, "the kiosk is open", {erlang, whereis, ['Elixir.Kiosk.Supervisor']}),
    Server#{web => it:until("it has a port", fun() ->
                                                     try it:call(Server, 'Elixir.Kiosk', port, []) catch throw:_ -> false end
                                             end)}.

%% ------------------------------------------------------------ figures ----

%% Forty carts get a pen, a pad and a set of three; fifty are looked at.
figures(T) ->
    Server = server(T),
    {P, _} = apps:profile(T, Server, {file, ?TIERS}, "kiosk", fun() -> work(T, Server) end),
    it:equal("requests", #{<<"POST add">> => 120, <<"GET show">> => 50, <<"GET checkout">> => 40, <<"GET fail">> => 7},
             apps:requests(P)),
    %% Of 80 totals: each is six prices, three of them in a set, and as many sums,
    %% three of them in an anonymous function.
    it:equal("calls", #{<<"web">> => 217, <<"cart">> => 120 + 2 * 50 + 80, <<"total">> => 80, <<"price">> => 80 * 6,
                        <<"sums">> => 80 * (6 + 3), <<"text">> => 80 + 40, <<"store">> => 120 + 50 + 80},
             maps:map(fun(_, {In, Async}) -> In + Async end, maps:remove(<<"request">>, apps:calls(P)))),
    {note, apps:cost(P)}.

work(T, #{web := Port} = Server) ->
    true = it:call(Server, 'Elixir.Kiosk.Cart', forget, []),
    [apps:run(T, "curl", ["curl", "-sS", "-o", "/dev/null" | How] ++ [lists:concat(["http://127.0.0.1:", Port, Path])], [])
     || {How, Path} <- [{["-X", "POST"], "/carts/c[1-40]/items/{pen,pad,set}"}, {[], "/carts/c[1-50]"},
                        {[], "/carts/c[1-40]/checkout"}, {[], "/fail?[1-7]"}]].

%% -------------------------------------------------------------- names ----

names(T) ->
    #{web := Port} = Server = server(T),
    Cart = fun() -> ["/carts/c", integer_to_list(rand:uniform(20))] end,
    Load = apps_load:start(Port, #{clients => 8, think_ms => 5,
                                   mix => [{5, fun(_) -> apps_load:post([Cart(), "/items/", lists:nth(rand:uniform(3), ["pen", "pad", "set"])], "") end},
                                           {5, fun(_) -> apps_load:get(Cart()) end},
                                           {5, fun(_) -> apps_load:get([Cart(), "/checkout"]) end}]}),
    {0, Checked, _} = said(T, Server, "kprofd", ["-check", "-tiers", ?TIERS]),
    shows(Checked, ["^Kiosk.Cart.empty\\?/1 ", "^Kiosk.Cart.\"thank you\"/1 ", "^String.Chars.Kiosk.Money.to_string/1 ",
                    "^Kiosk.Priced.Kiosk.Bundle.price/1 ", "^Kiosk.Money.<~>/2 ", "^anonymous fn/2 in Kiosk.Cart.total/1 "]),
    profiled(T, Server),
    asked(T, Server),
    misspelt(T, Server),
    apps_load:stop(Load).

%% By kprofd, and what is read of its database.
profiled(T, Server) ->
    P = it:kprofd(T, Server, #{tiers => {file, ?TIERS}, args => ["-interval", "1s"]}),
    it:armed(P),
    it:assembles(P, 200),
    it:terminate(P),
    [shows(Out, Names) || {Args, Names} <- [{["slow"], ["GET checkout"]},
                                            {["tree", "1"], [" Kiosk.Web.init/2$", " Kiosk.Web.answer/3$"]}],
                          {0, Out, _} <- [it_kprof:kprof(T, Args ++ ["-db", it:db(P)])]],
    shows(it:errors(P), ["^kprofd: profiling .*entry Kiosk.Web.init/2$"]).

%% By kprof, without tiers.
asked(T, Server) ->
    [begin
         {Status, Out, Errors} = it_kprof:run(T, Server, Cmd, Args),
         it:equal([Cmd, ": ", Errors], 0, Status),
         shows(Out, Names)
     end
     || {Cmd, Args, Names} <-
            [{"count", ["Kiosk.Cart", "-for", "1s"],
              ["^anonymous fn/2 in Kiosk.Cart.total/1 ", "^anonymous fn/1 \\(fun-1\\) in Kiosk.Cart.total/1 ",
               "^Kiosk.Cart.handle_call/3 ", "^Kiosk.Cart.\"thank you\"/1 ", "^Kiosk.Cart.empty\\?/1 "]},
             %% a name is read as it is shown
             {"time", ["anonymous fn/1 (fun-1) in Kiosk.Cart.total/1", "Kiosk.Money.<~>/2", "Kiosk.Cart.\"thank you\"/1",
                       "-processes", "new", "-for", "1s"],
              ["^anonymous fn/1 \\(fun-1\\) in Kiosk.Cart.total/1 ", "^Kiosk.Money.<~>/2 ", "^Kiosk.Cart.\"thank you\"/1 "]},
             {"count", ["Kiosk.Cart.handle_call/3", "-processes", "Kiosk.Cart,children:Kiosk.Supervisor", "-for", "1s"],
              ["^Kiosk.Cart.handle_call/3 "]},
             {"stacks", ["-processes", "Kiosk.Cart", "-states", "waiting", "-for", "1s"], ["^Kiosk.Cart "]},
             {"trace", ["Kiosk.Cart", "-for", "1s"],
              [" Kiosk.Cart <0\\.[0-9]+\\.0>$", " anonymous fn/1 \\(fun-1\\) in Kiosk.Cart.total/1$", " Kiosk.Cart.things/1$"]},
             {"trace", ["Kiosk.Cart", "-for", "1s", "-form", "callgrind"],
              ["^fl=Kiosk.Cart$", "^fn=anonymous fn/2 in Kiosk.Cart.total/1$"]},
             {"suggest", ["-for", "2s"], ["^    \\{[a-z_]+, .*\"Kiosk\\.[A-Za-z.]+[a-z_?]+/[0-9]\""]}]].

%% The names that come near are Elixir's, too.
misspelt(T, Server) ->
    [begin
         {1, _, Errors} = it_kprof:run(T, Server, "count", [Function, "-for", "1s"]),
         shows(Errors, [Says])
     end || {Function, Says} <- [{"Kiosk.Cart.empty/1", "no function matches 'Kiosk.Cart.empty/1' \\(the module has empty\\?/1"},
                                 {"Kiosk.Cart.\"thankyou\"/1", "\\(the module has \"thank you\"/1, "},
                                 {"anonymous fn/1 in Kiosk.Cart.total/1",
                                  "'anonymous fn/1 in Kiosk.Cart.total/1' .*anonymous fn/1 \\(fun-1\\) in Kiosk.Cart.total/1"},
                                 {"Kiosk.Crt", "no module 'Kiosk.Crt' \\(did you mean Kiosk.Cart\\?\\)"}]],
    Wrong = it:write(T, "wrong.conf", "{tiers, [{cart, \"Kiosk.Cart.totl/1\"}]}.\n"),
    {1, _, Errors} = said(T, Server, "kprofd", ["-check", "-tiers", Wrong]),
    shows(Errors, ["no function Kiosk.Cart.totl/1.*did you mean.*Kiosk.Cart.total/1"]).

said(#{build := Build, cookie := Cookie} = T, #{node := Node}, Program, Args) ->
    it_kprof:ends(it_kprof:started(T, [filename:join(Build, Program), "-target", Node, "-cookie-file", Cookie | Args])).

%% All of these, and no name with the prefix that only the VM knows.
shows(Text, Patterns) ->
    [it_kprof:says(Text, P) || P <- Patterns],
    re:run(Text, "Elixir\\.", [{capture, none}]) =:= nomatch orelse it:fail("'Elixir.' is in:~n~ts", [Text]).
