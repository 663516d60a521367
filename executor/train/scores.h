/* scores.h - counts the labels that have the highest score. */
#pragma once

#include "executor/kernel/team.h"

typedef struct mp_labels_count {
    int64_t n_right, n_labels;
} mp_labels_count;

/* Adds those of a batch to *count. Scores are row-major floats whose dimension 1 is that of the classes; of several classes
 * with the same score the first counts. Labels that name no class (the loss ignores them) are not counted. `classes`: the ranks
 * of which each has as many of the classes, one behind the other, and all have the same labels, so that all count the same;
 * NULL: this one has all. MP_NOMEM, MP_IO. O(scores). */
mp_status mp_scores_count(const mp_array *scores, const mp_array *labels, const mp_kernel_team *classes, mp_labels_count *count,
                          mp_error *err);
