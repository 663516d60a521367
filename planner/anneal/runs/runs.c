/* runs.c - makes an order of runs from steps, spreads its runs evenly, and keeps its lists sorted by position. */
#include "planner/anneal/runs/runs.h"

#include <string.h>

#include "estimator/graph/order_rules.h"
#include "planner/math/tuning.h"

void mp_run_list_insert(mp_runs *x, mp_run_list *list, int run)
{
    if (!mp_grow(&list->runs, &list->capacity, (size_t)list->n + 1, sizeof *list->runs)) {
        x->failed = true;
        return;
    }
    const int at = mp_run_list_find(x, list, x->runs[run].position);
    memmove(list->runs + at + 1, list->runs + at, (size_t)(list->n - at) * sizeof *list->runs);
    list->runs[at] = run;
    list->n++;
}

void mp_run_list_remove(const mp_runs *x, mp_run_list *list, int run)
{
    const int at = mp_run_list_find(x, list, x->runs[run].position);
    if (at >= list->n || list->runs[at] != run) return; /* it was never inserted, as memory ran out */
    memmove(list->runs + at, list->runs + at + 1, (size_t)(list->n - at - 1) * sizeof *list->runs);
    list->n--;
}

int mp_runs_neighbour(const mp_runs *x, int position, int step)
{
    for (position += step; position >= 0 && position < x->profile.n_positions; position += step)
        if (x->run_at[position] >= 0) return x->run_at[position];
    return -1;
}

size_t mp_runs_steps(const mp_runs *x, mp_step *steps)
{
    size_t n = 0;
    for (int p = 0; p < x->profile.n_positions; p++) {
        const int run = x->run_at[p];
        if (run >= 0 && run != x->end)
            steps[n++] = (mp_step){.node = x->runs[run].node, .alternative = x->runs[run].alternative};
    }
    return n;
}

/* ---- from steps to runs ---- */

/* Returns the largest workspace of the updates that run at the end. */
static int64_t update_workspace(const mp_graph *graph)
{
    int64_t most = 0;
    if (!mp_update_order_of(graph).after_backward) return 0;
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (graph->nodes[k].phase == MP_PHASE_UPDATE && graph->nodes[k].alternatives[0].workspace_bytes > most)
            most = graph->nodes[k].alternatives[0].workspace_bytes;
    return most;
}

/* Finds which gradients live to the end, and which to the last reader of the parameter that their update changes. */
static mp_status link_updates(mp_runs *x, mp_error *err)
{
    const mp_graph *g = x->graph;
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) { /* first pass counts, second pass fills */
        for (size_t k = 0; k < g->n_nodes; k++) {
            const mp_alternative *alternative = &g->nodes[k].alternatives[0];
            if (g->nodes[k].phase != MP_PHASE_UPDATE) continue;
            for (size_t r = 0; r < alternative->n_reads; r++) {
                const int s = alternative->reads[r];
                if (mp_storage_is_static(&g->storages[s])) continue;
                if (mp_update_order_of(g).keeps_inputs) {
                    x->update_run[s] = x->end;
                    continue;
                }
                for (size_t w = 0; w < alternative->n_writes; w++) {
                    const int changed = alternative->writes[w];
                    if (g->readers_start[changed] == g->readers_start[changed + 1]) continue;
                    if (pass) x->gradients[x->gradients_start[changed + 1]] = s;
                    x->gradients_start[changed + 1 + !pass]++;
                    n += !pass;
                }
            }
        }
        if (pass) break;
        MP_ENSURE(x->gradients = mp_pool_alloc(x->pool, n, sizeof *x->gradients), err, MP_NOMEM, "out of memory");
        for (size_t s = 0; s <= g->n_storages; s++) x->gradients_start[s + 1] += x->gradients_start[s];
    }
    return MP_OK;
}

static mp_status allocate(mp_runs *x, mp_error *err)
{
    const mp_graph *g = x->graph;
    x->pool = mp_pool_new();
    x->producers = mp_pool_alloc(x->pool, g->n_storages, sizeof *x->producers);
    x->readers = mp_pool_alloc(x->pool, g->n_storages, sizeof *x->readers);
    x->update_run = mp_pool_alloc(x->pool, g->n_storages, sizeof *x->update_run);
    x->gradients_start = mp_pool_alloc(x->pool, g->n_storages + 2, sizeof *x->gradients_start);
    x->of_node = mp_pool_alloc(x->pool, g->n_nodes, sizeof *x->of_node);
    x->pair_used = mp_pool_alloc(x->pool, g->n_storages, sizeof *x->pair_used);
    MP_ENSURE(!mp_pool_failed(x->pool), err, MP_NOMEM, "out of memory for %zu storages", g->n_storages);
    memset(x->update_run, -1, g->n_storages * sizeof *x->update_run);
    return MP_OK;
}

/* Makes a run without a position. */
static int new_run(mp_runs *x, int node, int alternative)
{
    if (!mp_grow(&x->runs, &x->runs_capacity, (size_t)x->n_runs + 1, sizeof *x->runs)) {
        x->failed = true;
        return -1;
    }
    x->runs[x->n_runs] = (mp_node_run){.node = node, .alternative = alternative, .position = -1};
    return x->n_runs++;
}

/* Empties the order and gives it positions for n_runs runs. */
static void renew_positions(mp_runs *x, int n_runs)
{
    mp_error ignored = {0};
    const int n_positions = n_runs * MP_RUNS_POSITIONS_PER_RUN + MP_RUNS_LEAST_POSITIONS;
    if (x->profile.n_positions < n_positions) {
        mp_profile_free(&x->profile);
        mp_free(x->run_at);
        x->run_at = NULL;
        if (mp_profile_new(n_positions + n_positions / 4, &x->profile, &ignored) == MP_OK)
            x->run_at = mp_alloc((size_t)x->profile.n_positions, sizeof *x->run_at);
        if (!x->run_at) {
            x->failed = true;
            return;
        }
    }
    mp_profile_clear(&x->profile);
    memset(x->run_at, -1, (size_t)x->profile.n_positions * sizeof *x->run_at);
    x->runs[x->end].position = x->profile.n_positions - 1;
    x->run_at[x->profile.n_positions - 1] = x->end;
    mp_profile_occupy(&x->profile, x->profile.n_positions - 1, x->limit_bytes - x->end_workspace_bytes);
}

/* Spreads the runs order[0..n) evenly; changes nothing but their positions. */
static void spread(mp_runs *x, const int *order, int n)
{
    renew_positions(x, n);
    if (x->failed) return;
    for (int k = 0; k < n; k++) {
        mp_node_run *r = &x->runs[order[k]];
        r->position = (int)((int64_t)(k + 1) * (x->profile.n_positions - 1) / (n + 1));
        r->in_place_bytes = 0;
        x->run_at[r->position] = order[k];
        mp_profile_occupy(&x->profile, r->position,
                          x->limit_bytes - x->graph->nodes[r->node].alternatives[r->alternative].workspace_bytes);
    }
}

void mp_runs_spread(mp_runs *x)
{
    MP_OWNED int *order = mp_alloc((size_t)x->n_on + 1, sizeof *order);
    int n = 0, begin, end;
    if (!order) {
        x->failed = true;
        return;
    }
    for (int s = 0; s < x->profile.n_positions; s++)
        if (x->run_at[s] >= 0 && x->run_at[s] != x->end) order[n++] = x->run_at[s];
    spread(x, order, n);
    x->n_shifted = 0;
    for (int s = 0; s < (int)x->graph->n_storages && !x->failed; s++) {
        if (mp_storage_is_static(&x->graph->storages[s])) continue;
        if (mp_storage_is_sum(x->graph, s)) {
            if (mp_lifetime_of_sum(x, s, &begin, &end)) mp_profile_add(&x->profile, begin, end, x->graph->storages[s].bytes);
            continue;
        }
        for (int m = 0; m < x->producers[s].n; m++)
            mp_profile_add(&x->profile, x->runs[x->producers[s].runs[m]].position, mp_lifetime_end(x, s, m),
                           x->graph->storages[s].bytes);
    }
    for (int k = 0; k < n && !x->failed; k++) mp_lifetime_pair(x, order[k]);
}

mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const mp_step *steps, size_t n, mp_runs **out, mp_error *err)
{
    MP_OWNED_BY(mp_runs_free) mp_runs *x = mp_alloc(1, sizeof *x);
    MP_OWNED int *order = mp_alloc(n, sizeof *order);
    int n_order = 0;
    MP_ENSURE(x && order, err, MP_NOMEM, "out of memory for %zu runs", n);
    *x = (mp_runs){.graph = graph, .limit_bytes = budget_bytes - mp_graph_static_bytes(graph)};
    x->end_workspace_bytes = update_workspace(graph);
    MP_CHECK(allocate(x, err));
    x->end = new_run(x, -1, 0);
    MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    MP_CHECK(link_updates(x, err));
    for (size_t t = 0; t < n; t++)
        if (graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE)
            order[n_order++] = new_run(x, steps[t].node, steps[t].alternative);
    MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    spread(x, order, n_order);
    for (int k = 0; k < n_order && !x->failed; k++) mp_runs_turn_on(x, order[k]);
    MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    mp_runs_keep(x);
    *out = x;
    x = NULL;
    return MP_OK;
}

void mp_runs_free(mp_runs *x)
{
    if (!x) return;
    for (size_t s = 0; x->producers && x->readers && s < x->graph->n_storages; s++) {
        mp_free(x->producers[s].runs);
        mp_free(x->readers[s].runs);
    }
    for (size_t k = 0; x->of_node && k < x->graph->n_nodes; k++) mp_free(x->of_node[k].runs);
    mp_profile_free(&x->profile);
    void *grown[] = {x->run_at, x->runs, x->spare, x->removed, x->changes};
    for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) mp_free(grown[i]);
    mp_pool_free(x->pool);
    mp_free(x);
}
