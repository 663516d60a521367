/* link_report.h - what 'memplan profile --link' has measured, in the terms of --offload and --link. */
#pragma once

#include <jansson.h>

#include "executor/tiers/link_speed.h"

/* Prints one link: `where` is what --offload calls it. */
void print_link(const char *where, const mp_link_speed *speed);
/* Returns the same as JSON. NULL if memory is short. */
json_t *link_json(const char *where, const mp_link_speed *speed);
/* Returns what --link takes, "5.43GB/s,5.12GB/s,11us,turns", as mp_text does. */
const char *link_option(const mp_link *link);
