# ---- man pages, completion, units, examples, installing

.PHONY: packaging
packaging: all $(B)/test/mkdb $(B)/test/one_answer $(B)/test/slow_resolver.so
	sh test/packaging/options_test.sh $(B)
	sh test/packaging/completion_test.sh $(B)
	sh test/packaging/examples_test.sh $(B)
	sh test/packaging/install_test.sh $(B) "$(MAKE)"
	sh test/packaging/debian_test.sh

# The Debian packages in a bare root: installed, started, upgraded, purged.  The gate has
# other tests beside it, so it compiles when these wait.
.PHONY: deb-test
deb-test: setup-deb-test
	@nice $(MAKE) --no-print-directory deb all sample
	sh test/packaging/deb_test.sh $(B) "$(MAKE)"

# The package of arm64, built, installed and asked, all in an emulator: half an hour.  Its VM
# has one mapping of its code, since the emulator does not see what is written through another.
.PHONY: arm64-deb-test
arm64-deb-test:
	sh test/support/fresh_root.sh -s trixie -a arm64 sh -euc " \
	    export ERL_FLAGS='+JMsingle true'; \
	    make deb; \
	    apt-get -q install -y --no-install-recommends ./build/kprofd_*_arm64.deb ./build/erlang-kprof_*.deb; \
	    kprofd -version; \
	    kprofd -tiers test/sample_app/tiers.conf -check"

# The image, of the package that is there.
.PHONY: image-test
image-test: all sample image-of-package
	@sh test/support/setup.sh build umoci skopeo sqlite3 util-linux
	sh test/packaging/image_test.sh $(B) $(IMAGE)

# Makes the pictures of the documents again, in five minutes (SECONDS=60: of a shorter load).
.PHONY: screenshot
screenshot: $(B)/kprofd $(B)/kprof sample $(VIEWERS)/made | $(B)/deb/golang-go
	sh test/web/screenshot.sh $(B) priv/doc $(B)/deb/golang-go \
	    $(VIEWERS)/node_modules/speedscope/dist/release $(SECONDS)

# What a newcomer types, with an application of their own, and what is answered.
.PHONY: newcomer-test
newcomer-test: all
	sh test/newcomer/newcomer.sh $(B)

# Runs every example of the documents as it is printed.
DOCS := $(B)/docs

$(DOCS)/ebin/docs_run.beam: $(wildcard test/docs/*.erl)
	@mkdir -p $(@D)
	$(call say,ERLC,$(@F))
	$(Q)erlc -Wall $(ERLC_COMPAT) -o $(@D) $^

.PHONY: docs-test
docs-test: all sample $(INTEGRATION)/it_run.beam $(DOCS)/ebin/docs_run.beam
	@rm -rf $(DOCS)/root $(DOCS)/stubs
	@$(MAKE) --no-print-directory -s install PREFIX=/usr/local DESTDIR=$(DOCS)/root
	erl -noinput -pa $(DOCS)/ebin $(INTEGRATION) $(SAMPLE) $(B)/gen \
	    -s docs_run main -extra $(B) $(DOCS)/root

