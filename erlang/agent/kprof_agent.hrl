%% kprof_agent.hrl - what the modules of the agent share: its state, and how its plan
%% is written down.

-include("kprof_label.hrl").
-include("kprof_flagger.hrl").

-define(PROTOCOL, 4).           % AGENT_PROTOCOL in src/target/agent.h
-define(LOADED, [kprof_probe, kprof_agent]).    % the modules that go with the agent
-define(BATCH_EVENTS, 500).     % most events in one message
-define(NEIGHBOURS, 5).         % processes of others that are named

%% Functions of ours that are called to measure what tracing adds (kprof_agent_traced).
-define(TRACED, [{kprof_agent, traced_around, 1}, {kprof_agent, traced_inside, 0}]).

%% What returns when code was loaded or deleted.
-define(CODE_CHANGES, [{erlang, finish_loading, 1},
                       {erlang, finish_after_on_load, 2},
                       {erlang, delete_module, 1}]).
%% Only meta tracing, which is for these, has time stamps of this form.
-define(CODE_CHANGED(At), {trace_ts, _, return_from, _, _, {_, _, _} = At}).

%% What a plan has of a function; gone: the target has no such function now.
-record(item, {
    mfa :: mfa(),
    kind :: entry | tier,
    spec :: [tuple()] | false,
    fallback :: [tuple()],
    gone = false :: boolean()
}).

-record(s, {
    daemon,             % the only process that is obeyed
    daemon_ref,         % monitor
    sentry,             % {Pid, MonitorRef}
    who,                % binary: who attached, for the log and status/0
    since,              % erlang:system_time(second)
    lease_ms,
    lease_at,           % monotonic ms of the last renewal
    lease_ref = 0,      % its reference: which of them a status answers
    max_queue, max_memory, max_age_ns,
    session,            % trace session (OTP 27+) or legacy
    watcher,            % the session that watches for code, if another;
                        % it was there first
    probe = relay,      % relay | native
    rings = {0, 0},     % events that found their ring full, and entries
    tcw,                % trace control word as it was found
    word,               % {Word, AtMs}: where it is to be: kprof_agent_tokens
    messages = false,   % waits in mailboxes are wanted
    mail = off,         % and had: see mail_begin/1
    mailed = false,     % tokens have asked for events of messages
    plan = [],          % [#item{}], what to arm
    flags = [],         % that its match specs give to processes
    broom = none,       % what takes them: none | {Walk, Flags}
    flagged = [],       % of our own flags those that processes have
    walk = none,        % what sets or takes these: none | {Walk, walking | walked}
    untraced = 0,       % processes that it waits for, which are in native code
    lookout = none,     % who looks for other tracers: none | Pid
    alone = true,       % there are none: true | false | unknown
    state = idle,       % idle | armed | paused | {tripped | ended, Reason}
    amid = none,        % what of patterns is half done: none | disarm | {change, Put}
    exact = #{},        % MFA => {Events, Words}: sizes of values seen
    seq = 0,            % batches sent
    sent = 0,           % events sent
    leaving = false,    % never to be armed again
    busy = 0,           % ns spent on batches
    dropped = 0,        % events dropped
    dropped_entries = 0,
    entry_base = 0,     % entry calls counted under earlier plans
    unarmed = 0,        % entry calls while nothing was armed
    unarmed_from = 0,   % counter when disarmed last
    changing,           % {DeliveredRef, Ref}: a change is answered then
    loading,            % {Ref, Modules, Loader, Absent}: a check is answered then
    rating,             % the probe of call rates that runs: see rates/4
    looker,             % the process that looks for loops meanwhile
    last_trip = none,   % see trip/3
    counted = #{},      % entry MFA => its counter when it was read last
    counted_at = 0,     % monotonic ms of that
    mods = [],          % [{Module, Version}] of tiers.conf, when looked at
    tiers = #{},        % counted functions of tiers => {Base, Last}: see kprof_agent_hot
    tier_calls = 0,     % of theirs, all while armed
    uncounted = [],     % those that somebody else counts
    window = {0, #{}},  % {When it began, in ms; entry MFA => Calls by then}
    over = 0,           % windows in a row that were over the limit for all
    hot = infinity,     % limits, in calls a second: of one function
    calls = infinity,   % and of all together
    looked_at = 0,      % microseconds of system time; never: it is over
    watching = [],      % those of CODE_CHANGES that tell us
    changes = 0,        % modules that were loaded anew, deleted, there at last
    gap_us = 0,         % from those loads to the arming, in all
    taken = [],         % when somebody took what is ours, in monotonic ms
    suspected = never,  % monotonic ms: something has been missing since then
    intact_at = never,  % monotonic ms: all that is ours was there then
    lent = none,        % who is the tracer of new processes in our place
    known = all,        % functions whose events are ours, where others' come too
    foreign = 0,        % events of others, dropped
    named = #{},        % functions of others that the daemon was told of
    ceded = #{},        % processes whose flags that took => since when, in ms
    copies = 0,         % foreign events since the last lease
    disarmed_at = -1 bsl 63, % in ns: events from before that are ours, however many come late
    traced = none,      % match spec of calls that measure what tracing adds, and
    traced_at = never,  % when that was done, in ms: kprof_agent_traced
    unsent = []         % notices that found the connection busy, oldest last
}).
