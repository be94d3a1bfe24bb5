# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Kiwarp: the kernel module (through Kbuild) and the rdma-core provider (through CMake).
# "make help" lists the targets and variables.

BUILD := $(CURDIR)/build

# The kernel to build for; FOR_GUESTS=1 means the one that the guests of scripts/ boot.
FOR_GUESTS ?=
ifeq ($(origin KDIR),undefined)
KDIR := $(shell FOR_GUESTS='$(FOR_GUESTS)' $(CURDIR)/scripts/headers)
endif

KVER = $(shell cat $(KDIR)/include/config/kernel.release 2>/dev/null)
FARM = $(BUILD)/module-$(KVER)

HOST := $(BUILD)/host
# The number is that of libibverbs' private ABI: CMake knows it.
PROVIDER = $(notdir $(shell find $(HOST) -name 'libkiwarp-rdmav*.so' -print -quit))
CMAKE_FLAGS ?=
BUILD_TYPE ?= RelWithDebInfo

DESTDIR ?=
PLUGIN_LIBDIR = $(shell pkg-config --variable=libdir libibverbs 2>/dev/null)
PLUGIN_DIR = $(PLUGIN_LIBDIR)/libibverbs
DRIVER_CONF := /etc/libibverbs.d/kiwarp.driver
TOOLS_DIR := /usr/share/kiwarp/kiwarp_tools

# All cores, unless make was told otherwise: without that Kbuild takes one.
parallel = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: all module provider host bench bench-program ktest kunit install install-module install-provider install-tools uninstall check clean deb help
.DEFAULT_GOAL := all

all: module provider

need-kdir = $(if $(KVER),,$(error No headers of a kernel from 6.12 on found in KDIR="$(KDIR)": install \
	linux-headers-6.12-amd64 (Debian 12; scripts/setup does) or linux-headers-amd64, or name a prepared \
	kernel tree with KDIR=))

# Objects go beside symbolic links to the sources, one folder for each module and kernel: the
# source tree stays clean and builds for several kernels live side by side. The lock lets two runs
# of make in one tree wait for each other.
#
# $(call in-farm,FOLDER,KBUILD,SOURCE FOLDERS,MODULE)
define in-farm
	$(call need-kdir)
	@mkdir -p $(1)
	+@flock $(1) $(MAKE) --no-print-directory locked-farm \
		FARM_DIR=$(1) FARM_KBUILD=$(2) FARM_SOURCES='$(3)' FARM_MODULE=$(4)
endef

.PHONY: locked-farm
locked-farm:
	@ln -sfn $(CURDIR)/$(FARM_KBUILD) $(FARM_DIR)/Kbuild
	@find $(FARM_SOURCES) -name '*.[ch]' | while read -r f; do \
		mkdir -p "$(FARM_DIR)/$${f%/*}" && ln -sfn "$(CURDIR)/$$f" "$(FARM_DIR)/$$f" || exit 1; done
	@find $(FARM_DIR) -xtype l -delete
	$(MAKE) $(parallel) -C $(KDIR) M=$(FARM_DIR) modules
	@cmp -s $(FARM_DIR)/$(FARM_MODULE) $(BUILD)/$(FARM_MODULE) || cp $(FARM_DIR)/$(FARM_MODULE) $(BUILD)/$(FARM_MODULE)

module:
	$(call in-farm,$(FARM),Kbuild,kernel,kiwarp.ko)

# The consumer of kernel verbs that the suite kverbs loads.
ktest:
	$(call in-farm,$(BUILD)/ktest-$(KVER),tests/kverbs/Kbuild,kernel tests/kverbs,kiwarp_ktest.ko)

# The module's files under KUnit: scripts/kunit runs it.
kunit:
	$(call in-farm,$(BUILD)/kunit-$(KVER),tests/kunit/Kbuild,kernel tests/kunit,kiwarp_kunit.ko)

$(HOST)/build.ninja:
	cmake -S . -B $(HOST) -G Ninja -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) $(CMAKE_FLAGS)

# The provider alone, and with it the host's tests.
provider: $(HOST)/build.ninja
	+@flock $(HOST) cmake --build $(HOST) --target kiwarp-provider
	$(call copy-provider)

host: ktest $(HOST)/build.ninja
	+@flock $(HOST) cmake --build $(HOST)
	$(call copy-provider)

# What scripts/bench runs: in guests, and in User-Mode Linux, for which it makes another module.
bench: module bench-program

bench-program: provider
	+@flock $(HOST) cmake --build $(HOST) --target kiwarp-bench

define copy-provider
	@so=$$(find $(HOST) -name 'libkiwarp-rdmav*.so' -print -quit) && \
		{ cmp -s "$$so" "$(BUILD)/$${so##*/}" || cp "$$so" $(BUILD)/; }
endef

# Debian's su leaves the PATH without /sbin.
depmod = PATH="$$PATH:/usr/sbin:/sbin" depmod

install: install-module install-provider install-tools

# Kbuild takes a relative path to be below the kernel's headers.
install-module: module
	$(MAKE) -C $(KDIR) M=$(FARM) INSTALL_MOD_DIR=extra \
		$(if $(DESTDIR),INSTALL_MOD_PATH=$(abspath $(DESTDIR))) modules_install
	$(if $(DESTDIR),,$(depmod) $(KVER))

install-provider: provider
	install -D -m 644 $(BUILD)/$(PROVIDER) $(DESTDIR)$(PLUGIN_DIR)/$(PROVIDER)
	install -d $(DESTDIR)$(dir $(DRIVER_CONF))
	echo "driver kiwarp" > $(DESTDIR)$(DRIVER_CONF)

# The command, and what adds devices when their interface appears.
install-tools:
	install -D -m 755 tools/kiwarp $(DESTDIR)/usr/sbin/kiwarp
	install -d $(DESTDIR)$(TOOLS_DIR)
	install -m 644 tools/kiwarp_tools/*.py $(DESTDIR)$(TOOLS_DIR)
	install -d $(DESTDIR)/usr/lib/systemd/system
	install -m 644 tools/kiwarp@.service tools/kiwarp-again@.service $(DESTDIR)/usr/lib/systemd/system
	install -D -m 644 tools/90-kiwarp.rules $(DESTDIR)/usr/lib/udev/rules.d/90-kiwarp.rules
	install -D -m 644 tools/kiwarp.bash-completion $(DESTDIR)/usr/share/bash-completion/completions/kiwarp
	install -D -m 644 tools/kiwarp.8 $(DESTDIR)/usr/share/man/man8/kiwarp.8
	install -D -m 644 tools/kiwarp.conf.5 $(DESTDIR)/usr/share/man/man5/kiwarp.conf.5

.PHONY: uninstall-tools
uninstall-tools:
	rm -rf $(addprefix $(DESTDIR)/usr/,sbin/kiwarp share/kiwarp lib/systemd/system/kiwarp@.service \
		lib/systemd/system/kiwarp-again@.service lib/udev/rules.d/90-kiwarp.rules \
		share/bash-completion/completions/kiwarp share/man/man8/kiwarp.8 share/man/man5/kiwarp.conf.5)

# Of each kernel that the module was ever installed for, and whether or not there still are its headers, and those of
# libibverbs.
uninstall: uninstall-tools
	for file in $(DESTDIR)/lib/modules/*/extra/kiwarp.ko*; do \
		kernel=$${file%/extra/kiwarp.ko*} && [ -e "$$file" ] || continue; \
		rm -f "$$file" && $(if $(DESTDIR),true,$(depmod) "$${kernel##*/}") || exit 1; \
		rmdir --ignore-fail-on-non-empty "$${file%/*}"; \
	done
	rm -f $(DESTDIR)/usr/lib*/libibverbs/libkiwarp-rdmav*.so $(DESTDIR)/usr/lib*/*/libibverbs/libkiwarp-rdmav*.so \
		$(if $(PLUGIN_LIBDIR),$(DESTDIR)$(PLUGIN_DIR)/libkiwarp-rdmav*.so) $(DESTDIR)$(DRIVER_CONF)

# Debian packages for the release of Debian that this runs on, in build/deb. From a copy, since
# building them leaves files in the tree.
DEB := $(BUILD)/deb
deb:
	rm -rf $(DEB)
	mkdir -p $(DEB)/tree
	tar -c --exclude=./build --exclude=./.git . | tar -x -C $(DEB)/tree
	cd $(DEB)/tree && dpkg-buildpackage -b -us -uc
	rm -rf $(DEB)/tree

check:
	scripts/test

clean:
	rm -rf $(BUILD)

help:
	@echo 'Targets:'
	@echo '  all        build/kiwarp.ko and build/libkiwarp-rdmav*.so (the default)'
	@echo '  module     the kernel module alone'
	@echo '  provider   the rdma-core provider alone'
	@echo '  host       the provider, the host unit tests and the guest test programs'
	@echo '  bench      the module, the provider and the program of scripts/bench'
	@echo '  ktest      build/kiwarp_ktest.ko, the kernel test module (host makes it too)'
	@echo '  kunit      build/kiwarp_kunit.ko, for a KDIR that has KUnit'
	@echo '  install    the module into extra/ of its kernel, the provider beside libibverbs'"'"' own,'
	@echo '             the command kiwarp into /usr'
	@echo '  uninstall  take it away again, but for /etc/rdma/kiwarp.conf'
	@echo '  deb        Debian packages of module, provider and tools, in build/deb'
	@echo '  check      run every test (scripts/test)'
	@echo '  clean      remove build/'
	@echo 'Variables:'
	@echo '  KDIR=DIR     the kernel to build for [$(KDIR)]'
	@echo '  FOR_GUESTS=1 the newest installed 6.12, which guests boot, not the running kernel'
	@echo '  W=1 C=1      as for any kernel module: more warnings, sparse'
	@echo '  ARCH=um      with a KDIR of User-Mode Linux'
	@echo '  DESTDIR=DIR  install into a staging folder'
	@echo '  BUILD_TYPE=  CMake build type of the host parts [$(BUILD_TYPE)]'
