/* exact_graph.c - converts a training graph for the searcher `exact`: each node and each storage becomes one bit of a 64-bit
 * set. */
#include "planner/exact/exact.h"

#include "estimator/base/list.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "planner/order/precedence.h"

typedef struct reader {
    mp_exact_graph *x;
    const mp_graph *graph;
    int *bit;              /* per storage: the index of its bit in a set; -1: static */
    mp_exact_set *updates; /* per storage: the updates that write it, if it is a parameter */
    mp_exact_set loss_and_backward;
    mp_error *err;
} reader;

int64_t mp_exact_bytes(const mp_exact_graph *x, mp_exact_set storages)
{
    int64_t bytes = 0;
    while (storages) bytes += x->bytes[mp_bits_take(&storages)];
    return bytes;
}

static mp_exact_set set_of(const reader *r, const int *list, size_t n)
{
    mp_exact_set set = 0;
    for (size_t i = 0; i < n; i++)
        if (r->bit[list[i]] >= 0) set |= mp_exact_one(r->bit[list[i]]);
    return set;
}

static mp_status number_storages(reader *r)
{
    mp_exact_graph *x = r->x;
    for (size_t s = 0; s < r->graph->n_storages; s++) {
        const mp_storage *storage = &r->graph->storages[s];
        r->bit[s] = -1;
        if (mp_storage_is_static(storage)) continue;
        MP_ENSURE(x->n_storages < MP_EXACT_BITS, r->err, MP_NOT_APPLICABLE, "%s is too large to try all schedules",
                  r->graph->name);
        r->bit[s] = x->n_storages++;
        x->bytes[r->bit[s]] = storage->tier == MP_TIER_DEVICE ? storage->bytes : 0;
        x->there[r->bit[s]] = storage->bytes;
        x->recompute_ticks[r->bit[s]] = INT64_MAX;
        if (mp_storage_outlives_step(storage)) x->lasting |= mp_exact_one(r->bit[s]);
        for (int a = r->graph->adders_start[s]; a < r->graph->adders_start[s + 1]; a++)
            x->adders[r->bit[s]] |= mp_exact_one(r->graph->adders[a]);
    }
    return MP_OK;
}

/* Sets n_tiers, tier_bytes and in_tier from the tiers other than the device that have a budget. */
static void read_tiers(const reader *r, const int64_t *tier_bytes)
{
    mp_exact_graph *x = r->x;
    for (int m = 1; m < (int)r->graph->n_tiers; m++) {
        if (!tier_bytes[m]) continue;
        for (size_t s = 0; s < r->graph->n_storages; s++)
            if (r->bit[s] >= 0 && r->graph->storages[s].tier == m) x->in_tier[x->n_tiers] |= mp_exact_one(r->bit[s]);
        x->tier_bytes[x->n_tiers++] = tier_bytes[m] - mp_graph_static_bytes_in(r->graph, m);
    }
}

static bool writes_parameter(const reader *r, const mp_alternative *alternative, int s)
{
    return r->graph->storages[s].kind == MP_KIND_PARAMETER && mp_list_has(alternative->writes, alternative->n_writes, s);
}

/* True if all alternatives of a node add to the same sums, write the same carried gradients and update the same parameters.
 * Only then does the set of nodes that have run determine the state of sums, carried gradients and parameters. */
static bool alternatives_agree(const reader *r, int v, const mp_alternative *alternative)
{
    const mp_alternative *base = &r->graph->nodes[v].alternatives[0];
    const mp_exact_set lasting = r->x->lasting;
    if (alternative->returns) return !(set_of(r, base->writes, base->n_writes) & lasting);
    /* every storage to which an alternative adds is also added to by the base alternative, so equal counts mean equal sets */
    if (alternative->n_adds != base->n_adds) return false;
    if ((set_of(r, alternative->writes, alternative->n_writes) ^ set_of(r, base->writes, base->n_writes)) & lasting)
        return false;
    if (r->graph->nodes[v].phase != MP_PHASE_UPDATE) return true;
    for (size_t i = 0; i < alternative->n_writes; i++)
        if (writes_parameter(r, alternative, alternative->writes[i]) && !writes_parameter(r, base, alternative->writes[i]))
            return false;
    for (size_t i = 0; i < base->n_writes; i++)
        if (writes_parameter(r, base, base->writes[i]) && !writes_parameter(r, alternative, base->writes[i])) return false;
    return true;
}

/* Sets two sets of nodes for each alternative. after: nodes that must have run before the alternative runs. before: nodes that
 * must not have run before it. */
static void read_rules(const reader *r, int v, const mp_alternative *alternative, mp_exact_alternative *out)
{
    const mp_graph *graph = r->graph;
    const bool update = graph->nodes[v].phase == MP_PHASE_UPDATE;
    const mp_update_order order = mp_update_order_of(graph);
    if (update && order.after_backward) out->after |= r->loss_and_backward;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        const int s = alternative->reads[i], writer = mp_awaited_writer(graph, s, v);
        if (!update) *(order.after_readers ? &out->before : &out->after) |= r->updates[s];
        if (writer >= 0) out->after |= mp_exact_one(writer);
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1] && mp_waits_for_all(graph, s, v); a++)
            out->after |= mp_exact_one(graph->adders[a]);
    }
    for (size_t i = 0; i < alternative->n_adds; i++) {
        const int s = alternative->adds[i];
        if (graph->storages[s].any_sum_order) continue;
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1] && graph->adders[a] < v; a++)
            out->after |= mp_exact_one(graph->adders[a]);
    }
}

static void read_alternative(const reader *r, int v, int number, mp_in_place **pairs, mp_exact_alternative *out)
{
    mp_exact_graph *x = r->x;
    const mp_alternative *alternative = &r->graph->nodes[v].alternatives[number];
    *out = (mp_exact_alternative){.node = v,
                                  .number = number,
                                  .returns = alternative->returns,
                                  .reads = set_of(r, alternative->reads, alternative->n_reads),
                                  .writes = set_of(r, alternative->writes, alternative->n_writes),
                                  .adds = set_of(r, alternative->adds, alternative->n_adds),
                                  .pairs = *pairs,
                                  .workspace_bytes = alternative->workspace_bytes,
                                  .ticks = alternative->ticks};
    mp_in_place pair;
    for (size_t at = 0; mp_pair_next(r->graph, alternative, &at, &pair);) {
        out->pairs[out->n_pairs++] = (mp_in_place){r->bit[pair.from], r->bit[pair.to]};
        out->from |= mp_exact_one(r->bit[pair.from]);
    }
    *pairs += out->n_pairs;
    read_rules(r, v, alternative, out);
    for (mp_exact_set produced = out->writes | out->adds; produced;) {
        const int s = mp_bits_take(&produced);
        x->producers[s] |= mp_exact_one(v);
        if (out->ticks < x->recompute_ticks[s]) x->recompute_ticks[s] = out->ticks;
    }
}

static mp_status read_node(const reader *r, int v, mp_exact_alternative *alternatives, mp_in_place **pairs)
{
    mp_exact_graph *x = r->x;
    const mp_node *node = &r->graph->nodes[v];
    mp_exact_node *out = &x->nodes[v];
    *out = (mp_exact_node){.alternatives = alternatives,
                           .n_alternatives = node->n_alternatives,
                           .always_read = ~(mp_exact_set)0,
                           .least_ticks = node->alternatives[0].ticks};
    if (mp_node_may_rerun(node)) x->computes_again |= mp_exact_one(v);
    x->repeatable |= x->computes_again & mp_exact_one(v);
    for (size_t k = 0; k < node->n_alternatives; k++) {
        MP_ENSURE(alternatives_agree(r, v, &node->alternatives[k]), r->err, MP_NOT_APPLICABLE,
                  "%s: its alternatives write different sums, carried gradients or parameters",
                  mp_node_label(r->graph, v).text);
        read_alternative(r, v, (int)k, pairs, &alternatives[k]);
        out->always_read &= alternatives[k].reads;
        out->writes |= alternatives[k].writes;
        if (alternatives[k].returns) x->repeatable |= mp_exact_one(v);
        if (alternatives[k].ticks < out->least_ticks && !alternatives[k].returns) out->least_ticks = alternatives[k].ticks;
    }
    MP_ENSURE(!(x->repeatable & mp_exact_one(v)) || !(out->writes & x->lasting), r->err, MP_NOT_APPLICABLE,
              "%s can be recomputed, but it writes a carried gradient", mp_node_label(r->graph, v).text);
    if (x->optional & mp_exact_one(v)) out->least_ticks = 0;
    x->least_ticks += out->least_ticks;
    return MP_OK;
}

/* Adds the rules for plans in list order: first runs of forward nodes are in list order, and so are loss and backward nodes. */
static void keep_order(mp_exact_graph *x)
{
    mp_exact_set earlier[2] = {0, 0};
    for (int v = 0; v < x->n_nodes; v++) {
        const mp_phase phase = x->graph->nodes[v].phase;
        if (phase == MP_PHASE_UPDATE || (x->optional & mp_exact_one(v))) continue;
        x->nodes[v].first_after = earlier[phase == MP_PHASE_FORWARD];
        earlier[phase == MP_PHASE_FORWARD] |= mp_exact_one(v);
    }
}

/* Finds, from the precedence relation, the storages that are used after each node. Also finds the storages that must therefore
 * be live when the node runs. */
static void find_used_later(mp_exact_graph *x, const mp_precedence *order)
{
    mp_exact_set produced_once = 0;
    for (int s = 0; s < x->n_storages; s++)
        if (!(x->producers[s] & x->repeatable)) produced_once |= mp_exact_one(s);
    for (int v = 0; v < x->n_nodes; v++) {
        mp_exact_node *node = &x->nodes[v];
        for (mp_exact_set later = mp_precedence_descendants(order, v)[0] & x->all; later;) {
            const mp_exact_node *other = &x->nodes[mp_bits_take(&later)];
            node->used_later |= other->always_read | other->alternatives[0].adds;
        }
        for (mp_exact_set left = node->used_later & produced_once & ~x->lasting; left;) {
            const int s = mp_bits_take(&left);
            if (x->producers[s] & mp_precedence_ancestors(order, v)[0]) node->must_be_live |= mp_exact_one(s);
        }
    }
}

mp_status mp_exact_graph_read(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, bool in_order,
                              mp_exact_graph *out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_precedence_free) mp_precedence *order = NULL;
    reader r = {.x = out, .graph = graph, .err = err};
    size_t n_alternatives = 0, n_pairs = 0;
    mp_in_place pair;
    MP_ENSURE(graph->n_nodes <= MP_EXACT_BITS, err, MP_NOT_APPLICABLE, "%s is too large to try all schedules", graph->name);
    out->graph = graph;
    out->n_nodes = (int)graph->n_nodes;
    out->memory_bytes = budget_bytes - mp_graph_static_bytes(graph);
    r.bit = mp_pool_alloc(pool, graph->n_storages, sizeof *r.bit);
    r.updates = mp_pool_alloc(pool, graph->n_storages, sizeof *r.updates);
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < graph->nodes[i].n_alternatives; k++, n_alternatives++)
            for (size_t at = 0; mp_pair_next(graph, &graph->nodes[i].alternatives[k], &at, &pair);) n_pairs++;
    out->alternatives = mp_alloc(n_alternatives, sizeof *out->alternatives);
    out->pairs = mp_alloc(n_pairs, sizeof *out->pairs);
    MP_ENSURE(out->alternatives && out->pairs && !mp_pool_failed(pool), err, MP_NOMEM, "out of memory for %s", graph->name);
    MP_CHECK(number_storages(&r));
    read_tiers(&r, tier_bytes);
    for (int v = 0; v < out->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        *(node->flags & MP_NODE_OPTIONAL ? &out->optional : &out->all) |= mp_exact_one(v);
        if (node->phase == MP_PHASE_LOSS || node->phase == MP_PHASE_BACKWARD) r.loss_and_backward |= mp_exact_one(v);
        if (node->phase != MP_PHASE_UPDATE) continue;
        for (size_t i = 0; i < node->alternatives[0].n_writes; i++)
            if (writes_parameter(&r, &node->alternatives[0], node->alternatives[0].writes[i]))
                r.updates[node->alternatives[0].writes[i]] |= mp_exact_one(v);
    }
    mp_exact_alternative *alternatives = out->alternatives;
    mp_in_place *pairs = out->pairs;
    for (int v = 0; v < out->n_nodes; v++) {
        MP_CHECK(read_node(&r, v, alternatives, &pairs));
        alternatives += graph->nodes[v].n_alternatives;
    }
    if (in_order) keep_order(out);
    if (graph->has_copies) return MP_OK;
    MP_CHECK(mp_precedence_new(graph, in_order, &order, err));
    find_used_later(out, order);
    return MP_OK;
}

void mp_exact_graph_free(mp_exact_graph *x)
{
    mp_free(x->alternatives);
    mp_free(x->pairs);
}
