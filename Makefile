# memplan - make demo: the main job on a real model; make test: build and pass all tests; make help: the rest.
# SAN=1 builds with sanitizers, TSAN=1 with clang's of threads, CC=clang with clang, CUDA=0|1 without or with the GPU module, MPI=0|1
# without or with that of many ranks, PARQUET=0|1 without or with that of columnar files (found by themselves; PYARROW=FOLDER: the wheel's
# package of that name, if Arrow is not installed), each in a folder of its own. V=1 shows the commands.
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
.DEFAULT_GOAL := all

VERSION := 0.1.0
PREFIX  ?= /usr/local
CC       = $(if $(filter 1,$(TSAN)),clang,gcc)
CXX      = $(if $(findstring clang,$(CC)),clang++,g++)
CUDA    ?= $(if $(shell command -v nvcc 2>/dev/null),1,0)
MPI     ?= $(if $(shell command -v mpicc 2>/dev/null),1,0)
B       := build$(if $(filter-out gcc cc,$(CC)),/$(notdir $(CC)))$(if $(filter 1,$(SAN)),/san)$(if $(filter 1,$(TSAN)),/tsan)$(if $(FUZZ),/fuzz)
# Arrow's C++ library: the system's, or that of a wheel.
PYARROW ?= $(firstword $(wildcard $B/venv/lib/python3*/site-packages/pyarrow build/venv/lib/python3*/site-packages/pyarrow))
PARQUET ?= $(if $(shell pkg-config --exists parquet 2>/dev/null && echo 1)$(wildcard $(PYARROW)/include/parquet/arrow/reader.h),1,0)
# Every folder of the library; the GPU module is built apart, of executor/cuda and the operators' files that end in _cuda. Its
# twin on the host shares the kernels: all except those that need a device or NVIDIA's libraries.
LIBRARY_FOLDERS := $(shell find estimator planner formats executor -type d -not -path 'executor/cuda*' -not -path 'executor/mpi' -not -path 'executor/nccl' | sort)
CUDA_FOLDERS    := $(shell find executor/cuda executor/operators -type d | sort)
CUDA_SOURCES    := $(wildcard executor/cuda/*.c executor/cuda/*/*.c executor/operators/*/*_cuda.c)
TWIN_C          := $(wildcard tests/cuda/twin/*.c) $(filter executor/operators/%,$(CUDA_SOURCES))

# Debian packages, and their options for compiler and linker. Only recipes evaluate these options, after the installation.
BUILD_PACKAGES := gcc libc6-dev pkg-config protobuf-c-compiler libprotobuf-c-dev libonnx-dev libigraph-dev libjansson-dev \
                  libxxhash-dev uthash-dev libgraphviz-dev libdnnl-dev libglpk-dev liburing-dev fonts-dejavu-core
TEST_PACKAGES  := libcmocka-dev libonnx-testdata g++ python3-jsonschema libopenmpi-dev openmpi-bin
CHECK_PACKAGES := python3 clang-format
ANALYSE_PACKAGES := cppcheck gcovr clang clang-tidy libomp-14-dev libclang-rt-14-dev valgrind
DEMO_PACKAGES  := dataset-fashion-mnist
PKGS := igraph jansson libprotobuf-c libxxhash libgvc libcgraph liburing
once  = $(eval $1 := $2)$($1)
DEPS_CFLAGS = $(call once,DEPS_CFLAGS,$(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS))))
DEPS_LIBS   = $(call once,DEPS_LIBS,$(shell pkg-config --libs $(PKGS)) -ldnnl -lglpk -lpthread -lm)
# Builds with clang serve its warnings and sanitizers, and use one thread. Only the thread sanitizer needs clang's OpenMP.
OPENMP      = $(if $(findstring clang,$(CC)),$(if $(filter 1,$(TSAN)),-fopenmp),-fopenmp)
OPENMP_LIBS = $(if $(findstring clang,$(CC)),,-lgomp)
ONNX_FOLDER := /usr/include/onnx

# The GPU module: machine code for each architecture x.0 (and 7.5) that nvcc knows, which x.1 and later run too, and PTX for those
# to come.
CUDA_HOME   ?= $(if $(wildcard /usr/local/cuda/include/cuda_runtime.h),/usr/local/cuda,$(patsubst %/bin/nvcc,%,$(shell command -v nvcc)))
NVCC        := $(firstword $(shell command -v nvcc) $(CUDA_HOME)/bin/nvcc)
CUDA_ARCHES ?= $(shell $(NVCC) --list-gpu-code | sed -n 's/^sm_\([0-9]*[05]\)$$/\1/p' | sort -n)
CUDA_GEN     = $(foreach a,$(CUDA_ARCHES),-gencode arch=compute_$a$(comma)code=sm_$a) -gencode arch=compute_$(lastword $(CUDA_ARCHES))$(comma)code=compute_$(lastword $(CUDA_ARCHES))
CUDA_LIBS    = -L$(CUDA_HOME)/lib64 -lcudnn -lcublasLt -lcudart_static -lrt -lpthread -ldl -l:libstdc++.a -static-libgcc -lm

# The folder of external graphs, models and figures (docs/internals/data.md). Without them benches end and tests are skipped.
export DATA

# The pack for a machine with a GPU is built for one architecture; its programs find libraries in the lib beside them.
GPU_ARCH  ?= 90
GPU_TESTS := $(addprefix $B/tests/test_,$(file < tests/gpu/tests.txt))
RPATH      = $(if $(PACKED),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN/lib:$$ORIGIN/../lib')

comma  := ,
WHOLE_LIBRARY = -Wl,--whole-archive $B/libmemplan.a -Wl,--no-whole-archive
say     = $(if $(V),,@echo '  $1  $@' &&)
WARN   := -Wall -Wextra -Werror
CFLAGS ?= -O2 -g
# Clang also counts NULL + 0, which is an empty block.
SAN_FLAGS := $(strip $(if $(filter 1,$(SAN)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer $(if $(findstring clang,$(CC)),-fno-sanitize=pointer-overflow)) $(if $(filter 1,$(TSAN)),-fsanitize=thread) $(if $(FUZZ),-fsanitize=fuzzer-no-link) $(if $(filter 1,$(SAN) $(TSAN))$(FUZZ),-DMP_DEBUG))
MP_CFLAGS := -std=c11 -D_DEFAULT_SOURCE -DMEMPLAN_VERSION='"$(VERSION)"' $(CFLAGS) $(WARN) $(SAN_FLAGS) $(OPENMP) -I. -Iinclude -isystem $B/gen
# One set of objects for the archive and the shared library.
PIC_FLAGS := -fPIC -fno-semantic-interposition

LIB_OBJ  := $(patsubst %.c,$B/%.o,$(filter-out $(CUDA_SOURCES),$(wildcard $(addsuffix /*.c,$(LIBRARY_FOLDERS))))) $B/gen/onnx.pb-c.o
CLI_OBJ  := $(patsubst %.c,$B/%.o,$(filter-out cli/manual.c,$(wildcard cli/*.c cli/*/*.c)))
LINKED_C := $(patsubst %,tests/cuda/test_cuda_%.c,graphs attention attention_graphs products)# with the GPU module
TEST_C   := $(filter-out $(if $(filter 1,$(CUDA)),,$(LINKED_C)),$(wildcard tests/*/test_*.c))
# Under the sanitizer of threads: searches and proofs beside each other, batches made ahead, copies, kernels.
THREAD_TESTS   := proof planning prefetch execution tiers copies_run $(patsubst tests/kernels/test_%.c,%,$(wildcard tests/kernels/*.c))
# Under valgrind: tests of every room that take seconds.
VALGRIND_TESTS := graph model ops timeline shapes visible_text dag floor mincut plan_json file safetensors onnx onnx_hostile graph_dot feed
TESTS    := $(addprefix $B/tests/,$(notdir $(TEST_C:.c=)))
FUZZ_C   := $(wildcard tests/fuzz/fuzz_*.c)
FUZZERS  := $(addprefix $B/tests/,$(notdir $(FUZZ_C:.c=)))
TEST_LIB := $(patsubst %.c,$B/%.o,$(wildcard tests/cases/*.c tests/oracles/*.c))
CUDA_CU  := $(wildcard $(addsuffix /*.cu,$(CUDA_FOLDERS)))
CUDA_OBJ := $(patsubst %.c,$B/%.o,$(CUDA_SOURCES)) $(patsubst %.cu,$B/%.cu.o,$(CUDA_CU))
TWIN_OBJ := $(addprefix $B/,$(TWIN_C:.c=.o)) $(patsubst %.cu,$B/%.twin.o,$(CUDA_CU))
LAUNCHES := $(patsubst %.cu,$B/%.launches.o,$(CUDA_CU)) $(filter-out $B/tests/%,$(TWIN_C:%.c=$B/%.o)) \
            $(patsubst %.c,$B/%.o,executor/cuda/layouts.c executor/cuda/device/current.c executor/cuda/device/errors.c \
            $(wildcard executor/cuda/vendor/*.c tests/launches/*.c))
MODULES  := $(strip $(if $(filter 1,$(CUDA)),$B/memplan_cuda.so) $(if $(filter 1,$(MPI)),$B/memplan_mpi.so $(if $(filter 1,$(CUDA)),$B/memplan_nccl.so)) $(if $(filter 1,$(PARQUET)),$B/memplan_parquet.so))
NCCL_TWIN := $(addprefix $B/tests/nccl/,libnccl.so.2 mpi_calls.so memplan_cuda.so memplan_nccl.so memplan_mpi.so)
EXAMPLES := $(patsubst examples/%.c,$B/examples/%,$(wildcard examples/*.c))

all: $B/memplan $B/libmemplan.so $(MODULES) $(EXAMPLES) ## build the program, the library and the examples
	@echo "built $B/memplan ($(CC)$(if $(SAN_FLAGS),$(comma) sanitizers), CUDA=$(CUDA))"

ifeq ($(MAKECMDGOALS),demo)
MAKEFLAGS += -j$(shell nproc)
endif
demo: $B/memplan ## the main job on a real model, within a minute
	@examples/demo.sh $B/memplan $B/demo
demo-training: $B/memplan | $B/demo-packages ## whole trainings within a budget, some minutes
	@examples/demo_training.sh $B/memplan $B/demo
deb: $B/memplan $B/libmemplan.so ## a Debian package in build/, for the system that it is built on
	@packaging/deb.sh $B $(VERSION) "$(MAKE)"

test: all $(TESTS) $(FUZZERS) $B/memplan_mpi.so $(NCCL_TWIN) $B/memplan_cuda_twin.so $B/package/libmemplan.so $(addprefix $B/tests/modules/,faults.so fast_clock.so) | $B/test-packages ## build and pass all tests
	@tests/run.sh $B $(TESTS) $(FUZZERS)
	@tests/python.sh python3 $B/package/libmemplan.so
	@$(if $(SAN_FLAGS),,python3 -B tests/docs/commands.py $B --run)

test-python: $B/package/libmemplan.so | $B/venv/bin/python3 ## the tests of the PyTorch package, with a PyTorch installed into build/venv (TORCH=torch==2.4.1)
	@$B/venv/bin/pip install -q $(or $(TORCH),torch) numpy pytest transformers accelerate peft lightning nbclient ipykernel
	@tests/python.sh $B/venv/bin/python3 $B/package/libmemplan.so

bench-python: $B/libmemplan.so | $B/venv/bin/python3 ## the tables of docs/reference/python.md, with PyTorch and networks of libraries in build/venv (BENCH=rivals)
	@$B/venv/bin/pip install -q $(or $(TORCH),torch) numpy torchvision transformers timm diffusers accelerate peft
	@for b in $(or $(BENCH),small zoo strangers guards rivals start train_step); do MEMPLAN_CACHE=off MEMPLAN_LIBRARY=$(abspath $B)/libmemplan.so \
	  PYTHONPATH=python/src:python/tests OMP_NUM_THREADS=1 $B/venv/bin/python3 -B python/bench/bench_$$b.py $(NETWORKS) || exit 1; done

wheel: $B/package/libmemplan.so $B/package/memplan | $B/venv/bin/python3 ## package and program as a wheel that needs nothing of the system but Python: python/dist/memplan-*.whl
	@rm -f python/dist/*.whl
	@$B/venv/bin/pip wheel -q --no-deps -w python/dist ./python
	@$B/venv/bin/pip install -q auditwheel
	@tests/wheel.sh $B/venv/bin/python3 python/dist/*.whl

bench: needs-data $B/memplan ## some rows of every table of BENCHMARKS.md beside the last recorded run, in two minutes (DATA=FOLDER)
	@tests/bench/bench_short.py $B/memplan $(DATA)
bench-all: needs-data $B/memplan $B/tests/bench_updates ## compare with published programs and figures, and with PyTorch (DATA=FOLDER)
	@tests/bench/bench_planner.sh $B/memplan $(DATA)/bench/graphs
	@tests/bench/bench_search.py $B/memplan $(DATA)
	@tests/bench/bench_ablation.py $B/memplan $(DATA)
	@tests/bench/bench_spread.py $B/memplan $(DATA)
	@tests/bench/bench_offload.py $B/memplan $(DATA)
	@tests/bench/bench_published.py $B/memplan $(DATA)
	@tests/bench/bench_formulas.py $B/memplan $(DATA)
	@tests/bench/bench_times.py $B/memplan $(DATA)
	@tests/bench/bench_arena.sh $B/memplan $(DATA)/models
	@tests/bench/bench_pack.sh $B/memplan $(DATA)/bench/minimalloc
	@tests/bench/bench_training.sh $B $(DATA)/models

bench-ranks: needs-data all ## as root: two ranks on a slow network, sums beside backward and after it; and beside PyTorch's DDP over gloo (DATA=FOLDER)
	@tests/bench/bench_overlap.py $B/memplan $(DATA)/models
	@$B/venv/bin/python3 -B tests/bench/bench_ranks.py $B/memplan $(DATA)/models

needs-data:
	@[ -n "$(DATA)" ] || { echo "Give DATA=FOLDER: bench/graphs there is converted from github.com/pfnet-research/recompute and \
	github.com/haoming-codes/moccasin by tests/bench/convert_graphs.py, bench/minimalloc copied from github.com/google/minimalloc, models \
	exported from PyTorch by tests/bench/export_models.py (docs/internals/data.md)." >&2; exit 2; }

fuzz: ## new inputs for every fuzzing target, with clang's libFuzzer and sanitizers: SECONDS=60 each, TARGETS="operators readers"
	@$(MAKE) CC=clang SAN=1 FUZZ=1 CUDA=0 fuzzers
	@tests/fuzz/fuzz.sh build/clang/san/fuzz $(or $(SECONDS),60) $(TARGETS)
fuzzers: $(FUZZERS)

test-gpu: $B/memplan $(MODULES) $(GPU_TESTS) ## tests that need an NVIDIA GPU: kernels, whole steps, compute-sanitizer
	@BUILD=$B tests/gpu/run.sh smoke kernels training algorithms sanitizer

bench-gpu: $B/memplan $(MODULES) $B/tests/bench_updates ## steps and memory on a GPU against PyTorch's (DATA=FOLDER)
	@BUILD=$B tests/gpu/run.sh bench-ours bench-eager bench-compile memory

gpu-pack: ## both as one archive for a machine that has a GPU and no compiler: build/gpu/memplan-gpu.tar.xz (GPU_ARCH=90, DATA=FOLDER)
	@$(MAKE) CUDA=1 CUDA_ARCHES=$(GPU_ARCH) PACKED=1 B=$B/gpu gpu-programs
	@tests/gpu/pack.sh $B/gpu $(or $(MODELS),$(DATA)/models)

gpu-rehearsal: ## as root: that archive in a clean Debian without a GPU, section by section
	@tests/gpu/rehearse.sh $B/gpu/memplan-gpu.tar.xz $(or $(TMPDIR),/tmp)/memplan-rehearsal

launches: needs-data $B/memplan $B/tests/launches/memplan_cuda.so ## count the launches of a step on a GPU, without one (needs CUDA; DATA=FOLDER)
	@LD_LIBRARY_PATH=$(CUDA_HOME)/lib64 python3 -B tests/launches/launches.py $B $(DATA)/models --launches
	@LD_LIBRARY_PATH=$(CUDA_HOME)/lib64 python3 -B tests/launches/launches.py $B $(DATA)/models resnet50:128

verify: needs-data $B/memplan $B/tests/test_check $B/tests/test_plan_json ## our plans and verdicts against an outside verifier (DATA=FOLDER)
	@tests/verify/check_plans.sh $B $(DATA)/tools/check_plan.py
	@tests/verify/verify_plans.sh $B/memplan $(DATA)

check: | $B/check-packages ## the layout of code and documents; FOLDER=planner/pack: there only
	@$(if $(FOLDER),,python3 -B tests/layout/test_rules.py && python3 -B tests/layout/test_prose.py && python3 -B tests/layout/prose.py && python3 -B tests/docs/tuning.py && python3 -B tests/docs/excerpts.py && python3 -B tests/docs/scorecard.py)
	@$(if $(FOLDER),,$(MAKE) -s $B/gen/onnx.pb-c.h && python3 -B tests/docs/examples.py "$(CC)")
	@python3 -B tests/layout/check.py $(FOLDER)
	@$(if $(FOLDER),,$(MAKE) -s all $B/manual && python3 -B tests/docs/commands.py $B)
	@$(if $(FOLDER),,$(if $(filter 1,$(CUDA)),python3 -B tests/cuda/resources.py $B))
	@$(if $(FOLDER),,$B/manual markdown | diff -u docs/reference/commands.md - || { echo "docs/reference/commands.md is out of date: make docs"; exit 1; })
	@$(if $(FOLDER),,$B/manual schema | diff -u docs/reference/schemas/options.json - || { echo "docs/reference/schemas/options.json is out of date: make docs"; exit 1; })
	@$(if $(FOLDER),,rm -rf $B/installed && $(MAKE) -s install PREFIX=$(abspath $B/installed) DESTDIR= && tests/docs/installed.sh $(abspath $B/installed) "$(CC)")

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

resources: $(MODULES) ## registers, stack and spills of the GPU's kernels, as ptxas says
	@python3 -B tests/cuda/resources.py $B --table

format: ## lay the code out with clang-format
	find cli include estimator planner formats executor examples tests -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | xargs clang-format -i

docs: $B/manual ## write the generated pages anew: commands.md, schemas/options.json, tuning.md, scorecard.md
	$B/manual markdown > docs/reference/commands.md
	$B/manual schema > docs/reference/schemas/options.json
	python3 -B tests/docs/tuning.py write
	python3 -B tests/docs/scorecard.py write

docs-site: | $B/venv/bin/python3 ## the pages as a web site with search in build/site (Sphinx, MyST and Furo in build/venv); a broken link is an error
	@$B/venv/bin/pip install -q sphinx myst-parser furo
	@$B/venv/bin/sphinx-build -q -E -W --keep-going -b html -c packaging/site -d $B/site-cache . $B/site
	@echo "site: open $B/site/index.html"

install: $B/memplan $B/libmemplan.so $B/manual $(MODULES) ## program, library, headers, completion, manual and a pkg-config file under PREFIX
	install -D -m 755 $B/memplan $(DESTDIR)$(PREFIX)/bin/memplan
	install -D -m 644 $B/libmemplan.a $(DESTDIR)$(PREFIX)/lib/libmemplan.a
	install -D -m 755 $B/libmemplan.so $(DESTDIR)$(PREFIX)/lib/libmemplan.so
	install -D -m 644 cli/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/memplan
	install -D -m 644 cli/completion.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_memplan
	install -D -m 644 cli/completion.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/memplan.fish
	$(if $(MODULES),install -D -m 755 $(MODULES) -t $(DESTDIR)$(PREFIX)/lib/memplan)
	install -D -m 644 include/memplan/*.h -t $(DESTDIR)$(PREFIX)/include/memplan
	$(foreach f,pictures ranks,install -D -m 644 include/memplan/$f/*.h -t $(DESTDIR)$(PREFIX)/include/memplan/$f &&) true
	$(foreach f,tutorials guides reference internals,install -D -m 644 docs/$f/*.md -t $(DESTDIR)$(PREFIX)/share/doc/memplan/$f &&) install -D -m 644 docs/README.md -t $(DESTDIR)$(PREFIX)/share/doc/memplan
	install -D -m 644 docs/reference/schemas/*.json -t $(DESTDIR)$(PREFIX)/share/memplan/schemas
	ln -sfn ../../memplan/schemas $(DESTDIR)$(PREFIX)/share/doc/memplan/schemas
	mkdir -p $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/share/man/man1
	$B/manual man > $(DESTDIR)$(PREFIX)/share/man/man1/memplan.1
	for c in $$($B/manual names); do $B/manual man $$c > $(DESTDIR)$(PREFIX)/share/man/man1/memplan-$$c.1 || exit 1; done
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBS@|$(DEPS_LIBS) $(OPENMP_LIBS)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@RPATH@|$(if $(filter /usr,$(PREFIX)),,-Wl,-rpath,$${libdir} )|' memplan.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/memplan.pc

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

$B/venv/bin/python3:
	@python3 -m venv $B/venv || { rm -rf $B/venv; exit 1; }

# Modules use the library from the program that loads them.
$B/memplan: $(CLI_OBJ) $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -rdynamic -o $@ $(CLI_OBJ) $(WHOLE_LIBRARY) $(DEPS_LIBS)
$B/manual: $B/cli/manual.o $(filter-out $B/cli/main.o,$(CLI_OBJ)) $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) -o $@ $^ $(DEPS_LIBS)
$B/libmemplan.a: $(LIB_OBJ)
	$(call say,AR) rm -f $@ && ar rcsP $@ $^
# It exports every name that begins with mp_, because modules use the library too. The public names are in include/memplan.
$B/libmemplan.so: $(LIB_OBJ)
	@echo '{ global: mp_*; local: *; };' > $B/libmemplan.map
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -Wl,-soname,libmemplan.so -Wl,--version-script=$B/libmemplan.map \
	    $(if $(SAN_FLAGS),,-Wl$(comma)-z$(comma)defs) -o $@ $^ $(DEPS_LIBS)
# For the wheel: a library with only the functions that the Python package calls, without executor and ONNX; and the program. Both
# are linked with the called functions of igraph only, without the libraries that the rest of igraph needs.
PACKAGE_LIBS = $(patsubst -ligraph,-l:libigraph.a,$(DEPS_LIBS))
$B/package/libmemplan.so: $B/packaging/igraph_streams.o $B/libmemplan.a python/src/memplan/library/calls.py
	@mkdir -p $(@D)
	@{ echo '{ global:'; sed -n 's/^    "\(mp_[a-z_]*\)": (.*/\1;/p' $(lastword $^); echo 'local: *; };'; } > $(@D)/calls.map
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -Wl,-soname,libmemplan.so -Wl,--version-script=$(@D)/calls.map -Wl,--gc-sections \
	    -Wl,--wrap=stdout,--wrap=stderr $(if $(SAN_FLAGS),,-Wl$(comma)-z$(comma)defs) $$(sed -n 's/^\(mp_.*\);/-Wl,-u,\1/p' $(@D)/calls.map) \
	    -o $@ $(filter %.o %.a,$^) -Wl,--as-needed $(PACKAGE_LIBS)
$B/package/memplan: $(CLI_OBJ) $B/libmemplan.a
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -rdynamic -Wl,--gc-sections -o $@ $(CLI_OBJ) $(WHOLE_LIBRARY) -Wl,--as-needed $(PACKAGE_LIBS)
$B/packaging/%.o: MP_CFLAGS += $(PIC_FLAGS)
$(LIB_OBJ): MP_CFLAGS += $(PIC_FLAGS)
gpu-programs: $B/memplan $(filter-out %_parquet.so,$(MODULES)) $(GPU_TESTS) $B/tests/bench_updates
# A test's program lies in $B/tests, whatever folder its source is in.
$(foreach t,$(TEST_C:.c=),$(eval $B/tests/$(notdir $t): $B/$t.o))
$B/tests/test_%: $(TEST_LIB) $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -rdynamic -o $@ $(filter %.o,$^) $(WHOLE_LIBRARY) $(DEPS_LIBS) -lcmocka $(TEST_LIBS)
$B/tests/test_copies_oracle: TEST_LIBS = -Wl,--wrap=mp_clock_now
ifeq ($(CUDA),1)
LINKED_TESTS := $(patsubst tests/cuda/%.c,$B/tests/%,$(LINKED_C))
$B/tests/cuda/%.o: MP_CFLAGS += -isystem $(CUDA_HOME)/include
$(LINKED_TESTS): $(CUDA_OBJ)
$(LINKED_TESTS): TEST_LIBS = $(CUDA_LIBS)
endif
# A library that makes NCCL's calls through MPI, a device in the host's memory, a recorder of MPI's calls, and both modules.
$B/tests/nccl/test_nccl_calls.o: MP_CFLAGS += -isystem $(CUDA_HOME)/include $(addprefix -isystem ,$(NCCL_HOME:=/include))
$B/tests/nccl/memplan_cuda.so: tests/nccl/device_twin.c $(addprefix tests/cases/,deferring_backend.c recording_backend.c) \
    $(addprefix tests/cases/,deferring_backend.h recording_backend.h) Makefile
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -fPIC -fvisibility=hidden -shared -o $@ $(filter %.c,$^)
$B/tests/nccl/libnccl.so.2: tests/nccl/libnccl.c
$B/tests/nccl/mpi_calls.so: tests/nccl/mpi_calls.c
$B/tests/nccl/libnccl.so.2 $B/tests/nccl/mpi_calls.so: tests/nccl/calls_log.h executor/nccl/nccl_calls.h tests/cases/deferring_backend.h Makefile | $B/test-packages
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(filter-out $(SAN_FLAGS),$(MP_CFLAGS)) -fPIC $$(mpicc --showme:compile | sed 's/-I/-isystem /g') -shared -o $@ $(filter %.c,$^) $$(mpicc --showme:link)
$B/tests/nccl/memplan_nccl.so $B/tests/nccl/memplan_mpi.so: $B/tests/nccl/%: $B/%
	@mkdir -p $(@D) && cp $< $@
# It is linked with the command line, and has a module that stands in for the GPU's.
$B/tests/test_options $B/tests/test_progress: $(filter-out $B/cli/main.o,$(CLI_OBJ)) | $B/tests/modules/memplan_cuda.so $B/tests/modules/failing_malloc.so
$B/tests/test_public_memory: | $B/tests/modules/memplan_ranks.so
$B/tests/modules/memplan_cuda.so $B/tests/modules/memplan_ranks.so: $B/tests/modules/memplan_%.so: tests/cli/%_standin.c Makefile
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -fPIC -shared -o $@ $<
# They make memory, or calls of the system, fail in whatever program they are loaded into, or its clock go faster.
$B/tests/modules/failing_malloc.so $B/tests/modules/faults.so: $B/tests/modules/%.so: tests/cli/%.c
$B/tests/modules/fast_clock.so: tests/cli/ranks/fast_clock.c
$(addprefix $B/tests/modules/,failing_malloc.so faults.so fast_clock.so): Makefile
	@mkdir -p $(@D)
	$(call say,LD) $(CC) -std=c11 -D_DEFAULT_SOURCE $(CFLAGS) $(WARN) -fPIC -shared -o $@ $(filter %.c,$^) -ldl
# A fuzzing target; its own main runs the corpus, libFuzzer's (FUZZ=1) makes new inputs.
FUZZ_OBJ := $(patsubst %.c,$B/%.o,$(filter-out $(FUZZ_C) $(if $(FUZZ),tests/fuzz/replay.c),$(wildcard tests/fuzz/*.c)))
$B/tests/fuzz_%: $B/tests/fuzz/fuzz_%.o $(FUZZ_OBJ) $(filter $B/tests/oracles/%,$(TEST_LIB)) $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) $(if $(FUZZ),-fsanitize=fuzzer) $(RPATH) -rdynamic -o $@ $(filter %.o,$^) $(WHOLE_LIBRARY) $(DEPS_LIBS) -lcmocka
$B/tests/fuzz_readers: $(filter-out $B/cli/main.o,$(CLI_OBJ)) # it reads files of devices, too
$B/tests/bench_%: $B/tests/bench/bench_%.o $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -rdynamic -o $@ $(filter %.o,$^) $(WHOLE_LIBRARY) $(DEPS_LIBS)
$B/examples/%: $B/examples/%.o $B/libmemplan.a
	$(call say,LD) $(CC) $(MP_CFLAGS) -o $@ $^ $(DEPS_LIBS)
$B/memplan_cuda.so: $(CUDA_OBJ)
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -shared -o $@ $^ $(CUDA_LIBS)
# The only part that uses MPI. Sanitizers would report leaks of MPI itself.
$B/memplan_mpi.so: $B/executor/mpi/communicator.o
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ $$(mpicc --showme:link)
$B/executor/mpi/%.o: executor/mpi/%.c Makefile | $(if $(shell command -v mpicc 2>/dev/null),,$B/test-packages)
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(MP_CFLAGS) -fPIC -fvisibility=hidden $$(mpicc --showme:compile | sed 's/-I/-isystem /g') -MMD -MP -c -o $@ $<
# The one part that knows Arrow. A wheel's libraries lie in its own folder and have their version in their names.
ARROW_WHEEL  = $(if $(shell pkg-config --exists parquet 2>/dev/null && echo 1),,$(if $(PYARROW),$(abspath $(PYARROW))))
ARROW_CFLAGS = $(if $(ARROW_WHEEL),-isystem $(ARROW_WHEEL)/include,$$(pkg-config --cflags parquet | sed 's/-I/-isystem /g'))
ARROW_LIBS   = $(if $(ARROW_WHEEL),$(wildcard $(ARROW_WHEEL)/libparquet.so.* $(ARROW_WHEEL)/libarrow.so.*) -Wl$(comma)-rpath$(comma)$(ARROW_WHEEL),$$(pkg-config --libs parquet arrow))
$B/memplan_parquet.so: $B/formats/columnar/parquet.o
	$(call say,LD) $(CXX) $(SAN_FLAGS) -shared -o $@ $^ $(ARROW_LIBS)
$B/formats/columnar/parquet.o: formats/columnar/parquet.cc Makefile
	@mkdir -p $(@D)
	@[ -n "$(ARROW_WHEEL)$$(pkg-config --modversion parquet 2>/dev/null)" ] || { echo "PARQUET=1 needs Arrow's C++ library: libparquet-dev, or a \
	wheel (pip install pyarrow) and PYARROW=FOLDER of that package" >&2; exit 1; }
	$(call say,CXX) $(CXX) -std=c++20 $(CFLAGS) $(WARN) $(SAN_FLAGS) -fPIC -fvisibility=hidden -I. -Iinclude $(ARROW_CFLAGS) -MMD -MP -c -o $@ $<
# The one part that knows NCCL, which it loads: neither its header nor the library is needed here.
$B/memplan_nccl.so: $B/executor/nccl/communicator.o
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ -ldl
$B/executor/nccl/%.o: MP_CFLAGS += -fPIC -fvisibility=hidden
$B/memplan_cuda_twin.so: $(TWIN_OBJ)
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ -lm
$(patsubst %.c,$B/%.o,$(CUDA_SOURCES)) $B/tests/cuda/twin/%.o: MP_CFLAGS += -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include
# ptxas's report on each kernel is kept beside the object: registers, stack, spills.
$B/%.cu.o: %.cu Makefile
	@mkdir -p $(@D)
	$(call say,NVCC) $(NVCC) -std=c++17 -O3 -t 0 $(CUDA_GEN) -I. -Iinclude -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror \
	    -Werror all-warnings -Xfatbin -compress-all --resource-usage -MMD -MP -MF $(@:.o=.d) -c -o $@ $< 2> $(@:.o=.ptxas) \
	    || { cat $(@:.o=.ptxas) >&2; exit 1; }
$B/%.twin.o: %.cu Makefile | $B/test-packages
	@mkdir -p $(@D)
	$(call say,CXX) $(CXX) -x c++ -std=c++17 $(CFLAGS) -O2 $(WARN) $(SAN_FLAGS) -fno-exceptions -fno-rtti -fno-strict-aliasing \
	    -fPIC -fvisibility=hidden -DMP_CUDA_TWIN -I. -Iinclude -MMD -MP -c -o $@ $<
# The twins once more, with a call at every launch and every access to memory, as a module in the GPU's place.
$B/%.launches.o: %.cu Makefile | $B/test-packages
	@mkdir -p $(@D)
	$(call say,CXX) $(CXX) -x c++ -std=c++17 -O2 $(WARN) -fsanitize=thread -fno-exceptions -fno-rtti -fno-strict-aliasing -fPIC \
	    -fvisibility=hidden -DMP_CUDA_TWIN -DMP_TWIN_LAUNCHES='"tests/launches/launches.h"' -I. -Iinclude -MMD -MP -c -o $@ $<
$B/tests/launches/%.o: MP_CFLAGS += -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include
$B/tests/launches/memplan_cuda.so: $(LAUNCHES)
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ -L$(CUDA_HOME)/lib64 -lcudnn -lcublasLt -lm
# Loops over elements become vector code, and nobody looks at errno or at floating-point exceptions there.
$B/executor/cpu/%.o $B/executor/operators/%_cpu.o: MP_CFLAGS += -O3 -fno-math-errno -fno-trapping-math
$B/planner/anneal/runs/memory_profile.o: MP_CFLAGS += -O3
$B/%.o: %.c Makefile | $B/gen/onnx.pb-c.h
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(MP_CFLAGS) $(DEPS_CFLAGS) -MMD -MP -c -o $@ $<
# They run others with the twin as their backend.
$B/tests/test_cuda_twin: | $B/memplan_cuda_twin.so $(addprefix $B/tests/test_,unaries binaries choices randoms optimizer pools gradients backends execution recording streams moves gathers samplings sources)
$B/tests/test_cuda_pools $B/tests/test_cuda_channels: | $B/memplan_cuda_twin.so
$B/tests/test_cuda_rows: | $B/memplan_cuda_twin.so $(addprefix $B/tests/test_,normalizations softmaxes reductions attention attention_masks)
$B/tests/test_cuda_contexts: | $B/memplan_cuda_twin.so
$B/tests/test_cuda_operators: | $B/memplan_cuda_twin.so $(addprefix $B/tests/test_,products recurrents)
# It calls kernels that no operator's own kernel is made of.
$B/tests/test_cuda_attention_operands: $B/executor/operators/attention/attention_operands_cuda.twin.o
$(patsubst %.c,$B/%.o,$(TEST_C)) $(TEST_LIB): | $B/test-packages
$B/gen/onnx.pb-c.o: $B/gen/onnx.pb-c.c
	$(call say,CC) $(CC) $(MP_CFLAGS) -w $(DEPS_CFLAGS) -c -o $@ $<
$B/gen/onnx.pb-c.c: $B/gen/onnx.pb-c.h ;
$B/gen/onnx.pb-c.h: | $B/build-packages
	@mkdir -p $(@D)
	$(call say,PROTO) protoc-c --proto_path=$(ONNX_FOLDER) --c_out=$(@D) onnx.proto

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
$B/build-packages: Makefile
	$(call install-packages,$(BUILD_PACKAGES))
$B/test-packages: Makefile | $B/build-packages
	$(call install-packages,$(TEST_PACKAGES))
$B/check-packages: Makefile
	$(call install-packages,$(CHECK_PACKAGES))
$B/analyse-packages: Makefile
	$(call install-packages,$(ANALYSE_PACKAGES))
$B/demo-packages: Makefile | $B/build-packages
	$(call install-packages,$(DEMO_PACKAGES))

.PHONY: analyse check-all thread-tests threads tidy valgrind coverage fuzz fuzzers all demo demo-training deb test test-python wheel test-gpu bench bench-all bench-ranks bench-python bench-gpu gpu-pack gpu-programs gpu-rehearsal needs-data verify check format docs docs-site install clean help
-include $(shell find $B -type f -name '*.d' 2>/dev/null)
