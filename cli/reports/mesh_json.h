/* mesh_json.h - a choice of a mesh as JSON. */
#pragma once

#include <jansson.h>

#include "cli/reports/mesh_rate.h"

/* Returns a choice as JSON. The best choices also have rates and stages. With a link to the host, stages also have their bytes
 * there. */
json_t *mesh_choice_json(const mp_mesh_choice *choice, const mp_meshes_request *request, const mesh_rate *rate);
