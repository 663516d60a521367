/* moves.c - which neighbourhood a move is drawn from (MP_MOVE_... in tuning.def), and the change of a node's alternative. */
#include "planner/anneal/moves.h"

#include "planner/anneal/move_clear.h"
#include "planner/anneal/move_evictions.h"
#include "planner/anneal/move_shifts.h"
#include "planner/anneal/runs/runs_change.h"
#include "planner/anneal/runs/runs_query.h"

/* ---- alternatives ---- */

/* Runs a node in another alternative at the same place. The run there then; -1: it cannot be. */
static int use_alternative(mp_mover *m, int run, int alternative)
{
    mp_runs *x = m->runs;
    if (x->runs[run].alternative == alternative) return run;
    if (!mp_runs_can_change(x, run, alternative)) return -1;
    const int there = mp_runs_reserve(x, x->runs[run].node, alternative, run);
    if (there < 0) return -1;
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, there);
    return there;
}

/* The first alternative of a node that produces a storage; -1: none. */
static int alternative_producing(const mp_node *node, int s)
{
    for (size_t f = 0; f < node->n_alternatives; f++)
        if (mp_list_has(node->alternatives[f].writes, node->alternatives[f].n_writes, s)) return (int)f;
    return -1;
}

/* Gives all runs of a node another algorithm. */
static bool change_algorithm(mp_mover *m, int node)
{
    const mp_runs *x = m->runs;
    const mp_run_list *runs = &x->of_node[node];
    const int n = runs->n, n_alternatives = (int)x->graph->nodes[node].n_alternatives;
    if (n > MP_MOVE_LIST) return false;
    const int alternative = (x->runs[runs->runs[0]].alternative + 1 + mp_mover_below(m, n_alternatives - 1)) % n_alternatives;
    for (int k = 0; k < n; k++) m->list[k] = runs->runs[k];
    for (int k = 0; k < n; k++)
        if (use_alternative(m, m->list[k], alternative) < 0) return false;
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
    const int run = runs->runs[mp_mover_below(m, runs->n)], old = x->runs[run].alternative;
    const int alternative = (old + 1 + mp_mover_below(m, (int)node->n_alternatives - 1)) % (int)node->n_alternatives;
    for (size_t k = 0; k < node->alternatives[alternative].n_reads; k++) {
        const int s = node->alternatives[alternative].reads[k], producer = x->graph->producer[s];
        if (producer < 0 || x->producers[s].n || mp_storage_is_static(&x->graph->storages[s])) continue;
        if (use_alternative(m, x->of_node[producer].runs[0], alternative_producing(&x->graph->nodes[producer], s)) < 0)
            return false;
    }
    if (use_alternative(m, run, alternative) < 0) return false;
    for (size_t k = 0; k < node->alternatives[old].n_reads; k++) {
        const int s = node->alternatives[old].reads[k];
        for (int i = 0; i < x->producers[s].n && !x->readers[s].n; i++) use_alternative(m, x->producers[s].runs[i], 0);
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
