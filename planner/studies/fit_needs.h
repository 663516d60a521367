/* fit_needs.h - the bytes that a plan of one batch requires: its static memory and arena, or the memory of its process. */
#pragma once

#include "memplan/studies/fit.h"

/* The memory of a plan and of its process. */
typedef struct mp_fit_measure {
    int64_t bytes;      /* compared with memory_bytes: plan_bytes, or with mp_fit_request.terms needs.likely_bytes */
    int64_t plan_bytes; /* static memory and arena */
    mp_needs needs;     /* memory of the process; only with mp_fit_request.terms */
} mp_fit_measure;

/* Measures a plan. MP_NOMEM. */
mp_status mp_fit_measure_of(const mp_fit_request *fit, const mp_graph *graph, const mp_plan *plan, mp_fit_measure *out,
                            mp_error *err);
/* Returns the bytes that a plan may require so that its process fits the card. The allocator's overhead is assumed to be that
 * of keep-all. Without mp_fit_request.terms the result is memory_bytes. O(1). */
int64_t mp_fit_plan_limit(const mp_fit_request *fit, const mp_fit_measure *kept);
/* True if the process of a plan fits the card, with expandable segments if necessary. O(1). */
bool mp_fit_has_room(const mp_fit_request *fit, const mp_fit_measure *plan);
