/* ways.c - finds, for each storage, the optional node that copies it to another tier, and the alternative that copies it
 * back. */
#include "planner/order/ways.h"

#include "estimator/base/list.h"

/* Returns the optional node that produces the copy which an alternative reads in order to copy it back; -1: the alternative is
 * no copy back. */
static int copy_read_by(const mp_graph *g, const mp_alternative *alternative)
{
    for (size_t k = 0; k < alternative->n_reads; k++) {
        const int producer = g->producer[alternative->reads[k]];
        if (producer >= 0 && (g->nodes[producer].flags & MP_NODE_OPTIONAL)) return producer;
    }
    return -1;
}

mp_status mp_ways_find(const mp_graph *g, mp_ways *out, mp_error *err)
{
    size_t n = 0;
    for (size_t v = 0; v < g->n_nodes; v++)
        for (size_t f = 0; f < g->nodes[v].n_alternatives; f++)
            n += g->nodes[v].alternatives[f].returns ? g->nodes[v].alternatives[f].n_writes : 0;
    *out = (mp_ways){.pool = mp_pool_new()};
    out->ways = mp_pool_alloc(out->pool, n + 1, sizeof *out->ways);
    out->start = mp_pool_alloc(out->pool, g->n_storages + 1, sizeof *out->start);
    if (mp_pool_failed(out->pool)) {
        mp_ways_free(out);
        return MP_FAIL(err, MP_NOMEM, "out of memory for %zu copies", n);
    }
    for (int s = 0; s < (int)g->n_storages; s++) {
        const int v = g->producer[s];
        for (size_t f = 0; v >= 0 && f < g->nodes[v].n_alternatives; f++) {
            const mp_alternative *a = &g->nodes[v].alternatives[f];
            const int copies = a->returns ? copy_read_by(g, a) : -1;
            if (copies < 0 || !mp_list_has(a->writes, a->n_writes, s)) continue;
            out->ways[out->n++] = (mp_way){.storage = s, .out = copies, .node = v, .alternative = (int)f};
        }
        out->start[s + 1] = out->n;
    }
    return MP_OK;
}

void mp_ways_free(mp_ways *ways)
{
    mp_pool_free(ways->pool);
    *ways = (mp_ways){0};
}
