# The tests come in three sizes (test/README.md): `make check` takes under two minutes,
# `make test` half an hour, and runs all that a fresh machine can run; tests that take hours
# or need more are run by name.

CHECKS := unit erlang-test replay client-test purity mutants-fit

# Goals with a comma between them run at the same time: the documents' examples wait more
# than they work.
TESTS := unit \
         erlang-test \
         dialyzer \
         SAN=1,unit \
         SAN=1,client-test \
         SAN=1,top-test \
         SAN=1,api-test \
         web-test,docs-test \
         export-test \
         sqlite-test \
         SAN=1,sqlite-test \
         packaging \
         fuzz-replay \
         purity \
         musl-test \
         spec-check \
         mutants-fit \
         library-test \
         $(if $(ALL_RELEASES),matrix,integration) \
         viewers-test \
         $(if $(ALL_RELEASES),native-matrix,native),FIGURE_REQUESTS=20000 \
         newcomer-test \
         torture,CYCLES=20

include $(addprefix test/,unit.mk erlang.mk fuzz.mk clients.mk integration.mk documents.mk bench.mk)

# The gate sets ALL_RELEASES: then the tests on real nodes run with targets of other
# releases, too, at the same time.

# `make test` on another Debian: in a bare root of it, as on a fresh machine.
.PHONY: test-bookworm test-trixie
test-bookworm test-trixie: test-%:
	sh test/support/fresh_root.sh -s $* make test

.PHONY: help-dev
help-dev:
	@echo 'make check        what every change passes, in under two minutes: unit tests and more'
	@echo 'make unit         only the unit tests (SAN=1: with sanitizers)'
	@echo 'make erlang-test  EUnit of what runs in targets (then: make dialyzer)'
	@echo 'make client-test  kprof on a database made for it (then: make top-test api-test)'
	@echo 'make integration  real nodes (MODULES=trace_tests ONLY="a part of a title"; JOBS=N)'
	@echo 'make docs-test    every example of the documents, as printed'
	@echo 'make packaging    man pages, completion, unit, examples, installing'
	@echo 'make fuzz-short   every fuzzer for FUZZ_SECS=$(FUZZ_SECS) seconds'
	@echo 'make bench-instructions  what an event costs in kprofd, against the record'
	@echo 'make test         all that a fresh machine can run, before you hand in a change'
	@echo 'make releases     the tests on real nodes, against OTP $(RELEASES)'
	@echo 'make clean        remove build/'
	@echo 'test/README.md has the others, by what a change touches'

# Skips the root file systems of `make matrix` and `make setup`, which have such files.
-include $(shell find build -type d \( -name roots -o -name tools -o -name deb -o -name package \) -prune \
    -o -type f -name '*.d' -print 2>/dev/null)
