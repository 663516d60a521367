/* oracle_simulator.c - every rule of timeline.h written down as it reads, step by step. */
#include "tests/oracles/oracle_simulator.h"

#include <stdlib.h>

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

/* Whether an instance of s begins at step t: it is written, or gets its first contribution. */
static bool begins(const mp_graph *graph, const mp_step *steps, int t, int s)
{
    if (written_at(graph, steps[t], s)) return true;
    if (!added_at(graph, steps[t], s)) return false;
    for (int u = 0; u < t; u++)
        if (added_at(graph, steps[u], s)) return false;
    return true;
}

/* The last step at which step u may be running. */
static int runs_to(const mp_step *steps, int u)
{
    return steps[u].until ? steps[u].until - 1 : u;
}

/* Whether a step before t that may still be running at t uses s. */
static bool held(const mp_graph *graph, const mp_step *steps, int t, int s)
{
    for (int u = 0; u < t; u++)
        if (runs_to(steps, u) >= t &&
            (read_at(graph, steps[u], s) || written_at(graph, steps[u], s) || added_at(graph, steps[u], s)))
            return true;
    return false;
}

/* The last step that uses the instance of s that begins at `first`, before another begins. `from` is the first step to look at.
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

static int channel_of(const mp_graph *graph, mp_step step)
{
    return alternative_at(graph, step)->channel;
}

/* When the last step has ended: every step begins as late as the rules make it, found by going over all pairs until nothing
 * changes. The second stream counts on the clock of compute. */
static int64_t last_end(const mp_graph *graph, const mp_step *steps, int n)
{
    int64_t *begins_at = calloc((size_t)n + 1, sizeof *begins_at), last = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int t = 0; t < n; t++)
            for (int u = 0; u < t; u++) {
                const bool compute = channel_of(graph, steps[u]) < 2, waited_for = runs_to(steps, u) < t;
                const int64_t end = begins_at[u] + alternative_at(graph, steps[u])->ticks;
                if (!compute && !waited_for && channel_of(graph, steps[u]) != channel_of(graph, steps[t])) continue;
                if (end <= begins_at[t]) continue;
                begins_at[t] = end;
                changed = true;
            }
    }
    for (int t = 0; t < n; t++)
        if (begins_at[t] + alternative_at(graph, steps[t])->ticks > last)
            last = begins_at[t] + alternative_at(graph, steps[t])->ticks;
    free(begins_at);
    return last;
}

simulation simulate(const mp_graph *graph, const mp_step *steps, size_t n)
{
    simulation sim = {0};
    int n_storages = (int)graph->n_storages, n_steps = (int)n;
    sim.spans = calloc(n_steps * (size_t)n_storages + (size_t)n_storages + 1, sizeof *sim.spans);
    sim.live_bytes = calloc(n + 1, sizeof *sim.live_bytes);
    for (int s = 0; s < n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        if (mp_storage_is_static(storage)) {
            if (!storage->tier) sim.static_bytes += storage->bytes;
            continue;
        }
        if (storage->carried) sim.spans[sim.n_spans++] = (mp_span){s, 0, ends(graph, steps, n_steps, s, 0, 0) + 1, -1};
        for (int t = 0; t < n_steps; t++) {
            if (!begins(graph, steps, t, s)) continue;
            int end = storage->carried ? n_steps - 1 : ends(graph, steps, n_steps, s, t, t + 1);
            sim.spans[sim.n_spans++] = (mp_span){s, t, end + 1, -1};
        }
    }
    qsort(sim.spans, sim.n_spans, sizeof *sim.spans, compare);

    for (int t = 0; t < n_steps; t++) {
        const mp_alternative *f = alternative_at(graph, steps[t]);
        for (size_t i = 0; i < f->n_in_place; i++) {
            int from = f->in_place[i].from, to = f->in_place[i].to;
            bool used = false;
            for (size_t j = 0; j < i; j++) { /* an earlier pair that was taken, and has one of the two */
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
            if (runs_to(steps, u) >= t) sim.live_bytes[t] += alternative_at(graph, steps[u])->workspace_bytes;
        for (size_t k = 0; k < sim.n_spans; k++) {
            const mp_span *span = &sim.spans[k];
            bool guest = span->begin == t && span->takes_over >= 0;
            if (graph->storages[span->storage].tier) continue;
            if (span->begin <= t && t < span->end && !guest) sim.live_bytes[t] += graph->storages[span->storage].bytes;
        }
        if (sim.live_bytes[t] > sim.peak_bytes) sim.peak_bytes = sim.live_bytes[t];
    }
    sim.peak_bytes += sim.static_bytes;
    sim.ticks = last_end(graph, steps, n_steps);
    return sim;
}

int64_t simulated_bytes(const mp_graph *graph, const simulation *sim, int t, int tier)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < sim->n_spans; k++) {
        const mp_span *span = &sim->spans[k];
        if (graph->storages[span->storage].tier != tier || (span->begin == t && span->takes_over >= 0)) continue;
        if (span->begin <= t && t < span->end) bytes += graph->storages[span->storage].bytes;
    }
    return bytes;
}

/* Whether step t uses s, and whether it changes it. */
static bool uses(const mp_graph *graph, mp_step step, int s, bool changes)
{
    return written_at(graph, step, s) || added_at(graph, step, s) || (!changes && read_at(graph, step, s));
}

bool obeys_channels(const mp_graph *graph, const mp_step *steps, size_t n)
{
    for (int t = 0; t < (int)n; t++)
        for (int s = 0; s < (int)graph->n_storages; s++) {
            bool produced = mp_storage_is_static(&graph->storages[s]);
            if (!uses(graph, steps[t], s, false)) continue;
            for (int u = 0; u < t; u++) {
                const bool together = runs_to(steps, u) >= t, changes = uses(graph, steps[t], s, true);
                const bool same_channel = steps[t].until && channel_of(graph, steps[t]) == channel_of(graph, steps[u]);
                const bool waits = uses(graph, steps[u], s, true) || (changes && uses(graph, steps[u], s, false));
                produced |= uses(graph, steps[u], s, true);
                if (together && waits && !(same_channel && (!changes || mp_storage_is_static(&graph->storages[s]))))
                    return false;
            }
            if (read_at(graph, steps[t], s) && !produced) return false;
        }
    return true;
}

void simulation_free(simulation *s)
{
    free(s->spans);
    free(s->live_bytes);
}
