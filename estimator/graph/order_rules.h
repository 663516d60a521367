/* order_rules.h - order constraints beyond data flow: the place of updates according to `fuse`, and the writers of always-live
 * storages. Also the channel of a step.
 *
 * Data flow itself: a reader runs after the producer and all adders of a storage, unless the storage outlives the step
 * (liveness.h). Adders run in list order unless any_sum_order is set. */
#pragma once

#include "memplan/timeline.h"

/* When the updates of a graph may run, relative to backward and to readers of the parameters. */
typedef struct mp_update_order {
    bool after_backward; /* updates run after all loss and backward nodes; false: they may run among these nodes */
    bool after_readers;  /* an update runs after the readers of the storages it changes; false: before them, at the start of the
                            step */
    bool keeps_inputs; /* storages that updates read stay live to the end of the step: updates run last, or in the next step */
} mp_update_order;

static inline mp_update_order mp_update_order_of(const mp_graph *graph)
{
    return (mp_update_order){.after_backward = graph->fuse == MP_FUSE_NONE,
                             .after_readers = graph->fuse != MP_FUSE_FORWARD,
                             .keeps_inputs = graph->fuse != MP_FUSE_BACKWARD};
}

/* Returns the node that writes an always-live storage and must run before this reader; -1: none. Updates do not wait. */
static inline int mp_awaited_writer(const mp_graph *graph, int storage, int reader)
{
    return graph->nodes[reader].phase == MP_PHASE_UPDATE ? -1 : graph->writer[storage];
}

/* Returns the channel on which a step runs. A second-stream step that is not issued runs on compute. */
static inline int mp_step_channel(const mp_graph *graph, mp_step step)
{
    const int channel = graph->nodes[step.node].alternatives[step.alternative].channel;
    return channel == MP_CHANNEL_SECOND_STREAM && !step.until ? MP_CHANNEL_COMPUTE : channel;
}
