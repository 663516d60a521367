/* mover.c - what the moves of moves.c choose from. */
#include "planner/moves.h"

bool mp_can_rerun(const mp_graph *g, int node)
{
    return node >= 0 && g->nodes[node].phase == MP_PHASE_FORWARD && !(g->nodes[node].flags & MP_NODE_ONCE);
}

/* How many storages that come and go a forward node reads on average. */
static double mean_reads(const mp_graph *g)
{
    size_t n = 0, n_reads = 0;
    for (size_t v = 0; v < g->n_nodes; v++) {
        const mp_form *form = &g->nodes[v].forms[0];
        if (g->nodes[v].phase != MP_PHASE_FORWARD) continue;
        n++;
        for (size_t k = 0; k < form->n_reads; k++) n_reads += !mp_storage_is_static(&g->storages[form->reads[k]]);
    }
    return n ? (double)n_reads / (double)n : 0;
}

mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *g = runs->graph;
    mp_mover m = {.runs = runs, .random = seed, .keeps_order = keeps_order};
    int64_t sum = 0, least = runs->limit_bytes / 1024 + 1;
    m.candidates = mp_alloc(g->n_storages, sizeof *m.candidates);
    m.weights = mp_alloc(g->n_storages, sizeof *m.weights);
    m.extra = mp_alloc(MP_MOVER_ROOM, sizeof *m.extra);
    m.choices = mp_alloc(g->n_nodes, sizeof *m.choices);
    MP_REQUIRE(m.candidates && m.weights && m.extra && m.choices, err, MP_NOMEM, "out of memory for %zu storages",
               g->n_storages);
    for (size_t s = 0; s < g->n_storages; s++) {
        if (!mp_can_rerun(g, g->producer[s]) || mp_storage_is_static(&g->storages[s]) || !g->storages[s].bytes) continue;
        sum += g->storages[s].bytes + least;
        m.candidates[m.n_candidates] = (int)s;
        m.weights[m.n_candidates++] = sum;
    }
    for (size_t v = 0; v < g->n_nodes; v++)
        if (g->nodes[v].n_forms > 1 && g->nodes[v].phase != MP_PHASE_UPDATE) m.choices[m.n_choices++] = (int)v;
    const bool wide = mean_reads(g) > 3;
    m.few = wide ? 4 : 20;
    m.many = wide ? 24 : 150;
    *out = m;
    m = (mp_mover){0};
done:
    mp_mover_free(&m);
    return st;
}

void mp_mover_free(mp_mover *m)
{
    mp_free(m->candidates);
    mp_free(m->weights);
    mp_free(m->choices);
    mp_free(m->extra);
    *m = (mp_mover){0};
}
