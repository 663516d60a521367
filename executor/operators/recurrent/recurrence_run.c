/* recurrence_run.c - runs a recurrent layer block by block in each direction. Forward of a block: one product with X for all
 * time steps, then the steps one by one. Backward: the steps one by one, then the products of the block. */
#include "executor/operators/recurrent/recurrence.h"

/* The data of one direction of the layer, which all blocks of time steps in this direction use one after the other. */
typedef struct pass {
    const mp_recurrence *r;
    const mp_recurrent_engine *engine;
    void *state;
    const mp_operands *x;
    mp_error *err;
    int d;
    bool back;                     /* true: this direction runs from the last time step to the first */
    const float *w, *weights_of_h; /* the weights W of this direction, and the weights R, with which h is multiplied */
    float *gates, *second,
        *kept;      /* this direction's arrays in the reserve (saved for backward), for all time steps; NULL: not saved */
    float *states;  /* hidden states h of all steps of a block and of the step before the block, in order of time */
    float *h_first; /* the initial h */
    mp_cells cells; /* arguments of the cells for a time step; the addresses change from step to step */
} pass;

/* Return the number of floats of a state (step_floats), and of all gates, in one time step. */
static int64_t step_floats(const mp_recurrence *r)
{
    return r->sizes.batch * r->sizes.hidden;
}
static int64_t gate_floats_of(const mp_recurrence *r)
{
    return step_floats(r) * r->gates;
}
/* Return the addresses in p->states of h in step s of the block, and of h in the previous step in the direction of the
 * recurrence. */
static float *state_at(const pass *p, int64_t s)
{
    return p->states + (s + !p->back) * step_floats(p->r);
}
static float *state_before(const pass *p, int64_t s)
{
    return p->states + (s + p->back) * step_floats(p->r);
}

/* Runs matrix product k of the layer, c = a b or c += a b. */
static mp_status multiply(const pass *p, int k, const float *a, const float *b, float *c)
{
    return p->engine->multiply(p->x, p->state, (mp_recurrent_product)k, a, b, c, mp_room(p->r, p->x, MP_ROOM_PRODUCTS), p->err);
}

/* Returns the input X of time steps [t, t + n) as contiguous floats: a pointer into X, or a copy. */
static const float *input_at(const pass *p, int64_t t, int64_t n)
{
    const mp_array from = mp_steps_of_input(p->r, &p->x->in[MP_RECURRENT_X], t, n);
    float *room = mp_room(p->r, p->x, MP_ROOM_X);
    if (!room) return from.data;
    const mp_array to = mp_floats_at(room, 3, from.dims);
    p->engine->copy(&from, &to, false);
    return room;
}

/* Returns this direction of operand i as contiguous floats: a pointer into the operand, or a copy in workspace array k. NULL:
 * the operand has no data. */
static const float *weight_at(const pass *p, int i, mp_recurrent_room k)
{
    const mp_array *a = mp_given(p->x, i);
    float *room = mp_room(p->r, p->x, k);
    if (!a || !a->data) return NULL;
    const mp_array from = mp_direction_of(a, p->d);
    if (!room) return from.data;
    const mp_array to = mp_floats_at(room, from.rank, from.dims);
    p->engine->copy(&from, &to, false);
    return room;
}

/* Copies this direction of the initial state `a` to workspace array k. If a is NULL or has no data, fills the array with
 * zeros. Returns the array. */
static float *first_state(const pass *p, const mp_array *a, mp_recurrent_room k)
{
    float *room = mp_room(p->r, p->x, k);
    if (!a || !a->data) {
        p->engine->fill(room, step_floats(p->r), 0);
        return room;
    }
    const mp_array from = mp_state_of(p->r, a, p->d), to = mp_floats_at(room, 2, from.dims);
    p->engine->copy(&from, &to, false);
    return room;
}

/* Finds this direction's arrays in the reserve, the tensors that forward saves for backward. The reserve stores the gates of
 * all directions, then the "second" arrays, then the states. */
static void find_reserve(pass *p)
{
    const mp_recurrence *r = p->r;
    float *at = p->x->extra[0].dtype ? p->x->extra[0].data : NULL;
    const int64_t all = r->sizes.n_steps * step_floats(r), n_directions = r->sizes.n_directions;
    if (!at) return;
    if (r->reserve.gates) p->gates = at + p->d * all * r->gates;
    at += n_directions * all * r->reserve.gates;
    if (r->reserve.seconds) p->second = at + p->d * all;
    at += n_directions * all * r->reserve.seconds;
    if (r->reserve.states) p->kept = at + p->d * all;
}

/* Begins direction d: finds or copies its weights, peepholes and initial states, and finds its arrays in the reserve (saved for
 * backward). */
static pass begin_direction(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x, int d,
                            mp_error *err)
{
    pass p = {.r = r, .engine = engine, .state = state, .x = x, .d = d, .err = err, .back = mp_runs_back(r, d)};
    const mp_array *lengths = mp_given(x, MP_RECURRENT_LENGTHS);
    const mp_activation *activations = r->cell.activations[d];
    float *peepholes = mp_room(r, x, MP_ROOM_PEEPHOLES);
    find_reserve(&p);
    p.w = weight_at(&p, MP_RECURRENT_W, MP_ROOM_W);
    p.weights_of_h = weight_at(&p, MP_RECURRENT_R, MP_ROOM_R);
    p.states = mp_room(r, x, MP_ROOM_STATES);
    p.h_first = first_state(&p, mp_given(x, MP_RECURRENT_H), MP_ROOM_H_FIRST);
    const mp_array *p_in = mp_given(x, MP_RECURRENT_P);
    engine->fill(peepholes, 3 * r->sizes.hidden, 0);
    if (p_in) {
        const mp_array from = mp_direction_of(p_in, d), to = mp_floats_at(peepholes, 1, from.dims);
        engine->copy(&from, &to, false);
    }
    p.cells = (mp_cells){.kind = r->cell.kind,
                         .before_reset = !r->after_reset,
                         .f = activations[0],
                         .g = activations[1],
                         .h_of = activations[2],
                         .batch = r->sizes.batch,
                         .hidden = r->sizes.hidden,
                         .lengths = lengths ? lengths->data : NULL,
                         .lengths_type = lengths ? lengths->dtype : MP_DTYPE_INT32,
                         .peepholes = peepholes,
                         .h_first = p.h_first};
    p.cells.c_before = first_state(&p, mp_given(x, MP_RECURRENT_C), MP_ROOM_C_FIRST);
    return p;
}

/* ---- forward. */

/* Copies the biases of W and R to the workspace, or fills it with zeros if the operator has none. Returns the address. */
static const float *biases(const pass *p)
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

/* Runs forward of time step t + s, step s of the block that starts at step t. `gates` and `second` are the arrays of this
 * step. */
static mp_status step(pass *p, int64_t t, int64_t s, float *gates, float *second)
{
    const mp_recurrence *r = p->r;
    const int64_t h = r->sizes.hidden;
    mp_cells *c = &p->cells;
    c->phase = MP_CELLS_FORWARD;
    c->t = t + s;
    c->gates = gates;
    c->second = r->cell.kind == MP_CELL_RNN ? NULL : second;
    c->h_before = state_before(p, s);
    c->h = state_at(p, s);
    float *shown = mp_room(r, p->x, MP_ROOM_SHOWN);
    c->shown = shown ? shown + s * step_floats(r) : NULL;
    MP_CHECK(multiply(p, MP_H_R, c->h_before, p->weights_of_h, gates));
    if (r->cell.kind == MP_CELL_GRU && !r->after_reset)
        MP_CHECK(multiply(p, MP_H_R_N, c->h_before, p->weights_of_h + 2 * h * h, second));
    p->engine->cells(c);
    if (r->after_reset) {
        MP_CHECK(multiply(p, MP_H_R_N, second, p->weights_of_h + 2 * h * h, gates + 2 * h));
        c->phase = MP_CELLS_FORWARD_CANDIDATE;
        p->engine->cells(c);
    }
    if (r->cell.kind == MP_CELL_LSTM) c->c_before = second;
    return MP_OK;
}

/* After a block of forward: copies its output, saves its states if requested, and copies its last state to the position of the
 * next block's first state. */
static void leave(const pass *p, int64_t t, int64_t n)
{
    const mp_recurrence *r = p->r;
    const int64_t dims[3] = {n, r->sizes.batch, r->sizes.hidden};
    float *shown = mp_room(r, p->x, MP_ROOM_SHOWN);
    const mp_array states = mp_floats_at(state_at(p, 0), 3, dims);
    if (p->x->n_out > 0 && p->x->out[0].dtype) {
        const mp_array from = mp_floats_at(shown ? shown : states.data, 3, dims);
        const mp_array to = mp_steps_of_output(r, &p->x->out[0], p->d, t, n);
        p->engine->copy(&from, &to, false);
    }
    if (p->kept) {
        const mp_array to = mp_floats_at(p->kept + t * step_floats(r), 3, dims);
        p->engine->copy(&states, &to, false);
    }
    const mp_array last = mp_floats_at(state_at(p, p->back ? 0 : n - 1), 2, dims + 1);
    const mp_array next = mp_floats_at(state_before(p, p->back ? r->steps - 1 : 0), 2, dims + 1);
    if (last.data != next.data) p->engine->copy(&last, &next, false);
}

static mp_status block(pass *p, int64_t k)
{
    const mp_recurrence *r = p->r;
    const int64_t t = k * r->steps, gate_floats = gate_floats_of(r), floats = step_floats(r);
    const bool is_rest = r->rest && k == r->n_blocks - 1;
    const int64_t n = is_rest ? r->rest : r->steps;
    float *gates = p->gates ? p->gates + t * gate_floats : mp_room(r, p->x, MP_ROOM_GATES);
    float *second = p->second ? p->second + t * floats : mp_room(r, p->x, MP_ROOM_SECOND);
    MP_CHECK(multiply(p, MP_X_W + is_rest, input_at(p, t, n), p->w, gates));
    for (int64_t k_step = 0; k_step < n; k_step++) {
        const int64_t s = p->back ? n - 1 - k_step : k_step;
        MP_CHECK(step(p, t, s, gates + s * gate_floats, p->second ? second + s * floats : second));
    }
    leave(p, t, n);
    return MP_OK;
}

/* Copies the state after the last time step to output o, if output o is requested. */
static void put_last(const pass *p, int o, float *data)
{
    const mp_operands *x = p->x;
    if (o >= x->n_out || !x->out[o].dtype) return;
    const mp_array to = mp_state_of(p->r, &x->out[o], p->d), from = mp_floats_at(data, 2, to.dims);
    p->engine->copy(&from, &to, false);
}

static mp_status run_forward(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                             mp_error *err)
{
    for (int d = 0; d < r->sizes.n_directions; d++) {
        pass p = begin_direction(r, engine, state, x, d, err);
        const int64_t floats = step_floats(r), n_first = p.back && r->rest ? r->rest : r->steps;
        const mp_array first = mp_floats_at(p.h_first, 1, &floats);
        const mp_array before = mp_floats_at(state_before(&p, p.back ? n_first - 1 : 0), 1, &floats);
        engine->copy(&first, &before, false);
        p.cells.bias = biases(&p);
        for (int64_t k = 0; k < r->n_blocks; k++) MP_CHECK(block(&p, p.back ? r->n_blocks - 1 - k : k));
        /* a block copies its last h to the position where the next block reads its first state. After the last block, this
         * position holds the final h */
        put_last(&p, 1, state_before(&p, p.back ? r->steps - 1 : 0));
        put_last(&p, 2, p.cells.c_before);
    }
    return MP_OK;
}

/* ---- backward. */

/* Addresses at which the gradients of a direction's weights and states are summed, as contiguous floats; NULL: not requested.
 */
typedef struct sums {
    float *w, *r, *b, *p;
    float *dh, *dc;
} sums;

/* Returns the address at which the gradient of operand i is summed: in place, or in workspace array k. The memory is set to 0,
 * unless the call accumulates in place. */
static float *begin_sum(const pass *p, int i, mp_recurrent_room k)
{
    const mp_array *to = mp_asked(p->x, i);
    if (!to) return NULL;
    const mp_array part = mp_direction_of(to, p->d);
    float *room = mp_room(p->r, p->x, k), *place = room ? room : part.data;
    if (room || !(p->x->adds & MP_BIT(i))) p->engine->fill(place, mp_array_elements(&part), 0);
    return place;
}

static void end_sum(const pass *p, int i, mp_recurrent_room k)
{
    const mp_array *to = mp_asked(p->x, i);
    float *room = mp_room(p->r, p->x, k);
    if (!to || !room) return;
    const mp_array part = mp_direction_of(to, p->d), from = mp_floats_at(room, part.rank, part.dims);
    p->engine->copy(&from, &part, p->x->adds & MP_BIT(i));
}

/* Backward: loads the hidden states of time steps [t, t + n) and of the step before t, from the reserve (saved for backward) or
 * from the output Y. */
static void load_states(const pass *p, int64_t t, int64_t n)
{
    const mp_recurrence *r = p->r;
    const int64_t floats = step_floats(r), batch = r->sizes.batch, hidden = r->sizes.hidden;
    int64_t from = p->back ? t : t - 1, count = n + 1;
    const bool at_start = from<0, at_end = from + count> r->sizes.n_steps;
    if (at_start || at_end) {
        const mp_array first = mp_floats_at(p->h_first, 1, &floats);
        const mp_array to = mp_floats_at(state_before(p, p->back ? n - 1 : 0), 1, &floats);
        p->engine->copy(&first, &to, false);
        count--;
        from += at_start;
    }
    /* without saved states and without Y, the requested gradients do not read the states */
    if (!p->kept && !p->x->out[0].data) return;
    const mp_array to = mp_floats_at(p->states + at_start * floats, 3, (const int64_t[]){count, batch, hidden});
    const mp_array kept = mp_floats_at(p->kept ? p->kept + from * floats : NULL, 3, to.dims);
    const mp_array y = p->kept ? kept : mp_steps_of_output(r, &p->x->out[0], p->d, from, count);
    p->engine->copy(&y, &to, false);
}

static void load_output_gradient(const pass *p, int64_t t, int64_t n)
{
    const mp_recurrence *r = p->r;
    float *room = mp_room(r, p->x, MP_ROOM_DY);
    if (p->x->n_out < 1 || !p->x->d_out[0].dtype) {
        p->engine->fill(room, n * step_floats(r), 0);
        return;
    }
    const mp_array from = mp_steps_of_output(r, &p->x->d_out[0], p->d, t, n), to = mp_floats_at(room, 3, from.dims);
    p->engine->copy(&from, &to, false);
}

/* Runs backward of time step t + s, step s of the block that starts at step t. */
static mp_status step_back(pass *p, const sums *sum, int64_t t, int64_t s)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const int64_t h = r->sizes.hidden, floats = step_floats(r), before = p->back ? t + s + 1 : t + s - 1;
    const bool is_first = before < 0 || before >= r->sizes.n_steps;
    mp_cells *c = &p->cells;
    float *d_gates = mp_room(r, x, MP_ROOM_D_GATES) + s * gate_floats_of(r), *second = mp_room(r, x, MP_ROOM_D_SECOND);
    float *r_h = mp_room(r, x, MP_ROOM_R_H), *c_first = mp_room(r, x, MP_ROOM_C_FIRST);
    c->t = t + s;
    c->t_before = before;
    c->gates = p->gates ? p->gates + (t + s) * gate_floats_of(r) : NULL;
    c->second = p->second ? p->second + (t + s) * floats : NULL;
    c->c_before = !p->second || is_first ? c_first : p->second + before * floats;
    c->h_before = state_before(p, s);
    c->h = state_at(p, s);
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
        MP_CHECK(multiply(p, MP_G_R_N, d_gates + 2 * h, p->weights_of_h + 2 * h * h, second));
        c->phase = MP_CELLS_BACKWARD_RESET;
        p->engine->cells(c);
    } else if (second) {
        MP_CHECK(multiply(p, MP_G_R_N, c->d_second, p->weights_of_h + 2 * h * h, sum->dh));
    }
    MP_CHECK(multiply(p, MP_G_R, d_gates, p->weights_of_h, sum->dh));
    if (sum->p) {
        c->phase = MP_CELLS_PEEPHOLES;
        c->d_peepholes = sum->p;
        p->engine->cells(c);
    }
    return MP_OK;
}

/* Computes this direction's contribution to the gradient of X for time steps [t, t + n). */
static mp_status give_input(const pass *p, int64_t t, int64_t n, int rest)
{
    const mp_array *dx = mp_asked(p->x, MP_RECURRENT_X);
    if (!dx) return MP_OK;
    const mp_array to = mp_steps_of_input(p->r, dx, t, n);
    float *room = mp_room(p->r, p->x, MP_ROOM_DX);
    if (room) p->engine->fill(room, mp_array_elements(&to), 0);
    MP_CHECK(multiply(p, MP_G_W + rest, mp_room(p->r, p->x, MP_ROOM_D_GATES), p->w, room ? room : to.data));
    const mp_array from = mp_floats_at(room, 3, to.dims);
    if (room) p->engine->copy(&from, &to, true);
    return MP_OK;
}

/* Adds a block's contribution to the gradients of R and B. */
static mp_status give_weights(const pass *p, const sums *sum, int rest)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const bool is_gru = r->cell.kind == MP_CELL_GRU;
    const int64_t h = r->sizes.hidden;
    float *dg = mp_room(r, x, MP_ROOM_D_GATES), *d_second = r->after_reset ? dg + 2 * h : mp_room(r, x, MP_ROOM_D_SECOND);
    const float *before = state_before(p, 0), *ones = mp_room(r, x, MP_ROOM_ONES);
    if (sum->r) MP_CHECK(multiply(p, MP_G_H + rest, dg, before, sum->r));
    if (sum->r && is_gru)
        MP_CHECK(
            multiply(p, MP_G_H_N + rest, d_second, r->after_reset ? mp_room(r, x, MP_ROOM_R_H) : before, sum->r + 2 * h * h));
    if (!sum->b) return MP_OK;
    float *of_r = sum->b + r->gates * h;
    MP_CHECK(multiply(p, MP_ONES + rest, ones, dg, sum->b));
    MP_CHECK(multiply(p, MP_ONES + rest, ones, dg, of_r));
    if (is_gru) {
        MP_CHECK(multiply(p, MP_ONES_N + rest, ones, dg + 2 * h, sum->b + 2 * h));
        MP_CHECK(multiply(p, MP_ONES_S + rest, ones, d_second, of_r + 2 * h));
    }
    return MP_OK;
}

static mp_status block_back(pass *p, const sums *sum, int64_t k)
{
    const mp_recurrence *r = p->r;
    const int64_t t = k * r->steps;
    const int rest = r->rest && k == r->n_blocks - 1;
    const int64_t n = rest ? r->rest : r->steps;
    load_states(p, t, n);
    load_output_gradient(p, t, n);
    for (int64_t j = 0; j < n; j++) MP_CHECK(step_back(p, sum, t, p->back ? j : n - 1 - j));
    MP_CHECK(give_input(p, t, n, rest));
    if (sum->w) MP_CHECK(multiply(p, MP_G_X + rest, mp_room(r, p->x, MP_ROOM_D_GATES), input_at(p, t, n), sum->w));
    return give_weights(p, sum, rest);
}

/* Copies or adds the gradient of operand i, an initial state, to its destination. */
static void give_state(const pass *p, int i, float *data)
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

static mp_status direction(pass *p)
{
    const mp_recurrence *r = p->r;
    const mp_operands *x = p->x;
    const sums sum = {.w = begin_sum(p, MP_RECURRENT_W, MP_ROOM_DW),
                      .r = begin_sum(p, MP_RECURRENT_R, MP_ROOM_DR),
                      .b = begin_sum(p, MP_RECURRENT_B, MP_ROOM_DB),
                      .p = begin_sum(p, MP_RECURRENT_P, MP_ROOM_DP),
                      .dh = first_state(p, gradient_of(x, 1), MP_ROOM_DH),
                      .dc = first_state(p, gradient_of(x, 2), MP_ROOM_DC)};
    if (sum.b) p->engine->fill(mp_room(r, x, MP_ROOM_ONES), r->steps * r->sizes.batch, 1);
    for (int64_t k = 0; k < r->n_blocks; k++) MP_CHECK(block_back(p, &sum, p->back ? k : r->n_blocks - 1 - k));
    end_sum(p, MP_RECURRENT_W, MP_ROOM_DW);
    end_sum(p, MP_RECURRENT_R, MP_ROOM_DR);
    end_sum(p, MP_RECURRENT_B, MP_ROOM_DB);
    end_sum(p, MP_RECURRENT_P, MP_ROOM_DP);
    give_state(p, MP_RECURRENT_H, sum.dh);
    give_state(p, MP_RECURRENT_C, sum.dc);
    return MP_OK;
}

static mp_status run_backward(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                              mp_error *err)
{
    const mp_array *dx = mp_asked(x, MP_RECURRENT_X);
    if (dx && !(x->adds & MP_BIT(MP_RECURRENT_X))) engine->zero(dx);
    for (int d = 0; d < r->sizes.n_directions; d++) {
        pass p = begin_direction(r, engine, state, x, d, err);
        MP_CHECK(direction(&p));
    }
    return MP_OK;
}

mp_status mp_recurrence_run(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                            mp_error *err)
{
    return (x->is_backward ? run_backward : run_forward)(r, engine, state, x, err);
}
