# The GPU module, its twin on the host, and targets for a machine with a GPU. The module is built from executor/cuda and the files of
# operators that end in _cuda. The twin has the same kernels, without those that need a device or NVIDIA's libraries.
CUDA_FOLDERS := $(shell find executor/cuda executor/operators -type d | sort)
CUDA_SOURCES := $(wildcard executor/cuda/*.c executor/cuda/*/*.c executor/operators/*/*_cuda.c)
TWIN_C       := $(wildcard tests/cuda/twin/*.c) $(filter executor/operators/%,$(CUDA_SOURCES))
CUDA_HOME   ?= $(if $(wildcard /usr/local/cuda/include/cuda_runtime.h),/usr/local/cuda,$(patsubst %/bin/nvcc,%,$(shell command -v nvcc)))
NVCC        := $(firstword $(shell command -v nvcc) $(CUDA_HOME)/bin/nvcc)
NVCC_KNOWS   = $(call once,NVCC_KNOWS,$(shell $(NVCC) --list-gpu-code | sed -n 's/^sm_\([0-9]*\)$$/\1/p' | sort -n))
# The module contains machine code for CUDA_ARCHES and, for later GPUs, PTX of the last one. `install` and `gpu-pack` build for all
# architectures x.0 and 7.5; x.1 and later run the code of x.0. Other targets build for one: this machine's GPU; without a GPU 9.0,
# the architecture that tests/cuda/resources.py judges, or the newest one that nvcc knows.
EVERY_ARCH   = $(filter %0 %5,$(NVCC_KNOWS))
THIS_GPU     = $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null))
ONE_ARCH     = $(call once,ONE_ARCH,$(firstword $(filter $(NVCC_KNOWS),$(THIS_GPU)) $(filter 90,$(NVCC_KNOWS)) $(lastword $(EVERY_ARCH))))
CUDA_ARCHES ?= $(if $(filter install gpu-pack,$(MAKECMDGOALS)),$(EVERY_ARCH),$(ONE_ARCH))
CUDA_GEN     = $(foreach a,$(CUDA_ARCHES),-gencode arch=compute_$a$(comma)code=sm_$a) -gencode arch=compute_$(lastword $(CUDA_ARCHES))$(comma)code=compute_$(lastword $(CUDA_ARCHES))
CUDA_LIBS    = -L$(CUDA_HOME)/lib64 -lcudnn -lcublasLt -lcudart_static -lrt -lpthread -ldl -l:libstdc++.a -static-libgcc -lm

# Programs of the pack for a machine with a GPU find libraries in the lib beside them.
GPU_TESTS := $(addprefix $B/tests/test_,$(file < tests/gpu/tests.txt))
RPATH      = $(if $(PACKED),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN/lib:$$ORIGIN/../lib')

CUDA_CU  := $(wildcard $(addsuffix /*.cu,$(CUDA_FOLDERS)))
CUDA_OBJ := $(patsubst %.c,$B/%.o,$(CUDA_SOURCES)) $(patsubst %.cu,$B/%.cu.o,$(CUDA_CU))
# With CUDA's headers, the twin's matrix products are the GPU's calls of cublasLt, made to a cublasLt on the host.
TWIN_BLAS := $(if $(filter 1,$(CUDA)),executor/cuda/device/errors.c executor/cuda/vendor/blas_matmul.c \
               executor/cuda/vendor/blas_products.c $(wildcard tests/cuda/twin/blas/*.c))
TWIN_OBJ := $(patsubst %.c,$B/%.o,$(TWIN_C) $(TWIN_BLAS)) $(patsubst %.cu,$B/%.twin.o,$(CUDA_CU))
LAUNCHES := $(patsubst %.cu,$B/%.launches.o,$(CUDA_CU)) $(filter-out $B/tests/%,$(TWIN_C:%.c=$B/%.o)) \
            $(patsubst %.c,$B/%.o,executor/cuda/layouts.c executor/cuda/device/current.c executor/cuda/device/errors.c \
            $(wildcard executor/cuda/vendor/*.c tests/launches/*.c))

test-gpu: $B/memplan $(MODULES) $(GPU_TESTS) ## tests that need an NVIDIA GPU: kernels, whole steps, compute-sanitizer
	@BUILD=$B tests/gpu/run.sh smoke kernels training algorithms sanitizer

bench-gpu: $B/memplan $(MODULES) $B/tests/bench_updates ## steps and memory on a GPU against PyTorch's (DATA=FOLDER)
	@BUILD=$B tests/gpu/run.sh bench-ours bench-eager bench-compile memory

gpu-pack: ## the programs of test-gpu and bench-gpu as an archive for a machine with a GPU and no compiler: build/gpu/memplan-gpu.tar.xz (CUDA_ARCHES=90, DATA=FOLDER)
	@$(MAKE) CUDA=1 CUDA_ARCHES="$(CUDA_ARCHES)" PACKED=1 DEPS_LIBS="$(PACKAGE_LIBS)" B=$B/gpu gpu-programs
	@tests/gpu/pack.sh $B/gpu $(or $(MODELS),$(DATA)/models)

gpu-rehearsal: ## as root: run the archive of gpu-pack in a clean Debian without a GPU, section by section
	@tests/gpu/rehearse.sh $B/gpu/memplan-gpu.tar.xz $(or $(TMPDIR),/tmp)/memplan-rehearsal

launches: needs-data $B/memplan $B/tests/launches/memplan_cuda.so ## count the launches of a step on a GPU, without one (needs CUDA; DATA=FOLDER)
	@LD_LIBRARY_PATH=$(CUDA_HOME)/lib64 python3 -B tests/launches/launches.py $B $(DATA)/models --launches
	@LD_LIBRARY_PATH=$(CUDA_HOME)/lib64 python3 -B tests/launches/launches.py $B $(DATA)/models

resources: $(MODULES) ## registers, stack and spills of the GPU's kernels, as ptxas says
	@python3 -B tests/cuda/resources.py $B --table
gpu-programs: $B/memplan $(filter-out %_parquet.so,$(MODULES)) $B/package/libmemplan.so $(GPU_TESTS) $B/tests/bench_updates $B/tests/bench_choices

$B/memplan_cuda.so: $(CUDA_OBJ)
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -shared -o $@ $^ $(CUDA_LIBS)
$B/memplan_cuda_twin.so: $(TWIN_OBJ)
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ -lm
$(patsubst %.c,$B/%.o,$(CUDA_SOURCES)) $B/tests/cuda/twin/%.o: MP_CFLAGS += -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include
# The architectures of the objects, which are compiled again only if one is missing.
$B/cuda_arches: always
	@mkdir -p $(@D)
	@for a in $(CUDA_ARCHES); do grep -qw "$$a" $@ 2>/dev/null || { echo "$(CUDA_ARCHES)" > $@; break; }; done

# ptxas's report on each kernel is kept beside the object: registers, stack, spills.
$B/%.cu.o: %.cu Makefile mk/gpu.mk $B/cuda_arches
	@mkdir -p $(@D)
	$(call say,NVCC) $(NVCC) -std=c++17 -O3 -t 0 $(CUDA_GEN) -I. -Iinclude -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror \
	    -Werror all-warnings -Xfatbin -compress-all --resource-usage -MMD -MP -MF $(@:.o=.d) -c -o $@ $< 2> $(@:.o=.ptxas) \
	    || { cat $(@:.o=.ptxas) >&2; exit 1; }
$B/%.twin.o: %.cu Makefile mk/gpu.mk | $B/test-packages
	@mkdir -p $(@D)
	$(call say,CXX) $(CXX) -x c++ -std=c++17 $(CFLAGS) -O2 $(WARN) $(SAN_FLAGS) -fno-exceptions -fno-rtti -fno-strict-aliasing \
	    -fPIC -fvisibility=hidden -DMP_CUDA_TWIN -I. -Iinclude -MMD -MP -c -o $@ $<
# The twins once more, with a call at every launch and every access to memory, as a module in the GPU's place.
$B/%.launches.o: %.cu Makefile mk/gpu.mk | $B/test-packages
	@mkdir -p $(@D)
	$(call say,CXX) $(CXX) -x c++ -std=c++17 -O2 $(WARN) -fsanitize=thread -fno-exceptions -fno-rtti -fno-strict-aliasing -fPIC \
	    -fvisibility=hidden -DMP_CUDA_TWIN -DMP_TWIN_LAUNCHES='"tests/launches/launches.h"' -I. -Iinclude -MMD -MP -c -o $@ $<
$B/tests/launches/%.o: MP_CFLAGS += -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include
$B/tests/launches/memplan_cuda.so: $(LAUNCHES)
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ -L$(CUDA_HOME)/lib64 -lcudnn -lcublasLt -lm

.PHONY: test-gpu bench-gpu gpu-pack gpu-programs gpu-rehearsal launches resources always
