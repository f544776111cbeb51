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
	$(call say,ERLC,$(@F))
	$(Q)erlc -Wall -Werror +debug_info +deterministic $(ERLC_COMPAT) -o $(@D) \
	    $(LIBRARY_SRC)
	$(Q)sed -e 's/{vsn, "[^"]*"}/{vsn, "$(VERSION)"}/' \
	    -e 's/{modules, \[\]}/{modules, [$(subst $(empty) ,$(comma) ,$(LIBRARY))]}/' \
	    $< > $@

.PHONY: library
library: $(LIBRARY_EBIN)/kprof.app
