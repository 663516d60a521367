/* move_evictions.c - moves that give storages up and make them again, and that take such runs away. */
#include "planner/anneal/mover.h"
#include "planner/math/tuning.h"

static int rerun(mp_mover *m, int node, int form, int before, double deeper);

bool mp_move_rerun_inputs(mp_mover *m, int run, double chance)
{
    mp_runs *x = m->runs;
    const mp_form *f = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    for (size_t k = 0; k < f->n_reads; k++) {
        const int s = f->reads[k];
        if (mp_storage_is_static(&x->graph->storages[s]) || mp_runs_lives(x, s, x->runs[run].slot)) continue;
        const int maker = mp_run_latest_maker(x, s, x->runs[run].slot);
        if (maker < 0 || m->left <= 0 || !mp_can_rerun(x->graph, x->runs[maker].node) || mp_mover_uniform(m) >= chance)
            continue;
        if (rerun(m, x->runs[maker].node, x->runs[maker].form, run, chance) < 0) return false;
    }
    return true;
}

/* Runs a node again before another run, and with some chance what it reads and is not there. -1: no room, or too many ticks. */
static int rerun(mp_mover *m, int node, int form, int before, double deeper)
{
    const int64_t ticks = m->runs->graph->nodes[node].forms[form].ticks;
    m->has_given_up = m->has_given_up || m->runs->ticks + m->pending_ticks + ticks > m->most_ticks;
    if (m->has_given_up) return -1;
    const int run = mp_runs_reserve(m->runs, node, form, before);
    if (run < 0) return -1;
    m->left--;
    m->pending_ticks += ticks;
    if (!mp_move_rerun_inputs(m, run, deeper)) return -1;
    mp_runs_turn_on(m->runs, run);
    m->pending_ticks -= ticks;
    return run;
}

/* The same in place of a run of the node, or -1, which is dropped if it can be. */
static bool rerun_later(mp_mover *m, int node, int form, int before, double deeper, int earlier)
{
    mp_runs *x = m->runs;
    const bool is_extra = earlier >= 0 && mp_run_is_extra(x, earlier);
    const int64_t spared = is_extra ? x->graph->nodes[node].forms[x->runs[earlier].form].ticks : 0;
    m->pending_ticks -= spared;
    if (rerun(m, node, form, before, deeper) < 0) return false;
    m->pending_ticks += spared;
    if (is_extra && mp_run_is_dead(x, earlier)) mp_run_drop(x, earlier);
    return true;
}

/* What lives in a slot and is read later is given up there, and made again before it is read. */
static bool evict(mp_mover *m, int slot, double deeper, int before)
{
    mp_runs *x = m->runs;
    int reader;
    const int s = mp_mover_any_living(m, slot, &reader);
    if (s < 0) return false;
    const int maker = mp_run_latest_maker(x, s, x->runs[reader].slot);
    if (maker < 0 || !mp_can_rerun(x->graph, x->runs[maker].node)) return false;
    if (before >= 0 && x->runs[before].slot < x->runs[reader].slot && x->runs[before].slot > slot) reader = before;
    return rerun_later(m, x->runs[maker].node, x->runs[maker].form, reader, deeper, maker);
}

bool mp_move_evict(mp_mover *m)
{
    const double chances[] = {MP_MOVE_DEEPER_LEAST, MP_MOVE_DEEPER_LESS, MP_MOVE_DEEPER_MORE, 1};
    const int slot = mp_mover_any_slot(m);
    const double deeper = chances[mp_mover_below(m, 4)];
    m->left = mp_mover_below(m, MP_MOVE_RERUNS_DEEP_ONE_IN) ? m->few : m->many;
    if (slot < 0 || !evict(m, slot, deeper, -1)) return false;
    if (mp_mover_below(m, MP_MOVE_EVICT_MORE_ONE_IN)) return true;
    for (int more = 1 + mp_mover_below(m, MP_MOVE_EVICT_MORE); more > 0 && !m->has_given_up; more--) evict(m, slot, deeper, -1);
    return true;
}

bool mp_move_evict_window(mp_mover *m)
{
    mp_runs *x = m->runs;
    const mp_graph *g = x->graph;
    const int slot = mp_mover_any_slot(m);
    int reader, n = 0;
    const int s = slot < 0 ? -1 : mp_mover_any_living(m, slot, &reader);
    if (s < 0) return false;
    const int width = 1 + mp_mover_below(m, MP_MOVE_EVICT_WINDOW), centre = g->producer[s];
    const int from = centre - mp_mover_below(m, width + 1) < 0 ? 0 : centre - mp_mover_below(m, width + 1);
    for (int v = from; v <= from + width && v < (int)g->n_nodes && n < MP_MOVE_LIST; v++) {
        if (!mp_can_rerun(g, v)) continue;
        for (size_t k = 0; k < g->nodes[v].forms[0].n_writes; k++) {
            const int w = g->nodes[v].forms[0].writes[k];
            if (mp_storage_is_static(&g->storages[w]) || !mp_runs_lives(x, w, slot)) continue;
            const int next_reader = mp_runs_next_read(x, w, slot);
            if (next_reader < 0) continue;
            if (x->runs[next_reader].slot < x->runs[reader].slot) reader = next_reader;
            m->extra[n++] = v;
            break;
        }
    }
    m->left = MP_MOVE_RERUNS_SEVERAL;
    for (int k = 0; k < n; k++) {
        const int maker = x->of_node[m->extra[k]].runs[0];
        const int last = mp_run_latest_maker(x, g->nodes[m->extra[k]].forms[0].writes[0], x->runs[reader].slot);
        if (!rerun_later(m, m->extra[k], x->runs[maker].form, reader, MP_MOVE_DEEPER, last)) return false;
    }
    return n > 0;
}

static int64_t ticks_of(const mp_runs *x, int run)
{
    return x->graph->nodes[x->runs[run].node].forms[0].ticks;
}

/* What lives in a slot and takes little to make again is given up there, each before it is read next; if `until_fits`, no more
 * once the budget is kept. False: nothing was. */
static bool evict_cheap(mp_mover *m, int slot, int64_t most_ticks, bool until_fits)
{
    mp_runs *x = m->runs;
    const mp_graph *g = x->graph;
    const int begin = m->n_candidates ? mp_mover_below(m, m->n_candidates) : 0;
    int n = 0;
    for (int i = 0; i < m->n_candidates && n < MP_MOVE_EVICT_CHEAP && !(until_fits && x->axis.total_over <= 0); i++) {
        const int s = m->candidates[(begin + i) % m->n_candidates];
        if (g->nodes[g->producer[s]].forms[0].ticks > most_ticks || !mp_runs_lives(x, s, slot)) continue;
        const int reader = mp_runs_next_read(x, s, slot);
        const int maker = reader < 0 ? -1 : mp_run_latest_maker(x, s, x->runs[reader].slot);
        if (maker < 0 || !mp_can_rerun(g, x->runs[maker].node)) continue;
        if (!rerun_later(m, x->runs[maker].node, x->runs[maker].form, reader, MP_MOVE_DEEPER, maker)) return false;
        n++;
    }
    return n > 0;
}

bool mp_move_evict_cheap(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = mp_mover_any_run(m), slot = mp_mover_any_slot(m);
    if (run < 0 || slot < 0) return false;
    m->left = MP_MOVE_RERUNS_SEVERAL;
    return evict_cheap(m, slot, mp_mover_below(m, 2) ? ticks_of(x, run) / MP_MOVE_CHEAP_OF_RUN : 0, false);
}

bool mp_move_delete(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0 || !mp_runs_can_spare(x, run)) return false;
    int n = 0, width = mp_mover_below(m, MP_MOVE_RESTORE_MORE_ONE_IN) ? 0 : 1 + mp_mover_below(m, MP_MOVE_RESTORE_WINDOW);
    for (int step = -1; step <= 1; step += 2) {
        int slot = x->runs[run].slot;
        for (int k = 0; k < width; k++) {
            const int other = mp_run_neighbour(x, slot, step);
            if (other < 0 || other == x->end) break;
            slot = x->runs[other].slot;
            if (mp_run_is_extra(x, other)) m->extra[n++] = other;
        }
    }
    mp_run_drop(x, run);
    for (int k = 0; k < n; k++) { /* some of them may have gone with the others */
        const int other = m->extra[k];
        if (x->runs[other].slot >= 0 && mp_run_is_extra(x, other) && mp_runs_can_spare(x, other)) mp_run_drop(x, other);
    }
    return true;
}

bool mp_move_exchange(mp_mover *m)
{
    mp_runs *x = m->runs;
    if (!mp_move_delete(m)) return false;
    m->left = MP_MOVE_RERUNS_SWAP;
    for (int k = 1 + mp_mover_below(m, MP_MOVE_EVICT_MORE); k > 0 && x->axis.total_over > 0 && !m->has_given_up; k--) {
        const int slot = mp_axis_find_over(&x->axis, (int64_t)(mp_mover_uniform(m) * (double)x->axis.total_over));
        evict(m, slot, MP_MOVE_DEEPER, -1);
    }
    return true;
}

/* One of those that are not their node's first, a dear one more likely. -1: none was met. */
static int any_dear_extra(mp_mover *m)
{
    int dearest = mp_mover_any_extra(m);
    for (int k = 1; k < MP_MOVE_SWAP_DRAWS && dearest >= 0; k++) {
        const int run = mp_mover_any_extra(m);
        if (run >= 0 && ticks_of(m->runs, run) > ticks_of(m->runs, dearest)) dearest = run;
    }
    return dearest;
}

bool mp_move_exchange_for_cheap(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = any_dear_extra(m);
    if (run < 0 || !mp_runs_can_spare(x, run)) return false;
    const int64_t ticks = ticks_of(x, run);
    mp_run_drop(x, run);
    m->left = MP_MOVE_RERUNS_SEVERAL;
    for (int k = 1 + mp_mover_below(m, MP_MOVE_SWAP_CHEAP_STEPS); k > 0 && x->axis.total_over > 0 && !m->has_given_up; k--) {
        const int slot = mp_axis_find_over(&x->axis, (int64_t)(mp_mover_uniform(m) * (double)x->axis.total_over));
        evict_cheap(m, slot, mp_mover_below(m, 2) ? 0 : ticks / MP_MOVE_CHEAP_OF_SWAP, true);
    }
    return true;
}
