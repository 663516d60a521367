/* tiles_cpu.c - reads and writes tiles of matrices, multiplies them with oneDNN, and masks scores. */
#include "executor/operators/attention/tiles_cpu.h"

#include <math.h>
#include <string.h>

#include "executor/cpu/base/dnnl.h"
#include "executor/cpu/base/parallel.h"

static int64_t start_of(const mp_matrices *m, const mp_tile_part *p)
{
    int64_t at = p->row * m->row_stride + p->column * m->column_stride, rest = p->matrix;
    for (int d = m->n_batch - 1; d >= 0; d--) {
        at += rest % m->batch[d] * m->batch_stride[d];
        rest /= m->batch[d];
    }
    return at;
}

/* True if adjacent columns of the tile are adjacent in memory. A tile with a single column may have any stride. */
static bool lies_by_rows(const mp_matrices *m, const mp_tile_part *p)
{
    return m->column_stride == 1 || p->columns == 1;
}
static bool lies_by_columns(const mp_matrices *m, const mp_tile_part *p)
{
    return m->row_stride == 1 || p->rows == 1;
}

bool mp_tile_is_there(const mp_matrices *m, const mp_tile_part *p)
{
    return m->dtype == MP_DTYPE_FLOAT && (lies_by_rows(m, p) || lies_by_columns(m, p));
}

/* Sets the address of a tile. Returns true if the tile is a view of the matrix, false if it is a copy in `room`. */
static bool place(const mp_matrices *m, const void *data, const mp_tile_part *p, float *room, mp_tile *tile)
{
    tile->turned = !lies_by_rows(m, p) && lies_by_columns(m, p);
    if (mp_tile_is_there(m, p)) {
        int64_t stride = tile->turned ? m->column_stride : m->row_stride, length = tile->turned ? p->rows : p->columns;
        tile->at = (float *)data + start_of(m, p);
        tile->ld = stride > length ? stride : length;
        return true;
    }
    tile->at = room;
    tile->ld = tile->turned ? p->rows : p->columns;
    return false;
}

/* Returns the offset in the matrix of line k of a tile, and the stride of the line's elements. A line is a row, or, if the
 * tile is turned, a column. */
static int64_t line_of(const mp_matrices *m, const mp_tile_part *p, bool turned, int64_t k, int64_t *step)
{
    mp_tile_part line = *p;
    *(turned ? &line.column : &line.row) += k;
    *step = turned ? m->row_stride : m->column_stride;
    return start_of(m, &line);
}

mp_tile mp_tile_read(const mp_matrices *m, const void *data, const mp_tile_part *part, float *room)
{
    mp_tile t;
    if (place(m, data, part, room, &t)) return t;
    int64_t n = t.turned ? part->columns : part->rows, step;
    for (int64_t k = 0; k < n; k++) {
        float *line = t.at + k * t.ld;
        int64_t at = line_of(m, part, t.turned, k, &step);
        const float *from = mp_floats_apart(data, m->dtype, at, step, t.ld, line);
        if (from != line) memcpy(line, from, (size_t)t.ld * sizeof *line);
    }
    return t;
}

mp_tile mp_tile_zeros(const mp_matrices *m, void *data, const mp_tile_part *part, float *room)
{
    mp_tile t;
    place(m, data, part, room, &t);
    int64_t n = t.turned ? part->columns : part->rows, length = t.turned ? part->rows : part->columns;
    for (int64_t k = 0; k < n; k++) memset(t.at + k * t.ld, 0, (size_t)length * sizeof *t.at);
    return t;
}

void mp_tile_write(const mp_matrices *m, void *data, const mp_tile_part *part, const mp_tile *tile)
{
    mp_tile there;
    if (place(m, data, part, tile->at, &there)) return;
    int64_t n = tile->turned ? part->columns : part->rows, step;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = line_of(m, part, tile->turned, k, &step);
        mp_floats_put_apart(data, m->dtype, at, step, tile->ld, tile->at + k * tile->ld);
    }
}

mp_tile mp_tile_transposed(mp_tile t)
{
    t.turned = !t.turned;
    return t;
}

mp_tile mp_tile_from(mp_tile t, int64_t row)
{
    t.at += t.turned ? row : row * t.ld;
    return t;
}

int mp_tile_product(int64_t m, int64_t n, int64_t k, float alpha, mp_tile a, mp_tile b, float beta, mp_tile c)
{
    if (c.turned) /* oneDNN writes row-major results, so if the tile C is turned, its transpose C^T = B^T A^T is computed */
        return mp_tile_product(n, m, k, alpha, mp_tile_transposed(b), mp_tile_transposed(a), beta, mp_tile_transposed(c));
    return (int)dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', m, n, k, alpha, a.at, a.ld, b.at, b.ld, beta, c.at,
                           c.ld);
}

static void add_mask(const mp_attention_job *j, const mp_tile_part *part, float *scores)
{
    const mp_matrices *m = &j->s->spec.added;
    const void *data = j->x->in[MP_ATTENTION_ADDED].data;
    float room[MP_TILE_COLUMNS];
    for (int64_t i = 0; i < part->rows; i++) {
        mp_tile_part row = {part->matrix, part->row + i, part->column, 1, part->columns};
        float *s = scores + i * MP_TILE_COLUMNS;
        const float *added = mp_floats_apart(data, m->dtype, start_of(m, &row), m->column_stride, part->columns, room);
        for (int64_t k = 0; k < part->columns; k++) s[k] += added[k];
    }
}

/* Sets each score that the boolean mask replaces to `value`. */
static void replace(const mp_attention_job *j, const mp_tile_part *part, float *scores, float value)
{
    const mp_matrices *m = &j->s->spec.positions;
    const uint8_t *data = j->x->in[MP_ATTENTION_POSITIONS].data;
    for (int64_t i = 0; i < part->rows; i++) {
        mp_tile_part row = {part->matrix, part->row + i, part->column, 1, part->columns};
        float *s = scores + i * MP_TILE_COLUMNS;
        const uint8_t *at = data + start_of(m, &row);
        for (int64_t k = 0; k < part->columns; k++)
            if ((at[k * m->column_stride] != 0) != j->s->spec.keeps) s[k] = value;
    }
}

void mp_attention_scores(mp_attention_job *j, const mp_tile_part *part, mp_tile q, mp_tile k, float *scores)
{
    const mp_attention_state *s = j->s;
    mp_tile to = {scores, MP_TILE_COLUMNS, false};
    int status = mp_tile_product(part->rows, part->columns, s->spec.size.depth, s->spec.scale, q, mp_tile_transposed(k), 0, to);
    if (status) atomic_store(&j->failed, status);
    if (s->spec.positions.dtype) replace(j, part, scores, s->spec.fill);
    if (s->spec.added.dtype) add_mask(j, part, scores);
    for (int64_t i = 0; s->spec.causal && i < part->rows; i++)
        for (int64_t c = part->row + i + 1 - part->column; c < part->columns; c++)
            if (c >= 0) scores[i * MP_TILE_COLUMNS + c] = -INFINITY;
}

void mp_attention_forget_replaced(const mp_attention_job *j, const mp_tile_part *part, float *d)
{
    if (j->s->spec.positions.dtype) replace(j, part, d, 0);
}

void mp_attention_draw(const mp_attention_job *j, const mp_tile_part *part, int64_t i, float *u)
{
    const mp_attention *size = &j->s->spec.size;
    int64_t element = (part->matrix * size->rows + part->row + i) * size->columns + part->column;
    mp_dealt_uniforms(j->x, &j->s->dealt, element, part->columns, u);
}

/* Returns the distribution of scores over ranks, if each rank has a part of the heads or samples. */
static mp_dealt dealt_of(const mp_operands *x, const mp_attention_spec *spec)
{
    const mp_tensor_part *part = x->model->tensors[x->op->in[0]].part;
    const int64_t *perm = mp_attention_perm(x->op, 0);
    mp_dealt dealt = {.ranks = part ? (int)part->ranks : 1};
    int64_t scores = spec->size.rows * spec->size.columns;
    for (int d = spec->q.n_batch - 1; part && d >= 0; d--) {
        if ((perm ? perm[d] : d) == part->dim) dealt.run = scores * spec->q.batch[d] / part->outer;
        scores *= spec->q.batch[d];
    }
    return dealt;
}

mp_status mp_attention_prepare(const mp_operands *x, mp_call *call, mp_attention_state **out, mp_error *err)
{
    MP_STATE(mp_attention_state, s, call, err);
    *out = s;
    MP_CHECK(mp_attention_spec_read(x, &s->spec, err));
    s->dealt = dealt_of(x, &s->spec);
    return MP_OK;
}

mp_status mp_attention_rooms(mp_attention_state *s, int64_t n_jobs, int64_t room_floats, const mp_operands *x, mp_call *call,
                             mp_error *err)
{
    s->n_workers = mp_least(mp_parallel_threads(), n_jobs);
    if (s->n_workers < 1) s->n_workers = 1;
    s->room_floats = (room_floats + 15) / 16 * 16;
    MP_ENSURE(mp_multiply(s->n_workers * (int64_t)sizeof(float), s->room_floats, &call->workspace_bytes), err, MP_INVALID,
              "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    return MP_OK;
}

mp_status mp_attention_run(const mp_call *call, const mp_operands *x, void (*body)(void *job, int64_t worker), mp_error *err)
{
    const mp_attention_state *s = call->state;
    mp_attention_job j = {.s = s, .x = x};
    atomic_init(&j.failed, 0);
    mp_parallel(s->n_workers, s->spec.size.rows * s->spec.size.columns * s->spec.size.depth, body, &j);
    return mp_dnnl_check((dnnl_status_t)atomic_load(&j.failed), x->op, "a product of tiles", err);
}
