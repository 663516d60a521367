/* chain_peak.c - the rules of timeline.h for the run of one block, with what is live before it and after it. */
#include "planner/chain/chain_peak.h"

bool mp_chain_is_forward(const mp_chain *chain, int storage)
{
    const int p = chain->graph->producer[storage];
    return p >= 0 && chain->graph->nodes[p].phase == MP_PHASE_FORWARD;
}

bool mp_chain_is_input(const mp_chain *chain, int k, int storage)
{
    return k > 0 && chain->crosses[storage] && chain->producer_block[storage] == k - 1;
}

bool mp_chain_is_output(const mp_chain *chain, int k, int storage)
{
    return chain->crosses[storage] && chain->producer_block[storage] == k;
}

bool mp_chain_peaks_new(mp_chain_peaks *x, const mp_chain *chain)
{
    const size_t n = chain->graph->n_storages;
    x->chain = chain;
    x->last = mp_alloc(n, sizeof *x->last);
    x->begins = mp_alloc(n, sizeof *x->begins);
    x->taken = mp_alloc(n, sizeof *x->taken);
    x->is_live = mp_alloc(n, sizeof *x->is_live);
    return x->last && x->begins && x->taken && x->is_live;
}

void mp_chain_peaks_free(mp_chain_peaks *x)
{
    mp_free(x->last);
    mp_free(x->begins);
    mp_free(x->taken);
    mp_free(x->is_live);
}

/* Pinned storages are counted elsewhere, and the block's input only if it is not kept for others. */
static bool is_counted(const mp_chain_peaks *x, int s)
{
    if (x->chain->producer_block[s] < 0 || x->chain->pinned[s]) return false;
    return x->with_input || !mp_chain_is_input(x->chain, x->k, s);
}

/* Whether it is live after the run. */
static bool stays(const mp_chain_peaks *x, int s)
{
    if (mp_chain_is_forward(x->chain, s)) return !x->backward && (mp_chain_is_output(x->chain, x->k, s) || x->kept[s]);
    return x->chain->until[s] < x->k;
}

/* Whether it is live before the run. */
static bool is_live_before(const mp_chain_peaks *x, int s)
{
    if (mp_chain_is_forward(x->chain, s)) return mp_chain_is_input(x->chain, x->k, s) || (x->backward && x->kept[s]);
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

/* The bytes of the step's outputs that take over the memory of what dies in it. */
static int64_t in_place_bytes(mp_chain_peaks *x, const mp_alternative *alternative, int step)
{
    const mp_storage *storages = x->chain->graph->storages;
    int64_t bytes = 0;
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        const int from = alternative->in_place[i].from, to = alternative->in_place[i].to;
        if (!x->is_live[from] || x->last[from] != step || x->begins[to] != step) continue;
        if (storages[from].bytes < storages[to].bytes || x->taken[from] == step || x->taken[to] == step) continue;
        x->taken[from] = x->taken[to] = step;
        bytes += storages[to].bytes;
    }
    return bytes;
}

/* The first and last uses in the run, and what is live before it. */
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

int64_t mp_chain_peak(mp_chain_peaks *x, const mp_chain_run *run, int64_t bytes)
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
