/* outcome.h - what a search for a plan came to, and the parts of what is said of it, with a plan or without. */
#pragma once

#include "cli/reports/budget_bytes.h"
#include "cli/subject/other_rules.h"
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
    bool explains_bound;
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
/* Parts of it: the table's heading and one line of it (ticks -1: no order stands behind it, only a bound), the arena, the peak.
 */
void print_plan_heading(const outcome *out);
void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note);
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err);
mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err);
