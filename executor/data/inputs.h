/* inputs.h - from a feed's batches to the inputs of a program, as they lie there. */
#pragma once

#include "executor/data/feed.h"
#include "executor/data/prefetch.h"
#include "executor/run/execution.h"
#include "memplan/inputs.h"

/* Brings one batch after the other into an execution: its mp_fill_inputs is mp_inputs_fill with the filler as data. */
typedef struct mp_input_filler {
    const mp_program *program;
    mp_feed *feed;
    int *tensors;
    size_t n;
    mp_array *there;       /* per data input: where it is put */
    mp_prefetch *prefetch; /* makes batches ahead; NULL: they are made when they are asked for, in `rows` */
    void **rows;           /* per data input: a batch in the order of its dimensions */
    mp_pool *pool;
} mp_input_filler;

/* The backend is open. Release with mp_input_filler_free. MP_NOMEM. */
mp_status mp_input_filler_new(const mp_program *program, mp_feed *feed, mp_input_filler *out, mp_error *err);
void mp_input_filler_free(mp_input_filler *filler); /* a zeroed one is fine */
mp_status mp_inputs_fill(void *filler, int64_t micro_batch, mp_execution *execution, mp_error *err);
