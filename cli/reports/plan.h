/* plan.h - the result of `memplan plan` and its report. The report consists of the answer, the reason if there is no plan, the
 * proof of the bound, and the checkpoints to set by hand. */
#pragma once

#include <jansson.h>

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"
#include "memplan/floor.h"
#include "memplan/second_stream.h"
#include "memplan/solver.h"
#include "planner/solve/worth.h"

typedef struct outcome {
    subject *subject;
    const mp_timeline *keep_all;
    int64_t plain_ticks;  /* ticks of the user's step without a plan, from mp_plain_ticks; extra time is relative to these */
    other_rules other;    /* peak of keep-all under the other rules: PyTorch's if the answer uses memplan's, and the reverse */
    budget_ends ends;     /* the smallest plan and keep-all, between which a relative budget is */
    int64_t budget_bytes; /* bytes of the budget; MP_NO_LIMIT: no budget */
    bool fills_device;    /* the budget is the device's memory minus its reserve */
    device_room room;     /* memory of the device for which the graph was built */
    int64_t floor_bytes;
    mp_floor_reason floor_reason;
    mp_answer answer;
    bool has_second_stream; /* --second-stream was given, and a plan exists */
    mp_second_stream second_stream;
    int64_t tier_floors[MP_MAX_TIERS]; /* per tier other than the device: lower bound on its bytes, from mp_tier_floors */
    int64_t tier_enough[MP_MAX_TIERS]; /* if no plan was found, per tier: a sufficient budget in bytes, from mp_tier_enough; 0:
                                          none */
    bool has_worth;                    /* `worth` has been computed */
    mp_worth worth;
    double planning_seconds;
    unsigned stages_off;  /* stages of the bound that were switched off, as in mp_bound_options.off */
    const options *asked; /* the options of the command */
    bool interrupted;     /* Ctrl-C ended the search */
    const char *written;  /* name of the file that the plan was written to; NULL: none */
    bool has_refusal;     /* the refusal was printed (print_refusal) */
} outcome;

/* Computes keep-all and the floor of the subject. They do not depend on a budget. MP_NOMEM. */
mp_status outcome_start(outcome *out, mp_error *err);
/* Returns the request for these options, without the budget. */
mp_request outcome_request(const outcome *out);
/* Computes the bytes of a budget, and the smallest plan and keep-all that it may refer to. As room_budget. */
mp_status outcome_find_budget(outcome *out, const budget *b, const mp_request *request, mp_error *err);
/* Searches for a plan within the request's budget, with a progress line, until --time-limit. The result is out->answer. As
 * mp_solve_with_arena; if plans have no offsets, as mp_solve_or_smallest. */
mp_status outcome_search(outcome *out, mp_request *request, mp_error *err);
/* Releases out->answer and the data of the budget. The caller keeps out->subject. */
void outcome_free(outcome *out);

/* Returns the text "the budget of 8.00 GiB". If the budget equals the device's memory, returns the name of this memory. With
 * -v the text includes the exact bytes. mp_text allocates it. */
const char *plan_budget_text(const outcome *out);
/* Returns the title of the verdict, "gpt2, batch 8". It ends in ", in PyTorch" if the answer is about a device's memory or
 * uses PyTorch's rules. mp_text allocates it. */
const char *plan_title(const outcome *out);
/* True if the plan wraps whole modules instead of choosing single tensors. */
bool plan_is_by_modules(const mp_plan *plan);
/* Prints a table row with the peak of keep-all under the other rules, if it is known. */
void print_plan_other(const outcome *out);
/* Print parts of a plan's report: the heading of the table; a table row (ticks -1: a bound, which has no order of steps); the
 * arena; the peak. */
void print_plan_heading(const outcome *out);
void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note);
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err);
mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err);

/* ---- print the answer as text or as JSON; if there is no plan, print the reason. Errors: MP_NOMEM, MP_IO ---- */

mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);

/* ---- --offload: the copies to other tiers and back. These functions do nothing for a graph without tiers. Errors: MP_NOMEM
 * ---- */

/* For a graph with tiers: computes out->tier_floors, tier_enough, has_worth and worth. The floors are always computed. worth
 * and tier_enough are skipped if the answer does not show them, or if the search had a time limit or was ended. worth is also
 * skipped if optimizer state is copied. As mp_tier_floors, mp_worth_of and mp_tier_enough. */
mp_status find_plan_offload(outcome *out, const mp_request *request, mp_error *err);
mp_status print_plan_offload(const outcome *out, const mp_plan *plan, mp_error *err);
/* For an answer without a plan. The first prints that a tier is proved to be too small, and returns false if no tier is. The
 * second prints a size of a tier with which a plan exists. */
bool print_tier_refusal(const outcome *out);
void print_tier_enough(const outcome *out);
/* Returns the first tier that is proved to be too small for the device's budget; 0: no tier is. */
int tier_too_small(const outcome *out);
/* Sets "offload" in *json, as mp_json_set does. */
mp_status offload_json(const outcome *out, const mp_plan *plan, json_t **json, mp_error *err);

/* ---- no plan within the budget ---- */

/* True if the budget is below the floor, so that it is refused without a search. */
bool is_below_floor(const outcome *out);
/* True if the answer has no plan, and it is proved that none exists. */
bool is_refused(const outcome *out);
/* Returns the exit status of a command that found no plan. */
int no_plan_status(bool is_proved);
/* Prints the verdict, the proof, and the storages that cause the floor. If the budget is below the floor, out->answer is not
 * needed. */
void print_refusal(const outcome *out);
/* Prints the smallest plan found by the search. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* Prints the verdict again. */
void print_refusal_verdict(const outcome *out);

/* ---- --explain-bound: the result of each stage of the bound, and the step at which memory is short ---- */

void print_bound_explanation(const outcome *out);
/* Returns the explanation of the bound as a JSON object. JSON null: nothing is proved. NULL: out of memory. */
json_t *bound_json(const outcome *out);

/* ---- checkpoints that a user sets by hand to follow a plan ---- */

/* The checkpoints that a user sets to follow a plan. They are forward tensors from which a recomputation starts, and tensors
 * kept for backward whose inputs are recomputed. Other tensors are kept without a checkpoint, because nothing around them is
 * recomputed. */
typedef struct checkpoints_to_set {
    size_t n_recomputed; /* number of steps in the plan that recompute */
    size_t n, n_beside;  /* number of checkpoints to set; number of other tensors that are kept for backward */
    int *storages;       /* the checkpoints to set, in order of production */
} checkpoints_to_set;

/* Finds the checkpoints. On MP_OK release with checkpoints_free. MP_NOMEM. O(list lengths of the steps). */
mp_status checkpoints_find(const mp_graph *graph, const mp_plan *plan, checkpoints_to_set *out, mp_error *err);
void checkpoints_free(checkpoints_to_set *set);

/* Prints the checkpoints in at most `rows` lines. With --list prints all their names, and the names of the recomputed
 * operators. */
mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err);
/* Adds "checkpoints_to_set" to *json, as mp_json_set does, with names as in the plan's "checkpoints". */
mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err);
