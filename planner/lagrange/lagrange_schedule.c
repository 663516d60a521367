/* lagrange_schedule.c - builds the steps that follow from the decisions, in one pass over the stages in list order. Before each
 * stage, it recomputes the stage's inputs that are not live. */
#include "planner/lagrange/lagrange.h"

#include "planner/math/heap.h"
#include "planner/order/updates.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    LAGRANGE_STEPS_PER_STAGE = 2, /* most steps of a schedule, per node */
};

typedef struct walk {
    const mp_cut_labels *x;
    bool *missing;     /* per storage: it was evicted and has not been recomputed */
    bool *is_demanded; /* per stage (node): it must be recomputed before the current stage runs */
    int *demanded;
    int n_demanded;
    mp_heap in_order;
    mp_step *steps;
    size_t n, most;
    int *stage;   /* per node: its stage */
    double *cost; /* per stage (node): scaled ticks to recompute it, including its inputs that are not live */
} walk;

static const mp_alternative *alternative_of(const mp_cut_labels *x, int stage)
{
    return &x->graph->nodes[x->node[stage]].alternatives[0];
}

static void demand_reads(walk *w, int stage)
{
    const mp_alternative *alternative = alternative_of(w->x, stage);
    for (size_t i = 0; i < alternative->n_reads; i++) {
        const int s = alternative->reads[i], producer = w->x->producer[s];
        if (!w->missing[s] || w->is_demanded[producer]) continue;
        w->is_demanded[producer] = true;
        w->demanded[w->n_demanded++] = producer;
    }
}

/* Returns the first stage (node in list order) after `stage` that reads s; n: there is none. */
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

/* Evicts storage s after `stage` (a node) if keeping s until its next read costs more than recomputing it. */
static void evict_if_cheaper(walk *w, int s, int stage)
{
    const mp_cut_labels *x = w->x;
    const int producer = x->producer[s];
    if (producer < 0 || !x->recomputed[producer] || w->missing[s]) return;
    const int next = next_read(w, s, stage);
    if (next >= x->n || next <= stage + 1) return;
    const double sum = x->multiplier_before[next] - x->multiplier_before[stage + 1];
    w->missing[s] = sum * x->scale * (double)x->graph->storages[s].bytes > w->cost[producer] && w->n < w->most;
}

/* Computes the cost of recomputing a stage (node), including the recomputation of its evicted inputs. */
static void find_cost(walk *w, int stage)
{
    const mp_alternative *alternative = alternative_of(w->x, stage);
    w->cost[stage] = (double)w->x->scaled_ticks[stage];
    for (size_t i = 0; i < alternative->n_reads; i++)
        if (w->missing[alternative->reads[i]]) w->cost[stage] += w->cost[w->x->producer[alternative->reads[i]]];
}

/* Recomputes the inputs of a stage (node) that are not live, and recursively their inputs, in list order. */
static void recompute(walk *w, int stage)
{
    w->n_demanded = 0;
    demand_reads(w, stage);
    /* the loop body appends stages to the list, so n_demanded grows during the loop */
    for (int i = 0; i < w->n_demanded; i++) demand_reads(w, w->demanded[i]);
    for (int i = 0; i < w->n_demanded; i++) mp_heap_push(&w->in_order, w->demanded[i], w->demanded[i]);
    for (int i = 0; w->in_order.n; i++) { /* the nodes in list order */
        const int k = w->demanded[i] = mp_heap_pop(&w->in_order);
        const mp_alternative *alternative = alternative_of(w->x, k);
        w->is_demanded[k] = false;
        w->steps[w->n++] = (mp_step){.node = w->x->node[k]};
        for (size_t i_write = 0; i_write < alternative->n_writes; i_write++) w->missing[alternative->writes[i_write]] = false;
    }
}

/* Considers the inputs of a stage and the storages that were recomputed for it. Evicts each of them again if another
 * recomputation is cheaper than keeping it. */
static void evict_again(walk *w, int stage)
{
    const mp_alternative *alternative = alternative_of(w->x, stage);
    for (int i = 0; i < w->n_demanded; i++) {
        const mp_alternative *done = alternative_of(w->x, w->demanded[i]);
        find_cost(w, w->demanded[i]);
        for (size_t j = 0; j < done->n_writes; j++) evict_if_cheaper(w, done->writes[j], stage);
    }
    for (size_t i = 0; i < alternative->n_reads; i++) evict_if_cheaper(w, alternative->reads[i], stage);
}

mp_status mp_lagrange_schedule(const mp_cut_labels *x, mp_step **steps, size_t *n, mp_error *err)
{
    const size_t n_stages = (size_t)x->n, n_nodes = x->graph->n_nodes;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    walk w = {.x = x,
              .missing = mp_pool_alloc(pool, x->graph->n_storages, sizeof *w.missing),
              .is_demanded = mp_pool_alloc(pool, n_stages, sizeof *w.is_demanded),
              .demanded = mp_pool_alloc(pool, n_stages, sizeof *w.demanded),
              .in_order = {mp_pool_alloc(pool, n_stages, sizeof *w.in_order.items), 0},
              .steps = mp_pool_alloc(pool, (LAGRANGE_STEPS_PER_STAGE + 3) * n_stages, sizeof *w.steps),
              .most = LAGRANGE_STEPS_PER_STAGE * n_stages,
              .stage = mp_pool_alloc(pool, n_nodes, sizeof *w.stage),
              .cost = mp_pool_alloc(pool, n_stages, sizeof *w.cost)};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for a schedule of %zu nodes", n_stages);
    for (size_t s = 0; s < x->graph->n_storages; s++) w.missing[s] = x->producer[s] >= 0 && x->recomputed[x->producer[s]];
    for (int k = 0; k < x->n; k++) w.stage[x->node[k]] = k;
    for (int k = 0; k < x->n; k++) {
        if (k >= x->forward_end) recompute(&w, k);
        w.steps[w.n++] = (mp_step){.node = x->node[k]};
        if (x->evicts_again && k >= x->forward_end) evict_again(&w, k);
    }
    return mp_updates_place(x->graph, w.steps, w.n, steps, n, err);
}
