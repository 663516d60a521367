/* bound_reruns.h - the nodes that are certainly recomputed after a boundary if a storage is read later. For bound_demand.c.
 *
 * A storage that is larger than the free memory at a boundary is not live there. If it is read later its producer is
 * recomputed, and in turn the producer of whatever that reads and that cannot be live either. For a set of storages these
 * nodes, each once, are a bound.
 */
#pragma once

#include "planner/bound/interval/bound_interval.h"

/* Storages by rank: in a topological order of their producers, the outputs of a node side by side. */
typedef struct mp_bound_ranks {
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

/* Adds to a set of nodes what runs after boundary i for a set of ranks. */
void mp_bound_reruns_add(const mp_bound_reruns *m, int i, const uint64_t *ranks, uint64_t *nodes);
int64_t mp_bound_reruns_ticks(const mp_bound_reruns *m, const uint64_t *nodes);
