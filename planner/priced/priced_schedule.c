/* priced_schedule.c - from labels to an order of steps. */
#include "planner/math/heap.h"
#include "planner/math/tuning.h"
#include "planner/order/updates.h"
#include "planner/priced/cut_labels.h"

typedef struct walk {
    const mp_priced *x;
    bool *missing;  /* per storage: let go and not yet made again */
    bool *is_asked; /* per stage: among those to run again now */
    int *asked;
    int n_asked;
    mp_heap in_order;
    mp_step *steps;
    size_t n, most;
    int *stage;   /* per node */
    double *cost; /* per stage: scaled ticks of making its outputs once more, with what they lack */
} walk;

static const mp_form *form_of(const mp_priced *x, int stage)
{
    return &x->graph->nodes[x->node[stage]].forms[0];
}

static void ask_for_reads(walk *w, int stage)
{
    const mp_form *form = form_of(w->x, stage);
    for (size_t i = 0; i < form->n_reads; i++) {
        const int s = form->reads[i], maker = w->x->maker[s];
        if (!w->missing[s] || w->is_asked[maker]) continue;
        w->is_asked[maker] = true;
        w->asked[w->n_asked++] = maker;
    }
}

/* The first stage after this one that reads s; n: none. */
static int next_read(const walk *w, int s, int stage)
{
    const mp_graph *graph = w->x->graph;
    int low = graph->readers_start[s], high = graph->readers_start[s + 1];
    const int end = high;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (graph->readers[middle] <= w->x->node[stage])
            low = middle + 1;
        else
            high = middle;
    }
    return low < end ? w->stage[graph->readers[low]] : w->x->n;
}

/* Lets a storage go that is there after a stage and costs more until it is read again than making it once more does. */
static void consider(walk *w, int s, int stage)
{
    const mp_priced *x = w->x;
    const int maker = x->maker[s];
    if (maker < 0 || !x->again[maker] || w->missing[s]) return;
    const int next = next_read(w, s, stage);
    if (next >= x->n || next <= stage + 1) return;
    const double sum = x->price_before[next] - x->price_before[stage + 1];
    w->missing[s] = sum * x->scale * (double)x->graph->storages[s].bytes > w->cost[maker] && w->n < w->most;
}

/* What making the outputs of a stage once more takes, when what is let go stays away. */
static void find_cost(walk *w, int stage)
{
    const mp_form *form = form_of(w->x, stage);
    w->cost[stage] = (double)w->x->scaled_ticks[stage];
    for (size_t i = 0; i < form->n_reads; i++)
        if (w->missing[form->reads[i]]) w->cost[stage] += w->cost[w->x->maker[form->reads[i]]];
}

/* Runs again, in list order, what a stage lacks and what that lacks in turn. */
static void make_again(walk *w, int stage)
{
    w->n_asked = 0;
    ask_for_reads(w, stage);
    for (int i = 0; i < w->n_asked; i++) ask_for_reads(w, w->asked[i]); /* the list grows as we go */
    for (int i = 0; i < w->n_asked; i++) mp_heap_push(&w->in_order, w->asked[i], w->asked[i]);
    for (int i = 0; w->in_order.n; i++) { /* and becomes their list in order */
        const int k = w->asked[i] = mp_heap_pop(&w->in_order);
        const mp_form *form = form_of(w->x, k);
        w->is_asked[k] = false;
        w->steps[w->n++] = (mp_step){.node = w->x->node[k]};
        for (size_t i_write = 0; i_write < form->n_writes; i_write++) w->missing[form->writes[i_write]] = false;
    }
}

/* Of what a stage has read, and of what ran again for it. */
static void let_go(walk *w, int stage)
{
    const mp_form *form = form_of(w->x, stage);
    for (int i = 0; i < w->n_asked; i++) {
        const mp_form *made = form_of(w->x, w->asked[i]);
        find_cost(w, w->asked[i]);
        for (size_t j = 0; j < made->n_writes; j++) consider(w, made->writes[j], stage);
    }
    for (size_t i = 0; i < form->n_reads; i++) consider(w, form->reads[i], stage);
}

mp_status mp_priced_schedule(const mp_priced *x, mp_step **steps, size_t *n, mp_error *err)
{
    mp_status st = MP_OK;
    const size_t n_stages = (size_t)x->n, n_nodes = x->graph->n_nodes;
    walk w = {.x = x,
              .missing = mp_alloc(x->graph->n_storages, sizeof *w.missing),
              .is_asked = mp_alloc(n_stages, sizeof *w.is_asked),
              .asked = mp_alloc(n_stages, sizeof *w.asked),
              .in_order = {mp_alloc(n_stages, sizeof *w.in_order.items), 0},
              .steps = mp_alloc((MP_PRICED_STEPS_PER_STAGE + 3) * n_stages, sizeof *w.steps),
              .most = MP_PRICED_STEPS_PER_STAGE * n_stages,
              .stage = mp_alloc(n_nodes, sizeof *w.stage),
              .cost = mp_alloc(n_stages, sizeof *w.cost)};
    MP_REQUIRE(w.missing && w.is_asked && w.asked && w.in_order.items && w.steps && w.stage && w.cost, err, MP_NOMEM,
               "out of memory for a schedule of %zu nodes", n_stages);
    for (size_t s = 0; s < x->graph->n_storages; s++) w.missing[s] = x->maker[s] >= 0 && x->again[x->maker[s]];
    for (int k = 0; k < x->n; k++) w.stage[x->node[k]] = k;
    for (int k = 0; k < x->n; k++) {
        if (k >= x->turn) make_again(&w, k);
        w.steps[w.n++] = (mp_step){.node = x->node[k]};
        if (x->lets_go && k >= x->turn) let_go(&w, k);
    }
    MP_TRY(mp_updates_place(x->graph, w.steps, w.n, steps, n, err));
done:
    mp_free(w.missing);
    mp_free(w.is_asked);
    mp_free(w.asked);
    mp_free(w.in_order.items);
    mp_free(w.steps);
    mp_free(w.stage);
    mp_free(w.cost);
    return st;
}
