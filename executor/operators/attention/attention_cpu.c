/* attention_cpu.c - attention on the CPU, in tiles with a running maximum and sum of each row (Milakov, Gimelshein 2018,
 * "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention"). A thread computes a block of rows of one
 * matrix. It processes the columns from left to right, so results do not depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/attention/tiles_cpu.h"
#include "executor/operators/normalizations/softmaxes_cpu.h"

typedef struct rooms {
    float *scores, *sums, *q, *k, *v;
    float *best, *total, *u; /* best, total: maximum of each row's scores so far, and sum of their exponentials; u: dropout's
                                random number for each column */
} rooms;

/* Lays out the buffers of a worker from `base` on, and sets *n to their number of floats. base NULL: only sets *n. */
static rooms lay_out(const mp_attention *size, float *base, int64_t *n)
{
    const int64_t rows = MP_TILE_ROWS, columns = MP_TILE_COLUMNS;
    const int64_t floats[] = {rows * columns,
                              rows * size->value_depth,
                              rows * size->depth,
                              columns * size->depth,
                              columns * size->value_depth,
                              rows,
                              rows,
                              columns};
    rooms r;
    float **all[] = {&r.scores, &r.sums, &r.q, &r.k, &r.v, &r.best, &r.total, &r.u};
    *n = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        *all[k] = base ? base + *n : NULL;
        *n += (floats[k] + 15) / 16 * 16;
    }
    return r;
}

MP_VECTOR static void drop(const float *u, int64_t n, float ratio, float *p)
{
    float factor = 1 / (1 - ratio);
    for (int64_t k = 0; k < n; k++) p[k] = u[k] >= ratio ? p[k] * factor : 0;
}

/* Replaces scores by exponentials relative to the row's current maximum. If a tile raises the maximum, the earlier sums are
 * rescaled. */
static void take_in(mp_attention_job *j, const mp_tile_part *part, rooms *r)
{
    const mp_attention_state *s = j->s;
    for (int64_t i = 0; i < part->rows; i++) {
        float *p = r->scores + i * MP_TILE_COLUMNS, *sum = r->sums + i * s->spec.size.value_depth;
        float best = mp_row_largest(p, part->columns);
        best = r->best[i] > best ? r->best[i] : best;
        float shift = best == -INFINITY ? 0 : best, factor = expf(r->best[i] - shift);
        r->total[i] = r->total[i] * factor + (float)mp_row_exponentials(p, part->columns, shift, p);
        r->best[i] = best;
        if (factor != 1) mp_row_scale(sum, s->spec.size.value_depth, factor, sum);
        if (s->spec.ratio > 0) {
            mp_attention_draw(j, part, i, r->u);
            drop(r->u, part->columns, s->spec.ratio, p);
        }
    }
}

static void finish_rows(const mp_attention_job *j, const mp_tile_part *of_y, rooms *r)
{
    const mp_attention_state *s = j->s;
    float *lse = j->x->extra[0].dtype ? j->x->extra[0].data : NULL;
    mp_tile y = mp_tile_zeros(&s->spec.y, j->x->out[0].data, of_y, r->v);
    for (int64_t i = 0; i < of_y->rows; i++) {
        const float *sum = r->sums + i * s->spec.size.value_depth;
        const bool is_closed = s->spec.safe && r->best[i] == -INFINITY;
        float factor = is_closed ? 0 : 1 / r->total[i]; /* a row whose scores are all masked gives 0 times infinity, that is
                                                           NaN, unless the operator requires zeros */
        if (!y.turned) mp_row_scale(sum, s->spec.size.value_depth, factor, y.at + i * y.ld);
        for (int64_t k = 0; y.turned && k < s->spec.size.value_depth; k++) y.at[k * y.ld + i] = sum[k] * factor;
        /* lse is infinity for a row whose scores are all masked, so that backward computes probabilities of 0 */
        if (lse) lse[of_y->matrix * s->spec.size.rows + of_y->row + i] = is_closed ? INFINITY : r->best[i] + logf(r->total[i]);
    }
    mp_tile_write(&s->spec.y, j->x->out[0].data, of_y, &y);
}

static void forward_rows(mp_attention_job *j, int64_t matrix, int64_t row, rooms *r)
{
    const mp_attention_state *s = j->s;
    const mp_attention *size = &s->spec.size;
    const int64_t rows = mp_least(MP_TILE_ROWS, size->rows - row);
    const mp_tile sums = {r->sums, size->value_depth, false}, scores = {r->scores, MP_TILE_COLUMNS, false};
    mp_tile q = mp_tile_read(&s->spec.q, j->x->in[0].data, &(mp_tile_part){matrix, row, 0, rows, size->depth}, r->q);
    memset(r->sums, 0, (size_t)(rows * size->value_depth) * sizeof *r->sums);
    for (int64_t i = 0; i < rows; i++) r->best[i] = -INFINITY, r->total[i] = 0;
    for (int64_t column = 0; column < size->columns; column += MP_TILE_COLUMNS) {
        mp_tile_part part = {matrix, row, column, rows, mp_least(MP_TILE_COLUMNS, size->columns - column)};
        if (mp_attention_is_hidden(s, &part)) break;
        mp_tile_part keys = {matrix, column, 0, part.columns, size->depth},
                     values = {matrix, column, 0, part.columns, size->value_depth};
        mp_attention_scores(j, &part, q, mp_tile_read(&s->spec.k, j->x->in[1].data, &keys, r->k), r->scores);
        take_in(j, &part, r);
        mp_tile v = mp_tile_read(&s->spec.v, j->x->in[2].data, &values, r->v);
        int status = mp_tile_product(rows, size->value_depth, part.columns, 1, scores, v, 1, sums);
        if (status) atomic_store(&j->failed, status);
    }
    finish_rows(j, &(mp_tile_part){matrix, row, 0, rows, size->value_depth}, r);
}

static int64_t row_blocks(const mp_attention *size)
{
    return (size->rows + MP_TILE_ROWS - 1) / MP_TILE_ROWS;
}

static void forward_worker(void *data, int64_t worker)
{
    mp_attention_job *j = data;
    const mp_attention_state *s = j->s;
    int64_t n, n_blocks = row_blocks(&s->spec.size);
    rooms r = lay_out(&s->spec.size, (float *)j->x->workspace + worker * s->room_floats, &n);
    for (int64_t k = worker; k < s->spec.size.n_batch * n_blocks; k += s->n_workers)
        forward_rows(j, k / n_blocks, k % n_blocks * MP_TILE_ROWS, &r);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    return mp_attention_run(call, x, forward_worker, err);
}

static mp_status prepare_forward(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_state *s;
    int64_t floats;
    MP_CHECK(mp_attention_prepare(x, call, &s, err));
    call->run = run_forward;
    lay_out(&s->spec.size, NULL, &floats);
    return mp_attention_rooms(s, s->spec.size.n_batch * row_blocks(&s->spec.size), floats, x, call, err);
}

/* ---- the gradients of Q, K and V, tile by tile. The probabilities are e^(scores - lse). D = rowsum(dY * Y) equals the sum
 * over a row of the probabilities times their gradients.
 *
 * dV = P^T dY; dP = dY V^T; dS = P * (dP - D); dQ = scale dS K; dK = scale dS^T Q; dA = dS, where A is the additive mask
 *
 * Dropout is drawn again and applied to P and dP. A job is one matrix. If A has a gradient, a job consists of all matrices that
 * share elements of A. The sums of a job run over matrices and tiles in a fixed order. */

typedef struct backward_rooms {
    float *p, *dp,
        *d; /* p, dp: tiles of probabilities and of their gradients; d: for each row of dY, D (the row sum of dY * Y) */
    float *q, *dy, *y, *k, *v; /* tiles of operands */
    /* sum_q: all rows of dQ; sum_k, sum_v: a tile of dK and of dV; u: dropout's random numbers */
    float *sum_q, *sum_k, *sum_v, *u;
    float *sum_added; /* the gradient of the whole additive mask */
} backward_rooms;

/* Returns the elements of the additive mask that belong to one matrix, as one tile. If the mask is broadcast over rows or
 * columns, the tile has one row or column. */
static mp_tile_part all_added(const mp_attention_state *s, int64_t matrix)
{
    const mp_matrices *m = &s->spec.d_added;
    return (mp_tile_part){matrix, 0, 0, m->row_stride ? s->spec.size.rows : 1, m->column_stride ? s->spec.size.columns : 1};
}

/* True if one thread must compute all matrices along batch dimension d, because they share elements of the additive mask's
 * gradient. */
static bool is_joined(const mp_attention_state *s, int d)
{
    return s->spec.wants[MP_ATTENTION_ADDED] && !s->spec.d_added.batch_stride[d];
}

/* Returns the number of matrices that one job of backward processes. One thread runs a job. */
static int64_t matrices_of_job(const mp_attention_state *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->spec.q.n_batch; d++) n *= is_joined(s, d) ? s->spec.q.batch[d] : 1;
    return n;
}

/* Returns the index of the k-th matrix of a job of backward. */
static int64_t matrix_of(const mp_attention_state *s, int64_t job, int64_t k)
{
    int64_t matrix = 0, place = 1;
    for (int d = s->spec.q.n_batch - 1; d >= 0; d--) {
        const int64_t n = s->spec.q.batch[d];
        int64_t *rest = is_joined(s, d) ? &k : &job;
        matrix += *rest % n * place;
        *rest /= n;
        place *= n;
    }
    return matrix;
}

/* Lays out the buffers of a worker for backward from `base` on, as lay_out does for forward. */
static backward_rooms lay_out_backward(const mp_attention_state *s, float *base, int64_t *n)
{
    const int64_t rows = MP_TILE_ROWS, columns = MP_TILE_COLUMNS, depth = s->spec.size.depth,
                  value_depth = s->spec.size.value_depth;
    const mp_tile_part added = all_added(s, 0);
    const bool in_memory = !s->spec.wants[MP_ATTENTION_ADDED] || mp_tile_is_there(&s->spec.d_added, &added);
    const int64_t floats[] = {rows * columns,
                              rows * columns,
                              s->spec.size.rows,
                              rows * depth,
                              rows * value_depth,
                              rows * value_depth,
                              columns * depth,
                              columns * value_depth,
                              s->spec.wants[0] ? s->spec.size.rows * depth : 0,
                              columns * depth,
                              columns * value_depth,
                              columns,
                              in_memory ? 0 : added.rows * added.columns};
    backward_rooms r;
    float **all[] = {&r.p, &r.dp, &r.d, &r.q, &r.dy, &r.y, &r.k, &r.v, &r.sum_q, &r.sum_k, &r.sum_v, &r.u, &r.sum_added};
    *n = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        *all[k] = base ? base + *n : NULL;
        *n += (floats[k] + 15) / 16 * 16;
    }
    return r;
}

/* Computes the numbers D that backward needs: d[i] is the dot product of row i of dY and row i of Y. */
static void find_d(const mp_attention_job *j, int64_t matrix, backward_rooms *r)
{
    const mp_attention *size = &j->s->spec.size;
    const int64_t n = size->value_depth;
    for (int64_t row = 0; row < size->rows; row += MP_TILE_ROWS) {
        mp_tile_part part = {matrix, row, 0, mp_least(MP_TILE_ROWS, size->rows - row), n};
        mp_tile dy = mp_tile_read(&j->s->spec.y, j->x->d_out[0].data, &part, r->dy);
        mp_tile y = mp_tile_read(&j->s->spec.y, j->x->out[0].data, &part, r->y);
        for (int64_t i = 0; i < part.rows; i++) {
            double sum = 0;
            if (!y.turned) sum = mp_row_dot(dy.at + i * dy.ld, y.at + i * y.ld, n);
            for (int64_t k = 0; y.turned && k < n; k++) sum += (double)dy.at[k * dy.ld + i] * (double)y.at[k * y.ld + i];
            r->d[row + i] = (float)sum;
        }
    }
}

/* Computes the gradients of n scores from their probabilities p and the probabilities' gradients: dp becomes p (dp - d), where
 * d is the row sum of dY * Y. */
MP_VECTOR static void softmax_gradient(const float *p, int64_t n, float d, float *dp)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) dp[k] = p[k] * (dp[k] - d);
}

/* As softmax_gradient, with dropout. p becomes the probabilities after dropout, which the gradient of V uses. */
MP_VECTOR static void dropped_gradient(const float *u, int64_t n, float ratio, float d, float *p, float *dp)
{
    float factor = 1 / (1 - ratio);
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) {
        float w = u[k] >= ratio ? factor : 0;
        dp[k] = p[k] * (dp[k] * w - d);
        p[k] *= w;
    }
}

/* Adds the gradients of a tile's scores, `ds`, to the gradient of the additive mask. */
static void add_to_added(const mp_attention_state *s, const mp_tile_part *part, const float *ds, const mp_tile *sum)
{
    const mp_tile_part all = all_added(s, part->matrix);
    const int64_t down = all.rows == 1 ? 0
                         : sum->turned ? 1
                                       : sum->ld,
                  right = all.columns == 1 ? 0
                          : sum->turned    ? sum->ld
                                           : 1;
    for (int64_t i = 0; i < part->rows; i++) {
        const float *from = ds + i * MP_TILE_COLUMNS;
        float *to = sum->at + (part->row + i) * down + part->column * right;
        for (int64_t k = 0; k < part->columns; k++) to[k * right] += from[k];
    }
}

static void probabilities_and_gradients(mp_attention_job *j, const mp_tile_part *part, mp_tile q, mp_tile k, mp_tile v,
                                        mp_tile dy, const mp_tile *added, backward_rooms *r)
{
    const mp_attention_state *s = j->s;
    const float *lse = (const float *)j->x->extra[0].data + part->matrix * s->spec.size.rows + part->row;
    const mp_tile dp = {r->dp, MP_TILE_COLUMNS, false};
    mp_attention_scores(j, part, q, k, r->p);
    int status = mp_tile_product(part->rows, part->columns, s->spec.size.value_depth, 1, dy, mp_tile_transposed(v), 0, dp);
    if (status) atomic_store(&j->failed, status);
    for (int64_t i = 0; i < part->rows; i++) {
        float *p = r->p + i * MP_TILE_COLUMNS, *to = r->dp + i * MP_TILE_COLUMNS, d = r->d[part->row + i];
        mp_row_exponentials(p, part->columns, lse[i], p);
        if (s->spec.ratio > 0) {
            mp_attention_draw(j, part, i, r->u);
            dropped_gradient(r->u, part->columns, s->spec.ratio, d, p, to);
        } else {
            softmax_gradient(p, part->columns, d, to);
        }
    }
    if (s->spec.wants[MP_ATTENTION_ADDED]) add_to_added(s, part, r->dp, added);
    mp_attention_forget_replaced(j, part, r->dp);
}

/* Computes the gradients of a tile of K and V, and adds the tile's contribution to the gradient of Q. */
static void backward_columns(mp_attention_job *j, int64_t matrix, int64_t column, mp_tile sum_q, const mp_tile *added,
                             backward_rooms *r)
{
    const mp_attention_state *s = j->s;
    const mp_operands *x = j->x;
    const int64_t depth = s->spec.size.depth, value_depth = s->spec.size.value_depth;
    const int64_t columns = mp_least(MP_TILE_COLUMNS, s->spec.size.columns - column);
    const mp_tile_part keys = {matrix, column, 0, columns, depth}, values = {matrix, column, 0, columns, value_depth};
    const mp_tile p = {r->p, MP_TILE_COLUMNS, true}, ds = {r->dp, MP_TILE_COLUMNS, false}; /* p holds P^T */
    mp_tile k = mp_tile_read(&s->spec.k, x->in[1].data, &keys, r->k),
            v = mp_tile_read(&s->spec.v, x->in[2].data, &values, r->v);
    mp_tile dk = {0}, dv = {0};
    if (s->spec.wants[1]) dk = mp_tile_zeros(&s->spec.k, x->d_in[1].data, &keys, r->sum_k);
    if (s->spec.wants[2]) dv = mp_tile_zeros(&s->spec.v, x->d_in[2].data, &values, r->sum_v);
    for (int64_t row = 0; row < s->spec.size.rows; row += MP_TILE_ROWS) {
        mp_tile_part part = {matrix, row, column, mp_least(MP_TILE_ROWS, s->spec.size.rows - row), columns};
        if (mp_attention_is_hidden(s, &part)) continue;
        mp_tile_part queries = {matrix, row, 0, part.rows, depth}, results = {matrix, row, 0, part.rows, value_depth};
        mp_tile q = mp_tile_read(&s->spec.q, x->in[0].data, &queries, r->q);
        mp_tile dy = mp_tile_read(&s->spec.y, x->d_out[0].data, &results, r->dy);
        int status = 0;
        probabilities_and_gradients(j, &part, q, k, v, dy, added, r);
        if (s->spec.wants[2]) status |= mp_tile_product(columns, value_depth, part.rows, 1, p, dy, 1, dv);
        if (s->spec.wants[1])
            status |= mp_tile_product(columns, depth, part.rows, s->spec.scale, mp_tile_transposed(ds), q, 1, dk);
        if (s->spec.wants[0])
            status |= mp_tile_product(part.rows, depth, columns, s->spec.scale, ds, k, 1, mp_tile_from(sum_q, row));
        if (status) atomic_store(&j->failed, status);
    }
    if (s->spec.wants[1]) mp_tile_write(&s->spec.k, x->d_in[1].data, &keys, &dk);
    if (s->spec.wants[2]) mp_tile_write(&s->spec.v, x->d_in[2].data, &values, &dv);
}

static void backward_matrix(mp_attention_job *j, int64_t matrix, const mp_tile *added, backward_rooms *r)
{
    const mp_attention_state *s = j->s;
    const mp_tile_part all = {matrix, 0, 0, s->spec.size.rows, s->spec.size.depth};
    mp_tile dq = {0};
    find_d(j, matrix, r);
    if (s->spec.wants[0]) dq = mp_tile_zeros(&s->spec.q, j->x->d_in[0].data, &all, r->sum_q);
    for (int64_t column = 0; column < s->spec.size.columns; column += MP_TILE_COLUMNS)
        backward_columns(j, matrix, column, dq, added, r);
    if (s->spec.wants[0]) mp_tile_write(&s->spec.q, j->x->d_in[0].data, &all, &dq);
}

static void backward_worker(void *data, int64_t worker)
{
    mp_attention_job *j = data;
    const mp_attention_state *s = j->s;
    const bool wants_added = s->spec.wants[MP_ATTENTION_ADDED], adds = j->x->adds & MP_BIT(MP_ATTENTION_ADDED);
    const int64_t n_matrices = matrices_of_job(s), n_jobs = s->spec.size.n_batch / mp_most(n_matrices, 1);
    int64_t n;
    backward_rooms r = lay_out_backward(s, (float *)j->x->workspace + worker * s->room_floats, &n);
    for (int64_t job = worker; job < n_jobs; job += s->n_workers) {
        mp_tile added = {0};
        const mp_tile_part all = all_added(s, matrix_of(s, job, 0));
        void *to = wants_added ? j->x->d_in[MP_ATTENTION_ADDED].data : NULL;
        if (wants_added)
            added = adds ? mp_tile_read(&s->spec.d_added, to, &all, r.sum_added)
                         : mp_tile_zeros(&s->spec.d_added, to, &all, r.sum_added);
        for (int64_t k = 0; k < n_matrices; k++) backward_matrix(j, matrix_of(s, job, k), &added, &r);
        if (wants_added) mp_tile_write(&s->spec.d_added, to, &all, &added);
    }
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    return mp_attention_run(call, x, backward_worker, err);
}

static mp_status prepare_backward(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_state *s;
    int64_t floats;
    MP_CHECK(mp_attention_prepare(x, call, &s, err));
    call->run = run_backward;
    call->adds = x->adds & MP_BIT(MP_ATTENTION_ADDED);
    lay_out_backward(s, NULL, &floats);
    return mp_attention_rooms(s, s->spec.size.n_batch / mp_most(matrices_of_job(s), 1), floats, x, call, err);
}

const mp_kernel mp_cpu_attentions[] = {{"ScaledDotProductAttention", "memplan", prepare_forward, prepare_backward}, {0}};
