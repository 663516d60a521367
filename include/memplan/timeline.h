/* timeline.h - liveness of storages under an order of steps: lifetimes, live bytes, the peak and the storages live there.
 *
 * A plan is an ordered list of steps. The following rules derive all lifetimes from that list:
 *
 * - An instance of a storage begins in the step that runs its node. It ends with its last read before the next run of the node,
 *   or before the end of the list. An output that no step reads lives only during the step that writes it.
 * - A sum begins with its first contribution (`adds`) and ends with its last read or contribution. A read is valid only after
 *   all adders have run. Contributions follow the node order unless any_sum_order is set.
 * - A carried gradient lives from step 0 to its last read before its first contribution, and from that contribution to the last
 *   step.
 * - An output takes over the memory of an input if the input is at least as large and ends in the same step. The node's
 *   in-place pairs are tried in order. Each input and each output is used in at most one pair.
 * - Static storages count once, as static bytes.
 *
 * A plan may issue a step on a channel other than compute and let a later step wait for it (mp_step.until). The steps before
 * `until` then run concurrently with it:
 *
 * - The storages that the issued step reads, writes and adds to, and its workspace, are live until `until`. No other storage
 *   takes over their memory.
 * - No concurrent step writes or adds to an input of the issued step, or uses one of its outputs. Exception: issued steps of
 *   the same channel run one after the other. A later issued step may read these outputs, and may write them if they are always
 *   live.
 *
 * The bytes of a storage count in its tier, workspaces on the device. makespan.h defines the time. live_bytes[t] is the number
 * of bytes allocated on the device during step t, with workspace and without static bytes.
 *
 *     // given: const mp_graph *graph; mp_error *err
 *     MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
 *     MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
 *     const size_t n = mp_keep_all(graph, steps); // the baseline
 *     MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
 *     printf("%lld bytes\n", (long long)timeline->peak_bytes);
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_step {
    int node;
    int alternative; /* 0: the base alternative; k: the node's alternative k */
    int until; /* 0: the step runs in order. Otherwise the step is issued on its alternative's channel, and the step with index
                  `until` waits for it (n: the end of the plan) */
} mp_step;

/* Returns the end of step t: t + 1 if the step runs in order, else the index of the step that waits for it. O(1). */
static inline int mp_step_end(const mp_step *steps, int t)
{
    return steps[t].until > t ? steps[t].until : t + 1;
}

typedef struct mp_span {
    int storage;
    int begin, end; /* the instance is live in steps [begin, end) */
    int takes_over; /* the storage whose memory this instance takes over at `begin`; -1: no storage */
} mp_span;

/* Returns the first step whose live bytes include the instance. If the instance takes over memory in its first step, it
 * counts only from the next step on. O(1). */
static inline int mp_span_counts_from(const mp_span *span)
{
    return span->begin + (span->takes_over >= 0);
}

/* The memory use of one tier over all steps. */
typedef struct mp_tier_use {
    int64_t *live_bytes; /* live bytes of the tier during each step, without static bytes */
    int64_t static_bytes;
    int64_t peak_bytes; /* peak of the tier: static_bytes plus the maximum of live_bytes */
    int peak_step;      /* index of the first step at the peak; -1: there are no steps */
} mp_tier_use;

typedef struct mp_timeline {
    size_t n_steps, n_tiers;
    mp_tier_use *tiers;  /* memory use per tier; tier 0 is the device, and the next four members repeat its values */
    int64_t *live_bytes; /* live bytes on the device during each step, without static bytes */
    int64_t static_bytes;
    int64_t peak_bytes;
    int peak_step;
    int64_t *concurrent_bytes; /* per step: workspace bytes of steps that run concurrently, a part of live_bytes; NULL: no step
                                  is concurrent with another */
    int64_t ticks;             /* the makespan in ticks; if all steps run on the compute channel, the sum of their ticks */
    size_t n_spans;
    mp_span *spans; /* all instances, sorted by (begin, storage) */
} mp_timeline;

/* Derives the timeline of steps[0..n). Release *out with mp_timeline_free (NULL is allowed). MP_INVALID: a step reads a storage
 * that is not produced yet, reads an incomplete sum, adds out of order, or conflicts with a concurrent step. The message names
 * the node. This function does not check whether the list runs all nodes; check.h does. MP_NOMEM. O(l + s log s) for l reads,
 * writes and adds of all steps, and s spans. */
mp_status mp_timeline_build(const mp_graph *graph, const mp_step *steps, size_t n, mp_timeline **out, mp_error *err);
void mp_timeline_free(mp_timeline *timeline);
MP_OWNER(mp_timeline_free, mp_timeline)

/* Finds the instances that are live on the device at a step, sorted by descending size, then by storage. Writes up to `most`
 * indices into timeline->spans to `spans`. Returns the number of live instances. O(spans). */
size_t mp_timeline_holders(const mp_graph *graph, const mp_timeline *timeline, int step, int *spans, size_t most);

/* Writes the live bytes on the device between the steps, static bytes included. between_bytes[t] is the value before step t,
 * between_bytes[n_steps] the value after the last step. O(spans + steps). */
void mp_timeline_between(const mp_graph *graph, const mp_timeline *timeline, int64_t *between_bytes);

/* Writes the steps of keep-all, the baseline of every percentage. Returns their number, mp_graph_n_required. Keep-all runs
 * every node that is not optional once, in list order, in the base alternative. Updates run after all of backward. If
 * updates are fused into the next forward pass, they run first, because such a training step begins with the updates of the
 * previous gradients. State in another tier is copied in at the start and out at the end, concurrently with the other steps. */
size_t mp_keep_all(const mp_graph *graph, mp_step *steps);
