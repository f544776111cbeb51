%% told - what kprofd has to say of a program, from what the program wrote down
%% (truth.erl): by rules that follow from what the VM of a release tells
%% (priv/doc/limits.md), and never from what kprofd said.
-module(told).

-export([conf/1, tell/3, lines/1, cells/1]).

-include("truth.hrl").

-define(EXIT_NS, 5000000000).   % longest time that dying takes
-define(STALE_NS, 30000000000). % how long labels are remembered

%% Of a tiers.conf: #{tiers => [{Tier, [Function]}], exact => [Function], finish => [Function]}, and
%% left => functions of which it is told when a process dies in them.
conf(Text) ->
    Forms = forms(Text),
    {tiers, Tiers} = lists:keyfind(tiers, 1, Forms),
    #{tiers => [{element(1, T), names(element(2, T))} || T <- Tiers],
      exact => lists:append([names(Fs) || {_, Fs, [exact]} <- Tiers]),
      finish => lists:append([names(Fs) || {finish, Fs} <- Forms]), left => []}.

names({catalogue, Name, _}) -> [Name];
names(List) -> lists:append([names(F) || F <- List]).

%% All but the identity fun is a term.
forms(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    [erl_parse:normalise(Expr) || {ok, [Expr]} <- [erl_parse:parse_exprs(F) || F <- split(Tokens, [])],
                                  is_term(Expr)].

split([], []) -> [];
split([{dot, _} = Dot | More], Form) -> [lists:reverse([Dot | Form]) | split(More, [])];
split([Token | More], Form) -> split(More, [Token | Form]).

is_term(Expr) ->
    try erl_parse:normalise(Expr) of _ -> true
    catch error:_ -> false
    end.

%% -------------------------------------------------------------- outcomes ----

%% How a call seems to have ended, to who sees the events of this release only.
outcome(C, Otp, Exact, Calls) ->
    IsExact = fun(#call{name = Name}) -> lists:member(Name, Exact) end,
    Told = lists:any(IsExact, above(C, Calls)) orelse lists:any(IsExact, below(C, Calls)),
    Again = [D || #call{name = Name} = D <- above(C, Calls), Name =:= C#call.name],
    case outcome(C, Otp, IsExact(C)) of
        %% The same function twice may be another try.
        unknown when Otp =< 26, Again =/= [] -> ambiguous;
        %% One of its chain tells how all of it ended.
        unknown when Told, C#call.how =:= returned -> returned;
        unknown when Told -> raised;
        %% Its end goes unseen until one that it was made from ends.
        ambiguous when element(2, C#call.how) =:= between ->
            case is_within(C#call.parent, C, Calls) of
                true -> ambiguous;
                false -> unfinished
            end;
        Outcome -> Outcome
    end.

%% What it ended in, by tail calls; and what ended so in it.
above(#call{id = Id}, Calls) ->
    case [C || #call{tail_of = Of} = C <- Calls, Of =:= Id] of
        [C | _] -> [C | above(C, Calls)];
        [] -> []
    end.

below(#call{tail_of = Of}, Calls) ->
    case lists:keyfind(Of, #call.id, Calls) of
        false -> [];
        C -> [C | below(C, Calls)]
    end.

%% Is a call of its process around it that went on afterwards?
is_within(Id, #call{pid = Pid} = C, Calls) ->
    case lists:keyfind(Id, #call.id, Calls) of
        #call{pid = Pid, later = Later} when Later > C#call.later -> true;
        #call{pid = Pid, parent = Parent} -> is_within(Parent, C, Calls);
        _ -> false
    end.

%% Exact functions are told of as they are.
outcome(#call{how = returned}, _, true) -> returned;
outcome(#call{}, _, true) -> raised;
%% A request that is set ends where it is cleared: as well as it can.
outcome(#call{name = set_token, how = returned}, _, _) -> returned;
%% An event says that it ended, and not how.
outcome(#call{how = returned}, _, _) -> unknown;
%% An exception that the caller catches looks like a return,
outcome(#call{how = {raised, direct, lowest, alone}}, _, _) -> unknown;
%% unless another call was open above, which it must have passed.
outcome(#call{how = {raised, _, _, _}}, Otp, _) when Otp >= 27 -> raised;
outcome(#call{how = {raised, direct, lowest, passed}}, _, _) -> unknown;
outcome(#call{how = {raised, _, _, _}}, _, _) -> ambiguous.

is_timed(Outcome) ->
    lists:member(Outcome, [returned, raised, unknown]).

%% ------------------------------------------------------ calls and requests ----

died(true) -> raised;
died(false) -> unfinished.

%% #{requests => [..], calls => [..], losses => [..], tiers => ..}, by rule. With gives_tokens
%% in the rules no process is without a token.
tell(Otp, #{exact := Exact, finish := Finish, left := Left} = Conf, {Calls0, Requests0}) ->
    Calls1 = [{C, case C of
                      #call{how = open, name = Name} -> died(lists:member(Name, Left));
                      _ -> outcome(C, Otp, Exact, Calls0)
                  end}
              || C <- Calls0, C#call.unseen =:= undefined orelse C#call.unseen < Otp orelse
                     is_map_key(gives_tokens, Conf)],
    Requests = [request(R, [C || {#call{request = Id}, _} = C <- Calls1, Id =:= R#request.id], Finish)
                || R <- Requests0],
    ByRequest = maps:from_list([{Id, R} || #{id := Id} = R <- Requests]),
    All = [call(C, O, maps:get(C#call.request, ByRequest)) || {C, O} <- Calls1],
    {Stale, Kept} = lists:partition(fun(#{place := Place}) -> Place =:= stale end, All),
    Told = [C#{parent := parent(C, Kept, Otp)} || C <- Kept],
    Conf#{calls => Told,
          requests => [R#{sequential => sequential(R, Told)} || R <- Requests],
          losses => [{Cause, N} || {Cause, N} <- [{stale, length(Stale)}, {outlasted, outlasted(Told, ByRequest)},
                                                  {expired, length([R || #{outcome := expired} = R <- Requests])}],
                                   N > 0]}.

%% No end comes of those that are open in another process than the entry's when
%% their request has ended.
outlasted(Calls, ByRequest) ->
    length([Id || #{id := Id, request := R, pid := Pid, outcome := unfinished, place := inside} <- Calls,
                  has_end(maps:get(R, ByRequest)), Pid =/= entry_pid(R, Calls)]).

has_end(#{outcome := Outcome}) ->
    Outcome =/= expired andalso Outcome =/= unfinished.

entry_pid(Request, Calls) ->
    hd([Pid || #{request := R, pid := Pid} <- Calls, R =:= Request]).

%% It ends with the finish that ends first, else with its entry.
request(#request{id = Id, identity = Identity, outer = Outer}, [{Entry, _} = First | _] = Calls, Finish) ->
    Ends = lists:keysort(1, [{C#call.later, E} || {C, _} = E <- Calls, lists:member(C#call.name, Finish),
                                                  C#call.how =/= open]),
    {End, Outcome} = case Ends of
                         [{_, E} | _] -> E;
                         [] -> First
                     end,
    #{id => Id, identity => Identity, outer => Outer, started => {Entry#call.before, Entry#call.first},
      ended => {End#call.last, End#call.later}, finished => Ends =/= [],
      outcome => case End of #call{how = open} -> expired; _ -> Outcome end}.

call(#call{name = Name} = C, Outcome, #{ended := Ended}) ->
    #{id => C#call.id, request => C#call.request, name => Name, pid => C#call.pid,
      made_from => C#call.parent, parent => C#call.parent,
      started => {C#call.before, C#call.first}, ended => ended(C, Outcome),
      how => C#call.how, outcome => Outcome, place => place(C, Ended)}.

%% What dies cannot write down when: it does so at once.
ended(#call{how = open, first = First}, raised) -> {First, First + ?EXIT_NS};
ended(#call{last = Last, later = Later}, _) -> {Last, Later}.

%% Before or after the end of its request. A program must see to it that this
%% is sure.
place(_, {undefined, undefined}) -> inside;
place(#call{first = First}, {Last, _}) when First =< Last -> inside;
place(#call{before = Before}, {_, Later}) when Before >= Later + ?STALE_NS -> stale;
place(#call{before = Before}, {_, Later}) when Before >= Later -> async.

%% Of the same request and at work when it began; `any` where that is not sure,
%% and another may be taken for its parent. So may one, up to OTP 26, that an
%% exception left which no event tells of.
parent(#{parent := none}, _, _) -> none;
parent(#{parent := Id, request := Request, started := {_, First}} = Call, Calls, Otp) ->
    Hidden = Otp =< 26 andalso lists:any(fun(C) -> is_hidden(C, Call) end, Calls),
    case [C || #{id := I} = C <- Calls, I =:= Id] of
        [#{request := R}] when R =/= Request -> none;
        _ when Hidden -> any;
        [#{how := open}] -> Id;
        [#{ended := {Last, _}}] when First =< Last -> Id;
        _ -> any
    end.

is_hidden(#{how := {raised, between, _, _}, id := Id, pid := Pid, request := R},
          #{id := Later, pid := Pid, request := R}) -> Id < Later;
is_hidden(_, _) -> false.

%% Each call waited for those that it made, one after the other, and the
%% request for its entry.
sequential(#{finished := true}, _) -> false;
sequential(#{id := Id}, Calls) ->
    Inside = [C || #{request := R, place := inside, outcome := O} = C <- Calls, R =:= Id, O =/= unfinished],
    lists:all(fun(#{id := I, ended := {_, Over}}) ->
                      one_by_one([Times || #{made_from := P} = Times <- Inside, P =:= I], Over)
              end, Inside).

one_by_one([], _) -> true;
one_by_one([#{ended := {_, Later}} | More], Over) ->
    Later =< Over andalso
        case More of
            [#{started := {Before, _}} | _] -> Later =< Before;
            [] -> true
        end andalso one_by_one(More, Over).

%% ----------------------------------------------------------------- cells ----

%% #{{Tier, Identity} => #{...}}: sums of times as {at least, at most}.
cells(#{calls := Calls, requests := Requests} = Told) ->
    lists:foldl(fun(R, Cells) ->
                        request_cells(R, [C || #{request := Id} = C <- Calls, Id =:= maps:get(id, R)], Told, Cells)
                end, #{}, Requests).

request_cells(#{identity := Identity} = R, Calls, #{tiers := Tiers}, Cells) ->
    Limits = case has_end(R) of
                 true -> limits(R);
                 false -> {none, none}
             end,
    lists:foldl(fun({Tier, []}, Acc) when Tier =/= '_total' -> Acc;
                   ({'_total', Mine}, Acc) ->
                        add({'_total', Identity}, total(R, Mine, Limits), Acc);
                   ({Tier, Mine}, Acc) ->
                        add({Tier, Identity}, tier(Mine, Limits), Acc)
                end, Cells,
                [{'_total', [C || #{name := N} = C <- Calls,
                                  lists:any(fun({_, Names}) -> lists:member(N, Names) end, Tiers)]}
                 | [{T, [C || #{name := N} = C <- Calls, lists:member(N, Names)]} || {T, Names} <- Tiers]]).

total(#{outcome := Outcome} = R, Calls, Limits) ->
    Span = timed([R]),
    {Inside, Async} = by_place(Calls),
    #{requests => 1, calls => 1, raised => one(raised, Outcome),
      unfinished => one(unfinished, Outcome) + one(expired, Outcome),
      ambiguous => one(ambiguous, Outcome), unknown => one(unknown, Outcome), async => length(Async), total => Span, busy => Span,
      async_time => sum(timed(Async), outside(Inside, Limits))}.

by_place(Calls) ->
    lists:partition(fun(#{place := Place}) -> Place =:= inside end, Calls).

%% The part after the end of those that outlast their request.
outside(_, {none, none}) -> {0, 0};
outside(Inside, {{_, EndLast}, {_, EndLater}}) ->
    lists:foldl(fun(#{ended := {Last, Later}, outcome := O}, {Least, Most}) ->
                        %% The call that ended it does not outlast it.
                        case is_timed(O) andalso {Last, Later} =/= {EndLast, EndLater} of
                            true -> {Least + max(0, Last - EndLater), Most + max(0, Later - EndLast)};
                            false -> {Least, Most}
                        end
                end, {0, 0}, Inside).

tier(Calls, Limits) ->
    {Inside, Async} = by_place(Calls),
    Count = fun(What) -> length([C || #{outcome := O} = C <- Inside, O =:= What]) end,
    #{requests => min(1, length(Inside)), calls => length(Inside), raised => Count(raised),
      unfinished => Count(unfinished), ambiguous => Count(ambiguous), unknown => Count(unknown), async => length(Async),
      total => timed(Inside), busy => busy(Inside, Limits),
      async_time => sum(timed(Async), outside(Inside, Limits))}.

one(Same, Same) -> 1;
one(_, _) -> 0.

timed(Calls) ->
    lists:foldl(fun(#{started := {Before, First}, ended := {Last, Later}, outcome := O}, {Least, Most}) ->
                        case is_timed(O) of
                            true -> {Least + max(0, Last - First), Most + Later - Before};
                            false -> {Least, Most}
                        end
                end, {0, 0}, Calls).

limits(#{started := {Before, First}, ended := {Last, Later}}) ->
    {{First, Last}, {Before, Later}}.

%% The union of the inner brackets, and that of the outer ones.
busy(Calls, {Inner, Outer}) ->
    Timed = [limits(C) || #{outcome := O} = C <- Calls, is_timed(O)],
    {union([clip(I, Inner) || {I, _} <- Timed]), union([clip(O, Outer) || {_, O} <- Timed])}.

clip(Span, none) -> Span;
clip({From, To}, {Start, End}) -> {max(From, Start), min(To, End)}.

union(Spans) ->
    {Covered, _} = lists:foldl(fun({From, To}, {Sum, Reach}) ->
                                       {Sum + max(0, To - max(From, Reach)), max(Reach, To)}
                               end, {0, -(1 bsl 63)}, lists:sort(Spans)),
    Covered.

add(Key, Figures, Cells) ->
    case Cells of
        #{Key := Old} -> Cells#{Key := maps:map(fun(K, V) -> sum(V, maps:get(K, Figures)) end, Old)};
        _ -> Cells#{Key => Figures}
    end.

sum({A, B}, {C, D}) -> {A + C, B + D};
sum(A, B) -> A + B.

%% ----------------------------------------------------------------- lines ----

%% As README.md describes them.
lines(#{requests := Requests, calls := Calls, losses := Losses} = Told) ->
    [[io_lib:format("request ~b ~s ~s ~s ~s ~s ~s~n",
                    [Id, Identity, id(Outer), span(Started), span(Ended), O, kind(Sequential)])
      || #{id := Id, identity := Identity, outer := Outer, started := Started, ended := Ended, outcome := O,
           sequential := Sequential} <- Requests],
     [io_lib:format("call ~b ~b ~s ~s ~s ~s ~s ~s ~s~n",
                    [Id, R, Pid, function(Name), id(Parent), span(Started), span(Ended), O, Place])
      || #{id := Id, request := R, pid := Pid, name := Name, parent := Parent, started := Started,
           ended := Ended, outcome := O, place := Place} <- Calls],
     [io_lib:format("cell ~s ~s ~b ~b ~b ~b ~b ~b ~b ~s ~s ~s~n",
                    [Tier, Identity | [maps:get(K, F) || K <- [requests, calls, raised, unfinished,
                                                              ambiguous, unknown, async]]]
                    ++ [span(maps:get(K, F)) || K <- [total, busy, async_time]])
      || {{Tier, Identity}, F} <- lists:sort(maps:to_list(cells(Told)))],
     [io_lib:format("loss ~s ~b~n", [Cause, N]) || {Cause, N} <- Losses],
     "end\n"].

kind(true) -> "sequential";
kind(false) -> "parallel".

id(none) -> "0";
id(any) -> "any";
id(Id) -> integer_to_list(Id).

span({_, undefined}) -> "0 0";
span({A, B}) -> io_lib:format("~b ~b", [A, B]).

%% With a name for the request, where it is one of the library's.
function(set_token) -> "kprof:set_token/1";
function(do_apply) -> "kprof:do_apply/4";
function(Name) ->
    {Name, Arity} = lists:keyfind(Name, 1, catalogue:module_info(functions)),
    io_lib:format("catalogue:~s/~b", [Name, Arity]).
