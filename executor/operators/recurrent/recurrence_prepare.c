/* recurrence_prepare.c - sizes of blocks, arrays in the workspace, and products of a recurrent layer. */
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/operators/recurrent/recurrence.h"

enum { ALIGNMENT = 256 };

/* The call in preparation; bytes: workspace bytes reserved so far. */
typedef struct preparing {
    const mp_operands *x;
    const mp_recurrent_engine *engine;
    void *state;
    mp_recurrence *r;
    int64_t bytes;
    mp_error *err;
} preparing;

/* Reserves workspace array k for a * b * c floats. */
static mp_status reserve_room(preparing *p, mp_recurrent_room k, int64_t a, int64_t b, int64_t c)
{
    int64_t n;
    p->r->at[k] = p->bytes;
    MP_ENSURE(mp_multiply(a, b, &n) && mp_multiply(n, c, &n) && mp_multiply(n, (int64_t)sizeof(float), &n) &&
                  mp_round_up(n, ALIGNMENT, &n) && mp_add(p->bytes, n, &p->bytes),
              p->err, MP_INVALID, "%s ('%s') needs too much workspace", p->x->op->kind, p->x->op->name);
    return MP_OK;
}

/* Reserves workspace array k for a copy of one direction of operand `a` or its gradient. Contiguous floats need no copy. a
 * NULL: the operand is absent. */
static mp_status room_of_weight(preparing *p, const mp_array *a, mp_recurrent_room k)
{
    if (!a) return MP_OK;
    mp_array part = mp_direction_of(a, 0);
    if (!mp_is_floats(&part)) MP_CHECK(reserve_room(p, k, mp_array_elements(&part), 1, 1));
    return MP_OK;
}

/* Reserves workspace array k for a copy of a block of X or its gradient (`a`). Contiguous floats need no copy. a NULL: the
 * gradient of X is not requested. */
static mp_status room_of_input(preparing *p, const mp_array *a, mp_recurrent_room k)
{
    const mp_recurrence *r = p->r;
    if (!a) return MP_OK;
    mp_array part = mp_steps_of_input(r, a, 0, r->sizes.n_steps);
    if (!mp_is_floats(&part)) MP_CHECK(reserve_room(p, k, r->steps, r->sizes.batch, r->sizes.input));
    return MP_OK;
}

static mp_status common_rooms(preparing *p)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const int64_t batch = r->sizes.batch, hidden = r->sizes.hidden;
    if (!x->is_backward || mp_asked(x, MP_RECURRENT_W)) MP_CHECK(room_of_input(p, &x->in[MP_RECURRENT_X], MP_ROOM_X));
    if (!x->is_backward || mp_asked(x, MP_RECURRENT_X)) MP_CHECK(room_of_weight(p, &x->in[MP_RECURRENT_W], MP_ROOM_W));
    MP_CHECK(room_of_weight(p, &x->in[MP_RECURRENT_R], MP_ROOM_R));
    MP_CHECK(reserve_room(p, MP_ROOM_PEEPHOLES, 3, hidden, 1));
    MP_CHECK(reserve_room(p, MP_ROOM_STATES, r->steps + 1, batch, hidden));
    MP_CHECK(reserve_room(p, MP_ROOM_H_FIRST, batch, hidden, 1));
    return reserve_room(p, MP_ROOM_C_FIRST, batch, hidden, 1);
}

static mp_status forward_rooms(preparing *p)
{
    const mp_recurrence *r = p->r;
    const int64_t batch = r->sizes.batch, hidden = r->sizes.hidden;
    const bool kept = p->x->extra[0].dtype;
    MP_CHECK(reserve_room(p, MP_ROOM_BIAS, 2, r->gates, hidden));
    if (!kept || !r->reserve.gates) MP_CHECK(reserve_room(p, MP_ROOM_GATES, r->steps * batch, r->gates, hidden));
    if (!kept || !r->reserve.seconds) MP_CHECK(reserve_room(p, MP_ROOM_SECOND, batch, hidden, 1));
    if (mp_given(p->x, MP_RECURRENT_LENGTHS)) MP_CHECK(reserve_room(p, MP_ROOM_SHOWN, r->steps, batch, hidden));
    return MP_OK;
}

static mp_status backward_rooms(preparing *p)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const int64_t batch = r->sizes.batch, hidden = r->sizes.hidden;
    const bool is_gru = r->cell.kind == MP_CELL_GRU;
    MP_CHECK(reserve_room(p, MP_ROOM_DH, batch, hidden, 1));
    MP_CHECK(reserve_room(p, MP_ROOM_DC, batch, hidden, 1));
    MP_CHECK(reserve_room(p, MP_ROOM_DY, r->steps, batch, hidden));
    MP_CHECK(reserve_room(p, MP_ROOM_D_GATES, r->steps * batch, r->gates, hidden));
    if (is_gru) MP_CHECK(reserve_room(p, MP_ROOM_D_SECOND, r->after_reset ? 1 : r->steps, batch, hidden));
    if (r->after_reset) MP_CHECK(reserve_room(p, MP_ROOM_R_H, r->steps, batch, hidden));
    MP_CHECK(room_of_input(p, mp_asked(x, MP_RECURRENT_X), MP_ROOM_DX));
    MP_CHECK(room_of_weight(p, mp_asked(x, MP_RECURRENT_W), MP_ROOM_DW));
    MP_CHECK(room_of_weight(p, mp_asked(x, MP_RECURRENT_R), MP_ROOM_DR));
    MP_CHECK(room_of_weight(p, mp_asked(x, MP_RECURRENT_B), MP_ROOM_DB));
    MP_CHECK(room_of_weight(p, mp_asked(x, MP_RECURRENT_P), MP_ROOM_DP));
    if (mp_asked(x, MP_RECURRENT_B)) MP_CHECK(reserve_room(p, MP_ROOM_ONES, r->steps, batch, 1));
    return MP_OK;
}

/* Returns a matrix of floats with row stride `stride`, as an operand of a product. */
static mp_stack matrix(int64_t rows, int64_t columns, int64_t stride)
{
    return (mp_stack){.rows = rows, .columns = columns, .row_stride = stride, .column_stride = 1, .dtype = MP_DTYPE_FLOAT};
}

static mp_status product(preparing *p, int k, mp_stack a, mp_stack b, mp_stack c, bool add)
{
    const mp_stacks stacks = {a, b, c};
    int64_t bytes = 0;
    MP_CHECK(p->engine->prepare(p->x, p->state, (mp_recurrent_product)k, &stacks, add, &bytes, p->err));
    if (bytes > p->r->product_bytes) p->r->product_bytes = bytes;
    return MP_OK;
}

static mp_status forward_products(preparing *p)
{
    const mp_recurrence *r = p->r;
    const int64_t batch = r->sizes.batch, h = r->sizes.hidden, in = r->sizes.input, all = r->gates * h, most = r->most * h;
    for (int rest = 0; rest < 1 + (r->rest > 0); rest++) {
        const int64_t rows = (rest ? r->rest : r->steps) * batch;
        MP_CHECK(product(p, MP_X_W + rest, matrix(rows, in, in), mp_stack_transposed(matrix(all, in, in)),
                         matrix(rows, all, all), false));
    }
    const mp_stack r_h = mp_stack_transposed(matrix(h, h, h));
    MP_CHECK(product(p, MP_H_R, matrix(batch, h, h), mp_stack_transposed(matrix(most, h, h)), matrix(batch, most, all), true));
    if (r->cell.kind == MP_CELL_GRU)
        MP_CHECK(product(p, MP_H_R_N, matrix(batch, h, h), r_h, matrix(batch, h, r->after_reset ? all : h), r->after_reset));
    return MP_OK;
}

/* Prepares backward's products over the rows of a whole block, or, with rest = 1, of the shorter last one. */
static mp_status block_products(preparing *p, int rest)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const int64_t h = r->sizes.hidden, in = r->sizes.input, all = r->gates * h, most = r->most * h;
    const int64_t rows = (rest ? r->rest : r->steps) * r->sizes.batch, second = r->after_reset ? all : h;
    const bool is_gru = r->cell.kind == MP_CELL_GRU;
    const mp_stack d_most = matrix(rows, most, all), d_last = matrix(rows, h, all), d_second = matrix(rows, h, second);
    const mp_stack states = matrix(rows, h, h), ones = matrix(1, rows, rows);
    if (mp_asked(x, MP_RECURRENT_X))
        MP_CHECK(product(p, MP_G_W + rest, matrix(rows, all, all), matrix(all, in, in), matrix(rows, in, in), true));
    if (mp_asked(x, MP_RECURRENT_W))
        MP_CHECK(product(p, MP_G_X + rest, mp_stack_transposed(matrix(rows, all, all)), matrix(rows, in, in),
                         matrix(all, in, in), true));
    if (mp_asked(x, MP_RECURRENT_R)) {
        MP_CHECK(product(p, MP_G_H + rest, mp_stack_transposed(d_most), states, matrix(most, h, h), true));
        if (is_gru) MP_CHECK(product(p, MP_G_H_N + rest, mp_stack_transposed(d_second), states, matrix(h, h, h), true));
    }
    if (mp_asked(x, MP_RECURRENT_B)) {
        MP_CHECK(product(p, MP_ONES + rest, ones, d_most, matrix(1, most, most), true));
        if (is_gru) MP_CHECK(product(p, MP_ONES_N + rest, ones, d_last, matrix(1, h, h), true));
        if (is_gru) MP_CHECK(product(p, MP_ONES_S + rest, ones, d_second, matrix(1, h, h), true));
    }
    return MP_OK;
}

static mp_status backward_products(preparing *p)
{
    const mp_recurrence *r = p->r;
    const int64_t batch = r->sizes.batch, h = r->sizes.hidden, all = r->gates * h, most = r->most * h;
    const mp_stack dh = matrix(batch, h, h);
    MP_CHECK(product(p, MP_G_R, matrix(batch, most, all), matrix(most, h, h), dh, true));
    if (r->cell.kind == MP_CELL_GRU)
        MP_CHECK(product(p, MP_G_R_N, matrix(batch, h, r->after_reset ? all : h), matrix(h, h, h), dh, !r->after_reset));
    for (int rest = 0; rest < 1 + (r->rest > 0); rest++) MP_CHECK(block_products(p, rest));
    return MP_OK;
}

static void size_blocks(mp_recurrence *r)
{
    r->steps = (MP_RECURRENT_ROWS + r->sizes.batch - 1) / r->sizes.batch;
    if (r->steps > r->sizes.n_steps) r->steps = r->sizes.n_steps;
    r->n_blocks = (r->sizes.n_steps + r->steps - 1) / r->steps;
    r->rest = r->sizes.n_steps % r->steps;
}

mp_status mp_recurrence_prepare(const mp_operands *x, const mp_recurrent_engine *engine, size_t bytes, mp_call *call,
                                mp_error *err)
{
    mp_recurrence *r = mp_alloc(1, bytes);
    preparing p = {.x = x, .engine = engine, .state = r, .r = r, .err = err};
    MP_ENSURE(call->state = r, err, MP_NOMEM, "out of memory");
    *r = (mp_recurrence){.sizes = mp_recurrent_read(x->model, x->op), .reserve = mp_reserve_of(x->model, x->op)};
    const char *unknown = mp_cell_read(x->op, &r->cell);
    if (unknown) return MP_NO_KERNEL(x, err, unknown);
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    const mp_recurrent *s = &r->sizes;
    if (!s->n_steps || !s->batch || !s->input || !s->hidden) return MP_NO_KERNEL(x, err, "an operand without elements");
    memset(r->at, -1, sizeof r->at);
    r->gates = r->sizes.gates;
    r->most = r->cell.kind == MP_CELL_GRU ? 2 : r->gates;
    r->after_reset = r->cell.kind == MP_CELL_GRU && !r->cell.linear_before_reset;
    size_blocks(r);
    MP_CHECK(common_rooms(&p));
    MP_CHECK(x->is_backward ? backward_rooms(&p) : forward_rooms(&p));
    MP_CHECK(x->is_backward ? backward_products(&p) : forward_products(&p));
    MP_CHECK(reserve_room(&p, MP_ROOM_PRODUCTS, (r->product_bytes + 3) / 4, 1, 1));
    call->workspace_bytes = p.bytes;
    if (x->is_backward) call->adds = x->adds;
    return MP_OK;
}

/* ---- views of parts of the operands. */

mp_array mp_part_of(const mp_array *a, int64_t from, int rank, const int64_t *dims, const int64_t *strides)
{
    mp_array part = {.dtype = a->dtype, .rank = rank};
    if (a->data) part.data = (char *)a->data + from * (mp_dtype_bits(a->dtype) / 8);
    for (int d = 0; d < rank; d++) {
        part.dims[d] = dims[d];
        part.strides[d] = strides[d];
    }
    return part;
}

mp_array mp_steps_of_input(const mp_recurrence *r, const mp_array *x, int64_t t, int64_t n)
{
    const int step = r->sizes.batch_first ? 1 : 0, batch = 1 - step;
    return mp_part_of(x, t * x->strides[step], 3, (const int64_t[]){n, r->sizes.batch, r->sizes.input},
                      (const int64_t[]){x->strides[step], x->strides[batch], x->strides[2]});
}

mp_array mp_steps_of_output(const mp_recurrence *r, const mp_array *y, int d, int64_t t, int64_t n)
{
    const bool batch_first = r->sizes.batch_first;
    const int step = batch_first ? 1 : 0, direction = batch_first ? 2 : 1, batch = batch_first ? 0 : 2;
    return mp_part_of(y, t * y->strides[step] + d * y->strides[direction], 3,
                      (const int64_t[]){n, r->sizes.batch, r->sizes.hidden},
                      (const int64_t[]){y->strides[step], y->strides[batch], y->strides[3]});
}

mp_array mp_state_of(const mp_recurrence *r, const mp_array *state, int d)
{
    const int direction = r->sizes.batch_first ? 1 : 0, batch = 1 - direction;
    return mp_part_of(state, d * state->strides[direction], 2, (const int64_t[]){r->sizes.batch, r->sizes.hidden},
                      (const int64_t[]){state->strides[batch], state->strides[2]});
}

mp_array mp_direction_of(const mp_array *a, int d)
{
    return mp_part_of(a, d * a->strides[0], a->rank - 1, a->dims + 1, a->strides + 1);
}

mp_array mp_floats_at(float *data, int rank, const int64_t *dims)
{
    mp_array a = mp_array_plain(MP_DTYPE_FLOAT, rank, dims);
    a.data = data;
    return a;
}

bool mp_is_floats(const mp_array *a)
{
    return a->dtype == MP_DTYPE_FLOAT && mp_array_is_plain(a);
}

const mp_array *mp_given(const mp_operands *x, int i)
{
    return i < x->n_in && x->in[i].dtype ? &x->in[i] : NULL;
}

const mp_array *mp_asked(const mp_operands *x, int i)
{
    return x->is_backward && i >= x->from && i < x->to && i < x->n_in && x->d_in[i].dtype ? &x->d_in[i] : NULL;
}
