/* traffic.h - the traffic of a rank if nothing is recomputed, for tests. */
#pragma once

#include <stdlib.h>

#include "memplan/timeline.h"

static inline mp_rank_traffic traffic_of_keep_all(const mp_graph *graph)
{
    mp_rank_traffic traffic;
    mp_step *steps = calloc(graph->n_nodes + 1, sizeof *steps);
    if (!steps) abort();
    mp_traffic_of(graph, steps, mp_keep_all(graph, steps), 1, NULL, &traffic);
    free(steps);
    return traffic;
}
