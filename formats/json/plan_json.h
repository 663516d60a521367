/* plan_json.h - parts of plan files: the header as a JSON object for --json, the names of checkpoints, and plan files as
 * texts in memory. */
#pragma once

#include <jansson.h>

#include "estimator/base/names.h"
#include "memplan/plan.h"
#include "memplan/plan_json.h"

/* Returns the header fields of a plan file (without steps and offsets) as a new JSON object. NULL: out of memory. */
json_t *mp_plan_header_json(const mp_plan *plan, const mp_graph *graph);

/* Returns the name by which plan files refer to this storage; "" if it has no name. */
const char *mp_plan_checkpoint_name(const mp_storage *storage);
/* Creates a map from names in plan files to storages. A name denotes the first storage with this name, or else the first
 * storage that contains a tensor of this name. Release with mp_names_free. NULL: out of memory. */
mp_names *mp_plan_checkpoint_names(const mp_graph *graph);

/* Like mp_plan_read and mp_plan_write, but with a text in memory instead of a file. Used to send a plan to another process.
 * Error messages use `name` instead of a file name. Release the written text with mp_free. */
mp_status mp_plan_read_text(const char *text, const char *name, const mp_graph *graph, mp_plan **out, mp_error *err);
mp_status mp_plan_write_text(const mp_plan *plan, const mp_graph *graph, char **text, mp_error *err);
