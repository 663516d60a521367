/* row_chunks.c - chooses the number of chunks of rows by the plans that they permit. */
#include "memplan/workloads/row_chunks.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/training/loss_chunks.h"
#include "executor/workload/chunk_numbers.h"
#include "memplan/solver.h"

bool mp_row_chunks_are_open(const mp_workload_options *options)
{
    return options->row_chunks && !strcmp(options->row_chunks, "auto");
}

/* The best number so far. */
typedef struct best {
    int n;
    bool fits;
    int64_t ticks, smallest_bytes;
} best;

/* The result of one number of chunks. */
typedef struct trial {
    bool fits;
    int64_t ticks, bound_ticks, smallest_bytes;
} trial;

static mp_status solve(const mp_workload *w, const mp_request *wanted, trial *out, mp_error *err)
{
    mp_request request = *wanted;
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    request.graph = w->graph;
    request.problem = w->problem;
    request.effort = MP_EFFORT_QUICK;
    request.wants_bound = true;
    request.start = NULL;
    memcpy(request.tier_bytes, w->tier_bytes, sizeof request.tier_bytes);
    MP_CHECK(mp_solve(&request, &answer, err));
    out->fits = answer.plan;
    out->ticks = answer.plan ? answer.plan->ticks : INT64_MAX;
    out->bound_ticks = request.budget_bytes < answer.floor_bytes ? INT64_MAX : answer.bound.ticks;
    out->smallest_bytes = answer.smallest->peak_bytes;
    return MP_OK;
}

/* Returns a number of ticks that no plan of the graph goes below: the fastest alternatives of all nodes that a plan must run on
 * the device. */
static int64_t least_ticks(const mp_graph *graph)
{
    int64_t sum = 0;
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        int64_t least = INT64_MAX;
        for (size_t f = 0; f < node->n_alternatives; f++) {
            const mp_alternative *a = &node->alternatives[f];
            const bool is_device = a->channel == MP_CHANNEL_COMPUTE || a->channel == MP_CHANNEL_SECOND_STREAM;
            if (!a->returns) least = mp_smaller(least, is_device ? a->ticks : 0);
        }
        if (!(node->flags & MP_NODE_OPTIONAL) && least < INT64_MAX) sum += least;
    }
    return sum;
}

static void take_better(int n, const trial *t, best *b)
{
    const bool is_better = b->fits ? t->ticks < b->ticks : t->fits || t->smallest_bytes < b->smallest_bytes;
    if (b->n && !is_better) return;
    *b = (best){n, t->fits, t->ticks, t->smallest_bytes};
}

/* Loads the workload with n chunks. *has_fewer becomes true if the logits have fewer than n rows. */
static mp_status load(const mp_workload *whole, const mp_workload_options *options, int n, mp_workload *out, bool *has_fewer,
                      mp_error *err)
{
    mp_workload_options wanted = *options;
    char setting[MP_ROW_CHUNKS_TEXT];
    const int numbers[MP_N_CHUNK_KINDS] = {[MP_CHUNK_HEAD] = n};
    mp_chunk_numbers_write(numbers, setting);
    wanted.row_chunks = setting;
    wanted.adopted = NULL;
    MP_CHECK(mp_workload_load(whole->path, &wanted, out, err));
    *has_fewer = out->details->loss_chunks.n < n;
    return MP_OK;
}

mp_status mp_row_chunks_choose(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                               mp_row_chunks_choice *out, mp_error *err)
{
    enum { NUMBERS = 7 }; /* 1, 2, 4, ... 64 */
    best found = {0};
    int64_t bounds[NUMBERS];
    int n_bounds = 0;
    *out = (mp_row_chunks_choice){.other_ticks = INT64_MAX};
    for (int n = 1; n_bounds < NUMBERS; n *= 2) {
        MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
        const mp_workload *w = n > 1 ? &own : whole;
        bool has_fewer = false;
        trial t = {0};
        if (n > 1) MP_CHECK(load(whole, options, n, &own, &has_fewer, err));
        if (has_fewer) break;
        int64_t *bound = &bounds[n_bounds++];
        *bound = least_ticks(w->graph);
        if (found.fits && *bound >= found.ticks) continue;
        MP_CHECK(solve(w, request, &t, err));
        *bound = mp_larger(*bound, t.bound_ticks);
        take_better(n, &t, &found);
    }
    for (int k = 0; k < n_bounds; k++)
        if (1 << k != found.n) out->other_ticks = mp_smaller(out->other_ticks, bounds[k]);
    out->n = found.n;
    const int numbers[MP_N_CHUNK_KINDS] = {[MP_CHUNK_HEAD] = found.n};
    mp_chunk_numbers_write(numbers, out->setting);
    return MP_OK;
}
