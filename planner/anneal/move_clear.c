/* move_clear.c - later production or earlier reads, with all runs that have to move along. */
#include "planner/anneal/move_clear.h"

#include "planner/anneal/runs/runs_query.h"

/* Adds a run to the n of the list unless it is listed. False: the list is full. */
static bool add(mp_mover *m, int *n, int run)
{
    if (mp_list_has(m->list, (size_t)*n, run)) return true;
    if (*n == MP_MOVE_SHIFT_TOGETHER) return false;
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

/* Puts before a position all runs after it that read the instance of s live there, the first producers after it of what they
 * read, and so on. */
static bool advance(mp_mover *m, int s, int position)
{
    mp_runs *x = m->runs;
    const int target = x->run_at[position];
    int n = 0;
    for (int r = mp_runs_next_read(x, s, position); r >= 0; r = mp_runs_next_read(x, s, x->runs[r].position))
        if (!add(m, &n, r)) return false;
    for (int i = 0; i < n; i++) { /* the list grows as we go */
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

/* Puts a run after a position, the readers up to there of what it is the first to produce, and so on. */
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
