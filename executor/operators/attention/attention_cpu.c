/* attention_cpu.c - attention forward, in tiles with a running maximum and sum of each row (Milakov, Gimelshein 2018, "Online
 * normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention"). A job is one block of rows of one matrix: it takes
 * the columns from left to right, whoever runs it, so that results do not depend on the number of threads. */
#include "executor/operators/attention/backward_cpu.h"
#include "executor/operators/attention/tiles_cpu.h"

#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/normalizations/softmaxes_cpu.h"

typedef struct rooms {
    float *scores, *sums, *q, *k, *v;
    float *best, *total, *u; /* per row; u per column */
} rooms;

/* The rooms of a worker, which are `*n` floats; base NULL: only their number is asked for. */
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

/* Scores become exponentials over the best of their row so far; what was summed up over another best is brought to it. */
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
        float factor = is_closed ? 0 : 1 / r->total[i]; /* nothing is left of a row: 0 times infinity, no number */
        if (!y.turned) mp_row_scale(sum, s->spec.size.value_depth, factor, y.at + i * y.ld);
        for (int64_t k = 0; y.turned && k < s->spec.size.value_depth; k++) y.at[k * y.ld + i] = sum[k] * factor;
        /* of a closed row: what makes its probabilities 0 */
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

const mp_kernel mp_cpu_attentions[] = {
    {"ScaledDotProductAttention", "memplan", prepare_forward, mp_attention_backward_prepare},
    {0},
};
