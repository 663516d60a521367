/* choices.h - builds an order of steps from one choice per storage: kept, offloaded or recomputed.
 *
 * Compute steps follow the node list. A storage to recompute for backward is recomputed once, before the first step that reads
 * it. The inputs of its recomputation are recomputed too if they are not live. A storage to offload is copied out as soon as
 * it is produced. It is copied back for its first reader in the loss or backward. */
#pragma once

#include "memplan/timeline.h"
#include "planner/math/heap.h"
#include "planner/order/ways.h"

typedef enum mp_choice {
    MP_CHOICE_KEPT,
    /* offloaded, if compute hides the copies: copies queue on the link, and a copy back begins as late as compute can still
     * hide it */
    MP_CHOICE_COPIED,
    MP_CHOICE_WAITED_FOR, /* offloaded, not hidden: the next step waits for the copy out, and the reader waits for the whole
                             copy back */
    MP_CHOICE_AHEAD, /* offloaded like WAITED_FOR, but the copy back begins early enough that compute hides it if the link is
                        free */
    MP_CHOICE_RECOMPUTED
} mp_choice;

/* The lifetime of a storage, as places (indices of steps) in mp_choices.order. */
typedef struct mp_choice_life {
    /* place of its first run; of its last reader in forward; of its first reader in the loss or backward, -1: none */
    int made, early, late;
    /* for an offloaded storage: place that waits for the copy out; place before which the copy back begins */
    int out_end, back;
} mp_choice_life;

typedef struct mp_choices {
    mp_pool *pool; /* owns all arrays except those of `ways` */
    const mp_graph *graph;
    mp_ways ways;
    mp_choice *of; /* per storage: its choice, set by the caller */
    /* results of the last mp_choices_order: */
    int n;
    mp_step *order;       /* all steps except copies and updates */
    int64_t *begins;      /* per step of `order`: its begin in ticks if compute never waits; n + 1 entries */
    mp_choice_life *life; /* per storage */
    /* scratch: */
    bool *missing, *reruns,
        /* missing, per storage: it must be recomputed. reruns, per node: it will be recomputed. is_demanded, per node: its
         * demand is being processed */
        *is_demanded;
    int *demanded;
    mp_heap in_order;
    struct mp_choice_copy *copies; /* sorted by place */
    int *begin_of;                 /* per place in `order`: the index in `steps` of its first step, copies included */
    mp_step *steps;
} mp_choices;

/* Sets all storages to kept. On MP_OK release with mp_choices_clear (a zeroed struct is allowed). MP_NOMEM. O(graph). */
mp_status mp_choices_start(const mp_graph *graph, mp_choices *out, mp_error *err);
void mp_choices_clear(mp_choices *choices);

/* True if a copy moves this storage and no other storage. O(1). */
bool mp_choices_may_copy(const mp_choices *choices, int s);
/* Returns the first pair of copies for the storage (ways.h). Precondition: mp_choices_may_copy. O(1). */
const mp_way *mp_choices_way(const mp_choices *choices, int s);

/* Builds the order of the current choices. The *n steps, without updates, are valid until the next call. O(graph log graph). */
const mp_step *mp_choices_order(mp_choices *choices, size_t *n);
