/* bound_states.h - a table of live-in sets, each with the least ticks that it was reached with. For bound_demand.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_bound_states {
    int n, most, words;    /* states; its capacity; words of a set */
    int64_t *ticks, *used; /* per label: INT64_MAX: it is gone; bytes, for the caller */
    uint64_t *sets;        /* per label */
    int *slots;            /* hash -> label, -1: free */
    size_t n_slots;
    int64_t *keys; /* work */
} mp_bound_states;

/* Released with mp_bound_states_clear, also after an error. MP_NOMEM. O(most * words). */
mp_status mp_bound_states_init(mp_bound_states *t, int most, int words, mp_error *err);
void mp_bound_states_clear(mp_bound_states *t);
void mp_bound_states_empty(mp_bound_states *t);

uint64_t *mp_bound_states_set(const mp_bound_states *t, int label);
/* Adds a set, or lowers its ticks. False: the table is full. O(words). */
bool mp_bound_states_put(mp_bound_states *t, const uint64_t *set, int64_t ticks, int64_t used);
/* Drops each state for which another, as cheap or cheaper (of the thousand cheapest), has a part of its set only; nothing may
 * be put before the table is emptied. O(n^2 * words). */
void mp_bound_states_drop_dominated(mp_bound_states *t);
