/* problem.h - a graph with cached results that many searches, bounds and reports need. A result is computed on its first
 * request and then cached. Thread-safe.
 *
 *     // given: const mp_graph *graph; mp_answer *answer; mp_error *err
 *     MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
 *     int64_t floor_bytes;
 *     mp_floor_reason reason;
 *     MP_CHECK(mp_problem_new(graph, &problem, err));
 *     MP_CHECK(mp_problem_floor(problem, &floor_bytes, &reason, err));
 *     const mp_request request = {.graph = graph, .problem = problem, .budget_bytes = floor_bytes + floor_bytes / 2};
 *     MP_CHECK(mp_solve(&request, answer, err)); // reuses the floor
 */
#pragma once

#include "memplan/floor.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_problem mp_problem;

/* Creates an object that caches results for a graph. The graph must not change during the problem's lifetime. On MP_OK
 * release *out with mp_problem_free (NULL is allowed) before the graph. MP_NOMEM. O(1). */
mp_status mp_problem_new(const mp_graph *graph, mp_problem **out, mp_error *err);
void mp_problem_free(mp_problem *problem);
MP_OWNER(mp_problem_free, mp_problem)

/* Returns keep-all, the baseline of every percentage, as graph->n_nodes steps and their timeline. The problem owns the
 * returned steps and timeline. MP_NOMEM. The first call costs as much as mp_timeline_build. */
mp_status mp_problem_keep_all(mp_problem *problem, const mp_step **steps, const mp_timeline **timeline, mp_error *err);

/* Like mp_problem_keep_all, for the timeline that an estimate shows: updates that are fused into backward run as soon as their
 * gradients are complete. */
mp_status mp_problem_earliest(mp_problem *problem, const mp_step **steps, const mp_timeline **timeline, mp_error *err);

/* Finds the cut tensors: storages that split the network in two, which are natural checkpoints. *storages contains their
 * indices, in order of production. The problem owns the list. MP_NOMEM. The first call costs O(nodes + edges). */
mp_status mp_problem_cuts(mp_problem *problem, const int **storages, size_t *n, mp_error *err);

/* Like mp_floor_explained, with a cached result; `reason` may be NULL. */
mp_status mp_problem_floor(mp_problem *problem, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);
