%% kprof_agent.hrl - the agent's state and plan, which its modules share.
%%
%% The state is one record of parts. Each part has an owner, the module that is named above
%% it: others read the part and change it only where what they do is counted there.
%%
%% A function that is exported without a spec takes the state and returns it.

-include("kprof_label.hrl").
-include("kprof_flagger.hrl").

-define(PROTOCOL, 9).           % AGENT_PROTOCOL in src/agent/agent.h
-define(LOADED, [kprof_probe, kprof_agent]).    % the modules that go with the agent
-define(BATCH_EVENTS, 500).     % most events in one message
-define(NEIGHBOURS, 5).         % processes or functions of others that a notice names

%% Two functions of the agent. Calls of them measure what tracing costs (kprof_agent_cost).
-define(MEASURED, [{kprof_agent, traced_around, 1}, {kprof_agent, traced_inside, 0}]).

%% Their return means that code was loaded or deleted.
-define(CODE_CHANGES, [{erlang, finish_loading, 1},
                       {erlang, finish_after_on_load, 2},
                       {erlang, delete_module, 1}]).
%% Only meta tracing, which is used for these alone, has time stamps of this form.
-define(CODE_CHANGED(At), {trace_ts, _, return_from, _, _, {_, _, _} = At}).

%% Legacy tracing is shared: a call of this function means that somebody sets or takes patterns.
-define(SETS_PATTERN, {erts_internal, trace_pattern, 3}).
-define(PATTERN_SET(Args), {trace_ts, _, call, {erts_internal, trace_pattern, Args}, {_, _, _}}).

%% What the agent waits for, by its first element, except events; and the atoms tick and drain.
-define(IS_AWAITED(Tag),
        (Tag =:= kprof orelse Tag =:= kprof_agent orelse Tag =:= 'DOWN' orelse Tag =:= walk orelse
         Tag =:= trace_delivered orelse Tag =:= nodeup orelse Tag =:= timeout orelse
         Tag =:= select orelse Tag =:= reply orelse Tag =:= checks orelse Tag =:= flags orelse
         Tag =:= stacks)).
%% Anybody can send messages to a process with a name. Whoever takes events out of the queue takes
%% these out as well, as kprof_agent_server:loop/1 does. To look for events behind 800,000 of them
%% takes 10 ms each time, in which more events come than are taken.
-define(IS_NOISE(Msg),
        not (Msg =:= tick orelse Msg =:= drain orelse
             is_tuple(Msg) andalso tuple_size(Msg) > 0 andalso ?IS_AWAITED(element(1, Msg)))).

%% One function of the plan.
-record(item, {
    mfa :: mfa(),
    kind :: entry | tier,
    spec :: [tuple()] | false,  % false: disarmed, because it is called too often
    fallback :: [tuple()],      % what replaces an 'exact' spec; [] for all others
    gone = false :: boolean()   % the target has no such function now
}).

%% kprof_agent_server: the daemon, which alone is obeyed, and its lease.
-record(lease, {
    daemon :: pid(),
    monitor :: reference(),
    who :: unicode:chardata(),  % who attached, for the log and status/0
    since :: integer(),         % system time, s
    ms :: pos_integer(),        % without a renewal for so long the agent ends
    renewed_at :: integer(),    % monotonic ms
    ref = 0 :: 0 | reference()  % of the last renewal; the next status answers it
}).

%% kprof_agent_server: what is more than these is an overload.
-record(limits, {
    queue :: non_neg_integer(),                         % events that wait
    memory :: non_neg_integer(),                        % bytes of the agent
    age_ns :: non_neg_integer(),                        % of an event
    function_rate = infinity :: infinity | pos_integer(),   % calls a second of one function
    total_rate = infinity :: infinity | pos_integer()       % calls a second of all functions
}).

%% kprof_agent_server: the trace control word.
-record(word, {
    found :: non_neg_integer(),         % as it was when the agent came
    clock :: undefined | kprof_word:clock()
}).

%% kprof_agent_messages: waits in mailboxes.
-record(messages, {
    wanted = false :: boolean(),
    state = off :: off | on | {others, Tracer :: term()},       % as the daemon knows it
    asked = false :: boolean()          % tokens have asked for events of messages
}).

%% kprof_agent_arming: how often entries were called, armed or not.
-record(entry_calls, {
    read = #{} :: #{mfa() => non_neg_integer()},        % counters, as last read
    read_at = 0 :: integer(),           % monotonic ms
    base = 0 :: non_neg_integer(),      % calls counted under earlier plans
    closed = false :: boolean()         % armed, and entries take tokens: no request begins
                    | timed             % and send events without a token
                    | watched,          % the same, and tiers are not armed
    unarmed = 0 :: integer(),           % calls while no request could begin, before
    unarmed_from = 0 :: integer()       % all calls when that began last
}).

%% kprof_agent_flags: flags that match specs give to processes of requests.
-record(sched_gc, {
    flags = [] :: [atom()],
    sweep = none :: none | {kprof_flagger:walk(), [atom()]},    % takes these away
    monitor = none :: none | pid(),     % looks for other tracers
    alone = true :: boolean() | unknown % there are no other tracers
}).

%% kprof_agent_flags: flags that all processes have.
-record(process_flags, {
    set = [] :: [atom()],
    walk = none :: none | {kprof_flagger:walk(), walking | walked},     % sets or takes them
    untraced = 0 :: non_neg_integer(),  % processes in native code, which the walk waits for
    others = 0 :: non_neg_integer()     % processes that others trace, as the daemon knows
}).

%% kprof_agent_events: events on their way, and what became of them.
-record(events, {
    seq = 0 :: non_neg_integer(),       % batches sent
    sent = 0 :: non_neg_integer(),
    dropped = 0 :: non_neg_integer(),
    dropped_entries = 0 :: non_neg_integer(),
    ring_drops = {0, 0} :: {Events :: non_neg_integer(), Entries :: non_neg_integer()},
    busy_ns = 0 :: non_neg_integer(),   % what batches and counters have cost, and so on
    held_ns = 0 :: non_neg_integer(),   % time within these that went to others
    prices = #{} :: #{kprof_agent_events:work() => Ns :: non_neg_integer()},
    value_sizes = #{} :: #{mfa() => {Events :: non_neg_integer(), Words :: non_neg_integer()}},
    disarmed_at = -1 bsl 63 :: integer(),       % ns: late events are from before that
    unsent = [] :: [tuple()],           % notices that found the connection busy, newest first
    asleep = false :: boolean(),        % the next event of the probe sends {select, _, _, _}
    drains = none :: none | reference() % timer of the next look
}).

%% kprof_agent_checks: commands that other processes work on.
-record(checks, {
    loading :: undefined | {reference(), [module()], Loader :: pid(), Absent :: [module()]},
    rating :: undefined | {reference(), [mfa()], Counted :: [mfa()], StartNs :: integer(),
                           Before :: [{mfa(), term()}]},
    loop_finder :: undefined | pid()
}).

%% kprof_agent_cost: counters of tiers' functions, and their limits.
-record(hot, {
    counters = #{} :: #{mfa() => {AtWindow :: integer(), Last :: integer()}},
    calls = 0 :: non_neg_integer(),     % of tiers' functions, while armed
    unsent = #{} :: #{mfa() => pos_integer()},  % of them, those that the daemon does not know
    sent_entries = 0 :: integer(),      % calls of entries while armed, as the daemon knows
    uncounted = [] :: [mfa()],          % functions that somebody else counts
    window = {0, #{}} :: {StartMs :: integer(), EntryCalls :: #{mfa() => non_neg_integer()}},
    over = 0 :: non_neg_integer()       % windows in a row over the limit for all
}).

%% kprof_agent_intact: modules that are loaded or deleted while they are traced.
-record(code, {
    session :: undefined | kprof_flagger:session(),     % undefined: the agent's own session
    watched = [] :: [mfa()],            % ?CODE_CHANGES, ?SETS_PATTERN: those that report to us
    modules = [] :: [{module(), Version :: binary() | none}],   % of tiers.conf
    checked_at = 0 :: integer() | never,        % system time, us; never: the agent ends
    versions = none :: none | #{module() => non_neg_integer()},         % of all modules
    loads = none :: none | {FirstMs :: integer(), LastMs :: integer()}, % since then
    look_from = -1 bsl 63 :: integer(), % monotonic ms: the versions are not read before
    changes = 0 :: non_neg_integer(),
    gap_us = 0 :: non_neg_integer()     % from loads to the arming again, in all
}).

%% kprof_agent_intact: what others have taken away.
-record(intact, {
    taken = [] :: [integer()],          % when, monotonic ms
    missing_since = never :: never | integer(),         % monotonic ms
    intact_at = never :: never | integer(),     % monotonic ms: all was there
    new_tracer = none :: none | kprof_flagger:tracer()  % traces new processes in our place
}).

%% kprof_agent_foreign: events of other people's patterns.
-record(foreign, {
    known = all :: all | #{mfa() => plain | exact},     % functions whose events are ours
    dropped = 0 :: non_neg_integer(),
    reported = #{} :: #{{mfa() | all, dropped | ceded} => true},        % as the daemon knows
    ceded = #{} :: #{pid() => AtMs :: integer()},       % processes that lost our flags
    copying = [] :: [mfa() | on_load],  % patterns that copy values: we rest while these stand
    counted = {0, []} :: {FromMs :: integer(), [mfa()]},        % calls of these since then
    copies = 0 :: non_neg_integer()     % events with copies since the last lease
}).

%% kprof_agent_cost: what tracing adds to a call; and how often processes with our flags were
%% scheduled, which the VM asks about each time.
-record(cost, {
    switches = 0 :: non_neg_integer(),
    switches_read = 0 :: non_neg_integer(),     % the VM's counter
    spec = none :: none | [tuple()],    % match spec of the calls that measure it
    measured_at = never :: never | integer(),   % monotonic ms; never: they are not armed
    due = now :: now | integer()        % when it is measured next
}).

%% kprof_agent_stacks: the process that samples stacks.
-record(stacks, {
    wanted = none :: none | {PerSecond :: pos_integer(), Ppm :: pos_integer()},
    sampler = none :: none | {pid(), reference()},
    due = none :: none | {Timer :: reference(), AtMs :: integer()},     % its next tick
    seen = {0, []} :: {Events :: non_neg_integer(), [pid()]},   % since the last one, newest first
    busy_ns = 0 :: non_neg_integer(),   % the sampler's, as last reported
    falls = {0, 0} :: kprof_injected:falls()    % of samplers
}).

-record(state, {
    lease :: #lease{},
    limits :: #limits{},
    sentry :: {pid(), reference()},
    session :: kprof_flagger:session(),
    probe = relay :: relay | native,
    plan = [] :: [#item{}],
    state = idle :: idle | armed | paused
                  | waiting                     % for the next slice of time
                  | {tripped | ended, Reason :: term()},
    unfinished = none :: none | disarm | {change, [#item{}]},   % patterns half changed
    leaving = false :: boolean(),       % never to be armed again
    changing = [] :: [{Delivered :: reference(), Ref :: reference()}],
    last_trip = none :: none | map(),   % see kprof_agent_events:trip/3
    word :: #word{},
    messages = #messages{} :: #messages{},
    entry_calls = #entry_calls{} :: #entry_calls{},
    sched_gc = #sched_gc{} :: #sched_gc{},
    process_flags = #process_flags{} :: #process_flags{},
    events = #events{} :: #events{},
    checks = #checks{} :: #checks{},
    hot = #hot{} :: #hot{},
    code = #code{} :: #code{},
    intact = #intact{} :: #intact{},
    foreign = #foreign{} :: #foreign{},
    cost = #cost{} :: #cost{},
    stacks = #stacks{} :: #stacks{}
}).
