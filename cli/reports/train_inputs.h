/* train_inputs.h - the inputs of a training: first values of parameters, data and test data. */
#pragma once

#include "cli/options/options.h"
#include "cli/reports/train_ranks.h"

typedef struct train_inputs {
    mp_parameter_source *source;
    mp_feed *feed, *test; /* feed: the part of the training data on which this rank trains; test: the test data, or NULL */
    seen_data seen;       /* digests of training data and test data, with which ranks compare their data */
} train_inputs;

void train_inputs_free(train_inputs *in);
/* Opens the files of data, the test data and the source of first values. Sets the numbers of parameters in `t`. Errors: as
 * mp_parameter_source_open and mp_inputs_open_part. */
mp_status train_inputs_open(const options *o, const mp_text_list *files, const ranks *r, train_outcome *t, train_inputs *in,
                            mp_error *err);
/* Warns if the file has values for some parameters only, and of parameters that no gradient reaches. */
void train_inputs_warn(const options *o, const train_outcome *t, const mp_hyper *hyper);
