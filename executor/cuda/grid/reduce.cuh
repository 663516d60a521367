/* reduce.cuh - reductions over some dimensions of strided operands: sums, extremes and their positions, gradients of
 * parameters.
 *
 *     struct f {
 *         struct part { float sum; };    // result of one stretch of terms
 *         struct value { double sum; };  // result of all stretches; may be the same type
 *         MP_BODY part none() const;                                 // neutral element of join
 *         MP_BODY part at(const int64_t *at, int64_t r) const;       // value of term r, at offset at[i] in operand i
 *         MP_BODY part join(part a, part b) const;                   // in a fixed order
 *         MP_BODY value wide(part a) const;
 *         MP_BODY value join_wide(value a, value b) const;
 *         MP_BODY void end(const int64_t *at, value total) const;    // once per output; at: its offsets
 *     };
 *
 * The terms of an output are split into stretches. The split depends on sizes and layout only. If outputs are adjacent in
 * memory, one thread reduces a stretch; otherwise the threads of a row reduce it together. A second launch joins the stretches
 * of each output. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

/* The offsets of terms and outputs in N operands. Each index tuple of the kept dimensions is one output. Each index tuple of
 * the reduced dimensions is one term of every output. */
template <int N> struct mp_reduce_places {
    int n_kept, n_reduced;
    int64_t n_out, n_terms;
    mp_divisor kept[MP_ARRAY_RANK], reduced[MP_ARRAY_RANK];
    int64_t kept_at[N][MP_ARRAY_RANK], reduced_at[N][MP_ARRAY_RANK];

    /* The reduced dimensions are those along which operand `by` has stride 0; with by < 0, all dimensions are reduced. */
    mp_reduce_places(const mp_loops *loops, int by)
    {
        n_kept = n_reduced = 0;
        n_out = n_terms = 1;
        for (int d = 0; d < loops->rank; d++) {
            const bool keeps = by >= 0 && loops->strides[by][d] != 0;
            const int k = keeps ? n_kept++ : n_reduced++;
            (keeps ? kept : reduced)[k] = mp_divisor_of(loops->dims[d]);
            (keeps ? n_out : n_terms) *= loops->dims[d];
            for (int i = 0; i < N; i++) (keeps ? kept_at : reduced_at)[i][k] = loops->strides[i][d];
        }
    }
    MP_BODY void find_output(int64_t k, int64_t *at) const
    {
        for (int i = 0; i < N; i++) at[i] = 0;
        add(n_kept, kept, kept_at, k, at);
    }
    MP_BODY void find_term(int64_t r, const int64_t *output, int64_t *at) const
    {
        for (int i = 0; i < N; i++) at[i] = output[i];
        add(n_reduced, reduced, reduced_at, r, at);
    }
    static MP_BODY void add(int n, const mp_divisor *dims, const int64_t (*steps)[MP_ARRAY_RANK], int64_t k, int64_t *at)
    {
        for (int d = n - 1; d > 0; d--) {
            int64_t index;
            k = mp_divide_rest(k, &dims[d], &index);
            for (int i = 0; i < N; i++) at[i] += index * steps[i][d];
        }
        for (int i = 0; n > 0 && i < N; i++) at[i] += k * steps[i][0];
    }
};

/* The split of the terms of an output into stretches of consecutive terms: n_stretches of `length` terms each, the last may be
 * shorter. */
struct mp_cut {
    bool by_columns;
    int64_t n_stretches, length;
};

static inline int64_t mp_parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static inline mp_cut mp_cut_of(int64_t n_out, int64_t n_terms, bool side_by_side)
{
    /* COLUMNS: minimum number of adjacent outputs for which adjacent threads reduce adjacent outputs; COLUMN_THREADS: target
     * number of simultaneous sums. */
    enum { COLUMNS = 16, COLUMN_THREADS = 1 << 17, COLUMN_TERMS = 32, ROWS = 1 << 10, ROW_TERMS = 1 << 12, ROW_MOST = 1 << 14 };
    mp_cut c = {side_by_side && n_out >= COLUMNS, 1, 1};
    const int64_t outputs = c.by_columns ? COLUMN_THREADS : ROWS, least = c.by_columns ? COLUMN_TERMS : ROW_TERMS;
    int64_t wanted = mp_parts_of(outputs, n_out > 0 ? n_out : 1);
    const int64_t most = mp_parts_of(n_terms, least), fewest = c.by_columns ? 1 : mp_parts_of(n_terms, ROW_MOST);
    wanted = wanted < most ? wanted : most;
    wanted = wanted > fewest ? wanted : fewest;
    c.length = mp_parts_of(n_terms, wanted > 0 ? wanted : 1);
    c.n_stretches = c.length > 0 ? mp_parts_of(n_terms, c.length) : 1;
    return c;
}

template <int N> static mp_cut mp_cut_of_places(const mp_reduce_places<N> &places)
{
    const int inner = places.n_kept - 1;
    return mp_cut_of(places.n_out, places.n_terms, inner >= 0 && places.kept_at[0][inner] == 1);
}

template <int N, class F> struct mp_reducing {
    mp_reduce_places<N> places;
    F f;
    mp_cut cut;
    /* workspace for the partial results of stretches: n_stretches values per output; used if n_stretches > 1 */
    typename F::value *partial;

    MP_BODY void done(int64_t k, int64_t stretch, const int64_t *output, typename F::value total) const
    {
        if (cut.n_stretches > 1)
            partial[k * cut.n_stretches + stretch] = total;
        else
            f.end(output, total);
    }
};

/* Adjacent outputs: one thread per output and stretch. A thread loads several terms before it joins the first, so that the
 * load latencies overlap. */
template <int N, class F> struct mp_reduce_columns {
    mp_reducing<N, F> x;
    MP_BODY void operator()(int64_t index) const
    {
        enum { BLOCK = 128, UNDERWAY = 8 };
        const int64_t k = index % x.places.n_out, stretch = index / x.places.n_out, first = stretch * x.cut.length;
        const int64_t until = first + x.cut.length < x.places.n_terms ? first + x.cut.length : x.places.n_terms;
        int64_t output[N];
        x.places.find_output(k, output);
        typename F::value total = x.f.wide(x.f.none());
        for (int64_t r = first; r < until; r += BLOCK) {
            const int64_t end = r + BLOCK < until ? r + BLOCK : until;
            typename F::part part = x.f.none(), terms[UNDERWAY];
            int64_t t = r;
            for (; t + UNDERWAY <= end; t += UNDERWAY) {
                MP_UNROLL
                for (int u = 0; u < UNDERWAY; u++) terms[u] = term(output, t + u);
                MP_UNROLL
                for (int u = 0; u < UNDERWAY; u++) part = x.f.join(part, terms[u]);
            }
            for (; t < end; t++) part = x.f.join(part, term(output, t));
            total = x.f.join_wide(total, x.f.wide(part));
        }
        x.done(k, stretch, output, total);
    }
    MP_BODY typename F::part term(const int64_t *output, int64_t t) const
    {
        int64_t at[N];
        x.places.find_term(t, output, at);
        return x.f.at(at, t);
    }
};

/* Outputs that are not adjacent in memory: the threads of a row reduce one stretch of an output together. */
template <int N, class F> struct mp_reduce_rows {
    typedef typename F::part value;
    enum { PHASES = 1 };
    mp_reducing<N, F> x;
    MP_BODY value none(int) const { return x.f.none(); }
    MP_BODY value join(int, value a, value b) const { return x.f.join(a, b); }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t term = row % x.cut.n_stretches * x.cut.length + column;
        int64_t output[N], at[N];
        if (term >= x.places.n_terms) return x.f.none();
        x.places.find_output(row / x.cut.n_stretches, output);
        x.places.find_term(term, output, at);
        return x.f.at(at, term);
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        int64_t output[N];
        x.places.find_output(row / x.cut.n_stretches, output);
        x.done(row / x.cut.n_stretches, row % x.cut.n_stretches, output, x.f.wide(totals[0]));
    }
};

/* The second launch of a reduction: combines the partial results of each output's stretches, in order. */
template <int N, class F> struct mp_reduce_stretches {
    typedef typename F::value value;
    enum { PHASES = 1 };
    mp_reducing<N, F> x;
    MP_BODY value none(int) const { return x.f.wide(x.f.none()); }
    MP_BODY value join(int, value a, value b) const { return x.f.join_wide(a, b); }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return x.partial[row * x.cut.n_stretches + column];
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        int64_t output[N];
        x.places.find_output(row, output);
        x.f.end(output, totals[0]);
    }
};

template <int N, class F> static int64_t mp_reduce_workspace_bytes(const mp_reduce_places<N> &places)
{
    const mp_cut cut = mp_cut_of_places(places);
    return cut.n_stretches > 1 ? places.n_out * cut.n_stretches * (int64_t)sizeof(typename F::value) : 0;
}

/* Runs the reduction f over the operands described by `places`. workspace: mp_reduce_workspace_bytes bytes, aligned to 16. */
template <int N, class F> static void mp_reduce(const mp_reduce_places<N> &places, const F &f, void *workspace)
{
    const mp_reducing<N, F> x = {places, f, mp_cut_of_places(places), (typename F::value *)workspace};
    if (!places.n_out) return;
    if (x.cut.by_columns) {
        const mp_reduce_columns<N, F> columns = {x};
        mp_each(places.n_out * x.cut.n_stretches, columns);
    } else {
        const mp_reduce_rows<N, F> rows = {x};
        mp_rows(places.n_out * x.cut.n_stretches, x.cut.length, rows);
    }
    if (x.cut.n_stretches > 1) {
        const mp_reduce_stretches<N, F> stretches = {x};
        mp_rows(places.n_out, x.cut.n_stretches, stretches);
    }
}

/* ---- common reductions: structs that define all members except the operands. */

/* The reduction to a sum: terms are added in float within a stretch, and the stretches' sums in double. */
struct mp_float_sum {
    struct part {
        float x;
    };
    struct value {
        double x;
    };
    MP_BODY part none() const { return part{0}; }
    MP_BODY part join(part a, part b) const { return part{a.x + b.x}; }
    MP_BODY value wide(part a) const { return value{(double)a.x}; }
    MP_BODY value join_wide(value a, value b) const { return value{a.x + b.x}; }
};

/* The reduction to two sums in one pass over the terms, each computed as in mp_float_sum. */
struct mp_float_sums {
    struct part {
        float a, b;
    };
    struct value {
        double a, b;
    };
    MP_BODY part none() const { return part{0, 0}; }
    MP_BODY part join(part x, part y) const { return part{x.a + y.a, x.b + y.b}; }
    MP_BODY value wide(part x) const { return value{(double)x.a, (double)x.b}; }
    MP_BODY value join_wide(value x, value y) const { return value{x.a + y.a, x.b + y.b}; }
};
