# Test programs and fuzzing targets.
LINKED_C := $(patsubst %,tests/cuda/test_cuda_%.c,graphs attention attention_graphs products)# with the GPU module
TEST_C   := $(filter-out $(if $(filter 1,$(CUDA)),,$(LINKED_C)),$(wildcard tests/*/test_*.c))
TESTS    := $(addprefix $B/tests/,$(notdir $(TEST_C:.c=)))
FUZZ_C   := $(wildcard tests/fuzz/fuzz_*.c)
FUZZERS  := $(addprefix $B/tests/,$(notdir $(FUZZ_C:.c=)))
# The Python of the short form of the package's tests, which needs PyTorch and pytest.
PYTHON   ?= python3
TEST_LIB := $(patsubst %.c,$B/%.o,$(wildcard tests/cases/*.c tests/oracles/*.c))
NCCL_TWIN := $(addprefix $B/tests/nccl/,libnccl.so.2 mpi_calls.so memplan_cuda.so memplan_nccl.so memplan_mpi.so)

test: all $(TESTS) $(FUZZERS) $B/memplan_mpi.so $(NCCL_TWIN) $B/memplan_cuda_twin.so $B/package/libmemplan.so $(addprefix $B/tests/modules/,faults.so fast_clock.so) | $B/test-packages ## build and pass all tests
	@tests/run.sh $B $(TESTS) $(FUZZERS) $(if $(SAN_FLAGS),,$B/tests/commands)
	@tests/python.sh $(PYTHON) $B/package/libmemplan.so --short

# Programs run beside each other: threads that wait for others must not keep a processor.
test check covered: export OMP_WAIT_POLICY ?= passive

check: | $B/check-packages ## the layout of code and documents; FOLDER=planner/pack: there only
	@$(if $(FOLDER),,python3 -B tests/layout/test_rules.py && python3 -B tests/layout/test_prose.py && python3 -B tests/layout/prose.py && python3 -B tests/docs/tuning.py && python3 -B tests/docs/excerpts.py && python3 -B tests/docs/scorecard.py)
	@$(if $(FOLDER),,$(MAKE) -s $B/gen/onnx.pb-c.h && python3 -B tests/docs/examples.py "$(CC)")
	@python3 -B tests/layout/check.py $(FOLDER)
	@$(if $(FOLDER),,$(MAKE) -s all $B/manual && python3 -B tests/docs/commands.py $B)
	@$(if $(FOLDER),,$(if $(filter 1,$(CUDA)),python3 -B tests/cuda/resources.py $B))
	@$(if $(FOLDER),,$B/manual markdown | diff -u docs/reference/commands.md - || { echo "docs/reference/commands.md is out of date: make docs"; exit 1; })
	@$(if $(FOLDER),,$B/manual schema | diff -u docs/reference/schemas/options.json - || { echo "docs/reference/schemas/options.json is out of date: make docs"; exit 1; })
	@$(if $(FOLDER),,rm -rf $B/installed && $(MAKE) -s install PREFIX=$(abspath $B/installed) DESTDIR= CUDA_ARCHES="$(CUDA_ARCHES)" && tests/docs/installed.sh $(abspath $B/installed) "$(CC)")

fuzz: ## new inputs for every fuzzing target, with clang's libFuzzer and sanitizers: SECONDS=60 each, TARGETS="operators readers"
	@$(MAKE) CC=clang SAN=1 FUZZ=1 CUDA=0 fuzzers
	@tests/fuzz/fuzz.sh build/clang/san/fuzz $(or $(SECONDS),60) $(TARGETS)
fuzzers: $(FUZZERS)

# Test programs share one library, which contains ours and the code that tests share: a program links in a tenth of a second.
# Programs of the pack and of libFuzzer contain both.
ALL_IN_ONE  := $(PACKED)$(FUZZ)
TEST_SHARED  = $(if $(ALL_IN_ONE),$1 $B/libmemplan.a,$B/tests/libmemplan_tests.so)
LINK_TESTED  = $(RPATH) -rdynamic -o $@ $(filter %.o,$^) $(if $(ALL_IN_ONE),$(WHOLE_LIBRARY),$(filter %.so,$^) -Wl,-rpath,'$$ORIGIN') $(DEPS_LIBS) -lcmocka
$B/tests/libmemplan_tests.so: $(TEST_LIB) $(LIB_OBJ)
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -Wl,-soname,libmemplan_tests.so -o $@ $^ $(DEPS_LIBS) -lcmocka
$(TEST_LIB): MP_CFLAGS += $(PIC_FLAGS)
# A test's program lies in $B/tests, whatever folder its source is in.
$(foreach t,$(TEST_C:.c=),$(eval $B/tests/$(notdir $t): $B/$t.o))
$B/tests/test_%: $(call TEST_SHARED,$(TEST_LIB))
	$(call say,LD) $(CC) $(MP_CFLAGS) $(LINK_TESTED) $(TEST_LIBS)
ifeq ($(CUDA),1)
LINKED_TESTS := $(patsubst tests/cuda/%.c,$B/tests/%,$(LINKED_C))
$B/tests/cuda/%.o: MP_CFLAGS += -isystem $(CUDA_HOME)/include
$(LINKED_TESTS): $(CUDA_OBJ)
$(LINKED_TESTS): TEST_LIBS = $(CUDA_LIBS)
endif
# A library that makes NCCL's calls through MPI, a device in the host's memory, a recorder of MPI's calls, and both modules.
$B/tests/nccl/test_nccl_calls.o: MP_CFLAGS += -isystem $(CUDA_HOME)/include $(addprefix -isystem ,$(NCCL_HOME:=/include))
$B/tests/nccl/memplan_cuda.so: tests/nccl/device_twin.c $(addprefix tests/cases/,deferring_backend.c recording_backend.c) \
    $(addprefix tests/cases/,deferring_backend.h recording_backend.h) Makefile mk/tests.mk
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -fPIC -fvisibility=hidden -shared -o $@ $(filter %.c,$^)
$B/tests/nccl/libnccl.so.2: tests/nccl/libnccl.c
$B/tests/nccl/mpi_calls.so: tests/nccl/mpi_calls.c
$B/tests/nccl/libnccl.so.2 $B/tests/nccl/mpi_calls.so: tests/nccl/calls_log.h executor/nccl/nccl_calls.h tests/cases/deferring_backend.h Makefile mk/tests.mk | $B/test-packages
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(filter-out $(SAN_FLAGS),$(MP_CFLAGS)) -fPIC $$(mpicc --showme:compile | sed 's/-I/-isystem /g') -shared -o $@ $(filter %.c,$^) $$(mpicc --showme:link)
$B/tests/nccl/memplan_nccl.so $B/tests/nccl/memplan_mpi.so: $B/tests/nccl/%: $B/%
	@mkdir -p $(@D) && cp $< $@
# It is linked with the command line, and has a module that stands in for the GPU's.
$B/tests/test_options $B/tests/test_progress: $(filter-out $B/cli/main.o,$(CLI_OBJ)) | $B/tests/modules/memplan_cuda.so $B/tests/modules/failing_malloc.so
$B/tests/test_public_memory: | $B/tests/modules/memplan_ranks.so
$B/tests/modules/memplan_cuda.so $B/tests/modules/memplan_ranks.so: $B/tests/modules/memplan_%.so: tests/cli/%_standin.c Makefile mk/tests.mk
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -fPIC -shared -o $@ $<
# They make memory, or calls of the system, fail in whatever program they are loaded into, or its clock go faster.
$B/tests/modules/failing_malloc.so $B/tests/modules/faults.so: $B/tests/modules/%.so: tests/cli/%.c
$B/tests/modules/fast_clock.so: tests/cli/ranks/fast_clock.c
$(addprefix $B/tests/modules/,failing_malloc.so faults.so fast_clock.so): Makefile mk/tests.mk
	@mkdir -p $(@D)
	$(call say,LD) $(CC) -std=c11 -D_DEFAULT_SOURCE $(CFLAGS) $(WARN) -fPIC -shared -o $@ $(filter %.c,$^) -ldl
# A fuzzing target; its own main runs the corpus, libFuzzer's (FUZZ=1) makes new inputs.
FUZZ_OBJ := $(patsubst %.c,$B/%.o,$(filter-out $(FUZZ_C) $(if $(FUZZ),tests/fuzz/replay.c),$(wildcard tests/fuzz/*.c)))
$B/tests/fuzz_%: $B/tests/fuzz/fuzz_%.o $(FUZZ_OBJ) $(call TEST_SHARED,$(filter $B/tests/oracles/%,$(TEST_LIB)))
	$(call say,LD) $(CC) $(MP_CFLAGS) $(if $(FUZZ),-fsanitize=fuzzer) $(LINK_TESTED)
$B/tests/fuzz_readers: $(filter-out $B/cli/main.o,$(CLI_OBJ)) # it reads files of devices, too

# They run others with the twin as their backend.
$B/tests/test_cuda_twin: | $B/memplan_cuda_twin.so $(addprefix $B/tests/test_,unaries binaries choices randoms optimizer pools gradients backends execution recording streams moves gathers samplings sources)
$B/tests/test_cuda_pools $B/tests/test_cuda_channels $B/tests/test_cuda_attention_own: | $B/memplan_cuda_twin.so
$B/tests/test_cuda_rows: | $B/memplan_cuda_twin.so $(addprefix $B/tests/test_,normalizations softmaxes reductions attention attention_masks)
$B/tests/test_cuda_contexts $B/tests/test_cuda_chains $B/tests/test_cuda_packed_attention: | $B/memplan_cuda_twin.so
$B/tests/test_cuda_operators: | $B/memplan_cuda_twin.so $(addprefix $B/tests/test_,products recurrents)
# It calls kernels that no operator's own kernel is made of.
$B/tests/test_cuda_attention_operands: $B/executor/operators/attention/attention_operands_cuda.twin.o
$(patsubst %.c,$B/%.o,$(TEST_C)) $(TEST_LIB): | $B/test-packages
$(TEST_LIB): mk/tests.mk

.PHONY: test check fuzz fuzzers
