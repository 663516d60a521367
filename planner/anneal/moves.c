/* moves.c - which neighbourhood a move is drawn from (MP_MOVE_... in tuning.def), and the change of a node's alternative. */
#include "planner/anneal/moves.h"

#include "planner/anneal/move_clear.h"
#include "planner/anneal/move_evictions.h"
#include "planner/anneal/move_shifts.h"
#include "planner/anneal/runs/runs_change.h"
#include "planner/anneal/runs/runs_query.h"

/* ---- alternatives ---- */

/* Runs a node in another alternative at the same place. The run there then; -1: it cannot be. */
static int change_form(mp_mover *m, int run, int form)
{
    mp_runs *x = m->runs;
    if (x->runs[run].form == form) return run;
    if (!mp_runs_can_change(x, run, form)) return -1;
    const int there = mp_runs_reserve(x, x->runs[run].node, form, run);
    if (there < 0) return -1;
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, there);
    return there;
}

/* The first alternative of a node that produces a storage; -1: none. */
static int form_producing(const mp_node *node, int s)
{
    for (size_t f = 0; f < node->n_forms; f++)
        if (mp_list_has(node->forms[f].writes, node->forms[f].n_writes, s)) return (int)f;
    return -1;
}

/* Gives all runs of a node another algorithm. */
static bool change_algorithm(mp_mover *m, int node)
{
    const mp_runs *x = m->runs;
    const mp_run_list *runs = &x->of_node[node];
    const int n = runs->n, n_forms = (int)x->graph->nodes[node].n_forms;
    if (n > MP_MOVE_LIST) return false;
    const int form = (x->runs[runs->runs[0]].form + 1 + mp_mover_below(m, n_forms - 1)) % n_forms;
    for (int k = 0; k < n; k++) m->list[k] = runs->runs[k];
    for (int k = 0; k < n; k++)
        if (change_form(m, m->list[k], form) < 0) return false;
    return true;
}

/* Changes one run's alternative. What the new one reads and nothing produces yet is produced from now on, and what only the old
 * one read no longer. */
static bool change_alternative(mp_mover *m)
{
    mp_runs *x = m->runs;
    const mp_node *node = &x->graph->nodes[m->choices[mp_mover_below(m, m->n_choices)]];
    const mp_run_list *runs = &x->of_node[node - x->graph->nodes];
    if (mp_node_has_algorithms(node)) return change_algorithm(m, (int)(node - x->graph->nodes));
    const int run = runs->runs[mp_mover_below(m, runs->n)], old = x->runs[run].form;
    const int form = (old + 1 + mp_mover_below(m, (int)node->n_forms - 1)) % (int)node->n_forms;
    for (size_t k = 0; k < node->forms[form].n_reads; k++) {
        const int s = node->forms[form].reads[k], producer = x->graph->producer[s];
        if (producer < 0 || x->producers[s].n || mp_storage_is_static(&x->graph->storages[s])) continue;
        if (change_form(m, x->of_node[producer].runs[0], form_producing(&x->graph->nodes[producer], s)) < 0) return false;
    }
    if (change_form(m, run, form) < 0) return false;
    for (size_t k = 0; k < node->forms[old].n_reads; k++) {
        const int s = node->forms[old].reads[k];
        for (int i = 0; i < x->producers[s].n && !x->readers[s].n; i++) change_form(m, x->producers[s].runs[i], 0);
    }
    return true;
}

/* ---- draws ---- */

/* Changes the order of first runs. */
static bool reorder(mp_mover *m)
{
    if (!mp_mover_below(m, MP_MOVE_SHIFT_RELATED_ONE_IN)) return mp_move_shift_related(m);
    return mp_mover_below(m, 5) < MP_MOVE_CLEAR_OF_FIVE ? mp_move_clear(m) : mp_move_shift_first(m);
}

/* Whether an eviction of many, or a swap, looks at cheap storages only. */
static bool looks_at_cheap(mp_mover *m)
{
    return !mp_mover_below(m, MP_MOVE_CHEAP_ONE_IN);
}

static bool change_recomputation(mp_mover *m)
{
    int draw = mp_mover_below(m, 100);
    if ((draw -= MP_MOVE_EVICT) < 0) return mp_move_evict(m);
    if ((draw -= MP_MOVE_EVICT_MANY) < 0) return looks_at_cheap(m) ? mp_move_evict_cheap(m) : mp_move_evict_window(m);
    if ((draw -= MP_MOVE_RESTORE) < 0) return mp_move_restore(m);
    if ((draw -= MP_MOVE_SWAP) < 0) return looks_at_cheap(m) ? mp_move_swap_for_cheap(m) : mp_move_swap(m);
    if ((draw -= MP_MOVE_SHIFT_EXTRA) < 0) return mp_move_shift_extra(m);
    return mp_move_shift_window(m);
}

static bool move(mp_mover *m)
{
    const int draw = mp_mover_below(m, 100);
    if (!m->keeps_order && draw < MP_MOVE_REORDER) return reorder(m);
    if (m->n_choices && draw >= 100 - MP_MOVE_ALTERNATIVE) return change_alternative(m);
    return change_recomputation(m);
}

bool mp_move(mp_mover *m, int64_t ticks_limit)
{
    m->ticks_limit = ticks_limit;
    m->pending_ticks = 0;
    m->has_given_up = false;
    return move(m) && !m->has_given_up;
}
