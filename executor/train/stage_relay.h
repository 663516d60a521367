/* stage_relay.h - what goes from stage to stage of a pipeline when a batch is evaluated.
 *
 * A training's messages are storages of its graph; an evaluation runs the operators of the model, and has memory for tensors.
 * So stages tell each other which operators they run. Those of which no stage has a node, such as views, run where they are
 * needed. Every tensor that a stage needs and an earlier one makes goes from that one to the next, and on.
 *
 * Stage 0 makes a and b, stage 1 reads a, stage 2 reads b: stage 0 sends both, and stage 1 sends b on.
 */
#pragma once

#include "executor/run/execution.h"

/* The tensors that go from one stage to the next one. */
typedef struct mp_relay_link {
    size_t n;
    int *tensors;
    mp_piece *pieces;
    mp_collective_work work;
} mp_relay_link;

typedef struct mp_relay {
    mp_collectives collectives;
    mp_relay_link in, out; /* from the stage before, and to the next one; of a network that is not cut both are empty */
    size_t n_made;         /* of those that go out, how many this stage makes itself */
    int *made;
} mp_relay;

/* Finds what this stage receives and sends so that the last one has the wanted tensors. The lists lie in the pool. All stages
 * call it. MP_IO: a rank has ended; MP_NOMEM. O(operators x stages). */
mp_status mp_relay_open(const mp_program *program, mp_execution *execution, const int *wanted, size_t n_wanted, mp_pool *pool,
                        mp_relay *out, mp_error *err);
/* Moves the tensors of a link, whose memory is in values[], and waits until they have been taken. MP_IO. */
mp_status mp_relay_run(mp_relay *relay, mp_relay_link *link, const mp_array *values, mp_error *err);
