/* host_slab.h - offsets in host memory for the copies of a plan, for callers that lease one block (the slab) per training step.
 *
 * A storage occupies the slab from its copy out to the end of its last copy back. Callers of a framework may run backward
 * twice. So a storage that is copied out before the node `turn` and copied back after it keeps its place until the end of the
 * plan. A copy out that no step brings back has no place, and neither has optimizer state, whose memory is static. */
#pragma once

#include "memplan/plan.h"

typedef struct mp_host_slab {
    int64_t bytes; /* size of the slab, without the static bytes of the host tier */
    size_t n_steps;
    int64_t *offsets; /* per step: the offset of the storage that the step copies out or back; -1: none. mp_free */
} mp_host_slab;

/* Offsets and sizes in a slab are multiples of this many bytes. */
enum { MP_HOST_SLAB_GRAIN = 512 };

/* Lays out the slab of the plan in tier `tier`. `turn`: see above; -1: none. The search for a lower slab ends at most_bytes
 * (0: no limit). On an error *out is unchanged. Deterministic. MP_INVALID: the bytes overflow. MP_NOMEM. Cost as
 * mp_arena_search. */
mp_status mp_host_slab_of(const mp_graph *graph, const mp_plan *plan, int tier, int turn, int64_t most_bytes, mp_host_slab *out,
                          mp_error *err);
