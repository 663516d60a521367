/* workload_ranks.h - the ranks of one training agree: on their settings, on one plan per graph, and on their data.
 *
 * Each process of a mesh loads its own workload. The ranks that have the same graph (all ranks of one pipeline stage) must run
 * the same plan. If each rank searched until a time limit, their plans would differ. So the first rank of each stage searches,
 * and the others receive its plan.
 *
 *     // given: const mp_workload_options *options; mp_error *err
 *     mp_communicator *world;
 *     mp_workload workload = {0};
 *     MP_CHECK(mp_communicator_open("mpi", &world, err));
 *     MP_CHECK(mp_workload_load("gpt2-small", options, &workload, err));
 *     MP_CHECK(mp_workload_agree(&workload, world, NULL, 0, 60, err));
 *     if (mp_workload_searches(&workload, world)) {
 *         const mp_request request = {.graph = workload.graph, .budget_bytes = INT64_C(8) << 30};
 *         MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
 *         MP_CHECK(mp_solve_with_arena(&request, &answer, err));
 *         workload.plan = answer.plan, answer.plan = NULL;
 *     }
 *     MP_CHECK(mp_workload_share_plan(&workload, world, &(mp_work_end){0}, 600, err));
 */
#pragma once

#include "memplan/ranks/communicator.h"
#include "memplan/workloads/workload_train.h"

/* Checks that all ranks have the same version of memplan, whole training graph, pipeline and order of sums. Also compares the
 * caller's facts, such as options of the training. Waits at most `timeout` seconds. MP_INVALID: two ranks differ; the
 * message names a rank and the fact. MP_IO, MP_NOMEM. */
mp_status mp_workload_agree(const mp_workload *w, mp_communicator *world, const mp_fact *facts, size_t n, double timeout,
                            mp_error *err);
/* Returns the number of ranks that have the same graph as this rank. Their rank numbers are consecutive. O(1). */
int mp_workload_ranks_of_graph(const mp_workload *w, const mp_communicator *world);
/* True if this rank searches for a plan: it is the first rank with its graph. world NULL: a single rank. O(1). */
bool mp_workload_searches(const mp_workload *w, const mp_communicator *world);

/* The end of work that a rank does alone, such as its search for a plan. */
typedef struct mp_work_end {
    int code;      /* in: the caller's code for the failure of this rank's work, 1 to 127; 0: the work succeeded */
    int failed;    /* out: the code of the first rank whose work failed; 0: none failed */
    bool is_other; /* out: true if another rank failed, and this rank did not. mp_ranks_end_together: also if this rank failed,
                      but a rank with a lower number failed too */
} mp_work_end;
/* Every rank calls this function after work that it does alone. `work` names it in messages: "the preparation of the training".
 * MP_IO: the work of a rank failed, as *end describes. Other errors as mp_communicator_agree. */
mp_status mp_ranks_end_together(mp_communicator *world, mp_work_end *end, const char *work, double timeout, mp_error *err);
/* Sends the plan of the first rank of each graph to the other ranks with this graph, which check it and set their stash:
 * w->plan. Every rank calls this function, also if its search failed. A rank that searched and has no plan counts as
 * failed with code 1. MP_INFEASIBLE: the search of a rank failed; see *end.
 * MP_REFUTED, MP_PARSE: the received plan is not valid for this graph. MP_IO, MP_NOMEM. */
mp_status mp_workload_share_plan(mp_workload *w, mp_communicator *world, mp_work_end *end, double timeout, mp_error *err);
/* Checks that the ranks with one graph have the same plan and the same facts of the stage, such as a digest of their data. Also
 * checks that all ranks have the same facts of the training, such as its number of samples. Fails as mp_workload_agree. */
mp_status mp_workload_agree_on_data(const mp_workload *w, mp_communicator *world, const mp_fact *of_stage, size_t n_of_stage,
                                    const mp_fact *of_all, size_t n_of_all, double timeout, mp_error *err);
/* Like mp_workload_agree_on_data: the facts are the digests and numbers of samples of the inputs. */
mp_status mp_workload_agree_on_inputs(const mp_workload *w, mp_communicator *world, const mp_workload_inputs *inputs,
                                      double timeout, mp_error *err);
