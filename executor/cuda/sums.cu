/* sums.cu - the sum over what was broadcast: gradients of biases, scales and scalars.
 *
 * Terms are cut into stretches by their number alone, each is summed in float by one thread (neighbouring outputs that lie side
 * by side) or by the threads of a row, and the sums of the stretches are added in double.
 */
#include "executor/cuda/grid.cuh"

#include "executor/cuda/kernels.h"

/* Outputs that lie side by side go to neighbouring threads from this many on. */
enum {
    COLUMNS = 16,
    COLUMN_THREADS = 1 << 17,
    COLUMN_TERMS = 32,
    ROWS = 1 << 10,
    ROW_TERMS = 1 << 12,
    ROW_TERMS_MAX = 1 << 14
};

/* How a sum is cut. */
struct cut {
    bool by_columns;
    int64_t n_stretches, length;
};

static int64_t blocks_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static cut cut_of(const mp_sum_loops *x)
{
    cut c = {false, 1, 1};
    const int inner = x->n_kept - 1;
    c.by_columns = x->n_kept && x->kept_stride[inner] == 1 && x->kept[inner] >= COLUMNS;
    const int64_t outputs = c.by_columns ? COLUMN_THREADS : ROWS, least = c.by_columns ? COLUMN_TERMS : ROW_TERMS;
    int64_t wanted = blocks_of(outputs, x->n_out > 0 ? x->n_out : 1);
    const int64_t most = blocks_of(x->n_terms, least), fewest = c.by_columns ? 1 : blocks_of(x->n_terms, ROW_TERMS_MAX);
    wanted = wanted < most ? wanted : most;
    wanted = wanted > fewest ? wanted : fewest;
    c.length = blocks_of(x->n_terms, wanted > 0 ? wanted : 1);
    c.n_stretches = c.length > 0 ? blocks_of(x->n_terms, c.length) : 1;
    return c;
}

/* What both kernels of the first turn know. */
struct terms {
    mp_sum_loops loops;
    const void *from;
    void *to;
    mp_dtype from_dtype, to_dtype;
    float scale;
    bool add;
    int64_t n_stretches, length;
    double *partial; /* n_stretches per output, n_stretches > 1 */

    MP_BODY int64_t term_at(int64_t r) const
    {
        int64_t at = 0;
        for (int d = loops.n_reduced - 1; d > 0; d--) {
            at += r % loops.reduced[d] * loops.reduced_stride[d];
            r /= loops.reduced[d];
        }
        return loops.n_reduced ? at + r * loops.reduced_stride[0] : 0;
    }
    MP_BODY int64_t output_at(int64_t k, const int64_t *stride) const
    {
        int64_t at = 0;
        for (int d = loops.n_kept - 1; d >= 0; d--) {
            at += k % loops.kept[d] * stride[d];
            k /= loops.kept[d];
        }
        return at;
    }
    MP_BODY void store(int64_t k, double value) const
    {
        const int64_t at = output_at(k, loops.to_stride);
        const float old = add ? mp_load_any(to, to_dtype, at) : 0;
        mp_store_any(to, to_dtype, at, old + (float)(value * scale));
    }
    MP_BODY void done(int64_t k, int64_t stretch, double value) const
    {
        if (n_stretches > 1)
            partial[k * n_stretches + stretch] = value;
        else
            store(k, value);
    }
};

/* One thread per output and stretch. */
struct columns_of {
    terms x;
    MP_BODY void operator()(int64_t index) const
    {
        enum { BLOCK = 128 };
        const int64_t k = index % x.loops.n_out, stretch = index / x.loops.n_out;
        const int64_t from = x.output_at(k, x.loops.kept_stride), first = stretch * x.length;
        const int64_t until = first + x.length < x.loops.n_terms ? first + x.length : x.loops.n_terms;
        double total = 0;
        for (int64_t r = first; r < until; r += BLOCK) {
            float sum = 0;
            for (int64_t t = r; t < r + BLOCK && t < until; t++) sum += mp_load_any(x.from, x.from_dtype, from + x.term_at(t));
            total += (double)sum;
        }
        x.done(k, stretch, total);
    }
};

/* The threads of a row per output and stretch. */
struct rows_of : mp_sums {
    enum { PHASES = 1 };
    terms x;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t k = row / x.n_stretches, term = row % x.n_stretches * x.length + column;
        if (term >= x.loops.n_terms) return value{0};
        return value{mp_load_any(x.from, x.from_dtype, x.output_at(k, x.loops.kept_stride) + x.term_at(term))};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        x.done(row / x.n_stretches, row % x.n_stretches, (double)totals[0].x);
    }
};

/* The second turn: the sums of an output's stretches. */
struct stretches_of : mp_double_sums {
    enum { PHASES = 1 };
    terms x;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{x.partial[row * x.n_stretches + column]};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { x.store(row, totals[0].x); }
};

int64_t mp_cuda_sum_workspace_bytes(const mp_array *from, const mp_array *to)
{
    const mp_sum_loops loops = mp_sum_loops_of(from, to);
    const cut c = cut_of(&loops);
    return c.n_stretches > 1 ? loops.n_out * c.n_stretches * (int64_t)sizeof(double) : 0;
}

void mp_cuda_sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace)
{
    terms x;
    x.loops = mp_sum_loops_of(from, to);
    const cut c = cut_of(&x.loops);
    if (!x.loops.n_out || !x.loops.n_terms) return;
    x.from = from->data;
    x.to = to->data;
    x.from_dtype = from->dtype;
    x.to_dtype = to->dtype;
    x.scale = scale;
    x.add = add;
    x.n_stretches = c.n_stretches;
    x.length = c.length;
    x.partial = (double *)workspace;
    if (c.by_columns) {
        const columns_of f = {x};
        mp_each(x.loops.n_out * c.n_stretches, f);
    } else {
        rows_of f;
        f.x = x;
        mp_rows(x.loops.n_out * c.n_stretches, c.length, f);
    }
    if (c.n_stretches > 1) {
        stretches_of f;
        f.x = x;
        mp_rows(x.loops.n_out, c.n_stretches, f);
    }
}
