/* sharing_run.h - trains the jobs of a split alone, and then by turns in one arena. */
#pragma once

#include "memplan/train.h"
#include "memplan/workloads/sharing.h"

typedef struct mp_sharing_run {
    size_t n;
    mp_report *alone; /* per job: the report of training it alone */
    mp_turns turns;
} mp_sharing_run;

/* Trains every job by its plan of the split by turns: first each job alone, then all jobs by turns. Release *out with
 * mp_sharing_run_free on any status. Errors as mp_train_turns. */
mp_status mp_sharing_run_all(const mp_sharing *s, const mp_workload_options *o, uint64_t seed, mp_sharing_run *out,
                             mp_error *err);
void mp_sharing_run_free(mp_sharing_run *r);

/* mp_sharing_run_is_same: true if losses and parameters of every job are bit-identical, whether the job is trained alone or by
 * turns. mp_sharing_run_is_as_planned: true if the arena that was used has the planned size. */
bool mp_sharing_run_is_same(const mp_sharing_run *r);
bool mp_sharing_run_is_as_planned(const mp_sharing_run *r);
