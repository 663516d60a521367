/* cuts.h - cuts the blocks of a network into pipeline stages. */
#pragma once

#include "planner/parallel/stages.h"

/* The rule by which stage boundaries are chosen. With LATE and EVEN_STAGES, the ticks of the slowest stage are as few as
 * possible. */
typedef enum mp_stage_cut {
    /* late stages get as many blocks as the slowest stage allows and early stages get few, because early stages have more
     * micro-batches in flight */
    MP_CUT_LATE,
    /* of all divisions with the fastest slowest stage, the one with the least sum of squared stage ticks, so that no stage is
     * nearly empty */
    MP_CUT_EVEN_STAGES,
    /* like EVEN_STAGES, and then blocks move to a neighbouring stage as long as the busier one of the two ranks gets less
     * work */
    MP_CUT_EVEN_RANKS,
    MP_N_CUTS
} mp_stage_cut;

/* Cuts the blocks into n_ranks * n_chunks stages of at least one block. Rank r has the stages r, r + n_ranks, ... Sets begin
 * and end of each stage. MP_NOMEM. O(stages * blocks^2); with LATE O(blocks * log(ticks)). */
mp_status mp_cut_stages(const mp_load *load, int n_ranks, int n_chunks, mp_stage_cut kind, mp_stage *stages, mp_error *err);
