/* statistics.h - synchronized batch normalization: statistics over the samples of all ranks instead of each rank's own.
 *
 * Every rank reduces its own samples to two numbers per channel, and sends them to all other ranks. In forward, the two
 * numbers are the mean and the sum of squared deviations. In backward, they are the sum of the gradient, and the sum of its
 * products with the input. Each rank combines the numbers in rank order, so all ranks have bit-identical results. (Peng et
 * al. 2018, "MegDet".) Such an operator has the attribute "ranks". */
#pragma once

#include "estimator/model/model.h"
#include "memplan/ranks/exchange.h"

/* Returns the group of ranks that have different samples: the ranks of dp and shard, and also of tp if tp splits the batch. */
mp_rank_group mp_statistics_group(const mp_mesh *mesh);

/* Lets the batch normalizations of an inferred model use the samples of all ranks, if the ranks share statistics. With one
 * rank, the model is unchanged. MP_NOMEM. O(operators). */
mp_status mp_model_share_statistics(mp_model *model, const mp_ranks *ranks, mp_error *err);

/* Returns the bytes that all ranks together send for the shared statistics of an operator in forward. Backward sends the
 * same number. 0: the operator has no shared statistics. */
int64_t mp_statistics_bytes(const mp_model *model, const mp_operator *op);
