/* timeline.h - liveness of storages under an order of steps: lifetimes, live bytes, the peak and who holds it.
 *
 * Rules (a plan is an ordered list of steps; everything else follows):
 *  - an instance of a storage begins in the step in which its node runs, and ends with its last read before the node runs
 * again, or before the end; an output that nobody reads lives for its own step;
 *  - a sum begins with the first contribution (`adds`) and ends with its last read or contribution; it may be read only after
 * all its adders have run, and contributions come in node order unless any_sum_order;
 *  - a carried gradient lives from step 0 to its last read before its first contribution, and from there to the last step;
 *  - an output takes over the memory of an input of at least its size that ends in the same step, for the first listed in-place
 *    pair that fits, each input and output at most once;
 *  - storages that are always live count once, as static bytes.
 * A step whose alternative is on another channel than compute may be issued (`until`); the steps up to `until` run beside it:
 *  - what it reads, writes and adds to, and its workspace, is live until then, and nobody takes over its memory;
 *  - no step in between writes or adds to what it reads, or touches what it writes or adds to. An issued step of the same
 *    channel comes after it: it may read that, and write it where it is always live.
 * All bytes count in the tier of their storage, workspaces on the device; the time is that of makespan.h.
 * live_bytes[t] is what is allocated on the device while step t runs, workspace included, static bytes excluded.
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
    int until; /* 0: runs in order; else it is issued on its alternative's channel, and the step of this index (n: the end)
                * waits for it */
} mp_step;

/* Returns the end of step t: t + 1 if it runs in order, else the step that waits for it. O(1). */
static inline int mp_step_end(const mp_step *steps, int t)
{
    return steps[t].until > t ? steps[t].until : t + 1;
}

typedef struct mp_span {
    int storage;
    int begin, end; /* steps [begin, end) */
    int takes_over; /* the storage whose memory it takes over at `begin`, -1: none */
} mp_span;

/* Returns the first step in whose live bytes the instance counts: in its first step it may be in another's memory. O(1). */
static inline int mp_span_counts_from(const mp_span *span)
{
    return span->begin + (span->takes_over >= 0);
}

/* The use of one memory. */
typedef struct mp_tier_use {
    int64_t *live_bytes; /* per step */
    int64_t static_bytes;
    int64_t peak_bytes; /* static_bytes + the highest live_bytes */
    int peak_step;      /* the first step at the peak; -1 without steps */
} mp_tier_use;

typedef struct mp_timeline {
    size_t n_steps, n_tiers;
    mp_tier_use *tiers;  /* of all tiers; the device's once more in the four members that follow */
    int64_t *live_bytes; /* per step */
    int64_t static_bytes;
    int64_t peak_bytes;
    int peak_step;
    int64_t *concurrent_bytes; /* per step: the part that is workspace of concurrent steps; NULL: none run concurrently */
    int64_t ticks;             /* the makespan; with compute alone the sum of all steps' ticks */
    size_t n_spans;
    mp_span *spans; /* ordered by (begin, storage) */
} mp_timeline;

/* Derives the timeline of steps[0..n). On MP_OK *out is released with mp_timeline_free (NULL is fine). MP_INVALID: a step reads
 * what nothing has produced, or a sum before it is complete, or adds out of order, or touches what a concurrent step does not
 * permit; names the node. It does not judge whether the plan is complete (memplan/check.h does). MP_NOMEM. O(list lengths of
 * the steps + spans log spans). */
mp_status mp_timeline_build(const mp_graph *graph, const mp_step *steps, size_t n, mp_timeline **out, mp_error *err);
void mp_timeline_free(mp_timeline *timeline);
MP_OWNER(mp_timeline_free, mp_timeline)

/* Finds the instances that are live on the device at a step, largest first (ties by storage): writes up to `most` indices into
 * timeline->spans to `spans`, and returns how many there are. O(spans). */
size_t mp_timeline_holders(const mp_graph *graph, const mp_timeline *timeline, int step, int *spans, size_t most);

/* Writes the bytes that are live on the device between the steps, static bytes included: between_bytes[t] before step t,
 * between_bytes[n_steps] after the last. O(spans + steps). */
void mp_timeline_between(const mp_graph *graph, const mp_timeline *timeline, int64_t *between_bytes);

/* Writes the mp_graph_n_required steps of keep-all, the baseline of every percentage, and returns their number: all nodes
 * that are not optional in list order, base alternatives, nothing twice. Updates come after all of backward; with forward-fused
 * updates they all come first (the training step is cut at another place). State in another
 * tier is brought in at the start and out at the end, beside everything else. */
size_t mp_keep_all(const mp_graph *graph, mp_step *steps);
