/* statistics.h - batch normalization by the statistics of all samples that the ranks have at once, instead of each rank's own.
 *
 * Every rank sums its own samples, and gives each other one two numbers per channel: in forward their mean and the sum of
 * squares around it, in backward the sums of the gradient and of its products with the input. All ranks join them in the order
 * of the ranks, so all have the same bits. (Peng et al. 2018, "MegDet".) Such an operator has the attribute "ranks".
 */
#pragma once

#include "estimator/model/model.h"
#include "memplan/ranks/exchange.h"

/* Returns the ranks that have samples of their own, of dp and shard, and of tp where that shares the batch out. */
mp_rank_group mp_statistics_group(const mp_mesh *mesh);

/* Lets the batch normalizations of an inferred model share their statistics, if the ranks do; for one rank nothing changes.
 * MP_NOMEM. O(operators). */
mp_status mp_model_share_statistics(mp_model *model, const mp_ranks *ranks, mp_error *err);

/* Returns the bytes that all ranks together give for an operator, in forward and as many in backward; 0: it shares nothing. */
int64_t mp_statistics_bytes(const mp_model *model, const mp_operator *op);
