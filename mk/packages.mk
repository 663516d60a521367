# Debian packages, installed when a target needs them.
BUILD_PACKAGES := gcc libc6-dev pkg-config protobuf-c-compiler libprotobuf-c-dev libonnx-dev libigraph-dev libjansson-dev \
                  libxxhash-dev uthash-dev libgraphviz-dev libdnnl-dev libglpk-dev liburing-dev fonts-dejavu-core
TEST_PACKAGES  := libcmocka-dev libonnx-testdata g++ python3-jsonschema libopenmpi-dev openmpi-bin
CHECK_PACKAGES := python3 clang-format
ANALYSE_PACKAGES := cppcheck gcovr clang clang-tidy libomp-14-dev libclang-rt-14-dev valgrind
DEMO_PACKAGES  := dataset-fashion-mnist

# Installs what is missing of the packages, as root or with sudo; otherwise says which line to run.
define install-packages
	@mkdir -p $B
	@missing=$$(for p in $1; do dpkg-query -W -f '$${Status}\n' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	    if [ "$$(id -u)" = 0 ]; then as=; elif sudo -n true 2>/dev/null; then as=sudo; \
	    else echo "memplan needs Debian packages; run: sudo apt-get install -y --no-install-recommends" $$missing >&2; exit 1; fi; \
	    echo "memplan needs Debian packages that are missing; running: $$as apt-get install -y --no-install-recommends" $$missing; \
	    { $$as apt-get update && DEBIAN_FRONTEND=noninteractive $$as apt-get install -y --no-install-recommends $$missing; } \
	        > $B/apt.log 2>&1 || { tail -n 20 $B/apt.log >&2; exit 1; }; \
	fi
	@touch $@
endef
$B/build-packages: mk/packages.mk
	$(call install-packages,$(BUILD_PACKAGES))
$B/test-packages: mk/packages.mk | $B/build-packages
	$(call install-packages,$(TEST_PACKAGES))
$B/check-packages: mk/packages.mk
	$(call install-packages,$(CHECK_PACKAGES))
$B/analyse-packages: mk/packages.mk
	$(call install-packages,$(ANALYSE_PACKAGES))
$B/demo-packages: mk/packages.mk | $B/build-packages
	$(call install-packages,$(DEMO_PACKAGES))
