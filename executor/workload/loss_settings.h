/* loss_settings.h - the settings of the loss, converted to numbers and lists. */
#pragma once

#include "memplan/training.h"
#include "memplan/workload.h"

typedef struct mp_loss_settings {
    mp_loss_options wanted; /* the converted settings, which point into the fields below */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} mp_loss_settings;
/* Reads the numbers and lists of the loss. A list may be in a file. Release with mp_loss_settings_free on any status.
 * MP_INVALID: a value is not a number. MP_PARSE, MP_IO: a file cannot be read. MP_NOMEM. */
mp_status mp_loss_settings_read(const mp_workload_options *o, mp_loss_settings *out, mp_error *err);
void mp_loss_settings_free(mp_loss_settings *l);
