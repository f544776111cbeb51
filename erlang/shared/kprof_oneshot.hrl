%% kprof_oneshot.hrl - a profile as kprof_oneshot sees it, and the module that does it.

-include("kprof_flagger.hrl").

-define(VALUE_MS, 5000).        % to make a text of a value, on a node that is busy

%% What kprof_oneshot has to know of a module that is loaded for one profile.
-record(host, {
    %% its own, and that of its process
    name :: module(),
    %% a word for people: counts, traces
    verb :: string(),
    %% and for what: it counts calls
    noun = "calls" :: string(),
    %% modules that go when it goes
    loaded :: [module()],
    %% sends the starter {self(), Info} when it is armed, or exits with kprof_text:refuse/2
    init :: fun((pid(), pid(), map()) -> no_return()),
    %% whose the flags are in a VM without sessions, of the server that it is given
    legacy_tracer = fun(Server) -> Server end :: fun((pid()) -> kprof_flagger:tracer()),
    %% takes back one of what armed has, in a VM without sessions
    legacy_clear = fun(_) -> ok end :: fun((term()) -> term())
}).

%% One profile, for one client.
-record(profile, {
    host :: #host{},
    client :: pid(),
    client_ref :: reference(),
    sentry :: {pid(), reference()},
    %% for the log
    who :: binary(),
    session :: kprof_flagger:session(),
    lease_ms :: pos_integer(),
    lease_at :: undefined | integer(),
    %% what patterns were set, as legacy_clear takes them
    armed = [] :: [term()],
    %% of the flags of processes
    walk = none :: none | wanted | kprof_flagger:walk() | cleared,
    %% the trace control word as it was
    word :: undefined | non_neg_integer(),
    applied :: kprof_call:applied(),
    %% bytes of the VM's own, past those at the start
    memory_max :: pos_integer(),
    memory :: integer()
}).
