/* update_effect.h - how the place of the updates (mp_graph.fuse) changes memory and traffic of a training step without
 * recomputation. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_update_effect {
    int64_t peak_bytes;
    int64_t gradient_bytes;         /* parameter gradients (payload): the maximum live at once */
    int64_t peak_gradient_bytes;    /* parameter gradients live at the memory peak */
    int64_t largest_gradient_bytes; /* the largest gradient of a single parameter */
    int64_t moved_bytes;            /* bytes moved between memory and a cache of cache_bytes, per training step */
} mp_update_effect;

/* Computes the effect for keep-all, with updates as early as the graph's `fuse` allows. MP_NOMEM. Errors and cost as
 * mp_timeline_build. */
mp_status mp_update_effect_of(const mp_graph *graph, int64_t cache_bytes, mp_update_effect *out, mp_error *err);
