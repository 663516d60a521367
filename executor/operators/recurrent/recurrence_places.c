/* recurrence_places.c - parts of a recurrent layer's operands as arrays. */
#include "executor/operators/recurrent/recurrence.h"

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
