/* rank_plan.h - plans of a workload.
 *
 * In a pipeline the other micro-batches in flight hold a stash, whose bytes are a multiple of the bytes that the rank's plan
 * keeps. So the plan depends on the stash, and the stash on the plan. mp_workload_plan finds a plan and a stash that fit
 * together.
 *
 *     // given: mp_workload workload; mp_error *err
 *     const mp_request request = {.budget_bytes = INT64_C(8) << 30};
 *     mp_plan *plan;
 *     MP_CHECK(mp_workload_plan(&workload, &request, true, &plan, err));
 *     if (plan) MP_CHECK(mp_plan_write(plan, workload.graph, "plan.json", err));
 *     mp_plan_free(plan);
 */
#pragma once

#include "memplan/search.h"
#include "memplan/workload.h"

/* Searches for a plan of the workload. The request's graph, problem and tiers are replaced by those of the workload. The
 * request's time limit covers all searches of the call. with_offsets: the budget limits static bytes plus arena, and the plan
 * has offsets. Sets the stash of a pipeline rank to exactly the bytes that the plan needs. *out is NULL if no plan was found;
 * otherwise release it with mp_plan_free. Errors and cost of a search as mp_solve; a pipeline needs at most 10 searches. */
mp_status mp_workload_plan(mp_workload *w, const mp_request *request, bool with_offsets, mp_plan **out, mp_error *err);
/* Returns in *bytes the memory of the smallest plan of a pipeline rank, with exactly its stash. mp_workload_plan finds a plan
 * for every budget of at least these bytes. Errors and cost as mp_smallest_plan. */
mp_status mp_workload_smallest(mp_workload *w, const mp_request *request, bool with_offsets, int64_t *bytes, mp_error *err);
/* Removes the stash of a pipeline rank, and returns in *floor_bytes the floor of the workload. MP_NOMEM. */
mp_status mp_workload_floor(mp_workload *w, int64_t *floor_bytes, mp_error *err);
