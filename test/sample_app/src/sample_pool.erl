%% A pool of gen_servers under a supervisor, taken in turn by an atomic counter:
%% there is no dispatching process for every request to pass through.
%%
%% Workers are known by registered names, which stay the same when one is
%% restarted; so a caller never holds the pid of a dead one.
-module(sample_pool).
-behaviour(supervisor).

-export([start_link/2, child_spec/2, pick/1]).
-export([init/1]).

child_spec(Layer, Module) ->
    #{id => {pool, Layer}, start => {?MODULE, start_link, [Layer, Module]}, type => supervisor}.

start_link(Layer, Module) ->
    supervisor:start_link(?MODULE, {Layer, Module}).

%% The name of the worker whose turn it is.
pick(Layer) ->
    {Turn, Names} = persistent_term:get({?MODULE, Layer}),
    element(atomics:add_get(Turn, 1, 1) rem tuple_size(Names) + 1, Names).

%% Workers die on purpose here, often, and that must not end the application.
init({Layer, Module}) ->
    #{workers := Size} = sample_config:get(Layer),
    Names = [worker_name(Layer, N) || N <- lists:seq(1, Size)],
    persistent_term:put({?MODULE, Layer}, {atomics:new(1, [{signed, false}]), list_to_tuple(Names)}),
    Workers = [#{id => Name,
                 start => {gen_server, start_link, [{local, Name}, Module, Layer, []]}}
               || Name <- Names],
    {ok, {#{strategy => one_for_one, intensity => 10000, period => 1}, Workers}}.

worker_name(Layer, N) ->
    list_to_atom("sample_" ++ atom_to_list(Layer) ++ "_" ++ integer_to_list(N)).
