/* mover_moves.c - draws the kind of each move (MP_MOVE_... in tuning.def). Contains the moves that only change the order of
 * runs or the alternative of a node. */
#include "planner/anneal/mover.h"

#include "planner/anneal/runs/runs.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    MOVE_ALTERNATIVE = 8,          /* % of all moves that change the alternative of a node */
    MOVE_EVICT = 35,               /* % of moves of recomputations that evict one or few storages */
    MOVE_EVICT_MANY = 10,          /* % of moves of recomputations that evict neighbouring storages or all cheap ones */
    MOVE_RESTORE = 23,             /* % of moves of recomputations that remove recomputations */
    MOVE_SWAP = 12,                /* % of moves of recomputations that restore one storage and evict others */
    MOVE_SHIFT_EXTRA = 12,         /* % of moves of recomputations that shift one; the rest shift several */
    MOVE_COPY_INSTEAD_ONE_IN = 6,  /* 1 in 6 changes of recomputations is replaced by a move of copies */
    MOVE_WAIT_ONE_IN = 3,          /* 1 in 3 moves of copies shifts a copy or its wait */
    MOVE_SHIFT_FAR = 12,           /* most runs that a shifted run passes */
    MOVE_SHIFT_WINDOW_FAR = 16,    /* most runs that a group of recomputations passes when it is shifted */
    MOVE_SHIFT_WINDOW_BACK = 6,    /* a shifted group may start up to 6 runs before the drawn run */
    MOVE_SHIFT_WINDOW = 12,        /* most recomputations that one move shifts as a group */
    MOVE_SHIFT_TOGETHER = 12,      /* most dependent runs that a move shifts together with a first run */
    MOVE_SHIFT_RELATED_FAR = 40,   /* most runs that a first run and its dependent runs pass when shifted */
    MOVE_SHIFT_RELATED_ONE_IN = 4, /* 1 in 4 changes of the order of first runs also moves dependent runs */
    MOVE_AWAY_ONE_IN = 8,          /* 1 in 8 moves out of such a step shifts a first run far */
    MOVE_REORDER = 25,             /* % of all moves that change the order of first runs */
};
static const double MOVE_DEEPER_AWAY = 0.8; /* MOVE_DEEPER for a first run that is shifted far */

/* Appends a run to the first n entries of the mover's list, unless these entries contain the run already. Returns false if the
 * list is full. */
static bool add(mp_mover *m, int *n, int run)
{
    if (mp_list_has(m->list, (size_t)*n, run)) return true;
    if (*n == MOVE_SHIFT_TOGETHER) return false;
    m->list[(*n)++] = run;
    return true;
}

static void sort_by_position(const mp_runs *x, int *list, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x->runs[list[k]].position < x->runs[list[k - 1]].position; k--) {
            const int run = list[k];
            list[k] = list[k - 1];
            list[k - 1] = run;
        }
}

/* Storage s is live at a position. Moves all later readers of this instance of s to just before the position. If a moved run
 * reads a storage that no run produces before the position, the producer of the storage is moved too, recursively. */
static bool advance(mp_mover *m, int s, int position)
{
    mp_runs *x = m->runs;
    const int target = x->run_at[position];
    int n = 0;
    for (int r = mp_runs_next_read(x, s, position); r >= 0; r = mp_runs_next_read(x, s, x->runs[r].position))
        if (!add(m, &n, r)) return false;
    for (int i = 0; i < n; i++) { /* the loop body appends runs to the list, so n grows during the loop */
        const mp_alternative *alternative = mp_runs_alternative(x, m->list[i]);
        for (size_t k = 0; k < alternative->n_reads; k++) {
            const int producer = mp_runs_latest_producer(x, alternative->reads[k], x->runs[m->list[i]].position);
            if (producer < 0 || mp_runs_latest_producer(x, alternative->reads[k], position) >= 0) continue;
            if (producer == target || !add(m, &n, producer)) return false;
        }
    }
    sort_by_position(x, m->list, n);
    for (int k = 0; k < n; k++)
        if (mp_mover_relocate(m, m->list[k], target) < 0) return false;
    return n > 0;
}

/* Moves a run to just after a position. If it is the first run that produces a storage, moves the readers of the storage before
 * that position as well, recursively. */
static bool delay(mp_mover *m, int run, int position)
{
    mp_runs *x = m->runs;
    int n = 0, target = mp_runs_neighbour(x, position, 1);
    add(m, &n, run);
    for (int i = 0; i < n; i++) {
        const mp_alternative *alternative = mp_runs_alternative(x, m->list[i]);
        const int from = x->runs[m->list[i]].position;
        for (size_t k = 0; k < alternative->n_writes; k++) {
            if (mp_runs_latest_producer(x, alternative->writes[k], from) >= 0) continue;
            int reader = mp_runs_next_read(x, alternative->writes[k], from);
            for (; reader >= 0 && x->runs[reader].position <= position;
                 reader = mp_runs_next_read(x, alternative->writes[k], x->runs[reader].position))
                if (!add(m, &n, reader)) return false;
        }
    }
    sort_by_position(x, m->list, n);
    for (int k = n - 1; k >= 0 && target >= 0; k--) target = mp_mover_relocate(m, m->list[k], target);
    return target >= 0;
}

bool mp_move_clear(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int position = mp_mover_any_position(m);
    int reader;
    const int s = position < 0 ? -1 : mp_mover_any_live(m, position, &reader);
    const int producer = s < 0 ? -1 : mp_runs_latest_producer(x, s, position + 1);
    if (producer < 0) return false;
    const int first = mp_runs_next_read(x, s, x->runs[producer].position), n_positions = x->runs[first].position - position;
    if (n_positions <= 0) return mp_mover_below(m, 2) ? advance(m, s, position) : delay(m, producer, position);
    const int before = mp_mover_below(m, 2) ? first : mp_runs_neighbour(x, position + mp_mover_below(m, n_positions), 1);
    return mp_mover_relocate(m, producer, before) >= 0;
}

/* Returns a random run that is at most `most` runs away from the given run. */
static int run_away(mp_mover *m, int run, int most)
{
    const mp_runs *x = m->runs;
    const int step = mp_mover_below(m, 2) ? 1 : -1;
    int at = run;
    for (int k = 1 + mp_mover_below(m, most) + (step > 0); k > 0 && at >= 0; k--)
        at = mp_runs_neighbour(x, x->runs[at].position, step);
    return at;
}

/* Draws a run. If the graph has copies and the order has exceeded the budget for many moves, often draws a run at or near a
 * step over the budget. Waits for copies restrict most reorderings in such orders, and uniform draws rarely find a possible
 * reordering. */
static int any_crowded(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const bool looks = m->ways.n && m->is_stuck && x->profile->total_over > 0;
    if (!looks || mp_mover_below(m, MP_MOVE_CROWDED_ONE_IN)) return mp_mover_any_run(m);
    const int there = x->run_at[mp_mover_any_over(m)];
    const int run = mp_mover_below(m, 2) ? there : run_away(m, there, MOVE_SHIFT_FAR);
    return run == x->end ? -1 : run;
}

/* Moves a recomputation in one of two ways: to just before its next reader, or past a few runs. */
static bool move_shift_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0) return false;
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    /* in half of the moves, the recomputation moves to just before its next reader */
    if (alternative->n_writes && mp_mover_below(m, 2)) {
        const int s = alternative->writes[mp_mover_below(m, (int)alternative->n_writes)];
        if (mp_storage_is_static(&x->graph->storages[s])) return false;
        return mp_mover_relocate(m, run, mp_runs_next_read(x, s, x->runs[run].position)) >= 0;
    }
    return mp_mover_relocate(m, run, run_away(m, run, MOVE_SHIFT_FAR)) >= 0;
}

/* Moves several neighbouring recomputations together. */
static bool move_shift_window(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0) return false;
    int first = run, n = 0;
    for (int k = mp_mover_below(m, MOVE_SHIFT_WINDOW_BACK); k > 0; k--) {
        const int other = mp_runs_neighbour(x, x->runs[first].position, -1);
        if (other < 0 || !mp_runs_is_extra(x, other)) break;
        first = other;
    }
    for (int at = first; n < MOVE_SHIFT_WINDOW && at >= 0 && at != x->end && mp_runs_is_extra(x, at);
         at = mp_runs_neighbour(x, x->runs[at].position, 1))
        m->list[n++] = at;
    const int target = run_away(m, mp_mover_below(m, 2) ? m->list[n - 1] : first, MOVE_SHIFT_WINDOW_FAR);
    if (target < 0) return false;
    for (int k = 0; k < n; k++)
        if (m->list[k] == target) return false;
    for (int k = 0; k < n; k++)
        if (mp_mover_relocate(m, m->list[k], target) < 0) return false;
    return true;
}

/* Moves the first run of a node to a distant position, and recomputes its inputs there. */
static bool send_away(mp_mover *m, int run, int before)
{
    mp_runs *x = m->runs;
    const mp_node_run r = x->runs[run];
    if (before < 0 || before == run || r.is_wait) return false;
    const int there = mp_runs_reserve(x, r.node, r.alternative, before);
    if (there < 0 || !mp_runs_allows(x, r.node, r.alternative, x->runs[there].position, run)) return false;
    mp_runs_remove(x, run);
    m->reruns_left = MP_MOVE_RERUNS_SWAP;
    m->pending_ticks += x->graph->nodes[r.node].alternatives[r.alternative].ticks;
    if (!mp_move_rerun_inputs(m, there, MOVE_DEEPER_AWAY)) return false;
    mp_runs_turn_on(x, there);
    return true;
}

/* Returns a random run between the producers of a run's inputs and the first reader of its outputs. */
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

/* True if a run reads an output of some run in the list. */
static bool reads_from(const mp_runs *x, int run, const int *list, int n)
{
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    for (size_t k = 0; k < alternative->n_reads; k++)
        if (mp_list_has(list, (size_t)n, mp_runs_latest_producer(x, alternative->reads[k], x->runs[run].position))) return true;
    return false;
}

/* Draws a run and moves it past other runs, in a random direction. Runs between the old and the new position move with it if
 * they depend on it, or if it depends on them. */
static bool move_shift_related(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = any_crowded(m), step = mp_mover_below(m, 2) ? 1 : -1;
    int n = 1, n_moving = 0, at = run, target = run; /* target: the last run that the group of moving runs must pass */
    if (run < 0) return false;
    m->list[0] = run;
    for (int k = 1 + mp_mover_below(m, MOVE_SHIFT_RELATED_FAR); k > 0; k--) {
        at = mp_runs_neighbour(x, x->runs[at].position, step);
        if (at < 0 || at == x->end) return false;
        bool goes = step > 0 && reads_from(x, at, m->list, n);
        for (int i = 0; i < n && step < 0 && !goes; i++) goes = reads_from(x, m->list[i], &at, 1);
        if (!goes) {
            target = at;
            n_moving = n;
        } else if (n < MOVE_SHIFT_TOGETHER) {
            m->list[n++] = at;
        } else {
            return false;
        }
    }
    if (!n_moving) return false;
    if (step > 0) target = mp_runs_neighbour(x, x->runs[target].position, 1);
    for (int k = n_moving - 1; k >= 0; k--) { /* the moving run nearest to the target is moved first */
        const int there = mp_mover_relocate(m, m->list[k], target);
        if (there < 0) return false;
        if (step > 0) target = there;
    }
    return true;
}

/* Moves the first run of a node in one of three ways: to a random position between its producers and its first reader; past a
 * few runs; or sometimes to a distant position, with its inputs recomputed there. */
static bool move_shift_first(mp_mover *m)
{
    const int run = any_crowded(m), kind = mp_mover_below(m, MOVE_AWAY_ONE_IN);
    if (run < 0 || mp_runs_is_extra(m->runs, run)) return false;
    if (!kind) return send_away(m, run, mp_mover_below(m, 2) ? mp_mover_any_run(m) : m->runs->end);
    const bool is_between = kind <= MP_MOVE_BETWEEN_OF_EIGHT;
    return mp_mover_relocate(m, run, is_between ? run_between(m, run) : run_away(m, run, MOVE_SHIFT_FAR)) >= 0;
}

/* ---- alternatives ---- */

/* Replaces a run by a run of the same node in another alternative, at the same position. Returns the new run; -1 if that is
 * impossible. */
static int use_alternative(mp_mover *m, int run, int alternative)
{
    mp_runs *x = m->runs;
    if (x->runs[run].alternative == alternative) return run;
    if (x->graph->nodes[x->runs[run].node].alternatives[alternative].returns || x->runs[run].does->returns) return -1;
    if (!mp_runs_can_change(x, run, alternative)) return -1;
    const int there = mp_runs_reserve(x, x->runs[run].node, alternative, run);
    if (there < 0) return -1;
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, there);
    return there;
}

/* Returns the first of a node's alternatives that produces a storage; -1: none produces it. */
static int alternative_producing(const mp_node *node, int s)
{
    for (size_t f = 0; f < node->n_alternatives; f++)
        if (mp_list_has(node->alternatives[f].writes, node->alternatives[f].n_writes, s)) return (int)f;
    return -1;
}

/* Switches all runs of a node to another algorithm. (An algorithm is an alternative that differs in time and workspace
 * only.) */
static bool change_algorithm(mp_mover *m, int node)
{
    const mp_runs *x = m->runs;
    const mp_run_list *runs = &x->of_node[node];
    const int n = runs->n, n_alternatives = (int)x->graph->nodes[node].n_alternatives;
    if (n > MP_MOVE_LIST) return false;
    const int alternative = (x->runs[runs->runs[0]].alternative + 1 + mp_mover_below(m, n_alternatives - 1)) % n_alternatives;
    for (int k = 0; k < n; k++) m->list[k] = runs->runs[k];
    for (int k = 0; k < n; k++) /* copies back are alternatives too, but compute nothing, so they keep their alternative */
        if (!mp_runs_alternative(x, m->list[k])->returns && use_alternative(m, m->list[k], alternative) < 0) return false;
    return true;
}

/* Switches one run to another alternative. Recomputes the inputs that only the new alternative needs, and removes
 * recomputations that only the old alternative read. */
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
        if (!x->of_node[producer].n) return false; /* the copy was never made */
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

/* Moves first runs of nodes. */
static bool reorder(mp_mover *m)
{
    if (!mp_mover_below(m, MOVE_SHIFT_RELATED_ONE_IN)) return move_shift_related(m);
    return mp_mover_below(m, 5) < MP_MOVE_CLEAR_OF_FIVE ? mp_move_clear(m) : move_shift_first(m);
}

/* Decides at random whether a move that evicts many storages considers only storages that are cheap to recompute. */
static bool looks_at_cheap(mp_mover *m)
{
    return !mp_mover_below(m, MP_MOVE_CHEAP_ONE_IN);
}

static bool change_recomputation(mp_mover *m)
{
    if ((m->ways.n || m->runs->queue.n) && !mp_mover_below(m, MOVE_COPY_INSTEAD_ONE_IN))
        return m->ways.n && mp_mover_below(m, MOVE_WAIT_ONE_IN) ? mp_move_copy_instead(m) : mp_move_wait(m);
    int draw = mp_mover_below(m, 100);
    if ((draw -= MOVE_EVICT) < 0) return mp_move_evict(m);
    if ((draw -= MOVE_EVICT_MANY) < 0) return looks_at_cheap(m) ? mp_move_evict_cheap(m) : mp_move_evict_window(m);
    if ((draw -= MOVE_RESTORE) < 0) return mp_move_restore(m);
    if ((draw -= MOVE_SWAP) < 0) return looks_at_cheap(m) ? mp_move_swap_for_cheap(m) : mp_move_swap(m);
    if ((draw -= MOVE_SHIFT_EXTRA) < 0) return move_shift_extra(m);
    return move_shift_window(m);
}

static bool move(mp_mover *m)
{
    const int draw = mp_mover_below(m, 100);
    if (!m->keeps_order && draw < MOVE_REORDER) return reorder(m);
    if (m->n_choices && draw >= 100 - MOVE_ALTERNATIVE) return change_alternative(m);
    return change_recomputation(m);
}

bool mp_move(mp_mover *m, int64_t ticks_limit)
{
    m->ticks_limit = ticks_limit;
    m->pending_ticks = 0;
    m->has_given_up = false;
    return move(m) && !m->has_given_up && mp_runs_leave_alone(m->runs);
}
