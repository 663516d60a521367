/* elementwise_cpu.c - runs a row function over a loop nest, in blocks that depend only on the shapes. */
#include "executor/operators/elementwise/elementwise_cpu.h"

#include <string.h>

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/element.h"
#include "executor/kernel/loops.h"

enum { ALL = MP_LOOP_OPERANDS };

/* The loop nest over the elements of one call. Operand 0 is the output, the others are the inputs. */
typedef struct nest {
    mp_loops loops;
    void *data[ALL];
    mp_dtype dtype[ALL];
    mp_row row;
    mp_whole_row whole;
    const double *parameters;
    int64_t run, n_runs, blocks_per_run, runs_per_block;
} nest;

static void build(nest *x, const mp_array *const *in, int n_in, const mp_array *out)
{
    x->loops = mp_loops_of(in, n_in, out);
    for (int k = 0; k < x->loops.n; k++) {
        const mp_array *a = k ? in[k - 1] : out;
        x->data[k] = a->data;
        x->dtype[k] = a->dtype;
    }
    x->run = x->loops.dims[x->loops.rank - 1];
    x->n_runs = 1;
    for (int d = 0; d < x->loops.rank - 1; d++) x->n_runs *= x->loops.dims[d];
    x->blocks_per_run = mp_block_count(x->run);
    x->runs_per_block = x->run > 0 && x->run < MP_BLOCK ? MP_BLOCK / x->run : 1;
}

static void run_floats(const nest *x, const int64_t *at, int64_t n)
{
    float rooms[ALL][MP_BLOCK];
    const float *in[MP_OPERANDS_MAX];
    int inner = x->loops.rank - 1;
    int64_t stride = x->loops.strides[0][inner];
    for (int k = 1; k < x->loops.n; k++)
        in[k - 1] = mp_floats_apart(x->data[k], x->dtype[k], at[k], x->loops.strides[k][inner], n, rooms[k]);
    bool straight = stride == 1 && mp_is_real(x->dtype[0]);
    float *out = straight ? mp_floats_room(x->data[0], x->dtype[0], at[0], rooms[0]) : rooms[0];
    x->row(x->parameters, n, in, out);
    mp_floats_put_apart(x->data[0], x->dtype[0], at[0], stride, n, out);
}

static void run_whole(const nest *x, const int64_t *at, int64_t n)
{
    enum { PART = 256 };
    int64_t rooms[ALL][PART];
    const int64_t *in[MP_OPERANDS_MAX];
    int inner = x->loops.rank - 1;
    for (int64_t from = 0; from < n; from += PART) {
        int64_t m = n - from < PART ? n - from : PART;
        for (int k = 1; k < x->loops.n; k++) {
            in[k - 1] = rooms[k];
            for (int64_t e = 0; e < m; e++)
                rooms[k][e] = mp_load_whole(x->data[k], x->dtype[k], at[k] + (from + e) * x->loops.strides[k][inner]);
        }
        x->whole(x->parameters, m, in, rooms[0]);
        for (int64_t e = 0; e < m; e++)
            mp_store_whole(x->data[0], x->dtype[0], at[0] + (from + e) * x->loops.strides[0][inner], rooms[0][e]);
    }
}

/* Computes for every operand the offset of the first element of run r. A run is one execution of the innermost loop. */
static void locate(const nest *x, int64_t r, int64_t *at)
{
    for (int k = 0; k < x->loops.n; k++) at[k] = 0;
    for (int d = x->loops.rank - 2; d >= 0; d--) {
        int64_t i = r % x->loops.dims[d];
        r /= x->loops.dims[d];
        for (int k = 0; k < x->loops.n; k++) at[k] += i * x->loops.strides[k][d];
    }
}

/* Processes m short runs (innermost loops) in one call of the row function. Their outputs are contiguous. Operands that are
 * also contiguous are read in place; all others are first copied to a buffer. */
static void run_together(const nest *x, const int64_t *at, int64_t m)
{
    float rooms[ALL][MP_BLOCK];
    const float *in[MP_OPERANDS_MAX];
    int inner = x->loops.rank - 1, outer = inner - 1;
    int64_t n = m * x->run;
    for (int k = 1; k < x->loops.n; k++) {
        int64_t stride = x->loops.strides[k][inner], step = x->loops.strides[k][outer];
        if (stride == 1 && step == x->run) {
            in[k - 1] = mp_floats_apart(x->data[k], x->dtype[k], at[k], 1, n, rooms[k]);
            continue;
        }
        for (int64_t r = 0; r < m; r++) {
            float *row = rooms[k] + r * x->run;
            if (r && !step) {
                memcpy(row, rooms[k], (size_t)x->run * sizeof *row);
                continue;
            }
            const float *from = mp_floats_apart(x->data[k], x->dtype[k], at[k] + r * step, stride, x->run, row);
            if (from != row) memcpy(row, from, (size_t)x->run * sizeof *row);
        }
        in[k - 1] = rooms[k];
    }
    float *out = mp_floats_room(x->data[0], x->dtype[0], at[0], rooms[0]);
    x->row(x->parameters, n, in, out);
    mp_floats_done(x->data[0], x->dtype[0], at[0], n, out);
}

static void run_block(void *data, int64_t block)
{
    const nest *x = data;
    int64_t at[ALL], inner = x->loops.rank - 1;
    int64_t first = block / x->blocks_per_run * x->runs_per_block, part = block % x->blocks_per_run;
    int64_t n = x->run - part * MP_BLOCK < MP_BLOCK ? x->run - part * MP_BLOCK : MP_BLOCK, step = 1;
    bool together = x->row && x->loops.rank > 1 && x->runs_per_block > 1 && x->loops.strides[0][inner] == 1 &&
                    x->loops.strides[0][inner - 1] == x->run && mp_is_real(x->dtype[0]);
    for (int64_t r = first; r < first + x->runs_per_block && r < x->n_runs; r += step) {
        locate(x, r, at);
        if (together) {
            int64_t row = r % x->loops.dims[inner - 1], left = first + x->runs_per_block - r;
            step = x->loops.dims[inner - 1] - row < left ? x->loops.dims[inner - 1] - row : left;
            run_together(x, at, step);
            continue;
        }
        for (int k = 0; k < x->loops.n; k++) at[k] += part * MP_BLOCK * x->loops.strides[k][inner];
        if (x->row)
            run_floats(x, at, n);
        else
            run_whole(x, at, n);
    }
}

static void run_nest(nest *x, const mp_array *const *in, int n_in, const mp_array *out)
{
    if (!mp_array_elements(out)) return;
    build(x, in, n_in, out);
    int64_t n_blocks = (x->n_runs + x->runs_per_block - 1) / x->runs_per_block * x->blocks_per_run;
    mp_parallel(n_blocks, x->run < MP_BLOCK ? x->run * x->runs_per_block : MP_BLOCK, run_block, x);
}

void mp_elementwise(mp_row row, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out)
{
    nest x = {.row = row, .parameters = parameters};
    run_nest(&x, in, n_in, out);
}

void mp_elementwise_whole(mp_whole_row row, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out)
{
    nest x = {.whole = row, .parameters = parameters};
    run_nest(&x, in, n_in, out);
}

/* ---- sums over broadcast dimensions: gradients of biases, scales and scalars.
 *
 * One thread computes an output and adds its terms in memory order. If there is a single output with contiguous terms, the
 * terms are split into a fixed number of stretches, whose sums are added in order. */

enum { LANES = 64, STRETCHES = 64 };

typedef struct sum {
    const void *from;
    void *to;
    mp_dtype from_dtype, to_dtype;
    mp_sum_loops loops;
    int64_t column_blocks; /* for sums over columns: number of blocks of LANES outputs along the innermost kept dimension */
    float scale;
    bool add;
    double *partial; /* if there is a single output: the partial sums of its stretches of terms */
} sum;

static void store(const sum *x, int64_t at, double value)
{
    const float old = x->add ? mp_load_float(x->to, x->to_dtype, at) : 0;
    mp_store_float(x->to, x->to_dtype, at, old + (float)(value * x->scale));
}

MP_VECTOR static void add_lanes(const float *from, int64_t n, float *sums)
{
    for (int64_t k = 0; k < n; k++) sums[k] += from[k];
}

/* Returns the offset of term r relative to the first term of its sum, counted over the reduced dimensions before `until`. */
static int64_t reduced_at(const sum *x, int64_t r, int until)
{
    return mp_strided_offset(until, x->loops.reduced, x->loops.reduced_stride, r);
}

static void kept_at(const sum *x, int64_t k, int until, int64_t *from, int64_t *to)
{
    *from = mp_strided_offset(until, x->loops.kept, x->loops.kept_stride, k);
    *to = mp_strided_offset(until, x->loops.kept, x->loops.to_stride, k);
}

/* Computes LANES adjacent sums at once, whose terms are adjacent in `from`. Rows are summed in float within a stretch; the
 * sums of the stretches are added in double. */
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

/* Returns the sum of n terms along the innermost reduced dimension; the first term is at offset `from`. */
static double sum_stretch(const sum *x, int64_t from, int64_t n)
{
    float room[MP_BLOCK];
    double total = 0;
    int inner = x->loops.n_reduced - 1;
    int64_t stride = x->loops.n_reduced ? x->loops.reduced_stride[inner] : 1;
    for (int64_t k = 0; k < n; k += MP_BLOCK) {
        int64_t m = n - k < MP_BLOCK ? n - k : MP_BLOCK;
        total += mp_floats_sum(mp_floats_apart(x->from, x->from_dtype, from + k * stride, stride, m, room), m);
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

/* For a single output with contiguous terms: sums one stretch of the terms. */
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
