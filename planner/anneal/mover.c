/* mover.c - what moves choose from, and what every one of them asks. */
#include "planner/anneal/mover.h"

#include "planner/anneal/runs/lifetimes.h"
#include "planner/math/splitmix.h"
#include "planner/math/tuning.h"

/* ---- chance ---- */

double mp_mover_uniform(mp_mover *m)
{
    return mp_splitmix_uniform(&m->random);
}

int mp_mover_below(mp_mover *m, int n)
{
    return mp_splitmix_below(&m->random, n);
}

/* ---- runs ---- */

bool mp_run_is_extra(const mp_runs *x, int run)
{
    const int node = x->runs[run].node;
    return node >= 0 && x->of_node[node].n > 1 && x->of_node[node].runs[0] != run;
}

int mp_mover_any_run(mp_mover *m)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < MP_MOVE_DRAWS; k++) {
        const int run = mp_mover_below(m, x->n_runs);
        if (run != x->end && x->runs[run].slot >= 0) return run;
    }
    return -1;
}

int mp_mover_any_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < MP_MOVE_DRAWS; k++) {
        const int run = mp_mover_below(m, x->n_runs);
        if (run != x->end && x->runs[run].slot >= 0 && mp_run_is_extra(x, run)) return run;
    }
    return -1;
}

int mp_mover_any_slot(mp_mover *m)
{
    const mp_runs *x = m->runs;
    if (x->axis.total_over > 0 && mp_mover_below(m, MP_MOVE_ANY_STEP_ONE_IN))
        return mp_axis_find_over(&x->axis, (int64_t)(mp_mover_uniform(m) * (double)x->axis.total_over));
    const int run = mp_mover_any_run(m);
    return run < 0 ? -1 : x->runs[run].slot;
}

int mp_mover_any_living(mp_mover *m, int slot, int *reader)
{
    const mp_runs *x = m->runs;
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
        if (!mp_runs_lives(x, s, slot)) continue;
        *reader = mp_runs_next_read(x, s, slot);
        if (*reader >= 0) return s;
    }
    return -1;
}

int mp_run_neighbour(const mp_runs *x, int slot, int step)
{
    for (slot += step; slot >= 0 && slot < x->axis.n_slots; slot += step)
        if (x->at_slot[slot] >= 0) return x->at_slot[slot];
    return -1;
}

bool mp_run_is_dead(const mp_runs *x, int run)
{
    const mp_run *r = &x->runs[run];
    const mp_form *form = &x->graph->nodes[r->node].forms[r->form];
    for (size_t k = 0; k < form->n_writes; k++) {
        const int s = form->writes[k];
        if (!mp_storage_is_static(&x->graph->storages[s]) && mp_runs_next_read(x, s, r->slot) >= 0) return false;
    }
    return true;
}

int mp_run_latest_maker(const mp_runs *x, int s, int slot)
{
    const int at = mp_run_list_find(x, &x->makers[s], slot) - 1;
    return at < 0 ? -1 : x->makers[s].runs[at];
}

void mp_run_drop(mp_runs *x, int run)
{
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    const int slot = x->runs[run].slot;
    mp_runs_remove(x, run);
    for (size_t k = 0; k < form->n_reads; k++) {
        const int s = form->reads[k];
        if (mp_storage_is_static(&x->graph->storages[s])) continue;
        const int maker = mp_run_latest_maker(x, s, slot);
        if (maker >= 0 && mp_run_is_extra(x, maker) && mp_run_is_dead(x, maker)) mp_run_drop(x, maker);
    }
}

bool mp_run_is_among(const int *list, int n, int run)
{
    for (int k = 0; k < n; k++)
        if (list[k] == run) return true;
    return false;
}

int mp_mover_relocate(mp_mover *m, int run, int before)
{
    mp_runs *x = m->runs;
    const mp_run r = x->runs[run];
    if (before < 0 || before == run) return -1;
    const int there = mp_runs_reserve(x, r.node, r.form, before);
    if (there < 0 || !mp_runs_allows(x, r.node, r.form, x->runs[there].slot, run)) return -1;
    if (m->keeps_order && x->runs[there].slot < x->runs[x->of_node[r.node].runs[0]].slot) return -1;
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, there);
    return there;
}

/* ---- the mover ---- */

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
    int64_t sum = 0, least = runs->limit_bytes / MP_MOVE_WEIGHT_SHARE + 1;
    m.candidates = mp_alloc(g->n_storages, sizeof *m.candidates);
    m.weights = mp_alloc(g->n_storages, sizeof *m.weights);
    m.extra = mp_alloc(MP_MOVE_LIST, sizeof *m.extra);
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
    const bool wide = mean_reads(g) > MP_MOVE_WIDE_READS;
    m.few = wide ? MP_MOVE_RERUNS_WIDE : MP_MOVE_RERUNS;
    m.many = wide ? MP_MOVE_RERUNS_WIDE_DEEP : MP_MOVE_RERUNS_DEEP;
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
