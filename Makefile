# memplan - make demo: the main job on a real model; make test: build and pass all tests; make help: all targets (the others are in mk/).
# Each of these settings builds in its own folder: SAN=1 with sanitizers, TSAN=1 with clang's thread sanitizer, CC=clang.
# CUDA=0|1, MPI=0|1 and PARQUET=0|1 choose the modules for GPUs, ranks and columnar files; by default those whose libraries are found.
# V=1 shows the commands.
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
# The folder of external graphs, models and figures (docs/internals/data.md). Without them benches end and tests are skipped.
export DATA

comma  := ,
once    = $(eval $1 := $2)$($1)
say     = $(if $(V),,@echo '  $1  $@' &&)

# Options of the Debian packages for compiler and linker. Only recipes evaluate them, after the installation.
PKGS := igraph jansson libprotobuf-c libxxhash libgvc libcgraph liburing
DEPS_CFLAGS = $(call once,DEPS_CFLAGS,$(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS))))
DEPS_LIBS   = $(call once,DEPS_LIBS,$(shell pkg-config --libs $(PKGS)) -ldnnl -lglpk -lpthread -lm)
ONNX_FOLDER := /usr/include/onnx
# Builds with clang serve its warnings and sanitizers, and use one thread. Only the thread sanitizer needs clang's OpenMP.
OPENMP      = $(if $(findstring clang,$(CC)),$(if $(filter 1,$(TSAN)),-fopenmp),-fopenmp)
OPENMP_LIBS = $(if $(findstring clang,$(CC)),,-lgomp)

WARN   := -Wall -Wextra -Werror
CFLAGS ?= -O2 -g
# Clang also counts NULL + 0, which is an empty block.
ADDRESS   := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SAN_FLAGS := $(strip $(if $(filter 1,$(SAN)),$(ADDRESS) $(if $(findstring clang,$(CC)),-fno-sanitize=pointer-overflow)) \
             $(if $(filter 1,$(TSAN)),-fsanitize=thread) $(if $(FUZZ),-fsanitize=fuzzer-no-link) \
             $(if $(filter 1,$(SAN) $(TSAN))$(FUZZ),-DMP_DEBUG))
MP_CFLAGS := -std=c11 -D_DEFAULT_SOURCE -DMEMPLAN_VERSION='"$(VERSION)"' $(CFLAGS) $(WARN) $(SAN_FLAGS) $(OPENMP) -I. -Iinclude -isystem $B/gen
# The archive and the shared library contain the same objects.
PIC_FLAGS := -fPIC -fno-semantic-interposition
WHOLE_LIBRARY = -Wl,--whole-archive $B/libmemplan.a -Wl,--no-whole-archive

# All folders of the library. The modules in executor/cuda, executor/mpi and executor/nccl are built apart.
LIBRARY_FOLDERS := $(shell find estimator planner formats executor -type d -not -path 'executor/cuda*' -not -path 'executor/mpi' -not -path 'executor/nccl' | sort)
LIB_OBJ  := $(patsubst %.c,$B/%.o,$(filter-out executor/operators/%_cuda.c,$(wildcard $(addsuffix /*.c,$(LIBRARY_FOLDERS))))) $B/gen/onnx.pb-c.o
CLI_OBJ  := $(patsubst %.c,$B/%.o,$(filter-out cli/manual.c,$(wildcard cli/*.c cli/*/*.c)))
EXAMPLES := $(patsubst examples/%.c,$B/examples/%,$(wildcard examples/*.c))

# A file of mk uses variables of those before it.
include $(addprefix mk/,packages.mk modules.mk gpu.mk tests.mk analyse.mk bench.mk python.mk docs.mk install.mk)

all: $B/memplan $B/libmemplan.so $(MODULES) $(EXAMPLES) ## build the program, the library and the examples
	@echo "built $B/memplan ($(CC)$(if $(SAN_FLAGS),$(comma) sanitizers), CUDA=$(CUDA))"

ifeq ($(MAKECMDGOALS),demo)
MAKEFLAGS += -j$(shell nproc)
endif
demo: $B/memplan ## the main job on a real model, within a minute
	@examples/demo.sh $B/memplan $B/demo
demo-training: $B/memplan | $B/demo-packages ## whole trainings within a budget, some minutes
	@examples/demo_training.sh $B/memplan $B/demo

format: ## lay the code out with clang-format
	find cli include estimator planner formats executor examples tests -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | xargs clang-format -i

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile mk/*.mk

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
$(LIB_OBJ): MP_CFLAGS += $(PIC_FLAGS)
# As programs of users do, examples take the shared library, whose names modules find.
$B/examples/%: $B/examples/%.o $B/libmemplan.so
	$(call say,LD) $(CC) $(MP_CFLAGS) -Wl,-rpath,'$$ORIGIN/..' -o $@ $^ $(DEPS_LIBS)
# Loops over elements become vector code, and nobody looks at errno or at floating-point exceptions there.
$B/executor/cpu/%.o $B/executor/operators/%_cpu.o: MP_CFLAGS += -O3 -fno-math-errno -fno-trapping-math
$B/planner/anneal/runs/memory_profile.o: MP_CFLAGS += -O3
$B/%.o: %.c Makefile | $B/gen/onnx.pb-c.h
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(MP_CFLAGS) $(DEPS_CFLAGS) -MMD -MP -c -o $@ $<
$B/gen/onnx.pb-c.o: $B/gen/onnx.pb-c.c
	$(call say,CC) $(CC) $(MP_CFLAGS) -w $(DEPS_CFLAGS) -c -o $@ $<
$B/gen/onnx.pb-c.c: $B/gen/onnx.pb-c.h ;
$B/gen/onnx.pb-c.h: | $B/build-packages
	@mkdir -p $(@D)
	$(call say,PROTO) protoc-c --proto_path=$(ONNX_FOLDER) --c_out=$(@D) onnx.proto

.PHONY: all demo demo-training format clean help
-include $(shell find $B -type f -name '*.d' 2>/dev/null)
