/* searches.h - the searches of a workload that answer one request of the caller. They share the time limit of the request. */
#pragma once

#include "memplan/solver.h"
#include "memplan/workload.h"

typedef struct mp_searches {
    mp_workload *workload;
    const mp_request *asked; /* the caller's request */
    double start;            /* time at which the searches began, by mp_clock_now */
    bool is_stopped;         /* true: the caller's progress function has ended the searches */
} mp_searches;

/* Begins searches. Both arguments must outlive the result. */
mp_searches mp_searches_begin(mp_workload *w, const mp_request *asked);
/* Returns the request for the next search: the caller's request for the workload's present graph, with another budget in bytes.
 * Its time limit is the remaining time, but at least a tenth of the caller's limit. Its progress function sets is_stopped, so
 * the request refers to *x. */
mp_request mp_searches_next(mp_searches *x, int64_t budget_bytes);
/* Solves the next request. With offsets, as mp_solve_with_arena; without, as mp_solve_or_smallest. */
mp_status mp_searches_solve(mp_searches *x, int64_t budget_bytes, bool with_offsets, mp_answer *answer, mp_error *err);
