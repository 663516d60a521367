# Modules loaded on demand: GPUs (gpu.mk), ranks over MPI and NCCL, columnar files.

# Arrow's C++ library for columnar files: the system's, or PYARROW=FOLDER of Python's package pyarrow.
PYARROW ?= $(firstword $(wildcard $B/venv/lib/python3*/site-packages/pyarrow build/venv/lib/python3*/site-packages/pyarrow))
PARQUET ?= $(if $(shell pkg-config --exists parquet 2>/dev/null && echo 1)$(wildcard $(PYARROW)/include/parquet/arrow/reader.h),1,0)
MODULES := $(strip $(if $(filter 1,$(CUDA)),$B/memplan_cuda.so) $(if $(filter 1,$(MPI)),$B/memplan_mpi.so \
           $(if $(filter 1,$(CUDA)),$B/memplan_nccl.so)) $(if $(filter 1,$(PARQUET)),$B/memplan_parquet.so))

# The only part that uses MPI. Sanitizers would report leaks of MPI itself.
$B/memplan_mpi.so: $B/executor/mpi/communicator.o
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ $$(mpicc --showme:link)
$B/executor/mpi/%.o: executor/mpi/%.c Makefile mk/modules.mk | $(if $(shell command -v mpicc 2>/dev/null),,$B/test-packages)
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(MP_CFLAGS) -fPIC -fvisibility=hidden $$(mpicc --showme:compile | sed 's/-I/-isystem /g') -MMD -MP -c -o $@ $<

# The one part that knows Arrow. A wheel's libraries lie in its own folder and have their version in their names.
ARROW_WHEEL  = $(if $(shell pkg-config --exists parquet 2>/dev/null && echo 1),,$(if $(PYARROW),$(abspath $(PYARROW))))
ARROW_CFLAGS = $(if $(ARROW_WHEEL),-isystem $(ARROW_WHEEL)/include,$$(pkg-config --cflags parquet | sed 's/-I/-isystem /g'))
ARROW_LIBS   = $(if $(ARROW_WHEEL),$(wildcard $(ARROW_WHEEL)/libparquet.so.* $(ARROW_WHEEL)/libarrow.so.*) -Wl$(comma)-rpath$(comma)$(ARROW_WHEEL),$$(pkg-config --libs parquet arrow))
$B/memplan_parquet.so: $B/formats/columnar/parquet.o
	$(call say,LD) $(CXX) $(SAN_FLAGS) -shared -o $@ $^ $(ARROW_LIBS)
$B/formats/columnar/parquet.o: formats/columnar/parquet.cc Makefile mk/modules.mk
	@mkdir -p $(@D)
	@[ -n "$(ARROW_WHEEL)$$(pkg-config --modversion parquet 2>/dev/null)" ] || { echo "PARQUET=1 needs Arrow's C++ library: libparquet-dev, or a \
	wheel (pip install pyarrow) and PYARROW=FOLDER of that package" >&2; exit 1; }
	$(call say,CXX) $(CXX) -std=c++20 $(CFLAGS) $(WARN) $(SAN_FLAGS) -fPIC -fvisibility=hidden -I. -Iinclude $(ARROW_CFLAGS) -MMD -MP -c -o $@ $<

# The one part that knows NCCL, which it loads: neither its header nor the library is needed here.
$B/memplan_nccl.so: $B/executor/nccl/communicator.o
	$(call say,LD) $(CC) $(MP_CFLAGS) -shared -o $@ $^ -ldl
$B/executor/nccl/%.o: MP_CFLAGS += -fPIC -fvisibility=hidden
