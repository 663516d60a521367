/* experts.h - a model whose experts lie on different ranks.
 *
 * A stack of matrices, one for each expert, is a parameter (experts, in, out) of a product whose data is (experts, tokens, in).
 * Over n ranks each has 1/n of the experts, and tokens of its own. An all-to-all gives each rank what all ranks have for its
 * experts, and another one gives the results back. What stands between two products, element by element, is done where the
 * experts are:
 *
 *     4 experts, ep=2, 6 tokens for each             forward                       backward
 *     parts [4, 6, 16]                               AllToAll -> [2, 12, 16]       AllToAll
 *     up: weight [2, 16, 32] of [4, 16, 32]          [2, 12, 32]
 *     gelu                                           [2, 12, 32]
 *     down: weight [2, 32, 16] of [4, 32, 16]        [2, 12, 16]
 *                                                    AllToAll -> [4, 6, 16]        AllToAll
 *
 * The load is balanced: every expert has as many tokens as the model says. Parameters of experts, and their gradients, are
 * marked (is_spread): the n ranks have different ones, and only ranks with the same experts sum them (exchange.h). (Lepikhin et
 * al. 2020, "GShard".)
 */
#pragma once

#include "estimator/model/model.h"
#include "memplan/ranks/mesh.h"

/* Spreads the experts of a simplified model over mesh.ep, in place, before it is split over tp; for ep=1 it does nothing.
 * MP_INVALID: there are no experts, or ep does not divide them; MP_NOMEM. O(operands). */
mp_status mp_model_spread_experts(mp_model *model, const mp_mesh *mesh, mp_error *err);
