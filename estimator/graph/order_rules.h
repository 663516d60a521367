/* order_rules.h - which nodes wait for which beyond plain data flow: what `fuse` says of updates, and who waits for the writer
 * of an always-live storage. Data flow itself: a reader waits for the producer and for all adders of a storage, unless that
 * outlives the step (liveness.h); adders come in list order, unless any_sum_order. And where a step runs.
 */
#pragma once

#include "memplan/timeline.h"

/* Where the graph's updates run. */
typedef struct mp_update_order {
    bool after_backward; /* after all loss and backward nodes; else where they may, beside these */
    bool after_readers;  /* after the nodes that read what they change; else before these, at the start of the step */
    bool keeps_inputs;   /* what they read lives to the end of the step: they run last, or in the step after */
} mp_update_order;

static inline mp_update_order mp_update_order_of(const mp_graph *graph)
{
    return (mp_update_order){.after_backward = graph->fuse == MP_FUSE_NONE,
                             .after_readers = graph->fuse != MP_FUSE_FORWARD,
                             .keeps_inputs = graph->fuse != MP_FUSE_BACKWARD};
}

/* Returns the node that writes an always-live storage and for which this reader waits, -1 if there is none: updates do not
 * wait. */
static inline int mp_awaited_writer(const mp_graph *graph, int storage, int reader)
{
    return graph->nodes[reader].phase == MP_PHASE_UPDATE ? -1 : graph->writer[storage];
}

/* Returns the channel on which a step runs: compute for one of the second stream that is not issued. */
static inline int mp_step_channel(const mp_graph *graph, mp_step step)
{
    const int channel = graph->nodes[step.node].alternatives[step.alternative].channel;
    return channel == MP_CHANNEL_SECOND_STREAM && !step.until ? MP_CHANNEL_COMPUTE : channel;
}
