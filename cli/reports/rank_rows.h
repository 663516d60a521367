/* rank_rows.h - what each rank of a training has measured, and all together. */
#pragma once

#include "cli/reports/train_ranks.h"
#include "formats/pages/run_trace.h"

void print_ranks(const train_outcome *t);
json_t *train_ranks_json(const train_outcome *t); /* NULL: memory is short */
/* Writes when the steps of the plan ran, of all ranks, which call it together, in one file of rank 0. MP_IO: it cannot be
 * written, or another rank has ended; MP_NOMEM. */
mp_status train_write_trace(const train_outcome *t, const ranks *r, const mp_step_time *times, const options *o, mp_error *err);
