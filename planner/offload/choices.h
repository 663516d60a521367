/* choices.h - an order of steps from what is chosen for each storage: kept, copied out and back, or computed again.
 *
 * The steps are those of the list. What backward is to compute again runs before the first step that reads it, once, with what
 * that needs in turn. What is copied leaves as soon as it is there, and comes back for its first reader from the loss on.
 */
#pragma once

#include "memplan/timeline.h"
#include "planner/math/heap.h"
#include "planner/order/ways.h"

typedef enum mp_choice {
    MP_CHOICE_KEPT,
    MP_CHOICE_COPIED, /* unnoticed: a copy queues behind those before it, and a copy back begins as late as compute hides it */
    MP_CHOICE_WAITED_FOR, /* the next step waits for the copy out, and the reader for all of the copy back */
    MP_CHOICE_AHEAD,      /* likewise, but the copy back begins so early that compute hides it if the link is free */
    MP_CHOICE_RECOMPUTED
} mp_choice;

/* When a storage lives: places in the order. */
typedef struct mp_choice_life {
    int made, early, late; /* its first run; its last reader in forward; its first one from the loss on, -1: none */
    int out_end, back;     /* of a copy: where the copy out is waited for, and before which place it comes back */
} mp_choice_life;

typedef struct mp_choices {
    mp_pool *pool; /* owns all arrays but those of `ways` */
    const mp_graph *graph;
    mp_ways ways;
    mp_choice *of; /* per storage */
    /* of the order made last */
    int n;
    mp_step *order;       /* all steps but copies and updates ... */
    int64_t *begins;      /* ... and when each begins if compute never waits; n + 1 */
    mp_choice_life *life; /* per storage */
    /* work */
    bool *missing, *reruns, *is_demanded; /* per storage: it is to be computed again; per node: it is, and is so now */
    int *demanded;
    mp_heap in_order;
    struct mp_choice_copy *copies; /* by place */
    int *begin_of;                 /* per place: the step with which it begins, copies first */
    mp_step *steps;
} mp_choices;

/* All storages are kept. On MP_OK released with mp_choices_clear (a zeroed one is fine). MP_NOMEM. O(graph). */
mp_status mp_choices_start(const mp_graph *graph, mp_choices *out, mp_error *err);
void mp_choices_clear(mp_choices *choices);

/* True if there is a way that copies this storage, and it alone. O(1). */
bool mp_choices_may_copy(const mp_choices *choices, int s);
/* Returns the storage's first way. Precondition: it may be copied. O(1). */
const mp_way *mp_choices_way(const mp_choices *choices, int s);

/* Makes the order: its *n steps without updates are valid until the next call. O(graph log graph). */
const mp_step *mp_choices_order(mp_choices *choices, size_t *n);
