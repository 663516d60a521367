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
    /* offloaded, with copies that compute hides: copies run one after the other on the link, and a copy back begins as late as
     * it can without making compute wait */
    MP_CHOICE_COPIED,
    /* offloaded, with copies that compute does not hide: the step after the producer waits for the copy out, and the reader
     * waits for the entire copy back */
    MP_CHOICE_WAITED_FOR,
    /* offloaded like MP_CHOICE_WAITED_FOR, but the copy back begins so early that compute hides it, provided that no other copy
     * uses the link */
    MP_CHOICE_AHEAD,
    MP_CHOICE_RECOMPUTED
} mp_choice;

/* The lifetime of a storage, in places. A place is an index of a step in mp_choices.order. */
typedef struct mp_choice_life {
    /* made: its first run; early: its last reader in forward; late: its first reader in the loss or backward, -1 if none */
    int made, early, late;
    /* for an offloaded storage. out_end: the step that waits for the copy out. back: the step before which the copy back
     * begins */
    int out_end, back;
} mp_choice_life;

typedef struct mp_choices {
    mp_pool *pool; /* owns all arrays except those of `ways` */
    const mp_graph *graph;
    mp_ways ways;
    mp_choice *of;  /* per storage: its choice, set by the caller */
    mp_step *given; /* n_given compute steps, set by mp_choices_follow; n_given 0: steps follow the node list */
    size_t n_given;
    /* results of the last mp_choices_order: */
    int n;
    mp_step *order;       /* all steps except copies and updates */
    int64_t *begins;      /* per step of `order`: the time in ticks at which it begins if compute never waits; n + 1 entries */
    mp_choice_life *life; /* per storage */
    /* scratch: */
    bool *missing, *reruns,
        /* missing, per storage: it is not live and must be recomputed. reruns, per node: it runs again. is_demanded, per node:
         * the list `demanded` of nodes that must run again contains it */
        *is_demanded;
    int *demanded;
    mp_heap in_order;
    struct mp_choice_copy *copies; /* sorted by place */
    /* per place in `order`: the index in `steps` of the first step at this place, copies included */
    int *begin_of;
    mp_step *steps;
} mp_choices;

/* Sets all storages to kept. On MP_OK release with mp_choices_clear (a zeroed struct is allowed). MP_NOMEM. O(graph size). */
mp_status mp_choices_start(const mp_graph *graph, mp_choices *out, mp_error *err);
void mp_choices_clear(mp_choices *choices);

/* True if there is a copy for this storage that moves no other storage. O(1). */
bool mp_choices_may_copy(const mp_choices *choices, int s);
/* Returns the first pair of copies of the storage (ways.h). Precondition: mp_choices_may_copy is true. O(1). */
const mp_way *mp_choices_way(const mp_choices *choices, int s);

/* Lets the compute steps follow a schedule. The schedule already contains all recomputations, so the choice
 * MP_CHOICE_RECOMPUTED has no effect. Copies and updates of the schedule are skipped. Returns false and changes nothing if the
 * schedule has more than two steps per node. O(n). */
bool mp_choices_follow(mp_choices *choices, const mp_step *steps, size_t n);

/* Builds the order of steps for the present choices. The *n steps contain no updates, and are valid until the next call. O(g
 * log g) for a graph of size g. */
const mp_step *mp_choices_order(mp_choices *choices, size_t *n);
