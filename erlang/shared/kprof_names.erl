%% kprof_names - the name of the group that a process belongs to: a registered name, or a label, or
%% the function that the process began with; and its application.
%%
%% Names are bounded: of a label only the atoms are kept, since the rest may be somebody's data and
%% would make a group of each process. Whoever asks may wait for a process in native code.
-module(kprof_names).

-export([group_name/1, group_of/2, group_text/1, application_of/1, dictionary_of/1, outermost/2,
         outermost_function/2, stack_depth/0, function_text/1, atom_text/1]).
%% For the tests.
-export([general/1]).
-export_type([name/0, raw_name/0]).

-import(kprof_text, [fn_text/1]).

-define(NAME_CHARS, 200).
-define(LABEL_SIZE, 8).         % elements, and levels, of a label
-define(DEPTH_MAX, 128).        % more frames than a node ever shows

%% A registered name is that of one process at a time.
-type name() :: binary() | {registered, binary()}.
%% What a name is made from, by group_text/1; terms are bounded.
-type raw_name() :: binary() | mfa() | {registered, atom()}.

%% Name <<>>: as its stack says.
-spec group_name(pid()) -> none | {name(), Application :: atom()}.
group_name(P) ->
    case group_raw(P) of
        none -> none;
        {Raw, Leader} -> {group_text(Raw), application_of(Leader)}
    end.

%% Where its stack has to tell, the outermost function there. Depth: the frames that a node shows,
%% at most. The application is that of the leader.
-spec group_of(pid(), pos_integer()) -> none | {raw_name(), Leader :: pid()}.
group_of(P, Depth) ->
    case group_raw(P) of
        {<<>>, Leader} ->
            case process_info(P, current_stacktrace) of
                {_, Stack} ->
                    case outermost_function(Stack, Depth) of
                        none -> {<<"(deep stacks)">>, Leader};
                        Function -> {Function, Leader}
                    end;
                undefined -> none
            end;
        Found -> Found
    end.

group_raw(P) ->
    case process_info(P, [registered_name, group_leader, initial_call]) of
        undefined -> none;
        [{_, Registered}, {_, Leader}, {_, Initial}] ->
            {if is_atom(Registered) -> {registered, Registered};
                true -> unregistered(P, Initial)
             end, Leader}
    end.

unregistered(P, Initial) ->
    {Label, Began} = dictionary_of(P),
    case {general(Label), Began} of
        {none, {M, F, A}} when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
        {none, _} ->
            case Initial of
                {proc_lib, _, _} -> <<>>;
                {erlang, apply, _} -> <<>>;
                _ -> Initial
            end;
        {Text, _} -> Text
    end.

-spec group_text(raw_name()) -> name().
group_text({registered, Name}) -> {registered, atom_text(Name)};
group_text({_, _, _} = Function) -> function_text(Function);
group_text(Text) -> Text.

%% {Label, the function that proc_lib has noted}.
-spec dictionary_of(pid()) -> {term(), term()}.
dictionary_of(P) ->
    case kprof_injected:dictionary(P, ['$process_label', '$initial_call']) of
        [Label, Began] -> {Label, Began};
        _ -> {undefined, undefined}
    end.

-spec application_of(pid()) -> atom().
application_of(Leader) ->
    case application_controller:get_application(Leader) of
        {ok, App} -> App;
        undefined -> undefined
    end.

%% A label as a text that names no one process: {conn, 17, <<"key">>} is "{conn,_,_}". none: it
%% has no atoms.
-spec general(term()) -> none | binary().
general(undefined) -> none;
general(Label) ->
    case general(Label, ?LABEL_SIZE) of
        {_, false} -> none;
        {Text, true} -> cut(Text)
    end.

general(Atom, _) when is_atom(Atom) -> {atom_text(Atom), true};
general(Tuple, Levels) when is_tuple(Tuple), tuple_size(Tuple) =< ?LABEL_SIZE, Levels > 0 ->
    {Texts, Named} = lists:unzip([general(E, Levels - 1) || E <- tuple_to_list(Tuple)]),
    {["{", lists:join(",", Texts), "}"], lists:any(fun(Is) -> Is end, Named)};
general(_, _) -> {"_", false}.

-spec function_text(mfa()) -> binary().
function_text(Function) ->
    cut(fn_text(Function)).

-spec atom_text(atom()) -> binary().
atom_text(Atom) ->
    cut(case atom_to_list(Atom) of
            "Elixir." ++ Alias -> Alias;
            _ -> io_lib:format("~tw", [Atom])
        end).

cut(Text) ->
    unicode:characters_to_binary(string:slice(Text, 0, ?NAME_CHARS)).

-spec outermost([tuple()], pos_integer()) -> none | binary().
outermost(Frames, Depth) ->
    case outermost_function(Frames, Depth) of
        none -> none;
        Function -> function_text(Function)
    end.

-spec outermost_function([tuple()], pos_integer()) -> none | mfa().
outermost_function([], _) -> none;
outermost_function(Frames, Depth) when length(Frames) >= Depth -> none;
outermost_function(Frames, _) ->
    [{M, F, A, _} | _] =
        case lists:dropwhile(fun is_of_every/1, lists:reverse(Frames)) of
            [] -> [lists:last(Frames)];
            Own -> Own
        end,
    {M, F, A}.

%% These begin a process, whatever it is for.
is_of_every({proc_lib, _, _, _}) -> true;
is_of_every({erlang, apply, _, _}) -> true;
is_of_every(_) -> false.

%% The VM tells nobody how many frames it shows of a stack, so a deep one is looked at.
-spec stack_depth() -> pos_integer().
stack_depth() ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({depth, deep(?DEPTH_MAX)}) end),
    receive {'DOWN', Ref, process, Pid, {depth, N}} -> max(1, N) end.

deep(0) ->
    {current_stacktrace, Stack} = process_info(self(), current_stacktrace),
    length(Stack);
deep(N) -> -deeper(N - 1).

%% The VM shows a frame once that repeats the one before it.
deeper(N) ->
    -deep(N).
