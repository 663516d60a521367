/* execution_state.h - what an execution is made of. */
#pragma once

#include "executor/run/calls.h"
#include "executor/run/channels.h"
#include "executor/run/clipping.h"
#include "executor/run/execution.h"
#include "executor/run/stage_turns.h"
#include "executor/run/states.h"

/* Passes of one kind run the same calls on the same addresses, so they share a recording. Two bits say whether a pass adds
 * to gradients, and whether it updates. */
enum { MP_RUN_ADDS = 1, MP_RUN_UPDATES = 2, MP_RUN_KINDS = 4 };

typedef struct mp_run_kind {
    bool has_run;
    void *recording; /* made by the backend; NULL: none yet */
} mp_run_kind;

struct mp_execution {
    mp_program *program;
    const mp_plan *plan;
    mp_execution_options options;
    mp_addresses at;
    mp_update *updates; /* array with an element per trained parameter */
    mp_clipping clipping;
    int64_t pending;           /* forward-fused updates: the step whose gradients wait for their update, -1: none */
    mp_update_factors factors; /* factors of the updates that run now */
    bool records;
    mp_run_kind kinds[MP_RUN_KINDS];
    mp_calls calls;
    mp_channels channels;
    double *seconds, input_seconds;
    float *losses;        /* of a step's passes, this rank's */
    float *all_losses;    /* of those of all ranks */
    mp_stage_turns turns; /* of a stage of a pipeline */
    mp_watch *watch;      /* NULL: operands are not watched */
    mp_states states;
    mp_pool *pool;
};

/* Returns the seconds for which other ranks may be silent. */
static inline double mp_execution_timeout(const mp_execution *e)
{
    return e->channels.ranks.collectives.timeout;
}
