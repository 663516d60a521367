/* rank_rows.h - prints the measurements of each rank of a training, and of all ranks together. */
#pragma once

#include "cli/options/options.h"
#include "cli/reports/train_ranks.h"
#include "formats/pages/run_trace.h"

void print_ranks(const train_outcome *t);
json_t *train_ranks_json(const train_outcome *t); /* NULL: out of memory */
/* Writes a trace of the plan's steps on all ranks to one file. Rank 0 writes it, and all ranks must call the function
 * together. MP_IO: the file cannot be written, or another rank has ended. MP_NOMEM. */
mp_status train_write_trace(const train_outcome *t, const ranks *r, const mp_step_time *times, const options *o, mp_error *err);
