/* moves.h - operators that move elements and compute nothing: copies, slices, pads. What each moves where, for every
 * backend.
 */
#pragma once

#include "executor/operators/copies/moving.h"

/* X(kind, domain, rule) for each operator that is a list of parts; the rule is mp_moving_RULE. */
#define MP_MOVES(X)                       \
    X("Reshape", "", reshape)             \
    X("Reshape", "memplan", reshape)      \
    X("Flatten", "", reshape)             \
    X("Squeeze", "", reshape)             \
    X("Unsqueeze", "", reshape)           \
    X("Transpose", "", transpose)         \
    X("Concat", "", concat)               \
    X("Split", "", split)                 \
    X("Slice", "", slice)                 \
    X("Expand", "", expand)               \
    X("Tile", "", tile)                   \
    X("Pad", "", pad)                     \
    X("DepthToSpace", "", depth_to_space) \
    X("SpaceToDepth", "", space_to_depth) \
    X("Reorder", "memplan", reorder)

/* Describes the operator at hand by its rule: an mp_moving becomes the call's state, which the call releases; `run` is the
 * backend's. MP_UNSUPPORTED: operands of a type, layout or rank that cannot be moved; MP_NOMEM. */
mp_status mp_moves_prepare(const mp_operands *x, mp_call *call, mp_error *err);
