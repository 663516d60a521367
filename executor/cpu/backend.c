/* backend.c - implements mp_backend for the CPU. */
#include "executor/kernel/backend.h"

#include <string.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/cpu/cpu.h"
#include "executor/operators/layouts.h"
#include "executor/operators/products/convolution_cpu.h"
#include "executor/operators/products/packing_cpu.h"
#include "executor/operators/updates/updates_cpu.h"

/* Sets flush-to-zero and denormals-are-zero in the calling thread and in OpenMP's threads. */
static void flush_denormals(bool flush)
{
#ifdef __SSE__
#ifdef _OPENMP
#pragma omp parallel
#endif
    _mm_setcsr(flush ? _mm_getcsr() | 0x8040u : _mm_getcsr() & ~0x8040u);
#else
    (void)flush;
#endif
}

static int threads(const mp_backend *self)
{
    (void)self;
    return mp_parallel_threads();
}

static mp_status wait_for_all(const mp_backend *self, mp_error *err)
{
    (void)self, (void)err;
    return MP_OK;
}

static const mp_device *device(const mp_backend *self)
{
    (void)self;
    return mp_device_find("cpu");
}

static mp_status open(const mp_backend *self, mp_error *err)
{
    (void)self, (void)err;
    return MP_OK;
}

static void begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    (void)self, (void)seed, (void)step, (void)factors;
}

static void enter(const mp_backend *self)
{
    (void)self;
    flush_denormals(true);
}

static void leave(const mp_backend *self)
{
    (void)self;
    flush_denormals(false);
}

static mp_status adapt(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err)
{
    (void)self;
    MP_ENSURE(dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16, err, MP_UNSUPPORTED,
              "the CPU computes in fp32 or bf16, not in %s", mp_dtype_name(dtype));
    MP_CHECK(mp_layouts_choose(model, err));
    return mp_cpu_pack_weights(model, dtype, err);
}

static const mp_kernel *kernel(const mp_backend *self, const mp_operator *op)
{
    (void)self;
    return mp_cpu_kernel(op);
}

static mp_status reorder(const mp_backend *self, const mp_array *from, const mp_array *to, mp_error *err)
{
    (void)self;
    return mp_cpu_reorder(from, to, err);
}

/* Allocates memory as whole pages, which are zeroed and aligned. A release returns the pages to the system immediately. */
static void *allocate(const mp_backend *self, int64_t bytes)
{
    (void)self;
    void *memory = mmap(NULL, bytes > 0 ? (size_t)bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release(const mp_backend *self, void *memory, int64_t bytes)
{
    (void)self;
    if (memory) munmap(memory, bytes > 0 ? (size_t)bytes : 1);
}

static void fill(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes)
{
    (void)self;
    memset(memory, byte, (size_t)bytes);
}

static void copy(const mp_backend *self, void *to, const void *from, int64_t bytes)
{
    (void)self;
    memmove(to, from, (size_t)bytes);
}

static int64_t touched(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes)
{
    (void)self;
    const unsigned char *at = memory;
    while (bytes > 0 && at[bytes - 1] == byte) bytes--;
    return bytes;
}

const mp_backend mp_cpu = {.name = "cpu",
                           .alignment = 64,
                           .threads = threads,
                           .is_host = true,
                           .gives_mask_gradients = true,
                           .device = device,
                           .open = open,
                           .adapt = adapt,
                           .kernel = kernel,
                           .algorithms = mp_cpu_algorithms,
                           .enter = enter,
                           .leave = leave,
                           .begin = begin,
                           .wait = wait_for_all,
                           .add = mp_cpu_add,
                           .update = mp_cpu_update,
                           .norm_workspace_bytes = mp_cpu_norm_workspace_bytes,
                           .clip = mp_cpu_clip,
                           .squares = mp_cpu_squares,
                           .allocate = allocate,
                           .release = release,
                           .fill = fill,
                           .copy = copy,
                           .touched = touched,
                           .upload = reorder,
                           .download = reorder};
