/* options_json.h - the options that shape a graph, as the `options` object that graph and plan files carry. */
#pragma once

#include "cli/options/options.h"
#include "memplan/error.h"

/* Returns the options that shape the graph as a JSON object. NULL if memory is short. */
json_t *options_to_json(const options *o);
/* Takes over from `source` (a graph's options; it is kept alive by *o) what the command line left open. MP_INVALID: the command
 * line contradicts it; MP_PARSE: not an object of such options. */
mp_status options_adopt(options *o, json_t *source, mp_error *err);
