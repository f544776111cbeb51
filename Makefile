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

.PHONY: unit
unit: $(UNIT)
	@for t in $(UNIT); do echo "== $$t"; $$t || exit 1; done

# make build/bench/bench_dump
$(B)/bench/bench_dump: test/bench/bench_dump.c $(call obj,$(wildcard src/store/*.c)) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $(filter %.c %.o %.a,$^) -lsqlite3 -lm

clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
