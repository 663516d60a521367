/* holding.h - what the stages of a rank hold: parameters, and of what their blocks keep as much as fits. */
#pragma once

#include "planner/parallel/player.h"

/* Adds up parameters block by block. The pool owns the arrays. MP_NOMEM. O(blocks + parameters). */
mp_status mp_player_new(const mp_step_request *request, mp_pool *pool, mp_player *x, mp_error *err);
/* Returns the sums of the parameters that a stage is the first to read. */
mp_block_sums mp_player_sums(const mp_player *x, const mp_stage *stage);
/* Fills in what the stages of a rank hold, and returns whether that fits. */
bool mp_player_hold(const mp_player *x, mp_stage *stages, int rank);
