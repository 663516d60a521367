/* share.h - the answer of `memplan share`, and the result of `memplan share --run`. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "memplan/workloads/sharing.h"
#include "memplan/workloads/sharing_run.h"

/* ---- share_report.c ---- */

/* The answer of `memplan share`: how the memory of a card is divided among jobs, or which job does not fit. */

/* Writes the plans of a split that fits, one file per job. For the name "plan.json", the first job's file is "plan.job1.json".
 * Errors as mp_plan_write. */
mp_status sharing_write_plans(const mp_sharing *s, const char *name, mp_error *err);
/* Prints the answer as text. Errors as mp_makespan_recomputation. */
mp_status print_sharing(const mp_sharing *s, const options *o, mp_error *err);
/* Prints the answer as JSON. `run` is the result of --run, or JSON null; the function takes ownership of it. MP_NOMEM,
 * MP_IO. */
mp_status print_sharing_json(const mp_sharing *s, json_t *run, mp_error *err);

/* ---- share_run.c: prints the result of `memplan share --run` ---- */

void print_sharing_run(const mp_sharing *s, const mp_sharing_run *r);
/* Returns the results of both kinds of training, each job alone and all jobs by turns, as a JSON object; NULL if out of
 * memory. */
json_t *sharing_run_json(const mp_sharing_run *r);
