# Analysers, sanitizers of threads, valgrind and coverage.
# Under the sanitizer of threads: searches and proofs beside each other, batches made ahead, copies, kernels.
THREAD_TESTS   := proof planning prefetch execution tiers copies_run $(patsubst tests/kernels/test_%.c,%,$(wildcard tests/kernels/*.c))
# Under valgrind: tests of every room that take seconds.
VALGRIND_TESTS := graph model ops timeline shapes visible_text dag floor mincut plan_json file safetensors onnx onnx_hostile graph_dot feed

analyse: tidy | $B/analyse-packages ## clang-tidy, cppcheck and gcc's -fanalyzer over all code: not a word
	@cppcheck -q -j$$(nproc) --enable=warning,portability,performance --std=c11 --error-exitcode=1 --inline-suppr -I. -Iinclude \
	    --suppress=missingIncludeSystem --suppressions-list=tests/analysis/cppcheck.txt cli estimator planner formats executor examples tests
	@$(MAKE) CUDA=0 CFLAGS="-O1 -g $$(grep -v '^#' tests/analysis/analyzer.txt)" B=$B/analyzer $B/analyzer/memplan

tidy: $B/gen/onnx.pb-c.h | $B/analyse-packages ## clang-tidy alone, by .clang-tidy, over code that needs no CUDA
	@printf '%s\n' $(filter-out executor/cuda/device/% executor/cuda/vendor/%,$(wildcard $(patsubst %,%/*.c,cli cli/* $(LIBRARY_FOLDERS) executor/cuda executor/cuda/*))) | \
	    xargs -P "$$(nproc)" -n 8 sh -c 'clang-tidy -quiet "$$@" -- $(filter-out -fopenmp -DMEMPLAN_VERSION%,$(MP_CFLAGS)) -DMEMPLAN_VERSION=\"$(VERSION)\" $(DEPS_CFLAGS) 2> /dev/null' tidy

threads: ## tests with threads, under clang's thread sanitizer
	@$(MAKE) TSAN=1 CUDA=0 B=build/clang/tsan thread-tests
thread-tests: $B/memplan $(addprefix $B/tests/test_,$(THREAD_TESTS)) | $B/analyse-packages
	@tests/analysis/under.sh threads $B $(addprefix $B/tests/test_,$(THREAD_TESTS))

valgrind: $B/memplan $(addprefix $B/tests/test_,$(VALGRIND_TESTS)) | $B/analyse-packages ## small tests and commands under memcheck
	@tests/analysis/under.sh valgrind $B $(addprefix $B/tests/test_,$(VALGRIND_TESTS))

check-all: $B/memplan $B/tests/modules/faults.so | $B/analyse-packages ## all that takes too long for make test, each with its result: NAMES="threads valgrind" for these
	@MAKEFLAGS= MAKEOVERRIDES= tests/analysis/check_all.sh $B $(NAMES)

coverage: | $B/analyse-packages ## lines that the tests run, room by room (a build of its own); fails below 90 %
	@$(MAKE) CUDA=0 CFLAGS="-O1 -g --coverage" B=build/coverage covered; passed=$$?; tests/analysis/coverage.sh build/coverage && exit $$passed
COVERING := $(filter-out $B/tests/test_cuda_%,$(TESTS)) $(FUZZERS)
covered: all $(COVERING) $(addprefix $B/tests/modules/,faults.so fast_clock.so) | $B/test-packages
	@find $B -name '*.gcda' -delete
	@OMP_NUM_THREADS=1 tests/run.sh $B $(COVERING) # threads would spoil each other's counters

.PHONY: analyse tidy threads thread-tests valgrind check-all coverage covered
