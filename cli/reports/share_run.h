/* share_run.h - `memplan share --run`: trains the jobs of a split alone, and then by turns in one arena. */
#pragma once

#include "cli/options/options.h"
#include "cli/reports/share_report.h"
#include "memplan/train.h"

typedef struct sharing_run {
    size_t n;
    mp_report *alone; /* per job: the report of training it alone */
    mp_turns turns;
} sharing_run;

/* Checks that every job can be trained on this machine. MP_INVALID, MP_UNSUPPORTED. */
mp_status sharing_can_run(const sharing *s, const options *o, mp_error *err);
/* Trains every job by its plan of the split: first each job alone, then all jobs by turns. Release *out with sharing_run_free
 * on any status. Errors as mp_train_turns. */
mp_status sharing_run_all(const sharing *s, const options *o, sharing_run *out, mp_error *err);
void sharing_run_free(sharing_run *r);

/* sharing_run_is_same: true if losses and parameters of every job are bit-identical, whether trained alone or by turns.
 * sharing_run_is_as_planned: true if the arena that was used has the planned size. */
bool sharing_run_is_same(const sharing_run *r);
bool sharing_run_is_as_planned(const sharing_run *r);
void print_sharing_run(const sharing *s, const sharing_run *r);
/* Returns the results of both trainings as a JSON object; NULL if out of memory. */
json_t *sharing_run_json(const sharing_run *r);
