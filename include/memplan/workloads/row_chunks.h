/* row_chunks.h - chooses the numbers of chunks of rows in which regions of a network are computed (the setting row_chunks).
 *
 *     // given: const char *path; mp_workload_options *options; mp_error *err
 *     mp_workload whole = {0}, chosen = {0};
 *     MP_CHECK(mp_workload_load(path, options, &whole, err));
 *     const mp_request request = {.budget_bytes = INT64_C(24) << 30};
 *     mp_row_chunks_choice choice;
 *     MP_CHECK(mp_row_chunks_choose(&whole, options, &request, &choice, err));
 *     options->row_chunks = choice.setting;
 *     MP_CHECK(mp_workload_load(path, options, &chosen, err)); // plan this graph
 *     mp_row_chunks_choice_free(&choice);
 *     mp_workload_free(&whole);
 *     mp_workload_free(&chosen);
 */
#pragma once

#include "memplan/solver.h"
#include "memplan/workload.h"
#include "memplan/workloads/card_plan.h"

enum { MP_ROW_CHUNKS_TEXT = 64 }; /* bytes of a setting that names all kinds of regions */

typedef struct mp_row_chunks_choice {
    int n; /* the largest chosen number of chunks; 1: all regions stay whole; 0: no choice was made */
    char setting[MP_ROW_CHUNKS_TEXT]; /* the value of mp_workload_options.row_chunks: "head=8,mlp=4", or "off" */
    /* lower bound on the ticks of plans with other numbers of chunks; INT64_MAX: proved that none of them fits the budget */
    int64_t other_ticks;
    int64_t floor_bytes; /* no plan with any number of chunks, the chosen ones included, has a smaller peak */
    /* the answer of the searcher `lagrange` for the chosen numbers within budget_bytes; zeroed if `lagrange` did not run. A
     * later search within this budget does not run `lagrange` again */
    mp_answer trial;
    int64_t budget_bytes; /* the request's budget */
} mp_row_chunks_choice;

/* Returns true if the setting leaves the choice to memplan ("auto"). mp_workload_load then keeps all regions whole. */
bool mp_row_chunks_are_open(const mp_workload_options *options);

/* Chooses the number of chunks of each kind of region: 1, 2, 4, 8, 16, 32 or 64. Chooses the numbers whose plan within
 * request->budget_bytes takes the fewest ticks; among equal plans, the smallest numbers. If no plan fits, chooses the numbers
 * with the smallest plan. Quick searches compare the most promising numbers, and a lower bound is proved for the others.
 * Numbers are excluded if a region has fewer rows or the graph has more than 20,000 nodes. If no region has two rows, there is
 * nothing to choose, and no search is made.
 *
 * `whole` is the workload with whole regions, loaded with `options`, whose row_chunks is "auto". The graph and problem of the
 * request are ignored. Release *out with mp_row_chunks_choice_free on MP_OK. Errors as mp_workload_load and mp_solve. */
mp_status mp_row_chunks_choose(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                               mp_row_chunks_choice *out, mp_error *err);
/* Releases the members, not the struct. A zeroed struct is allowed. */
void mp_row_chunks_choice_free(mp_row_chunks_choice *choice);

/* Computes a floor in bytes that holds for all numbers of chunks. This floor is at most the floor of mp_row_chunks_choose.
 * Arguments and errors as mp_row_chunks_choose. Cost: loads one workload per kind of region. If the graph has at most 200
 * nodes, the cost equals the cost of mp_row_chunks_choose, which is then small. */
mp_status mp_row_chunks_floor(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                              int64_t *floor_bytes, mp_error *err);

/* Searches for a plan after mp_row_chunks_choose. If no plan is found with the chosen numbers of chunks, searches with whole
 * regions. So every budget for which mp_workload_solve finds a plan with whole regions has a plan.
 *
 * `w` is loaded with choice->setting, `whole` with whole regions; if choice->n is 1, `w` has whole regions and `whole` is not
 * read. If only whole regions have a plan, exchanges the contents of `w` and `whole`, and sets choice->n to 1 and the setting
 * to "off". So the answer always belongs to `w`. The bound of the answer covers plans with any numbers of chunks, and
 * choice->other_ticks covers all numbers except those of `w`. If request->start is set, it is a plan of whole regions.
 *
 * how->options are the settings of `w`. Ownership, errors and cost of a search as mp_workload_solve; at most two searches. */
mp_status mp_row_chunks_search(mp_workload *w, mp_workload *whole, const mp_card_search *how, const mp_request *request,
                               mp_row_chunks_choice *choice, mp_card_plan *out, mp_error *err);

/* A plan with the numbers of chunks that were chosen for it. */
typedef struct mp_row_chunks_plan {
    mp_row_chunks_choice choice;
    mp_workload own; /* the workload with the chosen numbers; empty if choice.n is 1: the plan belongs to the whole workload */
    mp_card_plan found;
} mp_row_chunks_plan;

/* Chooses the numbers of chunks with mp_row_chunks_choose, loads the workload with these numbers, and searches for a plan with
 * mp_row_chunks_search. `whole` is loaded with how->options, whose row_chunks is "auto". Its contents do not change. Release
 * *out with mp_row_chunks_plan_free on any status. Other arguments, errors and cost as these two functions.
 *
 *     // given: mp_workload *whole; mp_workload_options *options; const mp_request *request; mp_error *err
 *     const mp_card_search how = {.options = options, .with_offsets = true};
 *     mp_row_chunks_plan best = {0};
 *     options->row_chunks = "auto";
 *     MP_CHECK(mp_row_chunks_solve(whole, &how, request, &best, err));
 *     if (best.found.answer.plan) printf("%s: %lld ticks\n", best.choice.setting, (long long)best.found.answer.plan->ticks);
 *     mp_row_chunks_plan_free(&best);
 */
mp_status mp_row_chunks_solve(mp_workload *whole, const mp_card_search *how, const mp_request *request, mp_row_chunks_plan *out,
                              mp_error *err);
void mp_row_chunks_plan_free(mp_row_chunks_plan *plan); /* releases the members, not the struct */

/* Chooses the numbers of chunks for all ranks of a pipeline, with budgets[r] bytes of memory for rank r. All ranks have the
 * same numbers. A descent tries candidates and chooses the shortest training step of the whole pipeline. If every candidate
 * leaves ranks without a plan, it chooses the candidate with the fewest such ranks. Writes the value of
 * mp_workload_options.row_chunks to `setting`.
 *
 * options->row_chunks must be "auto". The graph, problem and budget of the request are ignored. with_offsets: as in
 * mp_workload_plan. Errors as mp_workload_load and mp_workload_plan. Cost: mp_workload_plan for each rank, once with whole
 * regions, and one to four times per kind of region. */
mp_status mp_row_chunks_choose_for_ranks(const char *path, const mp_workload_options *options, const mp_request *request,
                                         const int64_t *budgets, bool with_offsets, char setting[MP_ROW_CHUNKS_TEXT],
                                         mp_error *err);
