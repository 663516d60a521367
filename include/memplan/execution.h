/* execution.h - how a plan is executed: updates, checks and profiles, for mp_train (train.h). */
#pragma once

#include "memplan/optimizer.h"

typedef struct mp_execution_options {
    mp_hyper hyper;
    double clip_norm; /* as in the program's options */
    uint64_t seed;
    bool poison;     /* overwrite what has died with NaNs, so that reading it shows (slow, for tests) */
    bool guards;     /* put gaps between all offsets, and look after each step whether they were written to (tests) */
    bool one_by_one; /* call the backend for every update on its own, not for all that follow on each other (to compare) */
    bool profile;    /* keep the time of every node */
    bool
        by_call; /* call the backend for every node in every step, though it can record a pass; poison, guards and profile do */
} mp_execution_options;
