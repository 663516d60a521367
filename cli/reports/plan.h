/* plan.h - the result of a search for a plan, and its report: the answer, why there is none, how the bound was proved,
 * which checkpoints to set. */
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
    int64_t plain_ticks;  /* of the user's step, as mp_plain_ticks has it: extra time is compared with it */
    other_rules other;    /* the peak of keep-all under the other rules */
    budget_ends ends;     /* the two plans between which a relative budget lies */
    int64_t budget_bytes; /* MP_NO_LIMIT: none */
    bool fills_device;    /* the budget is all that the device has for a step */
    device_room room;     /* the memory of the device that the graph is for */
    int64_t floor_bytes;
    mp_floor_reason floor_reason;
    mp_answer answer;
    bool has_second_stream; /* --second-stream was given, and there is a plan */
    mp_second_stream second_stream;
    int64_t tier_floors[MP_MAX_TIERS]; /* per tier besides the device, as mp_tier_floors has it */
    int64_t tier_enough[MP_MAX_TIERS]; /* without a plan: as mp_tier_enough has it; 0: none */
    bool has_worth;                    /* worth is known */
    mp_worth worth;
    double planning_seconds;
    unsigned stages_off;  /* as in mp_bound_options.off */
    const options *asked; /* the options of the command */
    bool interrupted;     /* Ctrl-C ended the search */
    const char *written;  /* the file that the plan was written to; NULL: none */
    bool has_refusal;     /* print_refusal was called */
} outcome;

/* Finds keep-all and the floor of the subject, without a budget. MP_NOMEM. */
mp_status outcome_start(outcome *out, mp_error *err);
/* Returns the request that the options ask for, without the budget. */
mp_request outcome_request(const outcome *out);
/* Finds the bytes of a budget as room_budget does, and its ends. */
mp_status outcome_find_budget(outcome *out, const budget *b, const mp_request *request, mp_error *err);
/* Searches within the budget of the request, with a line of progress, until --time-limit; the result is out->answer. As
 * mp_solve_with_arena; without offsets as mp_solve_or_smallest. */
mp_status outcome_search(outcome *out, mp_request *request, mp_error *err);
/* Releases the answer and what belongs to the budget; the subject stays the caller's. */
void outcome_free(outcome *out);

/* Returns "the budget of 8.00 GiB", or the memory of a device that it is, as mp_text does; with -v also in bytes. */
const char *plan_budget_text(const outcome *out);
/* Returns the title of a verdict, "gpt2, batch 8"; ", in PyTorch" follows if the answer is about a device's memory, or
 * PyTorch's rules. As mp_text. */
const char *plan_title(const outcome *out);
/* True if the plan wraps whole modules instead of choosing single tensors. */
bool plan_is_by_modules(const mp_plan *plan);
/* Prints the line of the table with keep-all under the other rules, if they are known. */
void print_plan_other(const outcome *out);
/* Print parts of a plan's report: the heading of the table, one of its lines (ticks -1: it is a bound, without an
 * order), the arena. */
void print_plan_heading(const outcome *out);
void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note);
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err);
mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err);

/* ---- the answer as text or as JSON; without a plan, the reason. MP_NOMEM, MP_IO ---- */

mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);

/* ---- --offload: what is copied to other tiers and back; nothing for a graph without tiers. MP_NOMEM ---- */

/* Of a graph with tiers: finds what is proved of them and, unless nobody sees it, the search has a time limit or was ended, or
 * state is copied,
 * what more memory would be worth or how much of them would be enough: out->tier_floors and the members behind it. As
 * mp_tier_floors, mp_worth_of and mp_tier_enough. */
mp_status find_plan_offload(outcome *out, const mp_request *request, mp_error *err);
mp_status print_plan_offload(const outcome *out, const mp_plan *plan, mp_error *err);
/* Without a plan: print that a tier is proved to be too small (false: none is), and with how much of one there is a plan. */
bool print_tier_refusal(const outcome *out);
void print_tier_enough(const outcome *out);
/* Returns the first tier whose budget is proved to be too small for the device's; 0: none. */
int tier_too_small(const outcome *out);
/* Sets "offload" of *json, as mp_json_set does. */
mp_status offload_json(const outcome *out, const mp_plan *plan, json_t **json, mp_error *err);

/* ---- no plan within the budget ---- */

/* True if the budget is below the floor: no search is needed to refuse it. */
bool is_below_floor(const outcome *out);
/* True if the answer has no plan, and it is proved that there is none. */
bool is_refused(const outcome *out);
/* Returns the exit status of a command that has found no plan. */
int no_plan_status(bool is_proved);
/* Prints the verdict, the proof, and what causes the floor; below the floor there need not be an answer yet. */
void print_refusal(const outcome *out);
/* Prints the smallest plan that the search has found. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* Prints the verdict once more. */
void print_refusal_verdict(const outcome *out);

/* ---- --explain-bound: what each stage of the bound proved, and where memory is short ---- */

void print_bound_explanation(const outcome *out);
/* Returns the explanation as a JSON object, null where nothing is proved. NULL if memory is short. */
json_t *bound_json(const outcome *out);

/* ---- the checkpoints that somebody sets by hand to follow a plan ---- */

/* The checkpoints at the border of what a plan recomputes: forward tensors from which a recomputation starts, and
 * tensors kept for backward whose inputs are recomputed. Other tensors are kept without a checkpoint, because nothing
 * around them is recomputed. */
typedef struct checkpoints_to_set {
    size_t n_recomputed; /* steps that recompute */
    size_t n, n_beside;  /* checkpoints to set; other tensors kept for backward */
    int *storages;       /* the checkpoints to set, in the order of their production */
} checkpoints_to_set;

/* Finds the checkpoints; on MP_OK release them with checkpoints_free. MP_NOMEM. O(list lengths of the steps). */
mp_status checkpoints_find(const mp_graph *graph, const mp_plan *plan, checkpoints_to_set *out, mp_error *err);
void checkpoints_free(checkpoints_to_set *set);

/* Prints the checkpoints, folded into at most `rows` lines; with --list all names, also of what is recomputed. */
mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err);
/* Adds "checkpoints_to_set" to *json, as mp_json_set does, with names as in the plan's own "checkpoints". */
mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err);
