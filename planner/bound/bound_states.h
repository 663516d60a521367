/* bound_states.h - sets of what is wanted, each with the least ticks that it was reached with. For bound_demand.c. */
#ifndef PLANNER_BOUND_LABELS_H
#define PLANNER_BOUND_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_bound_labels_table {
    int n, most, words;    /* labels; how many there is room for; of 64 bits in a set */
    int64_t *ticks, *used; /* per label: INT64_MAX: it is gone; bytes, for the caller */
    uint64_t *sets;        /* per label */
    int *slots;            /* hash -> label, -1: free */
    size_t n_slots;
    int64_t *keys; /* work */
} mp_bound_labels_table;

/* Released with mp_bound_labels_clear, also after an error. MP_NOMEM. O(most * words). */
mp_status mp_bound_labels_init(mp_bound_labels_table *t, int most, int words, mp_error *err);
void mp_bound_labels_clear(mp_bound_labels_table *t);
void mp_bound_labels_empty(mp_bound_labels_table *t);

uint64_t *mp_bound_labels_set(const mp_bound_labels_table *t, int label);
/* Adds a set, or lowers its ticks. False: there is no room for it. O(words). */
bool mp_bound_labels_put(mp_bound_labels_table *t, const uint64_t *set, int64_t ticks, int64_t used);
/* Leaves labels of which none that is as cheap (of the thousand cheapest) wants a part only; nothing may be put before the
 * table is emptied. O(n^2 * words). */
void mp_bound_labels_drop_dominated(mp_bound_labels_table *t);

#endif
