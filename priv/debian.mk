# ---- Debian's packages: these sources with priv/debian/, put together below build/

DEB_TREE := build/package/kprofd-$(VERSION)
# Flags and a job server of this make are not for the package.
DEB_ENV  := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u CI

.PHONY: deb
deb: setup-deb
	@rm -rf --one-file-system build/package build/kprofd_*.deb build/erlang-kprof_*.deb
	@mkdir -p $(DEB_TREE)
	@tar -c --exclude-vcs --exclude=./build --exclude=_build --exclude='*.db*' . | \
	    tar -x -C $(DEB_TREE)
	@cp -r priv/debian $(DEB_TREE)/debian
	$(call say,DEB,$(DEB_TREE))
	@echo "compiles all of it there, with Debian's flags: some minutes (build/package/build.log)"
	@cd $(DEB_TREE) && $(DEB_ENV) dpkg-checkbuilddeps -I && \
	    { $(DEB_ENV) dpkg-buildpackage -us -uc -d >../build.log 2>&1 || \
	    { cat ../build.log >&2; exit 1; }; }
	@for f in build/package/*.deb; do \
	    case $$f in *-dbgsym_*) continue ;; esac; \
	    cp $$f build/ && echo "build/$${f##*/}" || exit 1; \
	done

# An OCI image of the package, for skopeo copy oci-archive:FILE.
PACKAGE = build/kprofd_$(VERSION)_$(call once,DEB_ARCH,dpkg --print-architecture).deb
IMAGE  := build/kprofd-image_$(VERSION).tar

.PHONY: image image-of-package
image: deb
	@$(MAKE) --no-print-directory image-of-package
	@echo $(IMAGE)

image-of-package:
	@sh test/support/setup.sh build mmdebstrap umoci
	@[ -e $(PACKAGE) ] || $(MAKE) --no-print-directory deb
	@sh priv/deploy/image.sh $(PACKAGE) $(IMAGE)
