#include "planner/moves.h"

#include "planner/lifetimes.h"

enum { TRIES = 24 };

/* ---- chance ---- */

static uint64_t next(mp_mover *m)
{
    uint64_t z = m->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double mp_mover_uniform(mp_mover *m)
{
    return (double)(next(m) >> 11) * 0x1p-53;
}

int mp_mover_below(mp_mover *m, int n)
{
    return (int)((next(m) >> 32) * (uint64_t)n >> 32);
}

/* ---- what there is ---- */

static bool is_extra(const mp_runs *x, int run)
{
    const int node = x->runs[run].node;
    return node >= 0 && x->of_node[node].n > 1 && x->of_node[node].runs[0] != run;
}

/* A run at random, -1: none was met. */
static int any_run(mp_mover *m)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < TRIES; k++) {
        const int run = mp_mover_below(m, x->n_runs);
        if (run != x->end && x->runs[run].slot >= 0) return run;
    }
    return -1;
}

static int any_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    for (int k = 0; k < TRIES; k++) {
        const int run = mp_mover_below(m, x->n_runs);
        if (run != x->end && x->runs[run].slot >= 0 && is_extra(x, run)) return run;
    }
    return -1;
}

/* The run before or after a slot; -1: none. */
static int neighbour(const mp_runs *x, int slot, int step)
{
    for (slot += step; slot >= 0 && slot < x->axis.n_slots; slot += step)
        if (x->at_slot[slot] >= 0) return x->at_slot[slot];
    return -1;
}

/* ---- runs that nothing needs ---- */

static bool is_dead(const mp_runs *x, int run)
{
    const mp_run *r = &x->runs[run];
    const mp_form *form = &x->graph->nodes[r->node].forms[r->form];
    for (size_t k = 0; k < form->n_writes; k++) {
        const int s = form->writes[k];
        if (!mp_storage_is_static(&x->graph->storages[s]) && mp_runs_next_read(x, s, r->slot) >= 0) return false;
    }
    return true;
}

static int latest_maker(const mp_runs *x, int s, int slot)
{
    const int at = mp_run_list_find(x, &x->makers[s], slot) - 1;
    return at < 0 ? -1 : x->makers[s].runs[at];
}

/* Takes a run away, and what was run again for it alone. */
static void remove_run(mp_runs *x, int run)
{
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    const int slot = x->runs[run].slot;
    mp_runs_remove(x, run);
    for (size_t k = 0; k < form->n_reads; k++) {
        const int s = form->reads[k];
        if (mp_storage_is_static(&x->graph->storages[s])) continue;
        const int maker = latest_maker(x, s, slot);
        if (maker >= 0 && is_extra(x, maker) && is_dead(x, maker)) remove_run(x, maker);
    }
}

/* ---- evictions ---- */

static int rerun(mp_mover *m, int node, int form, int before, double deeper);

/* With some chance, runs again what a run reads and is not there. False: no room. */
static bool rerun_inputs(mp_mover *m, int run, double chance)
{
    mp_runs *x = m->runs;
    const mp_form *f = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    for (size_t k = 0; k < f->n_reads; k++) {
        const int s = f->reads[k];
        if (mp_storage_is_static(&x->graph->storages[s]) || mp_runs_lives(x, s, x->runs[run].slot)) continue;
        const int maker = latest_maker(x, s, x->runs[run].slot);
        if (maker < 0 || m->left <= 0 || !mp_can_rerun(x->graph, x->runs[maker].node) || mp_mover_uniform(m) >= chance)
            continue;
        if (rerun(m, x->runs[maker].node, x->runs[maker].form, run, chance) < 0) return false;
    }
    return true;
}

/* Runs a node again before another run, and with some chance what it reads and is not there. -1: no room. */
static int rerun(mp_mover *m, int node, int form, int before, double deeper)
{
    const int run = mp_runs_reserve(m->runs, node, form, before);
    if (run < 0) return -1;
    m->left--;
    if (!rerun_inputs(m, run, deeper)) return -1;
    mp_runs_turn_on(m->runs, run);
    return run;
}

/* A storage of some size that lives in a slot and is read later; -1: none was met. */
static int any_living(mp_mover *m, int slot, int *reader)
{
    const mp_runs *x = m->runs;
    const int64_t total = m->n_candidates ? m->weights[m->n_candidates - 1] : 0;
    for (int k = 0; k < TRIES && total; k++) {
        const int64_t at = (int64_t)(mp_mover_uniform(m) * (double)total);
        int low = 0, high = m->n_candidates - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (m->weights[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        const int s = m->candidates[low];
        if (!mp_runs_lives(x, s, slot)) continue;
        *reader = mp_runs_next_read(x, s, slot);
        if (*reader >= 0) return s;
    }
    return -1;
}

/* What lives in a slot and is read later is given up there, and made again before it is read. */
static bool evict(mp_mover *m, int slot, double deeper, int before)
{
    mp_runs *x = m->runs;
    int reader;
    const int s = any_living(m, slot, &reader);
    if (s < 0) return false;
    const int maker = latest_maker(x, s, x->runs[reader].slot);
    if (maker < 0 || !mp_can_rerun(x->graph, x->runs[maker].node)) return false;
    if (before >= 0 && x->runs[before].slot < x->runs[reader].slot && x->runs[before].slot > slot) reader = before;
    if (rerun(m, x->runs[maker].node, x->runs[maker].form, reader, deeper) < 0) return false;
    if (is_extra(x, maker) && is_dead(x, maker)) remove_run(x, maker);
    return true;
}

static int chosen_slot(mp_mover *m)
{
    const mp_runs *x = m->runs;
    if (x->axis.total_over > 0 && mp_mover_below(m, 8))
        return mp_axis_find_over(&x->axis, (int64_t)(mp_mover_uniform(m) * (double)x->axis.total_over));
    const int run = any_run(m);
    return run < 0 ? -1 : x->runs[run].slot;
}

static bool evict_some(mp_mover *m)
{
    static const double chances[] = {0.7, 0.85, 0.95, 1};
    const int slot = chosen_slot(m);
    const double deeper = chances[mp_mover_below(m, 4)];
    m->left = mp_mover_below(m, 4) ? m->few : m->many;
    if (slot < 0 || !evict(m, slot, deeper, -1)) return false;
    if (mp_mover_below(m, 6)) return true;
    for (int more = 1 + mp_mover_below(m, 3); more > 0; more--) evict(m, slot, deeper, -1);
    return true;
}

/* ---- other moves ---- */

static bool delete_some(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = any_extra(m);
    if (run < 0 || !mp_runs_can_spare(x, run)) return false;
    int n = 0, width = mp_mover_below(m, 3) ? 0 : 1 + mp_mover_below(m, 6);
    for (int step = -1; step <= 1; step += 2) {
        int slot = x->runs[run].slot;
        for (int k = 0; k < width; k++) {
            const int other = neighbour(x, slot, step);
            if (other < 0 || other == x->end) break;
            slot = x->runs[other].slot;
            if (is_extra(x, other)) m->extra[n++] = other;
        }
    }
    remove_run(x, run);
    for (int k = 0; k < n; k++) { /* some of them may have gone with the others */
        const int other = m->extra[k];
        if (x->runs[other].slot >= 0 && is_extra(x, other) && mp_runs_can_spare(x, other)) remove_run(x, other);
    }
    return true;
}

/* Deletes, and makes room for it where it is lacking then. */
static bool exchange(mp_mover *m)
{
    mp_runs *x = m->runs;
    if (!delete_some(m)) return false;
    m->left = 20;
    for (int k = 1 + mp_mover_below(m, 3); k > 0 && x->axis.total_over > 0; k--) {
        const int slot = mp_axis_find_over(&x->axis, (int64_t)(mp_mover_uniform(m) * (double)x->axis.total_over));
        evict(m, slot, 0.9, -1);
    }
    return true;
}

/* Puts a run elsewhere. */
static bool relocate(mp_mover *m, int run, int before)
{
    mp_runs *x = m->runs;
    const mp_run r = x->runs[run];
    if (before < 0 || before == run) return false;
    const int there = mp_runs_reserve(x, r.node, r.form, before);
    if (there < 0 || !mp_runs_allows(x, r.node, r.form, x->runs[there].slot, run)) return false;
    if (m->keeps_order && x->runs[there].slot < x->runs[x->of_node[r.node].runs[0]].slot) return false;
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, there);
    return true;
}

/* The living results of neighbouring nodes are given up together, and made again together before the first of them is read. */
static bool evict_window(mp_mover *m)
{
    mp_runs *x = m->runs;
    const mp_graph *g = x->graph;
    const int slot = chosen_slot(m);
    int reader, n = 0;
    const int s = slot < 0 ? -1 : any_living(m, slot, &reader);
    if (s < 0) return false;
    const int width = 1 + mp_mover_below(m, 8), centre = g->producer[s];
    const int from = centre - mp_mover_below(m, width + 1) < 0 ? 0 : centre - mp_mover_below(m, width + 1);
    for (int v = from; v <= from + width && v < (int)g->n_nodes && n < MP_MOVER_ROOM; v++) {
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
    m->left = 40;
    for (int k = 0; k < n; k++) {
        const int maker = x->of_node[m->extra[k]].runs[0];
        const int last = latest_maker(x, g->nodes[m->extra[k]].forms[0].writes[0], x->runs[reader].slot);
        if (rerun(m, m->extra[k], x->runs[maker].form, reader, 0.9) < 0) return false;
        if (last >= 0 && x->runs[last].slot >= 0 && is_extra(x, last) && is_dead(x, last)) remove_run(x, last);
    }
    return n > 0;
}

/* A run some places away. */
static int run_away(mp_mover *m, int run, int most)
{
    const mp_runs *x = m->runs;
    const int step = mp_mover_below(m, 2) ? 1 : -1;
    int at = run;
    for (int k = 1 + mp_mover_below(m, most) + (step > 0); k > 0 && at >= 0; k--) at = neighbour(x, x->runs[at].slot, step);
    return at;
}

static bool shift_extra(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = any_extra(m);
    if (run < 0) return false;
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    if (form->n_writes && mp_mover_below(m, 2)) { /* just in time */
        const int s = form->writes[mp_mover_below(m, (int)form->n_writes)];
        if (mp_storage_is_static(&x->graph->storages[s])) return false;
        return relocate(m, run, mp_runs_next_read(x, s, x->runs[run].slot));
    }
    return relocate(m, run, run_away(m, run, 12));
}

/* Extra runs that stand side by side go elsewhere together. */
static bool shift_window(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = any_extra(m);
    if (run < 0) return false;
    int first = run, n = 0;
    for (int k = mp_mover_below(m, 6); k > 0; k--) {
        const int other = neighbour(x, x->runs[first].slot, -1);
        if (other < 0 || !is_extra(x, other)) break;
        first = other;
    }
    for (int at = first; n < 12 && at >= 0 && at != x->end && is_extra(x, at); at = neighbour(x, x->runs[at].slot, 1))
        m->extra[n++] = at;
    const int target = mp_mover_below(m, 2) ? run_away(m, m->extra[n - 1], 16) : run_away(m, first, 16);
    if (target < 0) return false;
    for (int k = 0; k < n; k++)
        if (m->extra[k] == target) return false;
    for (int k = 0; k < n; k++)
        if (!relocate(m, m->extra[k], target)) return false;
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
    m->left = 20;
    if (!rerun_inputs(m, there, 0.8)) return false;
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
    return neighbour(x, first + mp_mover_below(m, last - first), 1);
}

static bool is_among(const int *list, int n, int run)
{
    for (int k = 0; k < n; k++)
        if (list[k] == run) return true;
    return false;
}

/* Whether a run reads what one of a list makes. */
static bool reads_from(const mp_runs *x, int run, const int *list, int n)
{
    const mp_form *form = &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
    for (size_t k = 0; k < form->n_reads; k++)
        if (is_among(list, n, latest_maker(x, form->reads[k], x->runs[run].slot))) return true;
    return false;
}

/* Puts a run elsewhere, and with it those on the way that have to stay after it, or before it. */
static bool shift_related(mp_mover *m)
{
    enum { FAR = 40, MOST = 12 };
    mp_runs *x = m->runs;
    const int run = any_run(m), step = mp_mover_below(m, 2) ? 1 : -1;
    int n = 1, n_moving = 0, at = run, target = run; /* target: the farthest run that the others pass */
    if (run < 0) return false;
    m->extra[0] = run;
    for (int k = 1 + mp_mover_below(m, FAR); k > 0; k--) {
        at = neighbour(x, x->runs[at].slot, step);
        if (at < 0 || at == x->end) return false;
        bool goes = step > 0 && reads_from(x, at, m->extra, n);
        for (int i = 0; i < n && step < 0 && !goes; i++) goes = reads_from(x, m->extra[i], &at, 1);
        if (!goes) {
            target = at;
            n_moving = n;
        } else if (n < MOST) {
            m->extra[n++] = at;
        } else {
            return false;
        }
    }
    if (!n_moving) return false;
    if (step > 0) target = neighbour(x, x->runs[target].slot, 1);
    for (int k = n_moving - 1; k >= 0; k--) { /* from the one that is nearest to where they go */
        if (!relocate(m, m->extra[k], target)) return false;
        if (step > 0) target = neighbour(x, x->runs[target].slot, -1);
    }
    return true;
}

static bool shift_first(mp_mover *m)
{
    if (!mp_mover_below(m, 4)) return shift_related(m);
    const int run = any_run(m), kind = mp_mover_below(m, 8);
    if (run < 0 || is_extra(m->runs, run)) return false;
    if (!kind && !m->only_orders) return send_away(m, run, mp_mover_below(m, 2) ? any_run(m) : m->runs->end);
    return relocate(m, run, kind < 4 ? run_between(m, run) : run_away(m, run, 12));
}

/* ---- forms ---- */

/* Runs a node in another form at the same place. The run there then; -1: it cannot be. */
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

/* The first form of a node that makes a storage; -1: none. */
static int form_making(const mp_node *node, int s)
{
    for (size_t f = 0; f < node->n_forms; f++)
        for (size_t k = 0; k < node->forms[f].n_writes; k++)
            if (node->forms[f].writes[k] == s) return (int)f;
    return -1;
}

/* Gives all runs of a node another algorithm. */
static bool change_algorithm(mp_mover *m, int node)
{
    const mp_runs *x = m->runs;
    const mp_run_list *runs = &x->of_node[node];
    const int n = runs->n, n_forms = (int)x->graph->nodes[node].n_forms;
    if (n > MP_MOVER_ROOM) return false;
    const int form = (x->runs[runs->runs[0]].form + 1 + mp_mover_below(m, n_forms - 1)) % n_forms;
    for (int k = 0; k < n; k++) m->extra[k] = runs->runs[k];
    for (int k = 0; k < n; k++)
        if (change_form(m, m->extra[k], form) < 0) return false;
    return true;
}

/* What the new form reads and nothing makes yet is made from now on, and what only the old one read no longer. */
static bool change_some(mp_mover *m)
{
    mp_runs *x = m->runs;
    const mp_node *node = &x->graph->nodes[m->choices[mp_mover_below(m, m->n_choices)]];
    const mp_run_list *runs = &x->of_node[node - x->graph->nodes];
    if (mp_node_has_algorithms(node)) return change_algorithm(m, (int)(node - x->graph->nodes));
    const int run = runs->runs[mp_mover_below(m, runs->n)], old = x->runs[run].form;
    const int form = (old + 1 + mp_mover_below(m, (int)node->n_forms - 1)) % (int)node->n_forms;
    for (size_t k = 0; k < node->forms[form].n_reads; k++) {
        const int s = node->forms[form].reads[k], producer = x->graph->producer[s];
        if (producer < 0 || x->makers[s].n || mp_storage_is_static(&x->graph->storages[s])) continue;
        if (change_form(m, x->of_node[producer].runs[0], form_making(&x->graph->nodes[producer], s)) < 0) return false;
    }
    if (change_form(m, run, form) < 0) return false;
    for (size_t k = 0; k < node->forms[old].n_reads; k++) {
        const int s = node->forms[old].reads[k];
        for (int i = 0; i < x->makers[s].n && !x->readers[s].n; i++) change_form(m, x->makers[s].runs[i], 0);
    }
    return true;
}

bool mp_move(mp_mover *m)
{
    const int draw = mp_mover_below(m, 100);
    if (m->only_orders || (!m->keeps_order && draw < 25)) return shift_first(m);
    if (m->n_choices && draw >= 92) return change_some(m);
    const int kind = mp_mover_below(m, 100);
    if (kind < 35) return evict_some(m);
    if (kind < 45) return evict_window(m);
    if (kind < 68) return delete_some(m);
    if (kind < 80) return exchange(m);
    if (kind < 92) return shift_extra(m);
    return shift_window(m);
}
