/* bound_states.h - tables used by bound_demand.c: a table of live-in sets, and a table of the nodes that must be recomputed
 * after a boundary.
 *
 * mp_bound_states stores live-in sets. With each set it stores the least ticks with which the search reaches the set.
 *
 * mp_bound_reruns stores, per boundary and storage, the nodes that must be recomputed after the boundary if the storage is read
 * later. A storage larger than the free memory at a boundary cannot be live there. If such a storage is read later, its
 * producer is recomputed. An input of the producer that cannot be live at the boundary is recomputed as well. The sum of the
 * ticks of these nodes, each counted once, is a lower bound. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_states {
    mp_pool *pool; /* owns all arrays */
    /* n: number of live-in sets in the table; most: largest number that the table can hold; words: number of 64-bit words of a
     * set */
    int n, most, words;
    /* per state. ticks: the least ticks to reach it, INT64_MAX if it was dropped. used: bytes of the storages that are decided
     * to be live; set by the caller */
    int64_t *ticks, *used;
    uint64_t *sets; /* per state: its live-in set */
    int *slots;     /* hash table: each slot contains the index of a live-in set, or -1 if the slot is free */
    size_t n_slots;
    int64_t *keys; /* scratch of mp_bound_states_drop_dominated */
} mp_bound_states;

/* Creates an empty table for up to `most` live-in sets of `words` 64-bit words each. Release with mp_bound_states_clear, also
 * after an error. MP_NOMEM. O(most * words). */
mp_status mp_bound_states_init(mp_bound_states *t, int most, int words, mp_error *err);
void mp_bound_states_clear(mp_bound_states *t);
void mp_bound_states_empty(mp_bound_states *t);

uint64_t *mp_bound_states_set(const mp_bound_states *t, int label);
/* Adds a live-in set to the table. If the table contains the set, lowers its ticks. Returns false if the table is full.
 * O(words). */
bool mp_bound_states_put(mp_bound_states *t, const uint64_t *set, int64_t ticks, int64_t used);
/* Drops dominated states. A state is dominated by another state whose live-in set is a subset and whose ticks are not higher.
 * Each state is compared with the thousand states with the fewest ticks only. The table must be emptied before the next put.
 * O(n^2 * words). */
void mp_bound_states_drop_dominated(mp_bound_states *t);

/* Ranks: a numbering of the storages in a topological order of their producers. Outputs of one node have consecutive ranks. */
typedef struct mp_bound_ranks {
    mp_pool *pool; /* owns all arrays */
    int n, words;
    int *rank;        /* per storage: its rank (topological number); -1: the storage has no rank */
    int *storage;     /* per rank: its storage */
    int *first, *end; /* per node: the ranks (topological numbers) of its outputs are [first, end) */
} mp_bound_ranks;

/* Gives a rank to all storages that have a vertex in the interval's network. Release with mp_bound_ranks_clear, also after an
 * error. MP_NOMEM. */
mp_status mp_bound_ranks_init(mp_bound_ranks *ranks, const mp_bound_interval *x, mp_error *err);
void mp_bound_ranks_clear(mp_bound_ranks *ranks);

typedef struct mp_bound_reruns {
    mp_pool *pool; /* owns all arrays */
    const mp_precedence *order;
    const mp_bound_ranks *ranks;
    int n, words; /* n: number of boundaries; words: number of 64-bit words of a set of nodes */
    /* per boundary and rank of a storage: the nodes that must be recomputed after the boundary if this storage is read after
     * it */
    uint64_t *nodes;
    uint64_t *needed; /* per boundary: the storages, by rank, that are read by nodes between this boundary and the next one */
} mp_bound_reruns;

/* Computes the table for the n boundaries. Release with mp_bound_reruns_clear, also after an error, before the ranks. MP_NOMEM.
 * O(n (g + s v / 64)) for s storages with a rank, v nodes and a graph of size g. */
mp_status mp_bound_reruns_init(mp_bound_reruns *m, mp_bound_interval *x, const mp_bound_ranks *ranks, const int *boundaries,
                               int n, mp_error *err);
void mp_bound_reruns_clear(mp_bound_reruns *m);

/* Adds to the set `nodes` all nodes that must be recomputed after boundary i in order to produce the storages of the given
 * ranks. */
void mp_bound_reruns_add(const mp_bound_reruns *m, int i, const uint64_t *ranks, uint64_t *nodes);
int64_t mp_bound_reruns_ticks(const mp_bound_reruns *m, const uint64_t *nodes);
