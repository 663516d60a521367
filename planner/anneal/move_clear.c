/* move_clear.c - a storage out of a slot by order alone: made later, or read out earlier. */
#include "planner/anneal/mover.h"
#include "planner/math/tuning.h"

static const mp_form *form_of(const mp_runs *x, int run)
{
    return &x->graph->nodes[x->runs[run].node].forms[x->runs[run].form];
}

/* Adds a run to the n of the list unless it is there. False: there is no room. */
static bool add(mp_mover *m, int *n, int run)
{
    if (mp_run_is_among(m->extra, *n, run)) return true;
    if (*n == MP_MOVE_SHIFT_TOGETHER) return false;
    m->extra[(*n)++] = run;
    return true;
}

static void sort_by_slot(const mp_runs *x, int *list, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x->runs[list[k]].slot < x->runs[list[k - 1]].slot; k--) {
            const int run = list[k];
            list[k] = list[k - 1];
            list[k - 1] = run;
        }
}

/* Puts before a slot all that reads after it from the copy of s that lives there, and what they read that is made first only
 * after it, and so on. */
static bool advance(mp_mover *m, int s, int slot)
{
    mp_runs *x = m->runs;
    const int target = x->at_slot[slot];
    int n = 0;
    for (int r = mp_runs_next_read(x, s, slot); r >= 0; r = mp_runs_next_read(x, s, x->runs[r].slot))
        if (!add(m, &n, r)) return false;
    for (int i = 0; i < n; i++) { /* the list grows as we go */
        const mp_form *form = form_of(x, m->extra[i]);
        for (size_t k = 0; k < form->n_reads; k++) {
            const int maker = mp_run_latest_maker(x, form->reads[k], x->runs[m->extra[i]].slot);
            if (maker < 0 || mp_run_latest_maker(x, form->reads[k], slot) >= 0) continue;
            if (maker == target || !add(m, &n, maker)) return false;
        }
    }
    sort_by_slot(x, m->extra, n);
    for (int k = 0; k < n; k++)
        if (mp_mover_relocate(m, m->extra[k], target) < 0) return false;
    return n > 0;
}

/* Puts a run after a slot, and what reads up to there what it is the first to make, and so on. */
static bool delay(mp_mover *m, int run, int slot)
{
    mp_runs *x = m->runs;
    int n = 0, target = mp_run_neighbour(x, slot, 1);
    add(m, &n, run);
    for (int i = 0; i < n; i++) {
        const mp_form *form = form_of(x, m->extra[i]);
        const int from = x->runs[m->extra[i]].slot;
        for (size_t k = 0; k < form->n_writes; k++) {
            if (mp_run_latest_maker(x, form->writes[k], from) >= 0) continue;
            int reader = mp_runs_next_read(x, form->writes[k], from);
            for (; reader >= 0 && x->runs[reader].slot <= slot;
                 reader = mp_runs_next_read(x, form->writes[k], x->runs[reader].slot))
                if (!add(m, &n, reader)) return false;
        }
    }
    sort_by_slot(x, m->extra, n);
    for (int k = n - 1; k >= 0 && target >= 0; k--) target = mp_mover_relocate(m, m->extra[k], target);
    return target >= 0;
}

bool mp_move_clear(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int slot = mp_mover_any_slot(m);
    int reader;
    const int s = slot < 0 ? -1 : mp_mover_any_living(m, slot, &reader);
    const int maker = s < 0 ? -1 : mp_run_latest_maker(x, s, slot + 1);
    if (maker < 0) return false;
    const int first = mp_runs_next_read(x, s, x->runs[maker].slot), n_slots = x->runs[first].slot - slot;
    if (n_slots <= 0) return mp_mover_below(m, 2) ? advance(m, s, slot) : delay(m, maker, slot);
    const int before = mp_mover_below(m, 2) ? first : mp_run_neighbour(x, slot + mp_mover_below(m, n_slots), 1);
    return mp_mover_relocate(m, maker, before) >= 0;
}
