/* move_shifts.c - runs put elsewhere: one, a block side by side, or one with all that depends on it. */
#include "planner/anneal/move_shifts.h"

#include "planner/anneal/move_evictions.h"
#include "planner/anneal/runs/runs_change.h"
#include "planner/anneal/runs/runs_query.h"

/* A run up to `most` runs away. */
static int run_away(mp_mover *m, int run, int most)
{
    const mp_runs *x = m->runs;
    const int step = mp_mover_below(m, 2) ? 1 : -1;
    int at = run;
    for (int k = 1 + mp_mover_below(m, most) + (step > 0); k > 0 && at >= 0; k--)
        at = mp_runs_neighbour(x, x->runs[at].position, step);
    return at;
}

bool mp_move_shift_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0) return false;
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    if (alternative->n_writes && mp_mover_below(m, 2)) { /* just in time */
        const int s = alternative->writes[mp_mover_below(m, (int)alternative->n_writes)];
        if (mp_storage_is_static(&x->graph->storages[s])) return false;
        return mp_mover_relocate(m, run, mp_runs_next_read(x, s, x->runs[run].position)) >= 0;
    }
    return mp_mover_relocate(m, run, run_away(m, run, MP_MOVE_SHIFT_FAR)) >= 0;
}

bool mp_move_shift_window(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0) return false;
    int first = run, n = 0;
    for (int k = mp_mover_below(m, MP_MOVE_SHIFT_WINDOW_BACK); k > 0; k--) {
        const int other = mp_runs_neighbour(x, x->runs[first].position, -1);
        if (other < 0 || !mp_runs_is_extra(x, other)) break;
        first = other;
    }
    for (int at = first; n < MP_MOVE_SHIFT_WINDOW && at >= 0 && at != x->end && mp_runs_is_extra(x, at);
         at = mp_runs_neighbour(x, x->runs[at].position, 1))
        m->list[n++] = at;
    const int target = run_away(m, mp_mover_below(m, 2) ? m->list[n - 1] : first, MP_MOVE_SHIFT_WINDOW_FAR);
    if (target < 0) return false;
    for (int k = 0; k < n; k++)
        if (m->list[k] == target) return false;
    for (int k = 0; k < n; k++)
        if (mp_mover_relocate(m, m->list[k], target) < 0) return false;
    return true;
}

/* Puts a first run far away, where its inputs are recomputed. */
static bool send_away(mp_mover *m, int run, int before)
{
    mp_runs *x = m->runs;
    const mp_node_run r = x->runs[run];
    if (before < 0 || before == run) return false;
    const int there = mp_runs_reserve(x, r.node, r.alternative, before);
    if (there < 0 || !mp_runs_allows(x, r.node, r.alternative, x->runs[there].position, run)) return false;
    mp_runs_remove(x, run);
    m->reruns_left = MP_MOVE_RERUNS_SWAP;
    m->pending_ticks += x->graph->nodes[r.node].alternatives[r.alternative].ticks;
    if (!mp_move_rerun_inputs(m, there, MP_MOVE_DEEPER_AWAY)) return false;
    mp_runs_turn_on(x, there);
    return true;
}

/* Draws a run between the producers of what a run reads and the first reader of what it produces. */
static int run_between(mp_mover *m, int run)
{
    const mp_runs *x = m->runs;
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    int first = 0, last = x->runs[x->end].position;
    for (size_t k = 0; k < alternative->n_reads; k++) {
        const mp_run_list *makers = &x->producers[alternative->reads[k]];
        if (makers->n && x->runs[makers->runs[0]].position > first) first = x->runs[makers->runs[0]].position;
    }
    for (size_t k = 0; k < alternative->n_writes; k++) {
        const int reader = mp_runs_next_read(x, alternative->writes[k], x->runs[run].position);
        if (reader >= 0 && x->runs[reader].position < last) last = x->runs[reader].position;
    }
    if (last <= first + 1) return -1;
    return mp_runs_neighbour(x, first + mp_mover_below(m, last - first), 1);
}

/* Whether a run reads what one of a list produces. */
static bool reads_from(const mp_runs *x, int run, const int *list, int n)
{
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    for (size_t k = 0; k < alternative->n_reads; k++)
        if (mp_list_has(list, (size_t)n, mp_runs_latest_producer(x, alternative->reads[k], x->runs[run].position))) return true;
    return false;
}

bool mp_move_shift_related(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = mp_mover_any_run(m), step = mp_mover_below(m, 2) ? 1 : -1;
    int n = 1, n_moving = 0, at = run, target = run; /* target: the farthest run that the others pass */
    if (run < 0) return false;
    m->list[0] = run;
    for (int k = 1 + mp_mover_below(m, MP_MOVE_SHIFT_RELATED_FAR); k > 0; k--) {
        at = mp_runs_neighbour(x, x->runs[at].position, step);
        if (at < 0 || at == x->end) return false;
        bool goes = step > 0 && reads_from(x, at, m->list, n);
        for (int i = 0; i < n && step < 0 && !goes; i++) goes = reads_from(x, m->list[i], &at, 1);
        if (!goes) {
            target = at;
            n_moving = n;
        } else if (n < MP_MOVE_SHIFT_TOGETHER) {
            m->list[n++] = at;
        } else {
            return false;
        }
    }
    if (!n_moving) return false;
    if (step > 0) target = mp_runs_neighbour(x, x->runs[target].position, 1);
    for (int k = n_moving - 1; k >= 0; k--) { /* from the one that is nearest to where they go */
        const int there = mp_mover_relocate(m, m->list[k], target);
        if (there < 0) return false;
        if (step > 0) target = there;
    }
    return true;
}

bool mp_move_shift_first(mp_mover *m)
{
    const int run = mp_mover_any_run(m), kind = mp_mover_below(m, MP_MOVE_AWAY_ONE_IN);
    if (run < 0 || mp_runs_is_extra(m->runs, run)) return false;
    if (!kind) return send_away(m, run, mp_mover_below(m, 2) ? mp_mover_any_run(m) : m->runs->end);
    const bool is_between = kind <= MP_MOVE_BETWEEN_OF_EIGHT;
    return mp_mover_relocate(m, run, is_between ? run_between(m, run) : run_away(m, run, MP_MOVE_SHIFT_FAR)) >= 0;
}
