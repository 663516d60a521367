/* plan.h - the result of `memplan plan` and its report. The report contains the answer, the reason if there is no plan, the
 * proof of the bound, and the checkpoints that a user can set by hand. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "cli/reports/budget_bytes.h"
#include "executor/workload/workload.h"
#include "memplan/budget.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "memplan/studies/checkpoints.h"
#include "memplan/studies/worth.h"
#include "memplan/workloads/other_rules.h"
#include "memplan/workloads/row_chunks.h"
#include "memplan/workloads/workload_needs.h"

typedef struct outcome {
    mp_workload *workload;
    /* peak and ticks of the user's step without a plan. Percentages and extra time are relative to these two. With --row-chunks
     * auto, they belong to the workload with whole regions */
    int64_t keep_all_bytes, keep_all_ticks;
    /* peak of keep-all under the other rules: PyTorch's if the answer uses memplan's, memplan's if it uses PyTorch's */
    mp_other_rules other;
    mp_budget_ends ends;     /* the two values to which a relative budget refers: the smallest plan and keep-all */
    int64_t budget_bytes;    /* bytes of the budget; MP_NO_LIMIT: no budget */
    bool fills_device;       /* true: the budget is relative to the device: its memory minus the reserve */
    mp_device_capacity room; /* memory of the device for which the graph was built */
    mp_needs needs;          /* memory of a process that runs the plan; process_bytes is -1 if no card is named */
    /* floor_bytes: no plan has a smaller peak. With --row-chunks auto, it covers all numbers of chunks. graph_floor_bytes: the
     * floor of the workload's graph, explained by floor_reason */
    int64_t floor_bytes, graph_floor_bytes;
    mp_floor_reason floor_reason;
    mp_answer answer;
    mp_row_chunks_choice row_chunks; /* the choice of --row-chunks auto; n 0: memplan did not choose */
    mp_tier_study tiers;             /* for a graph that copies to other tiers (find_plan_offload) */
    double planning_seconds;
    unsigned stages_off;  /* the stages of the bound that the user switched off, as in mp_bound_options.off */
    const options *asked; /* the options of the command */
    bool interrupted;     /* true: Ctrl-C ended the search */
    const char *written;  /* name of the file that the plan was written to; NULL: none */
    bool has_refusal;     /* true: the refusal was printed (print_refusal) */
} outcome;

/* Computes keep-all and the floor of the workload. They do not depend on a budget. MP_NOMEM. */
mp_status outcome_start(outcome *out, mp_error *err);
/* Returns the request for a search with these options, without a graph and a budget. */
mp_request search_request(const options *o);
/* Returns a request with the user's options, without a budget. */
mp_request outcome_request(const outcome *out);
/* Computes the bytes of the budget. Finds the smallest plan and keep-all if the budget refers to them. If the budget is the
 * memory of a card, the reserve is the memory that keep-all's process requires besides tensors. Errors: as
 * mp_capacity_budget. */
mp_status outcome_find_budget(outcome *out, const mp_budget *b, const mp_request *request, mp_error *err);
/* Searches for a plan within the request's budget, until --time-limit at the latest, and shows a progress line. If the budget
 * is the memory of a card, the process of the plan fits the card, too. With --row-chunks auto, `whole` is the workload with
 * whole regions, or NULL if memplan chose no chunks. If a plan exists only with whole regions, `whole` and out->workload
 * exchange their contents. The result is out->answer. Errors: as mp_workload_solve. */
mp_status outcome_search(outcome *out, mp_workload *whole, mp_request *request, mp_error *err);
/* Releases out->answer and the data of the budget. The caller keeps out->workload. */
void outcome_free(outcome *out);

/* Returns the text "the budget of 8.00 GiB". If the budget is the memory of the device, the text names this memory. With -v it
 * includes the exact bytes. mp_text allocates it. */
const char *plan_budget_text(const outcome *out);
/* Returns the title of the verdict, such as "gpt2, batch 8". If the answer is about a device's memory or uses PyTorch's rules,
 * it ends in ", in PyTorch". mp_text allocates it. */
const char *plan_title(const outcome *out);
/* True if the plan wraps whole modules and does not choose single tensors. */
bool plan_is_by_modules(const mp_plan *plan);
/* Prints a table row with the peak of keep-all under the other rules (PyTorch's or memplan's), if it is known. */
void print_plan_other(const outcome *out);
/* Print parts of a plan's report. print_plan_heading prints the heading of the table. print_plan_line prints a table row; ticks
 * -1: the row is a bound, which has no steps. print_plan_arena and print_plan_peak print the arena and the peak. */
void print_plan_heading(const outcome *out);
void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note);
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err);
mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err);

/* ---- print the answer as text or as JSON. If there is no plan, the answer contains the reason. Errors: MP_NOMEM, MP_IO
 * ---- */

mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);

/* ---- --offload: the copies to other tiers and back. These functions do nothing for a graph without tiers. Errors: MP_NOMEM
 * ---- */

/* For a graph with tiers: computes out->tiers. It searches only if the answer shows the results, and if the search had no time
 * limit and was not ended by the user. As mp_tier_study_of. */
mp_status find_plan_offload(outcome *out, const mp_request *request, mp_error *err);
mp_status print_plan_offload(const outcome *out, const mp_plan *plan, mp_error *err);
/* For an answer without a plan. print_tier_refusal prints that the budget of a tier is proved to be too small; it returns false
 * if that is proved for no tier. print_tier_enough prints a budget of a tier with which a plan exists. */
bool print_tier_refusal(const outcome *out);
void print_tier_enough(const outcome *out);
/* Returns the first tier whose budget is proved to be too small for the device's budget; 0: there is none. */
int tier_too_small(const outcome *out);
/* Sets the field "offload" of *json to the values that this report prints, as mp_json_set does. */
mp_status offload_json(const outcome *out, const mp_plan *plan, json_t **json, mp_error *err);

/* ---- the answer if there is no plan within the budget ---- */

/* True if the budget is below the floor, so that no search is needed to refuse it. */
bool is_below_floor(const outcome *out);
/* Returns a JSON object with the number of chunks of rows per kind of region, from a setting such as "head=8". NULL: there is
 * no setting, or all regions are whole. */
json_t *chunk_setting_json(const char *setting);
/* True if the answer has no plan, and it is proved that none exists. */
bool is_refused(const outcome *out);
/* Returns the exit status of a command that has found no plan. */
int no_plan_status(bool is_proved);
/* Prints why there is no plan: the verdict, the proof, and the storages that cause the floor. out->answer may be empty if the
 * budget is below the floor. */
void print_refusal(const outcome *out);
/* Prints a table row for the smallest plan that the search found. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* Prints the verdict again. */
void print_refusal_verdict(const outcome *out);

/* ---- --explain-bound: the result of each stage of the bound, and the step at which too little memory is free ---- */

void print_bound_explanation(const outcome *out);
/* Returns the explanation of the bound as a JSON object. JSON null: no bound was proved. NULL: out of memory. */
json_t *bound_json(const outcome *out);

/* ---- checkpoints that a user sets by hand in order to follow a plan ---- */

/* Prints the checkpoints in at most `rows` lines. With --list, prints the names of all checkpoints and of all recomputed
 * operators. */
mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err);
/* Adds the field "checkpoints_to_set" to *json, as mp_json_set does. The names are the same as in the plan's "checkpoints". */
mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err);
