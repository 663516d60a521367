/* network_report.h - a measured network, printed and written. */
#pragma once

#include "executor/ranks/network_speed.h"

void print_network(const mp_network_speed *speed, bool fast);
/* Writes it as --network of other commands reads it. As mp_network_json_write. */
mp_status write_network(const char *path, const mp_network_speed *speed, const char *by, bool fast, mp_error *err);
