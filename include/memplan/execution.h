/* execution.h - options for the execution of a plan by mp_train (train.h): updates, checks, profiles and memory. */
#pragma once

#include "memplan/graph.h"
#include "memplan/optimizer.h"
#include "memplan/ranks/communicator.h"

/* A memory other than the device's, for plans that copy to it (docs/internals/plan-rules.md, Tiers). */
typedef struct mp_tier_memory {
    const char *folder; /* folder of the temporary file that serves as this memory; the system deletes the file at exit. NULL:
                           host memory */
    int64_t capacity_bytes; /* limit in bytes of the memory that the execution allocates in this tier; 0: as much as the plan
                               requires */
    bool locked;            /* true, for host memory: lock the pages, so that they are never swapped out */
} mp_tier_memory;

typedef struct mp_execution_options {
    mp_hyper hyper;
    double clip_norm; /* limit on the global norm of gradients (gradient clipping), as in mp_training_options */
    uint64_t seed;
    /* true: fill the memory of dead storages with NaNs, so that a read of a dead storage is noticed (slow, for tests) */
    bool poison;
    bool guards; /* true: leave gaps between all offsets, and check after each step that no step wrote to a gap (for tests) */
    /* true: call the backend once per update instead of once per group of consecutive updates (for performance comparisons) */
    bool one_by_one;
    bool profile; /* true: measure the seconds of every node (a profile) */
    /* true: call the backend for every node in every step, even if the backend could record and replay a whole pass. Implied by
     * poison, guards and profile */
    bool by_call;
    mp_tier_memory tiers[MP_MAX_TIERS]; /* per tier of the graph except the device: the memory that stores this tier's data */
    double bytes_per_second[MP_MAX_CHANNELS]; /* per channel: upper limit of the copy rate in bytes/s; 0: no limit. With
                                                 `profile`, copies do not overlap with compute */
    char *arena; /* backend memory of at least the plan's arena size. The caller may use it between two training steps. NULL:
                    the execution allocates its own arena. Not allowed with `guards` or for graphs that carry gradients between
                    steps */
    int64_t arena_bytes;    /* size of `arena` */
    mp_communicator *world; /* communicator of the mesh's ranks; NULL: this process trains alone */
    double timeout;         /* seconds without a message from other ranks after which a training step fails; 0: 60 seconds */
    struct mp_step_time
        *times; /* array that receives the times of the plan's steps in the last training step; NULL: no times are recorded */
    /* true: read and write files without io_uring, as on kernels that lack it (for performance comparisons) */
    bool plain_files;
} mp_execution_options;
