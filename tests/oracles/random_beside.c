/* random_beside.c - moves updates of a random schedule to a second stream where the rules permit it. */
#include "tests/oracles/random_beside.h"

#include "estimator/base/list.h"
#include "tests/oracles/random_graph.h"

/* Returns whether two alternatives are independent: neither changes a storage that the other uses. */
static bool apart(const mp_alternative *update, const mp_alternative *other)
{
    for (size_t i = 0; i < update->n_reads; i++)
        if (mp_list_has(other->writes, other->n_writes, update->reads[i]) ||
            mp_list_has(other->adds, other->n_adds, update->reads[i]))
            return false;
    for (size_t i = 0; i < update->n_writes; i++)
        if (mp_list_has(other->reads, other->n_reads, update->writes[i]) ||
            mp_list_has(other->writes, other->n_writes, update->writes[i]) ||
            mp_list_has(other->adds, other->n_adds, update->writes[i]))
            return false;
    return true;
}

int random_beside(const mp_graph *graph, uint64_t seed, int percent, mp_step *steps, size_t n)
{
    random_source random = {seed ^ UINT64_C(0x2f0c81d3)};
    int n_beside = 0;
    for (int t = 0; t < (int)n; t++) {
        int last = t + 1;
        const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        if (graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE || !random_chance(&random, percent)) continue;
        while (last < (int)n && apart(alternative, &graph->nodes[steps[last].node].alternatives[steps[last].alternative]))
            last++;
        steps[t].until = t + 1 + random_below(&random, last - t);
        n_beside += steps[t].until > t + 1;
    }
    return n_beside;
}
