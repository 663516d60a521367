/* precedence_always.c - finds the storages that a node reads, writes or adds to in each of its alternatives. It counts the
 * alternatives that use a storage in a single pass over all lists. A search through the lists for each storage would take too
 * long, because a graph may have a million storages. */
#include "planner/order/precedence.h"

#include "estimator/base/list.h"
#include "estimator/graph/liveness.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    SOURCE_READS = 64, /* the bound compares both alternatives of nodes that read up to 64 storages */
};

/* Returns the index of `node` in the ascending range list[start[s] .. start[s + 1]); -1: the range does not contain the
 * node. */
static int entry_of(const int *start, const int *list, int s, int node)
{
    int low = start[s], high = start[s + 1];
    while (low < high) {
        const int k = low + (high - low) / 2;
        if (list[k] < node)
            low = k + 1;
        else
            high = k;
    }
    return low < start[s + 1] && list[low] == node ? low : -1;
}

bool mp_always_writes(const mp_precedence *o, int node, int s)
{
    const mp_node *x = &o->graph->nodes[node];
    if (!mp_storage_is_static(&o->graph->storages[s])) return o->graph->producer[s] == node && o->written_always[s];
    for (size_t k = 0; k < x->n_alternatives; k++)
        if (!mp_list_has(x->alternatives[k].writes, x->alternatives[k].n_writes, s)) return false;
    return true;
}

bool mp_adds_in_turn(const mp_precedence *o, int s)
{
    return o->in_turn[s];
}

bool mp_always_reads_any(const mp_precedence *o, int node, int s)
{
    const int k = entry_of(o->graph->readers_start, o->graph->readers, s, node);
    return k >= 0 && o->reads_always[k];
}

bool mp_always_reads(const mp_precedence *o, int node, int s)
{
    return !mp_storage_is_static(&o->graph->storages[s]) && mp_always_reads_any(o, node, s);
}

enum list { READS, WRITES, ADDS, N_LISTS };

static size_t list_of(const mp_alternative *x, enum list which, const int **list)
{
    *list = which == READS ? x->reads : which == WRITES ? x->writes : x->adds;
    return which == READS ? x->n_reads : which == WRITES ? x->n_writes : x->n_adds;
}

/* Visits one kind of list (reads, writes or adds) of all alternatives of a node. named[s] becomes k if exactly the first k
 * alternatives, without a gap, contain s. */
static void count(const mp_node *node, enum list which, size_t *named)
{
    const int *list;
    for (size_t k = 0; k < node->n_alternatives; k++) {
        const size_t n = list_of(&node->alternatives[k], which, &list);
        for (size_t i = 0; i < n; i++)
            if (!k || named[list[i]] == k) named[list[i]] = k + 1;
    }
}

static void find_lists(mp_precedence *o, size_t *named)
{
    const mp_graph *graph = o->graph;
    const int *list;
    int n_reads = 0;
    for (int i = 0; i < (int)graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        o->reads_start[i] = n_reads;
        for (enum list which = READS; which < N_LISTS; which++) {
            const size_t n = list_of(&node->alternatives[0], which, &list);
            count(node, which, named);
            for (size_t k = 0; k < n; k++) {
                const int s = list[k];
                const bool is_static = mp_storage_is_static(&graph->storages[s]);
                if (named[s] < node->n_alternatives) continue;
                if (which == READS) o->reads_always[entry_of(graph->readers_start, graph->readers, s, i)] = true;
                if (which == READS && !is_static) o->reads[n_reads++] = s;
                if (which == WRITES && !is_static) o->written_always[s] = true;
                if (which == ADDS) o->adds_always[entry_of(graph->adders_start, graph->adders, s, i)] = true;
            }
        }
    }
    o->reads_start[graph->n_nodes] = n_reads;
    for (size_t s = 0; s < graph->n_storages; s++) {
        o->in_turn[s] = !graph->storages[s].any_sum_order;
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++) o->in_turn[s] &= o->adds_always[a];
    }
}

/* Lists, for each storage, the makers and users that it has in every plan. A producer that runs once counts as a maker even if
 * only some of its alternatives write the storage. This is valid for a storage that is live only because of later reads,
 * because each read follows a production. */
static void find_lives(mp_precedence *o)
{
    const mp_graph *graph = o->graph;
    int n = 0;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int p = graph->producer[s];
        o->lives_start[s] = n;
        if (o->recomputable[s] || mp_storage_is_static(&graph->storages[s])) continue;
        if (p >= 0 && !o->repeatable[p] && (o->written_always[s] || !mp_storage_outlives_step(&graph->storages[s])))
            o->lives[n++] = p;
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
            if (o->adds_always[a]) o->lives[n++] = graph->adders[a];
        o->n_makers[s] = n - o->lives_start[s];
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
            if (o->reads_always[r]) o->lives[n++] = graph->readers[r];
    }
    o->lives_start[graph->n_storages] = n;
}

mp_certain_life mp_certain_life_of(const mp_precedence *o, int s)
{
    const int *first = &o->lives[o->lives_start[s]];
    const int n = o->lives_start[s + 1] - o->lives_start[s], n_makers = o->n_makers[s];
    const int n_only_make = o->graph->producer[s] < 0 ? 0 : n_makers;
    return (mp_certain_life){.makers = first,
                             .n_makers = n_makers,
                             .users = first + n_only_make,
                             .n_users = n - n_only_make,
                             .stays = mp_storage_outlives_step(&o->graph->storages[s])};
}

/* For a node that reads one of two storages, depending on the alternative, finds the two storages. The second must be produced
 * from the first. Example: the backward node of a normalization reads the normalization's input or its output. */
static void find_source_and_derived(mp_precedence *o, int node)
{
    const mp_graph *graph = o->graph;
    const mp_node *x = &graph->nodes[node];
    o->source[node] = o->derived[node] = -1;
    if (x->n_alternatives != 2 || x->alternatives[0].n_reads > SOURCE_READS || x->alternatives[1].n_reads > SOURCE_READS)
        return;
    for (size_t k = 0; k < 2 * x->alternatives[0].n_reads; k++) {
        const mp_alternative *other = &x->alternatives[1];
        const int s = x->alternatives[0].reads[k / 2];
        if (!o->recomputable[s] || mp_always_reads(o, node, s)) continue;
        for (size_t j = 0; j < other->n_reads; j++) {
            const int t = other->reads[j], from = k % 2 ? t : s, to = k % 2 ? s : t;
            if (!o->recomputable[t] || mp_always_reads(o, node, t) || !mp_always_reads(o, graph->producer[to], from)) continue;
            o->source[node] = from;
            o->derived[node] = to;
            return;
        }
    }
}

mp_status mp_precedence_find_always(mp_precedence *o, mp_error *err)
{
    const mp_graph *graph = o->graph;
    const size_t n = graph->n_nodes + 1, n_storages = graph->n_storages;
    size_t n_reads = 0;
    MP_OWNED size_t *named = mp_alloc(n_storages, sizeof *named);
    for (size_t i = 0; i < graph->n_nodes; i++) n_reads += graph->nodes[i].alternatives[0].n_reads;
    o->reads_start = mp_pool_alloc(o->pool, n, sizeof *o->reads_start);
    o->reads = mp_pool_alloc(o->pool, n_reads, sizeof *o->reads);
    o->reads_always = mp_pool_alloc(o->pool, (size_t)graph->readers_start[n_storages], sizeof *o->reads_always);
    o->adds_always = mp_pool_alloc(o->pool, (size_t)graph->adders_start[n_storages], sizeof *o->adds_always);
    o->written_always = mp_pool_alloc(o->pool, n_storages, sizeof *o->written_always);
    o->in_turn = mp_pool_alloc(o->pool, n_storages, sizeof *o->in_turn);
    o->n_makers = mp_pool_alloc(o->pool, n_storages, sizeof *o->n_makers);
    o->lives_start = mp_pool_alloc(o->pool, n_storages + 1, sizeof *o->lives_start);
    o->lives =
        mp_pool_alloc(o->pool, n_storages + (size_t)graph->adders_start[n_storages] + (size_t)graph->readers_start[n_storages],
                      sizeof *o->lives);
    o->source = mp_pool_alloc(o->pool, n, sizeof *o->source);
    o->derived = mp_pool_alloc(o->pool, n, sizeof *o->derived);
    o->ticks = mp_pool_alloc(o->pool, n, sizeof *o->ticks);
    o->repeatable = mp_pool_alloc(o->pool, n, sizeof *o->repeatable);
    o->recomputable = mp_pool_alloc(o->pool, n_storages, sizeof *o->recomputable);
    MP_ENSURE(named && !mp_pool_failed(o->pool), err, MP_NOMEM, "no memory for the order of %zu nodes", n);
    find_lists(o, named);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        o->repeatable[i] = mp_node_may_rerun(node);
        o->ticks[i] = node->alternatives[0].ticks;
        for (size_t k = 1; k < node->n_alternatives; k++)
            if (node->alternatives[k].ticks < o->ticks[i]) o->ticks[i] = node->alternatives[k].ticks;
    }
    for (size_t s = 0; s < n_storages; s++) o->recomputable[s] = mp_storage_is_recomputable(graph, (int)s);
    find_lives(o);
    for (int i = 0; i < (int)graph->n_nodes; i++) find_source_and_derived(o, i);
    return MP_OK;
}
