%% kprof_label.hrl - the bits of labels, which show whose a token is (include/kprofd/label.h),
%% and expressions of match specs that test them.

-define(WORD_BITS, 32).         % above a number of the trace control word
-define(CONST_BITS, 42).        % below its constant part
-define(KIND_BITS, 52).         % below signature and kind
-define(SIGN_BITS, 53).
-define(LABEL_SIGN, 16#2D).
-define(LABEL_KPROFD, (?LABEL_SIGN bsl 1)).
-define(LABEL_TRACE, (?LABEL_SIGN bsl 1 bor 1)).
%% A constant part that no arming uses (KP_LABEL_MEASURES), for the calls that measure what
%% tracing costs (kprof_agent_cost); with one bit more it is of no request either
%% (KP_LABEL_UNOWNED).
-define(MEASURING, 16#3FE).
-define(MEASURES(Label), (((Label) bsr ?CONST_BITS) band ?MEASURING =:= ?MEASURING)).

%% For a process that has a token. A label that is not an integer makes 'EXIT', which differs
%% from the number.
-define(LABEL_BEGINS(Bits, Part), {'=:=', {'bsr', {element, 2, {get_seq_token}}, Bits}, Part}).
-define(IS_OURS, ?LABEL_BEGINS(?SIGN_BITS, ?LABEL_SIGN)).

%% Takes our tokens from the callers of a function, and leaves others in place.
-define(TAKE_TOKEN, [{'_', [{is_seq_trace}],
                      [{message, false},
                       {'andalso', ?IS_OURS, {set_seq_token, sequential_trace_token, []}}]}]).
