#include "planner/anneal/runs/runs.h"

#include <limits.h>
#include <string.h>

#include "planner/anneal/runs/lifetimes.h"

static const mp_form *form_of(const mp_runs *x, int run)
{
    return &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
}

static int64_t limit_of(const mp_runs *x, int run)
{
    return x->limit_bytes - form_of(x, run)->workspace_bytes;
}

static void note(mp_runs *x, mp_change_kind kind, int run, int slot)
{
    if (!mp_grow(&x->changes, &x->changes_capacity, x->n_changes + 1, sizeof *x->changes)) {
        x->failed = true;
        return;
    }
    x->changes[x->n_changes++] = (mp_change){kind, {run}, {slot}};
}

/* ---- changes without notes ---- */

static void place(mp_runs *x, int run, int slot)
{
    x->runs[run].slot = slot;
    x->at_slot[slot] = run;
    mp_axis_occupy(&x->axis, slot, limit_of(x, run));
}

static void displace(mp_runs *x, int run)
{
    const int slot = x->runs[run].slot;
    mp_axis_vacate(&x->axis, slot, limit_of(x, run));
    x->at_slot[slot] = -1;
    x->runs[run].slot = -1;
}

static void turn_on(mp_runs *x, int run)
{
    const mp_form *form = form_of(x, run);
    mp_run_list *of_node = &x->of_node[x->runs[run].node];
    x->runs[run].is_on = true;
    x->ticks += form->ticks;
    x->n_on++;
    for (size_t k = 0; k < form->n_reads; k++) mp_lifetime_add_reader(x, form->reads[k], run);
    for (size_t k = 0; k < form->n_adds; k++) mp_lifetime_add_reader(x, form->adds[k], run);
    for (size_t k = 0; k < form->n_writes; k++)
        if (!mp_storage_is_static(&x->graph->storages[form->writes[k]])) mp_lifetime_add_maker(x, form->writes[k], run);
    mp_lifetime_credit(x, run);
    mp_run_list_insert(x, of_node, run);
}

static void turn_off(mp_runs *x, int run)
{
    const mp_form *form = form_of(x, run);
    mp_run_list *of_node = &x->of_node[x->runs[run].node];
    mp_run_list_drop(x, of_node, run);
    for (size_t k = 0; k < form->n_writes; k++)
        if (!mp_storage_is_static(&x->graph->storages[form->writes[k]])) mp_lifetime_drop_maker(x, form->writes[k], run);
    for (size_t k = 0; k < form->n_adds; k++) mp_lifetime_drop_reader(x, form->adds[k], run);
    for (size_t k = 0; k < form->n_reads; k++) mp_lifetime_drop_reader(x, form->reads[k], run);
    x->runs[run].is_on = false;
    x->ticks -= form->ticks;
    x->n_on--;
    mp_axis_add(&x->axis, x->runs[run].slot, x->runs[run].slot, x->runs[run].credit);
    x->runs[run].credit = 0;
}

/* What lies in memory just before a run begins. */
static int64_t level_before(const mp_runs *x, int run)
{
    const mp_run *r = &x->runs[run];
    const int64_t limit = run == x->end ? x->limit_bytes - x->end_workspace_bytes : limit_of(x, run);
    return mp_axis_excess(&x->axis, r->slot) + limit + r->credit - mp_lifetimes_begun(x, run);
}

/* Moves the runs in slots [first, last] by one, to the empty slot beside them. Everything that lives at a run goes with it; in
 * the slot that they leave is what lives on after them, or before them. */
static void shift(mp_runs *x, int first, int last, int by)
{
    const int next = x->at_slot[last + 1];
    const int64_t left = by > 0     ? level_before(x, x->at_slot[first])
                         : next < 0 ? mp_axis_level(&x->axis, last + 1)
                                    : level_before(x, next);
    mp_axis_shift(&x->axis, first, last, by, left);
    memmove(&x->at_slot[first + by], &x->at_slot[first], (size_t)(last - first + 1) * sizeof *x->at_slot);
    x->at_slot[by < 0 ? last : first] = -1;
    for (int s = first + by; s <= last + by; s++) x->runs[x->at_slot[s]].slot = s;
    x->n_shifted += last - first + 1;
}

/* ---- changes that can be undone ---- */

static void make_room(mp_runs *x, int first, int last, int by)
{
    if (first > last) return;
    note(x, by < 0 ? MP_SHIFTED_LEFT : MP_SHIFTED_RIGHT, first, last);
    if (!x->failed) shift(x, first, last, by);
}

/* A slot for a run before another: in the gap there, nearer to that run, because what goes before the new one comes next; or
 * where one is made by shifting its neighbours to the nearest empty slot. -1: none. */
static int find_room(mp_runs *x, int before_run)
{
    const int slot = x->runs[before_run].slot, end = x->axis.n_slots - 1;
    int from = slot - 1, to = slot + 1;
    while (from >= 0 && x->at_slot[from] < 0) from--;
    if (slot - from > 1) return slot - (slot - from + 2) / 4;
    while (from >= 0 && x->at_slot[from] >= 0 && (to >= end || x->at_slot[to] >= 0)) {
        from--;
        if (to < end) to++;
    }
    if (from >= 0 && x->at_slot[from] < 0) {
        make_room(x, from + 1, slot - 1, -1);
        return slot - 1;
    }
    while (to < end && x->at_slot[to] >= 0) to++;
    if (to >= end) return -1;
    make_room(x, slot, to - 1, 1);
    return slot;
}

int mp_runs_reserve(mp_runs *x, int node, int form, int before_run)
{
    const int slot = x->failed ? -1 : find_room(x, before_run);
    if (slot < 0 || x->failed) return -1;
    if (!x->n_spare && !mp_grow(&x->runs, &x->runs_capacity, (size_t)x->n_runs + 1, sizeof *x->runs)) {
        x->failed = true;
        return -1;
    }
    const int run = x->n_spare ? x->spare[--x->n_spare] : x->n_runs++;
    x->runs[run] = (mp_run){.node = node, .form = form, .slot = -1};
    place(x, run, slot);
    note(x, MP_RESERVED, run, slot);
    return run;
}

void mp_runs_turn_on(mp_runs *x, int run)
{
    if (x->failed) return;
    turn_on(x, run);
    note(x, MP_TURNED_ON, run, -1);
}

static void push(mp_runs *x, int **list, int *n, size_t *capacity, int run)
{
    if (mp_grow(list, capacity, (size_t)*n + 1, sizeof **list))
        (*list)[(*n)++] = run;
    else
        x->failed = true;
}

void mp_runs_remove(mp_runs *x, int run)
{
    if (x->failed) return;
    if (x->runs[run].is_on) {
        turn_off(x, run);
        note(x, MP_TURNED_OFF, run, -1);
    }
    note(x, MP_RELEASED, run, x->runs[run].slot);
    displace(x, run);
    push(x, &x->removed, &x->n_removed, &x->removed_capacity, run);
}

void mp_runs_keep(mp_runs *x)
{
    x->n_changes = 0;
    while (x->n_removed) push(x, &x->spare, &x->n_spare, &x->spare_capacity, x->removed[--x->n_removed]);
}

void mp_runs_undo(mp_runs *x)
{
    while (x->n_changes && !x->failed) {
        const mp_change c = x->changes[--x->n_changes];
        switch (c.kind) {
        case MP_RESERVED:
            displace(x, c.run);
            push(x, &x->spare, &x->n_spare, &x->spare_capacity, c.run);
            break;
        case MP_RELEASED: /* the last one removed: what was removed later is back already */
            x->n_removed--;
            place(x, c.run, c.slot);
            break;
        case MP_TURNED_ON:
            turn_off(x, c.run);
            break;
        case MP_TURNED_OFF:
            turn_on(x, c.run);
            break;
        case MP_SHIFTED_LEFT:
            shift(x, c.first - 1, c.last - 1, 1);
            break;
        case MP_SHIFTED_RIGHT:
            shift(x, c.first + 1, c.last + 1, -1);
            break;
        }
    }
}

/* ---- questions ---- */

/* The latest copy of s made before a slot: its maker's place in the list; -1: none. */
static int latest(const mp_runs *x, int s, int slot)
{
    return mp_run_list_find(x, &x->makers[s], slot) - 1;
}

int mp_runs_next_read(const mp_runs *x, int s, int slot)
{
    const int maker = latest(x, s, slot + 1), at = mp_run_list_find(x, &x->readers[s], slot + 1);
    if (maker < 0 || at == x->readers[s].n) return -1;
    const int next = x->runs[x->readers[s].runs[at]].slot;
    const bool is_last = maker + 1 == x->makers[s].n;
    return is_last || next < x->runs[x->makers[s].runs[maker + 1]].slot ? x->readers[s].runs[at] : -1;
}

bool mp_runs_lives(const mp_runs *x, int s, int slot)
{
    const int maker = latest(x, s, slot);
    return maker >= 0 && mp_lifetime_end(x, s, maker) >= slot;
}

static int first_slot(const mp_runs *x, const mp_run_list *list, int without_run)
{
    for (int k = 0; k < list->n; k++)
        if (list->runs[k] != without_run) return x->runs[list->runs[k]].slot;
    return INT_MAX;
}

/* Whether a contribution to a sum may come in a slot: after that of the adder before and before that of the next, where the
 * order matters, and before all who read the sum. */
static bool may_add(const mp_runs *x, int node, int s, int slot, int without_run)
{
    const mp_graph *g = x->graph;
    const bool any = g->storages[s].any_sum_order;
    bool before = true; /* the adders so far stand before this node in the list */
    for (int a = g->adders_start[s]; a < g->adders_start[s + 1]; a++) {
        const int other = g->adders[a];
        if (other == node) {
            before = false;
            continue;
        }
        if (any || !x->of_node[other].n) continue;
        const int there = x->runs[x->of_node[other].runs[0]].slot;
        if (before ? there > slot : there < slot) return false;
    }
    for (int k = 0; k < x->readers[s].n; k++) {
        const mp_run *r = &x->runs[x->readers[s].runs[k]];
        bool adds = false;
        if (x->readers[s].runs[k] == without_run || r->slot > slot) continue;
        for (int a = g->adders_start[s]; a < g->adders_start[s + 1]; a++) adds |= g->adders[a] == r->node;
        if (!adds) return false;
    }
    return true;
}

static bool may_read(const mp_runs *x, int s, int slot, int without_run)
{
    const mp_graph *g = x->graph;
    if (mp_storage_is_static(&g->storages[s]))
        return g->writer[s] < 0 || first_slot(x, &x->of_node[g->writer[s]], without_run) < slot;
    if (!mp_is_sum(g, s)) return first_slot(x, &x->makers[s], without_run) < slot;
    for (int a = g->adders_start[s]; a < g->adders_start[s + 1]; a++)
        if (!x->of_node[g->adders[a]].n || x->runs[x->of_node[g->adders[a]].runs[0]].slot > slot) return false;
    return true;
}

/* The runs that make a storage; NULL: it is there from the start. */
static const mp_run_list *makers_of(const mp_runs *x, int s)
{
    if (!mp_storage_is_static(&x->graph->storages[s])) return &x->makers[s];
    return x->graph->writer[s] < 0 ? NULL : &x->of_node[x->graph->writer[s]];
}

bool mp_runs_allows(const mp_runs *x, int node, int form, int slot, int without_run)
{
    const mp_form *f = &x->graph->nodes[node].forms[form];
    for (size_t k = 0; k < f->n_reads; k++)
        if (!may_read(x, f->reads[k], slot, without_run)) return false;
    for (size_t k = 0; k < f->n_adds; k++)
        if (!may_add(x, node, f->adds[k], slot, without_run)) return false;
    for (size_t k = 0; k < f->n_writes; k++) {
        const int s = f->writes[k];
        const mp_run_list *makers = makers_of(x, s);
        if (!makers) continue;
        const int made = first_slot(x, makers, without_run), read = first_slot(x, &x->readers[s], -1);
        if ((made < slot ? made : slot) > read) return false;
    }
    return true;
}

/* Whether every read of a storage is served without what a run makes of it. */
static bool is_spare(const mp_runs *x, int s, int run)
{
    const mp_run_list *makers = makers_of(x, s);
    return !makers || !x->readers[s].n || first_slot(x, makers, run) <= first_slot(x, &x->readers[s], -1);
}

bool mp_runs_can_spare(const mp_runs *x, int run)
{
    const mp_form *f = form_of(x, run);
    if (x->of_node[x->runs[run].node].n < 2) return false;
    for (size_t k = 0; k < f->n_writes; k++)
        if (!is_spare(x, f->writes[k], run)) return false;
    return true;
}

static bool writes(const mp_form *form, int s)
{
    for (size_t k = 0; k < form->n_writes; k++)
        if (form->writes[k] == s) return true;
    return false;
}

bool mp_runs_can_change(const mp_runs *x, int run, int form)
{
    const mp_run *r = &x->runs[run];
    const mp_form *old = form_of(x, run), *new = &x->graph->nodes[r->node].forms[form];
    for (size_t k = 0; k < old->n_writes; k++)
        if (!writes(new, old->writes[k]) && !is_spare(x, old->writes[k], run)) return false;
    return mp_runs_allows(x, r->node, form, r->slot, run);
}

size_t mp_runs_steps(const mp_runs *x, mp_step *steps)
{
    size_t n = 0;
    for (int s = 0; s < x->axis.n_slots; s++) {
        const int run = x->at_slot[s];
        if (run >= 0 && run != x->end) steps[n++] = (mp_step){.node = x->runs[run].node, .form = x->runs[run].form};
    }
    return n;
}
