/* cuts.h - cuts the blocks of a network into pipeline stages. */
#pragma once

#include "planner/parallel/stages.h"

/* The way to choose the stage boundaries. With LATE and EVEN_STAGES, the slowest stage is as fast as possible. */
typedef enum mp_stage_cut {
    MP_CUT_LATE,        /* late stages get as many blocks as that allows and early stages few, because early stages have more
                           micro-batches in flight */
    MP_CUT_EVEN_STAGES, /* the slowest stage is as fast as possible, and the sum of squared stage ticks is least: no stage is
                           nearly empty */
    MP_CUT_EVEN_RANKS,  /* EVEN_STAGES, then blocks move to a neighbour while the busier of the two ranks becomes less busy */
    MP_N_CUTS
} mp_stage_cut;

/* Cuts the blocks into n_ranks * n_chunks stages of at least one block. Rank r has stages r, r + n_ranks, ... Fills in begin
 * and end of each stage. MP_NOMEM. O(stages * blocks^2); LATE: O(blocks * log(ticks)). */
mp_status mp_cut_stages(const mp_load *load, int n_ranks, int n_chunks, mp_stage_cut kind, mp_stage *stages, mp_error *err);
