/* priced_schedule.c - from labels to an order of steps. */
#include "planner/heap.h"
#include "planner/priced.h"
#include "planner/schedule.h"

typedef struct walk {
    const mp_priced *x;
    bool *missing;  /* per storage: let go and not yet made again */
    bool *is_asked; /* per stage: among those to run again now */
    int *asked;
    int n_asked;
    mp_heap in_order;
    mp_step *steps;
    size_t n;
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

/* Runs again, in list order, what a stage lacks and what that lacks in turn. */
static void make_again(walk *w, int stage)
{
    w->n_asked = 0;
    ask_for_reads(w, stage);
    for (int i = 0; i < w->n_asked; i++) ask_for_reads(w, w->asked[i]); /* the list grows as we go */
    for (int i = 0; i < w->n_asked; i++) mp_heap_push(&w->in_order, w->asked[i], w->asked[i]);
    while (w->in_order.n) {
        const int k = mp_heap_pop(&w->in_order);
        const mp_form *form = form_of(w->x, k);
        w->is_asked[k] = false;
        w->steps[w->n++] = (mp_step){w->x->node[k], 0};
        for (size_t i = 0; i < form->n_writes; i++) w->missing[form->writes[i]] = false;
    }
}

mp_status mp_priced_schedule(const mp_priced *x, mp_step **steps, size_t *n, mp_error *err)
{
    mp_status st = MP_OK;
    const size_t n_stages = (size_t)x->n;
    walk w = {.x = x,
              .missing = mp_alloc(x->graph->n_storages, sizeof *w.missing),
              .is_asked = mp_alloc(n_stages, sizeof *w.is_asked),
              .asked = mp_alloc(n_stages, sizeof *w.asked),
              .in_order = {mp_alloc(n_stages, sizeof *w.in_order.items), 0},
              .steps = mp_alloc(2 * n_stages, sizeof *w.steps)};
    MP_REQUIRE(w.missing && w.is_asked && w.asked && w.in_order.items && w.steps, err, MP_NOMEM,
               "out of memory for a schedule of %zu nodes", n_stages);
    for (size_t s = 0; s < x->graph->n_storages; s++) w.missing[s] = x->maker[s] >= 0 && x->again[x->maker[s]];
    for (int k = 0; k < x->n; k++) {
        if (k >= x->turn) make_again(&w, k);
        w.steps[w.n++] = (mp_step){x->node[k], 0};
    }
    MP_TRY(mp_schedule_updates(x->graph, w.steps, w.n, steps, n, err));
done:
    mp_free(w.missing);
    mp_free(w.is_asked);
    mp_free(w.asked);
    mp_free(w.in_order.items);
    mp_free(w.steps);
    return st;
}
