-module(rebar_app).

-export([check/0]).

check() ->
    {ok, "0" ++ _} = application:get_key(kprof, vsn),
    3 = (kprof:wrap(fun(A, B) -> A + B end))(1, 2),
    non_existing = code:which(kprof_agent),
    ok.
