# ---- kprof, the dashboard and exports; only the last two need a real node

# Installs what a lock file of the tests pins, from npm's cache if it is there.
npm_ci = npm ci --engine-strict --no-audit --no-fund --ignore-scripts --prefer-offline --fetch-retries=5 --loglevel=error || { \
    echo 'make: npm did not install what $< names: is npm there (make setup-test), and' >&2; \
    echo 'make: its registry (npm ping; a mirror: npm config set registry URL)?' >&2; exit 1; }

# kprof on a database made for it, compared with sqlite3's own figures.
$(B)/test/mkdb: test/support/mkdb.c $(LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< $(LIBS) $(LDLIBS)

$(B)/test/one_answer: test/support/one_answer.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $<

.PHONY: client-test
client-test: $(B)/kprof $(B)/test/mkdb $(B)/test/one_answer
	sh test/integration/client_test.sh $(B)

# kprof top on a pseudo-terminal, kprof merge, and several -db.
$(B)/test/pty_run: test/support/pty_run.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MF $@.d -o $@ $< -lutil

.PHONY: top-test
top-test: $(B)/kprof $(B)/test/mkdb $(B)/test/one_answer $(B)/test/pty_run
	sh test/integration/top_test.sh $(B)

# The HTTP API, and the dashboard of two real nodes in headless Chromium.  Screenshots
# go to $(B)/web.
WEB_TEST := $(B)/npm_test

$(WEB_TEST)/made: $(addprefix test/web/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	$(call say,CP,$@)
	$(Q)cp $^ $(@D)
	@cd $(@D) && { $(call npm_ci); }
	@touch $@

.PHONY: web-test api-test
api-test: $(B)/kprof $(B)/test/mkdb
	node test/web/api_test.mjs $(B)

web-test: $(B)/kprofd $(B)/kprof $(B)/kprof_sqlite.so $(B)/test/mkdb sample $(WEB_TEST)/made $(B)/integration/ebin/it_run.beam
	node test/web/browser_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/charts_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/crossing_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/missing_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/stacks_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/night_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/types_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules
	node test/web/request_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules

# Of two kprofds and two nodes: /metrics as a real Prometheus reads it, what a
# collector gets, decoded by OpenTelemetry's own definitions, and profiles as Go's own
# pprof reads them.
.PHONY: export-test
export-test: $(B)/kprofd $(B)/kprof sample $(WEB_TEST)/made | $(B)/deb/prometheus $(B)/deb/golang-go
	node test/web/export_test.mjs $(B) $(CURDIR)/$(WEB_TEST)/node_modules \
	    $(CURDIR)/$(B)/deb/prometheus/usr/bin $(CURDIR)/$(B)/deb/golang-go

# The SQLite extension in SQLite's shell.
.PHONY: sqlite-test
sqlite-test: $(B)/kprof_sqlite.so $(B)/kprof $(B)/test/mkdb
	sh test/integration/sqlite_test.sh $(B)

