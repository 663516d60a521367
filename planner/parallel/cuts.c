/* cuts.c - cuts the blocks of a network into pipeline stages by dynamic programming. If ranks have several stages, evens out
 * the work of the ranks. */
#include "planner/parallel/cuts.h"

#include <math.h>

#include "estimator/base/memory.h"

/* The blocks of a network with their ticks, and a limit on the ticks of a pipeline stage. */
typedef struct line {
    int n;           /* number of blocks */
    int64_t *before; /* prefix sums of ticks: the ticks of all blocks before block k, for k in [0..n] */
    int64_t most;    /* a stage may take at most this number of ticks */
} line;

static int64_t ticks_between(const line *x, int begin, int end)
{
    return x->before[end] - x->before[begin];
}

/* True if the blocks can be divided into n_stages stages of at most `ticks` ticks each. */
static bool suffices(const line *x, int64_t ticks, int n_stages)
{
    int n = 0;
    for (int begin = 0, end; begin < x->n; begin = end, n++) {
        for (end = begin; end < x->n && ticks_between(x, begin, end + 1) <= ticks; end++)
            ;
        if (end == begin) return false;
    }
    return n <= n_stages;
}

/* Of all divisions of the blocks into stages, finds the one with the fastest slowest stage. Returns the ticks of this slowest
 * stage. */
static int64_t least_slowest(const line *x, int n_stages)
{
    int64_t low = 0, high = ticks_between(x, 0, x->n);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (suffices(x, middle, n_stages))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* Cuts the blocks into stages of at most x->most ticks. Of all such divisions, chooses the one with the least sum of squared
 * stage ticks. `cost` and `from` have (n_stages + 1) * (n + 1) elements. */
static void cut(const line *x, int n_stages, double *cost, int *from, mp_stage *stages)
{
    const int width = x->n + 1;
    for (int j = 0; j <= x->n; j++) cost[j] = j ? INFINITY : 0;
    for (int k = 1; k <= n_stages; k++)
        for (int j = 0; j <= x->n; j++) {
            double *best = &cost[k * width + j];
            *best = INFINITY;
            for (int i = j - 1; i >= k - 1 && ticks_between(x, i, j) <= x->most; i--) {
                const double ticks = (double)ticks_between(x, i, j), c = cost[(k - 1) * width + i] + ticks * ticks;
                if (c >= *best) continue;
                *best = c;
                from[k * width + j] = i;
            }
        }
    for (int k = n_stages, end = x->n; k > 0; k--) {
        stages[k - 1].end = end;
        stages[k - 1].begin = end = from[k * width + end];
    }
}

/* Assigns blocks to stages, from the last stage to the first. Each stage gets as many blocks as x->most allows, but leaves at
 * least one block for each earlier stage. */
static void fill_late(const line *x, int n_stages, mp_stage *stages)
{
    for (int q = n_stages - 1, end = x->n; q >= 0; end = stages[q--].begin) {
        int begin = end - 1;
        while (begin > q && ticks_between(x, begin - 1, end) <= x->most) begin--;
        stages[q].begin = q ? begin : 0;
        stages[q].end = end;
    }
}

/* Moves blocks between neighbouring stages, as long as the busier one of their two ranks gets less work. */
static void even_out(const line *x, int n_ranks, int n_stages, int64_t *busy, mp_stage *stages)
{
    for (int q = 0; q < n_stages; q++) busy[q % n_ranks] += ticks_between(x, stages[q].begin, stages[q].end);
    for (bool is_better = n_ranks > 1; is_better;) {
        is_better = false;
        for (int q = 0; q + 1 < n_stages; q++) {
            mp_stage *a = &stages[q], *b = &stages[q + 1];
            int64_t *of_a = &busy[q % n_ranks], *of_b = &busy[(q + 1) % n_ranks];
            const int64_t last = ticks_between(x, a->end - 1, a->end), first = ticks_between(x, b->begin, b->begin + 1);
            if (a->end - a->begin > 1 && *of_b + last < *of_a) {
                b->begin = --a->end;
                *of_a -= last;
                *of_b += last;
                is_better = true;
            } else if (b->end - b->begin > 1 && *of_a + first < *of_b) {
                a->end = ++b->begin;
                *of_b -= first;
                *of_a += first;
                is_better = true;
            }
        }
    }
}

mp_status mp_cut_stages(const mp_load *load, int n_ranks, int n_chunks, mp_stage_cut kind, mp_stage *stages, mp_error *err)
{
    const int n_stages = n_ranks * n_chunks;
    const size_t cells = (size_t)(n_stages + 1) * (size_t)(load->n_blocks + 1);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    line x = {.n = load->n_blocks, .before = mp_pool_alloc(pool, (size_t)load->n_blocks + 1, sizeof *x.before)};
    double *cost = mp_pool_alloc(pool, cells, sizeof *cost);
    int *from = mp_pool_alloc(pool, cells, sizeof *from);
    int64_t *busy = mp_pool_alloc(pool, (size_t)n_ranks, sizeof *busy);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    for (int k = 0; k < x.n; k++)
        x.before[k + 1] = x.before[k] + load->blocks[k].forward_ticks + load->blocks[k].backward_ticks;
    x.most = least_slowest(&x, n_stages);
    if (kind == MP_CUT_LATE)
        fill_late(&x, n_stages, stages);
    else
        cut(&x, n_stages, cost, from, stages);
    if (kind == MP_CUT_EVEN_RANKS) even_out(&x, n_ranks, n_stages, busy, stages);
    return MP_OK;
}
