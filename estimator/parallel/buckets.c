/* buckets.c - finds the parameters whose gradients or values ranks exchange, sorts them, and divides them into buckets. */
#include "estimator/parallel/buckets.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"

mp_rank_group mp_exchange_group(const mp_exchange *x, mp_dim dim, bool is_spread)
{
    return is_spread ? mp_mesh_expert_group(&x->ranks->mesh, dim) : mp_mesh_group(&x->ranks->mesh, dim);
}

static bool is_exchanged(const mp_exchange *x, const mp_storage *gradient)
{
    return gradient->is_part || mp_exchange_group(x, MP_DIM_SHARD, gradient->is_spread).n > 1 ||
           mp_exchange_group(x, MP_DIM_DP, gradient->is_spread).n > 1;
}

bool mp_exchange_any(const mp_exchange *x)
{
    bool any = false;
    for (size_t s = 0; s < x->graph->n_storages; s++) any |= is_exchanged(x, &x->graph->storages[s]);
    return any;
}

/* Finds the update that reads the gradient of a parameter, and the storages of state and value that this update uses. */
static void find_update(const mp_exchange *x, mp_exchanged *p)
{
    const mp_graph *g = x->graph;
    for (int r = g->readers_start[p->gradient]; r < g->readers_start[p->gradient + 1]; r++) {
        const mp_node *node = &g->nodes[g->readers[r]];
        const mp_alternative *a = node->alternatives;
        if (node->phase != MP_PHASE_UPDATE || !a->n_writes) continue;
        for (size_t k = 0; k < a->n_reads; k++) {
            const int s = a->reads[k];
            if (!mp_list_has(a->writes, a->n_writes, s)) continue;
            if (g->storages[s].kind == MP_KIND_PARAMETER) p->value = s;
            if (g->storages[s].kind == MP_KIND_OPTIMIZER_STATE) p->state = s;
        }
        if (p->value >= 0) p->update = g->readers[r];
    }
}

/* Returns the last node that adds to a gradient within a pass. If gradients are scattered to shards, pipeline stages sum the
 * shards later; the node of this sum does not count. */
static int last_adder(const mp_exchange *x, mp_exchanged *p)
{
    const mp_graph *g = x->graph;
    const int *adders = &g->adders[g->adders_start[p->gradient]];
    const int n = g->adders_start[p->gradient + 1] - g->adders_start[p->gradient];
    p->is_staged = p->zero >= 2 && n > 1 && g->nodes[adders[n - 1]].alternatives->channel == x->channel;
    return adders[n - 1 - p->is_staged];
}

/* Returns the first node that reads a storage, among all nodes but updates or among backward nodes. If no such node reads
 * it, returns the number of nodes. */
static int first_reader(const mp_graph *g, int storage, bool is_backward)
{
    int first = (int)g->n_nodes;
    for (int r = storage < 0 ? 0 : g->readers_start[storage]; storage >= 0 && r < g->readers_start[storage + 1]; r++) {
        const mp_phase phase = g->nodes[g->readers[r]].phase;
        const bool counts = is_backward ? phase == MP_PHASE_BACKWARD : phase != MP_PHASE_UPDATE;
        if (counts && g->readers[r] < first) first = g->readers[r];
    }
    return first;
}

static mp_status find_parameters(mp_exchange *x)
{
    const mp_graph *g = x->graph;
    for (size_t s = 0; s < g->n_storages; s++) {
        x->of_storage[s] = -1;
        if (g->storages[s].id >= x->next_id) x->next_id = g->storages[s].id + 1;
    }
    for (int s = 0; s < (int)g->n_storages; s++) {
        const bool is_part = g->storages[s].is_part, is_spread = g->storages[s].is_spread;
        if (g->storages[s].kind != MP_KIND_GRADIENT || !is_exchanged(x, &g->storages[s])) continue;
        g->storages[s].is_part = g->storages[s].is_spread = false;
        mp_exchanged *p = &x->parameters[x->n_parameters];
        *p = (mp_exchanged){.value = -1,
                            .gradient = s,
                            .state = -1,
                            .update = -1,
                            .shard = -1,
                            .reduced = s,
                            .reduction = -1,
                            .complete = -1,
                            .again = -1,
                            .is_part = is_part,
                            .is_spread = is_spread,
                            .is_lowered = g->storages[s].is_lowered,
                            .zero = mp_exchange_group(x, MP_DIM_SHARD, is_spread).n > 1 ? x->zero : 0};
        p->complete = g->producer[s];
        if (mp_storage_is_sum(g, s)) p->complete = last_adder(x, p);
        if (p->complete < 0) continue; /* skips a gradient that no node produces, because it is an input of the graph */
        find_update(x, p);
        MP_ENSURE(p->update >= 0 || !p->zero, x->err, MP_INVALID,
                  "the mesh shards the optimizer state, but %s has no update; choose an optimizer",
                  mp_storage_label(g, s).text);
        p->used = first_reader(g, p->value, false);
        p->used_again = first_reader(g, p->value, true);
        x->graph->storages[s].any_sum_order &= p->zero >= 2; /* if the gradient is reduced in place (zero below 2), the order of
                                                                additions is fixed, so that the reduction is the last of them */
        if (p->value >= 0) x->of_storage[p->value] = (int)x->n_parameters;
        x->of_storage[s] = (int)x->n_parameters++;
    }
    return MP_OK;
}

/* Lists the parameters that no update writes (frozen ones). zero=3 shards their values; they have no gradient. */
static mp_status find_frozen(mp_exchange *x)
{
    const mp_graph *g = x->graph;
    bool *is_written = mp_pool_alloc(x->pool, g->n_storages, sizeof *is_written);
    MP_ENSURE(is_written, x->err, MP_NOMEM, "out of memory for the graph '%s'", g->name);
    for (size_t v = 0; v < g->n_nodes; v++)
        for (size_t k = 0; k < g->nodes[v].alternatives->n_writes; k++) is_written[g->nodes[v].alternatives->writes[k]] = true;
    for (int s = 0; s < (int)g->n_storages; s++) {
        const bool is_spread = g->storages[s].is_spread;
        if (g->storages[s].kind != MP_KIND_PARAMETER || is_written[s]) continue;
        g->storages[s].is_spread = false;
        const int used = first_reader(g, s, false);
        if (x->zero != 3 || used == (int)g->n_nodes || mp_exchange_group(x, MP_DIM_SHARD, is_spread).n == 1) continue;
        x->of_storage[s] = (int)x->n_parameters;
        x->parameters[x->n_parameters++] = (mp_exchanged){.value = s,
                                                          .gradient = -1,
                                                          .state = -1,
                                                          .update = -1,
                                                          .shard = -1,
                                                          .reduced = -1,
                                                          .reduction = -1,
                                                          .complete = -1,
                                                          .used = used,
                                                          .again = -1,
                                                          .used_again = first_reader(g, s, true),
                                                          .is_spread = is_spread,
                                                          .is_lowered = g->storages[s].is_lowered,
                                                          .zero = x->zero};
    }
    return MP_OK;
}

/* Returns the length of the part of a parameter's name that names its block: up to the first component that is a number, as in
 * "layers.3" of "layers.3.mlp.up.weight". 0: no component is a number. */
static size_t block_length(const char *name)
{
    for (const char *at = name; at; at = strpbrk(at, "./") ? strpbrk(at, "./") + 1 : NULL) {
        const size_t digits = strspn(at, "0123456789");
        if (digits && strchr("./", at[digits])) return (size_t)(at + digits - name);
    }
    return 0;
}

/* Returns the length of the innermost module in a parameter's name that matches one of n patterns. 0: none. */
static size_t unit_length(const char *const *units, size_t n_units, const char *name)
{
    size_t length = 0;
    for (size_t n = strcspn(name, "./"); name[n] && n < sizeof(mp_label); n += 1 + strcspn(name + n + 1, "./")) {
        char module[sizeof(mp_label)];
        memcpy(module, name, n);
        module[n] = 0;
        for (size_t k = 0; k < n_units; k++)
            if (!fnmatch(units[k], module, 0)) length = n;
    }
    return length;
}

/* Under PyTorch's rules, moves the place of second gathers before the first backward node of the operator that uses the
 * parameter, which need not read the parameter. */
static void begin_backward_gathered(mp_exchange *x)
{
    const mp_graph *g = x->graph;
    for (int v = (int)g->n_nodes - 1; v >= 0; v--) {
        if (g->nodes[v].phase != MP_PHASE_BACKWARD || g->nodes[v].forward_of < 0) continue;
        const mp_alternative *a = g->nodes[g->nodes[v].forward_of].alternatives;
        for (size_t k = 0; k < a->n_reads; k++) {
            const int of = x->of_storage[a->reads[k]];
            mp_exchanged *p = of >= 0 && x->parameters[of].value == a->reads[k] ? &x->parameters[of] : NULL;
            if (p && p->used_again < (int)g->n_nodes && v < p->used_again) p->used_again = v;
        }
    }
}

/* A parameter and the key by which parameters are sorted. */
typedef struct ranked {
    /* index of the group of ranks that exchange the parameter. Only parameters of the same group may share a bucket */
    int group;
    int at, parameter;
} ranked;

static int by_node(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->group != y->group) return (x->group > y->group) - (x->group < y->group);
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->parameter > y->parameter) - (x->parameter < y->parameter);
}

/* Sort keys of parameters. BY_COMPLETION: the last node that adds to the gradient. BY_USE: the first node that reads the value.
 * BY_USE_AGAIN: the first backward node that reads the value. */
typedef enum by { BY_COMPLETION, BY_USE, BY_USE_AGAIN } by;

static int node_of(const mp_exchanged *p, by by)
{
    return by == BY_COMPLETION ? p->complete : by == BY_USE ? p->used : p->used_again;
}

/* Returns the number of parameters that have this sort key. A frozen parameter has no gradient, so it has no key by
 * gradient. */
static size_t count(const mp_exchange *x, by by)
{
    return by == BY_COMPLETION ? x->n_trained : x->n_parameters;
}

/* Writes the parameters to `order`, sorted by a key. */
static mp_status sort(mp_exchange *x, int *order, by by)
{
    const size_t n = count(x, by);
    MP_OWNED ranked *list = mp_alloc(n + 1, sizeof *list);
    MP_ENSURE(list, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    for (size_t k = 0; k < n; k++)
        list[k] = (ranked){.group = 4 * x->parameters[k].is_root + 2 * x->parameters[k].is_spread +
                                    (by == BY_COMPLETION && x->parameters[k].is_part),
                           .at = node_of(&x->parameters[k], by),
                           .parameter = (int)k};
    qsort(list, n, sizeof *list, by_node);
    for (size_t k = 0; k < n; k++) order[k] = list[k].parameter;
    return MP_OK;
}

bool mp_exchange_same_block(const mp_exchanged *p, const mp_exchanged *q)
{
    const bool is_equal = p->block_length == q->block_length && !strncmp(p->block, q->block, p->block_length);
    return p->is_root ? q->is_root : p->block_length && is_equal;
}

mp_status mp_exchange_check_units(const mp_graph *graph, const mp_ranks *ranks, mp_error *err)
{
    for (size_t u = 0; u < ranks->n_units; u++) {
        bool is_found = false;
        mp_label space;
        for (size_t k = 0; k < graph->n_storages && !is_found; k++)
            is_found = graph->storages[k].kind == MP_KIND_PARAMETER &&
                       unit_length(&ranks->units[u], 1, mp_storage_title(graph, (int)k, &space));
        MP_ENSURE(is_found, err, MP_INVALID, "--fsdp-unit %s: no module with parameters has this name", ranks->units[u]);
    }
    return MP_OK;
}

/* Finds the blocks of the parameters and the root group, for FSDP2. A name without module, as exporters give to transposed
 * weights ("val_2"), is of the block that the previously used parameter belongs to. */
static mp_status find_blocks(mp_exchange *x)
{
    const mp_exchanged *before = NULL;
    bool has_blocks = false;
    if (x->ranks->rules != MP_RULES_PYTORCH || x->zero < 2) return MP_OK;
    MP_CHECK(sort(x, x->by_use, BY_USE));
    for (size_t k = 0; k < x->n_parameters; k++) {
        mp_exchanged *p = &x->parameters[x->by_use[k]];
        mp_label space;
        const char *name = mp_storage_title(x->graph, p->value, &space);
        if (name != space.text && strpbrk(name, "./")) {
            p->block = name;
            const size_t block = block_length(name), unit = unit_length(x->ranks->units, x->ranks->n_units, name);
            p->block_length = unit > block ? unit : block;
        } else if (before) {
            p->block = before->block;
            p->block_length = before->block_length;
        }
        has_blocks |= p->block_length > 0;
        before = p;
    }
    for (size_t k = 0; k < x->n_parameters; k++) x->parameters[k].is_root = has_blocks && !x->parameters[k].block_length;
    return MP_OK;
}

static int by_place(const void *a, const void *b)
{
    const mp_bucket *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->first > y->first) - (x->first < y->first);
}

/* Divides a sorted list of parameters into buckets. */
static size_t cut(const mp_exchange *x, const int *order, by by, mp_bucket *out)
{
    const bool is_torch = x->ranks->rules == MP_RULES_PYTORCH, by_use = by != BY_COMPLETION;
    const mp_exchanged *before = NULL;
    size_t n = 0;
    int first = (int)x->graph->n_nodes; /* the first node that reads any parameter: FSDP2 gathers the root group before it */
    for (size_t k = 0; by == BY_USE && k < count(x, by); k++)
        if (node_of(&x->parameters[k], by) < first) first = node_of(&x->parameters[k], by);
    for (size_t k = 0; k < count(x, by); k++) {
        const mp_exchanged *p = &x->parameters[order[k]];
        if (by_use && (p->zero < 3 || node_of(p, by) == (int)x->graph->n_nodes)) continue;
        if (by == BY_USE_AGAIN && p->is_root) continue;
        const int64_t most =
            is_torch && !x->zero && n == 1 && MP_FIRST_BUCKET_BYTES < x->bucket_bytes ? MP_FIRST_BUCKET_BYTES : x->bucket_bytes;
        const bool is_part = !by_use && p->is_part;
        const bool is_fsdp = is_torch && x->zero >= 2;
        const bool is_full = n && (before->is_root != p->is_root ||
                                   (out[n - 1].bytes >= most && !(is_fsdp && mp_exchange_same_block(before, p))));
        if (!n || is_full || out[n - 1].is_part != is_part || out[n - 1].is_spread != p->is_spread)
            out[n++] = (mp_bucket){.first = k, .at = -1, .is_part = is_part, .is_spread = p->is_spread, .zero = p->zero};
        mp_bucket *b = &out[n - 1];
        b->n++;
        b->is_staged |= p->is_staged;
        b->bytes += x->graph->storages[by_use ? p->value : p->gradient].payload_bytes;
        b->at = by == BY_USE && p->is_root ? first : by_use && b->n > 1 ? b->at : node_of(p, by);
        before = p;
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}

/* An update, and the bucket of the gradient that it reads. -1: the gradient has no bucket, and the update is placed first. */
typedef struct placed {
    int bucket, node;
} placed;

static int by_bucket(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return x->bucket != y->bucket ? (x->bucket > y->bucket) - (x->bucket < y->bucket)
                                  : (x->node > y->node) - (x->node < y->node);
}

/* Fills `sequence` with the nodes of the original graph in their order. Only the updates after backward are sorted by the
 * bucket of their gradient. */
static mp_status place_updates(mp_exchange *x)
{
    const mp_graph *g = x->graph;
    MP_OWNED placed *updates = mp_alloc(g->n_nodes + 1, sizeof *updates);
    size_t n = 0;
    MP_ENSURE(updates, x->err, MP_NOMEM, "out of memory for the graph '%s'", g->name);
    for (size_t v = 0; v < g->n_nodes; v++) x->sequence[v] = -1;
    for (size_t k = 0; k < x->n_sent; k++)
        for (size_t j = 0; j < x->sent[k].n; j++) {
            const int update = x->parameters[x->by_completion[x->sent[k].first + j]].update;
            if (update >= 0) x->sequence[update] = (int)k;
        }
    for (size_t v = 0; v < g->n_nodes; v++)
        if (g->nodes[v].phase == MP_PHASE_UPDATE) updates[n++] = (placed){x->sequence[v], (int)v};
    if (mp_update_order_of(g).after_readers) qsort(updates, n, sizeof *updates, by_bucket);
    n = 0;
    for (size_t v = 0; v < g->n_nodes; v++) x->sequence[v] = g->nodes[v].phase == MP_PHASE_UPDATE ? updates[n++].node : (int)v;
    return MP_OK;
}

/* Places each gather of updated values after the last update of its bucket. The place is an index into `sequence`. */
static mp_status place_gathers(mp_exchange *x)
{
    MP_OWNED int *place = mp_alloc(x->graph->n_nodes + 1, sizeof *place);
    MP_ENSURE(place, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    for (int k = 0; k < (int)x->graph->n_nodes; k++) place[x->sequence[k]] = k;
    for (size_t k = 0; k < x->n_gathered; k++) {
        mp_bucket *b = &x->gathered[k];
        b->at =
            k ? x->gathered[k - 1].at : -1; /* the gather of a bucket is not placed before the gather of the previous bucket */
        for (size_t j = 0; j < b->n; j++) {
            const int update = x->parameters[x->by_completion[b->first + j]].update;
            if (place[update] > b->at) b->at = place[update];
        }
    }
    return MP_OK;
}

mp_status mp_exchange_list(mp_exchange *x)
{
    const size_t n = x->graph->n_storages;
    x->parameters = mp_pool_alloc(x->pool, n, sizeof *x->parameters);
    x->of_storage = mp_pool_alloc(x->pool, n, sizeof *x->of_storage);
    x->by_completion = mp_pool_alloc(x->pool, n, sizeof *x->by_completion);
    x->by_use = mp_pool_alloc(x->pool, n, sizeof *x->by_use);
    x->by_use_again = mp_pool_alloc(x->pool, n, sizeof *x->by_use_again);
    x->again = mp_pool_alloc(x->pool, n, sizeof *x->again);
    x->sent = mp_pool_alloc(x->pool, n, sizeof *x->sent);
    x->gathered = mp_pool_alloc(x->pool, n, sizeof *x->gathered);
    x->reads = mp_pool_alloc(x->pool, n + 1, sizeof *x->reads);
    x->writes = mp_pool_alloc(x->pool, n, sizeof *x->writes);
    x->sequence = mp_pool_alloc(x->pool, x->graph->n_nodes, sizeof *x->sequence);
    MP_ENSURE(!mp_pool_failed(x->pool), x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    MP_CHECK(find_parameters(x));
    x->n_trained = x->n_parameters;
    MP_CHECK(find_frozen(x));
    MP_CHECK(find_blocks(x));
    MP_CHECK(sort(x, x->by_completion, BY_COMPLETION));
    x->n_sent = cut(x, x->by_completion, BY_COMPLETION, x->sent);
    MP_CHECK(place_updates(x));
    if (x->zero == 3) {
        MP_CHECK(sort(x, x->by_use, BY_USE));
        x->n_gathered = cut(x, x->by_use, BY_USE, x->gathered);
        if (x->ranks->rules ==
            MP_RULES_PYTORCH) { /* FSDP2 frees the values that were gathered for forward, so backward gathers them again */
            begin_backward_gathered(x);
            MP_CHECK(sort(x, x->by_use_again, BY_USE_AGAIN));
            x->n_again = cut(x, x->by_use_again, BY_USE_AGAIN, x->again);
        }
    } else if (x->zero) {
        for (size_t k = 0; k < x->n_sent; k++)
            if (x->sent[k].zero) x->gathered[x->n_gathered++] = x->sent[k];
        MP_CHECK(place_gathers(x));
    }
    return MP_OK;
}
