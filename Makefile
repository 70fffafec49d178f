# SPDX-License-Identifier: MIT
# Everything is built by CMake; this file installs what is missing and gives short names.
#
#   make                build/ttq, build/libttq.so, build/python
#   make demo           record a crash of a real program, and find its cause
#   make test           everything that can fail
#   make test-quick     unit, golden and style tests alone, of what is built already
#   make test-sanitize  unit and golden tests with ASan and UBSan (a build of its own)
#   make test-debug     all tests of a Debug build: -O0, assertions of the standard library
#   make test-clang     all tests of a build by clang
#   make test-tsan      the C API's tests with ThreadSanitizer (a build of its own)
#   make tidy           clang-tidy on the files that a branch changed
#   make fuzz           every fuzz target for FUZZ_SECONDS (600)
#   make bench          the figures of docs/performance.md
#   make install        into PREFIX (default /usr/local), below DESTDIR if that is set
#   make uninstall      what the last `make install` from BUILD put there
#   make wheel          a wheel for pip, in BUILD: the package, the command, the recorder and their libraries
#   make deb            a Debian package, in BUILD
#   make clean
#
# Each installs the Debian packages it needs first (packages.txt); SETUP=: leaves that out.

BUILD ?= build
PREFIX ?= /usr/local
# One compiler per core, but no more than fit in memory (1.5 GB each).
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ { fit = int($$2 / 1500000); \
    print fit < 1 ? 1 : fit < cores ? fit : cores }' /proc/meminfo)
SETUP ?= tools/setup
# Without this sloppiness ccache passes every file with a precompiled header on to the compiler.
CCACHE = env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache
CMAKE_FLAGS ?= $(if $(shell command -v ccache),"-DCMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE)")

# A new build compiles eight files as one, in 0.6 of the time. For work on the code, where a file
# is compiled again and again: `make UNITY=`.
UNITY ?= -DCMAKE_UNITY_BUILD=ON
NEW_UNITY = $(if $(wildcard $(BUILD)/build.ninja),,$(UNITY))

FUZZ_SECONDS ?= 600
# Those that `make test` builds, for a few seconds each: the others need all of the query engine.
QUICK_FUZZ = parse_fuzz digest_fuzz records_fuzz ring_fuzz core_fuzz

.PHONY: all configure demo test test-quick test-sanitize test-debug test-clang test-tsan tidy \
    configure-fuzz fuzz bench install uninstall wheel deb clean
# Two apt-get at once would get in each other's way; ninja and ctest use all cores by themselves.
.NOTPARALLEL:

all: setup-build
	@$(MAKE) --no-print-directory configure
	ninja -C $(BUILD) -j $(JOBS) ttq ttq_tool ttq_capi ttq_python ttq_manual

setup-%:
	@$(SETUP) $*

configure:
	@test -f $(BUILD)/build.ninja || cmake -S . -B $(BUILD) -G Ninja -DTTQ_TESTS=OFF $(NEW_UNITY) $(CMAKE_FLAGS)

demo: setup-demo all
	@examples/corrupted-object/demo $(BUILD)/ttq

# The tests are part of the tree once their packages are there.
test: setup-test
	@cmake -S . -B $(BUILD) -G Ninja -DTTQ_TESTS=ON $(NEW_UNITY) $(CMAKE_FLAGS)
	ninja -C $(BUILD) -j $(JOBS)
	@$(MAKE) --no-print-directory configure-fuzz
	ninja -C $(BUILD)/fuzz -j $(JOBS) $(QUICK_FUZZ)
	ctest --test-dir $(BUILD)/fuzz --output-on-failure -R '$(subst $(eval ) ,|,$(QUICK_FUZZ))'
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

# What one edits by: a minute or two where a build is there.
test-quick: setup-test
	@cmake -S . -B $(BUILD) -G Ninja -DTTQ_TESTS=ON $(NEW_UNITY) $(CMAKE_FLAGS)
	ninja -C $(BUILD) -j $(JOBS) quick_tests
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L 'unit|golden|style'

test-sanitize: setup-test
	@cmake -S . -B $(BUILD)/asan -G Ninja -DTTQ_TESTS=ON -DTTQ_SANITIZE=ON $(UNITY) $(CMAKE_FLAGS)
	ninja -C $(BUILD)/asan -j $(JOBS) quick_tests
	ctest --test-dir $(BUILD)/asan --output-on-failure -j $(JOBS) -L 'unit|golden'

test-debug: setup-test
	@cmake -S . -B $(BUILD)/debug -G Ninja -DTTQ_TESTS=ON -DCMAKE_BUILD_TYPE=Debug \
	    -DCMAKE_CXX_FLAGS_DEBUG='-O0 -g1 -D_GLIBCXX_ASSERTIONS' $(CMAKE_FLAGS)
	ninja -C $(BUILD)/debug -j $(JOBS)
	ctest --test-dir $(BUILD)/debug --output-on-failure -j $(JOBS)

test-clang: setup-test
	@CC=clang-14 CXX=clang++-14 cmake -S . -B $(BUILD)/clang -G Ninja -DTTQ_TESTS=ON $(CMAKE_FLAGS)
	ninja -C $(BUILD)/clang -j $(JOBS)
	ctest --test-dir $(BUILD)/clang --output-on-failure -j $(JOBS)

test-tsan: setup-test all
	@cmake -S . -B $(BUILD)/tsan -G Ninja -DTTQ_TESTS=ON -DTTQ_SANITIZE=thread $(CMAKE_FLAGS)
	ninja -C $(BUILD)/tsan -j $(JOBS) capi_test threads_test record_text tour
	tests/capi/run_with_tsan $(BUILD)/tsan $(BUILD)/ttq

# tools/tidy --all checks the whole tree.
tidy: setup-develop all
	@tools/tidy --build $(BUILD) --jobs $(JOBS)

configure-fuzz:
	@test -f $(BUILD)/fuzz/build.ninja || CC=clang-14 CXX=clang++-14 cmake -S . -B $(BUILD)/fuzz -G Ninja \
	    -DTTQ_TESTS=ON -DTTQ_FUZZ=ON -DTTQ_SANITIZE=ON $(CMAKE_FLAGS)

fuzz: setup-test configure-fuzz
	ninja -C $(BUILD)/fuzz -j $(JOBS)
	@for target in $(BUILD)/fuzz/tests/fuzz/*_fuzz; do echo $$target; \
	  $$target -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -print_final_stats=1 || exit 1; done

bench: setup-bench all
	@tests/bench/run $(BUILD)/ttq

# The linker finds libttq where ldconfig has looked since; into DESTDIR that is the package's matter.
install: all
	cmake --install $(BUILD) --prefix $(abspath $(PREFIX))
	@if [ -z "$(DESTDIR)" ] && ! { [ "$$(id -u)" = 0 ] && ldconfig; } 2> /dev/null; then \
	  echo "make install: programs that link with libttq need LD_LIBRARY_PATH=$(abspath $(PREFIX))/lib," \
	    "or ldconfig run by root"; fi

wheel: setup-package all
	@tools/make_wheel $(BUILD) $(BUILD)

deb: setup-package all
	@tools/make_deb $(BUILD) $(BUILD)

# CMake lists what it installed, without DESTDIR. Folders of our own go when they are empty.
uninstall:
	@test -f $(BUILD)/install_manifest.txt || \
	  { echo "make uninstall: nothing was installed from $(BUILD)" >&2; exit 1; }
	@sed -e '$$a\' $(BUILD)/install_manifest.txt | \
	  while read -r file; do rm -f "$(DESTDIR)$$file" || exit 1; \
	    folder=$${file%/*}; \
	    while case $$folder in */ttq | */ttq/*) rmdir "$(DESTDIR)$$folder" 2> /dev/null;; *) false;; esac; \
	    do folder=$${folder%/*}; done; done
	@rm $(BUILD)/install_manifest.txt

clean:
	rm -rf $(BUILD)
