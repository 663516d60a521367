/* fates.c - kept, recomputed or dropped: read off the order of steps. */
#include "memplan/fates.h"

mp_status mp_fates(const mp_graph *graph, const mp_step *steps, size_t n, mp_fate *fates, mp_error *err)
{
    size_t *productions = mp_alloc(graph->n_storages, sizeof *productions); /* of a storage, up to the step at hand */
    if (!productions) return MP_FAIL(err, MP_NOMEM, "no memory for the fates of %zu storages", graph->n_storages);
    for (size_t s = 0; s < graph->n_storages; s++) fates[s] = MP_FATE_NONE;
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const mp_alternative *alternative = &node->alternatives[steps[t].alternative];
        if (node->phase == MP_PHASE_BACKWARD)
            for (size_t i = 0; i < alternative->n_reads; i++)
                if (productions[alternative->reads[i]] == 1) fates[alternative->reads[i]] = MP_FATE_KEPT;
        if (node->phase != MP_PHASE_FORWARD && node->phase != MP_PHASE_LOSS) continue;
        for (size_t i = 0; i < alternative->n_writes; i++) {
            int s = alternative->writes[i];
            if (mp_storage_is_static(&graph->storages[s])) continue;
            productions[s]++;
            if (fates[s] == MP_FATE_NONE) fates[s] = MP_FATE_FORWARD_ONLY;
            if (productions[s] > 1 && fates[s] == MP_FATE_FORWARD_ONLY) fates[s] = MP_FATE_RECOMPUTED;
        }
    }
    mp_free(productions);
    return MP_OK;
}
