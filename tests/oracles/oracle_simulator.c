/* oracle_simulator.c - implements each rule of timeline.h literally, step by step. */
#include "tests/oracles/oracle_simulator.h"

#include <stdlib.h>

#include "tests/oracles/random_graph.h"

static const mp_alternative *alternative_at(const mp_graph *graph, mp_step step)
{
    return &graph->nodes[step.node].alternatives[step.alternative];
}

static bool in(const int *list, size_t n, int s)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == s) return true;
    return false;
}

static bool read_at(const mp_graph *graph, mp_step step, int s)
{
    const mp_alternative *f = alternative_at(graph, step);
    return in(f->reads, f->n_reads, s);
}
static bool written_at(const mp_graph *graph, mp_step step, int s)
{
    const mp_alternative *f = alternative_at(graph, step);
    return in(f->writes, f->n_writes, s);
}
static bool added_at(const mp_graph *graph, mp_step step, int s)
{
    const mp_alternative *f = alternative_at(graph, step);
    return in(f->adds, f->n_adds, s);
}

/* Returns whether an instance of s begins at step t: the step writes s, or adds its first contribution. */
static bool begins(const mp_graph *graph, const mp_step *steps, int t, int s)
{
    if (written_at(graph, steps[t], s)) return true;
    if (!added_at(graph, steps[t], s)) return false;
    for (int u = 0; u < t; u++)
        if (added_at(graph, steps[u], s)) return false;
    return true;
}

/* Returns whether another instance of s begins after step t. */
static bool begins_again(const mp_graph *graph, const mp_step *steps, int n, int t, int s)
{
    for (int u = t + 1; u < n; u++)
        if (begins(graph, steps, u, s)) return true;
    return false;
}

/* Returns the last step during which step u may still run. */
static int runs_to(const mp_step *steps, int u)
{
    return steps[u].until ? steps[u].until - 1 : u;
}

/* Returns whether a step before t that may still run at t uses s. */
static bool held(const mp_graph *graph, const mp_step *steps, int t, int s)
{
    for (int u = 0; u < t; u++)
        if (runs_to(steps, u) >= t &&
            (read_at(graph, steps[u], s) || written_at(graph, steps[u], s) || added_at(graph, steps[u], s)))
            return true;
    return false;
}

/* Returns the last step that uses the instance of s beginning at `first`, before another begins. The search starts at `from`.
 */
static int ends(const mp_graph *graph, const mp_step *steps, int n, int s, int first, int from)
{
    int end = first < from ? runs_to(steps, first) : first;
    for (int u = from; u < n; u++) {
        if (read_at(graph, steps[u], s) && runs_to(steps, u) > end) end = runs_to(steps, u);
        if (begins(graph, steps, u, s)) break;
        if (added_at(graph, steps[u], s) && runs_to(steps, u) > end) end = runs_to(steps, u);
    }
    return end;
}

static int compare(const void *a, const void *b)
{
    const mp_span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin - y->begin;
    if (x->storage != y->storage) return x->storage - y->storage;
    return x->end - y->end;
}

static mp_span *find(simulation *sim, int storage, int first, int last)
{
    for (size_t k = sim->n_spans; k-- > 0;)
        if (sim->spans[k].storage == storage && (first < 0 || sim->spans[k].begin == first) &&
            (last < 0 || sim->spans[k].end == last + 1))
            return &sim->spans[k];
    return NULL;
}

/* Returns the channel whose clock a step advances. */
static int clock_of(const mp_graph *graph, mp_step step)
{
    int channel = alternative_at(graph, step)->channel;
    return channel == MP_CHANNEL_SECOND_STREAM ? MP_CHANNEL_COMPUTE : channel;
}

/* Returns whether step t must begin after the end of step u. */
static bool follows(const mp_graph *graph, const mp_step *steps, int t, int u)
{
    if (u >= t) return false;
    return clock_of(graph, steps[u]) == clock_of(graph, steps[t]) || clock_of(graph, steps[u]) == MP_CHANNEL_COMPUTE ||
           runs_to(steps, u) < t;
}

/* Repeatedly finds a step that can begin, and sets its end; returns the latest end. */
static int64_t run_clocks(const mp_graph *graph, const mp_step *steps, int n)
{
    int64_t latest = 0, *end = malloc(((size_t)n + 1) * sizeof *end);
    for (int t = 0; t < n; t++) end[t] = -1;
    for (int left = n; left > 0;)
        for (int t = 0; t < n; t++) {
            int64_t start = 0;
            bool can_begin = end[t] < 0;
            for (int u = 0; u < t && can_begin; u++) {
                if (!follows(graph, steps, t, u)) continue;
                can_begin = can_begin && end[u] >= 0;
                if (end[u] > start) start = end[u];
            }
            if (!can_begin) continue;
            end[t] = start + alternative_at(graph, steps[t])->ticks;
            if (end[t] > latest) latest = end[t];
            left--;
        }
    free(end);
    return latest;
}

/* Returns whether step t may overlap step u, which is issued before t and awaited after it. */
static bool may_run_beside(const mp_graph *graph, const mp_step *steps, int u, int t)
{
    bool behind = steps[t].until && alternative_at(graph, steps[t])->channel == alternative_at(graph, steps[u])->channel;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        bool changed = written_at(graph, steps[u], s) || added_at(graph, steps[u], s);
        bool changes = written_at(graph, steps[t], s) || added_at(graph, steps[t], s);
        bool lasts = mp_storage_is_static(&graph->storages[s]);
        if (changes && (changed || read_at(graph, steps[u], s)) && !(behind && lasts)) return false;
        if (read_at(graph, steps[t], s) && changed && !behind) return false;
    }
    return true;
}

/* Returns whether step t finds its operands, and adds in the required order. */
static bool finds_all(const mp_graph *graph, const mp_step *steps, int t)
{
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        int n_adders = 0, n_added = 0, turn = -1;
        bool made = false;
        for (int u = 0; u < t; u++) {
            n_added += added_at(graph, steps[u], s);
            made = made || written_at(graph, steps[u], s) || added_at(graph, steps[u], s);
        }
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            if (!added_at(graph, (mp_step){.node = i}, s)) continue;
            if (n_adders == n_added) turn = i;
            n_adders++;
        }
        if (added_at(graph, steps[t], s) && !storage->any_sum_order && turn != steps[t].node) return false;
        if (!read_at(graph, steps[t], s)) continue;
        if (mp_storage_is_static(storage)) {
            bool reads_old = graph->nodes[steps[t].node].phase == MP_PHASE_UPDATE && graph->fuse == MP_FUSE_FORWARD;
            if (!reads_old && ((lone_writer(graph, s) >= 0 && !made) || n_added < n_adders)) return false;
        } else if (!(storage->carried && !made) && (!made || n_added < n_adders)) {
            return false;
        }
    }
    return true;
}

bool steps_obey(const mp_graph *graph, const mp_step *steps, size_t n)
{
    for (int t = 0; t < (int)n; t++) {
        bool on_compute = alternative_at(graph, steps[t])->channel == MP_CHANNEL_COMPUTE;
        if (steps[t].until && (on_compute || steps[t].until <= t || steps[t].until > (int)n)) return false;
    }
    for (int t = 0; t < (int)n; t++) {
        if (!finds_all(graph, steps, t)) return false;
        for (int u = 0; u < t; u++)
            if (runs_to(steps, u) >= t && !may_run_beside(graph, steps, u, t)) return false;
    }
    return true;
}

simulation simulate(const mp_graph *graph, const mp_step *steps, size_t n)
{
    simulation sim = {0};
    int n_storages = (int)graph->n_storages, n_steps = (int)n;
    sim.spans = calloc(n_steps * (size_t)n_storages + (size_t)n_storages + 1, sizeof *sim.spans);
    for (size_t m = 0; m < graph->n_tiers; m++) sim.tiers[m].live_bytes = calloc(n + 1, sizeof(int64_t));
    for (int s = 0; s < n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        if (mp_storage_is_static(storage)) {
            sim.tiers[storage->tier].static_bytes += storage->bytes;
            continue;
        }
        if (storage->carried) sim.spans[sim.n_spans++] = (mp_span){s, 0, ends(graph, steps, n_steps, s, 0, 0) + 1, -1};
        for (int t = 0; t < n_steps; t++) {
            if (!begins(graph, steps, t, s)) continue;
            bool carried = storage->carried && !begins_again(graph, steps, n_steps, t, s);
            int end = carried ? n_steps - 1 : ends(graph, steps, n_steps, s, t, t + 1);
            sim.spans[sim.n_spans++] = (mp_span){s, t, end + 1, -1};
        }
    }
    qsort(sim.spans, sim.n_spans, sizeof *sim.spans, compare);

    for (int t = 0; t < n_steps; t++) {
        const mp_alternative *f = alternative_at(graph, steps[t]);
        for (size_t i = 0; i < f->n_in_place; i++) {
            int from = f->in_place[i].from, to = f->in_place[i].to;
            bool used = false;
            for (size_t j = 0; j < i; j++) { /* an earlier accepted pair with the same input or output */
                mp_span *other = find(&sim, f->in_place[j].to, t, -1);
                bool taken = other && other->takes_over == f->in_place[j].from;
                used = used || (taken && (f->in_place[j].from == from || f->in_place[j].to == to));
            }
            mp_span *span = find(&sim, to, t, -1);
            if (used || !span || !find(&sim, from, -1, t) || held(graph, steps, t, from)) continue;
            if (graph->storages[from].bytes >= graph->storages[to].bytes) span->takes_over = from;
        }
    }
    for (int t = 0; t < n_steps; t++) {
        for (int u = 0; u <= t; u++)
            if (runs_to(steps, u) >= t)
                sim.tiers[MP_TIER_DEVICE].live_bytes[t] += alternative_at(graph, steps[u])->workspace_bytes;
        for (size_t k = 0; k < sim.n_spans; k++) {
            const mp_span *span = &sim.spans[k];
            const mp_storage *storage = &graph->storages[span->storage];
            bool guest = span->begin == t && span->takes_over >= 0;
            if (span->begin <= t && t < span->end && !guest) sim.tiers[storage->tier].live_bytes[t] += storage->bytes;
        }
    }
    for (size_t m = 0; m < graph->n_tiers; m++) {
        mp_tier_use *use = &sim.tiers[m];
        use->peak_step = n ? 0 : -1;
        for (int t = 0; t < n_steps; t++)
            if (use->live_bytes[t] > use->live_bytes[use->peak_step]) use->peak_step = t;
        use->peak_bytes = use->static_bytes + (n ? use->live_bytes[use->peak_step] : 0);
    }
    sim.ticks = run_clocks(graph, steps, n_steps);
    return sim;
}

void simulation_free(simulation *s)
{
    free(s->spans);
    for (int m = 0; m < MP_MAX_TIERS; m++) free(s->tiers[m].live_bytes);
}
