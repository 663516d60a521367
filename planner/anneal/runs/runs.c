/* runs.c - converts steps to an order of runs, spreads runs evenly over the positions, and keeps the lists of runs sorted. */
#include "planner/anneal/runs/runs.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/base/list.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    POSITIONS_PER_RUN = 4, /* more positions: cheaper insertions, slower sums over positions */
    LEAST_POSITIONS = 256, /* positions in addition to POSITIONS_PER_RUN times the number of runs */
};

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
    /* the list does not contain the run, because memory ran out when the run was inserted */
    if (at >= list->n || list->runs[at] != run) return;
    memmove(list->runs + at, list->runs + at + 1, (size_t)(list->n - at - 1) * sizeof *list->runs);
    list->n--;
}

int mp_runs_neighbour(const mp_runs *x, int position, int step)
{
    for (position += step; position >= 0 && position < x->profile->n_positions; position += step)
        if (x->run_at[position] >= 0) return x->run_at[position];
    return -1;
}

static const mp_alternative *done_by(const mp_runs *x, mp_step step)
{
    return &x->graph->nodes[step.node].alternatives[step.alternative];
}

/* True if a step uses a static storage that an issued step writes, so the two must not overlap. Steps of one channel never
 * overlap. */
static bool is_apart(const mp_runs *x, mp_step issued, mp_step step)
{
    const mp_alternative *a = done_by(x, issued), *other = done_by(x, step);
    if (a->channel == other->channel) return false;
    for (size_t k = 0; k < a->n_writes; k++) {
        const int s = a->writes[k];
        if (mp_storage_is_static(&x->graph->storages[s]) &&
            (mp_list_has(other->reads, other->n_reads, s) || mp_list_has(other->writes, other->n_writes, s)))
            return true;
    }
    return false;
}

/* Ends the overlap of an issued step with a later step that uses a static storage which the issued step writes. The list of
 * runs does not record the order of accesses to static storages, so this check is necessary. */
static void end_overlaps(const mp_runs *x, mp_step *steps, size_t n)
{
    for (int t = 0; t < (int)n; t++) {
        if (!mp_step_is_issued(steps[t])) continue;
        const int end = mp_step_end(steps, t);
        int until = t + 1;
        while (until < end && !is_apart(x, steps[t], steps[until])) until++;
        if (until < end) mp_steps_issue(steps, t, t + 1, until > t + 1 ? until : 0);
    }
}

size_t mp_runs_steps(const mp_runs *x, mp_step *steps)
{
    size_t n = 0;
    for (int p = 0; p < x->profile->n_positions; p++) {
        const int run = x->run_at[p];
        mp_node_run *r = run < 0 || run == x->end ? NULL : &x->runs[run];
        const int issued = r && r->is_wait ? x->runs[r->mate].step : 0;
        if (r && r->is_wait) mp_steps_issue(steps, issued, issued + 1, (int)n);
        if (!r || r->is_wait) continue;
        r->step = (int)n;
        steps[n++] = (mp_step){.node = r->node, .alternative = r->alternative};
    }
    if (x->graph->has_copies) end_overlaps(x, steps, n);
    return n;
}

int64_t mp_runs_over(const mp_runs *x)
{
    int64_t over = x->profile->total_over;
    for (size_t m = 1; m < x->graph->n_tiers; m++) over += x->profile[m].total_over;
    return over;
}

int64_t mp_runs_limit(const mp_runs *x, int run, int tier)
{
    if (tier) return x->limit[tier];
    if (run == x->end) return x->limit[0] - x->end_workspace_bytes;
    return x->limit[0] - (mp_runs_is_issued(x, run) ? 0 : x->runs[run].does->workspace_bytes);
}

void mp_runs_occupy(mp_runs *x, int run, bool enters)
{
    const int position = mp_runs_position(x, run);
    for (int m = 0; m < (int)x->graph->n_tiers; m++) {
        if (!x->has_limit[m]) continue;
        if (enters)
            mp_profile_occupy(x->profile + m, position, mp_runs_limit(x, run, m));
        else
            mp_profile_vacate(x->profile + m, position, mp_runs_limit(x, run, m));
    }
}

int64_t mp_runs_ticks_before(const mp_runs *x, int position)
{
    int64_t sum = 0;
    for (int p = position; p > 0; p -= p & -p) sum += x->sums[p];
    return sum;
}

int mp_runs_ahead(const mp_runs *x, int position, int64_t ticks)
{
    int64_t rest = mp_runs_ticks_before(x, position) - ticks;
    /* invariant of the search in the Fenwick tree: (compute ticks before position `at`) + rest is constant, and rest >= 0 */
    int step = 1, at = 0;
    if (rest < 0) return -1;
    while (step <= x->profile->n_positions / 2) step *= 2;
    for (; step > 0; step /= 2) {
        if (at + step > position || x->sums[at + step] > rest) continue;
        at += step;
        rest -= x->sums[at];
    }
    return at < position ? at : position - 1;
}

int mp_runs_reach(const mp_runs *x, int64_t ticks)
{
    /* invariant of the search in the Fenwick tree: the compute runs before position `at` take less than the requested ticks */
    int step = 1, at = 0;
    while (step <= x->profile->n_positions / 2) step *= 2;
    for (; step > 0; step /= 2) {
        if (at + step > x->profile->n_positions || x->sums[at + step] >= ticks) continue;
        at += step;
        ticks -= x->sums[at];
    }
    if (ticks > 0) at++;
    return at < x->profile->n_positions ? at : x->profile->n_positions - 1;
}

int64_t mp_runs_ticks_within(const mp_runs *x, int64_t most)
{
    /* compute: the time at which the compute channel has finished all steps visited so far */
    int64_t free_at[MP_MAX_CHANNELS] = {0}, compute = 0, before = 0, last = 0;
    for (int k = 0; k < x->queue.n; k++) {
        mp_node_run *r = &x->runs[x->queue.runs[k]];
        const int64_t sum = mp_runs_ticks_before(x, r->position);
        compute += sum - before;
        before = sum;
        if (compute + x->ticks - before > most) break;
        if (r->is_wait) {
            compute = mp_larger(compute, x->runs[r->mate].ended);
        } else {
            int64_t *end = &free_at[r->does->channel];
            *end = r->ended = mp_larger(compute, *end) + r->does->ticks;
            last = mp_larger(last, *end);
        }
        r->waited = compute - sum;
    }
    return mp_larger(last, compute + x->ticks - before);
}

/* ---- conversion of steps to runs ---- */

/* Returns the largest workspace of the updates that run after backward. */
static int64_t update_workspace(const mp_graph *graph)
{
    int64_t most = 0;
    if (!mp_update_order_of(graph).after_backward) return 0;
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (graph->nodes[k].phase == MP_PHASE_UPDATE && graph->nodes[k].alternatives[0].workspace_bytes > most)
            most = graph->nodes[k].alternatives[0].workspace_bytes;
    return most;
}

/* Finds, per gradient, the run up to which the gradient lives. If updates run after backward, a gradient lives to the end of
 * backward. With fused updates, a gradient lives to the last reader of the parameter that its update overwrites. */
static mp_status link_updates(mp_runs *x, mp_error *err)
{
    const mp_graph *g = x->graph;
    size_t n = 0;
    /* the first pass counts the entries of all lists, the second pass writes the entries */
    for (int pass = 0; pass < 2; pass++) {
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

/* Builds the list of storages that the wait of an issued node reads: all storages that the issued alternative reads, adds to or
 * writes. */
static void make_waits(mp_runs *x, int v)
{
    const mp_node *node = &x->graph->nodes[v];
    for (size_t f = 0; f < node->n_alternatives; f++) {
        const mp_alternative *a = &node->alternatives[f];
        const int *lists[] = {a->reads, a->adds, a->writes};
        const size_t lengths[] = {a->n_reads, a->n_adds, a->n_writes};
        if (a->channel <= MP_CHANNEL_SECOND_STREAM) continue;
        if (!x->waits[v]) x->waits[v] = mp_pool_alloc(x->pool, node->n_alternatives, sizeof **x->waits);
        if (!x->waits[v]) return;
        mp_alternative *wait = &x->waits[v][f];
        wait->reads = mp_pool_alloc(x->pool, a->n_reads + a->n_adds + a->n_writes, sizeof *wait->reads);
        for (size_t i = 0; wait->reads && i < 3; i++)
            for (size_t k = 0; k < lengths[i]; k++)
                if (!mp_list_has(wait->reads, wait->n_reads, lists[i][k])) wait->reads[wait->n_reads++] = lists[i][k];
    }
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
    x->waits = mp_pool_alloc(x->pool, g->n_nodes, sizeof *x->waits);
    for (size_t v = 0; g->has_copies && x->waits && v < g->n_nodes; v++) make_waits(x, (int)v);
    MP_ENSURE(!mp_pool_failed(x->pool), err, MP_NOMEM, "out of memory for %zu storages", g->n_storages);
    memset(x->update_run, -1, g->n_storages * sizeof *x->update_run);
    return MP_OK;
}

/* Creates a run of a node that has no position yet. */
static int new_run(mp_runs *x, int node, int alternative)
{
    if (!mp_grow(&x->runs, &x->runs_capacity, (size_t)x->n_runs + 1, sizeof *x->runs)) {
        x->failed = true;
        return -1;
    }
    x->runs[x->n_runs] = (mp_node_run){.node = node, .alternative = alternative, .mate = -1, .position = -1};
    if (node >= 0) x->runs[x->n_runs].does = &x->graph->nodes[node].alternatives[alternative];
    return x->n_runs++;
}

/* Creates the wait of an issued run, without a position yet. Returns -1 if the run is not issued. */
static int new_wait(mp_runs *x, int run)
{
    const mp_node_run r = x->runs[run];
    const int wait = mp_runs_is_issued(x, run) ? new_run(x, r.node, r.alternative) : -1;
    if (wait < 0) return -1;
    x->runs[wait].does = &x->waits[r.node][r.alternative];
    x->runs[wait].is_wait = true;
    x->runs[wait].mate = run;
    x->runs[run].mate = wait;
    return wait;
}

/* Removes all runs and allocates enough positions for n_runs runs. */
static void renew_positions(mp_runs *x, int n_runs)
{
    mp_error ignored = {0};
    const int n_positions = n_runs * POSITIONS_PER_RUN + LEAST_POSITIONS;
    if (x->profile->n_positions < n_positions) {
        mp_status st = MP_OK;
        mp_free(x->run_at);
        x->run_at = NULL;
        for (size_t m = 0; m < x->graph->n_tiers && st == MP_OK; m++) {
            mp_profile_free(x->profile + m);
            st = mp_profile_new(n_positions + n_positions / 4, x->profile + m, &ignored);
        }
        if (st == MP_OK) x->run_at = mp_alloc((size_t)x->profile->n_positions, sizeof *x->run_at);
        mp_free(x->sums);
        x->sums = NULL;
        if (x->graph->has_copies && x->run_at) x->sums = mp_alloc((size_t)x->profile->n_positions + 1, sizeof *x->sums);
        if (!x->run_at || (x->graph->has_copies && !x->sums)) {
            x->failed = true;
            return;
        }
    }
    for (size_t m = 0; m < x->graph->n_tiers; m++) mp_profile_clear(x->profile + m);
    if (x->sums) memset(x->sums, 0, ((size_t)x->profile->n_positions + 1) * sizeof *x->sums);
    memset(x->run_at, -1, (size_t)x->profile->n_positions * sizeof *x->run_at);
    x->runs[x->end].position = x->profile->n_positions - 1;
    x->run_at[x->profile->n_positions - 1] = x->end;
    mp_runs_occupy(x, x->end, true);
}

/* Gives the runs order[0..n) new positions at equal distances. Nothing else of the runs changes. */
static void spread(mp_runs *x, const int *order, int n)
{
    renew_positions(x, n);
    if (x->failed) return;
    for (int k = 0; k < n; k++) {
        mp_node_run *r = &x->runs[order[k]];
        r->position = (int)((int64_t)(k + 1) * (x->profile->n_positions - 1) / (n + 1));
        r->in_place_bytes = 0;
        x->run_at[r->position] = order[k];
        mp_runs_occupy(x, order[k], true);
        if (r->is_on && r->mate < 0) mp_runs_add_ticks(x, r->position, r->does->ticks);
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
    for (int s = 0; s < x->profile->n_positions; s++)
        if (x->run_at[s] >= 0 && x->run_at[s] != x->end) order[n++] = x->run_at[s];
    spread(x, order, n);
    x->n_shifted = 0;
    for (int s = 0; s < (int)x->graph->n_storages && !x->failed; s++) {
        if (mp_storage_is_static(&x->graph->storages[s]) || !x->has_limit[x->graph->storages[s].tier]) continue;
        mp_profile *profile = x->profile + x->graph->storages[s].tier;
        if (mp_storage_is_sum(x->graph, s)) {
            if (mp_lifetime_of_sum(x, s, &begin, &end)) mp_profile_add(profile, begin, end, x->graph->storages[s].bytes);
            continue;
        }
        for (int m = 0; m < x->producers[s].n; m++)
            mp_profile_add(profile, mp_runs_position(x, x->producers[s].runs[m]), mp_lifetime_end(x, s, m),
                           x->graph->storages[s].bytes);
    }
    for (int k = 0; k < x->queue.n && !x->failed; k++)
        if (!x->runs[x->queue.runs[k]].is_wait) mp_lifetime_workspace(x, x->queue.runs[k], 1);
    for (int k = 0; k < n && !x->failed; k++) mp_lifetime_pair(x, order[k]);
}

/* Appends the waits for issued steps whose `until` is at most t, so that they precede step t. */
static void append_waits(const mp_runs *x, const mp_step *steps, int *issued, int *n_issued, const int *step_of, int t,
                         int *order, int *n_order)
{
    int n = 0;
    for (int k = 0; k < *n_issued; k++) {
        if (mp_step_end(steps, step_of[issued[k]]) <= t)
            order[(*n_order)++] = x->runs[issued[k]].mate;
        else
            issued[n++] = issued[k];
    }
    *n_issued = n;
}

/* Converts n steps to runs, in order. `order` and the scratch arrays have 2 n + 1 elements, because an issued step becomes two
 * runs. Returns the number of runs. */
static int make_runs(mp_runs *x, const mp_step *steps, size_t n, int *order, int *issued, int *step_of)
{
    int n_order = 0, n_issued = 0;
    for (int t = 0; t <= (int)n && !x->failed; t++) {
        append_waits(x, steps, issued, &n_issued, step_of, t, order, &n_order);
        if (t == (int)n || x->graph->nodes[steps[t].node].phase == MP_PHASE_UPDATE) continue;
        const int run = new_run(x, steps[t].node, steps[t].alternative);
        if (run < 0) break;
        order[n_order++] = run;
        step_of[run] = t;
        if (new_wait(x, run) >= 0) issued[n_issued++] = run;
    }
    return n_order;
}

mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, const mp_step *steps, size_t n,
                      mp_runs **out, mp_error *err)
{
    MP_OWNED_BY(mp_runs_free) mp_runs *x = mp_alloc(1, sizeof *x);
    MP_OWNED int *order = mp_alloc(3 * (2 * n + 2), sizeof *order);
    MP_ENSURE(x && order, err, MP_NOMEM, "out of memory for %zu runs", n);
    *x = (mp_runs){.graph = graph};
    for (int m = 0; m < (int)graph->n_tiers; m++) {
        const int64_t bytes = !m ? budget_bytes : tier_bytes && tier_bytes[m] ? tier_bytes[m] : INT64_MAX / 2;
        x->has_limit[m] = !m || (tier_bytes && tier_bytes[m]);
        x->limit[m] = bytes - mp_graph_static_bytes_in(graph, m);
    }
    x->end_workspace_bytes = update_workspace(graph);
    MP_CHECK(allocate(x, err));
    x->end = new_run(x, -1, 0);
    MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    MP_CHECK(link_updates(x, err));
    const int n_order = make_runs(x, steps, n, order, order + (2 * n + 2), order + 2 * (2 * n + 2));
    MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %zu runs", n);
    spread(x, order, n_order);
    for (int k = 0; k < n_order && !x->failed; k++)
        if (!x->runs[order[k]].is_wait) mp_runs_turn_on(x, order[k]);
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
    for (size_t m = 0; m < MP_MAX_TIERS; m++) mp_profile_free(x->profile + m);
    void *grown[] = {x->queue.runs, x->sums, x->run_at, x->runs, x->spare, x->removed, x->changes};
    for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) mp_free(grown[i]);
    mp_pool_free(x->pool);
    mp_free(x);
}
