/* rank_results.h - compares facts across ranks at the start of a training, and adds the losses of all ranks after each step. */
#pragma once

#include "executor/run/addresses.h"

/* Checks that ranks agree on n facts. Compares only the ranks of one stage of a pipeline: each block of `block` consecutive
 * ranks. MP_INVALID: two ranks differ; MP_IO, MP_NOMEM. */
mp_status mp_ranks_agree(mp_communicator *world, int block, const mp_fact *facts, size_t n, double timeout, mp_error *err);
/* Returns the loss, given the sum of the values of all tp ranks. Each value is either a part of the loss, or the mean over the
 * rank's positions (targets). */
double mp_loss_of_sum(const mp_program *program, double sum);
/* Adds the losses of a step over n passes and over all ranks with different samples: pass by pass, and within a pass rank by
 * rank. `own` holds this rank's losses, which count only if it computes the loss. `all` has room for the losses of all ranks.
 * MP_IO: a rank has ended or did not answer. */
mp_status mp_rank_losses(const mp_addresses *addresses, mp_communicator *world, double timeout, const float *own, size_t n,
                         float *all, double *sum, mp_error *err);
