# ---- installing: SOURCE:PLACE below PREFIX, for both directions

# Where zsh looks for completions below /usr/local; Debian's packages have another.
ZSH_DIR ?= share/zsh/site-functions
UNITS   := kprofd.service kprofd@.service
INSTALL_DATA := \
    $(B)/kprof_sqlite.so:lib/kprofd/kprof_sqlite.so \
    $(B)/kprof_probe.so:lib/kprofd/kprof_probe.so \
    $(B)/kprof_calls_probe.so:lib/kprofd/kprof_calls_probe.so \
    priv/schema.sql:share/kprofd/schema.sql \
    priv/tiers.conf:share/kprofd/tiers.conf \
    $(foreach m,$(LIBRARY),$(LIBRARY_EBIN)/$(m).beam:$(LIBRARY_DIR)/ebin/$(m).beam \
        erlang/kprof/src/$(m).erl:$(LIBRARY_DIR)/src/$(m).erl) \
    $(LIBRARY_EBIN)/kprof.app:$(LIBRARY_DIR)/ebin/kprof.app \
    erlang/kprof/README.md:share/doc/kprofd/erlang-library.md \
    priv/man/kprof.1:share/man/man1/kprof.1 \
    priv/man/tiers.conf.5:share/man/man5/tiers.conf.5 \
    priv/man/kprofd.8:share/man/man8/kprofd.8 \
    $(foreach p,kprof kprofd,\
        priv/completion/$(p).bash:share/bash-completion/completions/$(p) \
        priv/completion/$(p).zsh:$(ZSH_DIR)/_$(p) \
        priv/completion/$(p).fish:share/fish/vendor_completions.d/$(p).fish) \
    priv/systemd/kprofd.sysusers:lib/sysusers.d/kprofd.conf \
    priv/systemd/kprofd.env:share/doc/kprofd/examples/kprofd.env \
    priv/cron/kprofd:share/doc/kprofd/examples/crontab \
    priv/logrotate/kprofd:share/doc/kprofd/examples/logrotate \
    $(foreach d,$(wildcard priv/doc/*.md priv/doc/*.png),$(d):share/doc/kprofd/$(notdir $(d))) \
    $(foreach e,$(wildcard priv/examples/*.conf),$(e):share/kprofd/examples/$(notdir $(e))) \
    $(foreach e,$(wildcard priv/prometheus/*.yml priv/grafana/*.json priv/deploy/*.yaml),$(e):share/kprofd/$(e:priv/%=%)) \
    $(foreach u,$(UNITS),$(B)/gen/$(u):lib/systemd/system/$(u))
INSTALL_BIN := $(B)/kprofd:bin/kprofd $(B)/kprof:bin/kprof

unit_names = @NAME@,$(1),g; s,@STATE@,$(2),g; s,@BINDIR@,$(PREFIX)/bin,g

# Always rebuilt, because PREFIX may have changed.
$(B)/gen/kprofd.service: priv/systemd/kprofd.service.in FORCE
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's,$(call unit_names,kprofd,kprofd)' $< > $@

$(B)/gen/kprofd@.service: priv/systemd/kprofd.service.in FORCE
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's,$(call unit_names,%i,kprofd/%i)' $< > $@

.PHONY: install uninstall
install: all $(foreach u,$(UNITS),$(B)/gen/$(u))
	@for f in $(INSTALL_BIN); do \
	    install -D -m 755 "$${f%%:*}" "$(DESTDIR)$(PREFIX)/$${f#*:}" && \
	    echo "$(DESTDIR)$(PREFIX)/$${f#*:}" || exit 1; \
	done
	@for f in $(INSTALL_DATA); do \
	    install -D -m 644 "$${f%%:*}" "$(DESTDIR)$(PREFIX)/$${f#*:}" && \
	    echo "$(DESTDIR)$(PREFIX)/$${f#*:}" || exit 1; \
	done
# Documents name their places below /usr/local, the default.
ifneq ($(PREFIX),/usr/local)
	@for f in $(filter %.md %.1 %.5 %.8 %/crontab,$(INSTALL_DATA)); do \
	    sed -i 's,/usr/local/,$(PREFIX)/,g' "$(DESTDIR)$(PREFIX)/$${f#*:}" || exit 1; \
	done
endif

# Directories that are ours and empty go too.
uninstall:
	@for f in $(INSTALL_BIN) $(INSTALL_DATA); do \
	    rm -f "$(DESTDIR)$(PREFIX)/$${f#*:}"; \
	done
	@cd "$(DESTDIR)$(PREFIX)" && for d in share/kprofd/examples \
	    share/kprofd/prometheus share/kprofd/grafana share/kprofd/deploy share/kprofd lib/kprofd \
	    share/doc/kprofd/examples share/doc/kprofd \
	    $(LIBRARY_DIR)/ebin $(LIBRARY_DIR)/src $(LIBRARY_DIR); do \
	    rmdir "$$d" 2>/dev/null || true; \
	done

