/* plan_report.h - what `memplan plan` says about what it found. */
#pragma once

#include "cli/reports/outcome.h"

/* Prints the answer, as text or as JSON; where there is no plan, why. MP_NOMEM, MP_IO. */
mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);
