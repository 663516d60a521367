/* inputs.h - copies a feed's batches to the inputs of a program, in the layouts of the backend. */
#pragma once

#include "executor/data/feed.h"
#include "executor/data/prefetch.h"
#include "executor/run/execution.h"
#include "memplan/inputs.h"

/* Copies successive batches into an execution. Pass mp_inputs_fill as its mp_fill_inputs, with the filler as data. */
typedef struct mp_input_filler {
    const mp_program *program;
    mp_feed *feed;
    int *tensors;
    size_t n;
    mp_array *there;       /* per data input: its array in the execution */
    mp_prefetch *prefetch; /* prepares batches in advance; NULL: they are created on demand in `rows` */
    void **rows, **parts;  /* per data input: a row-major batch, and this rank's part of it */
    bool any_in_parts;
    mp_pool *pool;
} mp_input_filler;

/* Returns the part of the data that a rank uses in a training. */
mp_feed_part mp_inputs_part(const mp_program *program, const mp_rank_place *place);
/* As mp_inputs_open_feed, but a rank may read only its own part. */
mp_status mp_inputs_open_part(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              const mp_feed_part *part, mp_feed **out, mp_error *err);

/* Creates a filler; the backend must be open. Release it with mp_input_filler_free. MP_NOMEM. */
mp_status mp_input_filler_new(const mp_program *program, mp_feed *feed, mp_input_filler *out, mp_error *err);
void mp_input_filler_free(mp_input_filler *filler); /* does nothing for a zeroed one */
mp_status mp_inputs_fill(void *filler, int64_t micro_batch, mp_execution *execution, mp_error *err);
