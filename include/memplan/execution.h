/* execution.h - how a plan is executed: updates, checks and profiles, for mp_train (train.h). */
#pragma once

#include "memplan/graph.h"
#include "memplan/optimizer.h"
#include "memplan/ranks/communicator.h"

/* A memory besides the device's, for plans that copy there (docs/internals/plan-rules.md, Tiers). */
typedef struct mp_tier_memory {
    const char *folder;     /* its file lies there, without a name, so that nothing is left of it; NULL: the program's memory */
    int64_t capacity_bytes; /* most that it may take; 0: as much as the plan takes */
    bool locked;            /* of memory: it is never swapped out */
} mp_tier_memory;

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
    mp_tier_memory tiers[MP_MAX_TIERS];       /* per tier of the graph but the device */
    double bytes_per_second[MP_MAX_CHANNELS]; /* per channel: no copy is faster; 0: as fast as it goes. With `profile`, copies
                                               * run in order */
    char *arena; /* memory of the backend's, at least as much as the plan's arena, which others use between two steps; NULL: the
                  * execution takes its own. Not with `guards`, nor for graphs that carry gradients to the next step */
    int64_t arena_bytes;        /* of that memory */
    mp_communicator *world;     /* the ranks of the program's mesh; NULL: this process is alone */
    double timeout;             /* seconds without a word of the others, after which a step fails; 0: 60 */
    struct mp_step_time *times; /* room for the times of the plan's steps, of which the last pass leaves its own; NULL: none */
    bool plain_files;           /* read and write files without io_uring, as where the kernel has none (to compare) */
} mp_execution_options;
