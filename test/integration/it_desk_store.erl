%% The store of it_desk's rush: 40 functions, of which each sale calls each.
-module(it_desk_store).

-export([take/2]).

-define(STEP(F), F(X) -> (X * 31 + 7) rem 1000003).

take(Item, N) ->
    {Item, steps(N)}.

steps(X) ->
    f1(f2(f3(f4(f5(f6(f7(f8(f9(f10(f11(f12(f13(f14(f15(f16(f17(f18(f19(f20(f21(f22(f23(f24(
    f25(f26(f27(f28(f29(f30(f31(f32(f33(f34(f35(f36(f37(f38(f39(f40(X)))))))))))))))))))))))))))))))))))))))).

?STEP(f1). ?STEP(f2). ?STEP(f3). ?STEP(f4). ?STEP(f5). ?STEP(f6). ?STEP(f7). ?STEP(f8). ?STEP(f9).
?STEP(f10). ?STEP(f11). ?STEP(f12). ?STEP(f13). ?STEP(f14). ?STEP(f15). ?STEP(f16). ?STEP(f17).
?STEP(f18). ?STEP(f19). ?STEP(f20). ?STEP(f21). ?STEP(f22). ?STEP(f23). ?STEP(f24). ?STEP(f25).
?STEP(f26). ?STEP(f27). ?STEP(f28). ?STEP(f29). ?STEP(f30). ?STEP(f31). ?STEP(f32). ?STEP(f33).
?STEP(f34). ?STEP(f35). ?STEP(f36). ?STEP(f37). ?STEP(f38). ?STEP(f39). ?STEP(f40).
