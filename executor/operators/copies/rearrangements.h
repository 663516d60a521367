/* rearrangements.h - Reshape and its like, Transpose, Reorder, DepthToSpace, SpaceToDepth as parts (mp_moving_rule). */
#pragma once

#include "executor/operators/copies/moving.h"

/* The elements in the order of their indices, under other dimensions. MP_UNSUPPORTED: between two layouts that have no common
 * factors. */
mp_status mp_moving_reshape(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_transpose(const mp_operands *x, mp_moving *m, mp_error *err);
/* Another layout of the same dimensions. */
mp_status mp_moving_reorder(const mp_operands *x, mp_moving *m, mp_error *err);
/* Blocks of b x b pixels are b * b groups of channels. */
mp_status mp_moving_depth_to_space(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_space_to_depth(const mp_operands *x, mp_moving *m, mp_error *err);
