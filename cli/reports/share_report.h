/* share_report.h - the answer of `memplan share`: how the memory of a card is divided among jobs, or which job does not fit. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "memplan/workloads/sharing.h"

/* Writes the plans of a split that fits, one file per job. For the name "plan.json", the first job's file is "plan.job1.json".
 * Errors as mp_plan_write. */
mp_status sharing_write_plans(const mp_sharing *s, const char *name, mp_error *err);
void print_sharing(const mp_sharing *s, const options *o);
/* Prints the answer as JSON. `run` is the result of --run, or JSON null; the function takes ownership of it. MP_NOMEM,
 * MP_IO. */
mp_status print_sharing_json(const mp_sharing *s, json_t *run, mp_error *err);
