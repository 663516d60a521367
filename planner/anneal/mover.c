/* mover.c - the state of a local search (mp_mover): draws random runs, positions and storages, and moves a run to another
 * position. */
#include "planner/anneal/mover.h"

#include <math.h>

#include "planner/anneal/runs/runs.h"
#include "planner/math/splitmix.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    MOVE_ANY_STEP_ONE_IN = 8, /* if the peak is above the budget, 1 in 8 moves starts at any step, not at a full one */
    MOVE_WEIGHT_SHARE = 1024, /* 1/1024 of the budget is added to each storage's weight; less: small ones are rare */
    MOVE_RERUNS = 20,         /* most recomputations that an eviction adds */
    MOVE_RERUNS_DEEP = 150,   /* most recomputations that a deep eviction adds */
};

/* ---- draws ---- */

double mp_mover_uniform(mp_mover *m)
{
    return mp_splitmix_uniform(&m->random);
}

int mp_mover_below(mp_mover *m, int n)
{
    return mp_splitmix_below(&m->random, n);
}

int mp_mover_any_run(mp_mover *m)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < MP_MOVE_DRAWS; k++) {
        const int run = mp_mover_below(m, x->n_runs);
        if (run != x->end && x->runs[run].position >= 0) return run;
    }
    return -1;
}

int mp_mover_any_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < MP_MOVE_DRAWS; k++) {
        const int run = mp_mover_below(m, x->n_runs);
        if (run != x->end && x->runs[run].position >= 0 && mp_runs_is_extra(x, run)) return run;
    }
    return -1;
}

int mp_mover_any_over(mp_mover *m)
{
    const mp_profile *profile = m->runs->profile;
    return mp_profile_find_over(profile, (int64_t)(mp_mover_uniform(m) * (double)profile->total_over));
}

int mp_mover_any_position(mp_mover *m)
{
    const mp_runs *x = m->runs;
    if (x->profile->total_over > 0 && mp_mover_below(m, MOVE_ANY_STEP_ONE_IN)) return mp_mover_any_over(m);
    const int run = mp_mover_any_run(m);
    return run < 0 ? -1 : x->runs[run].position;
}

/* Draws a live storage like mp_mover_any_live, for large graphs in which few storages are live at a time. It draws a run before
 * the position and takes one of its outputs. The logarithm of the run's distance is uniform, so that near runs are drawn more
 * often. */
static int any_live_near(mp_mover *m, int position, int *reader)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < MP_MOVE_NEAR_DRAWS; k++) {
        const int at = position - (int)pow((double)position + 1, mp_mover_uniform(m));
        const int run = at < 0 ? -1 : x->run_at[at] >= 0 ? x->run_at[at] : mp_runs_neighbour(x, at, -1);
        if (run < 0 || !mp_is_repeatable(x->graph, x->runs[run].node)) continue;
        const mp_alternative *alternative = mp_runs_alternative(x, run);
        const int s = alternative->n_writes ? alternative->writes[mp_mover_below(m, (int)alternative->n_writes)] : -1;
        if (s < 0 || !x->graph->storages[s].bytes || mp_storage_is_static(&x->graph->storages[s])) continue;
        if (!mp_runs_is_live(x, s, position)) continue;
        *reader = mp_runs_next_read(x, s, position);
        if (*reader >= 0) return s;
    }
    return -1;
}

int mp_mover_any_live(mp_mover *m, int position, int *reader)
{
    const mp_runs *x = m->runs;
    if (m->draws_near) return any_live_near(m, position, reader);
    const int64_t total = m->n_candidates ? m->weights[m->n_candidates - 1] : 0;
    for (int k = 0; k < MP_MOVE_DRAWS && total; k++) {
        const int64_t at = (int64_t)(mp_mover_uniform(m) * (double)total);
        int low = 0, high = m->n_candidates - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (m->weights[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        const int s = m->candidates[low];
        if (!mp_runs_is_live(x, s, position)) continue;
        *reader = mp_runs_next_read(x, s, position);
        if (*reader >= 0) return s;
    }
    return -1;
}

/* ---- changes ---- */

void mp_mover_drop(mp_mover *m, int run)
{
    mp_runs *x = m->runs;
    if (x->runs[run].is_wait) run = x->runs[run].mate;
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    const int position = x->runs[run].position;
    mp_runs_remove(x, run);
    for (size_t k = 0; k < alternative->n_reads; k++) {
        const int s = alternative->reads[k];
        if (mp_storage_is_static(&x->graph->storages[s])) continue;
        const int producer = mp_runs_latest_producer(x, s, position);
        if (producer >= 0 && mp_runs_is_extra(x, producer) && mp_runs_is_dead(x, producer)) mp_mover_drop(m, producer);
    }
}

/* Prepares moving the run r to just before the run `before`: reserves a position for a copy of r there. If r is an issued run,
 * its wait keeps its position. If r is a wait, its issued run keeps its position. Returns the index of the copy, or for a wait
 * the index of the copied issued run. -1: the move is impossible. */
static int reserve_there(mp_runs *x, const mp_node_run *r, int before)
{
    if (r->mate < 0) return mp_runs_reserve(x, r->node, r->alternative, before);
    const int there = mp_runs_issue(x, r->node, r->alternative, r->is_wait ? r->mate : before, r->is_wait ? before : r->mate);
    return there >= 0 && mp_runs_position(x, there) < mp_runs_position(x, x->runs[there].mate) ? there : -1;
}

int mp_mover_relocate(mp_mover *m, int run, int before)
{
    mp_runs *x = m->runs;
    const mp_node_run r = x->runs[run];
    /* the wait is not removed separately: mp_runs_remove removes an issued run and its wait together */
    if (before < 0 || before == run || r.position < 0 || mp_runs_position(x, before) < 0) return -1;
    const int there = reserve_there(x, &r, before);
    if (there < 0 || !mp_runs_allows(x, r.node, r.alternative, x->runs[there].position, r.is_wait ? r.mate : run)) return -1;
    if (m->keeps_order && x->runs[there].position < x->runs[x->of_node[r.node].runs[0]].position) return -1;
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, there);
    return r.is_wait ? x->runs[there].mate : there;
}

/* ---- the mover ---- */

bool mp_is_repeatable(const mp_graph *g, int node)
{
    return node >= 0 && mp_node_may_rerun(&g->nodes[node]);
}

/* Returns the mean number of non-static storages that a forward node reads. */
static double mean_reads(const mp_graph *g)
{
    size_t n = 0, n_reads = 0;
    for (size_t v = 0; v < g->n_nodes; v++) {
        const mp_alternative *alternative = &g->nodes[v].alternatives[0];
        if (g->nodes[v].phase != MP_PHASE_FORWARD) continue;
        n++;
        for (size_t k = 0; k < alternative->n_reads; k++) n_reads += !mp_storage_is_static(&g->storages[alternative->reads[k]]);
    }
    return n ? (double)n_reads / (double)n : 0;
}

static void add_few_reruns(mp_mover *m, bool few)
{
    m->n_reruns = few ? MP_MOVE_RERUNS_WIDE : MOVE_RERUNS;
    m->n_reruns_deep = few ? MP_MOVE_RERUNS_WIDE_DEEP : MOVE_RERUNS_DEEP;
}

mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err)
{
    const mp_graph *g = runs->graph;
    MP_CLEARED_BY(mp_mover_free) mp_mover m = {.runs = runs, .random = seed, .keeps_order = keeps_order};
    int64_t sum = 0, least = runs->limit[0] / MOVE_WEIGHT_SHARE + 1;
    m.candidates = mp_alloc(g->n_storages, sizeof *m.candidates);
    m.weights = mp_alloc(g->n_storages, sizeof *m.weights);
    m.list = mp_alloc(MP_MOVE_LIST, sizeof *m.list);
    m.choices = mp_alloc(g->n_nodes, sizeof *m.choices);
    MP_ENSURE(m.candidates && m.weights && m.list && m.choices, err, MP_NOMEM, "out of memory for %zu storages", g->n_storages);
    if (g->has_copies) MP_CHECK(mp_ways_find(g, &m.ways, err));
    for (size_t s = 0; s < g->n_storages; s++) {
        if (!mp_is_repeatable(g, g->producer[s]) && !mp_ways_of(&m.ways, (int)s)) continue;
        if (mp_storage_is_static(&g->storages[s]) || !g->storages[s].bytes) continue;
        sum += g->storages[s].bytes + least;
        m.candidates[m.n_candidates] = (int)s;
        m.weights[m.n_candidates++] = sum;
    }
    for (size_t v = 0; v < g->n_nodes; v++) {
        size_t n = 0;
        for (size_t f = 0; f < g->nodes[v].n_alternatives; f++) n += !g->nodes[v].alternatives[f].returns;
        if (n > 1 && g->nodes[v].phase != MP_PHASE_UPDATE) m.choices[m.n_choices++] = (int)v;
    }
    add_few_reruns(&m, mean_reads(g) > MP_MOVE_WIDE_READS);
    *out = m;
    m = (mp_mover){0};
    return MP_OK;
}

void mp_mover_draw_near(mp_mover *m)
{
    m->draws_near = true;
    add_few_reruns(m, true);
}

void mp_mover_free(mp_mover *m)
{
    mp_free(m->candidates);
    mp_free(m->weights);
    mp_free(m->choices);
    mp_ways_free(&m->ways);
    mp_free(m->list);
    *m = (mp_mover){0};
}
