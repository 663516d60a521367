/* mesh_json.h - converts one choice of `memplan parallel` to JSON: a mesh with its schedule, times and memory. */
#pragma once

#include <jansson.h>

#include "cli/reports/mesh_rate.h"

/* Returns a choice as JSON. The best choices also have rates (samples per second) and stages. If the search had a link to the
 * host, stages also have their bytes on the host. */
json_t *mesh_choice_json(const mp_mesh_choice *choice, const mp_meshes_request *request, const mesh_rate *rate);
