/* card_plan.h - plans of a workload whose process fits its card.
 *
 *     // given: mp_workload *workload; const mp_workload_options *options; mp_error *err
 *     const mp_request request = {.budget_bytes = INT64_C(14) << 30}; // the tensors' share of the card
 *     const mp_card_search how = {.options = options, .with_offsets = true, .use = MP_CARD_FILLED};
 *     mp_card_plan found = {0};
 *     MP_CHECK(mp_workload_solve(workload, &how, &request, &found, err));
 *     if (found.answer.plan) MP_CHECK(mp_plan_write(found.answer.plan, workload->graph, "plan.json", err));
 *     mp_card_plan_free(&found);
 */
#pragma once

#include "memplan/solver.h"
#include "memplan/workload.h"
#include "memplan/workloads/needs.h"

/* The role of the card in a search. */
typedef enum mp_card_use {
    MP_CARD_UNUSED,   /* the budget alone counts, and the memory of the process is not computed */
    MP_CARD_MEASURED, /* the budget alone counts, and mp_card_plan.needs is computed */
    MP_CARD_FILLED    /* the process must fit the card, too */
} mp_card_use;

typedef struct mp_card_search {
    const mp_workload_options *options; /* the settings of the workload */
    bool with_offsets;                  /* true: the budget limits static bytes plus arena, and plans have offsets */
    /* for a pipeline rank. true: the workload's stash becomes the plan's stash, as in mp_workload_plan; false: unchanged */
    bool finds_stash;
    mp_card_use use;
} mp_card_search;

typedef struct mp_card_plan {
    mp_answer answer;     /* with finds_stash, a pipeline rank has only answer.plan */
    int64_t budget_bytes; /* the budget of the answer: the request's budget, or a smaller budget with which the process fits */
    mp_needs needs;       /* memory of the process that runs the plan; without a plan, the smallest plan. process_bytes is -1 if
                             it was not computed */
    bool is_stopped;      /* true: the request's progress function has ended the search */
} mp_card_plan;

/* Searches for a plan of the workload. With MP_CARD_FILLED, if the process of the plan exceeds the card (mp_needs.likely_bytes
 * and card_bytes), searches again with smaller budgets (studies/card_budget.h). The answer is the plan of the largest budget
 * whose process fits, otherwise the result of the last search. With finds_stash, the first plan of a pipeline rank that fits is
 * the answer, because its search sets the stash of the workload.
 *
 * The request's graph, problem and tiers are replaced by those of the workload. Its time limit covers all searches of the call;
 * each search has at least a tenth of it. Release *out with mp_card_plan_free on any status. Errors as mp_solve_with_arena,
 * mp_workload_plan and mp_needs_of. Cost: at most four searches. */
mp_status mp_workload_solve(mp_workload *w, const mp_card_search *how, const mp_request *request, mp_card_plan *out,
                            mp_error *err);
void mp_card_plan_free(mp_card_plan *plan); /* releases the members, not the struct; a zeroed struct is allowed */
