%% it_family - supervisors with many children, which log what they are asked.
-module(it_family).
-behaviour(supervisor).

-export([start/2, asked/1]).
-export([init/1, child/0]).

%% Name has a child for each of Kinds: a worker, or a supervisor of its own, with
%% its name.
start(Name, Kinds) ->
    {ok, Sup} = started(Name, Kinds),
    unlink(Sup),
    ok.

started(Name, Kinds) ->
    {ok, Sup} = supervisor:start_link({local, Name}, ?MODULE, Kinds),
    ok = sys:log(Sup, true),
    {ok, Sup}.

init(Kinds) ->
    {ok, {#{}, [spec(I, K) || {I, K} <- lists:zip(lists:seq(1, length(Kinds)), Kinds)]}}.

spec(Id, worker) -> #{id => Id, start => {?MODULE, child, []}};
spec(Id, {Name, Kinds}) ->
    #{id => Id, type => supervisor,
      start => {erlang, apply, [fun() -> started(Name, Kinds) end, []]}}.

child() ->
    {ok, proc_lib:spawn_link(timer, sleep, [infinity])}.

%% The last questions, oldest first.
asked(Name) ->
    {ok, Log} = sys:log(Name, get),
    [What || {in, {'$gen_call', _, What}} <- Log].
