/* execution_state.h - the members of an execution. */
#pragma once

#include "executor/run/calls.h"
#include "executor/run/channels.h"
#include "executor/run/clipping.h"
#include "executor/run/execution.h"
#include "executor/run/stage_turns.h"
#include "executor/run/states.h"

/* Passes of one kind run the same calls on the same addresses, so they share a recording. A kind has two bits. MP_RUN_ADDS:
 * the pass adds to the gradients of earlier micro-batches. MP_RUN_UPDATES: the pass updates parameters. */
enum { MP_RUN_ADDS = 1, MP_RUN_UPDATES = 2, MP_RUN_KINDS = 4 };

typedef struct mp_run_kind {
    bool has_run;
    void *recording; /* the backend's recording of this kind of pass; NULL: no pass of this kind has been recorded */
} mp_run_kind;

struct mp_execution {
    mp_program *program;
    const mp_plan *plan;
    mp_execution_options options;
    mp_addresses at;
    mp_update *updates; /* one update per trained parameter */
    mp_clipping clipping;
    /* with forward-fused updates: the training step whose gradients have not been applied yet; -1: none */
    int64_t pending;
    mp_update_factors factors; /* scalars of the updates that are running, such as the learning rate */
    bool records;
    mp_run_kind kinds[MP_RUN_KINDS];
    mp_calls calls;
    mp_channels channels;
    double *seconds, input_seconds;
    float *losses;        /* this rank's loss of each micro-batch in the current step */
    float *all_losses;    /* the losses of all ranks: rank by rank, within a rank micro-batch by micro-batch */
    mp_stage_turns turns; /* the turns of a pipeline stage; empty if the program runs a whole network */
    mp_watch *watch;      /* NULL: operands are not inspected */
    mp_states states;
    mp_pool *pool;
};

/* Returns the seconds after which a silent rank counts as failed. */
static inline double mp_execution_timeout(const mp_execution *e)
{
    return e->channels.ranks.collectives.timeout;
}
