/* mover_evictions.c - moves that evict storages and add the necessary recomputations, and moves that remove recomputations. */
#include "planner/anneal/mover.h"

#include "planner/anneal/runs/runs.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    MOVE_RERUNS_DEEP_ONE_IN = 4,  /* 1 in 4 evictions is deep: it may add more recomputations */
    MOVE_RERUNS_SEVERAL = 40,     /* most recomputations added by an eviction of several storages */
    MOVE_EVICT_MORE_ONE_IN = 6,   /* 1 in 6 evictions evicts several storages */
    MOVE_EVICT_WINDOW = 8,        /* most neighbouring nodes whose outputs are evicted together */
    MOVE_CHEAP_OF_RUN = 2,        /* a storage is cheap if its recomputation takes at most 1/2 of a randomly drawn run */
    MOVE_SWAP_CHEAP_STEPS = 4,    /* most steps at which one swap evicts cheap storages */
    MOVE_SWAP_DRAWS = 4,          /* recomputations drawn by a swap, which removes the most expensive one */
    MOVE_COPY_ONE_IN = 2,         /* 1 in 2 evictions of copyable storages copies them instead of recomputing them */
    MOVE_RESTORE_MORE_ONE_IN = 3, /* 1 in 3 restorations also restores neighbours of the storage */
    MOVE_RESTORE_WINDOW = 6,      /* most neighbours on each side that a restoration also restores */
    MOVE_EVICT_MORE = 3,          /* most storages that a swap, or an eviction of several, evicts besides the first */
};
static const double MOVE_DEEPER_MORE =
    0.95; /* MOVE_DEEPER for evictions of one storage, third of four values; the fourth is 1 */
static const double MOVE_DEEPER_LESS = 0.85; /* MOVE_DEEPER for evictions of one storage, second of four values */
static const double MOVE_DEEPER_LEAST = 0.7; /* MOVE_DEEPER for evictions of one storage, first of four equally likely values */
static const double MOVE_DEEPER = 0.9;       /* probability that an input of a recomputation is recomputed too, not kept */

static int rerun(mp_mover *m, int node, int alternative, int before, double deeper);

bool mp_move_rerun_inputs(mp_mover *m, int run, double chance)
{
    mp_runs *x = m->runs;
    const mp_alternative *f = mp_runs_alternative(x, run);
    for (size_t k = 0; k < f->n_reads; k++) {
        const int s = f->reads[k];
        if (mp_storage_is_static(&x->graph->storages[s]) || mp_runs_is_live(x, s, x->runs[run].position)) continue;
        const int producer = mp_runs_latest_producer(x, s, x->runs[run].position);
        if (producer < 0 || m->reruns_left <= 0 || !mp_is_repeatable(x->graph, x->runs[producer].node) ||
            mp_mover_uniform(m) >= chance)
            continue;
        if (rerun(m, x->runs[producer].node, x->runs[producer].alternative, run, chance) < 0) return false;
    }
    return true;
}

/* Inserts a recomputation of a node before the run `before`. Inputs that are not live at its position are recomputed too, each
 * with probability `deeper`. Returns -1 if no position is free, or if the order would exceed ticks_limit. */
static int rerun(mp_mover *m, int node, int alternative, int before, double deeper)
{
    const mp_node *of = &m->runs->graph->nodes[node];
    if (of->alternatives[alternative].returns) alternative = m->runs->runs[m->runs->of_node[node].runs[0]].alternative;
    const int64_t ticks = of->alternatives[alternative].ticks;
    m->has_given_up = m->has_given_up || m->runs->ticks + m->pending_ticks + ticks > m->ticks_limit;
    if (m->has_given_up) return -1;
    const int run = mp_runs_reserve(m->runs, node, alternative, before);
    if (run < 0) return -1;
    m->reruns_left--;
    m->pending_ticks += ticks;
    /* if the inputs cannot be recomputed, the new run stays out of the order, and mp_runs_undo releases its position */
    m->has_given_up = !mp_move_rerun_inputs(m, run, deeper);
    if (m->has_given_up) return -1;
    mp_runs_turn_on(m->runs, run);
    m->pending_ticks -= ticks;
    return run;
}

bool mp_move_rerun_later(mp_mover *m, int node, int alternative, int before, double deeper, int earlier)
{
    mp_runs *x = m->runs;
    const bool is_extra = earlier >= 0 && mp_runs_is_extra(x, earlier);
    const int64_t spared = is_extra && x->runs[earlier].mate < 0 ? x->runs[earlier].does->ticks : 0;
    m->pending_ticks -= spared;
    if (rerun(m, node, alternative, before, deeper) < 0) return false;
    m->pending_ticks += spared;
    if (is_extra && mp_runs_is_dead(x, earlier)) mp_mover_drop(m, earlier);
    return true;
}

/* Evicts a random storage at a position. Recomputes the storage before its next read, or copies it out and back. */
static bool evict(mp_mover *m, int position, double deeper)
{
    mp_runs *x = m->runs;
    int reader;
    const int s = mp_mover_any_live(m, position, &reader);
    if (s < 0) return false;
    const int producer = mp_runs_latest_producer(x, s, x->runs[reader].position);
    const bool is_repeatable = producer >= 0 && mp_is_repeatable(x->graph, x->runs[producer].node);
    if (mp_ways_of(&m->ways, s) && (!is_repeatable || mp_mover_below(m, MOVE_COPY_ONE_IN) == 0))
        return mp_move_copy(m, s, position, reader);
    if (!is_repeatable) return false;
    return mp_move_rerun_later(m, x->runs[producer].node, x->runs[producer].alternative, reader, deeper, producer);
}

bool mp_move_evict(mp_mover *m)
{
    const double chances[] = {MOVE_DEEPER_LEAST, MOVE_DEEPER_LESS, MOVE_DEEPER_MORE, 1};
    const int position = mp_mover_any_position(m);
    const double deeper = chances[mp_mover_below(m, 4)];
    m->reruns_left = mp_mover_below(m, MOVE_RERUNS_DEEP_ONE_IN) ? m->n_reruns : m->n_reruns_deep;
    if (position < 0 || !evict(m, position, deeper)) return false;
    if (mp_mover_below(m, MOVE_EVICT_MORE_ONE_IN)) return true;
    for (int more = 1 + mp_mover_below(m, MOVE_EVICT_MORE); more > 0 && !m->has_given_up; more--) evict(m, position, deeper);
    return true;
}

bool mp_move_evict_window(mp_mover *m)
{
    mp_runs *x = m->runs;
    const mp_graph *g = x->graph;
    const int position = mp_mover_any_position(m);
    int reader, n = 0;
    const int s = position < 0 ? -1 : mp_mover_any_live(m, position, &reader);
    if (s < 0) return false;
    const int width = 1 + mp_mover_below(m, MOVE_EVICT_WINDOW), centre = g->producer[s];
    const int from = centre - mp_mover_below(m, width + 1) < 0 ? 0 : centre - mp_mover_below(m, width + 1);
    for (int v = from; v <= from + width && v < (int)g->n_nodes && n < MP_MOVE_LIST; v++) {
        if (!mp_is_repeatable(g, v)) continue;
        for (size_t k = 0; k < g->nodes[v].alternatives[0].n_writes; k++) {
            const int w = g->nodes[v].alternatives[0].writes[k];
            if (mp_storage_is_static(&g->storages[w]) || !mp_runs_is_live(x, w, position)) continue;
            const int next_reader = mp_runs_next_read(x, w, position);
            if (next_reader < 0) continue;
            if (x->runs[next_reader].position < x->runs[reader].position) reader = next_reader;
            m->list[n++] = v;
            break;
        }
    }
    m->reruns_left = MOVE_RERUNS_SEVERAL;
    for (int k = 0; k < n; k++) {
        const int producer = x->of_node[m->list[k]].runs[0];
        const int last = mp_runs_latest_producer(x, g->nodes[m->list[k]].alternatives[0].writes[0], x->runs[reader].position);
        if (!mp_move_rerun_later(m, m->list[k], x->runs[producer].alternative, reader, MOVE_DEEPER, last)) return false;
    }
    return n > 0;
}

static int64_t ticks_of(const mp_runs *x, int run)
{
    return x->graph->nodes[x->runs[run].node].alternatives[0].ticks;
}

/* Evicts storages that are live at a position and take at most most_ticks to recompute. Recomputes each before its next read.
 * With `until_fits`, stops as soon as no step exceeds the budget. Returns false if nothing was evicted. */
static bool evict_cheap(mp_mover *m, int position, int64_t most_ticks, bool until_fits)
{
    mp_runs *x = m->runs;
    const mp_graph *g = x->graph;
    const int begin = m->n_candidates ? mp_mover_below(m, m->n_candidates) : 0;
    int n = 0;
    const int n_looks = m->draws_near ? 2 * MP_MOVE_EVICT_CHEAP : m->n_candidates;
    for (int i = 0; i < n_looks && n < MP_MOVE_EVICT_CHEAP && !(until_fits && x->profile->total_over <= 0); i++) {
        int reader = -1;
        const int s = m->draws_near ? mp_mover_any_live(m, position, &reader) : m->candidates[(begin + i) % m->n_candidates];
        if (s < 0 || g->nodes[g->producer[s]].alternatives[0].ticks > most_ticks || !mp_runs_is_live(x, s, position)) continue;
        if (reader < 0) reader = mp_runs_next_read(x, s, position);
        const int producer = reader < 0 ? -1 : mp_runs_latest_producer(x, s, x->runs[reader].position);
        if (producer < 0 || !mp_is_repeatable(g, x->runs[producer].node)) continue;
        if (!mp_move_rerun_later(m, x->runs[producer].node, x->runs[producer].alternative, reader, MOVE_DEEPER, producer))
            return false;
        n++;
    }
    return n > 0;
}

bool mp_move_evict_cheap(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = mp_mover_any_run(m), position = mp_mover_any_position(m);
    if (run < 0 || position < 0) return false;
    m->reruns_left = MOVE_RERUNS_SEVERAL;
    return evict_cheap(m, position, mp_mover_below(m, 2) ? ticks_of(x, run) / MOVE_CHEAP_OF_RUN : 0, false);
}

bool mp_move_restore(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0 || !mp_runs_can_spare(x, run)) return false;
    int n = 0, width = mp_mover_below(m, MOVE_RESTORE_MORE_ONE_IN) ? 0 : 1 + mp_mover_below(m, MOVE_RESTORE_WINDOW);
    for (int step = -1; step <= 1; step += 2) {
        int position = x->runs[run].position;
        for (int k = 0; k < width; k++) {
            const int other = mp_runs_neighbour(x, position, step);
            if (other < 0 || other == x->end) break;
            position = x->runs[other].position;
            if (mp_runs_is_extra(x, other)) m->list[n++] = other;
        }
    }
    mp_mover_drop(m, run);
    for (int k = 0; k < n;
         k++) { /* removing one recomputation of the list may already have removed others, so each is checked again */
        const int other = m->list[k];
        if (x->runs[other].position >= 0 && mp_runs_is_extra(x, other) && mp_runs_can_spare(x, other)) mp_mover_drop(m, other);
    }
    return true;
}

bool mp_move_swap(mp_mover *m)
{
    mp_runs *x = m->runs;
    if (!mp_move_restore(m)) return false;
    m->reruns_left = MP_MOVE_RERUNS_SWAP;
    for (int k = 1 + mp_mover_below(m, MOVE_EVICT_MORE); k > 0 && x->profile->total_over > 0 && !m->has_given_up; k--) {
        evict(m, mp_mover_any_over(m), MOVE_DEEPER);
    }
    return true;
}

/* Draws a recomputation at random; expensive ones are more likely. Returns -1 if none was found. */
static int any_expensive_extra(mp_mover *m)
{
    int costliest = mp_mover_any_extra(m);
    for (int k = 1; k < MOVE_SWAP_DRAWS && costliest >= 0; k++) {
        const int run = mp_mover_any_extra(m);
        if (run >= 0 && ticks_of(m->runs, run) > ticks_of(m->runs, costliest)) costliest = run;
    }
    return costliest;
}

bool mp_move_swap_for_cheap(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = any_expensive_extra(m);
    if (run < 0 || !mp_runs_can_spare(x, run)) return false;
    const int64_t ticks = ticks_of(x, run);
    mp_mover_drop(m, run);
    m->reruns_left = MOVE_RERUNS_SEVERAL;
    for (int k = 1 + mp_mover_below(m, MOVE_SWAP_CHEAP_STEPS); k > 0 && x->profile->total_over > 0 && !m->has_given_up; k--) {
        const int position = mp_mover_any_over(m);
        evict_cheap(m, position, mp_mover_below(m, 2) ? 0 : ticks / MP_MOVE_CHEAP_OF_SWAP, true);
    }
    return true;
}
