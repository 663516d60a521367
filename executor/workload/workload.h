/* workload.h - members of a workload that only the files of this folder and the reports read. The public part is
 * memplan/workload.h. */
#pragma once

#include <jansson.h>

#include "estimator/model/model.h"
#include "estimator/parallel/split.h"
#include "estimator/simplify/inference_form.h"
#include "estimator/simplify/sequences.h"
#include "estimator/training/accuracy.h"
#include "estimator/training/loss_chunks.h"
#include "estimator/training/row_regions.h"
#include "executor/program/program.h"
#include "memplan/simplify.h"
#include "memplan/training.h"
#include "memplan/workload.h"
#include "memplan/workloads/own_device.h"

enum { MP_MOST_PASSES = 24 };

/* The reports of the passes. */
typedef struct mp_workload_details {
    mp_simplify_report simplified;
    mp_attention_report attention;
    mp_loss_chunks loss_chunks;
    mp_row_regions row_regions;
    mp_sequence_report sequences;
    mp_inference_form inference; /* numbers of signs that the model was exported for inference, counted before simplification */
    json_t *options;             /* the `options` object of the graph; NULL: not loaded */
    mp_split split;              /* the split of the model over the ranks of tp */
    /* the reason why no program can run the split model; MP_OK: a program can run it, or no program is needed */
    mp_error refusal;
    const char *passes[MP_MOST_PASSES + 1];
    size_t n_passes, notes_capacity;
    bool lacks_notes;     /* true: memory for a note could not be allocated, so the note is missing */
    mp_pool *pool;        /* owns the texts of the notes */
    mp_spending spending; /* seconds of one rank per family of kernels, if their accuracy was noted */
    char accuracy[MP_ACCURACY_TEXT];
} mp_workload_details;

/* Returns the rule that decided the role of a tensor of the model, such as "frozen with --freeze"; "" if there is none. */
const char *mp_workload_role_reason(const mp_tensor *tensor, const mp_workload_options *o);

/* ---- workload_notes.c ---- */

/* Notes are warnings about a model file that differs from the network in training, and how to export it correctly. */

/* Adds a note, which begins with the workload's path. If memory for the note is missing, sets `lacks_notes` instead. */
void mp_workload_note(mp_workload *w, mp_note_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Each function adds notes about one subject. mp_note_version: memplan does not know the version of the file's operator set.
 * mp_note_weights: weights that may be missing, counted twice or not trained (estimator/model/doubts.h), one note per kind.
 * mp_note_inference_form: the file was exported for inference. */
void mp_note_version(mp_workload *w);
void mp_note_weights(mp_workload *w);
void mp_note_inference_form(mp_workload *w, bool keeps_inference_norms);
/* Stores the sentence about the accuracy of the workload's seconds. If no published step resembles it, adds the sentence as a
 * note. */
void mp_note_accuracy(mp_workload *w, const mp_spending *spending);
/* Returns the stored sentence. It begins with "warning: " if the accuracy is unknown. "": the seconds are not at achieved
 * rates. */
const char *mp_workload_accuracy(const mp_workload *w);
/* Under PyTorch's rules: notes the names of operators that PyTorch may run differently than the file describes. MP_NOMEM. */
mp_status mp_note_guesses(mp_workload *w, mp_error *err);

/* ---- workload_passes.c: the passes from a model to the training graph of one rank ---- */

/* Runs all passes on out->model: builds graph or program, and sets the fields that depend on them. MP_INVALID: settings
 * contradict each other. Other errors as the functions of the passes. */
mp_status mp_workload_build(mp_workload *w, const mp_workload_options *o, const mp_pipeline_shape *pipeline, mp_error *err);

/* ---- workload_loss.c: the settings of the loss, converted to numbers and lists ---- */

typedef struct mp_loss_settings {
    mp_loss_options wanted; /* the converted settings, which point into the fields below */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} mp_loss_settings;
/* Reads the numbers and lists of the loss. A list may be in a file. Release with mp_loss_settings_free on any status.
 * MP_INVALID: a value is not a number. MP_PARSE, MP_IO: a file cannot be read. MP_NOMEM. */
mp_status mp_loss_settings_read(const mp_workload_options *o, mp_loss_settings *out, mp_error *err);
void mp_loss_settings_free(mp_loss_settings *l);
