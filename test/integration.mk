# ---- the sample application, and tests on real nodes

SAMPLE := $(B)/sample_app/ebin

$(SAMPLE)/sample_app.app: $(wildcard test/sample_app/src/*)
	@mkdir -p $(@D)
	$(call say,ERLC,$(@F))
	$(Q)erlc +debug_info -Wall $(ERLC_COMPAT) -o $(@D) test/sample_app/src/*.erl
	$(Q)cp test/sample_app/src/sample_app.app.src $@

.PHONY: sample
sample: $(SAMPLE)/sample_app.app
	@:

# Prints the match specs that kprofd sets, for test/integration/spec_check.erl.
$(B)/test/specdump: test/support/specdump.c $(LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< $(LIBS) $(LDLIBS)

# Compares the match specs with real Erlang funs, on the installed OTP release.
.PHONY: spec-check
spec-check: $(B)/test/specdump
	escript test/integration/spec_check.erl $(B)/test/specdump

# The tests, with targets of the installed OTP release.  ONLY: a part of their titles.
# FIGURE_REQUESTS: how many requests; RELOADS: how many reloads of traced modules.
RELOADS ?= 20
INTEGRATION := $(B)/integration/ebin

# Packages that tests use without having them installed.  Where one cannot be
# downloaded its tests are skipped, with a message; in CI they fail.  RabbitMQ contains
# cowboy and recon.
$(B)/deb/%:
	$(call say,DEB,$*)
	$(Q)sh test/support/deb.sh $* $@ || \
	    { rm -rf $@; mkdir -p $@; [ -z "$$CI" ]; }

INTEGRATION_SRC := $(filter-out %/spec_check.erl,$(wildcard test/integration/*.erl)) \
                   $(wildcard test/recordings/*.erl)

$(INTEGRATION)/it_run.beam: $(INTEGRATION_SRC) test/recordings/truth.hrl \
                            $(LIBRARY_EBIN)/kprof.app | $(B)/deb/rabbitmq-server $(B)/deb/erlang-poolboy
	@mkdir -p $(@D)
	$(call say,CP,$@)
	$(Q)cp $(LIBRARY_EBIN)/* $(@D)
	$(Q)for a in cowboy cowlib ranch recon; do \
	    find $(B)/deb/rabbitmq-server -path "*/plugins/$$a-*/ebin/*" -exec cp {} $(@D) \; ; \
	done
	$(Q)find $(B)/deb/erlang-poolboy -name 'poolboy*.beam' -exec cp {} $(@D) \;
	$(call say,ERLC,$(@F))
	$(Q)erlc -Wall $(ERLC_COMPAT) -I test/recordings -o $(@D) $(INTEGRATION_SRC)

# $(1): the root file system of the targets, if not this machine's; $(2): how many
# of the tests, if not all.
run_integration = $(if $(PROBE),KPROFD_PROBE=$(PROBE)) $(if $(TRANSPORT),KPROFD_TRANSPORT=$(TRANSPORT)) KPROFD_RELOADS=$(RELOADS) $(if $(1),sh test/support/inroot.sh $(1)) \
    erl -noinput -pa $(INTEGRATION) -s it_run main \
    -extra $(B) $(if $(1),-root $(1)) $(2) -lock $(INTEGRATION)/lock $(if $(JOBS),-jobs $(JOBS)) $(if $(MODULES),-modules $(MODULES)) $(if $(ONLY),'$(ONLY)')

# Libraries that are preloaded into kprofd: slow_resolver does not answer, slow_reader
# makes kprofd fall behind, last_words kills it while it sends.
PRELOADED := $(patsubst %,$(B)/test/%.so,slow_resolver slow_reader last_words clock_jump)

$(PRELOADED): $(B)/test/%.so: test/support/%.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -g -std=c11 -D_GNU_SOURCE -fPIC -shared -o $@ $<

INTEGRATION_NEEDS := $(B)/kprofd $(B)/kprof $(B)/kprof_probe.so $(B)/kprof_calls_probe.so $(PRELOADED) \
                     $(B)/test/pty_run sample $(INTEGRATION)/it_run.beam

.PHONY: integration
integration: $(INTEGRATION_NEEDS)
	$(call run_integration)

# The tests of figures with the native probe; RELEASES=29: on that release.  For all
# tests with it: `make integration PROBE=native`, `make releases PROBE=native`.
.PHONY: native native-matrix
native-matrix:
	@$(MAKE) --no-print-directory native RELEASES="host $(NEWEST)"

native:
	@$(MAKE) --no-print-directory PROBE=native \
	    $(if $(filter command line,$(origin RELEASES)),releases,integration) \
	    ONLY="outcome: ' 'catalogue: ' 'figure: ' 'sampling: ' 'mark: ' 'attach: ' 'code: ' 'reload: "

# The native probe in a VM of its own, which it may not harm; also with sanitizers.
# CYCLES=10000: a long run.
CYCLES  ?= 100
TORTURE := $(B)/torture

TORTURE_BEAMS := $(addprefix $(B)/gen/,kprof_probe.beam kprof_calls_probe.beam kprof_agent.beam)
$(TORTURE)/probe_torture.beam: $(wildcard test/probe/*.erl) $(TORTURE_BEAMS)
	@mkdir -p $(@D)
	$(call say,ERLC,$(@F))
	$(Q)erlc -Wall $(ERLC_COMPAT) -o $(@D) test/probe/*.erl
	$(Q)cp $(TORTURE_BEAMS) $(@D)

.PHONY: torture
torture: $(PROBES:%=$(B)/%.so) $(TORTURE)/probe_torture.beam
	$(call torture_vm,calls_torture,$(B)/kprof_calls_probe)
	$(call torture_vm,probe_torture,$(B)/kprof_probe)

# $(1): the test, $(2): its library
torture_vm = \
	$(if $(SANFLAGS),LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=4) \
	    erl -noinput -pa $(TORTURE) -s $(1) main -extra $(2) $(CYCLES)

# The libraries in a program whose C library is musl.
.PHONY: musl-test
musl-test: $(PROBES:%=$(B)/%.so)
	@command -v musl-gcc >/dev/null || sh test/support/setup.sh build musl-tools
	sh test/support/musl.sh $(B) $^

# For arm64, in an emulator.  UNIT_TESTS: which; all: "$(notdir $(UNIT))".
UNIT_TESTS ?= test_ring test_merge_rings test_probe_clock test_native test_hist test_frame test_term test_recorded
.PHONY: arm64-test
arm64-test:
	sh test/support/arm64.sh "$(MAKE)" $(KPROFD_ROOTS) "$(UNIT_TESTS)"

# The same in valgrind, which takes about ten times as long, with a library that
# reports to it what the VM has written (src/probe/checked.h).
$(TORTURE)/%.o: src/probe/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say_folder,CC,$(<D))
	$(Q)$(CC) $(ALL_CFLAGS) -DPROBE_VALGRIND -isystem $(ERL_INC) -fPIC -fvisibility=hidden -c -o $@ $<

$(PROBES:%=$(TORTURE)/%.so): $(TORTURE)/%.so: $(PROBE_SRC:src/probe/%.c=$(TORTURE)/%.o)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $($*_SRC:src/probe/%.c=$(TORTURE)/%.o)

.PHONY: torture-valgrind
torture-valgrind: $(TORTURE)/probe_torture.beam
	@command -v valgrind >/dev/null || sh test/support/setup.sh build valgrind
	@$(MAKE) --no-print-directory $(PROBES:%=$(TORTURE)/%.so)
	sh test/probe/valgrind.sh $(TORTURE) $(TORTURE)/kprof_probe $(CYCLES)
	sh test/probe/valgrind.sh $(TORTURE) $(TORTURE)/kprof_calls_probe $(CYCLES) calls_torture

# The tests of faults, many times: SEED=N repeats the moments of an earlier run.  With
# targets of the installed OTP release, or of that in FAULTS_ROOT.
.PHONY: faults
faults: MODULES := fault_tests,connection_tests
faults: RELOADS := 200
faults: export KPROFD_FAULTS := whole
faults: export SEED := $(SEED)
faults: $(INTEGRATION_NEEDS) $(B)/test/test_store_power
	$(B)/test/test_store_power
	$(call run_integration,$(FAULTS_ROOT))

# Checks that the tests of faults fail when what they test is removed.  MUTANTS: some
# of test/support/mutants/.
.PHONY: faults-mutants
faults-mutants: $(INTEGRATION_NEEDS)
	sh test/support/mutants.sh $(B) $(MUTANTS)

# They take too long for the gate, which only checks that the patches apply.
.PHONY: mutants-fit
mutants-fit:
	@for p in test/support/mutants/*.patch; do \
	    patch --dry-run -sp1 < $$p || { echo "$$p: renew it"; exit 1; }; \
	done

# Peers that lie to kprofd, and other tools that trace in the target.  `make
# integration` runs them in a short form; `make hostile-releases` on other releases.
.PHONY: hostile
ADVERSARIES := adversary_tests,crowd_tests,hot_tests,token_tests
hostile: MODULES := hostile_tests,hostile_tls_tests,$(ADVERSARIES)
hostile: $(INTEGRATION_NEEDS)
	KPROFD_HOSTILE=whole $(call run_integration)

.PHONY: hostile-releases
hostile-releases:
	KPROFD_HOSTILE=whole $(MAKE) --no-print-directory releases MODULES=$(ADVERSARIES)

# Exports of traces, read by the programs that they are for.
VIEWERS := $(B)/npm_viewers

$(VIEWERS)/made: $(addprefix test/viewers/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	$(call say,CP,$@)
	$(Q)cp $^ $(@D)
	@cd $(@D) && { $(call npm_ci); }
	@touch $@

.PHONY: viewers-test
viewers-test: MODULES := viewer_tests
viewers-test: $(INTEGRATION_NEEDS) $(VIEWERS)/made $(WEB_TEST)/made $(B)/test/mkdb
	@command -v callgrind_annotate >/dev/null || sh test/support/setup.sh build valgrind
	node test/viewers/request.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules $(CURDIR)/$(VIEWERS)/node_modules
	node test/viewers/manifests.mjs $(B) $(CURDIR)/$(VIEWERS)/node_modules
	KPROFD_VIEWERS=$(VIEWERS)/node_modules $(call run_integration)

# A busy target for MINUTES; after the first one nothing may grow.
MINUTES ?= 10

.PHONY: soak
soak: MODULES := soak_tests
soak: $(INTEGRATION_NEEDS)
	KPROFD_SOAK_MINUTES=$(MINUTES) $(call run_integration)

# The library as a dependency of rebar3 and mix projects.
.PHONY: library-test
library-test: $(B)/kprofd | $(B)/deb/rebar3
	sh test/library/run.sh $(B) $(VERSION) $(CURDIR)/$(B)/deb/rebar3/usr/bin/rebar3

# The same with targets of other OTP releases, from later Debians, in root file systems
# below KPROFD_ROOTS, which are made if they are missing.  Releases and results are
# kept in integration/results.txt.
KPROFD_ROOTS ?= build/roots
RELEASES ?= 27 29

$(KPROFD_ROOTS)/%/made:
	sh test/support/setup.sh build mmdebstrap
	sh test/support/root.sh $* $(KPROFD_ROOTS)/$*

ROOTS := $(patsubst %,$(KPROFD_ROOTS)/%/made,$(filter-out host,$(RELEASES)))

.PHONY: matrix releases
matrix releases: JOBS ?= $(if $(filter matrix,$@),3,2)
matrix releases: $(INTEGRATION_NEEDS) $(ROOTS)

# What depends on the release of its targets runs on the installed one and on the newest,
# all else on one of these; those between have the tests of tracing in the VM (it_run.erl
# lists them).
NEWEST = $(lastword $(RELEASES))
matrix:
	@$(call side_by_side,host-oldest $(NEWEST)-newest $(patsubst %,%-tracing,$(filter-out $(NEWEST),$(RELEASES))))

releases:
	@$(call side_by_side,$(RELEASES))

# $(1): releases, each with which of the tests, and `host` for the installed one.
# They run at the same time, since their tests wait more than they work, JOBS of each;
# each line names its release.
side_by_side = rm -f $(INTEGRATION)/failed.*; \
    for r in $(1); do { \
	which=$${r\#$${r%-*}}; \
	if [ $${r%-*} = host ]; then $(call run_integration,,$$which); \
	else $(call run_integration,$(KPROFD_ROOTS)/$${r%-*},$$which); fi || \
	    touch $(INTEGRATION)/failed.$$r; } 2>&1 | sed -u "s/^/$$r: /" & \
    done; wait; \
    ! ls $(INTEGRATION)/failed.* 2>/dev/null

# A node of a release that is refused; its root file system takes longer than the test.
.PHONY: refused
refused:
	@$(MAKE) --no-print-directory releases RELEASES=23 MODULES=refused_tests

# ---- recordings of real nodes, for the unit tests (test/recordings/README.md)
#
# Makes all of them again, on the releases of `make matrix`.  ONLY: some programs.

$(B)/test/record: test/support/record.c $(B)/flags $(LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< $(LIBS) $(LDLIBS)

run_recorder = $(if $(1),sh test/support/inroot.sh $(1)) \
    erl -noinput -pa $(INTEGRATION) -s recorder main \
    -extra $(B) test/recordings $(if $(1),-root $(1)) $(ONLY)

.PHONY: record
record: $(B)/test/record sample $(INTEGRATION)/it_run.beam $(ROOTS)
	$(call run_recorder)
	for r in $(RELEASES); do \
	    $(call run_recorder,$(KPROFD_ROOTS)/$$r) || exit 1; \
	done

# The examples in priv/examples on the servers that they are for, and proposals for
# these and for applications in test/apps, of Debian 12, in a root file system of
# their own below KPROFD_ROOTS; with APPS_ROOT=apps13 of Debian 13. SEED: the sample
# application's names are replaced by the same words again.
APPS_ROOT ?= apps
APPS := $(B)/apps/ebin

$(APPS)/apps.beam: $(wildcard test/apps/*.erl)
	@mkdir -p $(@D)
	$(call say,ERLC,$(@F))
	$(Q)erlc -Wall $(ERLC_COMPAT) -o $(@D) test/apps/*.erl

SCRAMBLED := $(B)/apps/scrambled

$(SCRAMBLED)/names: test/apps/scramble.escript $(wildcard test/sample_app/src/*) $(if $(SEED),FORCE)
	$(call say,SCRAMBLE,$(@D))
	$(Q)rm -rf $(@D)
	$(Q)escript test/apps/scramble.escript test/sample_app/src $(@D) $(SEED)

.PHONY: test-apps
test-apps: all sample $(INTEGRATION)/it_run.beam $(APPS)/apps.beam $(SCRAMBLED)/names \
           $(KPROFD_ROOTS)/$(APPS_ROOT)/made
	sh test/apps/run.sh $(B) $(KPROFD_ROOTS)/$(APPS_ROOT) $(if $(ONLY),'$(ONLY)')

