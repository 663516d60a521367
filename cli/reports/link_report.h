/* link_report.h - prints the results of 'memplan profile' about links and networks. Links have the form of --offload and
 * --link. Networks have the form of the files that --network reads. */
#pragma once

#include <jansson.h>

#include "executor/ranks/network_speed.h"
#include "executor/tiers/link_speed.h"

/* Prints one link. `where`: its name in --offload. */
void print_link(const char *where, const mp_link_speed *speed);
/* Returns the measurements of print_link as JSON; NULL if out of memory. */
json_t *link_json(const char *where, const mp_link_speed *speed);
/* Returns the link as a value of --link, "5.43GB/s,5.12GB/s,11us,turns". mp_text allocates the text. */
const char *link_option(const mp_link *link);

/* Prints the speeds of a network. `fast`: the network library chose the order of its sums. */
void print_network(const mp_network_speed *speed, bool fast);
/* Writes a file for --network. `by` is the name of the communication library that was measured. As mp_network_json_write. */
mp_status write_network(const char *path, const mp_network_speed *speed, const char *by, bool fast, mp_error *err);
