/* options_json.h - converts the options that shape a graph to and from the `options` object of graphs and plans. */
#pragma once

#include <jansson.h>

#include "memplan/workload.h"

/* Returns the options that shape a graph as a JSON object, in the order of the table; NULL if out of memory. */
json_t *mp_workload_options_json(const mp_workload_options *o);
/* Takes each option that is not given from `source`, the `options` object of a graph. *o keeps a reference to `source`, and
 * owns the lists that it takes from there. given[k]: option k is given; its value must then equal the value in `source`. given
 * NULL: no option is given. MP_INVALID: a given option contradicts `source`. MP_PARSE: `source` is not an object of such
 * options. */
mp_status mp_workload_options_adopt(mp_workload_options *o, const bool *given, json_t *source, mp_error *err);
