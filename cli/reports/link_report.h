/* link_report.h - prints the results of 'memplan profile' about links and networks. Links are printed as values of --offload
 * and --link. Networks are written as files that --network reads. */
#pragma once

#include <jansson.h>

#include "executor/ranks/network_speed.h"
#include "executor/tiers/link.h"

/* Prints the measurement of one link. `where` is its name in --offload. */
void print_link(const char *where, const mp_link_speed *speed);
/* Returns the values that print_link prints as JSON; NULL if out of memory. */
json_t *link_json(const char *where, const mp_link_speed *speed);
/* Returns the measured link as a value for --link, such as "5.43GB/s,5.12GB/s,11us,turns". mp_text allocates the text. */
const char *link_option(const mp_link *link);

/* Prints the measured speeds of a network. `fast`: the communication library chose the order in which it sums. */
void print_network(const mp_network_speed *speed, bool fast);
/* Writes the measured network to a file for --network. `by` is the name of the communication library. Errors: as
 * mp_network_json_write. */
mp_status write_network(const char *path, const mp_network_speed *speed, const char *by, bool fast, mp_error *err);
