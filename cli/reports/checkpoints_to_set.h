/* checkpoints_to_set.h - what a plan asks of somebody who sets checkpoints by hand. */
#pragma once

#include "cli/reports/plan_report.h"

/* The borders of what a plan recomputes: the tensors of the forward pass that a recomputation starts from, and those kept for
 * backward whose inputs are recomputed. All else is kept as it is without any checkpoint, because nothing around it is
 * recomputed. */
typedef struct checkpoints_to_set {
    size_t n_recomputed; /* steps */
    size_t n, n_beside;  /* to set; kept for backward as ever */
    int *storages;       /* to set, in the order of their production */
} checkpoints_to_set;

/* On MP_OK release with checkpoints_free. MP_NOMEM. O(list lengths of the steps). */
mp_status checkpoints_find(const mp_graph *graph, const mp_plan *plan, checkpoints_to_set *out, mp_error *err);
void checkpoints_free(checkpoints_to_set *set);

/* Prints them, folded into at most `rows` lines, or all names and those of what is recomputed (--list). */
mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err);
/* "checkpoints_to_set": names as the plan's own "checkpoints" have them. Adds it to *json, as mp_json_set does it. */
mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err);
