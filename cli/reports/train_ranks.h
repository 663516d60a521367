/* train_ranks.h - the ranks of a training, one process per rank of the mesh: how they start, compare their inputs, and end. */
#pragma once

#include "cli/reports/train_report.h"
#include "memplan/ranks/communicator.h"

/* The ranks of a training, and this rank's record of failures on other ranks. */
typedef struct ranks {
    mp_communicator *world;   /* connects the ranks; NULL: the training has a single process */
    bool compares;            /* the ranks are comparing something; if that fails, it fails on all ranks */
    bool all_failed, is_told; /* all ranks know of a failure; another rank prints its reason */
    int status;               /* exit status of all ranks after such a failure */
    int stage_number;         /* in a pipeline: number of the stage that this process runs */
    char stage[16];           /* stage_number as text; "": none */
} ranks;

/* Joins the processes that a launcher started. Does nothing if the options have no mesh of several ranks, or if the processes
 * have joined before. Afterwards rank 0 alone prints messages, except for errors. --device cuda is then the GPU with the
 * rank's number on its machine. Without a mesh, r->world remains NULL. MP_INVALID: the number of processes differs from the
 * number of ranks. As mp_communicator_open. */
mp_status train_join(options *o, ranks *r, mp_error *err);
/* Fails if a launcher has started several processes, but neither the options nor the plan have a mesh of several ranks. Each
 * process would be a separate training, and all would save to the same files. MP_INVALID: rank 0 alone prints the error, and
 * the other processes end with status 0. */
mp_status train_check_alone(ranks *r, mp_error *err);
/* Sets in the options the pipeline stage that this process runs. MP_INVALID: --accumulate or --offload is given as well. */
mp_status train_take_stage(options *o, ranks *r, mp_error *err);
/* Every rank calls this function after work that it does alone. `own` is the status of that work. reads: the work was to read
 * the user's input. Returns MP_OK if the work of all ranks has succeeded. Otherwise all ranks end with the exit status of the
 * first failed rank, which alone prints its error. Returns `own` if it is a failure, else MP_IO. */
mp_status train_end_together(const options *o, ranks *r, mp_status own, bool reads, mp_error *err);
/* Before the search for a plan: checks that the options that must be equal are equal on all ranks. Fails as
 * mp_communicator_agree. */
mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *hyper, mp_error *err);
/* True if this rank searches for a plan: it is the only rank, or the first rank with its graph. The other ranks with the graph
 * receive the first rank's plan. If each rank searched until a time limit, the plans would differ. */
bool train_searches(const train_outcome *t, const ranks *r);
/* Sends the plan of the first rank with a graph to the other ranks with this graph, which check it. `found` is the status of
 * this rank's search. If it is not MP_OK, it is returned. MP_INFEASIBLE: another rank found no plan, and prints the reason.
 * MP_REFUTED, MP_PARSE: the received plan is not valid for this graph. MP_IO, MP_NOMEM. */
mp_status train_share_plan(const options *o, train_outcome *t, ranks *r, mp_status found, mp_error *err);
/* Digests of a rank's training and test data, and their numbers of samples. n_test -1: there is no test. */
typedef struct seen_data {
    uint64_t data, test;
    int64_t n_data, n_test;
} seen_data;
/* Before the first training step: checks that the plans, the data and the numbers of samples of all ranks fit together. In a
 * pipeline, plans and data are compared among the ranks of each stage. Fails as mp_communicator_agree. */
mp_status train_agree_on_data(const options *o, const train_outcome *t, ranks *r, const seen_data *seen, mp_error *err);
/* True if all ranks know of this failure, and another rank prints it. All ranks then end with r->status. */
bool train_is_known(ranks *r, const mp_error *err);
/* Tells the other ranks that this rank ends with this exit status, and returns the status. A rank that failed alone ends all
 * ranks. */
int train_leave(const options *o, ranks *r, int status);
bool train_is_silent(const ranks *r); /* true for all ranks except the first */
