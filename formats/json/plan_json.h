/* plan_json.h - plans as JSON ("memplan-plan", version 1; the format is described in ARCHITECTURE.md). */
#ifndef FORMATS_PLAN_JSON_H
#define FORMATS_PLAN_JSON_H

#include <jansson.h>

#include "memplan/plan.h"
#include "memplan/plan_json.h"

/* The header fields of the file (all but steps and offsets) as a new JSON object, for --json output; NULL: out of memory. */
json_t *mp_plan_header_json(const mp_plan *plan, const mp_graph *graph);

#endif
