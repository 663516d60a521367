/* lower_set.h - lower sets of the forward graph: finds families of lower sets, and searches sequences of them by dynamic
 * programming. */
#pragma once

#include "memplan/memory.h"
#include "memplan/search.h"
#include "planner/math/bits.h"
#include "planner/order/dag.h"

/* Families of lower sets of the forward graph, and the transitions between them. After Kusumoto et al. 2019, "A Graph Theoretic
 * Framework of Recomputation Algorithms for Memory-Efficient Backpropagation" (arXiv 1905.11722), under the paper's own memory
 * model.
 *
 * The forward graph has vertices v with bytes M(v) (of the value; its gradient has as many) and ticks T(v). A lower set
 * contains all predecessors of its members. Its boundary b(L) consists of the members that a vertex outside reads. A strategy
 * is a strictly increasing sequence {} < L1 < ... < Lk = V of lower sets, with V_i = L_i \ L_(i-1). Forward keeps the
 * boundaries U_i = b(L_1) + ... + b(L_i). Backward processes V_k, ..., V_1 and first recomputes V_i from U_(i-1).
 *     overhead = sum of T(V_i \ b(L_i))                                                          (1)
 *     memory   = max of M(U_(i-1)) + 2 M(V_i) + M(d+(L_i) \ L_i) + M(d-(d+(L_i)) \ L_i)         (2)
 * d+(S) and d-(S) are the direct successors and predecessors of S. (1) charges the last segment like the others, although an
 * executor still holds it. With `charge_last` false, it is not charged.
 */

/* The forward graph with bytes and ticks per vertex. The caller owns the arrays. Sums of bytes * 4 and of ticks must not
 * overflow. If `segment_bytes` is set, its sum over V_i replaces 2 M(V_i) in (2), because an executor that frees storages early
 * holds fewer bytes of a segment. */
typedef struct mp_lower_set_graph {
    const mp_dag *dag;
    const int64_t *bytes, *ticks;
    const int64_t *segment_bytes; /* per vertex: its bytes in a segment that is recomputed; NULL: 2 M(v), as in the paper */
} mp_lower_set_graph;

/* A transition from a lower set L of the family to a larger lower set L' that contains it, with V' = L' \ L. */
typedef struct mp_lower_set_pair {
    int from;
    int64_t cost_bytes; /* memory (2) of this transition without the term M(U_(i-1)) */
    int64_t kept_bytes; /* M(b(L') \ L): bytes that the transition adds to M(U) */
    int64_t ticks;      /* T(V' \ b(L')): the transition's overhead (1) */
} mp_lower_set_pair;

/* A family of lower sets without duplicates, in the order of ascending cardinality. The empty set is first, and V is last. */
typedef struct mp_lower_sets {
    int n_vertices, n_words;
    int n;
    uint64_t *bits;           /* set k consists of the words bits[k * n_words ..] */
    size_t *pairs_start;      /* the transitions that lead to set k are pairs[pairs_start[k] .. pairs_start[k + 1]) */
    mp_lower_set_pair *pairs; /* the transitions to one set are sorted by ascending cost_bytes */
} mp_lower_sets;

static inline bool mp_lower_set_has(const mp_lower_sets *sets, int k, int v)
{
    return mp_bits_has(sets->bits + (size_t)k * (size_t)sets->n_words, v);
}

/* Builds the family of all lower sets. MP_LIMIT: there are more than `limit`. MP_NOMEM. O(sets^2 * n / 64 + sets * n). Release
 * with mp_lower_sets_free (NULL is allowed). */
mp_status mp_lower_sets_all(const mp_lower_set_graph *graph, int limit, mp_lower_sets **out, mp_error *err);
/* Builds the union of two families: the pruned family of Kusumoto et al. 2019, L^v = the vertices from which v can be reached,
 * v included, and the prefixes of up to n_orders topological orders. If there are more than `limit` sets, divides the sequence
 * of sets into ranges and keeps from each range the set with the fewest boundary bytes. MP_NOMEM. */
mp_status mp_lower_sets_pruned(const mp_lower_set_graph *graph, int n_orders, int limit, mp_lower_sets **out, mp_error *err);
/* Builds the family of those prefixes of the node list that end at the given vertices. MP_NOMEM. */
mp_status mp_lower_sets_prefixes(const mp_lower_set_graph *graph, const int *last, int n, mp_lower_sets **out, mp_error *err);
void mp_lower_sets_free(mp_lower_sets *sets);
MP_OWNER(mp_lower_sets_free, mp_lower_sets)

/* Computes two numbers per vertex of the forward graph: the ticks of its node, and the bytes of its outputs that nodes outside
 * of the forward pass read. */
void mp_lower_set_weights(const mp_graph *graph, const mp_dag *dag, int64_t *ticks, int64_t *needed_bytes);

/* Dynamic programming over sequences of lower sets: finds the strategies with the least overhead (1) whose memory (2) is within
 * a model budget. The model budget differs from the user's budget, because (2) is not the timeline's peak. So a ladder of model
 * budgets is tried, and the timeline judges the strategies found for each.
 *
 * A state consists of a lower set L and the overhead so far. The programme computes the least M(U) for each state, because
 * later transitions depend only on the sum of kept bytes. Of two states with the same lower set, the one with more overhead and
 * more bytes is dropped. */

typedef enum mp_lower_set_aim {
    MP_TIME_CENTRIC, /* wanted: the strategy with the least overhead within the model budget */
    /* wanted: the strategy with the largest overhead within the model budget. Its segments are coarse, and gain most from early
     * freeing, which (2) ignores */
    MP_MEMORY_CENTRIC
} mp_lower_set_aim;

/* The strategies that no other strategy dominates. The first is the best one for the aim (mp_lower_set_aim), the last keeps the
 * fewest bytes. */
typedef struct mp_lower_set_strategies {
    size_t n;
    int64_t *ticks, *kept_bytes;
    int *sequence_start,
        /* strategy i consists of the lower sets sequence[sequence_start[i] .. sequence_start[i + 1]); the last one is V */
        *sequence;
    size_t ticks_capacity, kept_capacity, start_capacity, sequence_capacity;
} mp_lower_set_strategies;

/* Finds strategies with an overhead of at most most_ticks (INT64_MAX: any). out->n = 0: no strategy satisfies both limits.
 * Overheads are rounded to at most max_levels classes. The result is exact if there are fewer distinct overheads than classes.
 * The number of distinct overheads is at most the sum of all ticks, or most_ticks if smaller, divided by the common divisor of
 * all ticks. Release with mp_lower_set_strategies_free. MP_NOMEM. O(n max_levels) for n transitions (mp_lower_set_pair). */
mp_status mp_lower_set_search(const mp_lower_sets *sets, int64_t budget_bytes, mp_lower_set_aim aim, int max_levels,
                              int64_t most_ticks, bool charge_last, mp_lower_set_strategies *out, mp_error *err);
void mp_lower_set_strategies_free(mp_lower_set_strategies *strategies); /* releases the arrays, not the struct */

/* Finds the smallest model budget with which some sequence of the lower sets in `sets` is a strategy within the budget.
 * MP_NOMEM. O(n log b) for n transitions (mp_lower_set_pair) and a budget of b bytes. */
mp_status mp_lower_set_least_budget(const mp_lower_sets *sets, int64_t *budget_bytes, mp_error *err);

/* A function that sets *peak_bytes to the peak of a strategy, as the timeline measures it. A strategy is judged once. A later
 * call with the same strategy returns the stored peak. */
typedef mp_status (*mp_lower_set_judge)(void *data, const mp_lower_sets *sets, const int *sequence, int n, int64_t *peak_bytes,
                                        mp_error *err);

/* Tries a ladder of model budgets up to the user's budget, with the family of lower sets `sets`. For each model budget, finds
 * strategies and lets the timeline judge them, about `moves` in total. A strategy that is judged for a user's budget is also
 * judged for every larger budget. */
mp_status mp_lower_set_ladder(mp_search *search, const mp_lower_sets *sets, int64_t budget_bytes, int64_t moves,
                              mp_lower_set_judge judge, void *data, mp_error *err);
