%% The top supervisor. The listener comes last, so that whoever can connect is
%% served; the database's table belongs to this process, so that no worker's
%% death empties it.
-module(sample_sup).
-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

init([]) ->
    ok = db:create_table(),
    {ok, {#{strategy => one_for_one},
          [#{id => accounting, start => {accounting, start_link, []}},
           #{id => sample_queue, start => {sample_queue, start_link, []}},
           #{id => sample_tasks, start => {sample_pattern, start_tasks, []}, type => supervisor},
           #{id => sample_pattern, start => {sample_pattern, start_link, []}},
           sample_pool:child_spec(db, db),
           sample_pool:child_spec(formatter, formatter),
           sample_pool:child_spec(handle, requests),
           #{id => network_server, start => {network_server, start_link, []}}]}}.
