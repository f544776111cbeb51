# ---- the modules that targets load: EUnit, dialyzer, merging

# A target gets several of them merged into one: erlang/merge.escript.
ERLANG_MODULES := $(wildcard erlang/*.erl erlang/*/*.erl)
ERLANG_HEADERS := $(wildcard erlang/*.hrl erlang/*/*.hrl)
ERLANG_EBIN    := $(B)/erlang/ebin
ERLANG_TESTS   := $(wildcard test/erlang/*_tests.erl)

$(ERLANG_EBIN)/modules: $(ERLANG_MODULES) $(ERLANG_HEADERS) $(ERLANG_TESTS)
	@mkdir -p $(@D)
	@rm -f $(@D)/*.beam
	$(call say,ERLC,$(@D))
	$(Q)erlc -Wall -Werror +debug_info $(ERLC_COMPAT) $(addprefix -I ,$(sort $(dir $(ERLANG_HEADERS)))) \
	    -o $(@D) $(ERLANG_MODULES) $(ERLANG_TESTS)
	@touch $@

.PHONY: erlang-test
erlang-test: $(ERLANG_EBIN)/modules
	erl -noinput -pa $(ERLANG_EBIN) -eval 'halt(case eunit:test([$(subst $(empty) ,$(comma),$(basename $(notdir $(ERLANG_TESTS))))]) of ok -> 0; error -> 1 end).'
	sh test/erlang/merge_test.sh $(B)

# Dialyzer's table of OTP: made once, in a minute.
ERLANG_PLT := $(B)/erlang/plt

$(ERLANG_PLT):
	@mkdir -p $(@D)
	$(call say,PLT,$@)
	$(Q)dialyzer --build_plt --output_plt $@ --apps erts kernel stdlib > $@.log || \
	    [ $$? = 2 ] || { cat $@.log; exit 1; }

# An OTP older than 27 has no trace sessions.
.PHONY: dialyzer
dialyzer: $(ERLANG_EBIN)/modules $(ERLANG_PLT)
	dialyzer --plt $(ERLANG_PLT) --no_check_plt \
	    $(patsubst %,$(ERLANG_EBIN)/%.beam,$(basename $(notdir $(ERLANG_MODULES))))
