# kprofd - `make help` says what there is.
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
ALL_CFLAGS = $(CPPFLAGS) $(CFLAGS) $(WARN) $(SANFLAGS) -Iinclude -Isrc -I$(B)/gen \
           -D_GNU_SOURCE -DKP_VERSION='"$(VERSION)"' -pthread -MMD -MP
LDLIBS_WEB    := -levent_core -levent_extra -levent_pthreads
LDLIBS_DAEMON := $(LDLIBS_WEB) -levent_openssl -lssl -lcrypto -lsqlite3 -lei -lm -pthread
LDLIBS_CLIENT := $(LDLIBS_WEB) -lsqlite3 -lei -lm -pthread

comma := ,
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

# Reads a file: the one of its room that is not pure.
READS  := src/config/tiers_file.c
PURE   := $(filter-out $(READS),$(wildcard src/base/*.c src/config/*.c \
              src/config/spec/*.c src/plan/*.c src/decode/*.c src/request/*.c \
              src/stats/*.c src/guard/*.c src/profile/trace/*.c))
# What the client does in a node without a daemon.
ERRANDS := src/target/once.c src/dist/sync.c $(wildcard src/profile/target/*.c)
STORE  := $(wildcard src/store/*.c src/store/*/*.c)
REPORT := $(wildcard src/report/*.c src/report/compare/*.c src/profile/report/*.c \
              src/text/*.c) $(READS)
# What is sent to a collector is the daemon's alone; metrics are served by the
# web server.
OTLP   := src/export/otlp.c src/export/otlp_json.c \
                src/export/http_post.c
WEB    := $(wildcard src/web/*.c) \
          $(filter-out $(OTLP),$(wildcard src/export/*.c))
DAEMON := $(wildcard src/daemon/*.c src/daemon/*/*.c) $(STORE) $(REPORT) $(WEB) $(OTLP) \
          $(filter-out $(ERRANDS),$(wildcard src/dist/*.c src/target/*.c))
CLIENT := $(wildcard src/client/*.c src/profile/command/*.c) $(STORE) $(REPORT) $(WEB) \
          $(ERRANDS) src/dist/handshake.c src/target/agent_msg.c \
                src/target/probe_file.c

# The SQLite extension: code of its own, since it has to run anywhere.
EXT    := src/sqlite/kprof_sqlite.c src/stats/hist.c src/base/buf.c

LIB    := $(B)/libkprof.a

.PHONY: all
all: $(B)/kprofd $(B)/kprof $(B)/kprof_sqlite.so $(B)/kprof_probe.so $(B)/kprof_calls_probe.so library

# ---- generated: the agent's code and the schema travel inside the binaries

# The agent must load on OTP 25: newer compilers have to be told.
ERLC_COMPAT = $(shell erl -noinput -eval 'R = list_to_integer(erlang:system_info(otp_release)), io:put_chars([" +r25 -disable-feature maybe_expr" || R > 25]), halt().')

$(B)/gen/kprof_%.beam: erlang/kprof_%.erl $(wildcard erlang/*.hrl)
	@mkdir -p $(@D)
	erlc -Wall +deterministic$(ERLC_COMPAT) -o $(@D) $<

# The expression that loads and starts it, parsed.
PARSE = {ok, Text} = file:read_file("$<"), \
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)), \
    {ok, [Expr]} = erl_parse:parse_exprs(Tokens), \
    ok = file:write_file("$@", term_to_binary(Expr)), halt().

$(B)/gen/load.etf: erlang/load.exprs
	@mkdir -p $(@D)
	ERL_CRASH_DUMP_BYTES=0 erl -noinput -eval '$(PARSE)'

$(B)/gen/agent_beam.h: $(B)/gen/kprof_agent.beam $(B)/gen/load.etf
	{ xxd -i -n kp_agent_beam $(B)/gen/kprof_agent.beam && \
	    xxd -i -n kp_agent_load $(B)/gen/load.etf; } > $@

# The same for counters; load.exprs speaks of the agent's module only.
$(B)/gen/counters.exprs: erlang/load.exprs
	@mkdir -p $(@D)
	sed 's/kprof_agent/kprof_counters/g' $< > $@

$(B)/gen/counters.etf: $(B)/gen/counters.exprs
	ERL_CRASH_DUMP_BYTES=0 erl -noinput -eval '$(PARSE)'

$(B)/gen/counters_beam.h: $(B)/gen/kprof_counters.beam $(B)/gen/counters.etf
	{ xxd -i -n kp_counters_beam $(B)/gen/kprof_counters.beam && \
	    xxd -i -n kp_counters_load $(B)/gen/counters.etf; } > $@

# And for full traces.
$(B)/gen/tracer.exprs: erlang/load.exprs
	@mkdir -p $(@D)
	sed 's/kprof_agent/kprof_tracer/g' $< > $@

$(B)/gen/tracer.etf: $(B)/gen/tracer.exprs
	ERL_CRASH_DUMP_BYTES=0 erl -noinput -eval '$(PARSE)'

$(B)/gen/tracer_beam.h: $(B)/gen/kprof_tracer.beam $(B)/gen/tracer.etf
	{ xxd -i -n kp_tracer_beam $(B)/gen/kprof_tracer.beam && \
	    xxd -i -n kp_tracer_load $(B)/gen/tracer.etf; } > $@

$(B)/gen/probe_beam.h: $(B)/gen/kprof_probe.beam
	xxd -i -n kp_probe_beam $< > $@

$(B)/gen/calls_probe_beam.h: $(B)/gen/kprof_calls_probe.beam
	xxd -i -n kp_calls_probe_beam $< > $@

$(B)/gen/schema_sql.h: priv/schema.sql
	@mkdir -p $(@D)
	{ cat $<; printf '\0'; } > $(B)/gen/schema.sql.0
	xxd -i -n kp_schema_sql $(B)/gen/schema.sql.0 > $@

$(call obj,src/target/agent_steps.c): $(B)/gen/agent_beam.h
$(call obj,src/profile/target/counters.c): $(B)/gen/counters_beam.h
$(call obj,src/profile/target/tracer.c): $(B)/gen/tracer_beam.h
$(call obj,src/profile/target/tracer_probe.c): $(B)/gen/calls_probe_beam.h
$(call obj,src/target/agent_probe.c): $(B)/gen/probe_beam.h
$(call obj,src/store/schema.c): $(B)/gen/schema_sql.h

# What a lock file pins, out of npm's cache where it is there.  $(1): another
# way out.
npm_ci = npm ci --no-audit --no-fund --ignore-scripts --prefer-offline --fetch-retries=5 --loglevel=error || { \
    echo 'make: npm did not install what $< names: is npm there (make setup), and' >&2; \
    echo 'make: its registry (npm ping; a mirror: npm config set registry URL)?$(1)' >&2; exit 1; }

# The dashboard: its own files, and the chart library from npm, as the lock
# file pins it; what is served is in the programs.  UPLOT: where its files are,
# if they are not to be had from npm.
UPLOT_NPM := $(B)/npm/node_modules/uplot/dist
UPLOT     ?= $(UPLOT_NPM)
WEB_FILES := $(wildcard priv/web/*.html priv/web/*.css priv/web/*.js priv/web/*.svg) \
             priv/openapi.json
WEB_LIB   := $(UPLOT)/uPlot.esm.js $(UPLOT)/uPlot.min.css

$(UPLOT_NPM)/uPlot.esm.js $(UPLOT_NPM)/uPlot.min.css &: $(addprefix priv/web/,package.json package-lock.json .npmrc)
	@mkdir -p $(B)/npm
	cp $^ $(B)/npm
	@cd $(B)/npm && { $(call npm_ci, Or: make UPLOT=DIR with uPlot.esm.js and uPlot.min.css); }
	@touch $(UPLOT_NPM)/uPlot.esm.js $(UPLOT_NPM)/uPlot.min.css

$(B)/gen/web_assets.h: $(WEB_FILES) $(WEB_LIB) Makefile
	@mkdir -p $(@D)
	@n=0; list=; : > $@.new; for f in $(WEB_FILES) $(WEB_LIB); do \
	    xxd -i -n web_file_$$n "$$f" >> $@.new || exit 1; \
	    list="$$list{ \"/$${f##*/}\", web_file_$$n, sizeof(web_file_$$n) },"; \
	    n=$$((n + 1)); \
	done; \
	{ sed -e 's/^unsigned char/static const unsigned char/' \
	      -e '/^unsigned int/d' $@.new; \
	    echo 'static const struct { const char *path; const unsigned char *p;'; \
	    echo '    size_t n; } web_files[] = {' "$$list" '};'; } > $@ && rm $@.new

$(call obj,src/web/assets.c): $(B)/gen/web_assets.h

# ---- the library for applications (erlang/kprof/README.md), compiled; the
# agent is no part of it: where its module is, kprofd takes it for an agent

LIBRARY      := kprof kprof_cowboy_middleware kprof_cowboy_stream
LIBRARY_EBIN := $(B)/kprof-$(VERSION)/ebin
# below PREFIX
LIBRARY_DIR  := lib/erlang/lib/kprof-$(VERSION)
LIBRARY_SRC  := $(LIBRARY:%=erlang/kprof/src/%.erl)
empty        :=

$(LIBRARY_EBIN)/kprof.app: erlang/kprof/src/kprof.app.src $(LIBRARY_SRC) Makefile
	@mkdir -p $(@D)
	erlc -Wall -Werror +debug_info +deterministic$(ERLC_COMPAT) -o $(@D) \
	    $(LIBRARY_SRC)
	sed -e 's/{vsn, "[^"]*"}/{vsn, "$(VERSION)"}/' \
	    -e 's/{modules, \[\]}/{modules, [$(subst $(empty) ,$(comma) ,$(LIBRARY))]}/' \
	    $< > $@

.PHONY: library
library: $(LIBRARY_EBIN)/kprof.app

# ---- compiled

# Objects and tests are made anew when they would be made otherwise (CI=1).
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','"'"',$(CC) $(ALL_CFLAGS))' > $@.new
	@cmp -s $@.new $@ || mv $@.new $@
	@rm -f $@.new

.PHONY: FORCE
FORCE:

# What was half written when its maker failed is not made.
.DELETE_ON_ERROR:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(LIB): $(call obj,$(PURE))
	rm -f $@
	ar rcs $@ $^

$(B)/kprofd: $(call obj,$(DAEMON)) $(LIB)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS_DAEMON)

$(B)/kprof: $(call obj,$(CLIENT)) $(LIB)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS_CLIENT)

# Names come from the SQLite that loads it: -z defs proves that all others are
# its own.
$(B)/pic/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(B)/kprof_sqlite.so: $(patsubst %.c,$(B)/pic/%.o,$(EXT))
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -shared \
	    $(if $(SANFLAGS),,-Wl$(comma)-z$(comma)defs) -o $@ $^ -lm

# The native probe: loaded by targets, of this release and later ones.
PROBE_SRC := $(wildcard src/probe/*.c)
ERL_INC  = $(shell erl -noinput -eval 'io:put_chars(filename:join([code:root_dir(), "usr", "include"])), halt().')

$(patsubst %.c,$(B)/pic/%.o,$(PROBE_SRC)): CPPFLAGS += -isystem $(ERL_INC)

# Two of them, of the same parts: kprofd's, and that of full traces.
PROBES := kprof_probe kprof_calls_probe
kprof_probe_SRC       := $(filter-out %/calls.c,$(PROBE_SRC))
kprof_calls_probe_SRC := $(filter-out %/event.c,$(PROBE_SRC))

$(PROBES:%=$(B)/%.so): $(B)/%.so: $(patsubst %.c,$(B)/pic/%.o,$(PROBE_SRC))
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -shared -o $@ $($*_SRC:%.c=$(B)/pic/%.o)

# ---- unit tests: one program for each test/unit/test_*.c

UNIT := $(patsubst test/unit/%.c,$(B)/test/%,$(wildcard test/unit/test_*.c))

$(B)/test/%: test/unit/%.c $(LIB) $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itest/support -MF $@.d -o $@ $(filter %.c %.o,$^) $(LIB) -lcmocka $(UNIT_LIBS) -lm

# These need more than the pure library.
STORE_UNIT := $(filter $(B)/test/test_store% $(B)/test/test_feed,$(UNIT))
$(STORE_UNIT): $(call obj,$(STORE) test/support/store_fixture.c)
$(STORE_UNIT): UNIT_LIBS = -lsqlite3
$(B)/test/test_store_power $(B)/test/test_store_retry: $(call obj,test/support/faultvfs.c)
$(B)/test/test_report $(B)/test/test_text $(B)/test/test_versus: $(call obj,$(STORE) $(REPORT))
$(B)/test/test_report $(B)/test/test_text $(B)/test/test_versus: UNIT_LIBS = -lsqlite3
$(B)/test/test_top: $(call obj,$(STORE) $(REPORT))
$(B)/test/test_top: UNIT_LIBS = -lsqlite3
$(B)/test/test_sqlite: UNIT_LIBS = -lsqlite3
PROFILE_UNIT := $(addprefix $(B)/test/test_,profile profile_db trace_db)
$(PROFILE_UNIT): $(call obj,$(STORE) $(REPORT))
$(PROFILE_UNIT): UNIT_LIBS = -lsqlite3
CALLS_REPORT := $(wildcard src/profile/report/calls*.c) src/text/fn_name.c src/text/json.c src/text/text.c \
                src/text/timefmt.c src/text/width.c
$(B)/test/test_calls_report: $(call obj,$(CALLS_REPORT))
$(B)/test/test_store_read: $(call obj,$(REPORT))
$(B)/test/test_parts: $(call obj,$(STORE) src/daemon/target/assembly.c \
    src/daemon/target/mail_sum.c)
$(B)/test/test_parts: UNIT_LIBS = -lsqlite3
$(B)/test/test_sqlite: | $(B)/kprof_sqlite.so

# Counts what is allocated.
$(B)/test/test_ingest: UNIT_LIBS = $(foreach f,malloc calloc realloc aligned_alloc,-Wl$(comma)--wrap=$(f))

# Each step of starting fails once.
$(B)/test/test_web: $(call obj,$(WEB) $(STORE) $(REPORT))
$(B)/test/test_web: UNIT_LIBS = $(LDLIBS_WEB) -lsqlite3 $(foreach f,event_base_new evhttp_new \
    evconnlistener_new evhttp_bind_listener,-Wl$(comma)--wrap=$(f))

$(B)/test/test_log: $(call obj,src/daemon/log.c src/daemon/log_libevent.c src/text/json.c \
    src/text/text.c src/text/width.c src/text/timefmt.c)
$(B)/test/test_log: UNIT_LIBS = -lsqlite3 -levent_core

# Programs of a simulated VM, and what is true of them.
VMSIM := $(call obj,$(addprefix test/support/,vmsim.c vmprog.c vmfeed.c \
           figures.c))
$(B)/test/test_assembly $(B)/test/test_conserve $(B)/test/test_clocks: $(VMSIM)
$(B)/test/test_assembly: $(call obj,test/support/vmtruth.c)

# What the native probe is made of needs no VM.
$(B)/test/test_ring $(B)/test/test_merge $(B)/test/test_probe_clock: \
    $(call obj,src/probe/ring.c src/probe/merge_rings.c \
                src/probe/clock.c src/probe/names.c)

# What metrics are written by is pure.
$(B)/test/test_expo: $(call obj,src/export/prometheus.c src/export/prometheus_proto.c \
                src/export/families.c src/export/health.c \
                src/export/totals.c)

$(B)/test/test_otlp: $(call obj,src/export/otlp_json.c src/export/totals.c \
    src/text/json.c src/text/text.c src/text/width.c src/text/timefmt.c)

$(B)/test/test_post: $(call obj,src/export/http_post.c)
$(B)/test/test_post: UNIT_LIBS = $(LDLIBS_DAEMON)

# These are pure, though they live with the daemon.
$(B)/test/test_guard: $(call obj,src/daemon/target/ledger.c)
# And so is what is decided over several targets.
$(B)/test/test_numbers: $(call obj,src/profile/target/request_ids.c)
$(B)/test/test_targets: $(call obj,src/daemon/target/unresolved.c src/target/label_epochs.c)

.PHONY: unit
unit: $(UNIT)
	@for t in $(UNIT); do echo "== $$t"; $$t || exit 1; done

# ---- fuzzing: test/fuzz/fuzz_NAME.c with seeds in test/fuzz/corpus/NAME/
#
# Replaying needs only the compiler; fuzzing needs clang with libFuzzer.  What
# a fuzzer finds goes below build/fuzz/; a finding worth keeping is moved to
# the corpus by hand.  FUZZ: some of them; FUZZ_RUNS, FUZZ_SECS: of each.

FUZZ       := $(patsubst test/fuzz/fuzz_%.c,%,$(wildcard test/fuzz/fuzz_*.c))
FUZZ_CC    ?= clang
FUZZ_RUNS  ?= 10000000
FUZZ_SECS  ?= 5
FUZZ_B     := build/fuzz
# NULL + 0, of arrays that are empty, is well defined (WG14 N3322).
FUZZ_SAN   := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
              -fno-sanitize=pointer-overflow -fno-omit-frame-pointer
FUZZ_OBJ   := $(patsubst %.c,$(FUZZ_B)/obj/%.o,$(PURE))

# Parsers that are not in the library.
FUZZ_TEXT    := src/text/json.c src/text/text.c src/config/tiers_file.c \
                src/text/timefmt.c src/text/width.c \
                src/store/rollup/retain.c
FUZZ_MESSAGE := src/target/agent_msg.c
FUZZ_KEYS    := src/text/keys.c
FUZZ_PROFILE := src/profile/report/profile.c src/profile/report/profile_limit.c \
                src/text/fn_name.c src/profile/report/profile_diff.c \
                src/report/report_json_csv.c src/text/grid.c \
                src/text/grid_write.c src/text/json.c \
                src/report/losses.c src/text/text.c src/text/timefmt.c \
                src/text/width.c
FUZZ_WEB     := src/web/params.c src/web/auth.c src/text/timefmt.c \
                src/text/text.c src/text/width.c src/report/report.c
FUZZ_EXPORT  := src/export/prometheus.c src/export/prometheus_proto.c \
                src/export/families.c src/export/health.c \
                src/export/otlp_json.c src/export/totals.c \
                src/text/json.c src/text/text.c src/text/timefmt.c \
                src/text/width.c
FUZZ_AGENT   := $(wildcard src/target/agent*.c) src/target/label_epochs.c \
                src/target/probe_file.c

$(B)/replay/text: $(call obj,$(FUZZ_TEXT))
$(B)/replay/web: $(call obj,$(FUZZ_WEB))
$(B)/replay/export: $(call obj,$(FUZZ_EXPORT))
$(B)/replay/keys: $(call obj,$(FUZZ_KEYS))
$(B)/replay/message: $(call obj,$(FUZZ_MESSAGE))
$(B)/replay/profile: $(call obj,$(FUZZ_PROFILE))
$(B)/replay/calls: $(call obj,$(CALLS_REPORT))
$(B)/replay/agent: $(call obj,$(FUZZ_AGENT))
$(FUZZ_B)/fuzz_text: $(FUZZ_TEXT:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_web: $(FUZZ_WEB:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_export: $(FUZZ_EXPORT:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_keys: $(FUZZ_KEYS:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_message: $(FUZZ_MESSAGE:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_profile: $(FUZZ_PROFILE:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_calls: $(CALLS_REPORT:%.c=$(FUZZ_B)/obj/%.o)
$(FUZZ_B)/fuzz_agent: $(FUZZ_AGENT:%.c=$(FUZZ_B)/obj/%.o)
# What loads the agent, and a module of no size in the agent's place: copies of
# it would be most of the time.
$(FUZZ_B)/gen/agent_beam.h: $(B)/gen/load.etf
	@mkdir -p $(@D)
	{ echo 'static unsigned char kp_agent_beam[] = "FOR1";' && \
	    echo 'static unsigned kp_agent_beam_len = 4;' && \
	    xxd -i -n kp_agent_load $<; } > $@

$(FUZZ_B)/obj/src/target/agent_steps.o: $(FUZZ_B)/gen/agent_beam.h
$(FUZZ_B)/obj/src/target/agent_probe.o: $(B)/gen/probe_beam.h

$(B)/replay/%: test/fuzz/fuzz_%.c test/fuzz/replay.c $(LIB) test/fuzz/fuzz.h
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -o $@ $(filter %.c %.o,$^) $(LIB) -lm

# Not each comparison: that is a third of the time, and decoders compare bytes,
# which chance finds; for words there are dictionaries.
FUZZ_COV   := -fno-sanitize-coverage=trace-cmp

$(FUZZ_B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) -g -O2 -std=c11 $(FUZZ_SAN) -fsanitize=fuzzer-no-link $(FUZZ_COV) \
	    -Iinclude -Isrc -I$(FUZZ_B)/gen -I$(B)/gen -D_GNU_SOURCE \
	    -DKP_VERSION='"$(VERSION)"' -MMD -MP -c -o $@ $<

# Made once for all of them.
.PRECIOUS: $(FUZZ_B)/obj/%.o

$(FUZZ_B)/fuzz_%: test/fuzz/fuzz_%.c $(FUZZ_OBJ) test/fuzz/fuzz.h
	$(FUZZ_CC) -g -O1 -std=c11 $(FUZZ_SAN) -fsanitize=fuzzer $(FUZZ_COV) \
	    -Iinclude -Isrc -D_GNU_SOURCE -o $@ $(filter-out %.h,$^) -lm

.PHONY: replay fuzz-replay fuzz-short fuzz
replay: $(addprefix $(B)/replay/,$(FUZZ))
	@for t in $(FUZZ); do $(B)/replay/$$t test/fuzz/corpus/$$t || exit 1; done

fuzz-replay:
	@$(MAKE) --no-print-directory SAN=1 replay

fuzz-short: $(addprefix $(FUZZ_B)/fuzz_,$(FUZZ))
	sh test/fuzz/run.sh $(FUZZ_B) -max_total_time=$(FUZZ_SECS) $(FUZZ)

fuzz: $(addprefix $(FUZZ_B)/fuzz_,$(FUZZ))
	sh test/fuzz/run.sh $(FUZZ_B) -runs=$(FUZZ_RUNS) $(FUZZ)

# ---- the sample application, and tests against real nodes

SAMPLE := $(B)/sample_app/ebin

$(SAMPLE)/sample_app.app: $(wildcard test/sample_app/src/*)
	@mkdir -p $(@D)
	erlc +debug_info -Wall$(ERLC_COMPAT) -o $(@D) test/sample_app/src/*.erl
	cp test/sample_app/src/sample_app.app.src $@

.PHONY: sample
sample: $(SAMPLE)/sample_app.app

# The client on a database made for it, against sqlite3's own figures.
$(B)/test/mkdb: test/support/mkdb.c $(call obj,$(STORE)) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $(filter %.c %.o,$^) $(LIB) -lsqlite3 -lm

$(B)/test/one_answer: test/support/one_answer.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $<

.PHONY: client-test
client-test: $(B)/kprof $(B)/test/mkdb $(B)/test/one_answer
	sh test/integration/client_test.sh $(B)

# kprof top on a pseudo-terminal, kprof merge, several -db.
$(B)/test/pty_run: test/support/pty_run.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< -lutil

.PHONY: top-test
top-test: $(B)/kprof $(B)/test/mkdb $(B)/test/one_answer $(B)/test/pty_run
	sh test/integration/top_test.sh $(B)

# The HTTP API and the dashboard, in headless Chromium, of two real nodes.
# Screenshots go to $(B)/web.
WEB_TEST := $(B)/npm_test

$(WEB_TEST)/made: $(addprefix test/web/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	cp $^ $(@D)
	@cd $(@D) && { $(call npm_ci); }
	@touch $@

.PHONY: web-test api-test
api-test: $(B)/kprof $(B)/test/mkdb
	node test/web/api_test.mjs $(B)

web-test: api-test $(B)/kprofd sample $(WEB_TEST)/made $(B)/integration/ebin/it_run.beam
	node test/web/browser_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/crossing_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules

# /metrics as a real Prometheus takes it, and what is sent to a collector, by
# OpenTelemetry's own definitions, of two kprofds and two nodes.
.PHONY: export-test
export-test: $(B)/kprofd $(B)/kprof sample $(WEB_TEST)/made | $(B)/deb/prometheus
	node test/web/export_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules \
	    $(CURDIR)/$(B)/deb/prometheus/usr/bin

# The SQLite extension, in SQLite's shell.
.PHONY: sqlite-test
sqlite-test: $(B)/kprof_sqlite.so $(B)/kprof $(B)/test/mkdb
	sh test/integration/sqlite_test.sh $(B)

# Prints the match specs that kprofd arms, for test/integration/spec_check.erl.
$(B)/test/specdump: test/support/specdump.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< $(LIB)

# The match specs against real Erlang funs, on the release that is installed.
.PHONY: spec-check
spec-check: $(B)/test/specdump
	escript test/integration/spec_check.erl $(B)/test/specdump

# The tests, with targets of the release that is installed.  ONLY: a part of
# tests' names.  FIGURE_REQUESTS: fewer of them.  RELOADS: of traced modules.
RELOADS ?= 20
INTEGRATION := $(B)/integration/ebin

# Packages that tests want and the machine need not have installed.  Where one
# cannot be had, the tests say so and are skipped; not so in CI.  cowboy and
# recon are there within RabbitMQ.
$(B)/deb/%:
	sh test/support/deb.sh $* $@ || \
	    { rm -rf $@; mkdir -p $@; [ -z "$$CI" ]; }

INTEGRATION_SRC := $(filter-out %/spec_check.erl,$(wildcard test/integration/*.erl)) \
                   $(wildcard test/recordings/*.erl)

$(INTEGRATION)/it_run.beam: $(INTEGRATION_SRC) test/recordings/truth.hrl \
                            $(LIBRARY_EBIN)/kprof.app | $(B)/deb/rabbitmq-server
	@mkdir -p $(@D)
	cp $(LIBRARY_EBIN)/* $(@D)
	for a in cowboy cowlib ranch recon; do \
	    find $(B)/deb/rabbitmq-server -path "*/plugins/$$a-*/ebin/*" -exec cp {} $(@D) \; ; \
	done
	erlc -Wall$(ERLC_COMPAT) -I test/recordings -o $(@D) $(INTEGRATION_SRC)

# $(1): the root file system of the targets, if it is not this machine's.
run_integration = $(if $(PROBE),KPROFD_PROBE=$(PROBE)) KPROFD_RELOADS=$(RELOADS) $(if $(1),sh test/support/inroot.sh $(1)) \
    erl -noinput -pa $(INTEGRATION) -s it_run main \
    -extra $(B) $(if $(1),-root $(1)) $(if $(MODULES),-modules $(MODULES)) $(if $(ONLY),'$(ONLY)')

# Preloaded into kprofd: slow_resolver, one that does not answer; slow_reader, a
# kprofd that is behind; last_words, a kprofd that is killed as it speaks.
PRELOADED := $(patsubst %,$(B)/test/%.so,slow_resolver slow_reader last_words clock_jump)

$(PRELOADED): $(B)/test/%.so: test/support/%.c
	@mkdir -p $(@D)
	$(CC) -g -std=c11 -D_GNU_SOURCE -fPIC -shared -o $@ $<

INTEGRATION_NEEDS := $(B)/kprofd $(B)/kprof $(B)/kprof_probe.so $(B)/kprof_calls_probe.so $(PRELOADED) \
                     $(B)/test/pty_run sample $(INTEGRATION)/it_run.beam

.PHONY: integration
integration: $(INTEGRATION_NEEDS)
	$(call run_integration)

# The same figures with the native probe; RELEASES=29: on that.  All of the tests
# with it: `make integration PROBE=native`, `make releases PROBE=native`.
.PHONY: native
native:
	@$(MAKE) --no-print-directory PROBE=native \
	    $(if $(filter command line,$(origin RELEASES)),releases,integration) \
	    ONLY="outcome: ' 'catalogue: ' 'figure: ' 'sampling: ' 'mark: ' 'attach: ' 'code: ' 'reload: "

# The native probe in a VM of its own: what must not hurt one; with sanitizers,
# and CYCLES=10000 for a long one.
CYCLES  ?= 100
TORTURE := $(B)/torture

TORTURE_BEAMS := $(addprefix $(B)/gen/,kprof_probe.beam kprof_calls_probe.beam kprof_agent.beam)
$(TORTURE)/probe_torture.beam: $(wildcard test/probe/*.erl) $(TORTURE_BEAMS)
	@mkdir -p $(@D)
	erlc -Wall$(ERLC_COMPAT) -o $(@D) test/probe/*.erl
	cp $(TORTURE_BEAMS) $(@D)

.PHONY: torture
torture: $(PROBES:%=$(B)/%.so) $(TORTURE)/probe_torture.beam
	$(call torture_vm,calls_torture,$(B)/kprof_calls_probe)
	$(call torture_vm,probe_torture,$(B)/kprof_probe)

# $(1): the test, $(2): of which library
torture_vm = \
	$(if $(SANFLAGS),LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=4) \
	    erl -noinput -pa $(TORTURE) -s $(1) main -extra $(2) $(CYCLES)

# The same in valgrind, which takes some ten times as long, with a library that
# tells it what the VM has written (src/probe/checked.h).
$(TORTURE)/%.o: src/probe/%.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -DPROBE_VALGRIND -isystem $(ERL_INC) -fPIC -fvisibility=hidden -c -o $@ $<

$(PROBES:%=$(TORTURE)/%.so): $(TORTURE)/%.so: $(PROBE_SRC:src/probe/%.c=$(TORTURE)/%.o)
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $($*_SRC:src/probe/%.c=$(TORTURE)/%.o)

.PHONY: torture-valgrind
torture-valgrind: $(TORTURE)/probe_torture.beam
	@command -v valgrind >/dev/null || sh test/support/setup.sh valgrind
	@$(MAKE) --no-print-directory $(PROBES:%=$(TORTURE)/%.so)
	sh test/probe/valgrind.sh $(TORTURE) $(TORTURE)/kprof_probe $(CYCLES)
	sh test/probe/valgrind.sh $(TORTURE) $(TORTURE)/kprof_calls_probe $(CYCLES) calls_torture

# The faults among them, many times: SEED=N has the same moments again.
# With targets of the release that is installed, or of that in FAULTS_ROOT.
.PHONY: faults
faults: MODULES := fault_tests,connection_tests
faults: RELOADS := 200
faults: export KPROFD_FAULTS := whole
faults: export SEED := $(SEED)
faults: $(INTEGRATION_NEEDS)
	$(call run_integration,$(FAULTS_ROOT))

# The tests of faults fail where what they test is taken out.  MUTANTS: some of
# test/support/mutants/.
.PHONY: faults-mutants
faults-mutants: $(INTEGRATION_NEEDS)
	sh test/support/mutants.sh $(B) $(MUTANTS)

# They take time, and are not part of the gate; that their patches fit is.
.PHONY: mutants-fit
mutants-fit:
	@for p in test/support/mutants/*.patch; do \
	    patch --dry-run -sp1 < $$p || { echo "$$p: renew it"; exit 1; }; \
	done

# Those that lie to kprofd, and those that trace beside it in the target, whole:
# `make integration` has a short form.  `make hostile-releases`: on other releases.
.PHONY: hostile
ADVERSARIES := adversary_tests,crowd_tests,hot_tests,token_tests
hostile: MODULES := hostile_tests,$(ADVERSARIES)
hostile: $(INTEGRATION_NEEDS)
	KPROFD_HOSTILE=whole $(call run_integration)

.PHONY: hostile-releases
hostile-releases:
	KPROFD_HOSTILE=whole $(MAKE) --no-print-directory releases MODULES=$(ADVERSARIES)

# Exports of traces, read by what they are for.
VIEWERS := $(B)/npm_viewers

$(VIEWERS)/made: $(addprefix test/viewers/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	cp $^ $(@D)
	@cd $(@D) && { $(call npm_ci); }
	@touch $@

.PHONY: viewers-test
viewers-test: MODULES := viewer_tests
viewers-test: $(INTEGRATION_NEEDS) $(VIEWERS)/made
	@command -v callgrind_annotate >/dev/null || sh test/support/setup.sh valgrind
	KPROFD_VIEWERS=$(VIEWERS)/node_modules $(call run_integration)

# A busy target for so long, after whose first minute nothing may grow.
MINUTES ?= 10

.PHONY: soak
soak: MODULES := soak_tests
soak: $(INTEGRATION_NEEDS)
	KPROFD_SOAK_MINUTES=$(MINUTES) $(call run_integration)

# The library as a dependency of rebar3 and mix projects.
.PHONY: library-test
library-test: $(B)/kprofd | $(B)/deb/rebar3
	sh test/library/run.sh $(B) $(VERSION) $(CURDIR)/$(B)/deb/rebar3/usr/bin/rebar3

# Every example of the documents, as it is printed.
DOCS := $(B)/docs

$(DOCS)/ebin/docs_run.beam: $(wildcard test/docs/*.erl)
	@mkdir -p $(@D)
	erlc -Wall$(ERLC_COMPAT) -o $(@D) $^

.PHONY: docs-test
docs-test: all sample $(INTEGRATION)/it_run.beam $(DOCS)/ebin/docs_run.beam
	@rm -rf $(DOCS)/root $(DOCS)/stubs
	@$(MAKE) --no-print-directory -s install PREFIX=/usr/local DESTDIR=$(DOCS)/root
	erl -noinput -pa $(DOCS)/ebin $(INTEGRATION) $(SAMPLE) $(B)/gen \
	    -s docs_run main -extra $(B) $(DOCS)/root

# The same with targets of other releases, from Debian's, in root file systems
# below KPROFD_ROOTS: made when missing, used as they are when there.  Which
# release it was, and how it went, is kept in integration/results.txt.
KPROFD_ROOTS ?= build/roots
RELEASES ?= 27 29

$(KPROFD_ROOTS)/%/made:
	sh test/support/setup.sh mmdebstrap
	sh test/support/root.sh $* $(KPROFD_ROOTS)/$*

ROOTS := $(RELEASES:%=$(KPROFD_ROOTS)/%/made)

.PHONY: matrix releases
matrix: integration
	@$(MAKE) --no-print-directory releases

releases: $(INTEGRATION_NEEDS) $(ROOTS)
	@failed=; for r in $(RELEASES); do \
	    $(call run_integration,$(KPROFD_ROOTS)/$$r) || failed="$$failed $$r"; \
	done; [ -z "$$failed" ] || { echo "failed on OTP:$$failed"; exit 1; }

# ---- recordings of real nodes, for the unit tests (test/recordings/README.md)
#
# All of them anew, with the releases of `make matrix`.  ONLY: some programs.

$(B)/test/record: test/support/record.c $(B)/flags $(LIB) \
    $(call obj,$(filter-out $(ERRANDS),$(wildcard src/dist/*.c src/target/*.c)) \
               src/config/tiers_file.c src/text/text.c src/text/width.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $(filter %.c %.o,$^) $(LIB) $(LDLIBS_DAEMON)

run_recorder = $(if $(1),sh test/support/inroot.sh $(1)) \
    erl -noinput -pa $(INTEGRATION) -s recorder main \
    -extra $(B) test/recordings $(if $(1),-root $(1)) $(ONLY)

.PHONY: record
record: $(B)/test/record sample $(INTEGRATION)/it_run.beam $(ROOTS)
	$(call run_recorder)
	for r in $(RELEASES); do \
	    $(call run_recorder,$(KPROFD_ROOTS)/$$r) || exit 1; \
	done

# The examples in priv/examples on the servers that they are for, as Debian 12
# has them, in a root file system of their own, below KPROFD_ROOTS too; or as
# Debian 13 has them, with APPS_ROOT=apps13.
APPS_ROOT ?= apps
APPS := $(B)/apps/ebin

$(APPS)/apps.beam: $(wildcard test/apps/*.erl)
	@mkdir -p $(@D)
	erlc -Wall$(ERLC_COMPAT) -o $(@D) test/apps/*.erl

.PHONY: test-apps
test-apps: all $(INTEGRATION)/it_run.beam $(APPS)/apps.beam $(KPROFD_ROOTS)/$(APPS_ROOT)/made
	sh test/apps/run.sh $(B) $(KPROFD_ROOTS)/$(APPS_ROOT) $(if $(ONLY),'$(ONLY)')

# ---- what comes with it: man pages, completion, unit, examples, installing

.PHONY: packaging
packaging: all $(B)/test/mkdb $(B)/test/one_answer $(B)/test/slow_resolver.so
	sh test/packaging/options_test.sh $(B)
	sh test/packaging/examples_test.sh $(B)
	sh test/packaging/install_test.sh $(B) "$(MAKE)"

# ---- benchmarks: to be read, not asserted

BENCH := $(patsubst test/bench/%.c,$(B)/bench/%,$(wildcard test/bench/bench_*.c))

$(B)/bench/%: test/bench/%.c $(LIB) $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $(filter %.c %.o,$^) $(LIB) -lsqlite3 -lm
$(B)/bench/bench_dump $(B)/bench/bench_rollup: $(call obj,$(STORE))
$(B)/bench/bench_web: $(call obj,test/bench/month.c $(STORE) $(REPORT) \
    src/web/api.c src/web/params.c)

$(B)/bench/bench_%.beam: test/bench/bench_%.erl $(B)/gen/kprof_probe.beam
	@mkdir -p $(@D)
	erlc -Wall$(ERLC_COMPAT) -o $(@D) $<

# Instructions do not depend on what else the machine does: a slip is seen.
# RECORD=1: the figures of now are right.
.PHONY: bench-instructions
bench-instructions: $(B)/bench/count
	@command -v valgrind >/dev/null || sh test/support/setup.sh valgrind
	@sh test/bench/instructions.sh $(B) $(if $(RECORD),-record)

# BENCH_ROOT: a root file system such as those of `make matrix`, for the target.
.PHONY: bench
bench: all $(BENCH) $(B)/test/record $(B)/test/specdump $(B)/bench/bench_tracer.beam $(B)/bench/bench_drain.beam
	@for t in $(BENCH); do echo "== $$t"; $$t || exit 1; done
	@echo "== bench_tracer"; erl -noinput -pa $(B)/bench $(B)/gen -s bench_tracer main -extra $(B)/kprof_probe
	@echo "== bench_drain"; erl +S 64:64 -noinput -pa $(B)/bench $(B)/gen -s bench_drain main -extra $(B)/kprof_probe 4096
	@echo "== bench_target"; escript test/bench/bench_target.escript $(B) $(BENCH_ROOT)
	@$(MAKE) --no-print-directory bench-crowd
	@$(MAKE) --no-print-directory bench-table
	@$(MAKE) --no-print-directory bench-calls

.PHONY: bench-crowd bench-table bench-calls
bench-crowd: all
	@echo "== bench_crowd"; escript test/bench/bench_target.escript -crowd $(B) $(BENCH_ROOT)

bench-table: all
	@escript test/bench/bench_target.escript -table $(B) $(BENCH_ROOT)

bench-calls: all
	@echo "== bench_calls"; escript test/bench/bench_target.escript -calls $(B) $(BENCH_ROOT)

# ---- what the README promises

.PHONY: setup demo test
setup:
	@sh test/support/setup.sh

demo: setup
	@$(MAKE) --no-print-directory all sample
	@sh test/support/demo.sh $(B)

test: setup
	@$(MAKE) --no-print-directory check

.PHONY: check
check: all
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory SAN=1 unit
	@$(MAKE) --no-print-directory SAN=1 client-test
	@$(MAKE) --no-print-directory SAN=1 top-test
	@$(MAKE) --no-print-directory SAN=1 api-test
	@$(MAKE) --no-print-directory web-test
	@$(MAKE) --no-print-directory export-test
	@$(MAKE) --no-print-directory sqlite-test
	@$(MAKE) --no-print-directory SAN=1 sqlite-test
	@$(MAKE) --no-print-directory packaging
	@$(MAKE) --no-print-directory fuzz-replay
	@$(MAKE) --no-print-directory fuzz-short
	@$(MAKE) --no-print-directory spec-check
	@$(MAKE) --no-print-directory mutants-fit
	@$(MAKE) --no-print-directory library-test
	@$(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory viewers-test
	@$(MAKE) --no-print-directory native FIGURE_REQUESTS=20000
	@$(MAKE) --no-print-directory torture CYCLES=20
	@$(MAKE) --no-print-directory SAN=1 torture CYCLES=20
	@$(MAKE) --no-print-directory docs-test

# ---- installing: SOURCE:PLACE below PREFIX, for both directions

UNITS := kprofd.service kprofd@.service
INSTALL_DATA := \
    $(B)/kprof_sqlite.so:lib/kprofd/kprof_sqlite.so \
    $(B)/kprof_probe.so:lib/kprofd/kprof_probe.so \
    $(B)/kprof_calls_probe.so:lib/kprofd/kprof_calls_probe.so \
    priv/schema.sql:share/kprofd/schema.sql \
    priv/tiers.conf:share/kprofd/tiers.conf \
    $(foreach m,$(LIBRARY),$(LIBRARY_EBIN)/$(m).beam:$(LIBRARY_DIR)/ebin/$(m).beam \
        erlang/kprof/src/$(m).erl:$(LIBRARY_DIR)/src/$(m).erl) \
    $(LIBRARY_EBIN)/kprof.app:$(LIBRARY_DIR)/ebin/kprof.app \
    erlang/kprof/README.md:$(LIBRARY_DIR)/README.md \
    priv/man/kprof.1:share/man/man1/kprof.1 \
    priv/man/tiers.conf.5:share/man/man5/tiers.conf.5 \
    priv/man/kprofd.8:share/man/man8/kprofd.8 \
    priv/bash-completion/kprof:share/bash-completion/completions/kprof \
    priv/bash-completion/kprofd:share/bash-completion/completions/kprofd \
    priv/systemd/kprofd.sysusers:lib/sysusers.d/kprofd.conf \
    priv/systemd/kprofd.env:share/doc/kprofd/examples/kprofd.env \
    priv/cron/kprofd:share/doc/kprofd/examples/crontab \
    priv/logrotate/kprofd:share/doc/kprofd/examples/logrotate \
    $(foreach e,$(wildcard priv/examples/*.conf),$(e):share/kprofd/examples/$(notdir $(e))) \
    $(foreach e,$(wildcard priv/prometheus/*.yml),$(e):share/kprofd/prometheus/$(notdir $(e))) \
    $(foreach u,$(UNITS),$(B)/gen/$(u):lib/systemd/system/$(u))
INSTALL_BIN := $(B)/kprofd:bin/kprofd $(B)/kprof:bin/kprof

unit_names = @NAME@,$(1),g; s,@STATE@,$(2),g; s,@BINDIR@,$(PREFIX)/bin,g

# Made anew each time: PREFIX may be another.
$(B)/gen/kprofd.service: priv/systemd/kprofd.service.in FORCE
	@mkdir -p $(@D)
	sed 's,$(call unit_names,kprofd,kprofd)' $< > $@

$(B)/gen/kprofd@.service: priv/systemd/kprofd.service.in FORCE
	@mkdir -p $(@D)
	sed 's,$(call unit_names,%i,kprofd/%i)' $< > $@

.PHONY: install uninstall clean help
install: all $(foreach u,$(UNITS),$(B)/gen/$(u))
	@for f in $(INSTALL_BIN); do \
	    install -D -m 755 "$${f%%:*}" "$(DESTDIR)$(PREFIX)/$${f#*:}" && \
	    echo "$(DESTDIR)$(PREFIX)/$${f#*:}" || exit 1; \
	done
	@for f in $(INSTALL_DATA); do \
	    install -D -m 644 "$${f%%:*}" "$(DESTDIR)$(PREFIX)/$${f#*:}" && \
	    echo "$(DESTDIR)$(PREFIX)/$${f#*:}" || exit 1; \
	done

# Directories that are ours and empty go too.
uninstall:
	@for f in $(INSTALL_BIN) $(INSTALL_DATA); do \
	    rm -f "$(DESTDIR)$(PREFIX)/$${f#*:}"; \
	done
	@cd "$(DESTDIR)$(PREFIX)" && for d in share/kprofd/examples \
	    share/kprofd/prometheus share/kprofd lib/kprofd \
	    share/doc/kprofd/examples share/doc/kprofd \
	    $(LIBRARY_DIR)/ebin $(LIBRARY_DIR)/src $(LIBRARY_DIR); do \
	    rmdir "$$d" 2>/dev/null || true; \
	done

clean:
	rm -rf --one-file-system build

help:
	@echo 'make demo         profile a sample application and print the report'
	@echo 'make test         set-up, build, every test'
	@echo 'make              build kprofd and kprof below build/'
	@echo 'make install      PREFIX=$(PREFIX) DESTDIR=$(DESTDIR); make uninstall'
	@echo 'make unit         unit tests (SAN=1: with sanitizers)'
	@echo 'make client-test  kprof on a database made for it'
	@echo 'make top-test     kprof top on a pseudo-terminal, kprof merge'
	@echo 'make api-test     the HTTP API against sqlite3 and kprof, and what it refuses'
	@echo 'make web-test     that, and the dashboard in headless Chromium'
	@echo 'make export-test  what Prometheus scrapes and a collector gets'
	@echo 'make sqlite-test  the SQLite extension in SQLite'"'"'s shell'
	@echo 'make packaging    man pages, completion, unit, examples, installing'
	@echo 'make integration  tests against real nodes'
	@echo 'make native       the same figures with the native probe (all: integration PROBE=native)'
	@echo 'make torture      the native probe by itself (SAN=1; CYCLES=10000)'
	@echo 'make torture-valgrind  the same in valgrind'
	@echo 'make faults       what can go wrong, at many moments (SEED=N: the same ones)'
	@echo 'make faults-mutants  whether those tests fail without what they test'
	@echo 'make hostile      peers that lie, tracers beside ours, whole (SAN=1: with sanitizers)'
	@echo 'make viewers-test exports of traces, read by callgrind_annotate and speedscope'"'"'s schema'
	@echo 'make soak         MINUTES=$(MINUTES) of a busy target: nothing grows'
	@echo 'make library-test the library as a dependency of rebar3 and mix projects'
	@echo 'make matrix       the same against OTP $(RELEASES) too (make releases: those alone)'
	@echo 'make record       what real nodes send, anew, for the unit tests'
	@echo 'make test-apps    the examples on real cowboy, RabbitMQ and ejabberd'
	@echo 'make docs-test    every example of the documents, as printed'
	@echo 'make spec-check   match specs against the Erlang funs they come from'
	@echo 'make fuzz-replay  the fuzzers'"'"' corpora, with sanitizers'
	@echo 'make fuzz-short   every fuzzer for FUZZ_SECS=$(FUZZ_SECS) seconds'
	@echo 'make fuzz         every fuzzer for FUZZ_RUNS=$(FUZZ_RUNS) executions'
	@echo 'make bench        what it costs (test/bench/README.md)'
	@echo 'make bench-table  that by ways of tracing, as a table'
	@echo 'make bench-crowd  what a node of 300,000 processes notices of it'
	@echo 'make bench-instructions  instructions an event takes in kprofd, against the record'
	@echo 'make setup        install missing Debian packages'
	@echo 'make clean        remove build/'

# Not what looks like it in the file systems of `make matrix` and `make setup`.
-include $(shell find build -type d \( -name roots -o -name tools -o -name deb \) -prune \
    -o -type f -name '*.d' -print 2>/dev/null)
