# The tests come in three sizes (test/README.md): `make check` takes under two minutes,
# `make test` half an hour, and runs all that a fresh machine can run; tests that take hours
# or need more are run by name.

CHECKS := unit erlang-test replay client-test purity mutants-fit

TESTS := unit \
         erlang-test \
         dialyzer \
         SAN=1,unit \
         SAN=1,client-test \
         SAN=1,top-test \
         SAN=1,api-test \
         web-test \
         export-test \
         sqlite-test \
         SAN=1,sqlite-test \
         packaging \
         fuzz-replay \
         purity \
         spec-check \
         mutants-fit \
         library-test \
         $(if $(ALL_RELEASES),matrix,integration) \
         viewers-test \
         native,FIGURE_REQUESTS=20000 \
         newcomer-test \
         torture,CYCLES=20 \
         docs-test

include $(addprefix test/,unit.mk erlang.mk fuzz.mk clients.mk integration.mk documents.mk bench.mk)

# The gate sets ALL_RELEASES: then the tests on real nodes run with targets of other
# releases, too, at the same time.

# `make test` on another Debian: in a bare root of it, as on a fresh machine.
.PHONY: test-bookworm test-trixie
test-bookworm test-trixie: test-%:
	sh test/support/fresh_root.sh -s $* make test

.PHONY: help-dev
help-dev:
	@echo 'make check        unit tests, recordings, corpora, the client: under two minutes'
	@echo 'make unit         unit tests (SAN=1: with sanitizers)'
	@echo 'make erlang-test  EUnit of what runs in targets, and its merging'
	@echo 'make dialyzer     types of what runs in targets'
	@echo 'make client-test  kprof on a database made for it'
	@echo 'make top-test     kprof top on a pseudo-terminal, kprof merge'
	@echo 'make api-test     the HTTP API against sqlite3 and kprof, and what it refuses'
	@echo 'make web-test     the dashboard in headless Chromium'
	@echo 'make screenshot   the picture of the dashboard in README.md, made again'
	@echo 'make export-test  what Prometheus scrapes and a collector gets'
	@echo 'make sqlite-test  the SQLite extension in SQLite'"'"'s shell'
	@echo 'make packaging    man pages, completion, unit, examples, installing'
	@echo 'make deb-test     the Debian packages: lintian; started under systemd, purged (root)'
	@echo 'make newcomer-test  the mistakes of a first hour, and what is answered'
	@echo 'make integration  tests against real nodes'
	@echo 'make native       the same figures with the native probe (all: integration PROBE=native)'
	@echo 'make torture      the native probe by itself (SAN=1; CYCLES=10000)'
	@echo 'make torture-valgrind  the same in valgrind'
	@echo 'make faults       what can fail, at many moments (SEED=N: at the same ones)'
	@echo 'make faults-mutants  whether those tests fail when what they test is removed'
	@echo 'make hostile      peers that lie, tracers beside ours, whole (SAN=1: with sanitizers)'
	@echo 'make viewers-test exports of traces, read by callgrind_annotate and speedscope'"'"'s schema'
	@echo 'make soak         MINUTES=$(MINUTES) of a busy target: nothing grows'
	@echo 'make library-test the library as a dependency of rebar3 and mix projects'
	@echo 'make matrix       the same, and what depends on the release against OTP $(RELEASES)'
	@echo 'make releases     all tests against OTP $(RELEASES)'
	@echo 'make refused      a node of OTP 23, which kprofd refuses'
	@echo 'make record       record again what real nodes send, for the unit tests'
	@echo 'make test-trixie  make test in a bare Debian 13 (test-bookworm: in a 12)'
	@echo 'make test-apps    examples and proposals on real cowboy, yaws, RabbitMQ and ejabberd'
	@echo 'make docs-test    every example of the documents, as printed'
	@echo 'make spec-check   match specs against the Erlang funs they come from'
	@echo 'make fuzz-replay  the fuzzers'"'"' corpora, with sanitizers'
	@echo 'make fuzz-short   every fuzzer for FUZZ_SECS=$(FUZZ_SECS) seconds'
	@echo 'make fuzz         every fuzzer for FUZZ_RUNS=$(FUZZ_RUNS) executions'
	@echo 'make bench        what profiling costs (test/bench/README.md)'
	@echo 'make bench-table  the same by ways of tracing, as a table'
	@echo 'make bench-crowd  pauses in a node of 300,000 processes'
	@echo 'make bench-stacks what sampled stacks cost a busy node, and one of 300,000 processes'
	@echo 'make bench-tls    what TLS costs kprofd and a target, by event'
	@echo 'make bench-instructions  instructions an event takes in kprofd, against the record'
	@echo 'make setup        install what building needs (setup-check, setup-test: what they need)'
	@echo 'make clean        remove build/'

# Skips the root file systems of `make matrix` and `make setup`, which have such files.
-include $(shell find build -type d \( -name roots -o -name tools -o -name deb -o -name package \) -prune \
    -o -type f -name '*.d' -print 2>/dev/null)
