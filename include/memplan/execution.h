/* execution.h - how a plan is executed: updates, checks and profiles, for mp_train (train.h). */
#pragma once

#include "memplan/optimizer.h"

typedef struct mp_execution_options {
    mp_hyper hyper;
    double clip_norm; /* limit on the global norm of gradients, as in mp_training_options */
    uint64_t seed;
    bool poison;     /* overwrite dead storages with NaNs, so that a later read shows (slow, for tests) */
    bool guards;     /* put gaps between all offsets, and check after each step that nothing wrote there (tests) */
    bool one_by_one; /* call the backend for every update by itself, not once for consecutive updates (to compare) */
    bool profile;    /* measure the seconds of every node */
    bool by_call;    /* call the backend for every node in every step, even if it can record a pass; poison, guards and profile
                        imply it */
} mp_execution_options;
