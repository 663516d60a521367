/* workload_needs.h - the memory that a process requires to train a workload on the card for which its graph was built.
 *
 *     // given: const mp_workload *workload; const mp_workload_options *options; const mp_plan *plan; mp_error *err
 *     mp_needs needs;
 *     MP_CHECK(mp_workload_needs_of_plan(workload, options, plan, &needs, err));
 *     if (needs.likely_bytes >= 0) printf("19 of 20 such jobs run in %lld bytes\n", (long long)needs.likely_bytes); */
#pragma once

#include "memplan/workload.h"
#include "memplan/workloads/needs.h"
#include "memplan/workloads/workload_budget.h"

/* The process that trains a workload. `process` points to the texts of this struct, so the struct must not be copied. */
typedef struct mp_workload_terms {
    mp_needs_terms process;
    char card[MP_DEVICE_TITLE_MAX], network[MP_DEVICE_NAME_MAX];
} mp_workload_terms;
/* Sets *out to the workload's card, family and communicators. arena_bytes is -1 under PyTorch's rules, else 0. The operators
 * determine the family: attention and an embedding, or convolutions. All measured jobs are fp32. O(operators). */
void mp_workload_terms_of(const mp_workload *w, const mp_workload_options *o, mp_workload_terms *out);
/* Returns the memory that programs see on the card that the settings name. Returns 0 if the card has no row in process.def, if
 * the user states a reserve, or if a backend runs on the device. O(cards). */
int64_t mp_visible_bytes_of_options(const mp_workload_options *o);

/* Compute the needs of steps, or of a plan. arena_bytes: arena of the executor; -1: as large as its live bytes. Under PyTorch's
 * rules, the caching allocator is simulated instead. process_bytes is -1 if process.def has no row for the device. MP_NOMEM. */
mp_status mp_workload_needs(const mp_workload *w, const mp_workload_options *o, const mp_step *steps,
                            const mp_timeline *timeline, int64_t arena_bytes, mp_needs *out, mp_error *err);
mp_status mp_workload_needs_of_plan(const mp_workload *w, const mp_workload_options *o, const mp_plan *plan, mp_needs *out,
                                    mp_error *err);

/* Sets the reserve of a device to its memory minus mp_needs_room. Changes nothing if the settings state a reserve, or if the
 * process of the needs is unknown. Changes nothing either if a backend runs on the device, because its free memory is then
 * known. O(1). */
void mp_capacity_take_needs(const mp_workload *w, const mp_workload_options *o, const mp_needs *needs, int64_t tensors_bytes,
                            mp_device_capacity *room);
