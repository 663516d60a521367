/* plan_json.h - the header of a plan file as a JSON value, for --json, and the names of checkpoints. */
#pragma once

#include <jansson.h>

#include "estimator/base/names.h"
#include "memplan/plan.h"
#include "memplan/plan_json.h"

/* The header fields of the file (all but steps and offsets) as a new JSON object, for --json output; NULL: out of memory. */
json_t *mp_plan_header_json(const mp_plan *plan, const mp_graph *graph);

/* The name that a reader will find this storage by; "" if it has none. */
const char *mp_plan_checkpoint_name(const mp_storage *storage);
/* From names to storages: the first of that name or, where none is called so, the first with a tensor of that name. Released
 * with mp_names_free; NULL: out of memory. */
mp_names *mp_plan_checkpoint_names(const mp_graph *graph);
