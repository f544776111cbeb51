%% kprof_label.hrl - whose a token is: the bits of labels (include/kprofd/label.h),
%% and expressions of match specs that ask for them.

-define(WORD_BITS, 32).         % the trace control word, in each label
-define(CONST_BITS, 42).        % below its constant part
-define(KIND_BITS, 52).         % below signature and kind
-define(SIGN_BITS, 53).
-define(LABEL_SIGN, 16#2D).
-define(LABEL_KPROFD, (?LABEL_SIGN bsl 1)).
-define(LABEL_TRACE, (?LABEL_SIGN bsl 1 bor 1)).
%% A constant part that no arming has (KP_LABEL_MEASURES): of calls that measure what
%% tracing adds (kprof_agent_cost).
-define(MEASURING, 16#3FF).
-define(MEASURES(Label), (((Label) bsr ?CONST_BITS) band ?MEASURING =:= ?MEASURING)).
-define(WORD_MASK, ((1 bsl ?WORD_BITS) - 1)).

%% Of a process that has a token. What is no integer makes 'EXIT', which is not
%% the number either.
-define(LABEL_BEGINS(Bits, Part), {'=:=', {'bsr', {element, 2, {get_seq_token}}, Bits}, Part}).
-define(IS_OURS, ?LABEL_BEGINS(?SIGN_BITS, ?LABEL_SIGN)).

%% For functions whose callers are to have no token of ours any more. Others'
%% stay.
-define(TAKE_TOKEN, [{'_', [{is_seq_trace}],
                      [{message, false},
                       {'andalso', ?IS_OURS, {set_seq_token, sequential_trace_token, []}}]}]).
