/* plan.h - what a search for a plan came to, and what is said of it: the answer, why there is none, how the bound was proved,
 * which checkpoints to set.
 */
#pragma once

#include <jansson.h>

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"
#include "memplan/floor.h"
#include "memplan/second_stream.h"
#include "memplan/solver.h"

typedef struct outcome {
    subject *subject;
    const mp_timeline *keep_all;
    other_rules other;    /* keep-all under them */
    budget_ends ends;     /* of a budget that lies between them */
    int64_t budget_bytes; /* MP_NO_LIMIT: none */
    bool fills_device;    /* the budget is the room of a device */
    device_room room;     /* of the device that the graph is for */
    int64_t floor_bytes;
    mp_floor_reason floor_reason;
    mp_answer answer;
    bool has_second_stream; /* it was asked for, and there is a plan */
    mp_second_stream second_stream;
    double planning_seconds;
    unsigned stages_off;  /* as in mp_bound_options.off */
    const options *asked; /* the caller's */
    bool interrupted;     /* Ctrl-C ended the search */
    const char *written;  /* the file that the plan is in; NULL: none */
    bool has_refusal;     /* print_refusal has been called */
} outcome;

/* Finds keep-all and the floor of the subject; no budget yet. MP_NOMEM. */
mp_status outcome_start(outcome *out, mp_error *err);
/* What the options ask for, but for the budget. */
mp_request outcome_request(const outcome *out);
/* Finds the bytes of a budget, as room_budget, and what lies around it. */
mp_status outcome_find_budget(outcome *out, const budget *b, const mp_request *request, mp_error *err);
/* Searches for the request within the budget, with a line of progress, until --time-limit; the answer is out->answer. As
 * mp_solve_with_arena, and without offsets as mp_solve_or_smallest. */
mp_status outcome_search(outcome *out, mp_request *request, mp_error *err);
/* Releases the answer and what belongs to the budget; the subject is the caller's. */
void outcome_free(outcome *out);

/* Returns "the budget of 8.00 GiB", or what of a device, as mp_text does; with -v in bytes too. */
const char *plan_budget_text(const outcome *out);
/* True if the plan says which modules to wrap, and no single tensors. */
bool plan_is_by_modules(const mp_plan *plan);
/* Print parts of it: the table's heading and one line of it (ticks -1: no order stands behind it, only a bound), the arena, the
 * peak. */
void print_plan_heading(const outcome *out);
void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note);
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err);
mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err);

/* ---- the answer, as text or as JSON; where there is no plan, why. MP_NOMEM, MP_IO ---- */

mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);

/* ---- no plan within the budget ---- */

/* True if the budget is below the floor: no search is needed to say no. */
bool is_below_floor(const outcome *out);
/* True if the answer has no plan, and it is proved that there is none. */
bool is_refused(const outcome *out);
/* Returns the exit status of a command that has found no plan. */
int no_plan_status(bool is_proved);
/* Prints the verdict, what is proved, and what holds the floor; below the floor there need not be an answer yet. */
void print_refusal(const outcome *out);
/* Prints what the search has found instead. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* Prints the verdict once more. */
void print_refusal_verdict(const outcome *out);

/* ---- --explain-bound: what each stage of the bound proved, and where memory is short ---- */

void print_bound_explanation(const outcome *out);
/* Returns the same as a JSON object, null where nothing is proved. NULL: memory is short. */
json_t *bound_json(const outcome *out);

/* ---- what a plan asks of somebody who sets checkpoints by hand ---- */

/* The borders of what a plan recomputes: the tensors of the forward pass that a recomputation starts from, and those kept for
 * backward whose inputs are recomputed. All else is kept as it is without any checkpoint, because nothing around it is
 * recomputed. */
typedef struct checkpoints_to_set {
    size_t n_recomputed; /* steps */
    size_t n, n_beside;  /* to set; kept for backward as ever */
    int *storages;       /* to set, in the order of their production */
} checkpoints_to_set;

/* On MP_OK release with checkpoints_free. MP_NOMEM. O(list lengths of the steps). */
mp_status checkpoints_find(const mp_graph *graph, const mp_plan *plan, checkpoints_to_set *out, mp_error *err);
void checkpoints_free(checkpoints_to_set *set);

/* Prints them, folded into at most `rows` lines, or all names and those of what is recomputed (--list). */
mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err);
/* Adds "checkpoints_to_set" to *json, as mp_json_set does it: names as the plan's own "checkpoints" have them. */
mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err);
