/* chain_measure.c - finds the options of each block of a chain, with their nodes, ticks and peak bytes. Peaks follow the rules
 * of timeline.h. They count the block's storages that are live before the first node or after the last node. */
#include "planner/chain/chain.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/graph/liveness.h"
#include "memplan/training.h"

/* Scratch arrays for computing the peak bytes of a list of nodes (mp_chain_run). They are reused for each list. */
typedef struct mp_chain_peaks {
    const mp_chain *chain;
    int k;            /* index of the block */
    const bool *kept; /* per storage: the option keeps it for the block's backward */
    bool backward;    /* true: the list contains the block's backward with its recomputations; false: the block's forward */
    bool with_input;  /* true if the peak counts the block's input */
    /* per storage, as 1 + an index in the list of nodes. last: its last use, 0 if it stays live. begins: its producer. taken:
     * the node at which an in-place pair reuses its memory */
    int *last, *begins, *taken;
    bool *is_live;
} mp_chain_peaks;

static bool chain_is_forward(const mp_chain *chain, int storage)
{
    const int p = chain->graph->producer[storage];
    return p >= 0 && chain->graph->nodes[p].phase == MP_PHASE_FORWARD;
}

/* Returns true if the storage is an input of block k: block k - 1 produces it, and block k reads it. */
static bool chain_is_input(const mp_chain *chain, int k, int storage)
{
    return k > 0 && chain->crosses[storage] && chain->producer_block[storage] == k - 1;
}

/* Returns true if the storage is an output of block k: block k produces it, and block k + 1 reads it. */
static bool chain_is_output(const mp_chain *chain, int k, int storage)
{
    return chain->crosses[storage] && chain->producer_block[storage] == k;
}

/* True if the peak counts the storage. Pinned storages are counted separately. The block's input is counted only if no other
 * block keeps it. */
static bool is_counted(const mp_chain_peaks *x, int s)
{
    if (x->chain->producer_block[s] < 0 || x->chain->pinned[s]) return false;
    return x->with_input || !chain_is_input(x->chain, x->k, s);
}

/* True if the storage is still live after the list of nodes has run. */
static bool stays(const mp_chain_peaks *x, int s)
{
    if (chain_is_forward(x->chain, s)) return !x->backward && (chain_is_output(x->chain, x->k, s) || x->kept[s]);
    return x->chain->last_user[s] < x->k;
}

/* True if the storage is live before the list of nodes runs. */
static bool is_live_before(const mp_chain_peaks *x, int s)
{
    if (chain_is_forward(x->chain, s)) return chain_is_input(x->chain, x->k, s) || (x->backward && x->kept[s]);
    return x->chain->producer_block[s] > x->k;
}

static size_t uses(const mp_alternative *alternative)
{
    return alternative->n_reads + alternative->n_adds + alternative->n_writes;
}

static int use(const mp_alternative *alternative, size_t i)
{
    if (i < alternative->n_reads) return alternative->reads[i];
    return i < alternative->n_reads + alternative->n_adds ? alternative->adds[i - alternative->n_reads]
                                                          : alternative->writes[i - alternative->n_reads - alternative->n_adds];
}

/* Returns the bytes that a step's outputs save because they take over the memory of inputs that are last read in the step. */
static int64_t in_place_bytes(mp_chain_peaks *x, const mp_alternative *alternative, int step)
{
    const mp_graph *graph = x->chain->graph;
    mp_in_place p;
    int64_t bytes = 0;
    for (size_t at = 0; mp_pair_next(graph, alternative, &at, &p);) {
        if (!x->is_live[p.from] || x->last[p.from] != step || x->begins[p.to] != step) continue;
        if (mp_pair_take(p, step, x->taken)) bytes += graph->storages[p.to].bytes;
    }
    return bytes;
}

/* Finds the first and the last use of each storage in the list of nodes, and the storages that are live before it. */
static void find_uses(mp_chain_peaks *x, const mp_chain_run *run)
{
    for (size_t t = 0; t < run->n; t++) {
        const mp_alternative *alternative = &x->chain->graph->nodes[run->nodes[t]].alternatives[0];
        for (size_t i = 0; i < uses(alternative); i++) {
            const int s = use(alternative, i);
            x->begins[s] = x->taken[s] = 0;
            x->is_live[s] = is_counted(x, s) && is_live_before(x, s);
            x->last[s] = stays(x, s) ? 0 : (int)t + 1;
        }
    }
}

/* Returns the peak bytes of a list of nodes. `bytes` are live before the first node. Pinned storages are not counted. O(list
 * lengths of the nodes). */
static int64_t chain_peak(mp_chain_peaks *x, const mp_chain_run *run, int64_t bytes)
{
    const mp_graph *graph = x->chain->graph;
    int64_t peak = bytes;
    find_uses(x, run);
    for (size_t t = 0; t < run->n; t++) {
        const mp_alternative *alternative = &graph->nodes[run->nodes[t]].alternatives[0];
        const int step = (int)t + 1;
        for (size_t i = alternative->n_reads; i < uses(alternative); i++) {
            const int s = use(alternative, i);
            if (x->is_live[s] || !is_counted(x, s)) continue;
            x->is_live[s] = true;
            x->begins[s] = step;
            bytes += graph->storages[s].bytes;
        }
        const int64_t now = bytes + alternative->workspace_bytes - in_place_bytes(x, alternative, step);
        if (now > peak) peak = now;
        for (size_t i = 0; i < uses(alternative); i++) {
            const int s = use(alternative, i);
            if (!x->is_live[s] || x->last[s] != step) continue;
            x->is_live[s] = false;
            bytes -= graph->storages[s].bytes;
        }
    }
    return peak;
}

/* A storage of the block that the block's backward reads, and the benefit of not keeping it: bytes freed per tick of
 * recomputation. */
typedef struct needed {
    int storage;
    double worth;
} needed;

typedef struct measure {
    mp_chain *chain;
    int k; /* index of the block */
    /* index of the list of nodes that is being measured. Entries of `live` and `demanded` are set if they contain this index,
     * so the arrays need not be cleared for the next list */
    int epoch;
    int *live;     /* per storage: index (`epoch`) of the last list of nodes in which the storage was live */
    int *demanded; /* per node: index (`epoch`) of the last list of nodes that required a run of this node */
    int *list;     /* nodes that must run next */
    size_t n_list;
    int *nodes; /* the nodes of the list that is being measured, in the order in which they run */
    size_t n;
    bool *kept;        /* per storage: the option that is being built keeps it for backward */
    bool kept_is_live; /* true: the storages marked in `kept` are live before the first node of the current list runs */
    needed *needed;
    size_t n_needed;
    mp_chain_peaks peaks;
} measure;

static bool is_forward(const measure *x, int node)
{
    return x->chain->graph->nodes[node].phase == MP_PHASE_FORWARD;
}

/* ---- runs ---- */

/* If storage s belongs to this block and is not live, appends its producer to the list of nodes that must run. */
static void demand(measure *x, int s)
{
    const mp_chain *chain = x->chain;
    const int p = chain->graph->producer[s];
    if (chain->producer_block[s] < 0 || p < 0 || !is_forward(x, p) || chain->block[p] != x->k || chain->pinned[s]) return;
    if (x->live[s] == x->epoch || x->demanded[p] == x->epoch || (x->kept_is_live && x->kept[s])) return;
    x->demanded[p] = x->epoch;
    x->list[x->n_list++] = p;
}

static void demand_reads(measure *x, int node)
{
    const mp_alternative *alternative = &x->chain->graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < alternative->n_reads; i++) demand(x, alternative->reads[i]);
}

static void push(measure *x, int node)
{
    const mp_alternative *alternative = &x->chain->graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < alternative->n_writes; i++) x->live[alternative->writes[i]] = x->epoch;
    x->nodes[x->n++] = node;
}

static int ascending(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

/* Appends to the current list of nodes the nodes that must run, and the producers of their missing inputs, in list order. */
static void run_demanded(measure *x)
{
    /* the loop body appends nodes to the list, so n_list grows during the loop */
    for (size_t i = 0; i < x->n_list; i++) demand_reads(x, x->list[i]);
    if (x->n_list > 1) qsort(x->list, x->n_list, sizeof *x->list, ascending);
    for (size_t i = 0; i < x->n_list; i++) push(x, x->list[i]);
    x->n_list = 0;
}

static void begin_run(measure *x)
{
    x->epoch++;
    x->n = 0;
}

static void demand_outputs(measure *x)
{
    const mp_chain_run *first = &x->chain->blocks[x->k].first;
    for (size_t t = 0; t < first->n; t++) {
        const mp_alternative *alternative = &x->chain->graph->nodes[first->nodes[t]].alternatives[0];
        for (size_t i = 0; i < alternative->n_writes; i++)
            if (chain_is_output(x->chain, x->k, alternative->writes[i])) demand(x, alternative->writes[i]);
    }
}

/* Appends the backward nodes of the block to the current list of nodes. Before each node, appends the recomputation of its
 * inputs that are not live. */
static void run_backward(measure *x)
{
    const mp_chain *chain = x->chain;
    for (int i = 0; i < chain->n_backward[x->k]; i++) {
        const int node = chain->backward[chain->backward_start[x->k] + i];
        demand_reads(x, node);
        run_demanded(x);
        push(x, node);
    }
}

static mp_status end_run(measure *x, mp_chain_run *out, mp_error *err)
{
    out->nodes = mp_pool_alloc(x->chain->pool, x->n, sizeof *out->nodes);
    if (!out->nodes) return MP_NO_MEMORY(err);
    if (x->n) memcpy(out->nodes, x->nodes, x->n * sizeof *x->nodes);
    out->n = x->n;
    out->ticks = 0;
    for (size_t t = 0; t < x->n; t++)
        if (is_forward(x, x->nodes[t])) out->ticks += x->chain->graph->nodes[x->nodes[t]].alternatives[0].ticks;
    return MP_OK;
}

/* ---- bytes ---- */

static int64_t peak_of(measure *x, const mp_chain_run *run, int64_t bytes, bool with_input, bool backward)
{
    x->peaks.k = x->k;
    x->peaks.with_input = with_input;
    x->peaks.backward = backward;
    return chain_peak(&x->peaks, run, bytes);
}

static mp_chain_need need_of(measure *x, const mp_chain_run *run, int64_t bytes, bool backward)
{
    const int64_t input = x->k > 0 ? x->chain->blocks[x->k - 1].output_bytes : 0;
    return (mp_chain_need){{peak_of(x, run, bytes, false, backward), peak_of(x, run, bytes + input, true, backward)}};
}

static mp_chain_need plus(mp_chain_need need, int64_t bytes)
{
    return (mp_chain_need){{need.bytes[0] + bytes, need.bytes[1] + bytes}};
}

/* ---- options ---- */

/* Returns the bytes of the storages that the current option keeps. *keeps_output: the option keeps the whole output of the
 * block. */
static int64_t kept_bytes(const measure *x, bool *keeps_output)
{
    int64_t bytes = 0;
    *keeps_output = false;
    for (size_t i = 0; i < x->n_needed; i++) {
        const int s = x->needed[i].storage;
        if (!x->kept[s]) continue;
        if (chain_is_output(x->chain, x->k, s))
            *keeps_output = true;
        else
            bytes += x->chain->graph->storages[s].bytes;
    }
    return *keeps_output ? bytes + x->chain->blocks[x->k].output_bytes : bytes;
}

static bool reads_input(const measure *x, const mp_chain_run *run)
{
    for (size_t t = 0; t < run->n; t++) {
        const mp_alternative *alternative = &x->chain->graph->nodes[run->nodes[t]].alternatives[0];
        for (size_t i = 0; i < alternative->n_reads; i++)
            if (chain_is_input(x->chain, x->k, alternative->reads[i])) return true;
    }
    return false;
}

/* Appends an option to the block that keeps exactly the storages marked in `kept`. */
static mp_status add_option(measure *x, mp_error *err)
{
    mp_chain_block *block = &x->chain->blocks[x->k];
    mp_chain_option *option = &block->options[block->n_options];
    const mp_storage *storages = x->chain->graph->storages;
    int64_t bytes = block->gradient_bytes;
    option->movable_bytes = option->n_movable = 0;
    begin_run(x);
    demand_outputs(x);
    for (size_t i = 0; i < x->n_needed; i++) {
        const int s = x->needed[i].storage;
        if (!x->kept[s]) continue;
        demand(x, s);
        bytes += storages[s].bytes;
        if (!mp_may_be_copied(x->chain->graph, s, MP_OFFLOAD_LEAST_BYTES)) continue;
        option->movable_bytes += storages[s].bytes;
        option->n_movable++;
    }
    run_demanded(x);
    MP_CHECK(end_run(x, &option->rerun, err));
    begin_run(x);
    x->kept_is_live = true;
    run_backward(x);
    x->kept_is_live = false;
    MP_CHECK(end_run(x, &option->backward, err));
    option->kept_bytes = kept_bytes(x, &option->keeps_output);
    option->frees_input = !reads_input(x, &option->backward);
    option->rerun_need = need_of(x, &option->rerun, 0, false);
    option->first_need = plus(need_of(x, &block->first, 0, false), block->first_pinned_bytes);
    option->backward_bytes = peak_of(x, &option->backward, bytes, false, true) + block->pinned_bytes;
    block->n_options++;
    return MP_OK;
}

static int by_worth(const void *a, const void *b)
{
    const needed *x = a, *y = b;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

/* Lists the storages of the block that its backward reads, and marks all of them as kept. Sorts them by the benefit of not
 * keeping them, largest first. */
static void find_needed(measure *x)
{
    const mp_chain *chain = x->chain;
    const mp_graph *graph = chain->graph;
    size_t work = 0;
    x->n_needed = 0;
    for (int i = 0; i < chain->n_backward[x->k]; i++) {
        const mp_alternative *alternative = &graph->nodes[chain->backward[chain->backward_start[x->k] + i]].alternatives[0];
        for (size_t r = 0; r < alternative->n_reads; r++) {
            const int s = alternative->reads[r];
            if (x->kept[s] || chain->producer_block[s] != x->k || !chain_is_forward(chain, s) || chain->pinned[s]) continue;
            x->kept[s] = true;
            x->needed[x->n_needed++] = (needed){s, 0};
        }
    }
    x->kept_is_live = true;
    for (size_t i = 0; i < x->n_needed && work < MP_CHAIN_MEASURE_WORK; i++) {
        const int s = x->needed[i].storage;
        int64_t ticks = 1;
        begin_run(x);
        x->kept[s] = false;
        demand(x, s);
        run_demanded(x);
        x->kept[s] = true;
        for (size_t t = 0; t < x->n; t++) ticks += graph->nodes[x->nodes[t]].alternatives[0].ticks;
        x->needed[i].worth = (double)graph->storages[s].bytes / (double)ticks;
        work += x->n;
    }
    x->kept_is_live = false;
    if (x->n_needed > 1) qsort(x->needed, x->n_needed, sizeof *x->needed, by_worth);
}

/* Appends the options of a block. The first keeps all storages that the block's backward reads. Each later option keeps fewer,
 * and the last keeps none. */
static mp_status add_options(measure *x, mp_error *err)
{
    mp_chain_block *block = &x->chain->blocks[x->k];
    const mp_storage *storages = x->chain->graph->storages;
    int64_t left, whole = 0;
    find_needed(x);
    MP_CHECK(add_option(x, err));
    for (size_t i = 0; i < x->n_needed; i++) whole += storages[x->needed[i].storage].bytes;
    left = whole;
    for (size_t i = 0; i < x->n_needed && block->n_options < MP_CHAIN_OPTIONS; i++) {
        const int64_t share = whole / (MP_CHAIN_OPTIONS - 1) * (MP_CHAIN_OPTIONS - 1 - (int64_t)block->n_options);
        x->kept[x->needed[i].storage] = false;
        left -= storages[x->needed[i].storage].bytes;
        if (left > share) continue;
        MP_CHECK(add_option(x, err));
        const mp_chain_option *last = &block->options[block->n_options - 1];
        if (last->kept_bytes >= last[-1].kept_bytes) block->n_options--;
    }
    return MP_OK;
}

/* ---- blocks ---- */

static mp_status measure_block(measure *x, mp_error *err)
{
    mp_chain *chain = x->chain;
    mp_chain_block *block = &chain->blocks[x->k];
    const bool is_last = x->k == chain->n - 1;
    begin_run(x);
    for (size_t i = 0; i < chain->graph->n_nodes; i++)
        if (chain->block[i] == x->k && is_forward(x, (int)i)) push(x, (int)i);
    MP_CHECK(end_run(x, &block->first, err));
    block->first_need = plus(need_of(x, &block->first, 0, false), block->first_pinned_bytes);
    begin_run(x);
    demand_outputs(x);
    run_demanded(x);
    MP_CHECK(end_run(x, &block->advance, err));
    block->advance_need = need_of(x, &block->advance, 0, false);
    begin_run(x);
    for (size_t t = 0; is_last && t < block->first.n; t++) push(x, block->first.nodes[t]);
    run_backward(x);
    MP_CHECK(end_run(x, &block->alone, err));
    block->alone_need =
        plus(need_of(x, &block->alone, block->gradient_bytes, true), is_last ? block->first_pinned_bytes : block->pinned_bytes);
    const mp_status st = is_last ? MP_OK : add_options(x, err);
    for (size_t i = 0; !is_last && i < x->n_needed; i++) x->kept[x->needed[i].storage] = false;
    return st;
}

mp_status mp_chain_measure(mp_chain *chain, mp_error *err)
{
    const size_t n_nodes = chain->graph->n_nodes, n_storages = chain->graph->n_storages;
    measure x = {.chain = chain};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    x.live = mp_pool_alloc(pool, n_storages, sizeof *x.live);
    x.demanded = mp_pool_alloc(pool, n_nodes, sizeof *x.demanded);
    x.list = mp_pool_alloc(pool, n_nodes, sizeof *x.list);
    x.nodes = mp_pool_alloc(pool, 2 * n_nodes, sizeof *x.nodes);
    x.kept = mp_pool_alloc(pool, n_storages, sizeof *x.kept);
    x.needed = mp_pool_alloc(pool, n_storages, sizeof *x.needed);
    x.peaks = (mp_chain_peaks){.chain = chain,
                               .kept = x.kept,
                               .last = mp_pool_alloc(pool, n_storages, sizeof(int)),
                               .begins = mp_pool_alloc(pool, n_storages, sizeof(int)),
                               .taken = mp_pool_alloc(pool, n_storages, sizeof(int)),
                               .is_live = mp_pool_alloc(pool, n_storages, sizeof(bool))};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory");
    for (x.k = 0; x.k < chain->n; x.k++) MP_CHECK(measure_block(&x, err));
    return MP_OK;
}
