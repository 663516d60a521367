/* loss_options.h - what the options say of the loss, as the library takes it. */
#pragma once

#include "cli/options/options.h"
#include "memplan/training.h"

typedef struct loss_options {
    mp_loss_options wanted; /* points into what follows */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} loss_options;

/* Reads numbers and, for lists that are files, the files. Release with loss_options_free in any case. MP_INVALID: no numbers;
 * MP_PARSE, MP_IO: a file; MP_NOMEM. */
mp_status loss_options_read(const options *o, loss_options *out, mp_error *err);
void loss_options_free(loss_options *l);
