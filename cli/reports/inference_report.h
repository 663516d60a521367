/* inference_report.h - says that a file is an inference graph, and how to export one for training. */
#ifndef CLI_INFERENCE_REPORT_H
#define CLI_INFERENCE_REPORT_H

#include <stdbool.h>

#include "estimator/simplify/inference_form.h"

/* One sentence on standard error, the first time that there is something to say. `keeps`: --keep-inference-norms was given. */
void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps);

#endif
