/* attention_cuda.cu - attention on the GPU, in tiles that are never stored. Forward uses a running maximum and sum of each row
 * (Milakov, Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention"). Backward uses the
 * logarithm of each row's sum. A thread block computes a tile of one result and processes its operands from left to right, or
 * from top to bottom, so sums have a fixed order. Neighbouring blocks recompute the same scores. */
#include "executor/operators/attention/attention_cuda.cuh"

#include "executor/kernel/vector_math.h"
extern "C" {
#include "executor/operators/attention/packed_operands.h"
}

MP_INLINE int64_t tiles_of(int64_t n)
{
    return (n + MP_SIDE - 1) / MP_SIDE;
}

namespace
{

/* ---- forward. */

struct forward_tile {
    enum { THREADS = MP_TILE_THREADS, PARTS = MP_TILE_THREADS / MP_SIDE };
    struct shared {
        mp_shared_slices slices;
        mp_shared_tile p;
        float part[MP_SIDE][PARTS], best[MP_SIDE], factor[MP_SIDE], total[MP_SIDE];
    };
    struct own {
        mp_own_tile scores, sums;
    };
    mp_attend a;
    int64_t chunks; /* number of column blocks of V, of MP_SIDE columns each */

    static MP_BODY float shift_of(float best) { return best == -INFINITY ? 0 : best; }

    template <class BLOCK> MP_BODY void scores_at(BLOCK &b, int64_t m, int64_t row, int64_t column) const
    {
        const mp_matrix_view add = a.added.matrix(m), place = a.positions.matrix(m);
        b.phase([&](int, shared &, own &o) { mp_tile_clear(&o.scores); });
        mp_block_product(b, a.q.matrix(m).from(row, 0), a.k.matrix(m).turned().from(0, column),
                         [](own &o) { return &o.scores; });
        b.phase([&](int t, shared &s, own &o) {
            mp_each_own(t, [&](int i, int j, int r, int c) {
                s.p.at[r][c] = a.masked(add, place, row + r, column + c, o.scores.x[i][j]);
            });
        });
    }

    /* Replaces scores by exponentials relative to the row's current maximum. If a tile raises the maximum, the earlier sums are
     * rescaled. */
    template <class BLOCK> MP_BODY void take_in(BLOCK &b, int64_t m, int64_t row, int64_t column) const
    {
        b.phase([&](int t, shared &s, own &) {
            const int r = t / PARTS;
            float best = -INFINITY;
            for (int c = t % PARTS; c < MP_SIDE; c += PARTS) best = s.p.at[r][c] > best ? s.p.at[r][c] : best;
            s.part[r][t % PARTS] = best;
        });
        b.phase([&](int t, shared &s, own &) {
            if (t >= MP_SIDE) return;
            float best = s.best[t];
            for (int k = 0; k < PARTS; k++) best = s.part[t][k] > best ? s.part[t][k] : best;
            s.factor[t] = expf(s.best[t] - shift_of(best));
            s.best[t] = best;
        });
        b.phase([&](int t, shared &s, own &o) {
            const int r = t / PARTS;
            const float shift = shift_of(s.best[r]);
            float sum = 0;
            for (int c = t % PARTS; c < MP_SIDE; c += PARTS) {
                const float p = mp_exp_to_zero(s.p.at[r][c] - shift);
                sum += p;
                s.p.at[r][c] = a.pass ? p * a.kept(m, row + r, column + c) : p;
            }
            s.part[r][t % PARTS] = sum;
            mp_each_own(t, [&](int i, int j, int own_row, int) { o.sums.x[i][j] *= s.factor[own_row]; });
        });
        b.phase([&](int t, shared &s, own &) {
            if (t >= MP_SIDE) return;
            float sum = 0;
            for (int k = 0; k < PARTS; k++) sum += s.part[t][k];
            s.total[t] = s.total[t] * s.factor[t] + sum;
        });
    }

    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        const int64_t chunk = k % chunks * MP_SIDE, n_tiles = tiles_of(a.size.rows);
        const int64_t row = k / chunks % n_tiles * MP_SIDE, m = k / chunks / n_tiles;
        b.phase([&](int t, shared &s, own &o) {
            mp_tile_clear(&o.sums);
            if (t < MP_SIDE) s.best[t] = -INFINITY, s.total[t] = 0;
        });
        for (int64_t column = 0; column < a.size.columns && !a.is_hidden(row, column); column += MP_SIDE) {
            scores_at(b, m, row, column);
            take_in(b, m, row, column);
            mp_tile_product_shared<false>(
                b, [](shared &s) { return &s.p; }, a.size.columns - column, a.v.matrix(m).from(column, chunk),
                [](own &o) { return &o.sums; });
        }
        b.phase([&](int t, shared &s, own &o) {
            const mp_matrix_view y = a.y.matrix(m).from(row, chunk);
            /* a row whose scores are all masked gives 0 times infinity, that is NaN, unless the operator requires zeros */
            mp_each_own(t, [&](int i, int j, int r, int c) {
                y.store(r, c, o.sums.x[i][j] * (a.safe && s.best[r] == -INFINITY ? 0 : 1 / s.total[r]));
            });
            if (a.lse && chunk == 0 && t < MP_SIDE && row + t < a.size.rows)
                a.lse[m * a.size.rows + row + t] = a.safe && s.best[t] == -INFINITY ? INFINITY : s.best[t] + logf(s.total[t]);
        });
    }
};

/* ---- backward: with D = rowsum(dY * Y),
 *
 * dV = P^T dY;  dP = dY V^T;  dS = P * (dP - D);  dQ = scale dS K;  dK = scale dS^T Q
 *
 * Dropout is drawn again and applied to P and dP. */

struct sums_of_rows : mp_sums {
    enum { PHASES = 1 };
    mp_attend a;
    float *d;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t m = row / a.size.rows, r = row % a.size.rows;
        return value{a.dy.matrix(m).load(r, column) * a.y.matrix(m).load(r, column)};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { d[row] = totals[0].x; }
};

struct backward_shared {
    mp_shared_slices slices;
    mp_shared_tile p, ds;
};
struct backward_own {
    mp_own_tile scores, dp, first, second;
};

/* Computes the probabilities p (after dropout) and the gradients dS of the scores, for the tile that begins at (row, column).
 */
template <class BLOCK>
static MP_BODY void gradients_at(BLOCK &b, const mp_attend &a, const float *d, int64_t m, int64_t row, int64_t column)
{
    const mp_matrix_view add = a.added.matrix(m), place = a.positions.matrix(m);
    b.phase([&](int, backward_shared &, backward_own &o) {
        mp_tile_clear(&o.scores);
        mp_tile_clear(&o.dp);
    });
    mp_block_product(b, a.q.matrix(m).from(row, 0), a.k.matrix(m).turned().from(0, column),
                     [](backward_own &o) { return &o.scores; });
    mp_block_product(b, a.dy.matrix(m).from(row, 0), a.v.matrix(m).turned().from(0, column),
                     [](backward_own &o) { return &o.dp; });
    b.phase([&](int t, backward_shared &s, backward_own &o) {
        mp_each_own(t, [&](int i, int j, int r, int c) {
            const int64_t at = m * a.size.rows + row + r;
            float p = 0, ds = 0;
            if (row + r < a.size.rows && column + c < a.size.columns) {
                const float w = a.kept(m, row + r, column + c);
                p = mp_exp_to_zero(a.masked(add, place, row + r, column + c, o.scores.x[i][j]) - a.lse[at]);
                /* a score that a mask has replaced has no gradient */
                if (!a.is_replaced(place, row + r, column + c)) ds = p * (o.dp.x[i][j] * w - d[at]);
                p *= w;
            }
            s.p.at[r][c] = p;
            s.ds.at[r][c] = ds;
        });
    });
}

static MP_BODY void put_tile(int t, const mp_matrix_view &to, const mp_own_tile &from, float scale)
{
    mp_each_own(t, [&](int i, int j, int r, int c) { to.store(r, c, scale * from.x[i][j]); });
}

/* Computes a tile of the gradients of K and V in one thread block. */
struct backward_columns {
    enum { THREADS = MP_TILE_THREADS };
    typedef backward_shared shared;
    typedef backward_own own;
    mp_attend a;
    mp_matrix_stack dk, dv;
    const float *d;
    int64_t chunks; /* number of blocks of MP_SIDE columns for dK and dV: enough for the larger depth of the two */

    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        const int64_t chunk = k % chunks * MP_SIDE, n_tiles = tiles_of(a.size.columns);
        const int64_t column = k / chunks % n_tiles * MP_SIDE, m = k / chunks / n_tiles;
        const bool wants_k = dk.of.data && chunk < a.size.depth, wants_v = dv.of.data && chunk < a.size.value_depth;
        b.phase([&](int, shared &, own &o) {
            mp_tile_clear(&o.first);
            mp_tile_clear(&o.second);
        });
        for (int64_t row = 0; row < a.size.rows; row += MP_SIDE) {
            if (a.is_hidden(row, column)) continue;
            gradients_at(b, a, d, m, row, column);
            if (wants_k)
                mp_tile_product_shared<true>(
                    b, [](shared &s) { return &s.ds; }, a.size.rows - row, a.q.matrix(m).from(row, chunk),
                    [](own &o) { return &o.first; });
            if (wants_v)
                mp_tile_product_shared<true>(
                    b, [](shared &s) { return &s.p; }, a.size.rows - row, a.dy.matrix(m).from(row, chunk),
                    [](own &o) { return &o.second; });
        }
        b.phase([&](int t, shared &, own &o) {
            if (wants_k) put_tile(t, dk.matrix(m).from(column, chunk), o.first, a.scale);
            if (wants_v) put_tile(t, dv.matrix(m).from(column, chunk), o.second, 1);
        });
    }
};

/* Computes a tile of the gradient of Q in one thread block. */
struct backward_rows {
    enum { THREADS = MP_TILE_THREADS };
    typedef backward_shared shared;
    typedef backward_own own;
    mp_attend a;
    mp_matrix_stack dq;
    const float *d;
    int64_t chunks; /* number of column blocks of dQ, of MP_SIDE columns each */

    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        const int64_t chunk = k % chunks * MP_SIDE, n_tiles = tiles_of(a.size.rows);
        const int64_t row = k / chunks % n_tiles * MP_SIDE, m = k / chunks / n_tiles;
        b.phase([&](int, shared &, own &o) { mp_tile_clear(&o.first); });
        for (int64_t column = 0; column < a.size.columns && !a.is_hidden(row, column); column += MP_SIDE) {
            gradients_at(b, a, d, m, row, column);
            mp_tile_product_shared<false>(
                b, [](shared &s) { return &s.ds; }, a.size.columns - column, a.k.matrix(m).from(column, chunk),
                [](own &o) { return &o.first; });
        }
        b.phase([&](int t, shared &, own &o) { put_tile(t, dq.matrix(m).from(row, chunk), o.first, a.scale); });
    }
};

/* ---- the calls. */

static mp_matrix_stack stack_of(mp_operand of, const mp_matrices *form, int64_t rows, int64_t columns)
{
    return mp_matrix_stack{of, *form, rows, columns};
}

static mp_attend attend(const mp_attention_spec *f, const mp_operands *x)
{
    const mp_attention *size = &f->size;
    mp_attend a = {};
    a.size = *size;
    a.scale = f->scale;
    a.fill = f->fill;
    a.ratio = f->ratio;
    a.causal = f->causal;
    a.keeps = f->keeps;
    a.safe = f->safe;
    a.q = stack_of(mp_input(x, 0), &f->q, size->rows, size->depth);
    a.k = stack_of(mp_input(x, 1), &f->k, size->columns, size->depth);
    a.v = stack_of(mp_input(x, 2), &f->v, size->columns, size->value_depth);
    a.y = stack_of(mp_output(x, 0), &f->y, size->rows, size->value_depth);
    if (x->is_backward) a.dy = stack_of(mp_operand_of(&x->d_out[0]), &f->y, size->rows, size->value_depth);
    a.added = stack_of(mp_input(x, MP_ATTENTION_ADDED), &f->added, size->rows, size->columns);
    a.positions = stack_of(mp_input(x, MP_ATTENTION_POSITIONS), &f->positions, size->rows, size->columns);
    a.lse = x->extra[0].dtype ? (float *)x->extra[0].data : NULL;
    a.pass = f->ratio > 0 ? mp_cuda_pass_of(&x->run) : NULL;
    a.op = (uint32_t)x->op_index;
    return a;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_attention_spec *form = (const mp_attention_spec *)call->state;
    const mp_attention *size = &form->size;
    const int64_t chunks = tiles_of(size->value_depth);
    const forward_tile f = {attend(form, x), chunks};
    mp_blocks(size->n_batch * tiles_of(size->rows) * chunks, f);
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_attention_spec *form = (const mp_attention_spec *)call->state;
    const mp_attention *size = &form->size;
    float *d = (float *)x->workspace;
    const sums_of_rows sums = {{}, attend(form, x), d};
    mp_rows(size->n_batch * size->rows, size->value_depth, sums);
    const mp_operand dq = mp_input_gradient(x, 0), dk = mp_input_gradient(x, 1), dv = mp_input_gradient(x, 2);
    if (dk.data || dv.data) {
        int64_t deepest = dk.data ? size->depth : 0;
        if (dv.data && size->value_depth > deepest) deepest = size->value_depth;
        const backward_columns f = {sums.a, stack_of(dk, &form->k, size->columns, size->depth),
                                    stack_of(dv, &form->v, size->columns, size->value_depth), d, tiles_of(deepest)};
        mp_blocks(size->n_batch * tiles_of(size->columns) * f.chunks, f);
    }
    if (dq.data) {
        const backward_rows f = {sums.a, stack_of(dq, &form->q, size->rows, size->depth), d, tiles_of(size->depth)};
        mp_blocks(size->n_batch * tiles_of(size->rows) * f.chunks, f);
    }
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_spec form;
    mp_status st = mp_attention_spec_read(x, &form, err);
    if (st) return st;
    if (form.wants[MP_ATTENTION_ADDED]) return MP_NO_KERNEL(x, err, "the gradient of a mask");
    MP_STATE(mp_attention_spec, s, call, err);
    *s = form;
    call->run = x->is_backward ? run_backward : run_forward;
    if (x->is_backward) call->workspace_bytes = form.size.n_batch * form.size.rows * (int64_t)sizeof(float);
    return MP_OK;
}

static mp_status prepare_any(const mp_operands *x, mp_call *call, mp_error *err)
{
    return mp_packed_attention_prepare(prepare, x, call, err);
}

} // namespace

extern "C" const mp_kernel mp_cuda_attentions[] = {
    {"ScaledDotProductAttention", "memplan", prepare_any, prepare_any},
    {},
};
