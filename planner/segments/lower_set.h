/* lower_set.h - lower sets of the forward graph: families of them, and dynamic programming over sequences of them. */
#pragma once

#include "memplan/memory.h"
#include "memplan/search.h"
#include "planner/math/bits.h"
#include "planner/order/dag.h"

/* Families of lower sets of the forward graph, and the transitions between them, after Kusumoto et al.
 * 2019, "A Graph Theoretic Framework of Recomputation Algorithms for Memory-Efficient Backpropagation" (arXiv 1905.11722),
 * under the paper's own memory model.
 *
 * The forward graph has vertices v with bytes M(v) (the value, and as much again for its gradient) and ticks T(v). A lower set
 * holds all predecessors of its members. Its boundary b(L) are the members that a vertex outside reads. A strictly increasing
 * sequence {} < L1 < ... < Lk = V of lower sets, with V_i = L_i \ L_(i-1), is a strategy: forward keeps the boundaries
 * U_i = b(L_1) + ... + b(L_i); backward goes through V_k, ..., V_1 and recomputes V_i from U_(i-1) before.
 *     overhead = sum of T(V_i \ b(L_i))                                                          (1)
 *     memory   = max of M(U_(i-1)) + 2 M(V_i) + M(d+(L_i) \ L_i) + M(d-(d+(L_i)) \ L_i)         (2)
 * with d+(S), d-(S) the direct successors and predecessors of S. The last segment is charged in (1) like the others, although
 * an executor has it still; `charge_last` false leaves it out.
 */

/* The forward graph with bytes and ticks per vertex; the arrays belong to the caller. Sums of bytes * 4 and of ticks must
 * not overflow. If `segment_bytes` is set, its sum over V_i replaces 2 M(V_i) in (2): an executor that frees early holds
 * less of a segment. */
typedef struct mp_lower_set_graph {
    const mp_dag *dag;
    const int64_t *bytes, *ticks;
    const int64_t *segment_bytes; /* NULL: 2 M(v), as in the paper */
} mp_lower_set_graph;

/* A transition from a lower set of the family to one that includes it. */
typedef struct mp_lower_set_pair {
    int from;
    int64_t cost_bytes; /* memory (2) without M(U) */
    int64_t kept_bytes; /* M(b(L') \ L), which the transition adds to M(U) */
    int64_t ticks;      /* T(V' \ b(L')), its overhead */
} mp_lower_set_pair;

/* A family of lower sets by ascending cardinality, without duplicates: the empty set first, V last. */
typedef struct mp_lower_sets {
    int n_vertices, n_words;
    int n;
    uint64_t *bits;           /* set k is bits[k * n_words ..] */
    size_t *pairs_start;      /* the pairs that lead to set k are pairs[pairs_start[k] .. pairs_start[k + 1]) */
    mp_lower_set_pair *pairs; /* for each set by ascending cost */
} mp_lower_sets;

static inline bool mp_lower_set_has(const mp_lower_sets *sets, int k, int v)
{
    return mp_bits_has(sets->bits + (size_t)k * (size_t)sets->n_words, v);
}

/* Makes the family of all lower sets; MP_LIMIT: there are more than `limit`. MP_NOMEM. O(sets^2 * n / 64 + sets * n).
 * Released with mp_lower_sets_free (NULL is fine). */
mp_status mp_lower_sets_all(const mp_lower_set_graph *graph, int limit, mp_lower_sets **out, mp_error *err);
/* Makes the paper's pruned family, L^v = the vertices from which v can be reached, v included, together with prefixes of up
 * to n_orders topological orders. If these are more than `limit` sets, keeps those with the fewest boundary bytes in each
 * stretch. MP_NOMEM. */
mp_status mp_lower_sets_pruned(const mp_lower_set_graph *graph, int n_orders, int limit, mp_lower_sets **out, mp_error *err);
/* Makes the family of the list's prefixes that end at the given vertices. MP_NOMEM. */
mp_status mp_lower_sets_prefixes(const mp_lower_set_graph *graph, const int *last, int n, mp_lower_sets **out, mp_error *err);
void mp_lower_sets_free(mp_lower_sets *sets);
MP_OWNER(mp_lower_sets_free, mp_lower_sets)

/* Computes per vertex of the forward graph the ticks of its node, and the bytes of its outputs that anything but the forward
 * pass reads. */
void mp_lower_set_weights(const mp_graph *graph, const mp_dag *dag, int64_t *ticks, int64_t *needed_bytes);

/* Dynamic programming over sequences of lower sets: the cheapest strategies within a model budget. For the user's budget, a
 * ladder of model budgets is tried, and the timeline judges their strategies.
 *
 * Dynamic programming over (L, overhead so far) -> least M(U): only the sum of what is kept matters for the rest. Of the states
 * of one lower set only those remain that no other beats in both overhead and bytes.
 */

typedef enum mp_lower_set_aim {
    MP_TIME_CENTRIC,  /* the least overhead within the budget */
    MP_MEMORY_CENTRIC /* the largest within it: coarse segments gain most from freeing early, which (2) ignores */
} mp_lower_set_aim;

/* The strategies that no other beats, from the best one for the aim to the one that keeps the fewest bytes. */
typedef struct mp_lower_set_strategies {
    size_t n;
    int64_t *ticks, *kept_bytes;
    int *sequence_start, *sequence; /* strategy i has the sets sequence[sequence_start[i] .. sequence_start[i + 1]), V last */
    size_t ticks_capacity, kept_capacity, start_capacity, sequence_capacity;
} mp_lower_set_strategies;

/* Finds strategies with an overhead of at most most_ticks (INT64_MAX: any); n = 0 if none is within budget and overhead.
 * Overheads are rounded to at most max_levels classes. The result is exact if the sum of all ticks, or most_ticks if less,
 * divided by the common divisor of all ticks, is below max_levels. Released with mp_lower_set_strategies_free. MP_NOMEM.
 * O(pairs * levels). */
mp_status mp_lower_set_search(const mp_lower_sets *sets, int64_t budget_bytes, mp_lower_set_aim aim, int max_levels,
                              int64_t most_ticks, bool charge_last, mp_lower_set_strategies *out, mp_error *err);
void mp_lower_set_strategies_free(mp_lower_set_strategies *strategies); /* releases the arrays, not the struct */

/* Finds the least budget for which the family has a strategy. MP_NOMEM. O(pairs * log bytes). */
mp_status mp_lower_set_least_budget(const mp_lower_sets *sets, int64_t *budget_bytes, mp_error *err);

/* Gives the peak of the strategy that a sequence stands for, judged now or before. */
typedef mp_status (*mp_lower_set_judge)(void *data, const mp_lower_sets *sets, const int *sequence, int n, int64_t *peak_bytes,
                                        mp_error *err);

/* Searches the family with a ladder of model budgets up to a user's budget, and has strategies of every rung judged, about
 * `moves` in all. Whatever is judged for a budget is judged for every larger one. */
mp_status mp_lower_set_ladder(mp_search *search, const mp_lower_sets *sets, int64_t budget_bytes, int64_t moves,
                              mp_lower_set_judge judge, void *data, mp_error *err);
