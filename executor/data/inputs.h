/* inputs.h - copies batches of data to the inputs of a program, in the layouts of the backend. */
#pragma once

#include "executor/data/feed.h"
#include "executor/data/prefetch.h"
#include "executor/run/execution.h"
#include "memplan/inputs.h"

/* Copies successive batches of data into an execution. To use it, pass mp_inputs_fill as mp_fill_inputs, and this struct as
 * data. */
typedef struct mp_input_filler {
    const mp_program *program;
    mp_feed *feed;
    int *tensors;
    size_t n;
    mp_array *there;       /* for each data input: the input's array in the execution's memory */
    mp_prefetch *prefetch; /* prepares batches in advance; NULL: each batch is read when it is needed, into `rows` */
    void **rows, **parts;  /* for each data input: memory for a row-major batch, and for this rank's shard of the batch */
    bool any_in_parts;
    mp_pool *pool;
} mp_input_filler;

/* Returns the part of the data that this rank reads in a training. */
mp_feed_part mp_inputs_part(const mp_program *program, const mp_rank_position *place);
/* Opens a feed for the inputs of a program, as mp_inputs_open_feed. This rank reads only its part of the data. */
mp_status mp_inputs_open_part(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              const mp_feed_part *part, mp_feed **out, mp_error *err);

/* Creates a filler, which copies batches of data to the inputs of a program. The program's backend must be open. Release it
 * with mp_input_filler_free. MP_NOMEM. */
mp_status mp_input_filler_new(const mp_program *program, mp_feed *feed, mp_input_filler *out, mp_error *err);
/* Releases the filler's memory and thread; does nothing if *filler is zeroed. */
void mp_input_filler_free(mp_input_filler *filler);
mp_status mp_inputs_fill(void *filler, int64_t micro_batch, mp_execution *execution, mp_error *err);
