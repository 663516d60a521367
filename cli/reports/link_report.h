/* link_report.h - results of 'memplan profile': links in the form of --offload and --link, networks in the form that other
 * commands read. */
#pragma once

#include <jansson.h>

#include "executor/ranks/network_speed.h"
#include "executor/tiers/link_speed.h"

/* Prints one link. `where`: its name in --offload. */
void print_link(const char *where, const mp_link_speed *speed);
/* Returns the same as JSON; NULL if out of memory. */
json_t *link_json(const char *where, const mp_link_speed *speed);
/* Returns the link as an argument of --link, "5.43GB/s,5.12GB/s,11us,turns", as mp_text does. */
const char *link_option(const mp_link *link);

/* Prints a network. `fast`: the network library chose the order of sums. */
void print_network(const mp_network_speed *speed, bool fast);
/* Writes the file for --network. `by`: the communication engine. As mp_network_json_write. */
mp_status write_network(const char *path, const mp_network_speed *speed, const char *by, bool fast, mp_error *err);
