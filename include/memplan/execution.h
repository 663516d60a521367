/* execution.h - how a plan is executed: updates, checks and profiles, for mp_train (train.h). */
#pragma once

#include "memplan/graph.h"
#include "memplan/optimizer.h"
#include "memplan/ranks/communicator.h"

/* A memory other than the device's, for plans that copy to it (docs/internals/plan-rules.md, Tiers). */
typedef struct mp_tier_memory {
    const char *folder; /* folder of an unnamed file, which the system deletes at exit; NULL: host memory */
    int64_t
        capacity_bytes; /* limit of the bytes that the execution allocates in this memory; 0: as much as the plan requires */
    bool locked;        /* for host memory: locked, so that it is never swapped out */
} mp_tier_memory;

typedef struct mp_execution_options {
    mp_hyper hyper;
    double clip_norm; /* limit on the global norm of gradients, as in mp_training_options */
    uint64_t seed;
    bool poison;     /* fill dead storages with NaNs, so that reading them is noticed (slow, for tests) */
    bool guards;     /* leave gaps between all offsets, and check after each step that they are unchanged (for tests) */
    bool one_by_one; /* call the backend once per update instead of once per group of consecutive updates (for comparison) */
    bool profile;    /* measure the seconds of every node */
    bool by_call; /* call the backend for every node in every step, even if it can record a pass; implied by poison, guards and
                     profile */
    mp_tier_memory tiers[MP_MAX_TIERS];       /* per tier of the graph except the device */
    double bytes_per_second[MP_MAX_CHANNELS]; /* per channel: upper limit of the copy rate; 0: none. With `profile`, copies run
                                                 in order */
    char *arena; /* backend memory of at least the plan's arena, which the caller may use between two training steps; NULL: the
                    execution allocates its own. Not with `guards` or for graphs that carry gradients between steps */
    int64_t arena_bytes;        /* size of `arena` */
    mp_communicator *world;     /* the ranks of the mesh; NULL: this process trains alone */
    double timeout;             /* seconds without a message from other ranks after which a step fails; 0: 60 */
    struct mp_step_time *times; /* array for the times of the plan's steps, filled by the last pass; NULL: none */
    bool plain_files;           /* read and write files without io_uring, as on kernels without it (for comparison) */
} mp_execution_options;
