/* share_run.h - `memplan share --run`: the jobs of a split trained alone, and by turns in one arena. */
#pragma once

#include "cli/reports/share_report.h"
#include "memplan/train.h"

typedef struct sharing_run {
    size_t n;
    mp_report *alone; /* per job */
    mp_turns turns;
} sharing_run;

/* Checks that every job can run. MP_INVALID, MP_UNSUPPORTED. */
mp_status sharing_can_run(const sharing *s, const options *o, mp_error *err);
/* Trains every job by its plan of the split, alone and then by turns. *out is released with sharing_run_free in any case.
 * Errors as mp_train_turns. */
mp_status sharing_run_all(const sharing *s, const options *o, sharing_run *out, mp_error *err);
void sharing_run_free(sharing_run *r);

/* True if every job has the losses and parameters of its training alone, bit for bit; if the arena that was used is the one
 * that was planned. */
bool sharing_run_is_same(const sharing_run *r);
bool sharing_run_is_as_planned(const sharing_run *r);
void print_sharing_run(const sharing *s, const sharing_run *r);
/* Returns the run as a JSON object. NULL if memory is short. */
json_t *sharing_run_json(const sharing_run *r);
