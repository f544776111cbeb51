# ---- fuzzing: test/fuzz/fuzz_NAME.c with seeds in test/fuzz/corpus/NAME/, and of unit tests
#
# Replaying needs only the compiler; fuzzing needs clang with libFuzzer.  What
# a fuzzer finds goes below build/fuzz/; move a finding worth keeping into the
# corpus by hand.  FUZZ: some fuzzers; FUZZ_RUNS, FUZZ_SECS: for each of them.

FUZZ       := $(patsubst test/fuzz/fuzz_%.c,%,$(wildcard test/fuzz/fuzz_*.c))
FUZZ_CC    ?= clang
FUZZ_RUNS  ?= 10000000
FUZZ_SECS  ?= 3
FUZZ_B     := build/fuzz
# NULL + 0, for empty arrays, is well defined (WG14 N3322).
FUZZ_SAN   := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
              -fno-sanitize=pointer-overflow -fno-omit-frame-pointer
FUZZ_LIB   := $(FUZZ_B)/libkprof.a
FUZZ_SRC   := $(filter-out src/daemon/% src/client/%,$(SRC)) src/daemon/check/check_message.c

$(FUZZ_LIB): $(FUZZ_SRC:%.c=$(FUZZ_B)/obj/%.o)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# The expression that loads the agent, and an empty module in place of the agent, most
# of whose time would go into copying it.
$(FUZZ_B)/gen/agent_beam.h: $(B)/gen/load_agent.etf
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q){ echo 'static unsigned char kp_agent_beam[] = "FOR1";' && \
	    echo 'static unsigned kp_agent_beam_len = 4;' && \
	    xxd -i -n kp_agent_load $<; } > $@

$(FUZZ_B)/obj/src/agent/agent_attach.o: $(FUZZ_B)/gen/agent_beam.h

$(B)/replay/%: test/fuzz/fuzz_%.c test/fuzz/replay.c $(LIBS) test/fuzz/fuzz.h
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -o $@ $(filter %.c %.o,$^) $(LIBS) $(LDLIBS)

# Without tracing of comparisons, which takes a third of the time: decoders compare
# bytes, which are found by chance; dictionaries have the words.
FUZZ_COV   := -fno-sanitize-coverage=trace-cmp

$(FUZZ_B)/obj/%.o: %.c | $(GEN) fuzz-clang
	@mkdir -p $(@D)
	$(call say_folder,CC,$(@D))
	$(Q)$(FUZZ_CC) -g -O2 -std=c11 $(FUZZ_SAN) -fsanitize=fuzzer-no-link $(FUZZ_COV) \
	    -Iinclude -Isrc -I$(FUZZ_B)/gen -I$(B)/gen -D_GNU_SOURCE \
	    -DKP_VERSION='"$(VERSION)"' -MMD -MP -c -o $@ $<

$(FUZZ_B)/fuzz_%: test/fuzz/fuzz_%.c $(FUZZ_LIB) test/fuzz/fuzz.h
	$(call say,CC,$@)
	$(Q)$(FUZZ_CC) -g -O1 -std=c11 $(FUZZ_SAN) -fsanitize=fuzzer $(FUZZ_COV) \
	    -Iinclude -Isrc -D_GNU_SOURCE -DKP_VERSION='"$(VERSION)"' \
	    -o $@ $(filter-out %.h,$^) $(LDLIBS)

# More seeds: what unit tests hand to config, the requests engine and others, written by
# test/support/seeds.c, which is linked in front of these.
SEEDS  := $(B)/seeds
SEED_WRAPS := kp_call_names_new \
    $(shell sed -n 's/^WRAP.[^,]*, \([a-z_]*\),.*/\1/p' test/support/seeds.c)
SEEDED := $(addprefix $(SEEDS)/bin/,config config_hints spec plan nodes tls_optfile request calls)

$(SEEDED): $(SEEDS)/bin/%: $(B)/obj/test/unit/test_%.o $(call obj,test/support/seeds.c) $(LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $(filter %.o,$^) $(LIBS) -lcmocka \
	    $(call wrapped,$(SEED_WRAPS)) $(LDLIBS)

$(SEEDS)/made: $(SEEDED) $(wildcard test/unit/cases/*.txt test/unit/cases/*/*.txt)
	$(call say,GEN,$(SEEDS))
	$(Q)rm -rf $(SEEDS)/corpus && mkdir $(SEEDS)/corpus
	$(Q)for t in $(SEEDED); do \
	    KP_SEEDS=$(SEEDS)/corpus $$t > $(SEEDS)/log 2>&1 || { cat $(SEEDS)/log; exit 1; }; done
	@touch $@

.PHONY: replay fuzz-replay fuzz-clang fuzz-short fuzz
replay: $(addprefix $(B)/replay/,$(FUZZ)) $(SEEDS)/made
	@for t in $(FUZZ); do $(B)/replay/$$t test/fuzz/corpus/$$t \
	    $$(ls -d $(SEEDS)/corpus/$$t 2>/dev/null) || exit 1; done

fuzz-replay:
	@$(MAKE) --no-print-directory SAN=1 replay

fuzz-clang:
	@command -v $(FUZZ_CC) >/dev/null || sh test/support/setup.sh build clang libclang-rt-dev

fuzz-short fuzz: export KP_SEEDS := $(SEEDS)/corpus
fuzz-short: $(addprefix $(FUZZ_B)/fuzz_,$(FUZZ)) $(SEEDS)/made
	sh test/fuzz/run.sh $(FUZZ_B) -max_total_time=$(FUZZ_SECS) $(FUZZ)

fuzz: $(addprefix $(FUZZ_B)/fuzz_,$(FUZZ)) $(SEEDS)/made
	sh test/fuzz/run.sh $(FUZZ_B) -runs=$(FUZZ_RUNS) $(FUZZ)

