/* oracle_lower_set.c - brute force over sequences of lower sets. Sets are bit masks; sums are computed vertex by vertex. */
#include "tests/oracles/oracle_lower_set.h"

typedef unsigned mask;

static int64_t weight(const int64_t *w, int n, mask set)
{
    int64_t sum = 0;
    for (int v = 0; v < n; v++)
        if (set >> v & 1) sum += w[v];
    return sum;
}

/* d+(S) and d-(S): all direct successors or predecessors of members, inside and outside S. */
static mask successors(const oracle_lower_set *x, mask set)
{
    mask out = 0;
    for (int u = 0; u < x->n; u++)
        for (int v = 0; v < x->n; v++)
            if (set >> u & 1 && x->edge[u][v]) out |= 1u << v;
    return out;
}

static mask predecessors(const oracle_lower_set *x, mask set)
{
    mask out = 0;
    for (int u = 0; u < x->n; u++)
        for (int v = 0; v < x->n; v++)
            if (set >> v & 1 && x->edge[u][v]) out |= 1u << u;
    return out;
}

static bool is_lower_set(const oracle_lower_set *x, mask set)
{
    return (predecessors(x, set) & ~set) == 0;
}

/* Extends the sequence that ends with `last`; `kept` is the union of its boundaries. */
static void extend(oracle_lower_set *x, mask last, mask kept, int64_t memory, int64_t overhead)
{
    const mask all = (1u << x->n) - 1;
    if (last == all) {
        x->n_strategies++;
        if (x->least_memory < 0 || memory < x->least_memory) x->least_memory = memory;
        for (int i = 0; i < x->n_budgets; i++) {
            if (memory > x->budget[i]) continue;
            if (x->least_overhead[i] < 0 || overhead < x->least_overhead[i]) x->least_overhead[i] = overhead;
            if (overhead > x->largest_overhead[i]) x->largest_overhead[i] = overhead;
        }
        return;
    }
    for (mask set = last + 1; set <= all; set++) {
        if ((set & last) != last || !is_lower_set(x, set)) continue;
        const mask part = set & ~last, boundary = predecessors(x, all & ~set) & set, after = successors(x, set) & ~set;
        const mask siblings = predecessors(x, successors(x, set)) & ~set;
        const int64_t stage = weight(x->bytes, x->n, kept) + 2 * weight(x->bytes, x->n, part) + weight(x->bytes, x->n, after) +
                              weight(x->bytes, x->n, siblings);
        const int64_t charge = set == all && !x->charge_last ? 0 : weight(x->ticks, x->n, part & ~boundary);
        extend(x, set, kept | boundary, stage > memory ? stage : memory, overhead + charge);
    }
}

void oracle_lower_set_solve(oracle_lower_set *x)
{
    const mask all = (1u << x->n) - 1;
    x->least_memory = -1;
    x->n_strategies = x->n_lower_sets = 0;
    for (int i = 0; i < x->n_budgets; i++) x->least_overhead[i] = x->largest_overhead[i] = -1;
    for (mask set = 0; set <= all; set++) x->n_lower_sets += is_lower_set(x, set);
    extend(x, 0, 0, 0, 0);
}
