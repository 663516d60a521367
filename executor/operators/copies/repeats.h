/* repeats.h - Expand, Tile, Pad as parts (mp_moving_rule): outputs that hold some elements more than once, or none. */
#pragma once

#include "executor/operators/copies/moving.h"

mp_status mp_moving_expand(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_tile(const mp_operands *x, mp_moving *m, mp_error *err);
/* MP_UNSUPPORTED: another mode, or pads that are computed while it runs. */
mp_status mp_moving_pad(const mp_operands *x, mp_moving *m, mp_error *err);
