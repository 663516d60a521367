/* recurrence_pass.c - what forward and backward of a recurrent layer have in common. */
#include "executor/operators/recurrent/recurrence_pass.h"

mp_status mp_recurrent_multiply(const mp_recurrent_pass *p, int k, const float *a, const float *b, float *c)
{
    return p->engine->multiply(p->x, p->state, (mp_recurrent_product)k, a, b, c, mp_room(p->r, p->x, MP_ROOM_PRODUCTS), p->err);
}

const float *mp_recurrent_input(const mp_recurrent_pass *p, int64_t t, int64_t n)
{
    const mp_array from = mp_steps_of_input(p->r, &p->x->in[MP_RECURRENT_X], t, n);
    float *room = mp_room(p->r, p->x, MP_ROOM_X);
    if (!room) return from.data;
    const mp_array to = mp_floats_at(room, 3, from.dims);
    p->engine->copy(&from, &to, false);
    return room;
}

const float *mp_recurrent_weight(const mp_recurrent_pass *p, int i, mp_recurrent_room k)
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

float *mp_recurrent_state(const mp_recurrent_pass *p, const mp_array *a, mp_recurrent_room k)
{
    float *room = mp_room(p->r, p->x, k);
    if (!a || !a->data) {
        p->engine->fill(room, mp_step_floats(p->r), 0);
        return room;
    }
    const mp_array from = mp_state_of(p->r, a, p->d), to = mp_floats_at(room, 2, from.dims);
    p->engine->copy(&from, &to, false);
    return room;
}

/* The parts of the reserve: the gates of all directions, then the seconds, then the states. */
static void find_reserve(mp_recurrent_pass *p)
{
    const mp_recurrence *r = p->r;
    float *at = p->x->extra[0].dtype ? p->x->extra[0].data : NULL;
    const int64_t all = r->sizes.n_steps * mp_step_floats(r), n_directions = r->sizes.n_directions;
    if (!at) return;
    if (r->reserve.gates) p->gates = at + p->d * all * r->gates;
    at += n_directions * all * r->reserve.gates;
    if (r->reserve.seconds) p->second = at + p->d * all;
    at += n_directions * all * r->reserve.seconds;
    if (r->reserve.states) p->kept = at + p->d * all;
}

mp_recurrent_pass mp_recurrent_begin(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state,
                                     const mp_operands *x, int d, mp_error *err)
{
    mp_recurrent_pass p = {.r = r, .engine = engine, .state = state, .x = x, .d = d, .err = err, .back = mp_runs_back(r, d)};
    const mp_array *lengths = mp_given(x, MP_RECURRENT_LENGTHS);
    const mp_activation *activations = r->cell.activations[d];
    float *peepholes = mp_room(r, x, MP_ROOM_PEEPHOLES);
    find_reserve(&p);
    p.w = mp_recurrent_weight(&p, MP_RECURRENT_W, MP_ROOM_W);
    p.weights_of_h = mp_recurrent_weight(&p, MP_RECURRENT_R, MP_ROOM_R);
    p.states = mp_room(r, x, MP_ROOM_STATES);
    p.h_first = mp_recurrent_state(&p, mp_given(x, MP_RECURRENT_H), MP_ROOM_H_FIRST);
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
    p.cells.c_before = mp_recurrent_state(&p, mp_given(x, MP_RECURRENT_C), MP_ROOM_C_FIRST);
    return p;
}
