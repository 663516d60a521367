/* recurrence_forward.c - a recurrent layer forward: per direction and block one product with X, then step by step. */
#include "executor/operators/recurrent/recurrence_forward.h"

#include "executor/operators/recurrent/recurrence_pass.h"

/* The biases of W and R in the workspace; zeros where there are none. */
static const float *biases(const mp_recurrent_pass *p)
{
    const int64_t n = 2 * p->r->gates * p->r->sizes.hidden;
    const mp_array *b = mp_given(p->x, MP_RECURRENT_B);
    float *room = mp_room(p->r, p->x, MP_ROOM_BIAS);
    if (!b) {
        p->engine->fill(room, n, 0);
        return room;
    }
    const mp_array from = mp_direction_of(b, p->d), to = mp_floats_at(room, 1, &n);
    p->engine->copy(&from, &to, false);
    return room;
}

/* Step s of the block that starts at step t; `gates` and `second` are that step's. */
static mp_status step(mp_recurrent_pass *p, int64_t t, int64_t s, float *gates, float *second)
{
    const mp_recurrence *r = p->r;
    const int64_t h = r->sizes.hidden;
    mp_cells *c = &p->cells;
    c->phase = MP_CELLS_FORWARD;
    c->t = t + s;
    c->gates = gates;
    c->second = r->cell.kind == MP_CELL_RNN ? NULL : second;
    c->h_before = mp_state_before(p, s);
    c->h = mp_state_at(p, s);
    float *shown = mp_room(r, p->x, MP_ROOM_SHOWN);
    c->shown = shown ? shown + s * mp_step_floats(r) : NULL;
    MP_CHECK(mp_recurrent_multiply(p, MP_H_R, c->h_before, p->weights_of_h, gates));
    if (r->cell.kind == MP_CELL_GRU && !r->after_reset)
        MP_CHECK(mp_recurrent_multiply(p, MP_H_R_N, c->h_before, p->weights_of_h + 2 * h * h, second));
    p->engine->cells(c);
    if (r->after_reset) {
        MP_CHECK(mp_recurrent_multiply(p, MP_H_R_N, second, p->weights_of_h + 2 * h * h, gates + 2 * h));
        c->phase = MP_CELLS_FORWARD_CANDIDATE;
        p->engine->cells(c);
    }
    if (r->cell.kind == MP_CELL_LSTM) c->c_before = second;
    return MP_OK;
}

/* What a block leaves: its output, its states where they are kept, and the last of them for the block behind it. */
static void leave(const mp_recurrent_pass *p, int64_t t, int64_t n)
{
    const mp_recurrence *r = p->r;
    const int64_t dims[3] = {n, r->sizes.batch, r->sizes.hidden};
    float *shown = mp_room(r, p->x, MP_ROOM_SHOWN);
    const mp_array states = mp_floats_at(mp_state_at(p, 0), 3, dims);
    if (p->x->n_out > 0 && p->x->out[0].dtype) {
        const mp_array from = mp_floats_at(shown ? shown : states.data, 3, dims);
        const mp_array to = mp_steps_of_output(r, &p->x->out[0], p->d, t, n);
        p->engine->copy(&from, &to, false);
    }
    if (p->kept) {
        const mp_array to = mp_floats_at(p->kept + t * mp_step_floats(r), 3, dims);
        p->engine->copy(&states, &to, false);
    }
    const mp_array last = mp_floats_at(mp_state_at(p, p->back ? 0 : n - 1), 2, dims + 1);
    const mp_array next = mp_floats_at(mp_state_before(p, p->back ? r->steps - 1 : 0), 2, dims + 1);
    if (last.data != next.data) p->engine->copy(&last, &next, false);
}

static mp_status block(mp_recurrent_pass *p, int64_t k)
{
    const mp_recurrence *r = p->r;
    const int64_t t = k * r->steps, gate_floats = mp_gate_floats(r), floats = mp_step_floats(r);
    const bool is_rest = r->rest && k == r->n_blocks - 1;
    const int64_t n = is_rest ? r->rest : r->steps;
    float *gates = p->gates ? p->gates + t * gate_floats : mp_room(r, p->x, MP_ROOM_GATES);
    float *second = p->second ? p->second + t * floats : mp_room(r, p->x, MP_ROOM_SECOND);
    MP_CHECK(mp_recurrent_multiply(p, MP_X_W + is_rest, mp_recurrent_input(p, t, n), p->w, gates));
    for (int64_t k_step = 0; k_step < n; k_step++) {
        const int64_t s = p->back ? n - 1 - k_step : k_step;
        MP_CHECK(step(p, t, s, gates + s * gate_floats, p->second ? second + s * floats : second));
    }
    leave(p, t, n);
    return MP_OK;
}

/* The states behind the last step, where they are asked for. */
static void put_last(const mp_recurrent_pass *p, int o, float *data)
{
    const mp_operands *x = p->x;
    if (o >= x->n_out || !x->out[o].dtype) return;
    const mp_array to = mp_state_of(p->r, &x->out[o], p->d), from = mp_floats_at(data, 2, to.dims);
    p->engine->copy(&from, &to, false);
}

mp_status mp_recurrence_forward(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                                mp_error *err)
{
    for (int d = 0; d < r->sizes.n_directions; d++) {
        mp_recurrent_pass p = mp_recurrent_begin(r, engine, state, x, d, err);
        const int64_t floats = mp_step_floats(r), n_first = p.back && r->rest ? r->rest : r->steps;
        const mp_array first = mp_floats_at(p.h_first, 1, &floats);
        const mp_array before = mp_floats_at(mp_state_before(&p, p.back ? n_first - 1 : 0), 1, &floats);
        engine->copy(&first, &before, false);
        p.cells.bias = biases(&p);
        for (int64_t k = 0; k < r->n_blocks; k++) MP_CHECK(block(&p, p.back ? r->n_blocks - 1 - k : k));
        /* what the block left for one behind it */
        put_last(&p, 1, mp_state_before(&p, p.back ? r->steps - 1 : 0));
        put_last(&p, 2, p.cells.c_before);
    }
    return MP_OK;
}
