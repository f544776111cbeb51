%% kprof_tracer.hrl - the tracer's state, which its modules share.
%%
%% The state is one record of parts. Each part has an owner, the module that is named above it. A
%% function that is exported without a spec takes the state and returns it, or is of types that
%% its patterns show.

-include("kprof_label.hrl").
-include("kprof_oneshot.hrl").

-define(LOADED, {erlang, finish_loading, 1}).   % its return means that code was loaded
-define(NUMBERS, 1 bsl 20).     % requests that the client can tell apart
-define(BATCH, 500).            % events of one message
-define(LARGE, 10).             % an event that may be large counts as so many

%% kprof_tracer_events: events on their way to the client.
-record(events, {
    max :: undefined | pos_integer(),   % of the whole trace
    count = 0 :: non_neg_integer(),     % so far
    batch = [] :: [tuple()],            % not yet sent, newest first
    n = 0 :: non_neg_integer(),         % length of batch
    kept = [] :: [tuple()],             % taken from the queue early, oldest first
    seq = 0 :: non_neg_integer(),       % messages sent
    dropped = 0 :: non_neg_integer()    % by the native probe
}).

%% kprof_tracer_events: the tracer's message queue.
-record(queue, {
    max :: undefined | pos_integer(),   % messages
    weighed = {0, 0} :: {Messages :: integer(), Ms :: integer()},       % past either, its
                                        % memory is asked for again
    passed_over = 0 :: non_neg_integer(),       % messages in no batch since the last look
    binaries = 0 :: non_neg_integer()   % bytes of all binaries when few messages waited
}).

%% Traces by request. The label of a token names a request in the VM; here it has a number. A
%% request that begins within another is part of it.
-record(requests, {
    %% kprof_tracer_requests
    entries = #{} :: #{mfa() => []},    % a call of one begins a request
    epoch :: undefined | non_neg_integer(),     % of our labels
    max = 0 :: non_neg_integer(),       % requests to trace; 0: no end
    begun = 0 :: non_neg_integer(),
    ended = 0 :: non_neg_integer(),
    numbers = 0 :: non_neg_integer(),   % given to requests so far
    labels = #{} :: #{Label :: term() => Number :: non_neg_integer()},
    open = #{} :: #{Number :: pos_integer() => {pid(), Caller :: term()}},
    working = #{} :: #{pid() => Number :: pos_integer()},       % the last request of a process
    warm = no :: no | quiet | busy,     % requests are marked, but none is traced yet
    full :: undefined | integer() | full,       % since, or from this ms on, entries mark no more
    %% kprof_tracer_owner; requests by number, or 0: it is not traced
    own = #{} :: #{pid() => {non_neg_integer(), Caller :: term()}},     % inside an entry
    meant = #{} :: #{pid() => {Label :: term(), non_neg_integer()}},    % what its token stands for
    sent = #{} :: #{{From :: pid(), Serial :: integer()} => non_neg_integer()}, % messages on their
    sent_before = #{} :: #{{pid(), integer()} => non_neg_integer()},    % way; for some time
    sent_since = never :: never | integer(),    % this ms
    messages = false :: boolean(),      % we see them: we are the system tracer
    until :: undefined | integer(),     % ns: later events do not count
    last = #{} :: #{pid() => {From :: pid(), Serial :: integer()}},     % message that it took
    silent = #{} :: #{pid() => []},     % no token since it was scheduled in, in its entry
    unsure = 0 :: non_neg_integer(),    % requests that probably lost their token
    %% kprof_tracer_end
    swept = [] :: [mfa() | {module(), '_', '_'}],       % functions whose callers lose tokens
    %% kprof_tracer_requests, of several nodes
    other_epochs = #{} :: #{non_neg_integer() => []},
    elsewhere = #{} :: #{Number :: pos_integer() => []},        % begun in another node
    news = [] :: [tuple()],             % for the client, newest first
    %% kprof_tracer_early
    early = #{} :: #{pid() => {Ms :: integer(), For :: term(), Newest :: [tuple()]}},
    early_n = 0 :: non_neg_integer(),   % events in early
    %% kprof_tracer_limits
    attached = false :: boolean(),      % a kprofd begins the requests, and
    kprofd :: undefined | reference(),  % this monitors its agent
    held = #{} :: #{pid() => Newest :: [tuple()]},      % events of a request not known yet
    marks = [] :: [mfa()],              % functions that may give a request its identity
    inside = [] :: [mfa()],             % functions of the tier in which calls are traced
    specs = #{} :: #{mfa() => [tuple()]},       % of entries that may give an identity
    named = all :: all | #{Number :: pos_integer() => Id :: pos_integer() | wanted | unwanted},
    known = #{} :: #{Identity :: term() => {Id :: pos_integer(), asked | wanted | unwanted}}
}).

%% kprof_tracer_loads: code that is loaded while it is traced.
-record(loads, {
    asked :: #{patterns := [tuple()], exclude := [tuple()], _ => _},    % the options
    room :: integer(),                  % functions that may still be armed
    mods :: #{module() => {OneOfThem :: mfa(), Armed :: non_neg_integer()}},
    bytes = 0 :: non_neg_integer(),     % of match specs that show arguments
    each = #{} :: #{module() => Bytes :: non_neg_integer()},
    seen = all :: all | #{module() => []},      % loaded when `_` was asked for
    watcher :: undefined | kprof_flagger:session(),
    looked :: integer(),                % monotonic ms of the last look
    took = 0 :: non_neg_integer(),      % ms of the last look
    due = false :: boolean(),           % look again as soon as possible
    todo = [] :: [{again | came | whole, module(), [term()]}],  % patterns to be armed
    %% Is new code traced from its first call on, or why not? no: nobody asked for it.
    ahead = no :: no | true | others | exclude | args | requests | limit,
    again = [] :: [module()],           % modules that were armed again
    came = [] :: [module()],            % new modules, armed some time after their load
    whole = [] :: [module()],           % new modules, armed with their load
    missed = [] :: [module()]           % modules that could not be armed
}).

-record(state, {
    profile :: undefined | #profile{},
    probe = relay :: relay | native,
    ours = all :: all | #{mfa() => []}, % functions whose calls are ours
    gc = [] :: [garbage_collection],    % [] where the VM cannot report it to us
    chosen :: undefined | all | existing | new | [pid()],
    flags = [] :: [atom()],             % of the chosen processes, set by `go`
    args_max = 0 :: non_neg_integer(),  % bytes of a binary among arguments; 0: no arguments
    guards = [] :: [tuple()],           % leave out processes that somebody else traces
    stage = ready :: ready | tracing | draining,
    why :: undefined | {atom(), term()},        % the reason of the end, with its text
    delivered :: undefined | all | reference(), % after it no event comes
    span_ms = 0 :: non_neg_integer(),   % length of the trace; 0: no end
    span :: undefined | pid(),          % ends it
    events = #events{} :: #events{},
    queue = #queue{} :: #queue{},
    loads :: undefined | #loads{},
    requests :: undefined | #requests{},        % undefined: not by request
    clock :: undefined | kprof_word:clock()     % if the trace control word is ours
}).
