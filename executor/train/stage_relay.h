/* stage_relay.h - transfers between pipeline stages during an evaluation.
 *
 * Messages of a training are storages of its graph. An evaluation runs the operators of the model without a graph, so it must
 * find the tensors to send. Each stage tells all others which operators it runs. Operators without a node in the graph, such
 * as views, run on the stage that needs their results. A tensor needed on a later stage is sent from stage to stage.
 *
 * Example: stage 0 computes a and b, stage 1 reads a, stage 2 reads b. Stage 0 sends both, and stage 1 sends b on. */
#pragma once

#include "executor/run/execution.h"

/* The tensors that one stage sends to the next one. */
typedef struct mp_relay_link {
    size_t n;
    int *tensors;
    mp_shard_view *pieces;
    mp_collective_work work;
} mp_relay_link;

typedef struct mp_relay {
    mp_collectives collectives;
    mp_relay_link in,
        out; /* in: from the previous stage; out: to the next stage; both are empty if the network has a single stage */
    size_t
        n_made; /* number of entries in `made`: the sent tensors that this stage computes itself, instead of passing them on */
    int *made;
} mp_relay;

/* Finds the tensors to receive and send so that the last stage can compute the wanted tensors. The lists are allocated in the
 * pool. All stages must call this function. MP_IO: a rank has ended; MP_NOMEM. O(operators x stages). */
mp_status mp_relay_open(const mp_program *program, mp_execution *execution, const int *wanted, size_t n_wanted, mp_pool *pool,
                        mp_relay *out, mp_error *err);
/* Transfers the tensors of a link, stored in values[], and waits until the receiver has them. MP_IO. */
mp_status mp_relay_run(mp_relay *relay, mp_relay_link *link, const mp_array *values, mp_error *err);
