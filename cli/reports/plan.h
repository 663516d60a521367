/* plan.h - the outcome of a search for a plan, and its report: the answer, the reason if there is no plan, the proof of the
 * bound, and the checkpoints to set. */
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
    int64_t plain_ticks;  /* of the user's step, as from mp_plain_ticks; extra time is relative to it */
    other_rules other;    /* the peak of keep-all under the other rules */
    budget_ends ends;     /* the ends of the range of a relative budget */
    int64_t budget_bytes; /* MP_NO_LIMIT: none */
    bool fills_device;    /* the budget is all memory of the device for a step */
    device_room room;     /* memory of the graph's target device */
    int64_t floor_bytes;
    mp_floor_reason floor_reason;
    mp_answer answer;
    bool has_second_stream; /* --second-stream was given, and a plan exists */
    mp_second_stream second_stream;
    int64_t tier_floors[MP_MAX_TIERS]; /* per tier other than the device, as from mp_tier_floors */
    int64_t tier_enough[MP_MAX_TIERS]; /* without a plan: as from mp_tier_enough; 0: none */
    bool has_worth;                    /* `worth` has been computed */
    mp_worth worth;
    double planning_seconds;
    unsigned stages_off;  /* as in mp_bound_options.off */
    const options *asked; /* the options of the command */
    bool interrupted;     /* Ctrl-C ended the search */
    const char *written;  /* the file that contains the plan; NULL: none */
    bool has_refusal;     /* print_refusal was called */
} outcome;

/* Computes keep-all and the floor of the subject, without a budget. MP_NOMEM. */
mp_status outcome_start(outcome *out, mp_error *err);
/* Returns the request for these options, without the budget. */
mp_request outcome_request(const outcome *out);
/* Computes the bytes of a budget, as room_budget does, and its ends. */
mp_status outcome_find_budget(outcome *out, const budget *b, const mp_request *request, mp_error *err);
/* Searches within the request's budget, with a progress line, until --time-limit. The result is out->answer. As
 * mp_solve_with_arena; without offsets as mp_solve_or_smallest. */
mp_status outcome_search(outcome *out, mp_request *request, mp_error *err);
/* Releases the answer and the data of the budget. The caller keeps the subject. */
void outcome_free(outcome *out);

/* Returns "the budget of 8.00 GiB", or the device's memory if the budget equals it, as mp_text does. With -v it includes the
 * exact bytes. */
const char *plan_budget_text(const outcome *out);
/* Returns the title of a verdict, "gpt2, batch 8". It ends in ", in PyTorch" if the answer is about a device's memory or uses
 * PyTorch's rules. As mp_text. */
const char *plan_title(const outcome *out);
/* True if the plan wraps whole modules instead of choosing single tensors. */
bool plan_is_by_modules(const mp_plan *plan);
/* Prints the table row of keep-all under the other rules, if known. */
void print_plan_other(const outcome *out);
/* Print parts of a plan's report: the heading of the table, one of its rows (ticks -1: a bound without an order), the arena,
 * the peak. */
void print_plan_heading(const outcome *out);
void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note);
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err);
mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err);

/* ---- the answer as text or as JSON; without a plan, the reason. MP_NOMEM, MP_IO ---- */

mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);

/* ---- --offload: data copied to other tiers and back. Nothing for a graph without tiers. MP_NOMEM ---- */

/* For a graph with tiers: computes out->tier_floors and the members after it. The floors are always computed. The worth of more
 * memory and the sufficient tier sizes are skipped if the answer does not show them, or if the search had a time limit or was
 * ended. The worth is also skipped if state is copied. As mp_tier_floors, mp_worth_of and mp_tier_enough. */
mp_status find_plan_offload(outcome *out, const mp_request *request, mp_error *err);
mp_status print_plan_offload(const outcome *out, const mp_plan *plan, mp_error *err);
/* Without a plan. The first prints that a tier is proved to be too small (returns false if none is). The second prints a tier
 * size with which a plan exists. */
bool print_tier_refusal(const outcome *out);
void print_tier_enough(const outcome *out);
/* Returns the first tier that is proved to be too small for the device's budget; 0: none. */
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
/* Prints the verdict, the proof, and the cause of the floor. Below the floor, no answer is needed. */
void print_refusal(const outcome *out);
/* Prints the smallest plan found by the search. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* Prints the verdict again. */
void print_refusal_verdict(const outcome *out);

/* ---- --explain-bound: the result of each stage of the bound, and the step at which memory is short ---- */

void print_bound_explanation(const outcome *out);
/* Returns the explanation as a JSON object; JSON null if nothing is proved. NULL if out of memory. */
json_t *bound_json(const outcome *out);

/* ---- checkpoints that a user sets by hand to follow a plan ---- */

/* The checkpoints at the border of a plan's recomputation: forward tensors from which a recomputation starts, and tensors kept
 * for backward whose inputs are recomputed. Other tensors are kept without a checkpoint, because nothing around them is
 * recomputed. */
typedef struct checkpoints_to_set {
    size_t n_recomputed; /* number of recomputing steps */
    size_t n, n_beside;  /* checkpoints to set; other tensors kept for backward */
    int *storages;       /* the checkpoints to set, in order of production */
} checkpoints_to_set;

/* Finds the checkpoints. On MP_OK release with checkpoints_free. MP_NOMEM. O(list lengths of the steps). */
mp_status checkpoints_find(const mp_graph *graph, const mp_plan *plan, checkpoints_to_set *out, mp_error *err);
void checkpoints_free(checkpoints_to_set *set);

/* Prints the checkpoints, folded into at most `rows` lines. With --list it prints all names, including the recomputed
 * operators. */
mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err);
/* Adds "checkpoints_to_set" to *json, as mp_json_set does, with names as in the plan's "checkpoints". */
mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err);
