%% kprof_tracer.hrl - what the modules of the tracer share: its state.

-include("kprof_label.hrl").
-include("kprof_oneshot.hrl").

-define(LOADED, {erlang, finish_loading, 1}).   % what returns when code was loaded
-define(NUMBERS, 1 bsl 20).     % requests, as many as the client can tell apart
-define(BATCH, 500).            % events of one message
-define(LARGE, 10).             % one that may be large counts as so many

-record(s, {
    p :: #profile{},     % what kprof_oneshot knows of
    probe = relay,      % or native
    dropped = 0,        % by the native one
    ours,               % #{{M, F, A} => []}, or all: whose calls we take for ours
    gc,                 % [garbage_collection], or [] where we are not told of that
    chosen, flags,      % of processes, set by go,
    args = 0,           % most bytes of a binary among arguments; 0: none of these
    guards,             % of patterns: not of processes that somebody else traces
    stage = ready,      % ready | tracing | draining: no more events are made
    why,                % the reason that it ended for, and what was said of it
    delivered,          % reference: after it no event comes
    span_ms = 0, span,  % 0: no end; who ends it then
    binaries,           % of all binaries, when few events waited
    events = 0, events_max,
    queue_max,
    weighed = {0, 0},   % {Messages, Ms}: what the queue takes is asked past either
    passed_over = 0,    % messages since the queue was looked at for them
    loads,              % #loads{}: code that is loaded meanwhile
    r,                  % undefined | #r{}: by request
    batch = [], n = 0,  % events not yet sent, the last first
    kept = [],          % those taken from the queue before it was their turn
    seq = 0
}).

%% Traces by request. The token's label names a request in the VM; here it has a
%% number. One that begins within another is part of it.
-record(r, {
    entries,            % #{{M, F, A} => []}: what begins one
    epoch,              % of labels, which are ours by that
    max,                % so many; 0: no end to them
    begun = 0, ended = 0,
    given = 0,          % numbers
    labels = #{},       % label => number
    open = #{},         % number => {pid, who the entry returns to}
    at = #{},           % pid => number: what a process last worked for
    %% kprof_tracer_sweep:
    swept = [],         % of functions, when they are armed no more
    %% kprof_tracer_nodes:
    others = #{},       % epoch => [], of other nodes
    elsewhere = #{},    % number => []: began in another node, and goes on
    news = [],          % for the client, the last first
    %% kprof_tracer_early:
    early = #{},        % pid => {Ms, the label that it waits for, events, the last first}
    early_n = 0,        % events
    constant = unknown, % of labels of requests that have an identity
    %% kprof_tracer_limits:
    attached,           % a kprofd begins them:
    kprofd,             % a monitor of its agent, or undefined
    held = #{},         % pid => events, the last first: of which request?
    marks,              % functions that may say what a request's identity is
    inside,             % functions of a tier that calls are to be in
    named,              % all, or #{number => identity's number | wanted | unwanted}
    known = #{}         % identity => {number, asked | wanted | unwanted}
}).

%% Code that is loaded while it is traced.
-record(loads, {
    asked,              % the options: patterns, exclude
    room,               % functions that may be armed yet
    mods,               % #{module => {one of its functions, how many are armed}}
    bytes = 0,          % that match specs take, where they show arguments
    each = #{},         % #{module => of these}
    seen = all,         % #{module => []}: loaded when `_` was asked for
    watcher,            % trace session, or legacy
    looked,             % ms, when that was done
    took = 0,           % ms
    due = false,        % to be looked again, as soon as may be
    todo = [],          % {again | came, module, patterns}: to be armed
    again = [],         % modules that were armed again
    came = [],          % that were new
    missed = []         % that were not armed
}).
