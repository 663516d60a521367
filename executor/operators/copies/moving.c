/* moving.c - parts of a move, and what lies outside of a box. */
#include "executor/operators/copies/moving.h"

mp_status mp_moving_add(mp_moving *m, int in, int out, mp_moving_part **part, mp_error *err)
{
    if (!mp_grow(&m->parts, &m->capacity, m->n_parts + 1, sizeof *m->parts)) return MP_FAIL(err, MP_NOMEM, "out of memory");
    *part = &m->parts[m->n_parts++];
    (*part)->in = in;
    (*part)->out = out;
    return MP_OK;
}

bool mp_moving_repeats(const mp_moving_part *p)
{
    for (int d = 0; d < p->box.rank; d++)
        if (!p->box.from[d]) return true;
    return false;
}

int64_t mp_slab_outside(const mp_array *a, const int64_t *low, const int64_t *high, int d, bool behind, mp_box *slab)
{
    int64_t start = (behind ? high[d] : 0) * a->strides[d];
    for (int e = 0; e < a->rank; e++) {
        if (e < d) start += low[e] * a->strides[e];
        mp_box_put(slab,
                   e < d    ? high[e] - low[e]
                   : e > d  ? a->dims[e]
                   : behind ? a->dims[d] - high[d]
                            : low[d],
                   0, a->strides[e]);
    }
    return start;
}
