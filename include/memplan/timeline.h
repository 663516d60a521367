/* timeline.h - liveness of storages under an order of steps: lifetimes, live bytes, the peak and the storages live there.
 *
 * A plan is an ordered list of steps. The following rules derive all lifetimes from that list:
 *
 * - An instance of a storage begins in the step that runs its node. It ends with its last read before the next run of the node,
 *   or before the end of the list. An output without a reader lives for its own step.
 * - A sum begins with its first contribution (`adds`) and ends with its last read or contribution. A read is valid only after
 *   all adders have run. Contributions follow the node order unless any_sum_order is set.
 * - A carried gradient lives from step 0 to its last read before its first contribution, and from that contribution to the last
 *   step.
 * - An output takes over the memory of an input if the input is at least as large and ends in the same step. The first in-place
 *   pair in the list that fits is used. Each input and output takes part at most once.
 * - Always-live storages count once, as static bytes.
 *
 * A step on a channel other than compute may be issued (`until`). The steps before `until` then run concurrently with it:
 *
 * - The storages that the issued step reads, writes and adds to, and its workspace, are live until `until`. No other storage
 *   takes over their memory.
 * - No concurrent step writes or adds to an input of the issued step, or uses one of its outputs. Exception: issued steps of
 *   the same channel run one after the other. A later issued step may read these outputs, and may write them if they are always
 *   live.
 *
 * Bytes count in the tier of the storage, workspaces on the device. makespan.h defines the time. live_bytes[t] is the number of
 * bytes allocated on the device during step t, with workspace and without static bytes.
 *
 *     mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
 *     mp_timeline *timeline = NULL;
 *     const size_t n = mp_keep_all(graph, steps);                            // the baseline
 *     if (mp_timeline_build(graph, steps, n, &timeline, &err) == MP_OK)
 *         printf("%lld bytes\n", (long long)timeline->peak_bytes);
 *     mp_timeline_free(timeline);
 *     mp_free(steps);
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_step {
    int node;
    int alternative; /* 0: base alternative; k: the node's k-th alternative */
    int until; /* 0: the step runs in order; else it is issued on its alternative's channel, and the step with this index (n:
                  the end) waits for it */
} mp_step;

/* Returns the end of step t: t + 1 if the step runs in order, else the index of the step that waits for it. O(1). */
static inline int mp_step_end(const mp_step *steps, int t)
{
    return steps[t].until > t ? steps[t].until : t + 1;
}

typedef struct mp_span {
    int storage;
    int begin, end; /* the instance is live in steps [begin, end) */
    int takes_over; /* the storage whose memory this instance takes over at `begin`; -1: none */
} mp_span;

/* Returns the first step whose live bytes include the instance. An instance that takes over memory in its first step counts
 * from the next step. O(1). */
static inline int mp_span_counts_from(const mp_span *span)
{
    return span->begin + (span->takes_over >= 0);
}

/* The memory use of one tier over all steps. */
typedef struct mp_tier_use {
    int64_t *live_bytes; /* live bytes of the tier during each step, without static bytes */
    int64_t static_bytes;
    int64_t peak_bytes; /* static_bytes plus the largest of live_bytes */
    int peak_step;      /* the first step at the peak; -1 if there are no steps */
} mp_tier_use;

typedef struct mp_timeline {
    size_t n_steps, n_tiers;
    mp_tier_use *tiers;  /* memory use per tier; tier 0 is the device, and the next four members repeat its values */
    int64_t *live_bytes; /* live bytes on the device during each step, without static bytes */
    int64_t static_bytes;
    int64_t peak_bytes;
    int peak_step;
    int64_t *concurrent_bytes; /* per step: workspace of concurrent steps, a part of live_bytes; NULL: no concurrent steps */
    int64_t ticks;             /* the makespan in ticks; if all steps run on the compute channel, the sum of their ticks */
    size_t n_spans;
    mp_span *spans; /* all instances, ordered by (begin, storage) */
} mp_timeline;

/* Derives the timeline of steps[0..n). Release *out with mp_timeline_free (NULL is allowed). MP_INVALID names the node: a step
 * reads a storage without a producer, reads an incomplete sum, adds out of order, or conflicts with a concurrent step.
 * Completeness of the plan is not checked; check.h does that. MP_NOMEM. O(list lengths of the steps + spans log spans). */
mp_status mp_timeline_build(const mp_graph *graph, const mp_step *steps, size_t n, mp_timeline **out, mp_error *err);
void mp_timeline_free(mp_timeline *timeline);
MP_OWNER(mp_timeline_free, mp_timeline)

/* Finds the instances that are live on the device at a step, largest first (ties by storage). Writes up to `most` indices into
 * timeline->spans to `spans`. Returns the number of live instances. O(spans). */
size_t mp_timeline_holders(const mp_graph *graph, const mp_timeline *timeline, int step, int *spans, size_t most);

/* Writes the live bytes on the device between steps, static bytes included: between_bytes[t] before step t,
 * between_bytes[n_steps] after the last step. O(spans + steps). */
void mp_timeline_between(const mp_graph *graph, const mp_timeline *timeline, int64_t *between_bytes);

/* Writes keep-all, the baseline of every percentage, and returns its number of steps, mp_graph_n_required. Keep-all runs every
 * node that is not optional once, in list order, in the base alternative. Updates run after all of backward. With forward-fused
 * updates they run first, because the training step is cut at another place. State in another tier is copied in at the start
 * and out at the end, concurrently with the other steps. */
size_t mp_keep_all(const mp_graph *graph, mp_step *steps);
