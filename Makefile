# kprofd - see `make help`.
#
# Everything is built below build/ (build/san with SAN=1).  The pure stages
# become libkprof.a, which unit tests and fuzzers link without libevent, ei or
# SQLite: the link line proves that they do no I/O.

PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
VERSION := 0.1.0

ifdef SAN
B       := build/san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined
else
B       := build
SANFLAGS :=
endif

OPT     ?= -O2
CFLAGS  ?= -g $(OPT)
WARN    := -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
           -Wmissing-prototypes -Wformat=2 -Wconversion -Wno-sign-conversion
ifdef CI
WARN    += -Werror
endif
ALL_CFLAGS := $(CFLAGS) $(WARN) $(SANFLAGS) -Iinclude -Isrc -I$(B)/gen \
           -D_GNU_SOURCE -DKP_VERSION='"$(VERSION)"' -pthread -MMD -MP
LDLIBS_DAEMON := -levent_core -levent_pthreads -lsqlite3 -lei -lm -pthread
LDLIBS_CLIENT := -lsqlite3 -lm -pthread

src = $(filter-out $(2),$(wildcard $(1)))
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

PURE   := $(call src,src/base/*.c,src/base/log.c) \
          $(wildcard src/config/*.c src/decode/*.c src/request/*.c \
                     src/stats/*.c src/guard/*.c) src/target/plan.c
PURE   := $(wildcard $(PURE))
EDGES  := $(wildcard src/base/log.c)
DAEMON := $(call src,src/target/*.c,src/target/plan.c) \
          $(wildcard src/store/*.c src/kprofd/*.c src/report/*.c)
CLIENT := $(wildcard src/kprof/*.c src/report/*.c src/store/*.c)

LIB    := $(B)/libkprof.a
BEAM   := $(B)/gen/kprof_agent.beam

.PHONY: all clean help
all: $(B)/kprofd $(B)/kprof

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(LIB): $(call obj,$(PURE))
	rm -f $@
	ar rcs $@ $^

# The agent's code travels inside kprofd.  It must load on OTP 25, so the
# release that compiles it has to be 25 or older.
$(BEAM): erlang/kprof_agent.erl
	@mkdir -p $(@D)
	erlc -Wall +deterministic -o $(@D) $<

$(B)/gen/agent_beam.h: $(BEAM)
	xxd -i -n kp_agent_beam $< > $@

$(call obj,src/target/agent.c): $(B)/gen/agent_beam.h

# The database's schema travels along too, as one string.
$(B)/gen/schema_sql.h: priv/schema.sql
	@mkdir -p $(@D)
	(cat $<; printf '\0') > $(B)/gen/schema.sql
	xxd -i -n kp_schema_sql $(B)/gen/schema.sql | \
	    sed 's/^unsigned char/static const &/; /^unsigned int/d' > $@

$(call obj,src/store/schema.c): $(B)/gen/schema_sql.h

$(B)/kprofd: $(call obj,$(DAEMON) $(EDGES)) $(LIB)
	$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^ $(LDLIBS_DAEMON)

$(B)/kprof: $(call obj,$(CLIENT) $(EDGES)) $(LIB)
	$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^ $(LDLIBS_CLIENT)

# One program for each test/unit/test_*.c; it links the pure library only,
# unless it names more here.
UNIT      := $(patsubst test/unit/%.c,$(B)/test/%,$(wildcard test/unit/test_*.c))
UNIT_STORE := test_store test_report

$(B)/test/%: test/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itest/support -MF $@.d -o $@ $< $(UNIT_EXTRA) $(LIB) -lcmocka -lm $(UNIT_LIBS)

$(addprefix $(B)/test/,$(UNIT_STORE)): UNIT_EXTRA = $(call obj,$(wildcard src/store/*.c src/report/*.c) $(EDGES))
$(addprefix $(B)/test/,$(UNIT_STORE)): UNIT_LIBS = -lsqlite3
$(addprefix $(B)/test/,$(UNIT_STORE)): $(call obj,$(wildcard src/store/*.c src/report/*.c) $(EDGES))

# The ledger is pure, though it lives with the daemon.
$(B)/test/test_guard: UNIT_EXTRA = $(call obj,src/kprofd/ledger.c)
$(B)/test/test_guard: $(call obj,src/kprofd/ledger.c)

.PHONY: unit
unit: $(UNIT)
	@for t in $(UNIT); do echo "== $$t"; $$t || exit 1; done

# Fuzz targets are test/fuzz/fuzz_NAME.c, their seeds test/fuzz/corpus/NAME/.
# Replaying needs only the compiler; fuzzing needs clang with libFuzzer.  What
# a fuzzer finds goes below build/fuzz/; a finding worth keeping is moved to
# the corpus by hand.
FUZZ       := $(patsubst test/fuzz/fuzz_%.c,%,$(wildcard test/fuzz/fuzz_*.c))
FUZZ_CC    ?= clang
FUZZ_RUNS  ?= 10000000
FUZZ_SECS  ?= 10
FUZZ_B     := build/fuzz
FUZZ_SAN   := -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_FLAGS := -timeout=5 -rss_limit_mb=1024 -print_final_stats=1
FUZZ_OBJ   := $(patsubst %.c,$(FUZZ_B)/obj/%.o,$(PURE))

$(B)/replay/%: test/fuzz/fuzz_%.c test/fuzz/replay.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -o $@ $^ -lm

$(FUZZ_B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) -g -O1 -std=c11 $(FUZZ_SAN) -fsanitize=fuzzer-no-link \
	    -Iinclude -Isrc -D_GNU_SOURCE -MMD -MP -c -o $@ $<

$(FUZZ_B)/fuzz_%: test/fuzz/fuzz_%.c $(FUZZ_OBJ)
	$(FUZZ_CC) -g -O1 -std=c11 $(FUZZ_SAN) -fsanitize=fuzzer \
	    -Iinclude -Isrc -D_GNU_SOURCE -o $@ $^ -lm

# $(1): how long
run_fuzzers = @for t in $(FUZZ); do \
	    mkdir -p $(FUZZ_B)/corpus/$$t && echo "== fuzz_$$t" && \
	    $(FUZZ_B)/fuzz_$$t $(FUZZ_FLAGS) $(1) \
	        -artifact_prefix=$(FUZZ_B)/$$t- \
	        $(FUZZ_B)/corpus/$$t test/fuzz/corpus/$$t \
	        2> $(FUZZ_B)/$$t.log; st=$$?; tail -n 7 $(FUZZ_B)/$$t.log; \
	    [ $$st = 0 ] || { echo "see $(FUZZ_B)/$$t.log"; exit 1; }; \
	done

.PHONY: replay fuzz-replay fuzz-short fuzz
replay: $(addprefix $(B)/replay/,$(FUZZ))
	@for t in $(FUZZ); do $(B)/replay/$$t test/fuzz/corpus/$$t || exit 1; done

fuzz-replay:
	@$(MAKE) --no-print-directory SAN=1 replay

fuzz-short: $(addprefix $(FUZZ_B)/fuzz_,$(FUZZ))
	$(call run_fuzzers,-max_total_time=$(FUZZ_SECS))

fuzz: $(addprefix $(FUZZ_B)/fuzz_,$(FUZZ))
	$(call run_fuzzers,-runs=$(FUZZ_RUNS))

# What the hot paths cost; to be read, not asserted.
BENCH := $(patsubst test/bench/%.c,$(B)/bench/%,$(wildcard test/bench/bench_*.c))

$(B)/bench/%: test/bench/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< $(LIB) -lm

.PHONY: bench
bench: $(BENCH)
	@for t in $(BENCH); do $$t || exit 1; done
# Prints the match specs that kprofd arms, for test/integration/spec_check.erl.
$(B)/test/specdump: test/support/specdump.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< $(LIB)

# The match specs against real Erlang funs, on the release that is installed.
.PHONY: spec-check
spec-check: $(B)/test/specdump
	escript test/integration/spec_check.erl $(B)/test/specdump
# make build/bench/bench_dump
$(B)/bench/bench_dump: test/bench/bench_dump.c $(call obj,$(wildcard src/store/*.c)) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $(filter %.c %.o %.a,$^) -lsqlite3 -lm

clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
