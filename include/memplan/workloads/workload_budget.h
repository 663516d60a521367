/* workload_budget.h - the memory of a device, and the bytes of a budget that a user has written. A budget may be relative to
 * the smallest plan and keep-all. Or it is the memory of a device (all or free) minus the reserve for the context, libraries
 * and allocator.
 */
#pragma once

#include "memplan/budget.h"
#include "memplan/search.h"
#include "memplan/workload.h"
#include "memplan/workloads/own_device.h"

/* Returns the reason why a budget without a unit is probably a mistake, as the end of a sentence ("60 is 60 bytes; did you mean
 * 60%?"). peak_bytes is the peak of keep-all. Returns NULL if it is not a mistake. */
const char *mp_budget_lacks_unit(const mp_budget *b, int64_t peak_bytes);

/* The two ends of a relative budget's range: the smallest plan found, and keep-all. */
typedef struct mp_budget_ends {
    int64_t peak_bytes; /* peak bytes of keep-all */
    mp_plan *smallest;  /* the smallest plan, from which a search can start; NULL: not computed */
    /* bytes of memory of the smallest plan, including its arena if plans have offsets; -1: not computed */
    int64_t smallest_bytes;
} mp_budget_ends;

/* Computes the range of relative budgets (0 % is the smallest plan, 100 % is keep-all), for the graph and the problem of the
 * request. The smallest plan is computed only if a budget needs it, with the request's searcher and progress. has_arena: plans
 * have offsets. The request has a problem. Release with mp_budget_ends_free. Errors as mp_smallest_plan. */
mp_status mp_budget_ends_of(const mp_budget *budgets, size_t n, bool has_arena, const mp_request *request, mp_budget_ends *out,
                            mp_error *err);
void mp_budget_ends_free(mp_budget_ends *ends);

typedef struct mp_device_capacity {
    char name[MP_DEVICE_NAME_MAX]; /* name of the device; "": unknown, for example for a graph from another program */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* bytes that are reserved: the setting `reserve_bytes`, or, if it is not given, the default of the
                              device */
    int64_t visible_bytes; /* memory that programs see, if the needs of a process set the reserve (workload_needs.h); else 0 */
    bool is_free;          /* true: memory_bytes is the memory that is currently free; false: it is the device's whole memory */
} mp_device_capacity;

/* Find the memory of a device. mp_capacity_of_workload is about the device for which the workload's graph was built.
 * mp_capacity_of_options is about the device of the settings, before a graph exists. MP_UNSUPPORTED: the backend is missing
 * from this build. */
void mp_capacity_of_workload(const mp_workload *w, const mp_workload_options *o, mp_device_capacity *out);
mp_status mp_capacity_of_options(const mp_workload_options *o, mp_device_capacity *out, mp_error *err);
/* Returns the bytes available to a step: memory minus reserve, at least 0. */
int64_t mp_capacity_bytes(const mp_device_capacity *room);
/* Returns the text "the 40.00 GiB of a100 less 1.25 GiB reserve", or if needs set the reserve, "the 39.50 GiB of a100 (37.20
 * GiB for tensors)". mp_text allocates it. */
const char *mp_capacity_text(const mp_device_capacity *room);

/* Computes the bytes of a budget, given the two ends of its range. *room becomes the memory of the workload's device
 * (mp_capacity_of_workload). If the budget is `auto` and a GPU runs the workload, *room is the GPU's free memory. MP_INVALID:
 * auto on a CPU, or an unknown device. MP_INFEASIBLE: the reserve is as large as the memory. */
mp_status mp_capacity_budget(const mp_workload *w, const mp_workload_options *o, const mp_budget *b, const mp_budget_ends *ends,
                             mp_device_capacity *room, int64_t *bytes, mp_error *err);
