# kprofd - `make help` lists the targets.
#
# Everything is built below build/ (build/san with SAN=1).  All but the programs'
# main.c goes into one library, from which each program and each test links what it
# refers to; `make purity` proves that the pure rooms do no I/O.

PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
VERSION := 0.1.0

# As many jobs as there are processors; a make below this one shares them.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

ifdef SAN
B       := build/san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined
else
B       := build
SANFLAGS :=
endif

OPT     ?= -O2
# kprofd reads untrusted data.  -fstack-protector-strong would cost an event 3 to 11 %
# more instructions.  Sanitizers check more than all of these.
ifndef SAN
HARDEN_CC := -D_FORTIFY_SOURCE=2 -fstack-protector -fPIE
HARDEN_LD := -pie -Wl,-z,relro,-z,now
endif
CFLAGS  ?= -g $(OPT)
WARN    := -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
           -Wmissing-prototypes -Wformat=2 -Wconversion -Wno-sign-conversion
ifdef CI
WARN    += -Werror
endif
ALL_CFLAGS = $(CPPFLAGS) $(CFLAGS) $(HARDEN_CC) $(WARN) $(SANFLAGS) -Iinclude -Isrc -I$(B)/gen \
           -D_GNU_SOURCE -DKP_VERSION='"$(VERSION)"' -pthread -MMD -MP
LDLIBS := -Wl,--as-needed -levent_core -levent_extra -levent_openssl \
          -levent_pthreads \
          -lcurl -lsqlite3 -lz -lei -lssl -lcrypto -lm -pthread

# Prints a line for each command, or the command itself with V=1, or nothing with
# QUIET=1; of compiling, one line a folder.
Q   := $(if $(V),,@)
say = $(if $(V)$(QUIET),,@printf '  %-4s %s\n' '$(1)' '$(2)')
say_folder = $(if $(said_$(2)),,$(eval said_$(2) := yes)$(call say,$(1),$(2)))
# What a command prints, asked once, when it is needed: $(call once,VARIABLE,COMMAND)
once = $(eval $(1) := $(shell $(2)))$($(1))

comma := ,
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

# Other programs load the native probe and the SQLite extension: those are libraries of
# their own.
SRC := $(filter-out src/probe/% src/sqlite/% %/main.c,$(wildcard src/*/*.c src/*/*/*.c))
# Only kprof is linked with profiles of functions.
PROFILE := $(filter src/profile/% src/calls/% src/suggest/% src/client/functions/%,$(SRC))

# They take bytes or structs and the time, and return structs.
PURE_ROOMS := base text config plan decode request stats stacks guard calls suggest

# The SQLite extension has few sources, since it has to run anywhere.
EXT    := src/sqlite/kprof_sqlite.c src/stats/hist.c src/stats/tenths.c src/base/buf.c

LIB         := $(B)/libkprof.a
PROFILE_LIB := $(B)/libkprof_profile.a
LIBS        := $(PROFILE_LIB) $(LIB)

.PHONY: all
all: $(B)/kprofd $(B)/kprof $(B)/kprof_sqlite.so $(B)/kprof_probe.so $(B)/kprof_calls_probe.so library

# ---- generated: the programs contain what runs in targets, the schema and the page

# Newer compilers need these options to compile for OTP 25.
ERLC_COMPAT = $(call once,ERLC_COMPAT,erl -noinput -eval 'io:put_chars([" +r25 -disable-feature maybe_expr" || erlang:system_info(otp_release) > "25"])$(comma) halt().')

# A module and those that it calls are merged into one: erlang/merge.escript says why.
$(B)/gen/kprof_%.beam: erlang/kprof_%.erl erlang/merge.escript \
    $(wildcard erlang/*.hrl erlang/*/*.hrl erlang/*/*.erl)
	@mkdir -p $(@D)
	$(call say,ERLC,$(@F))
	$(Q)escript erlang/merge.escript $@ $<

# The parsed expression that loads and starts a module in a target.  The source is
# written for the agent.
PARSE = {ok, Text} = file:read_file("$<"), \
    {ok, Tokens, _} = erl_scan:string(re:replace(Text, "kprof_agent", "kprof_$*", [global, {return, list}])), \
    {ok, [Expr]} = erl_parse:parse_exprs(Tokens), \
    ok = file:write_file("$@", term_to_binary(Expr)), halt().

$(B)/gen/load_%.etf: erlang/load.exprs
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)ERL_CRASH_DUMP_BYTES=0 erl -noinput -eval '$(PARSE)'

# What kprof suggest asks a target, in the same way.
$(B)/gen/facts.etf: erlang/facts.exprs
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)ERL_CRASH_DUMP_BYTES=0 erl -noinput -eval '$(PARSE)'

$(B)/gen/facts_exprs.h: $(B)/gen/facts.etf
	$(call say,GEN,$@)
	$(Q)xxd -i -n kp_facts_exprs $< > $@

$(B)/gen/%_beam.h: $(B)/gen/kprof_%.beam
	$(call say,GEN,$@)
	$(Q)for f in $^; do case $$f in \
	    *.beam) xxd -i -n kp_$*_beam $$f ;; \
	    *) xxd -i -n kp_$*_load $$f ;; esac || exit 1; done > $@
$(B)/gen/agent_beam.h $(B)/gen/counters_beam.h $(B)/gen/sampler_beam.h $(B)/gen/tracer_beam.h: \
    $(B)/gen/%_beam.h: $(B)/gen/load_%.etf

$(B)/gen/schema_sql.h: priv/schema.sql
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q){ echo "static const unsigned char schema_sql[] = {"; \
	    { cat $<; printf '\0'; } | xxd -i; echo '};'; } > $@

# What kprof suggest proposes for systems that it knows.
STOCK := phoenix rabbitmq ejabberd cowboy
$(B)/gen/stock_confs.h: $(STOCK:%=priv/examples/%.conf)
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)for s in $(STOCK); do echo "static const unsigned char stock_$$s[] = {"; \
	    { cat priv/examples/$$s.conf; printf '\0'; } | xxd -i; echo '};'; done > $@

GEN := $(addprefix $(B)/gen/,agent_beam.h probe_beam.h counters_beam.h sampler_beam.h tracer_beam.h \
         calls_probe_beam.h facts_exprs.h schema_sql.h stock_confs.h web_assets.h)

$(call obj,src/agent/agent_attach.c): $(B)/gen/agent_beam.h $(B)/gen/probe_beam.h
$(call obj,src/profile/node/counters.c): $(B)/gen/counters_beam.h
$(call obj,src/profile/node/sampler.c): $(B)/gen/sampler_beam.h
$(call obj,src/profile/node/tracers.c): $(B)/gen/tracer_beam.h
$(call obj,src/profile/node/tracers.c): $(B)/gen/calls_probe_beam.h
$(call obj,src/client/functions/suggest_facts.c): $(B)/gen/facts_exprs.h
$(call obj,src/store/schema.c): $(B)/gen/schema_sql.h
$(call obj,src/suggest/entry.c): $(B)/gen/stock_confs.h

# The dashboard: its own files, and the chart library of Debian's package, with its
# licence.  The programs contain them.  DYGRAPHS, DYGRAPHS_LICENSE: where they are
# elsewhere.
DYGRAPHS         ?= /usr/share/javascript/dygraphs
DYGRAPHS_LICENSE ?= /usr/share/doc/libjs-dygraphs/copyright
WEB_FILES := $(wildcard priv/web/*.html priv/web/*.css priv/web/*.js priv/web/*.svg) \
             priv/openapi.json
WEB_LIB   := $(DYGRAPHS)/dygraph.min.js $(DYGRAPHS)/dygraph.min.css $(B)/gen/dygraphs-license.txt

$(DYGRAPHS)/dygraph.min.js $(DYGRAPHS)/dygraph.min.css $(DYGRAPHS_LICENSE):
	@echo 'make: there is no $@: install libjs-dygraphs (make setup), or name' >&2; \
	echo 'make: its files: make DYGRAPHS=DIR DYGRAPHS_LICENSE=FILE' >&2; exit 1

$(B)/gen/dygraphs-license.txt: $(DYGRAPHS_LICENSE)
	@mkdir -p $(@D)
	$(call say,CP,$@)
	$(Q)cp $< $@

$(B)/gen/web_assets.h: src/web/assets.sh $(WEB_FILES) $(WEB_LIB)
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sh $< $(WEB_FILES) $(WEB_LIB) > $@

$(call obj,src/web/reply.c): $(B)/gen/web_assets.h

# ---- compiled

# Objects and tests are rebuilt when the command that makes them changes (CI=1).
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','"'"',$(CC) $(ALL_CFLAGS))' > $@.new
	@cmp -s $@.new $@ || mv $@.new $@
	@rm -f $@.new

.PHONY: FORCE
FORCE:

# Delete a target whose recipe failed half way, and no other.
.DELETE_ON_ERROR:
.SECONDARY:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say_folder,CC,$(<D))
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(LIB): $(call obj,$(filter-out $(PROFILE),$(SRC)))
$(PROFILE_LIB): $(call obj,$(PROFILE))
$(LIBS):
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/kprofd: $(call obj,src/daemon/main.c) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(HARDEN_LD) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/kprof: $(call obj,src/client/main.c) $(LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(HARDEN_LD) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# SQLite passes its functions to the extension; -z defs proves that it needs no others.
$(B)/pic/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say_folder,CC,$(<D))
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -fvisibility=hidden $(PIC_CC) -c -o $@ $<

$(B)/kprof_sqlite.so: $(patsubst %.c,$(B)/pic/%.o,$(EXT))
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -shared \
	    $(if $(SANFLAGS),,-Wl$(comma)-z$(comma)defs) -o $@ $^ -lm

# Targets of this OTP release and later ones load the native probe.
PROBE_SRC := $(wildcard src/probe/*.c)
ERL_INC  = $(call once,ERL_INC,erl -noinput -eval 'io:put_chars(code:root_dir() ++ "/usr/include")$(comma) halt().')

# There are two, of the same parts: kprofd's, and that of full traces.  They name no C
# library, and use what glibc and musl both have: so they load on either, of any version.
# -U_FORTIFY_SOURCE: its functions are glibc's alone, as is __getauxval, which outline
# atomics call.
$(patsubst %.c,$(B)/pic/%.o,$(PROBE_SRC)): PIC_CC = -isystem $(ERL_INC) -Wp,-U_FORTIFY_SOURCE \
    $(if $(filter aarch64%,$(call once,MACHINE,$(CC) -dumpmachine)),-mno-outline-atomics)

PROBES := kprof_probe kprof_calls_probe
kprof_probe_SRC       := $(filter-out %/calls.c,$(PROBE_SRC))
kprof_calls_probe_SRC := $(filter-out %/event.c,$(PROBE_SRC))

$(patsubst %.c,$(B)/pic/%.o,$(PROBE_SRC)) $(PROBES:%=$(B)/%.so): Makefile
$(PROBES:%=$(B)/%.so): $(B)/%.so: $(patsubst %.c,$(B)/pic/%.o,$(PROBE_SRC))
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -shared $(if $(SANFLAGS),,-nostdlib) \
	    -o $@ $($*_SRC:%.c=$(B)/pic/%.o) $(call once,LIBGCC,$(CC) -print-libgcc-file-name)

# ---- the README's commands, and tests

.PHONY: setup setup-check setup-test setup-deb setup-deb-test demo test check
setup:
	@sh test/support/setup.sh build

setup-check setup-test setup-deb setup-deb-test: setup-%:
	@sh test/support/setup.sh $*

demo:
	@+sh test/support/demo.sh $(B) $(MAKE)

test: setup-test
	@+$(call run_each,all $(TESTS))

check: setup-check
	@+$(call run_each,all $(CHECKS))

# $(1): goals, made one after the other; variables, and goals to be made at the same time,
# follow behind commas.
run_each = for t in $(1); do \
    start=$$(date +%s); \
    $(MAKE) --no-print-directory $$(echo $$t | tr , ' ') || exit 1; \
    echo "== $$t: $$(($$(date +%s) - start)) s"; \
    done

.PHONY: clean help
clean:
	rm -rf --one-file-system build

help:
	@echo 'make          build kprofd and kprof below build/'
	@echo 'make demo     profile a sample application, and print its report'
	@echo 'make test     every test that a fresh machine can run: half an hour'
	@echo 'make check    tests for every change, under two minutes'
	@echo 'make deb      Debian packages of them: build/kprofd_$(VERSION)_*.deb'
	@echo 'make install  PREFIX=$(PREFIX) DESTDIR=$(DESTDIR); make uninstall'
	@echo 'make help-dev lists what you need to change it'

include erlang/kprof/library.mk priv/install.mk priv/debian.mk test/tests.mk
