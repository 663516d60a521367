/* workload.h - members of a workload that only the files of this folder and the reports read. The public part is
 * memplan/workload.h. */
#pragma once

#include <jansson.h>

#include "estimator/model/model.h"
#include "estimator/parallel/split.h"
#include "estimator/simplify/inference_form.h"
#include "estimator/simplify/sequences.h"
#include "executor/program/program.h"
#include "memplan/simplify.h"
#include "memplan/workload.h"
#include "memplan/workloads/own_device.h"

enum { MP_MOST_PASSES = 24 };

/* The reports of the passes. */
typedef struct mp_workload_details {
    mp_simplify_report simplified;
    mp_attention_report attention;
    mp_sequence_report sequences;
    mp_inference_form inference; /* numbers of signs that the model was exported for inference, counted before simplification */
    json_t *options;             /* the `options` object of the graph; NULL: not loaded */
    mp_split split;              /* the split of the model over the ranks of tp */
    /* the reason why no program can run the split model; MP_OK: a program can run it, or no program is needed */
    mp_error refusal;
    const char *passes[MP_MOST_PASSES + 1];
    size_t n_passes, notes_capacity;
    bool lacks_notes; /* true: memory for a note could not be allocated, so the note is missing */
    mp_pool *pool;    /* owns the texts of the notes */
} mp_workload_details;

/* Returns the rule that decided the role of a tensor of the model, such as "frozen with --freeze"; "" if there is none. */
const char *mp_workload_role_reason(const mp_tensor *tensor, const mp_workload_options *o);
