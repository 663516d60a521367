/* elementwise_cpu.c - a row function over a loop nest, in blocks that are fixed by the shapes. */
#include "executor/operators/elementwise/elementwise_cpu.h"

#include <string.h>

enum { ALL = MP_LOOP_OPERANDS };

/* The loop nest of one call. Operand 0 is the output. */
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

/* n values of operand k from element `at` on, `stride` apart, as contiguous floats: where they lie, or in `room`. */
static const float *gather(const nest *x, int k, int64_t at, int64_t stride, int64_t n, float *room)
{
    if (stride == 1 && mp_is_real(x->dtype[k])) return mp_floats(x->data[k], x->dtype[k], at, n, room);
    if (stride == 0) {
        float value = mp_load_float(x->data[k], x->dtype[k], at);
        for (int64_t e = 0; e < n; e++) room[e] = value;
    } else if (x->dtype[k] == MP_DTYPE_FLOAT) {
        const float *from = (const float *)x->data[k] + at;
        for (int64_t e = 0; e < n; e++) room[e] = from[e * stride];
    } else {
        for (int64_t e = 0; e < n; e++) room[e] = mp_load_float(x->data[k], x->dtype[k], at + e * stride);
    }
    return room;
}

static void run_floats(const nest *x, const int64_t *at, int64_t n)
{
    float rooms[ALL][MP_BLOCK];
    const float *in[MP_OPERANDS_MAX];
    int inner = x->loops.rank - 1;
    int64_t stride = x->loops.strides[0][inner];
    for (int k = 1; k < x->loops.n; k++) in[k - 1] = gather(x, k, at[k], x->loops.strides[k][inner], n, rooms[k]);
    bool straight = stride == 1 && mp_is_real(x->dtype[0]);
    float *out = straight ? mp_floats_room(x->data[0], x->dtype[0], at[0], rooms[0]) : rooms[0];
    x->row(x->parameters, n, in, out);
    if (straight)
        mp_floats_done(x->data[0], x->dtype[0], at[0], n, out);
    else
        for (int64_t e = 0; e < n; e++) mp_store_float(x->data[0], x->dtype[0], at[0] + e * stride, out[e]);
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

/* Where the operands of run r begin. */
static void locate(const nest *x, int64_t r, int64_t *at)
{
    for (int k = 0; k < x->loops.n; k++) at[k] = 0;
    for (int d = x->loops.rank - 2; d >= 0; d--) {
        int64_t i = r % x->loops.dims[d];
        r /= x->loops.dims[d];
        for (int k = 0; k < x->loops.n; k++) at[k] += i * x->loops.strides[k][d];
    }
}

/* m short runs that lie behind each other in the output, as one: operands that do so too are read where they lie, others are
 * collected. */
static void run_together(const nest *x, const int64_t *at, int64_t m)
{
    float rooms[ALL][MP_BLOCK];
    const float *in[MP_OPERANDS_MAX];
    int inner = x->loops.rank - 1, outer = inner - 1;
    int64_t n = m * x->run;
    for (int k = 1; k < x->loops.n; k++) {
        int64_t stride = x->loops.strides[k][inner], step = x->loops.strides[k][outer];
        if (stride == 1 && step == x->run) {
            in[k - 1] = gather(x, k, at[k], 1, n, rooms[k]);
            continue;
        }
        for (int64_t r = 0; r < m; r++) {
            float *row = rooms[k] + r * x->run;
            if (r && !step) {
                memcpy(row, rooms[k], (size_t)x->run * sizeof *row);
                continue;
            }
            const float *from = gather(x, k, at[k] + r * step, stride, x->run, row);
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
