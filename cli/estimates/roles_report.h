/* roles_report.h - which tensors from outside are data, trained, kept or constant, and by which rule. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "estimator/model/model.h"

/* Prints them by role and rule, with how many there are and the first of them; of constants those that are floating-point and
 * no settings, since others could not be trained. */
void report_roles(const mp_model *model, const options *o);
/* Elements of all parameters that the file trains, whether the loss depends on them or not (the head of an auxiliary output),
 * and of those that are not frozen. */
void count_parameters(const mp_model *model, const options *o, int64_t *all, int64_t *trained);
/* All of them: name, role, reason, elements. NULL: memory is short. */
json_t *roles_json(const mp_model *model, const options *o);
