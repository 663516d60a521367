/* recomputation.h - reports the time of a plan's recomputation, and the part of it that runs during waits for other channels.
 */
#pragma once

#include <jansson.h>

#include "memplan/plan.h"
#include "memplan/workload.h"

/* Prints the time of recomputation and the part of it that costs no time. Prints nothing if the graph has no other channel than
 * compute and no exchanges of tp, or if the plan recomputes nothing. `lead` begins the line. Errors as
 * mp_makespan_recomputation. */
mp_status print_recomputation(const mp_workload *w, const mp_plan *plan, const char *lead, mp_error *err);
/* Adds the member "recomputation" to a JSON object, also if the plan recomputes nothing. Adds nothing if the graph has no other
 * channel than compute and no exchanges of tp. */
mp_status recomputation_json(const mp_workload *w, const mp_plan *plan, json_t **json, mp_error *err);
