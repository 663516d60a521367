/* file_warnings.h - says what a file does not have as training runs it, and how to export one that does. */
#pragma once

#include <stdbool.h>

#include "estimator/simplify/inference_form.h"

/* One sentence on standard error, the first time that there is something to say. `keeps`: --keep-inference-norms was given. */
void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps);

/* Under PyTorch's rules: one sentence on standard error, the first time, of operators of which the file does not say how
 * PyTorch runs them. lacks_dropout: a transformer without any. MP_NOMEM. */
mp_status warn_of_guesses(const char *path, const mp_model *model, bool lacks_dropout, mp_error *err);
