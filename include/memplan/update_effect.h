/* update_effect.h - what the place of the updates (mp_graph.fuse) does to a training step, with everything kept. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_update_effect {
    int64_t peak_bytes;
    int64_t gradient_bytes;         /* payload of the parameters' gradients: the most that is live at once */
    int64_t peak_gradient_bytes;    /* payload of the parameters' gradients that is live at the peak */
    int64_t largest_gradient_bytes; /* payload of the largest gradient of one parameter */
    int64_t moved_bytes;            /* moved between memory and a cache of cache_bytes, per step of training */
} mp_update_effect;

/* Computes the effect for keep-all with the updates as early as the graph's `fuse` allows. MP_NOMEM. Errors and cost as
 * mp_timeline_build. */
mp_status mp_update_effect_of(const mp_graph *graph, int64_t cache_bytes, mp_update_effect *out, mp_error *err);
