/* workload_notes.h - notes: warnings about a model file that differs from the network in training, and how to export it
 * correctly. */
#pragma once

#include "memplan/workload.h"

/* Adds a note, which begins with the workload's path. If memory for the note is missing, sets `lacks_notes` instead. */
void mp_workload_note(mp_workload *w, mp_note_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Each function adds notes about one subject. mp_note_version: memplan does not know the version of the file's operator set.
 * mp_note_weights: weights that may be missing, counted twice or not trained (estimator/model/doubts.h), one note per kind.
 * mp_note_inference_form: the file was exported for inference. */
void mp_note_version(mp_workload *w);
void mp_note_weights(mp_workload *w);
void mp_note_inference_form(mp_workload *w, bool keeps_inference_norms);
/* Under PyTorch's rules: notes the names of operators that PyTorch may run differently than the file describes. MP_NOMEM. */
mp_status mp_note_guesses(mp_workload *w, mp_error *err);
