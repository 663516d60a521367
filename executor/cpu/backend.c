/* backend.c - the CPU as a backend. */
#include "executor/kernel/backend.h"

#include <string.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "executor/cpu/base/parallel.h"
#include "executor/cpu/cpu.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/products/convolutions.h"
#include "executor/cpu/products/packing.h"
#include "executor/cpu/updates.h"
#include "executor/operators/layouts.h"

/* Flush-to-zero and denormals-are-zero in the calling thread and those that OpenMP keeps. */
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

static void wait_for_all(void) {}

static const mp_device *device(void)
{
    return mp_device_find("cpu");
}

static mp_status open(mp_error *err)
{
    (void)err;
    return MP_OK;
}

static void begin(uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    (void)seed, (void)step, (void)factors;
}

static void enter(void)
{
    flush_denormals(true);
}

static void leave(void)
{
    flush_denormals(false);
}

static mp_status adapt(mp_model *model, mp_dtype dtype, mp_error *err)
{
    mp_status st = MP_OK;
    MP_REQUIRE(dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16, err, MP_UNSUPPORTED,
               "the CPU computes in fp32 or bf16, not in %s", mp_dtype_name(dtype));
    MP_TRY(mp_layouts_choose(model, err));
    MP_TRY(mp_cpu_pack_weights(model, dtype, err));
done:
    return st;
}

/* Whole pages from the system: zeroed, aligned, and given back at once when released. */
static void *allocate(int64_t bytes)
{
    void *memory = mmap(NULL, bytes > 0 ? (size_t)bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release(void *memory, int64_t bytes)
{
    if (memory) munmap(memory, bytes > 0 ? (size_t)bytes : 1);
}

static void fill(void *memory, unsigned char byte, int64_t bytes)
{
    memset(memory, byte, (size_t)bytes);
}

static void copy(void *to, const void *from, int64_t bytes)
{
    memmove(to, from, (size_t)bytes);
}

static int64_t touched(const void *memory, unsigned char byte, int64_t bytes)
{
    const unsigned char *at = memory;
    while (bytes > 0 && at[bytes - 1] == byte) bytes--;
    return bytes;
}

const mp_backend mp_cpu = {.name = "cpu",
                           .alignment = 64,
                           .threads = mp_parallel_threads,
                           .is_host = true,
                           .device = device,
                           .open = open,
                           .adapt = adapt,
                           .kernel = mp_cpu_kernel,
                           .algorithms = mp_cpu_algorithms,
                           .enter = enter,
                           .leave = leave,
                           .begin = begin,
                           .wait = wait_for_all,
                           .add = mp_cpu_add,
                           .update = mp_cpu_update,
                           .norm_workspace_bytes = mp_cpu_norm_workspace_bytes,
                           .clip = mp_cpu_clip,
                           .allocate = allocate,
                           .release = release,
                           .fill = fill,
                           .copy = copy,
                           .touched = touched,
                           .upload = mp_cpu_reorder,
                           .download = mp_cpu_reorder};
