# ---- man pages, completion, units, examples, installing

.PHONY: packaging
packaging: all $(B)/test/mkdb $(B)/test/one_answer $(B)/test/slow_resolver.so
	sh test/packaging/options_test.sh $(B)
	sh test/packaging/completion_test.sh $(B)
	sh test/packaging/examples_test.sh $(B)
	sh test/packaging/install_test.sh $(B) "$(MAKE)"
	sh test/packaging/debian_test.sh

# The Debian packages in a bare root: installed, started, upgraded, purged.
.PHONY: deb-test
deb-test: setup-deb-test
	@$(MAKE) --no-print-directory deb all sample
	sh test/packaging/deb_test.sh $(B) "$(MAKE)"

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

