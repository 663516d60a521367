/* runs.c - the lists of runs, each kept by ascending position. */
#include "planner/anneal/runs/runs.h"

#include <string.h>

void mp_run_list_insert(mp_runs *x, mp_run_list *list, int run)
{
    if (!mp_grow(&list->runs, &list->capacity, (size_t)list->n + 1, sizeof *list->runs)) {
        x->failed = true;
        return;
    }
    const int at = mp_run_list_find(x, list, x->runs[run].position);
    memmove(list->runs + at + 1, list->runs + at, (size_t)(list->n - at) * sizeof *list->runs);
    list->runs[at] = run;
    list->n++;
}

void mp_run_list_remove(const mp_runs *x, mp_run_list *list, int run)
{
    const int at = mp_run_list_find(x, list, x->runs[run].position);
    if (at >= list->n || list->runs[at] != run) return; /* memory ran out when it was to be inserted */
    memmove(list->runs + at, list->runs + at + 1, (size_t)(list->n - at - 1) * sizeof *list->runs);
    list->n--;
}

int mp_runs_neighbour(const mp_runs *x, int position, int step)
{
    for (position += step; position >= 0 && position < x->profile.n_positions; position += step)
        if (x->run_at[position] >= 0) return x->run_at[position];
    return -1;
}

size_t mp_runs_steps(const mp_runs *x, mp_step *steps)
{
    size_t n = 0;
    for (int p = 0; p < x->profile.n_positions; p++) {
        const int run = x->run_at[p];
        if (run >= 0 && run != x->end)
            steps[n++] = (mp_step){.node = x->runs[run].node, .alternative = x->runs[run].alternative};
    }
    return n;
}

void mp_runs_free(mp_runs *x)
{
    if (!x) return;
    for (size_t s = 0; x->producers && x->readers && s < x->graph->n_storages; s++) {
        mp_free(x->producers[s].runs);
        mp_free(x->readers[s].runs);
    }
    for (size_t k = 0; x->of_node && k < x->graph->n_nodes; k++) mp_free(x->of_node[k].runs);
    mp_profile_free(&x->profile);
    void *grown[] = {x->run_at, x->runs, x->spare, x->removed, x->changes};
    for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) mp_free(grown[i]);
    mp_pool_free(x->pool);
    mp_free(x);
}
