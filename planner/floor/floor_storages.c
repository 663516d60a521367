/* floor_storages.c - the storages of the node that determines a floor. */
#include "memplan/floor.h"

/* True if storage `s` follows storage `than` in a list by descending bytes, and for equal bytes by ascending index. `than` -1:
 * always true. */
static bool comes_after(const mp_graph *graph, int s, int than)
{
    if (than < 0) return true;
    const int64_t a = graph->storages[s].bytes, b = graph->storages[than].bytes;
    return a < b || (a == b && s > than);
}

size_t mp_floor_storages(const mp_graph *graph, int node, int *storages, size_t most, int64_t *bytes)
{
    const mp_alternative *base = &graph->nodes[node].alternatives[0];
    const int *const lists[] = {base->reads, base->writes, base->adds};
    const size_t lengths[] = {base->n_reads, base->n_writes, base->n_adds};
    *bytes = 0;
    for (size_t n = 0, last = 0;; n++) {
        const int before = n ? (int)last : -1;
        int best = -1;
        for (int l = 0; l < 3; l++)
            for (size_t k = 0; k < lengths[l]; k++) {
                const int s = lists[l][k];
                if (!mp_storage_is_static(&graph->storages[s]) && comes_after(graph, s, before) &&
                    (best < 0 || comes_after(graph, best, s)))
                    best = s;
            }
        if (best < 0) return n;
        if (n < most) storages[n] = best;
        *bytes += graph->storages[best].bytes;
        last = (size_t)best;
    }
}
