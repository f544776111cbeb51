%% kprof_flagger.hrl - for who calls kprof_flagger.

-define(CLEAR_MS, 10000).       % for flags to be taken, on a node that is busy
