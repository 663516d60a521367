/* liveness.h - what a graph's flags mean for how long its storages live: facts that searchers, proofs, pictures and the
 * executor ask for instead of reading the flags. The rules themselves are in memplan/timeline.h.
 */
#pragma once

#include "memplan/timeline.h"

/* True if what the storage holds outlives a training step: it is always live, or carried into the next step. A read of it needs
 * no production before it in the step; it is in memory at the end; and both lives of a carried gradient, the one from the step
 * before and the one that this step begins, have one place. Of any other storage every read comes after a production. */
static inline bool mp_storage_outlives_step(const mp_storage *storage)
{
    return storage->carried || mp_storage_is_static(storage);
}

/* True if a run of a node that may run again produces the storage anew, so that it need not stay for a later reader. */
static inline bool mp_storage_is_recomputable(const mp_graph *graph, int storage)
{
    const int producer = graph->producer[storage];
    return producer >= 0 && mp_node_may_rerun(&graph->nodes[producer]) && !mp_storage_outlives_step(&graph->storages[storage]);
}
