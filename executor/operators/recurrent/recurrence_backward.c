/* recurrence_backward.c - the gradients of a recurrent layer: step by step through a block, then the block's products. */
#include "executor/operators/recurrent/recurrence_backward.h"

#include "executor/operators/recurrent/recurrence_pass.h"

/* Where the gradients of a direction's weights are summed: contiguous floats; NULL: not asked for. */
typedef struct sums {
    float *w, *r, *b, *p;
    float *dh, *dc;
} sums;

/* The place of operand i's gradient, or room k; zero where nothing is to be added to. */
static float *begin_sum(const mp_recurrent_pass *p, int i, mp_recurrent_room k)
{
    const mp_array *to = mp_asked(p->x, i);
    if (!to) return NULL;
    const mp_array part = mp_direction_of(to, p->d);
    float *room = mp_room(p->r, p->x, k), *place = room ? room : part.data;
    if (room || !(p->x->adds & MP_BIT(i))) p->engine->fill(place, mp_array_elements(&part), 0);
    return place;
}

static void end_sum(const mp_recurrent_pass *p, int i, mp_recurrent_room k)
{
    const mp_array *to = mp_asked(p->x, i);
    float *room = mp_room(p->r, p->x, k);
    if (!to || !room) return;
    const mp_array part = mp_direction_of(to, p->d), from = mp_floats_at(room, part.rank, part.dims);
    p->engine->copy(&from, &part, p->x->adds & MP_BIT(i));
}

/* The hidden states of steps [t, t + n) and of the step before them, as forward had them. */
static void load_states(const mp_recurrent_pass *p, int64_t t, int64_t n)
{
    const mp_recurrence *r = p->r;
    const int64_t floats = mp_step_floats(r), batch = r->sizes.batch, hidden = r->sizes.hidden;
    int64_t from = p->back ? t : t - 1, count = n + 1;
    const bool at_start = from<0, at_end = from + count> r->sizes.n_steps;
    if (at_start || at_end) {
        const mp_array first = mp_floats_at(p->h_first, 1, &floats);
        const mp_array to = mp_floats_at(mp_state_before(p, p->back ? n - 1 : 0), 1, &floats);
        p->engine->copy(&first, &to, false);
        count--;
        from += at_start;
    }
    if (!p->kept && !p->x->out[0].data) return; /* nobody asks for what they are needed for */
    const mp_array to = mp_floats_at(p->states + at_start * floats, 3, (const int64_t[]){count, batch, hidden});
    const mp_array kept = mp_floats_at(p->kept ? p->kept + from * floats : NULL, 3, to.dims);
    const mp_array y = p->kept ? kept : mp_steps_of_output(r, &p->x->out[0], p->d, from, count);
    p->engine->copy(&y, &to, false);
}

static void load_output_gradient(const mp_recurrent_pass *p, int64_t t, int64_t n)
{
    const mp_recurrence *r = p->r;
    float *room = mp_room(r, p->x, MP_ROOM_DY);
    if (p->x->n_out < 1 || !p->x->d_out[0].dtype) {
        p->engine->fill(room, n * mp_step_floats(r), 0);
        return;
    }
    const mp_array from = mp_steps_of_output(r, &p->x->d_out[0], p->d, t, n), to = mp_floats_at(room, 3, from.dims);
    p->engine->copy(&from, &to, false);
}

/* Step s of the block of n steps that starts at step t. */
static mp_status step(mp_recurrent_pass *p, const sums *sum, int64_t t, int64_t s)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const int64_t h = r->sizes.hidden, floats = mp_step_floats(r), before = p->back ? t + s + 1 : t + s - 1;
    const bool is_first = before < 0 || before >= r->sizes.n_steps;
    mp_cells *c = &p->cells;
    float *d_gates = mp_room(r, x, MP_ROOM_D_GATES) + s * mp_gate_floats(r), *second = mp_room(r, x, MP_ROOM_D_SECOND);
    float *r_h = mp_room(r, x, MP_ROOM_R_H), *c_first = mp_room(r, x, MP_ROOM_C_FIRST);
    c->t = t + s;
    c->t_before = before;
    c->gates = p->gates ? p->gates + (t + s) * mp_gate_floats(r) : NULL;
    c->second = p->second ? p->second + (t + s) * floats : NULL;
    c->c_before = !p->second || is_first ? c_first : p->second + before * floats;
    c->h_before = mp_state_before(p, s);
    c->h = mp_state_at(p, s);
    c->dy = mp_room(r, x, MP_ROOM_DY) + s * floats;
    c->dh = sum->dh;
    c->dc = sum->dc;
    c->d_gates = d_gates;
    c->d_second = second && !r->after_reset ? second + s * floats : second;
    c->r_h = r_h ? r_h + s * floats : NULL;
    if (c->lengths && p->back && !is_first) {
        c->phase = MP_CELLS_STATES_BEFORE;
        p->engine->cells(c);
    }
    c->phase = MP_CELLS_BACKWARD;
    p->engine->cells(c);
    if (r->after_reset) {
        MP_CHECK(mp_recurrent_multiply(p, MP_G_R_N, d_gates + 2 * h, p->weights_of_h + 2 * h * h, second));
        c->phase = MP_CELLS_BACKWARD_RESET;
        p->engine->cells(c);
    } else if (second) {
        MP_CHECK(mp_recurrent_multiply(p, MP_G_R_N, c->d_second, p->weights_of_h + 2 * h * h, sum->dh));
    }
    MP_CHECK(mp_recurrent_multiply(p, MP_G_R, d_gates, p->weights_of_h, sum->dh));
    if (sum->p) {
        c->phase = MP_CELLS_PEEPHOLES;
        c->d_peepholes = sum->p;
        p->engine->cells(c);
    }
    return MP_OK;
}

/* dX of steps [t, t + n): each direction adds its own. */
static mp_status give_input(const mp_recurrent_pass *p, int64_t t, int64_t n, int rest)
{
    const mp_array *dx = mp_asked(p->x, MP_RECURRENT_X);
    if (!dx) return MP_OK;
    const mp_array to = mp_steps_of_input(p->r, dx, t, n);
    float *room = mp_room(p->r, p->x, MP_ROOM_DX);
    if (room) p->engine->fill(room, mp_array_elements(&to), 0);
    MP_CHECK(mp_recurrent_multiply(p, MP_G_W + rest, mp_room(p->r, p->x, MP_ROOM_D_GATES), p->w, room ? room : to.data));
    const mp_array from = mp_floats_at(room, 3, to.dims);
    if (room) p->engine->copy(&from, &to, true);
    return MP_OK;
}

/* What all steps of a block add to the gradients of R and B. */
static mp_status give_weights(const mp_recurrent_pass *p, const sums *sum, int rest)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const bool is_gru = r->cell.kind == MP_CELL_GRU;
    const int64_t h = r->sizes.hidden;
    float *dg = mp_room(r, x, MP_ROOM_D_GATES), *d_second = r->after_reset ? dg + 2 * h : mp_room(r, x, MP_ROOM_D_SECOND);
    const float *before = mp_state_before(p, 0), *ones = mp_room(r, x, MP_ROOM_ONES);
    if (sum->r) MP_CHECK(mp_recurrent_multiply(p, MP_G_H + rest, dg, before, sum->r));
    if (sum->r && is_gru)
        MP_CHECK(mp_recurrent_multiply(p, MP_G_H_N + rest, d_second, r->after_reset ? mp_room(r, x, MP_ROOM_R_H) : before,
                                       sum->r + 2 * h * h));
    if (!sum->b) return MP_OK;
    float *of_r = sum->b + r->gates * h;
    MP_CHECK(mp_recurrent_multiply(p, MP_ONES + rest, ones, dg, sum->b));
    MP_CHECK(mp_recurrent_multiply(p, MP_ONES + rest, ones, dg, of_r));
    if (is_gru) {
        MP_CHECK(mp_recurrent_multiply(p, MP_ONES_N + rest, ones, dg + 2 * h, sum->b + 2 * h));
        MP_CHECK(mp_recurrent_multiply(p, MP_ONES_S + rest, ones, d_second, of_r + 2 * h));
    }
    return MP_OK;
}

static mp_status block(mp_recurrent_pass *p, const sums *sum, int64_t k)
{
    const mp_recurrence *r = p->r;
    const int64_t t = k * r->steps;
    const int rest = r->rest && k == r->n_blocks - 1;
    const int64_t n = rest ? r->rest : r->steps;
    load_states(p, t, n);
    load_output_gradient(p, t, n);
    for (int64_t j = 0; j < n; j++) MP_CHECK(step(p, sum, t, p->back ? j : n - 1 - j));
    MP_CHECK(give_input(p, t, n, rest));
    if (sum->w)
        MP_CHECK(
            mp_recurrent_multiply(p, MP_G_X + rest, mp_room(r, p->x, MP_ROOM_D_GATES), mp_recurrent_input(p, t, n), sum->w));
    return give_weights(p, sum, rest);
}

/* The gradient of a first state. */
static void give_state(const mp_recurrent_pass *p, int i, float *data)
{
    const mp_array *to = mp_asked(p->x, i);
    if (!to) return;
    const mp_array part = mp_state_of(p->r, to, p->d), from = mp_floats_at(data, 2, part.dims);
    p->engine->copy(&from, &part, p->x->adds & MP_BIT(i));
}

static const mp_array *gradient_of(const mp_operands *x, int o)
{
    return o < x->n_out && x->d_out[o].dtype ? &x->d_out[o] : NULL;
}

static mp_status direction(mp_recurrent_pass *p)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const sums sum = {.w = begin_sum(p, MP_RECURRENT_W, MP_ROOM_DW),
                      .r = begin_sum(p, MP_RECURRENT_R, MP_ROOM_DR),
                      .b = begin_sum(p, MP_RECURRENT_B, MP_ROOM_DB),
                      .p = begin_sum(p, MP_RECURRENT_P, MP_ROOM_DP),
                      .dh = mp_recurrent_state(p, gradient_of(x, 1), MP_ROOM_DH),
                      .dc = mp_recurrent_state(p, gradient_of(x, 2), MP_ROOM_DC)};
    if (sum.b) p->engine->fill(mp_room(r, x, MP_ROOM_ONES), r->steps * r->sizes.batch, 1);
    for (int64_t k = 0; k < r->n_blocks; k++) MP_CHECK(block(p, &sum, p->back ? k : r->n_blocks - 1 - k));
    end_sum(p, MP_RECURRENT_W, MP_ROOM_DW);
    end_sum(p, MP_RECURRENT_R, MP_ROOM_DR);
    end_sum(p, MP_RECURRENT_B, MP_ROOM_DB);
    end_sum(p, MP_RECURRENT_P, MP_ROOM_DP);
    give_state(p, MP_RECURRENT_H, sum.dh);
    give_state(p, MP_RECURRENT_C, sum.dc);
    return MP_OK;
}

mp_status mp_recurrence_backward(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                                 mp_error *err)
{
    const mp_array *dx = mp_asked(x, MP_RECURRENT_X);
    if (dx && !(x->adds & MP_BIT(MP_RECURRENT_X))) engine->zero(dx);
    for (int d = 0; d < r->sizes.n_directions; d++) {
        mp_recurrent_pass p = mp_recurrent_begin(r, engine, state, x, d, err);
        MP_CHECK(direction(&p));
    }
    return MP_OK;
}
