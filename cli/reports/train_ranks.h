/* train_ranks.h - a training of many processes, one for each rank of the mesh: how it begins, ends, and is reported. */
#pragma once

#include "cli/reports/train_report.h"
#include "memplan/ranks/communicator.h"

/* The processes, and what they know of each other. */
typedef struct ranks {
    mp_communicator *world;    /* NULL: there is one process */
    bool compares, all_failed; /* a failure now is that of a comparison; and all ranks have found the same */
    int stage_number;          /* of a pipeline, the stage that this process runs */
    char stage[16];            /* its number as text; "": none */
} ranks;

/* Joins the processes that a launcher has started, if the options have a mesh of several ranks and that is not done yet; then
 * rank 0 alone speaks, but for errors, and --device cuda is the GPU of the rank's number on its machine. Else r->world stays
 * NULL. MP_INVALID: there are not as many processes as ranks. As mp_communicator_open. */
mp_status train_join(options *o, ranks *r, mp_error *err);
/* Lets the options name the stage of a pipeline that this process runs. MP_INVALID: they have --accumulate, too. */
mp_status train_take_stage(options *o, ranks *r, mp_error *err);
/* Compares what has to be the same on all ranks before the first step; data: digests of what is trained and tested on. Fails as
 * mp_communicator_agree. */
mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *hyper, const uint64_t data[2],
                      mp_error *err);
/* True if all ranks have this failure, and another one says it. */
bool train_is_known(ranks *r, const mp_error *err);
/* Leaves the others with this exit status, which is returned. A rank that has failed alone ends all. */
int train_leave(const options *o, ranks *r, int status);
bool train_is_silent(const ranks *r); /* true for all ranks but the first */
