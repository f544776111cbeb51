# ---- benchmarks: figures to read, not to assert

BENCH := $(patsubst test/bench/%.c,$(B)/bench/%,$(wildcard test/bench/bench_*.c))

$(B)/bench/%: test/bench/%.c $(LIBS) $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $(filter %.c %.o,$^) $(LIBS) $(LDLIBS)
$(B)/bench/bench_web: $(call obj,test/bench/month.c)

$(B)/bench/bench_%.beam: test/bench/bench_%.erl $(B)/gen/kprof_probe.beam
	@mkdir -p $(@D)
	$(call say,ERLC,$(@F))
	$(Q)erlc -Wall $(ERLC_COMPAT) -o $(@D) $<

# Counts instructions, which do not depend on what else the machine does, and compares
# them with the record.  RECORD=1: records the new figures.
.PHONY: bench-instructions
bench-instructions: $(B)/bench/count
	@command -v valgrind >/dev/null || sh test/support/setup.sh build valgrind
	@sh test/bench/instructions.sh $(B) $(if $(RECORD),-record)

# BENCH_ROOT: the root file system of the target, such as those of `make matrix`.
.PHONY: bench
bench: all $(BENCH) $(B)/test/record $(B)/test/specdump $(B)/bench/bench_tracer.beam $(B)/bench/bench_drain.beam
	@for t in $(BENCH); do echo "== $$t"; $$t || exit 1; done
	@echo "== bench_tracer"; erl -noinput -pa $(B)/bench $(B)/gen -s bench_tracer main -extra $(B)/kprof_probe
	@echo "== bench_drain"; erl +S 64:64 -noinput -pa $(B)/bench $(B)/gen -s bench_drain main -extra $(B)/kprof_probe 4096
	@echo "== bench_target"; escript test/bench/bench_target.escript $(B) $(BENCH_ROOT)
	@$(MAKE) --no-print-directory bench-shop
	@$(MAKE) --no-print-directory bench-crowd
	@$(MAKE) --no-print-directory bench-table
	@$(MAKE) --no-print-directory bench-calls
	@$(MAKE) --no-print-directory bench-stacks
	@$(MAKE) --no-print-directory bench-tls

.PHONY: bench-shop bench-full bench-crowd bench-table bench-calls bench-stacks bench-tls bench-trials
# ROUNDS: how many.  The VM's own waiting for work is CPU time, too, which varies.
bench-shop: all $(B)/test/specdump
	@echo "== bench_shop"; BENCH_ERL="+sbwt none +sbwtdcpu none +sbwtdio none" \
	    escript test/bench/bench_target.escript -shop $(B) $(BENCH_ROOT)

# PAIRS, TURN_MS, BENCH_PROBES: how many turns, how long, and by which probes.  WAYS: which of 'the
# defaults', 'every request', 'one in 1000', and the last with {slow, always}: 'and timed'.
bench-full: all
	@echo "== bench_full"; escript test/bench/bench_target.escript -full $(B) $(BENCH_ROOT)

bench-crowd: all
	@echo "== bench_crowd"; escript test/bench/bench_target.escript -crowd $(B) $(BENCH_ROOT)

bench-table: all
	@escript test/bench/bench_target.escript -table $(B) $(BENCH_ROOT)

bench-calls: all
	@echo "== bench_calls"; escript test/bench/bench_target.escript -calls $(B) $(BENCH_ROOT)

bench-stacks: all
	@echo "== bench_stacks"; escript test/bench/bench_target.escript -stacks $(B) $(BENCH_ROOT)

bench-tls: all
	@mkdir -p $(B)/bench_tls
	@erlc -Wall $(ERLC_COMPAT) -o $(B)/bench_tls test/bench/bench_tls.erl test/bench/bench_node.erl test/bench/bench_stacks.erl \
	    test/integration/it_stub.erl test/integration/it_certs.erl
	@echo "== bench_tls"; erl -noinput -pa $(B)/bench_tls -s bench_tls main -extra $(B) $(BENCH_ROOT)

# TRIALS, SECONDS: how many for each kind of sampling, and how long one is.
bench-trials: all
	@mkdir -p $(B)/bench_trials
	@erlc -Wall $(ERLC_COMPAT) -o $(B)/bench_trials test/bench/bench_trials.erl
	@echo "== bench_trials"; erl -noinput -pa $(B)/bench_trials -s bench_trials main -extra $(B)
