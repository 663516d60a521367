/* train_ranks.h - a training with one process per rank of the mesh: its start, its end, and its reports. */
#pragma once

#include "cli/reports/train_report.h"
#include "memplan/ranks/communicator.h"

/* The processes, and the shared knowledge about failures. */
typedef struct ranks {
    mp_communicator *world;   /* NULL: a single process */
    bool compares;            /* a comparison is running: if it fails, it fails on all ranks */
    bool all_failed, is_told; /* all ranks know of a failure; another rank prints the reason */
    int status;               /* common exit status after such a failure */
    int stage_number;         /* of a pipeline: the stage that this process runs */
    char stage[16];           /* stage_number as text; "": none */
} ranks;

/* Joins the processes started by a launcher, if the options have a mesh of several ranks and they have not joined yet.
 * Afterwards only rank 0 prints messages, except for errors, and --device cuda is the GPU with the rank's number on its
 * machine. Otherwise r->world remains NULL. MP_INVALID: the number of processes differs from the number of ranks. As
 * mp_communicator_open. */
mp_status train_join(options *o, ranks *r, mp_error *err);
/* Fails if a launcher has started several processes but neither options nor plan have a mesh of several ranks. Each process
 * would be a separate training and save to the same files. MP_INVALID: rank 0 alone prints it, and the others end with status
 * 0. */
mp_status train_check_alone(ranks *r, mp_error *err);
/* Sets the pipeline stage of this process in the options. MP_INVALID: --accumulate is given as well. */
mp_status train_take_stage(options *o, ranks *r, mp_error *err);
/* Before the search for a plan: checks that the relevant options are the same on all ranks. Fails as mp_communicator_agree. */
mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *hyper, mp_error *err);
/* True if this rank searches for a plan: it is alone, or the first rank with its graph. A search that ends by time finds a
 * different plan each time. The other ranks therefore use the first rank's plan. */
bool train_searches(const train_outcome *t, const ranks *r);
/* Sends the plan of the first rank to the others with the same graph, which check it. `found`: the status of this rank's
 * search, which is returned unless it is MP_OK. MP_INFEASIBLE: another rank found no plan, and prints the reason. MP_REFUTED,
 * MP_PARSE: the received plan is not valid for this graph. MP_IO, MP_NOMEM. */
mp_status train_share_plan(const options *o, train_outcome *t, ranks *r, mp_status found, mp_error *err);
/* Digests and sample counts of a rank's training and test data. n_test -1: no test. */
typedef struct seen_data {
    uint64_t data, test;
    int64_t n_data, n_test;
} seen_data;
/* Before the first step: checks that plans, data and the number of samples agree. For a pipeline, plans and data are compared
 * among the ranks of each stage. Fails as mp_communicator_agree. */
mp_status train_agree_on_data(const options *o, const train_outcome *t, ranks *r, const seen_data *seen, mp_error *err);
/* True if all ranks know of this failure and another rank prints it. All ranks then end with r->status. */
bool train_is_known(ranks *r, const mp_error *err);
/* Leaves the other ranks with this exit status, and returns it. A rank that failed alone ends all ranks. */
int train_leave(const options *o, ranks *r, int status);
bool train_is_silent(const ranks *r); /* true for all ranks except the first */
