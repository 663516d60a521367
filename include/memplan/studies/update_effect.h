/* update_effect.h - how the position of the updates in a training step (mp_graph.fuse) changes memory and memory traffic,
 * without recomputation. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_update_effect {
    int64_t peak_bytes;
    int64_t gradient_bytes;         /* maximum bytes of parameter gradients (payload) that are live at once */
    int64_t peak_gradient_bytes;    /* bytes of parameter gradients that are live at the memory peak */
    int64_t largest_gradient_bytes; /* bytes of the largest gradient of a single parameter */
    int64_t moved_bytes;            /* bytes moved between the memory and a cache of cache_bytes, per training step */
} mp_update_effect;

/* Computes the effect of the updates' position in keep-all. Updates run as early as mp_graph.fuse allows. MP_NOMEM. Other
 * errors and cost as mp_timeline_build. */
mp_status mp_update_effect_of(const mp_graph *graph, int64_t cache_bytes, mp_update_effect *out, mp_error *err);
