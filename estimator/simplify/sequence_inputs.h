/* sequence_inputs.h - a tensor cut into chunks of time steps, as far up as that costs nothing. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_chunks {
    mp_model *model;
    int n;          /* chunks */
    int64_t *sizes; /* steps of each */
    mp_error *err;
} mp_chunks;

/* The chunks of a tensor along an axis. The operators that read it are taken out of the model first; what
 * nobody else reads then is done to every chunk instead: a view that leaves the axis
 * alone, a transposition, rows looked up by indices; a concatenation of just these chunks is taken apart again. A batch is
 * sliced, anything else split. MP_NOMEM. */
mp_status mp_cut_input(mp_chunks *c, int tensor, int axis, int *parts);
/* An operator Split: n parts of these sizes. */
mp_status mp_cut_split(mp_chunks *c, int tensor, int axis, int n, const int64_t *sizes, int *parts);
