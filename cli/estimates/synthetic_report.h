/* synthetic_report.h - what training without files puts into each input, and why. */
#pragma once

#include <jansson.h>

#include "estimator/model/model.h"

/* A row per input that an operator reads: shape, type, role, values, the operator that decides. MP_NOMEM. */
mp_status report_synthetic(const mp_model *model, mp_error *err);
/* The same; NULL: memory is short. */
json_t *synthetic_json(const mp_model *model);
