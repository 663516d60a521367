/* ids.c - a sorted list of ids, searched by bisection. */
#include "formats/base/ids.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const struct mp_id *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static mp_status allocate(size_t n, mp_ids *ids, mp_error *err)
{
    ids->n = n;
    ids->rows = mp_alloc(n, sizeof *ids->rows);
    return ids->rows ? MP_OK : MP_FAIL(err, MP_NOMEM, "no memory for %zu ids", n);
}

mp_status mp_ids_of_storages(const mp_graph *graph, mp_ids *out, mp_error *err)
{
    mp_ids ids = {0};
    MP_CHECK(allocate(graph->n_storages, &ids, err));
    for (size_t i = 0; i < ids.n; i++) ids.rows[i] = (struct mp_id){graph->storages[i].id, (int)i};
    qsort(ids.rows, ids.n, sizeof *ids.rows, compare);
    *out = ids;
    return MP_OK;
}

mp_status mp_ids_of_nodes(const mp_graph *graph, mp_ids *out, mp_error *err)
{
    mp_ids ids = {0};
    MP_CHECK(allocate(graph->n_nodes, &ids, err));
    for (size_t i = 0; i < ids.n; i++) ids.rows[i] = (struct mp_id){graph->nodes[i].id, (int)i};
    qsort(ids.rows, ids.n, sizeof *ids.rows, compare);
    *out = ids;
    return MP_OK;
}

void mp_ids_free(mp_ids *ids)
{
    mp_free(ids->rows);
    *ids = (mp_ids){0};
}

int mp_ids_find(const mp_ids *ids, int64_t id)
{
    size_t low = 0, high = ids->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ids->rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ids->n && ids->rows[low].id == id ? ids->rows[low].index : -1;
}
