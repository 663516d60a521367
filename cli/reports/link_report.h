/* link_report.h - what 'memplan profile' has measured: of --link in the terms of --offload and --link, of --network as other
 * commands read it. */
#pragma once

#include <jansson.h>

#include "executor/ranks/network_speed.h"
#include "executor/tiers/link_speed.h"

/* Prints one link: `where` is what --offload calls it. */
void print_link(const char *where, const mp_link_speed *speed);
/* Returns the same as JSON. NULL if memory is short. */
json_t *link_json(const char *where, const mp_link_speed *speed);
/* Returns what --link takes, "5.43GB/s,5.12GB/s,11us,turns", as mp_text does. */
const char *link_option(const mp_link *link);

/* Prints a network; `fast`: sums are as the library makes them. */
void print_network(const mp_network_speed *speed, bool fast);
/* Writes it as --network reads it; `by`: the engine. As mp_network_json_write. */
mp_status write_network(const char *path, const mp_network_speed *speed, const char *by, bool fast, mp_error *err);
