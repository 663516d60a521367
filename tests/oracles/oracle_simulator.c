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

simulation simulate(const mp_graph *graph, const mp_step *steps, size_t n)
{
    simulation sim = {0};
    int n_storages = (int)graph->n_storages, n_steps = (int)n;
    sim.spans = calloc(n_steps * (size_t)n_storages + (size_t)n_storages + 1, sizeof *sim.spans);
    sim.live_bytes = calloc(n + 1, sizeof *sim.live_bytes);
    for (int s = 0; s < n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        if (mp_storage_is_static(storage)) {
            sim.static_bytes += storage->bytes;
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
        const mp_alternative *f = alternative_at(graph, steps[t]);
        for (int u = 0; u <= t; u++)
            if (runs_to(steps, u) >= t) sim.live_bytes[t] += alternative_at(graph, steps[u])->workspace_bytes;
        for (size_t k = 0; k < sim.n_spans; k++) {
            const mp_span *span = &sim.spans[k];
            bool guest = span->begin == t && span->takes_over >= 0;
            if (span->begin <= t && t < span->end && !guest) sim.live_bytes[t] += graph->storages[span->storage].bytes;
        }
        if (sim.live_bytes[t] > sim.peak_bytes) sim.peak_bytes = sim.live_bytes[t];
        sim.ticks += f->ticks;
    }
    sim.peak_bytes += sim.static_bytes;
    return sim;
}

void simulation_free(simulation *s)
{
    free(s->spans);
    free(s->live_bytes);
}
