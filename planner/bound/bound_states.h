/* bound_states.h - what is known of a boundary between intervals. For bound_demand.c.
 *
 * mp_bound_states is a table of live-in sets, each with the least ticks that it was reached with. mp_bound_reruns has the nodes
 * that are certainly recomputed after a boundary if a storage is read later: a storage that is larger than the free memory at a
 * boundary is not live there. If it is read later its producer is recomputed, and in turn the producer of whatever that reads
 * and that cannot be live either. For a set of storages these nodes, each once, are a bound.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_states {
    mp_pool *pool;         /* of all arrays */
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
/* Adds a set, or lowers its ticks. Returns false if the table is full. O(words). */
bool mp_bound_states_put(mp_bound_states *t, const uint64_t *set, int64_t ticks, int64_t used);
/* Drops each state for which another, as cheap or cheaper (of the thousand cheapest), has a part of its set only; nothing may
 * be put before the table is emptied. O(n^2 * words). */
void mp_bound_states_drop_dominated(mp_bound_states *t);

/* Storages by rank: in a topological order of their producers, the outputs of a node side by side. */
typedef struct mp_bound_ranks {
    mp_pool *pool; /* of all arrays */
    int n, words;
    int *rank;        /* per storage, -1: none */
    int *storage;     /* per rank */
    int *first, *end; /* per node: the ranks of what it makes */
} mp_bound_ranks;

/* Ranks for all storages that an interval has a vertex for. Released with mp_bound_ranks_clear, also after an error. MP_NOMEM.
 */
mp_status mp_bound_ranks_init(mp_bound_ranks *ranks, const mp_bound_interval *x, mp_error *err);
void mp_bound_ranks_clear(mp_bound_ranks *ranks);

typedef struct mp_bound_reruns {
    mp_pool *pool; /* of all arrays */
    const mp_precedence *order;
    const mp_bound_ranks *ranks;
    int n, words;     /* boundaries; of a set of nodes */
    uint64_t *nodes;  /* per boundary and rank */
    uint64_t *needed; /* per boundary: ranks that nodes between it and the next read */
} mp_bound_reruns;

/* Released with mp_bound_reruns_clear, also after an error, before the ranks. MP_NOMEM. O(n * graph + n * ranks * nodes / 64).
 */
mp_status mp_bound_reruns_init(mp_bound_reruns *m, mp_bound_interval *x, const mp_bound_ranks *ranks, const int *boundaries,
                               int n, mp_error *err);
void mp_bound_reruns_clear(mp_bound_reruns *m);

/* Adds to `nodes` those that are recomputed after boundary i to produce the storages of these ranks. */
void mp_bound_reruns_add(const mp_bound_reruns *m, int i, const uint64_t *ranks, uint64_t *nodes);
int64_t mp_bound_reruns_ticks(const mp_bound_reruns *m, const uint64_t *nodes);
