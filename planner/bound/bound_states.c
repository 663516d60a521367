/* bound_states.c - a hash table of live-in sets with open addressing, and the removal of dominated states. Also computes, per
 * boundary, the nodes that must be recomputed if a storage is read later. */
#include "planner/bound/bound_states.h"

#include <stdlib.h>
#include <string.h>

#include "planner/math/bits.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    DEMAND_COMPARED = 1000, /* most live-in sets with which a new set is compared for dominance */
};

mp_status mp_bound_states_init(mp_bound_states *t, int most, int words, mp_error *err)
{
    *t = (mp_bound_states){.most = most, .words = words, .n_slots = 2 * (size_t)most + 1, .pool = mp_pool_new()};
    t->ticks = mp_pool_alloc(t->pool, (size_t)most, sizeof *t->ticks);
    t->used = mp_pool_alloc(t->pool, (size_t)most, sizeof *t->used);
    t->sets = mp_pool_alloc(t->pool, (size_t)most * (size_t)words, sizeof *t->sets);
    t->slots = mp_pool_alloc(t->pool, t->n_slots, sizeof *t->slots);
    t->keys = mp_pool_alloc(t->pool, 2 * (size_t)most, sizeof *t->keys);
    MP_ENSURE(!mp_pool_failed(t->pool), err, MP_NOMEM, "no memory for %d labels of a bound", most);
    mp_bound_states_empty(t);
    return MP_OK;
}

void mp_bound_states_clear(mp_bound_states *t)
{
    mp_pool_free(t->pool);
    memset(t, 0, sizeof *t);
}

void mp_bound_states_empty(mp_bound_states *t)
{
    t->n = 0;
    for (size_t k = 0; k < t->n_slots; k++) t->slots[k] = -1;
}

uint64_t *mp_bound_states_set(const mp_bound_states *t, int label)
{
    return t->sets + (size_t)label * (size_t)t->words;
}

bool mp_bound_states_put(mp_bound_states *t, const uint64_t *set, int64_t ticks, int64_t used)
{
    const size_t size = (size_t)t->words * sizeof *set;
    size_t at = mp_bits_hash(set, (size_t)t->words) % t->n_slots;
    for (; t->slots[at] >= 0; at = (at + 1) % t->n_slots) {
        const int i = t->slots[at];
        if (memcmp(mp_bound_states_set(t, i), set, size)) continue;
        if (ticks < t->ticks[i]) {
            t->ticks[i] = ticks;
            t->used[i] = used;
        }
        return true;
    }
    if (t->n == t->most) return false;
    t->slots[at] = t->n;
    t->ticks[t->n] = ticks;
    t->used[t->n] = used;
    memcpy(mp_bound_states_set(t, t->n++), set, size);
    return true;
}

/* Sorts pairs (ticks, state). */
static int by_ticks(const void *a, const void *b)
{
    const int64_t *p = a, *q = b;
    const int k = p[0] == q[0];
    return p[k] < q[k] ? -1 : p[k] > q[k];
}

static bool is_part(const uint64_t *set, const uint64_t *other, int words)
{
    for (int w = 0; w < words; w++)
        if (set[w] & ~other[w]) return false;
    return true;
}

/* Writes to t->keys the indices of the states that no other state dominates. Returns how many there are. */
static int choose(mp_bound_states *t)
{
    int n = 0, n_left = 0;
    for (int i = 0; i < t->n; i++) {
        if (t->ticks[i] == INT64_MAX) continue;
        t->keys[2 * n] = t->ticks[i];
        t->keys[2 * n++ + 1] = i;
    }
    qsort(t->keys, (size_t)n, 2 * sizeof *t->keys, by_ticks);
    for (int k = 0; k < n; k++) {
        const int i = (int)t->keys[2 * k + 1];
        bool dominated = false;
        for (int j = 0; j < n_left && j < DEMAND_COMPARED && !dominated; j++)
            dominated = is_part(mp_bound_states_set(t, (int)t->keys[j]), mp_bound_states_set(t, i), t->words);
        if (!dominated)
            t->keys[n_left++] = i; /* the remaining states overwrite the array of keys; as n_left <= k, only keys that the loop
                                      has already read are overwritten */
    }
    return n_left;
}

void mp_bound_states_drop_dominated(mp_bound_states *t)
{
    const int n = choose(t);
    /* sets used = -1 for the states that no other state dominates, then moves these states to the front of the arrays */
    for (int k = 0; k < n; k++) t->used[t->keys[k]] = -1;
    int n_left = 0;
    for (int i = 0; i < t->n; i++) {
        if (t->used[i] != -1 || t->ticks[i] == INT64_MAX) continue;
        t->ticks[n_left] = t->ticks[i];
        t->used[n_left] = 0;
        memmove(mp_bound_states_set(t, n_left), mp_bound_states_set(t, i), (size_t)t->words * sizeof *t->sets);
        n_left++;
    }
    t->n = n_left;
}

mp_status mp_bound_ranks_init(mp_bound_ranks *k, const mp_bound_interval *x, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    int n = 0;
    *k = (mp_bound_ranks){.pool = mp_pool_new()};
    k->rank = mp_pool_alloc(k->pool, graph->n_storages, sizeof *k->rank);
    k->storage = mp_pool_alloc(k->pool, graph->n_storages, sizeof *k->storage);
    k->first = mp_pool_alloc(k->pool, graph->n_nodes, sizeof *k->first);
    k->end = mp_pool_alloc(k->pool, graph->n_nodes, sizeof *k->end);
    MP_ENSURE(!mp_pool_failed(k->pool), err, MP_NOMEM, "no memory for a bound of %d nodes", o->n);
    /* first, `end` counts the outputs of each node; below, it becomes the end of the node's ranks (numbers in topological
     * order) */
    for (size_t s = 0; s < graph->n_storages; s++)
        if (x->storage_vertex[s] >= 0) k->end[graph->producer[s]]++;
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
    mp_pool_free(k->pool);
    memset(k, 0, sizeof *k);
}

static uint64_t *nodes_for(const mp_bound_reruns *m, int i, int rank)
{
    return m->nodes + ((size_t)i * (size_t)m->ranks->n + (size_t)rank) * (size_t)m->words;
}

/* Computes, for every storage, the nodes that must be recomputed after boundary i if the storage is read after it.
 * Precondition: the interval x starts at boundary i. */
static void find_nodes(mp_bound_reruns *m, const mp_bound_interval *x, int i)
{
    const mp_precedence *o = m->order;
    for (int r = 0; r < m->ranks->n; r++) {
        const int s = m->ranks->storage[r], v = o->graph->producer[s];
        uint64_t *nodes = nodes_for(m, i, r);
        if (x->bytes[s] <= x->free_bytes || !o->repeatable[v]) continue;
        if (x->ticks[v]) mp_bits_add(nodes, v);
        for (int k = o->reads_start[v]; k < o->reads_start[v + 1]; k++) {
            /* the producer of an input has a lower rank (topological number), so the set of nodes for this input is already
             * complete */
            const int read = m->ranks->rank[o->reads[k]];
            if (read >= 0) mp_bits_unite(nodes, nodes_for(m, i, read), (size_t)m->words);
        }
    }
}

mp_status mp_bound_reruns_init(mp_bound_reruns *m, mp_bound_interval *x, const mp_bound_ranks *ranks, const int *boundaries,
                               int n, mp_error *err)
{
    const mp_precedence *o = x->order;
    *m =
        (mp_bound_reruns){.order = o, .ranks = ranks, .n = n, .words = (int)mp_bits_words((size_t)o->n), .pool = mp_pool_new()};
    m->nodes = mp_pool_alloc(m->pool, (size_t)n * (size_t)ranks->n * (size_t)m->words, sizeof *m->nodes);
    m->needed = mp_pool_alloc(m->pool, (size_t)n * (size_t)ranks->words, sizeof *m->needed);
    MP_ENSURE(!mp_pool_failed(m->pool), err, MP_NOMEM, "no memory for a bound of %d nodes", o->n);
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
    mp_pool_free(m->pool);
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
