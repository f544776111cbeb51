# ---- unit tests: one program for each test/unit/test_*.c

UNIT := $(patsubst test/unit/%.c,$(B)/test/%,$(wildcard test/unit/test_*.c))

$(B)/obj/test/unit/%.o: CPPFLAGS += -Itest/support

$(UNIT): $(B)/test/%: $(B)/obj/test/unit/%.o $(LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $(filter %.o,$^) $(LIBS) -lcmocka $(WRAPPED) $(LDLIBS)

$(filter $(B)/test/test_store% $(B)/test/test_request_tail $(B)/test/test_report_stacks \
    $(B)/test/test_intervals $(B)/test/test_changed $(B)/test/test_slo \
    $(B)/test/test_profiles,$(UNIT)): $(call obj,test/support/store_fixture.c)
$(B)/test/test_store_power $(B)/test/test_store_retry: $(call obj,test/support/faultvfs.c)
$(B)/test/test_tls $(B)/test/test_channel $(B)/test/test_pem $(B)/test/test_web: \
    $(call obj,test/support/tls_peer.c)
$(B)/test/test_sqlite: | $(B)/kprof_sqlite.so

wrapped = $(foreach f,$(1),-Wl$(comma)--wrap=$(f))

# It counts allocations.
$(B)/test/test_ingest: WRAPPED = $(call wrapped,malloc calloc realloc aligned_alloc)

# It says which file system a file is in.
$(B)/test/test_text: WRAPPED = $(call wrapped,statfs)

# It lets allocations fail.
$(B)/test/test_vec: WRAPPED = $(call wrapped,realloc)

# It counts requests in the daemon's place.
$(B)/test/test_node_runs: WRAPPED = $(call wrapped,daemon_on_request)

# It lets each step of the start fail.
$(B)/test/test_web: WRAPPED = $(call wrapped,event_base_new evhttp_new evconnlistener_new \
    evhttp_bind_listener)

# Programs of a simulated VM, and their true figures.
VMSIM := $(call obj,$(addprefix test/support/,vmsim.c vmprog.c vmfeed.c \
           figures.c))
$(B)/test/test_assembly $(B)/test/test_conservation $(B)/test/test_clocks: $(VMSIM)
$(B)/test/test_assembly: $(call obj,test/support/vmtruth.c)

# Parts of the native probe, without a VM.
$(B)/test/test_ring $(B)/test/test_merge_rings $(B)/test/test_probe_clock: \
    $(call obj,$(addprefix src/probe/,ring.c clock.c names.c))

# Checks which functions of the C library the pure rooms call.
.PHONY: purity
purity: $(LIBS)
	sh test/support/purity.sh $(B) $(PURE_ROOMS)

# Those that take longest begin first.
SLOW := $(addprefix $(B)/test/test_,intervals store_power store_fault store_rollup store_levels \
          assembly changed)

# RUNNER: what runs a program of another machine (test/support/arm64.sh).
.PHONY: unit
unit: $(UNIT)
	@$(MAKE) --no-print-directory -Otarget $(patsubst %,%.run,$(SLOW) $(filter-out $(SLOW),$(UNIT)))

.PHONY: $(UNIT:%=%.run)
$(UNIT:%=%.run): %.run: %
	@echo "== $<"; $(RUNNER) $<

