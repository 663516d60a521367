/* rank_results.h - what ranks tell each other at the beginning and the end of a training, and after each step. */
#pragma once

#include "executor/run/addresses.h"

/* As mp_communicator_agree, within each of the blocks of so many ranks that follow each other: the stages of a pipeline. */
mp_status mp_ranks_agree(mp_communicator *world, int block, const mp_fact *facts, size_t n, double timeout, mp_error *err);
/* Returns a loss of which the ranks that split operators have parts, or each a value for its positions, from their sum. */
double mp_loss_of_sum(const mp_program *program, double sum);
/* Adds up the losses of a step, of n passes on each of the ranks that have data: pass after pass, and in each rank after rank.
 * `own` are this rank's, which count where it has the loss; `all` has room for those of all ranks. MP_IO: a rank has ended, or
 * gave no answer. */
mp_status mp_rank_losses(const mp_addresses *addresses, mp_communicator *world, double timeout, const float *own, size_t n,
                         float *all, double *sum, mp_error *err);
