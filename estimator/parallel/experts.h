/* experts.h - expert parallelism: distributes the experts of a model over ranks.
 *
 * The matrices of all experts are one parameter (experts, in, out) of a product with data (experts, tokens, in). Each of n
 * ranks holds 1/n of the experts, and its own tokens. An all-to-all sends the tokens to the ranks of their experts, and another
 * one returns the results. Elementwise operators between two products run on the ranks of the experts:
 *
 *     4 experts, ep=2, 6 tokens for each             forward                       backward
 *     parts [4, 6, 16]                               AllToAll -> [2, 12, 16]       AllToAll
 *     up: weight [2, 16, 32] of [4, 16, 32]          [2, 12, 32]
 *     gelu                                           [2, 12, 32]
 *     down: weight [2, 32, 16] of [4, 32, 16]        [2, 12, 16]
 *                                                    AllToAll -> [4, 6, 16]        AllToAll
 *
 * The load is balanced: every expert has the number of tokens in the model. Expert parameters and their gradients are marked
 * (is_spread), because the n ranks hold different experts. Only ranks with the same experts sum these gradients (exchange.h).
 * (Lepikhin et al. 2020, "GShard".) */
#pragma once

#include "estimator/model/model.h"
#include "memplan/ranks/mesh.h"

/* Distributes the experts of a simplified model over mesh.ep, in place, before the split over tp. If ep is 1, the model is
 * unchanged. MP_INVALID: no experts, or ep does not divide their number. MP_NOMEM. O(operands). */
mp_status mp_model_spread_experts(mp_model *model, const mp_mesh *mesh, mp_error *err);
