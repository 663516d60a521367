#include "planner/anneal/runs/lifetimes.h"

#include <limits.h>
#include <string.h>

static int slot_of(const mp_runs *x, int run)
{
    return x->runs[run].slot;
}

static int64_t bytes_of(const mp_runs *x, int s)
{
    return x->graph->storages[s].bytes;
}

bool mp_is_sum(const mp_graph *graph, int s)
{
    return graph->adders_start[s + 1] > graph->adders_start[s];
}

int mp_run_list_find(const mp_runs *x, const mp_run_list *list, int slot)
{
    int low = 0, high = list->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (slot_of(x, list->runs[middle]) < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void mp_run_list_insert(mp_runs *x, mp_run_list *list, int run)
{
    if (!mp_grow(&list->runs, &list->capacity, (size_t)list->n + 1, sizeof *list->runs)) {
        x->failed = true;
        return;
    }
    const int at = mp_run_list_find(x, list, slot_of(x, run));
    memmove(list->runs + at + 1, list->runs + at, (size_t)(list->n - at) * sizeof *list->runs);
    list->runs[at] = run;
    list->n++;
}

void mp_run_list_drop(const mp_runs *x, mp_run_list *list, int run)
{
    const int at = mp_run_list_find(x, list, slot_of(x, run));
    if (at >= list->n || list->runs[at] != run) return; /* memory ran out when it was to be put in */
    memmove(list->runs + at, list->runs + at + 1, (size_t)(list->n - at - 1) * sizeof *list->runs);
    list->n--;
}

int mp_lifetime_end(const mp_runs *x, int s, int maker)
{
    const mp_run_list *makers = &x->makers[s], *readers = &x->readers[s];
    const bool is_last = maker + 1 == makers->n;
    const int next = is_last ? INT_MAX : slot_of(x, makers->runs[maker + 1]), at = mp_run_list_find(x, readers, next);
    int end = slot_of(x, makers->runs[maker]);
    if (at > 0 && slot_of(x, readers->runs[at - 1]) > end) end = slot_of(x, readers->runs[at - 1]);
    if (is_last && x->update_run[s] >= 0 && slot_of(x, x->update_run[s]) > end) end = slot_of(x, x->update_run[s]);
    return end;
}

bool mp_lifetime_of_sum(const mp_runs *x, int s, int *first, int *last)
{
    const mp_run_list *readers = &x->readers[s];
    if (!readers->n) return false;
    *first = slot_of(x, readers->runs[0]);
    *last = slot_of(x, readers->runs[readers->n - 1]);
    if (x->update_run[s] >= 0 && slot_of(x, x->update_run[s]) > *last) *last = slot_of(x, x->update_run[s]);
    return true;
}

/* ---- in-place pairs ---- */

/* Whether the copy of s that a run reads ends with it. */
static bool ends_at(const mp_runs *x, int s, int slot)
{
    int first, last;
    if (mp_storage_is_static(&x->graph->storages[s])) return false;
    if (mp_is_sum(x->graph, s)) return mp_lifetime_of_sum(x, s, &first, &last) && last == slot;
    const int maker = mp_run_list_find(x, &x->makers[s], slot) - 1;
    return maker >= 0 && mp_lifetime_end(x, s, maker) == slot;
}

/* Whether a copy of s begins in a slot. */
static bool begins_at(const mp_runs *x, int s, int slot)
{
    int first, last;
    if (mp_storage_is_static(&x->graph->storages[s])) return false;
    if (mp_is_sum(x->graph, s)) return mp_lifetime_of_sum(x, s, &first, &last) && first == slot;
    const mp_run_list *makers = &x->makers[s];
    const int at = mp_run_list_find(x, makers, slot);
    return at < makers->n && slot_of(x, makers->runs[at]) == slot;
}

void mp_lifetime_credit(mp_runs *x, int run)
{
    if (x->failed) return;
    mp_run *r = &x->runs[run];
    if (run == x->end || r->slot < 0) return;
    const mp_form *form = &x->graph->nodes[r->node].forms[r->form];
    int64_t credit = 0;
    for (size_t k = 0; r->is_on && k < form->n_in_place; k++) {
        const mp_in_place *p = &form->in_place[k];
        bool taken = false;
        if (bytes_of(x, p->from) < bytes_of(x, p->to) || !ends_at(x, p->from, r->slot) || !begins_at(x, p->to, r->slot))
            continue;
        for (size_t j = 0; j < k; j++) { /* the first pair that fits has both */
            const mp_in_place *q = &form->in_place[j];
            if (q->from != p->from && q->to != p->to) continue;
            taken |= bytes_of(x, q->from) >= bytes_of(x, q->to) && ends_at(x, q->from, r->slot) && begins_at(x, q->to, r->slot);
        }
        if (!taken) credit += bytes_of(x, p->to);
    }
    if (credit == r->credit) return;
    mp_axis_add(&x->axis, r->slot, r->slot, r->credit - credit);
    r->credit = credit;
}

static void credit_at(mp_runs *x, int slot)
{
    const int run = x->at_slot[slot];
    if (run < 0 || run == x->end) return;
    if (x->graph->nodes[x->runs[run].node].forms[x->runs[run].form].n_in_place) mp_lifetime_credit(x, run);
}

/* ---- lists ---- */

/* The end of a copy moves. */
static void move_end(mp_runs *x, int s, int from, int to)
{
    if (from < to) mp_axis_add(&x->axis, from + 1, to, bytes_of(x, s));
    if (from > to) mp_axis_add(&x->axis, to + 1, from, -bytes_of(x, s));
    if (from == to) return;
    credit_at(x, from);
    credit_at(x, to);
}

void mp_lifetime_add_maker(mp_runs *x, int s, int run)
{
    if (x->failed) return;
    mp_run_list *makers = &x->makers[s];
    const int slot = slot_of(x, run), before = mp_run_list_find(x, makers, slot) - 1;
    const int old_end = before >= 0 ? mp_lifetime_end(x, s, before) : -1;
    mp_run_list_insert(x, makers, run);
    if (x->failed) return;
    const int end = mp_lifetime_end(x, s, before + 1);
    if (old_end > slot) { /* both copies together are the old one, less what lies between */
        const int new_end = mp_lifetime_end(x, s, before);
        mp_axis_add(&x->axis, new_end + 1, slot - 1, -bytes_of(x, s));
        credit_at(x, new_end);
    } else {
        mp_axis_add(&x->axis, slot, end, bytes_of(x, s));
        credit_at(x, end);
    }
}

void mp_lifetime_drop_maker(mp_runs *x, int s, int run)
{
    if (x->failed) return;
    mp_run_list *makers = &x->makers[s];
    const int slot = slot_of(x, run), before = mp_run_list_find(x, makers, slot) - 1;
    const int end = mp_lifetime_end(x, s, before + 1), old_end = before >= 0 ? mp_lifetime_end(x, s, before) : -1;
    mp_run_list_drop(x, makers, run);
    if (before >= 0 && end > slot) {
        mp_axis_add(&x->axis, old_end + 1, slot - 1, bytes_of(x, s));
        credit_at(x, old_end);
    } else {
        mp_axis_add(&x->axis, slot, end, -bytes_of(x, s));
        credit_at(x, end);
    }
}

/* After runs were put into, or taken out of, the list of a storage that updates change: the gradients' ends move. */
static void move_updates(mp_runs *x, int s)
{
    for (int k = x->gradients_start[s]; k < x->gradients_start[s + 1]; k++) {
        const int g = x->gradients[k], old = x->update_run[g];
        const mp_run_list *readers = &x->readers[s];
        const int now = readers->n ? readers->runs[readers->n - 1] : -1;
        int first = 0, from, to;
        if (now == old) continue;
        if (mp_is_sum(x->graph, g)) {
            const bool lives = mp_lifetime_of_sum(x, g, &first, &from);
            x->update_run[g] = now;
            if (lives && mp_lifetime_of_sum(x, g, &first, &to)) move_end(x, g, from, to);
        } else {
            const int last = x->makers[g].n - 1;
            from = last >= 0 ? mp_lifetime_end(x, g, last) : -1;
            x->update_run[g] = now;
            if (last >= 0) move_end(x, g, from, mp_lifetime_end(x, g, last));
        }
    }
}

static bool skips(const mp_runs *x, int s)
{
    return mp_storage_is_static(&x->graph->storages[s]) && x->graph->writer[s] < 0 &&
           x->gradients_start[s] == x->gradients_start[s + 1];
}

static void change_sum(mp_runs *x, int s, int run, bool adds)
{
    int first = 0, last = -1, new_first = 0, new_last = -1;
    const bool lived = mp_lifetime_of_sum(x, s, &first, &last);
    if (adds)
        mp_run_list_insert(x, &x->readers[s], run);
    else
        mp_run_list_drop(x, &x->readers[s], run);
    const bool lives = mp_lifetime_of_sum(x, s, &new_first, &new_last);
    if (lived && lives) {
        if (new_first < first) mp_axis_add(&x->axis, new_first, first - 1, bytes_of(x, s));
        if (new_first > first) mp_axis_add(&x->axis, first, new_first - 1, -bytes_of(x, s));
        if (new_last > last) mp_axis_add(&x->axis, last + 1, new_last, bytes_of(x, s));
        if (new_last < last) mp_axis_add(&x->axis, new_last + 1, last, -bytes_of(x, s));
    } else {
        if (lived) mp_axis_add(&x->axis, first, last, -bytes_of(x, s));
        if (lives) mp_axis_add(&x->axis, new_first, new_last, bytes_of(x, s));
    }
    if (lived) credit_at(x, first);
    if (lived) credit_at(x, last);
    if (lives) credit_at(x, new_first);
    if (lives) credit_at(x, new_last);
}

static void change_reader(mp_runs *x, int s, int run, bool adds)
{
    if (x->failed) return;
    mp_run_list *readers = &x->readers[s];
    if (skips(x, s)) return;
    if (mp_is_sum(x->graph, s)) {
        change_sum(x, s, run, adds);
        return;
    }
    const bool is_static = mp_storage_is_static(&x->graph->storages[s]);
    const int maker = is_static ? -1 : mp_run_list_find(x, &x->makers[s], slot_of(x, run)) - 1;
    const int from = maker >= 0 ? mp_lifetime_end(x, s, maker) : -1;
    if (adds)
        mp_run_list_insert(x, readers, run);
    else
        mp_run_list_drop(x, readers, run);
    if (maker >= 0) move_end(x, s, from, mp_lifetime_end(x, s, maker));
    if (is_static) move_updates(x, s);
}

void mp_lifetime_add_reader(mp_runs *x, int s, int run)
{
    change_reader(x, s, run, true);
}

void mp_lifetime_drop_reader(mp_runs *x, int s, int run)
{
    change_reader(x, s, run, false);
}

/* ---- at one slot ---- */

int64_t mp_lifetimes_begun(const mp_runs *x, int run)
{
    const mp_run *r = &x->runs[run];
    int64_t bytes = 0;
    if (run == x->end || !r->is_on) return 0;
    const mp_form *form = &x->graph->nodes[r->node].forms[r->form];
    for (size_t k = 0; k < form->n_writes; k++)
        if (!mp_storage_is_static(&x->graph->storages[form->writes[k]])) bytes += bytes_of(x, form->writes[k]);
    for (size_t k = 0; k < form->n_adds; k++)
        if (begins_at(x, form->adds[k], r->slot)) bytes += bytes_of(x, form->adds[k]);
    return bytes;
}
