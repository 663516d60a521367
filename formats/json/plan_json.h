/* plan_json.h - the header of a plan file as a JSON value, for --json, the names of checkpoints, and plans as texts. */
#pragma once

#include <jansson.h>

#include "estimator/base/names.h"
#include "memplan/plan.h"
#include "memplan/plan_json.h"

/* Returns the header fields of a plan file (all but steps and offsets) as a new JSON object. NULL if memory is short. */
json_t *mp_plan_header_json(const mp_plan *plan, const mp_graph *graph);

/* Returns the name by which a reader finds this storage; "" if it has none. */
const char *mp_plan_checkpoint_name(const mp_storage *storage);
/* Makes a map from names to storages: the first of that name or, if there is none, the first with a tensor of that
 * name. Released with mp_names_free; NULL if memory is short. */
mp_names *mp_plan_checkpoint_names(const mp_graph *graph);

/* mp_plan_read and mp_plan_write for a plan that is sent, not kept: the same document as a text. `name` stands in faults where
 * a file's name would; what was written is released with mp_free. */
mp_status mp_plan_read_text(const char *text, const char *name, const mp_graph *graph, mp_plan **out, mp_error *err);
mp_status mp_plan_write_text(const mp_plan *plan, const mp_graph *graph, char **text, mp_error *err);
