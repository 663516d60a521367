/* choices.c - builds an order of steps from one choice per storage. It first builds the order without copies. Then it computes
 * the begin and end of each copy, as if compute never waited. Last, it merges the copies into the order. */
#include "planner/offload/choices.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/graph/liveness.h"

/* A copy. Its places are indices in the order without copies. */
typedef struct mp_choice_copy {
    int place, turn; /* the copy is issued before this place; copies with the same place are issued in ascending `turn` */
    int waiting;     /* index of the step that waits for the copy to end */
    /* true: a copy back to the device, which step `waiting` waits for; false: a copy out to another tier */
    bool is_back;
    mp_step step;
} mp_choice_copy;

static const mp_alternative *base_of(const mp_choices *x, int node)
{
    return &x->graph->nodes[node].alternatives[0];
}

const mp_way *mp_choices_way(const mp_choices *x, int s)
{
    return &x->ways.ways[x->ways.start[s]];
}

bool mp_choices_may_copy(const mp_choices *x, int s)
{
    if (!mp_ways_of(&x->ways, s) || mp_storage_outlives_step(&x->graph->storages[s])) return false;
    const mp_way *way = mp_choices_way(x, s);
    const mp_alternative *out = base_of(x, way->out), *back = &x->graph->nodes[way->node].alternatives[way->alternative];
    return out->n_reads == 1 && out->reads[0] == s && out->n_writes == 1 && back->n_reads == 1 && back->n_writes == 1;
}

static bool is_copied(const mp_choices *x, int s)
{
    const mp_choice_life *l = &x->life[s];
    return x->of[s] != MP_CHOICE_KEPT && x->of[s] != MP_CHOICE_RECOMPUTED && l->late >= 0 && l->made >= 0 &&
           !x->reruns[x->graph->producer[s]];
}

/* Appends to x->demanded the nodes that must run again to provide inputs of `node` that are not live. */
static void demand_reads(mp_choices *x, int node, int *n)
{
    const mp_alternative *base = base_of(x, node);
    for (size_t k = 0; k < base->n_reads; k++) {
        const int s = base->reads[k], producer = x->graph->producer[s];
        if (!x->missing[s] || x->is_demanded[producer]) continue;
        x->is_demanded[producer] = true;
        x->demanded[(*n)++] = producer;
    }
}

static void append(mp_choices *x, int node, bool is_late)
{
    const mp_alternative *base = base_of(x, node);
    for (size_t k = 0; k < base->n_reads; k++) {
        mp_choice_life *l = &x->life[base->reads[k]];
        if (!is_late) l->early = x->n;
        if (is_late && l->late < 0) l->late = x->n;
    }
    for (size_t k = 0; k < base->n_writes; k++) {
        mp_choice_life *l = &x->life[base->writes[k]];
        if (l->made < 0) l->made = l->early = x->n;
        x->missing[base->writes[k]] = false;
    }
    x->begins[x->n + 1] = x->begins[x->n] + base->ticks;
    x->order[x->n++] = (mp_step){.node = node};
}

/* Recomputes the inputs of a node that are not live. Missing inputs of these recomputations are recomputed too. All
 * recomputations run in list order. */
static void rerun_inputs(mp_choices *x, int node)
{
    int n = 0;
    demand_reads(x, node, &n);
    /* the loop body appends nodes to the list, so n grows during the loop */
    for (int k = 0; k < n; k++) demand_reads(x, x->demanded[k], &n);
    for (int k = 0; k < n; k++) mp_heap_push(&x->in_order, x->demanded[k], x->demanded[k]);
    while (x->in_order.n) {
        const int again = mp_heap_pop(&x->in_order);
        x->is_demanded[again] = false;
        x->reruns[again] = true;
        append(x, again, true);
    }
}

static bool is_placed_elsewhere(const mp_node *node)
{
    return node->phase == MP_PHASE_UPDATE || node->flags & MP_NODE_OPTIONAL;
}

/* Appends the steps of the given schedule. */
static void order_given_steps(mp_choices *x)
{
    bool is_late = false;
    for (size_t t = 0; t < x->n_given; t++) {
        const int node = x->given[t].node;
        is_late |= x->graph->nodes[node].phase != MP_PHASE_FORWARD;
        x->reruns[node] |= x->is_demanded[node];
        x->is_demanded[node] = true;
        append(x, node, is_late);
    }
    memset(x->is_demanded, 0, x->graph->n_nodes * sizeof *x->is_demanded);
}

static void order_steps(mp_choices *x)
{
    const mp_graph *graph = x->graph;
    bool is_late = false;
    x->n = 0;
    memset(x->missing, 0, graph->n_storages * sizeof *x->missing);
    memset(x->reruns, 0, graph->n_nodes * sizeof *x->reruns);
    for (size_t s = 0; s < graph->n_storages; s++) x->life[s] = (mp_choice_life){.made = -1, .late = -1};
    if (x->n_given) {
        order_given_steps(x);
        return;
    }
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        if (is_placed_elsewhere(node)) continue;
        if (!is_late && node->phase != MP_PHASE_FORWARD) {
            is_late = true;
            for (size_t s = 0; s < graph->n_storages; s++) x->missing[s] = x->of[s] == MP_CHOICE_RECOMPUTED;
        }
        if (is_late) rerun_inputs(x, v);
        append(x, v, is_late);
    }
}

/* Sets the end of every copy out and the begin of every copy back. A copy back begins as late as possible. After its begin,
 * compute must still take long enough to hide this copy and all copies back that follow it. */
static void time_copies(mp_choices *x)
{
    int64_t free_at = 0, next = INT64_MAX;
    int end = 0;
    for (int t = 0; t < x->n; t++) {
        const mp_alternative *base = base_of(x, x->order[t].node);
        for (size_t k = 0; k < base->n_writes; k++) {
            const int s = base->writes[k];
            if (!is_copied(x, s) || x->life[s].made != t) continue;
            if (free_at < x->begins[t + 1]) free_at = x->begins[t + 1];
            free_at += base_of(x, mp_choices_way(x, s)->out)->ticks;
            while (end < x->n && x->begins[end] < free_at) end++;
            x->life[s].out_end = x->of[s] == MP_CHOICE_COPIED && end > t + 1 ? end : t + 1;
        }
    }
    for (int t = x->n - 1; t >= 0; t--) {
        const mp_alternative *base = base_of(x, x->order[t].node);
        for (size_t k = 0; k < base->n_reads; k++) {
            const int s = base->reads[k];
            mp_choice_life *l = &x->life[s];
            if (l->late != t || !is_copied(x, s)) continue;
            if (l->out_end > t) l->out_end = t;
            if (next > x->begins[t] || x->of[s] != MP_CHOICE_COPIED) next = x->begins[t];
            next -= x->graph->nodes[mp_choices_way(x, s)->node].alternatives[mp_choices_way(x, s)->alternative].ticks;
            int place = t;
            while (x->of[s] != MP_CHOICE_WAITED_FOR && place > l->out_end && x->begins[place] > next) place--;
            l->back = place > l->out_end ? place : l->out_end;
            if (l->back <= l->early) l->back = l->early + 1;
        }
    }
}

static int by_place(const void *a, const void *b)
{
    const mp_choice_copy *x = a, *y = b;
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place) : (x->turn > y->turn) - (x->turn < y->turn);
}

/* Lists the copies by place (index in the order without copies). At the same place, copies out precede copies back, and copies
 * back are in the order of their readers. */
static int list_copies(mp_choices *x)
{
    const int n_storages = (int)x->graph->n_storages;
    int n = 0;
    for (int s = 0; s < n_storages; s++) {
        const mp_choice_life *l = &x->life[s];
        if (!is_copied(x, s)) continue;
        const mp_way *way = mp_choices_way(x, s);
        const mp_step back = {.node = way->node, .alternative = way->alternative}, out = {.node = way->out};
        x->copies[n++] =
            (mp_choice_copy){.place = l->back, .turn = n_storages + l->late, .waiting = l->late, .is_back = true, .step = back};
        x->copies[n++] = (mp_choice_copy){.place = l->made + 1, .turn = s, .waiting = l->out_end, .step = out};
    }
    qsort(x->copies, (size_t)n, sizeof *x->copies, by_place);
    return n;
}

bool mp_choices_follow(mp_choices *x, const mp_step *steps, size_t n)
{
    if (n > 2 * x->graph->n_nodes) return false;
    x->n_given = 0;
    for (size_t t = 0; t < n; t++)
        if (!is_placed_elsewhere(&x->graph->nodes[steps[t].node])) x->given[x->n_given++] = (mp_step){.node = steps[t].node};
    return true;
}

const mp_step *mp_choices_order(mp_choices *x, size_t *n_steps)
{
    int n = 0;
    order_steps(x);
    time_copies(x);
    const int n_copies = list_copies(x);
    for (int t = 0, k = 0; t <= x->n; t++) {
        x->begin_of[t] = t + k;
        while (k < n_copies && x->copies[k].place == t) k++;
        x->begin_of[t + 1] = t + 1 + k;
    }
    for (int t = 0, k = 0; t <= x->n; t++) {
        for (; k < n_copies && x->copies[k].place == t; k++) {
            const mp_choice_copy *copy = &x->copies[k];
            const int until = copy->is_back ? x->begin_of[copy->waiting + 1] - 1 : x->begin_of[copy->waiting];
            x->steps[n] = copy->step;
            if (until > n + 1) mp_steps_issue(x->steps, n, n + 1, until);
            n++;
        }
        if (t < x->n) x->steps[n++] = x->order[t];
    }
    *n_steps = (size_t)n;
    return x->steps;
}

mp_status mp_choices_start(const mp_graph *graph, mp_choices *out, mp_error *err)
{
    /* upper bound on the number of steps: each node runs at most twice */
    const size_t n_nodes = graph->n_nodes, n_storages = graph->n_storages, most = 2 * n_nodes;
    MP_CLEARED_BY(mp_choices_clear) mp_choices x = {.graph = graph, .pool = mp_pool_new()};
    x.of = mp_pool_alloc(x.pool, n_storages, sizeof *x.of);
    x.given = mp_pool_alloc(x.pool, most, sizeof *x.given);
    x.order = mp_pool_alloc(x.pool, most, sizeof *x.order);
    x.begins = mp_pool_alloc(x.pool, most + 1, sizeof *x.begins);
    x.life = mp_pool_alloc(x.pool, n_storages, sizeof *x.life);
    x.missing = mp_pool_alloc(x.pool, n_storages, sizeof *x.missing);
    x.reruns = mp_pool_alloc(x.pool, n_nodes, sizeof *x.reruns);
    x.is_demanded = mp_pool_alloc(x.pool, n_nodes, sizeof *x.is_demanded);
    x.demanded = mp_pool_alloc(x.pool, n_nodes, sizeof *x.demanded);
    x.in_order.items = mp_pool_alloc(x.pool, n_nodes, sizeof *x.in_order.items);
    x.copies = mp_pool_alloc(x.pool, 2 * n_storages, sizeof *x.copies);
    x.begin_of = mp_pool_alloc(x.pool, most + 2, sizeof *x.begin_of);
    x.steps = mp_pool_alloc(x.pool, most + 2 * n_storages, sizeof *x.steps);
    MP_ENSURE(!mp_pool_failed(x.pool), err, MP_NOMEM, "out of memory for %zu storages", n_storages);
    MP_CHECK(mp_ways_find(graph, &x.ways, err));
    *out = x;
    x = (mp_choices){0};
    return MP_OK;
}

void mp_choices_clear(mp_choices *x)
{
    mp_ways_free(&x->ways);
    mp_pool_free(x->pool);
    *x = (mp_choices){0};
}
