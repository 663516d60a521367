/* budget_bytes.h - reads --memory. Finds the smallest plan and keep-all, to which a relative budget refers, and shows a
 * progress line meanwhile. */
#pragma once

#include "cli/options/options.h"
#include "memplan/workloads/workload_budget.h"

/* Like mp_budget_ends_of, with a progress line. --time-limit does not shorten this search, so that the budget is always the
 * same. */
mp_status find_budget_ends(const mp_budget *budgets, size_t n, const options *o, const mp_request *request, mp_budget_ends *out,
                           mp_error *err);
/* Reads --memory. *memory_bytes is -1 if the option was not given or is "device": all memory of the device. Returns the exit
 * status, with an error message if the text is not a number of bytes. */
int memory_read(const options *o, int64_t *memory_bytes);
/* Prints a note if the user's budget exceeds the device's memory minus its reserve. */
void report_above_room(const mp_device_capacity *room, int64_t budget_bytes);
