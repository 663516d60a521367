/* plan_json.h - the header of a plan file as a JSON value, for --json. */
#pragma once

#include <jansson.h>

#include "memplan/plan.h"
#include "memplan/plan_json.h"

/* The header fields of the file (all but steps and offsets) as a new JSON object, for --json output; NULL: out of memory. */
json_t *mp_plan_header_json(const mp_plan *plan, const mp_graph *graph);
