/* broadcast_sum_cpu.c - the sum over what was broadcast: gradients of biases, scales and scalars.
 *
 * Every output element belongs to one thread, which adds its terms in the order of memory; long sums to few outputs go through
 * partial sums over a fixed number of stretches.
 */
#include "executor/operators/elementwise/broadcast_sum_cpu.h"

#include <string.h>

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/element.h"
#include "executor/kernel/loops.h"

enum { LANES = 64, STRETCHES = 64 };

typedef struct sum {
    const void *from;
    void *to;
    mp_dtype from_dtype, to_dtype;
    mp_sum_loops loops;
    int64_t column_blocks; /* columns: blocks of LANES along the innermost kept dimension */
    float scale;
    bool add;
    double *partial; /* scalars: per stretch */
} sum;

static float load(const sum *x, int64_t at)
{
    float room;
    return *mp_floats(x->from, x->from_dtype, at, 1, &room);
}

static void store(const sum *x, int64_t at, double value)
{
    float room, old = x->add ? *mp_floats(x->to, x->to_dtype, at, 1, &room) : 0;
    float out = old + (float)(value * x->scale);
    if (x->to_dtype == MP_DTYPE_FLOAT)
        ((float *)x->to)[at] = out;
    else
        mp_floats_done(x->to, x->to_dtype, at, 1, &out);
}

MP_VECTOR static void add_lanes(const float *from, int64_t n, float *sums)
{
    for (int64_t k = 0; k < n; k++) sums[k] += from[k];
}

/* Sixteen sums side by side, so that the additions can overlap; then one after the other. */
MP_VECTOR static double add_run(const float *from, int64_t n)
{
    float lanes[16] = {0};
    double total = 0;
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; l++) lanes[l] += from[k + l];
    for (; k < n; k++) lanes[k % 16] += from[k];
    for (int l = 0; l < 16; l++) total += (double)lanes[l];
    return total;
}

/* Where the r-th term of the first sum lies, of the dimensions before `until`. */
static int64_t reduced_at(const sum *x, int64_t r, int until)
{
    return mp_strided_place(until, x->loops.reduced, x->loops.reduced_stride, r);
}

static void kept_at(const sum *x, int64_t k, int until, int64_t *from, int64_t *to)
{
    *from = mp_strided_place(until, x->loops.kept, x->loops.kept_stride, k);
    *to = mp_strided_place(until, x->loops.kept, x->loops.to_stride, k);
}

/* LANES neighbouring outputs at once: the innermost kept dimension lies contiguously in `from`. Rows are added up in stretches
 * whose sums are added in double. */
static void sum_columns(void *data, int64_t block)
{
    const sum *x = data;
    enum { STRETCH = 128 };
    int inner = x->loops.n_kept - 1;
    int64_t from, to, column = block % x->column_blocks * LANES;
    int64_t n = x->loops.kept[inner] - column < LANES ? x->loops.kept[inner] - column : LANES;
    double totals[LANES] = {0};
    float sums[LANES], room[LANES];
    kept_at(x, block / x->column_blocks, inner, &from, &to);
    from += column;
    to += column * x->loops.to_stride[inner];
    for (int64_t r = 0; r < x->loops.n_terms; r += STRETCH) {
        memset(sums, 0, sizeof sums);
        for (int64_t s = r; s < r + STRETCH && s < x->loops.n_terms; s++)
            add_lanes(mp_floats(x->from, x->from_dtype, from + reduced_at(x, s, x->loops.n_reduced), n, room), n, sums);
        for (int64_t k = 0; k < n; k++) totals[k] += (double)sums[k];
    }
    for (int64_t k = 0; k < n; k++) store(x, to + k * x->loops.to_stride[inner], totals[k]);
}

/* The terms [r, r + n) of the innermost reduced dimension, wherever they lie. */
static double sum_stretch(const sum *x, int64_t from, int64_t n)
{
    float room[MP_BLOCK];
    double total = 0;
    int inner = x->loops.n_reduced - 1;
    int64_t stride = x->loops.n_reduced ? x->loops.reduced_stride[inner] : 1;
    for (int64_t k = 0; k < n; k += MP_BLOCK) {
        int64_t m = n - k < MP_BLOCK ? n - k : MP_BLOCK;
        if (stride == 1) {
            total += add_run(mp_floats(x->from, x->from_dtype, from + k, m, room), m);
        } else {
            for (int64_t e = 0; e < m; e++) room[e] = load(x, from + (k + e) * stride);
            total += add_run(room, m);
        }
    }
    return total;
}

static void sum_one(void *data, int64_t k)
{
    const sum *x = data;
    int64_t from, to, run = x->loops.n_reduced ? x->loops.reduced[x->loops.n_reduced - 1] : 1;
    double total = 0;
    kept_at(x, k, x->loops.n_kept, &from, &to);
    for (int64_t r = 0; r < x->loops.n_terms / run; r++)
        total += sum_stretch(x, from + reduced_at(x, r, x->loops.n_reduced - 1), run);
    store(x, to, total);
}

/* One output from many terms that lie side by side. */
static void sum_part(void *data, int64_t part)
{
    const sum *x = data;
    int64_t length = (x->loops.n_terms + STRETCHES - 1) / STRETCHES, at = part * length;
    int64_t n = x->loops.n_terms - at < length ? x->loops.n_terms - at : length;
    x->partial[part] = n > 0 ? sum_stretch(x, at, n) : 0;
}

void mp_cpu_sum_to(const mp_array *from, const mp_array *to, float scale, bool add)
{
    double partial[STRETCHES], total = 0;
    sum x = {.from = from->data,
             .to = to->data,
             .from_dtype = from->dtype,
             .to_dtype = to->dtype,
             .scale = scale,
             .add = add,
             .partial = partial};
    x.loops = mp_sum_loops_of(from, to);
    if (!x.loops.n_terms || !x.loops.n_out) return;
    if (x.loops.n_kept && x.loops.kept_stride[x.loops.n_kept - 1] == 1) {
        x.column_blocks = (x.loops.kept[x.loops.n_kept - 1] + LANES - 1) / LANES;
        mp_parallel(x.loops.n_out / x.loops.kept[x.loops.n_kept - 1] * x.column_blocks, LANES * x.loops.n_terms, sum_columns,
                    &x);
    } else if (x.loops.n_out == 1 && x.loops.n_reduced == 1 && x.loops.reduced_stride[0] == 1) {
        mp_parallel(STRETCHES, x.loops.n_terms / STRETCHES, sum_part, &x);
        for (int k = 0; k < STRETCHES; k++) total += partial[k];
        store(&x, 0, total);
    } else {
        mp_parallel(x.loops.n_out, x.loops.n_terms, sum_one, &x);
    }
}
