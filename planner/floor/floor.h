/* floor.h - the floor where the precedence of plans in any order is there already. */
#pragma once

#include "memplan/floor.h"
#include "planner/order/precedence.h"

/* Like mp_floor_explained, for the order's graph. */
mp_status mp_floor_of(const mp_precedence *order, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);
