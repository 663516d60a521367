/* train_ranks.h - the ranks of a training, one process per rank of the mesh: how they are connected, how they compare their
 * inputs, and how they end. */
#pragma once

#include "cli/options/options.h"
#include "cli/reports/train_report.h"
#include "memplan/ranks/workload_ranks.h"

/* The ranks of a training, and the failures that this rank knows of. */
typedef struct ranks {
    mp_communicator *world; /* the communicator of all ranks; NULL: the training has a single process */
    bool compares;          /* true while the ranks compare data; a failure is then a failure of all ranks */
    /* all_failed: true if all ranks know of a failure; is_told: true if another rank prints the reason of this failure */
    bool all_failed, is_told;
    int status;       /* exit status with which all ranks end if all_failed is true */
    int stage_number; /* index of the pipeline stage that this process runs */
    char stage[16];   /* stage_number as text; "": none */
} ranks;

/* Connects the processes that a launcher has started. Does nothing if the options have no mesh of several ranks, or if the
 * processes are connected already. Afterwards rank 0 alone prints messages, except for errors. --device cuda is then the GPU
 * with the rank's number on its machine. Without a mesh, r->world remains NULL. MP_INVALID: the number of processes differs
 * from the number of ranks. Other errors: as mp_communicator_open. */
mp_status train_join(options *o, ranks *r, mp_error *err);
/* Fails if a launcher has started several processes, but neither the options nor the plan have a mesh of several ranks. In this
 * case each process would be a separate training, and all would save to the same files. MP_INVALID: only rank 0 prints the
 * error; the other processes end with status 0. */
mp_status train_check_alone(ranks *r, mp_error *err);
/* Sets in the options the pipeline stage that this process runs. MP_INVALID: --accumulate or --offload is given as well. */
mp_status train_take_stage(options *o, ranks *r, mp_error *err);
/* Every rank calls this function after work that it does alone. `own` is the status of that work. reads: true if the work was
 * to read the user's input. Returns MP_OK if the work of all ranks has succeeded. Otherwise all ranks end with the exit status
 * of the first failed rank, which alone prints its error. Returns `own` if it is a failure, else MP_IO. */
mp_status train_end_together(const options *o, ranks *r, mp_status own, bool reads, mp_error *err);
/* Called before the search for a plan. Checks that options that must be the same on all ranks are the same. Fails as
 * mp_communicator_agree. */
mp_status train_agree(const options *o, const train_outcome *t, ranks *r, mp_error *err);
/* True if this rank searches for a plan: it is the only rank, or the first rank with its graph. The other ranks with the graph
 * receive the first rank's plan. If each rank searched until a time limit, the plans would differ. */
bool train_searches(const train_outcome *t, const ranks *r);
/* The first rank with a graph sends its plan to the other ranks with this graph, which check it. All ranks call this function.
 * `found` is the status of this rank's search. If it is not MP_OK, the function returns it. MP_INFEASIBLE: another rank found
 * no plan, and prints the reason. MP_REFUTED, MP_PARSE: the received plan is not valid for this graph. MP_IO, MP_NOMEM. */
mp_status train_share_plan(const options *o, train_outcome *t, ranks *r, mp_status found, mp_error *err);
/* Called before the first training step. Checks that the plans and the inputs of all ranks agree. In a pipeline, plans and data
 * are compared among the ranks of each stage. Fails as mp_communicator_agree. */
mp_status train_agree_on_inputs(const options *o, const train_outcome *t, ranks *r, const mp_workload_inputs *inputs,
                                mp_error *err);
/* True if all ranks know of a failure and another rank prints its reason. All ranks then end with r->status. */
bool train_is_known(ranks *r, const mp_error *err);
/* Ends this rank's part of the training: tells the other ranks its exit status, and returns the status. If only this rank has
 * failed, it ends all other ranks. */
int train_leave(const options *o, ranks *r, int status);
bool train_is_silent(const ranks *r); /* True for all ranks except rank 0, which prints the answer for all ranks */
