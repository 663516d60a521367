/* kernels.c - finds an operator's row among the families. */
#include "executor/cpu/kernels.h"

#include "executor/cpu/base/parallel.h"

#define TABLE(name) mp_cpu_##name,
static const mp_kernel *const families[] = {MP_CPU_FAMILIES(TABLE)};
#undef TABLE

const mp_kernel *mp_cpu_kernel(const mp_operator *op)
{
    return mp_kernel_find(families, sizeof families / sizeof *families, op);
}

typedef struct addition {
    mp_dtype dtype;
    int64_t n;
    const void *from;
    void *to;
} addition;

MP_VECTOR static void add_floats(const float *from, const float *old, int64_t n, float *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = old[k] + from[k];
}

static void add_block(void *data, int64_t k)
{
    float a_room[MP_BLOCK], b_room[MP_BLOCK];
    const addition *x = data;
    int64_t at = k * MP_BLOCK, n = mp_block_size(x->n, k);
    const float *from = mp_floats(x->from, x->dtype, at, n, a_room), *old = mp_floats(x->to, x->dtype, at, n, b_room);
    float *to = mp_floats_room(x->to, x->dtype, at, b_room);
    add_floats(from, old, n, to);
    mp_floats_done(x->to, x->dtype, at, n, to);
}

void mp_cpu_add(mp_dtype dtype, int64_t n, const void *from, void *to)
{
    addition x = {dtype, n, from, to};
    mp_parallel(mp_blocks(n), MP_BLOCK, add_block, &x);
}
