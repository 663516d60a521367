/* problem.h - a graph with results that many questions about it need. Each is computed when it is first asked for, then
 * kept for all searches, bounds and reports about the graph. Any thread may ask.
 *
 *     mp_problem *problem = NULL;
 *     MP_CHECK(mp_problem_new(graph, &problem, err));
 *     MP_CHECK(mp_problem_floor(problem, &floor_bytes, &reason, err));
 *     const mp_request request = {.graph = graph, .problem = problem, .budget_bytes = floor_bytes + floor_bytes / 2};
 *     MP_CHECK(mp_solve(&request, &answer, err)); // does not look for the floor again
 */
#pragma once

#include "memplan/floor.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_problem mp_problem;

/* Makes the problem of a graph, which must not change meanwhile. On MP_OK *out is released with mp_problem_free (NULL is
 * fine) before the graph. MP_NOMEM. O(1). */
mp_status mp_problem_new(const mp_graph *graph, mp_problem **out, mp_error *err);
void mp_problem_free(mp_problem *problem);
MP_OWNER(mp_problem_free, mp_problem)

/* Gives keep-all, the baseline of every percentage: graph->n_nodes steps, and their timeline. Both belong to the problem.
 * MP_NOMEM. The first call costs as much as mp_timeline_build. */
mp_status mp_problem_keep_all(mp_problem *problem, const mp_step **steps, const mp_timeline **timeline, mp_error *err);

/* Like mp_floor_explained; reason may be NULL. */
mp_status mp_problem_floor(mp_problem *problem, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);
