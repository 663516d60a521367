/* runs_load.c - from an order of steps to runs in slots, and the spreading of runs over the axis. */
#include <string.h>

#include "planner/anneal/runs/lifetimes.h"
#include "planner/math/tuning.h"

/* The most workspace that an update at the end takes. */
static int64_t update_workspace(const mp_graph *graph)
{
    int64_t most = 0;
    if (graph->fuse != MP_FUSE_NONE) return 0;
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (graph->nodes[k].phase == MP_PHASE_UPDATE && graph->nodes[k].forms[0].workspace_bytes > most)
            most = graph->nodes[k].forms[0].workspace_bytes;
    return most;
}

/* Which gradients live to the end, and which until what reads the parameter they change. */
static mp_status link_updates(mp_runs *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *g = x->graph;
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        for (size_t k = 0; k < g->n_nodes; k++) {
            const mp_form *form = &g->nodes[k].forms[0];
            if (g->nodes[k].phase != MP_PHASE_UPDATE) continue;
            for (size_t r = 0; r < form->n_reads; r++) {
                const int s = form->reads[r];
                if (mp_storage_is_static(&g->storages[s])) continue;
                if (g->fuse != MP_FUSE_BACKWARD) {
                    x->update_run[s] = x->end;
                    continue;
                }
                for (size_t w = 0; w < form->n_writes; w++) {
                    const int changed = form->writes[w];
                    if (g->readers_start[changed] == g->readers_start[changed + 1]) continue;
                    if (pass) x->gradients[x->gradients_start[changed + 1]] = s;
                    x->gradients_start[changed + 1 + !pass]++;
                    n += !pass;
                }
            }
        }
        if (pass) break;
        MP_REQUIRE(x->gradients = mp_alloc(n, sizeof *x->gradients), err, MP_NOMEM, "out of memory");
        for (size_t s = 0; s <= g->n_storages; s++) x->gradients_start[s + 1] += x->gradients_start[s];
    }
done:
    return st;
}

static mp_status allocate(mp_runs *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *g = x->graph;
    x->makers = mp_alloc(g->n_storages, sizeof *x->makers);
    x->readers = mp_alloc(g->n_storages, sizeof *x->readers);
    x->update_run = mp_alloc(g->n_storages, sizeof *x->update_run);
    x->gradients_start = mp_alloc(g->n_storages + 2, sizeof *x->gradients_start);
    x->of_node = mp_alloc(g->n_nodes, sizeof *x->of_node);
    MP_REQUIRE(x->makers && x->readers && x->update_run && x->gradients_start && x->of_node, err, MP_NOMEM,
               "out of memory for %zu storages", g->n_storages);
    memset(x->update_run, -1, g->n_storages * sizeof *x->update_run);
done:
    return st;
}

/* A run without a slot. */
static int new_run(mp_runs *x, int node, int form)
{
    if (!mp_grow(&x->runs, &x->runs_capacity, (size_t)x->n_runs + 1, sizeof *x->runs)) {
        x->failed = true;
        return -1;
    }
    x->runs[x->n_runs] = (mp_run){.node = node, .form = form, .slot = -1};
    return x->n_runs++;
}

/* An axis with room for the runs that there are, all of it empty. */
static void renew_axis(mp_runs *x, int n_runs)
{
    mp_error ignored = {0};
    const int wanted = n_runs * MP_RUNS_POSITIONS_PER_RUN + MP_RUNS_LEAST_POSITIONS;
    if (x->axis.n_slots < wanted) {
        mp_axis_free(&x->axis);
        mp_free(x->at_slot);
        x->at_slot = NULL;
        if (mp_axis_new(wanted + wanted / 4, &x->axis, &ignored) == MP_OK)
            x->at_slot = mp_alloc((size_t)x->axis.n_slots, sizeof *x->at_slot);
        if (!x->at_slot) {
            x->failed = true;
            return;
        }
    }
    mp_axis_clear(&x->axis);
    memset(x->at_slot, -1, (size_t)x->axis.n_slots * sizeof *x->at_slot);
    x->runs[x->end].slot = x->axis.n_slots - 1;
    x->at_slot[x->axis.n_slots - 1] = x->end;
    mp_axis_occupy(&x->axis, x->axis.n_slots - 1, x->limit_bytes - x->end_workspace_bytes);
}

/* order[0..n): the runs as they follow on each other. Their slots change, and nothing else. */
static void spread(mp_runs *x, const int *order, int n)
{
    renew_axis(x, n);
    if (x->failed) return;
    for (int k = 0; k < n; k++) {
        mp_run *r = &x->runs[order[k]];
        r->slot = (int)((int64_t)(k + 1) * (x->axis.n_slots - 1) / (n + 1));
        r->credit = 0;
        x->at_slot[r->slot] = order[k];
        mp_axis_occupy(&x->axis, r->slot, x->limit_bytes - x->graph->nodes[r->node].forms[r->form].workspace_bytes);
    }
}

void mp_runs_spread(mp_runs *x)
{
    int *order = mp_alloc((size_t)x->n_on + 1, sizeof *order);
    int n = 0, first, last;
    if (!order) {
        x->failed = true;
        return;
    }
    for (int s = 0; s < x->axis.n_slots; s++)
        if (x->at_slot[s] >= 0 && x->at_slot[s] != x->end) order[n++] = x->at_slot[s];
    spread(x, order, n);
    x->n_shifted = 0;
    for (int s = 0; s < (int)x->graph->n_storages && !x->failed; s++) {
        if (mp_storage_is_static(&x->graph->storages[s])) continue;
        if (mp_is_sum(x->graph, s)) {
            if (mp_lifetime_of_sum(x, s, &first, &last)) mp_axis_add(&x->axis, first, last, x->graph->storages[s].bytes);
            continue;
        }
        for (int m = 0; m < x->makers[s].n; m++)
            mp_axis_add(&x->axis, x->runs[x->makers[s].runs[m]].slot, mp_lifetime_end(x, s, m), x->graph->storages[s].bytes);
    }
    for (int k = 0; k < n && !x->failed; k++) mp_lifetime_credit(x, order[k]);
    mp_free(order);
}

mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const mp_step *steps, size_t n, mp_runs **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_runs *x = mp_alloc(1, sizeof *x);
    int *order = mp_alloc(n, sizeof *order), n_order = 0;
    MP_REQUIRE(x && order, err, MP_NOMEM, "out of memory for %zu runs", n);
    *x = (mp_runs){.graph = graph, .limit_bytes = budget_bytes - mp_graph_static_bytes(graph)};
    x->end_workspace_bytes = update_workspace(graph);
    MP_TRY(allocate(x, err));
    x->end = new_run(x, -1, 0);
    MP_REQUIRE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    MP_TRY(link_updates(x, err));
    for (size_t t = 0; t < n; t++)
        if (graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE) order[n_order++] = new_run(x, steps[t].node, steps[t].form);
    MP_REQUIRE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    spread(x, order, n_order);
    for (int k = 0; k < n_order && !x->failed; k++) mp_runs_turn_on(x, order[k]);
    MP_REQUIRE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    mp_runs_keep(x);
    *out = x;
    x = NULL;
done:
    mp_runs_free(x);
    mp_free(order);
    return st;
}

void mp_runs_free(mp_runs *x)
{
    if (!x) return;
    for (size_t s = 0; x->makers && x->readers && s < x->graph->n_storages; s++) {
        mp_free(x->makers[s].runs);
        mp_free(x->readers[s].runs);
    }
    for (size_t k = 0; x->of_node && k < x->graph->n_nodes; k++) mp_free(x->of_node[k].runs);
    mp_axis_free(&x->axis);
    mp_free(x->at_slot);
    mp_free(x->runs);
    mp_free(x->spare);
    mp_free(x->removed);
    mp_free(x->makers);
    mp_free(x->readers);
    mp_free(x->update_run);
    mp_free(x->gradients_start);
    mp_free(x->gradients);
    mp_free(x->of_node);
    mp_free(x->changes);
    mp_free(x);
}
