/* none.c - keeps everything: the order of the list, nothing run twice. The updates stand where keep-all has them, or, if the
 * graph fuses them into backward, also as early as they can: the same work, earlier freed. */
#include "planner/segments/none.h"

#include "planner/order/updates.h"

mp_status mp_run_none(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = mp_search_request(search)->graph;
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps), *fused = NULL;
    size_t n = 0;
    MP_REQUIRE(steps, err, MP_NOMEM, "out of memory for a schedule of %zu steps", graph->n_nodes);
    mp_keep_all(graph, steps);
    MP_TRY(mp_search_offer(search, steps, graph->n_nodes, NULL, NULL, err));
    for (size_t t = 0; t < graph->n_nodes; t++)
        if (graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE) steps[n++] = steps[t];
    if (n == graph->n_nodes || graph->fuse != MP_FUSE_BACKWARD) goto done;
    MP_TRY(mp_updates_place(graph, steps, n, &fused, &n, err));
    MP_TRY(mp_search_offer(search, fused, n, NULL, NULL, err));
done:
    mp_free(steps);
    mp_free(fused);
    return st;
}
