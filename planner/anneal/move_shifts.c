/* move_shifts.c - moves that put runs elsewhere. */
#include "planner/anneal/mover.h"
#include "planner/math/tuning.h"

/* A run some places away. */
static int run_away(mp_mover *m, int run, int most)
{
    const mp_runs *x = m->runs;
    const int step = mp_mover_below(m, 2) ? 1 : -1;
    int at = run;
    for (int k = 1 + mp_mover_below(m, most) + (step > 0); k > 0 && at >= 0; k--)
        at = mp_run_neighbour(x, x->runs[at].slot, step);
    return at;
}

bool mp_move_shift_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0) return false;
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    if (form->n_writes && mp_mover_below(m, 2)) { /* just in time */
        const int s = form->writes[mp_mover_below(m, (int)form->n_writes)];
        if (mp_storage_is_static(&x->graph->storages[s])) return false;
        return mp_mover_relocate(m, run, mp_runs_next_read(x, s, x->runs[run].slot)) >= 0;
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
        const int other = mp_run_neighbour(x, x->runs[first].slot, -1);
        if (other < 0 || !mp_run_is_extra(x, other)) break;
        first = other;
    }
    for (int at = first; n < MP_MOVE_SHIFT_WINDOW && at >= 0 && at != x->end && mp_run_is_extra(x, at);
         at = mp_run_neighbour(x, x->runs[at].slot, 1))
        m->extra[n++] = at;
    const int target = run_away(m, mp_mover_below(m, 2) ? m->extra[n - 1] : first, MP_MOVE_SHIFT_WINDOW_FAR);
    if (target < 0) return false;
    for (int k = 0; k < n; k++)
        if (m->extra[k] == target) return false;
    for (int k = 0; k < n; k++)
        if (mp_mover_relocate(m, m->extra[k], target) < 0) return false;
    return true;
}

/* Puts a first run far away, where what it reads is made again. */
static bool send_away(mp_mover *m, int run, int before)
{
    mp_runs *x = m->runs;
    const mp_run r = x->runs[run];
    if (before < 0 || before == run) return false;
    const int there = mp_runs_reserve(x, r.node, r.form, before);
    if (there < 0 || !mp_runs_allows(x, r.node, r.form, x->runs[there].slot, run)) return false;
    mp_runs_remove(x, run);
    m->left = MP_MOVE_RERUNS_SWAP;
    m->pending_ticks += x->graph->nodes[r.node].forms[r.form].ticks;
    if (!mp_move_rerun_inputs(m, there, MP_MOVE_DEEPER_AWAY)) return false;
    mp_runs_turn_on(x, there);
    return true;
}

/* Any run between those that make what a run reads, and the first that reads what it makes. */
static int run_between(mp_mover *m, int run)
{
    const mp_runs *x = m->runs;
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    int first = 0, last = x->runs[x->end].slot;
    for (size_t k = 0; k < form->n_reads; k++) {
        const mp_run_list *makers = &x->makers[form->reads[k]];
        if (makers->n && x->runs[makers->runs[0]].slot > first) first = x->runs[makers->runs[0]].slot;
    }
    for (size_t k = 0; k < form->n_writes; k++) {
        const int reader = mp_runs_next_read(x, form->writes[k], x->runs[run].slot);
        if (reader >= 0 && x->runs[reader].slot < last) last = x->runs[reader].slot;
    }
    if (last <= first + 1) return -1;
    return mp_run_neighbour(x, first + mp_mover_below(m, last - first), 1);
}

/* Whether a run reads what one of a list makes. */
static bool reads_from(const mp_runs *x, int run, const int *list, int n)
{
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    for (size_t k = 0; k < form->n_reads; k++)
        if (mp_run_is_among(list, n, mp_run_latest_maker(x, form->reads[k], x->runs[run].slot))) return true;
    return false;
}

/* Puts a run elsewhere, and with it those on the way that have to stay after it, or before it. */
static bool shift_related(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = mp_mover_any_run(m), step = mp_mover_below(m, 2) ? 1 : -1;
    int n = 1, n_moving = 0, at = run, target = run; /* target: the farthest run that the others pass */
    if (run < 0) return false;
    m->extra[0] = run;
    for (int k = 1 + mp_mover_below(m, MP_MOVE_SHIFT_RELATED_FAR); k > 0; k--) {
        at = mp_run_neighbour(x, x->runs[at].slot, step);
        if (at < 0 || at == x->end) return false;
        bool goes = step > 0 && reads_from(x, at, m->extra, n);
        for (int i = 0; i < n && step < 0 && !goes; i++) goes = reads_from(x, m->extra[i], &at, 1);
        if (!goes) {
            target = at;
            n_moving = n;
        } else if (n < MP_MOVE_SHIFT_TOGETHER) {
            m->extra[n++] = at;
        } else {
            return false;
        }
    }
    if (!n_moving) return false;
    if (step > 0) target = mp_run_neighbour(x, x->runs[target].slot, 1);
    for (int k = n_moving - 1; k >= 0; k--) { /* from the one that is nearest to where they go */
        const int there = mp_mover_relocate(m, m->extra[k], target);
        if (there < 0) return false;
        if (step > 0) target = there;
    }
    return true;
}

bool mp_move_shift_first(mp_mover *m)
{
    if (!mp_mover_below(m, MP_MOVE_SHIFT_RELATED_ONE_IN)) return shift_related(m);
    if (mp_mover_below(m, 5) < MP_MOVE_CLEAR_OF_FIVE) return mp_move_clear(m);
    const int run = mp_mover_any_run(m), kind = mp_mover_below(m, MP_MOVE_AWAY_ONE_IN);
    if (run < 0 || mp_run_is_extra(m->runs, run)) return false;
    if (!kind && !m->only_orders) return send_away(m, run, mp_mover_below(m, 2) ? mp_mover_any_run(m) : m->runs->end);
    return mp_mover_relocate(m, run,
                             kind <= MP_MOVE_BETWEEN_OF_EIGHT ? run_between(m, run) : run_away(m, run, MP_MOVE_SHIFT_FAR)) >= 0;
}
