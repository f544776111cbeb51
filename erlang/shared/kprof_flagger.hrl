%% kprof_flagger.hrl - for callers of kprof_flagger.

-define(CLEAR_MS, 10000).       % time limit for taking flags, on a busy node
