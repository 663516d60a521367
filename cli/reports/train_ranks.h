/* train_ranks.h - a training of many processes, one for each rank of the mesh: how it begins, ends, and is reported. */
#pragma once

#include "cli/reports/train_report.h"
#include "memplan/ranks/communicator.h"

/* The processes, and what they know of each other. */
typedef struct ranks {
    mp_communicator *world;   /* NULL: there is one process */
    bool compares;            /* a failure now is that of a comparison, which all ranks find */
    bool all_failed, is_told; /* all ranks know of a failure; and another one says why */
    int status;               /* with which all end then */
    int stage_number;         /* of a pipeline, the stage that this process runs */
    char stage[16];           /* its number as text; "": none */
} ranks;

/* Joins the processes that a launcher has started, if the options have a mesh of several ranks and that is not done yet; then
 * rank 0 alone speaks, but for errors, and --device cuda is the GPU of the rank's number on its machine. Else r->world stays
 * NULL. MP_INVALID: there are not as many processes as ranks. As mp_communicator_open. */
mp_status train_join(options *o, ranks *r, mp_error *err);
/* Fails if a launcher has started several processes and the options, or the plan, have no mesh of several ranks: each would be
 * a training of its own and save into the same files. MP_INVALID; rank 0 alone says it, and the others end with status 0. */
mp_status train_check_alone(ranks *r, mp_error *err);
/* Lets the options name the stage of a pipeline that this process runs. MP_INVALID: they have --accumulate, too. */
mp_status train_take_stage(options *o, ranks *r, mp_error *err);
/* Compares what has to be the same on all ranks before a plan is searched for. Fails as mp_communicator_agree. */
mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *hyper, mp_error *err);
/* True if this rank searches for a plan: it is the first of those with its graph, or alone. A search that the clock ends finds
 * another plan each time, so the others take that of the first. */
bool train_searches(const train_outcome *t, const ranks *r);
/* Gives the plan of the first rank to the others with that graph, which check it. `found` is how this rank's search has ended,
 * and is returned unless it is MP_OK. MP_INFEASIBLE: another rank has found none, and says why. MP_REFUTED, MP_PARSE: what was
 * sent is no plan for this graph. MP_IO, MP_NOMEM. */
mp_status train_share_plan(const options *o, train_outcome *t, ranks *r, mp_status found, mp_error *err);
/* What a rank sees of the data that it trains and tests on: digests, and how many samples; n_test -1: it does not test. */
typedef struct seen_data {
    uint64_t data, test;
    int64_t n_data, n_test;
} seen_data;
/* Compares plans and data before the first step, of a pipeline those of the ranks of each stage, and how many samples all ranks
 * see. Fails as mp_communicator_agree. */
mp_status train_agree_on_data(const options *o, const train_outcome *t, ranks *r, const seen_data *seen, mp_error *err);
/* True if all ranks know of this failure, and another one says it; then all end with r->status. */
bool train_is_known(ranks *r, const mp_error *err);
/* Leaves the others with this exit status, which is returned. A rank that has failed alone ends all. */
int train_leave(const options *o, ranks *r, int status);
bool train_is_silent(const ranks *r); /* true for all ranks but the first */
