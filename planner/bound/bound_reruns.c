/* bound_reruns.c - ranks of storages, and for each boundary the set of nodes that a storage read later makes necessary. */
#include "planner/bound/bound_reruns.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/bound/bound_states.h"
#include "planner/math/bits.h"

mp_status mp_bound_ranks_init(mp_bound_ranks *k, const mp_bound_interval *x, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    int n = 0;
    *k = (mp_bound_ranks){0};
    k->rank = mp_alloc(graph->n_storages, sizeof *k->rank);
    k->storage = mp_alloc(graph->n_storages, sizeof *k->storage);
    k->first = mp_alloc(graph->n_nodes, sizeof *k->first);
    k->end = mp_alloc(graph->n_nodes, sizeof *k->end);
    MP_ENSURE(k->rank && k->storage && k->first && k->end, err, MP_NOMEM, "no memory for a bound of %d nodes", o->n);
    for (size_t s = 0; s < graph->n_storages; s++)
        if (x->storage_vertex[s] >= 0) k->end[graph->producer[s]]++; /* how many, for now */
    for (int i = 0; i < o->n; i++) {
        const int v = o->sequence[i];
        if (v == o->n - 1) continue;
        const int n_made = k->end[v];
        k->first[v] = k->end[v] = n;
        n += n_made;
    }
    for (int s = 0; s < (int)graph->n_storages; s++) {
        k->rank[s] = x->storage_vertex[s] >= 0 ? k->end[graph->producer[s]]++ : -1;
        if (k->rank[s] >= 0) k->storage[k->rank[s]] = s;
    }
    k->n = n;
    k->words = (int)mp_bits_words((size_t)n);
    return MP_OK;
}

void mp_bound_ranks_clear(mp_bound_ranks *k)
{
    mp_free(k->rank);
    mp_free(k->storage);
    mp_free(k->first);
    mp_free(k->end);
    memset(k, 0, sizeof *k);
}

static uint64_t *nodes_for(const mp_bound_reruns *m, int i, int rank)
{
    return m->nodes + ((size_t)i * (size_t)m->ranks->n + (size_t)rank) * (size_t)m->words;
}

/* Of boundary i, where x starts. */
static void find_nodes(mp_bound_reruns *m, const mp_bound_interval *x, int i)
{
    const mp_precedence *o = m->order;
    for (int r = 0; r < m->ranks->n; r++) {
        const int s = m->ranks->storage[r], v = o->graph->producer[s];
        uint64_t *nodes = nodes_for(m, i, r);
        if (x->bytes[s] <= x->free_bytes || !o->repeatable[v]) continue;
        if (x->ticks[v]) mp_bits_add(nodes, v);
        for (int k = o->reads_start[v]; k < o->reads_start[v + 1]; k++) {
            const int read = m->ranks->rank[o->reads[k]]; /* produced before, so known by now */
            if (read >= 0) mp_bits_unite(nodes, nodes_for(m, i, read), (size_t)m->words);
        }
    }
}

mp_status mp_bound_reruns_init(mp_bound_reruns *m, mp_bound_interval *x, const mp_bound_ranks *ranks, const int *boundaries,
                               int n, mp_error *err)
{
    const mp_precedence *o = x->order;
    *m = (mp_bound_reruns){.order = o, .ranks = ranks, .n = n, .words = (int)mp_bits_words((size_t)o->n)};
    m->nodes = mp_alloc((size_t)n * (size_t)ranks->n * (size_t)m->words, sizeof *m->nodes);
    m->needed = mp_alloc((size_t)n * (size_t)ranks->words, sizeof *m->needed);
    MP_ENSURE(m->nodes && m->needed, err, MP_NOMEM, "no memory for a bound of %d nodes", o->n);
    for (int i = 0; i < n; i++) {
        mp_bound_interval_start(x, boundaries[i]);
        find_nodes(m, x, i);
        mp_bound_interval_end(x, i + 1 < n ? boundaries[i + 1] : -1);
        for (size_t k = 0; k < x->n_required; k++) {
            const int s = x->required[k];
            if (!x->covers_two[s]) mp_bits_add(m->needed + (size_t)i * (size_t)ranks->words, ranks->rank[s]);
        }
    }
    return MP_OK;
}

void mp_bound_reruns_clear(mp_bound_reruns *m)
{
    mp_free(m->nodes);
    mp_free(m->needed);
    memset(m, 0, sizeof *m);
}

void mp_bound_reruns_add(const mp_bound_reruns *m, int i, const uint64_t *ranks, uint64_t *nodes)
{
    for (int w = 0; w < m->ranks->words; w++)
        for (uint64_t left = ranks[w]; left;)
            mp_bits_unite(nodes, nodes_for(m, i, w * 64 + mp_bits_take(&left)), (size_t)m->words);
}

int64_t mp_bound_reruns_ticks(const mp_bound_reruns *m, const uint64_t *nodes)
{
    int64_t sum = 0;
    for (int w = 0; w < m->words; w++)
        for (uint64_t left = nodes[w]; left;) sum += m->order->ticks[w * 64 + mp_bits_take(&left)];
    return sum;
}
