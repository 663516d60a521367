/* order_rules.h - order constraints beyond data flow: the position of updates (mp_graph.fuse), and the nodes that write or add
 * to static storages. The file also determines the channel of a step.
 *
 * For comparison, data flow means: a reader of a storage runs after its producer and all its adders, unless the storage
 * outlives the step (liveness.h). Adders run in list order unless any_sum_order is set. */
#pragma once

#include "memplan/timeline.h"

/* The constraints on the updates of a graph, relative to backward and to readers of the parameters. */
typedef struct mp_update_order {
    bool after_backward; /* true: updates run after all loss and backward nodes; false: they may run between these nodes */
    bool after_readers;  /* true: an update runs after all readers of the storages it changes. false: before these readers, at
                            the start of the step */
    bool keeps_inputs; /* true: storages that updates read stay live to the end of the step, because updates run last or in the
                          next step */
} mp_update_order;

static inline mp_update_order mp_update_order_of(const mp_graph *graph)
{
    return (mp_update_order){.after_backward = graph->fuse == MP_FUSE_NONE,
                             .after_readers = graph->fuse != MP_FUSE_FORWARD,
                             .keeps_inputs = graph->fuse != MP_FUSE_BACKWARD};
}

/* True if a reader of a storage waits for all nodes that write or add to it in the same step. Only updates at the start of the
 * step do not wait: they read the gradients of the previous step, which are carried or static. */
static inline bool mp_waits_for_all(const mp_graph *graph, int storage, int reader)
{
    const mp_storage *s = &graph->storages[storage];
    const bool reads_old = graph->nodes[reader].phase == MP_PHASE_UPDATE && !mp_update_order_of(graph).after_readers;
    return !s->carried && !(reads_old && mp_storage_is_static(s));
}

/* Returns the node that writes a static storage, and for which `reader` must wait; -1: none. */
static inline int mp_awaited_writer(const mp_graph *graph, int storage, int reader)
{
    return mp_waits_for_all(graph, storage, reader) ? graph->writer[storage] : -1;
}

/* Returns the channel on which a step runs. If a second-stream step is not issued, it runs on compute. */
static inline int mp_step_channel(const mp_graph *graph, mp_step step)
{
    const int channel = graph->nodes[step.node].alternatives[step.alternative].channel;
    return channel == MP_CHANNEL_SECOND_STREAM && !step.until ? MP_CHANNEL_COMPUTE : channel;
}
