/* ilp_build.c - builds the integer programme of a graph: finds the places whose nodes use each storage, and adds the
 * columns. */
#include "planner/ilp/ilp.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"

typedef struct use {
    int storage, place;
} use;

typedef struct builder {
    mp_ilp_model *m;
    use *uses;
    size_t n_uses, uses_capacity;
    bool *needed; /* per place: recomputing its node in the current stage of the integer programme may be useful */
    int *waits;   /* the places of the nodes for which the current update waits */
    /* per node, for updates fused into backward: 1 + a storage that stays live until the update has run; 0: none */
    int *resident_for;
    mp_error *err;
} builder;

/* ---- uses ---- */

static mp_status add_use(builder *b, int storage, int place)
{
    if (!mp_grow(&b->uses, &b->uses_capacity, b->n_uses + 1, sizeof *b->uses)) return MP_NO_MEMORY(b->err);
    b->uses[b->n_uses++] = (use){storage, place};
    return MP_OK;
}

static int compare_places(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

/* Sorts the places and removes duplicates. Returns the number of remaining places. */
static size_t unique(int *places, size_t n)
{
    size_t kept = 0;
    if (n) qsort(places, n, sizeof *places, compare_places);
    for (size_t k = 0; k < n; k++)
        if (kept == 0 || places[kept - 1] != places[k]) places[kept++] = places[k];
    return kept;
}

static int compare_uses(const void *a, const void *b)
{
    const use *x = a, *y = b;
    if (x->storage != y->storage) return x->storage < y->storage ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Returns the place after which storage s is complete: the place of its producer, or for a sum of its last adder. */
static int complete_at(const mp_ilp_model *m, int s, const int *place_of)
{
    int last = m->produced_at[s];
    for (int a = m->graph->adders_start[s]; a < m->graph->adders_start[s + 1]; a++)
        if (place_of[m->graph->adders[a]] > last) last = place_of[m->graph->adders[a]];
    return last;
}

static bool reads_in_base(const mp_ilp_model *m, int place, int s)
{
    const mp_alternative *base = mp_ilp_base(m, place);
    return mp_list_has(base->reads, base->n_reads, s);
}

/* For an update that is fused into backward, lists the places after which it may run: the producers of its inputs, and the
 * readers of its outputs. The gradients that it reads stay live until then. So these places count as uses of all inputs of the
 * update. Inputs of other updates stay live to the end of the step. */
static mp_status add_uses_of_update(builder *b, int update, const int *place_of)
{
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const mp_alternative *base = &graph->nodes[update].alternatives[0];
    const bool keeps_inputs = mp_update_order_of(graph).keeps_inputs;
    size_t n = 0;
    for (size_t w = 0; w < base->n_writes; w++)
        for (int k = graph->readers_start[base->writes[w]]; k < graph->readers_start[base->writes[w] + 1]; k++) {
            const int place = place_of[graph->readers[k]];
            if (place >= 0 && reads_in_base(m, place, base->writes[w])) b->waits[n++] = place;
            if (n > (size_t)m->n_places) n = unique(b->waits, n);
        }
    for (size_t r = 0; r < base->n_reads; r++) {
        if (m->produced_at[base->reads[r]] >= 0) b->waits[n++] = complete_at(m, base->reads[r], place_of);
        if (n > (size_t)m->n_places) n = unique(b->waits, n);
    }
    n = unique(b->waits, n);
    for (size_t r = 0; r < base->n_reads; r++) {
        const int s = base->reads[r];
        if (m->produced_at[s] < 0) continue;
        if (keeps_inputs) MP_CHECK(add_use(b, s, m->n_places));
        for (size_t k = 0; k < n && !keeps_inputs; k++)
            if (b->waits[k] != m->produced_at[s]) MP_CHECK(add_use(b, s, b->waits[k]));
        if (!keeps_inputs && !b->resident_for[update]) b->resident_for[update] = s + 1;
    }
    return MP_OK;
}

static mp_status collect_uses(builder *b)
{
    mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    MP_OWNED int *place_of = mp_alloc(graph->n_nodes, sizeof *place_of);
    if (!place_of) return MP_NO_MEMORY(b->err);
    for (size_t s = 0; s < graph->n_storages; s++) m->produced_at[s] = -1;
    for (size_t i = 0; i < graph->n_nodes; i++) place_of[i] = -1;
    for (int p = 0; p < m->n_places; p++) {
        const mp_alternative *base = mp_ilp_base(m, p);
        place_of[m->node[p]] = p;
        for (size_t i = 0; i < base->n_writes + base->n_adds; i++) {
            const int s = i < base->n_writes ? base->writes[i] : base->adds[i - base->n_writes];
            if (mp_storage_is_static(&graph->storages[s])) continue;
            if (m->produced_at[s] < 0)
                m->produced_at[s] = p;
            else
                MP_CHECK(add_use(b, s, p)); /* a node that adds to a sum after the first adder is a user of the sum */
        }
        for (size_t i = 0; i < base->n_reads; i++)
            if (m->produced_at[base->reads[i]] >= 0) MP_CHECK(add_use(b, base->reads[i], p));
    }
    for (size_t s = 0; s < graph->n_storages; s++)
        if (m->produced_at[s] >= 0 && mp_storage_outlives_step(&graph->storages[s])) MP_CHECK(add_use(b, (int)s, m->n_places));
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].phase == MP_PHASE_UPDATE) MP_CHECK(add_uses_of_update(b, (int)i, place_of));
    if (b->n_uses) qsort(b->uses, b->n_uses, sizeof *b->uses, compare_uses);
    m->uses = mp_pool_alloc(m->pool, b->n_uses, sizeof *m->uses);
    if (!m->uses) return MP_NO_MEMORY(b->err);
    size_t n = 0;
    for (size_t s = 0, k = 0; s < graph->n_storages; s++) {
        m->uses_start[s] = (int)n;
        for (int last = -1; k < b->n_uses && b->uses[k].storage == (int)s; k++) {
            if (b->uses[k].place != last) m->uses[n++] = b->uses[k].place;
            last = b->uses[k].place;
        }
    }
    m->uses_start[graph->n_storages] = (int)n;
    return MP_OK;
}

/* ---- columns ---- */

/* True if a node that may run in stage i of the integer programme, or later, uses storage s. Nodes whose recomputation may be
 * useful count. */
static bool is_useful(const builder *b, int i, int s)
{
    const mp_ilp_model *m = b->m;
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1]; u++) {
        const int place = m->uses[u];
        if (place >= m->first[i] || (m->repeatable[place] && b->needed[place])) return true;
    }
    return false;
}

static mp_status add_decisions(builder *b, int i)
{
    mp_ilp_model *m = b->m;
    for (int p = m->first[i] - 1; p >= 0; p--) {
        const mp_alternative *base = mp_ilp_base(m, p);
        b->needed[p] = false;
        for (size_t w = 0; w < base->n_writes && m->repeatable[p] && !b->needed[p]; w++)
            b->needed[p] = m->produced_at[base->writes[w]] >= 0 && is_useful(b, i, base->writes[w]);
    }
    for (int p = 0; p < m->first[i]; p++)
        if (b->needed[p])
            MP_CHECK(
                mp_ilp_add_column(m, (mp_ilp_column){.kind = MP_ILP_RUN, .stage = i, .place = p}, mp_ilp_run(m, i, p), b->err));
    for (int s = 0; s < (int)m->graph->n_storages; s++)
        if (m->produced_at[s] >= 0 && m->produced_at[s] < m->first[i] && is_useful(b, i, s))
            MP_CHECK(mp_ilp_add_column(m, (mp_ilp_column){.kind = MP_ILP_RESIDENT, .stage = i, .storage = s},
                                       mp_ilp_resident(m, i, s), b->err));
    return MP_OK;
}

static mp_status add_used(builder *b, int i)
{
    mp_ilp_model *m = b->m;
    for (int s = 0; s < (int)m->graph->n_storages; s++) {
        if (m->produced_at[s] < 0 || m->produced_at[s] >= m->first[i] || mp_ilp_has_fixed_use(m, i, s, 0)) continue;
        for (int u = m->uses_start[s]; u < m->uses_start[s + 1] && m->uses[u] < m->first[i]; u++) {
            int column;
            if (*mp_ilp_run(m, i, m->uses[u]) < 0) continue;
            MP_CHECK(mp_ilp_add_column(m, (mp_ilp_column){.kind = MP_ILP_USED, .stage = i, .place = m->uses[u], .storage = s},
                                       &column, b->err));
            if (*mp_ilp_used(m, i, s) < 0) *mp_ilp_used(m, i, s) = column;
        }
    }
    return MP_OK;
}

/* ---- the model ---- */

static mp_status add_stages(builder *b, size_t most_columns)
{
    mp_ilp_model *m = b->m;
    for (int i = 0; i < m->n_stages; i++) {
        MP_CHECK(add_decisions(b, i));
        MP_ENSURE(m->n_columns <= most_columns, b->err, MP_NOT_APPLICABLE,
                  "%s is too large for an integer programme of %zu columns", m->graph->name, most_columns);
    }
    for (int i = 0; i < m->n_stages; i++) MP_CHECK(add_used(b, i));
    MP_ENSURE(m->n_columns <= most_columns, b->err, MP_NOT_APPLICABLE,
              "%s is too large for an integer programme of %zu columns", m->graph->name, most_columns);
    return mp_ilp_add_rows(m, b->resident_for, b->err);
}

static void clear(builder *b)
{
    mp_free(b->uses);
}

mp_status mp_ilp_model_new(const mp_graph *graph, const int *first, int n_stages, size_t most_columns, mp_ilp_model **out,
                           mp_error *err)
{
    MP_OWNED_BY(mp_ilp_model_free) mp_ilp_model *m = mp_alloc(1, sizeof *m);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_CLEARED_BY(clear) builder b = {.m = m, .err = err};
    bool backward = false;
    if (!m) return MP_FAIL(err, MP_NOMEM, "out of memory for the integer programme of %s", graph->name);
    m->graph = graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        m->n_places += graph->nodes[i].phase != MP_PHASE_UPDATE;
        backward |= graph->nodes[i].phase == MP_PHASE_BACKWARD;
    }
    MP_ENSURE(backward, err, MP_NOT_APPLICABLE, "%s has no backward phase, so there is nothing to recompute", graph->name);
    m->n_stages = first ? n_stages : m->n_places;
    /* with too many stages of the integer programme, the arrays of column numbers would need more memory than the columns */
    MP_ENSURE((size_t)m->n_stages <= 64 * most_columns / (graph->n_nodes + graph->n_storages) + 1, err, MP_NOT_APPLICABLE,
              "%s is too large for an integer programme of %zu columns", graph->name, most_columns);
    const size_t stages = (size_t)m->n_stages, places = (size_t)m->n_places, storages = graph->n_storages;
    m->pool = mp_pool_new();
    m->node = mp_pool_alloc(m->pool, places, sizeof *m->node);
    m->first = mp_pool_alloc(m->pool, stages + 1, sizeof *m->first);
    m->repeatable = mp_pool_alloc(m->pool, places + 1, sizeof *m->repeatable);
    m->produced_at = mp_pool_alloc(m->pool, storages, sizeof *m->produced_at);
    m->uses_start = mp_pool_alloc(m->pool, storages + 1, sizeof *m->uses_start);
    m->run = mp_pool_alloc(m->pool, stages * places, sizeof *m->run);
    m->resident = mp_pool_alloc(m->pool, stages * storages, sizeof *m->resident);
    m->used = mp_pool_alloc(m->pool, stages * storages, sizeof *m->used);
    b.needed = mp_pool_alloc(pool, places + 1, sizeof *b.needed);
    b.waits = mp_pool_alloc(pool, 2 * places + 2, sizeof *b.waits);
    b.resident_for = mp_pool_alloc(pool, graph->n_nodes, sizeof *b.resident_for);
    if (mp_pool_failed(m->pool) || mp_pool_failed(pool)) return MP_NO_MEMORY(b.err);
    m->static_bytes = mp_graph_static_bytes(graph);
    for (size_t i = 0, p = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        if (node->phase == MP_PHASE_UPDATE) continue;
        m->repeatable[p] = mp_node_may_rerun(node);
        m->node[p++] = (int)i;
    }
    for (int i = 0; i < m->n_stages; i++) m->first[i] = first ? first[i] : i;
    m->first[m->n_stages] = m->n_places;
    memset(m->run, -1, stages * places * sizeof *m->run);
    memset(m->resident, -1, stages * storages * sizeof *m->resident);
    memset(m->used, -1, stages * storages * sizeof *m->used);
    MP_CHECK(collect_uses(&b));
    MP_CHECK(add_stages(&b, most_columns));
    *out = m;
    m = NULL;
    return MP_OK;
}
