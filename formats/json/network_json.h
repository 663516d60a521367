/* network_json.h - networks as JSON files: results of measurements, or a user's own data (docs/reference/formats.md). */
#pragma once

#include "memplan/ranks/network.h"

/* The measured seconds of a collective. A file may contain them for information; memplan does not use them. */
typedef struct mp_network_row {
    const char *collective;
    int64_t bytes;
    double seconds;
} mp_network_row;

/* Reads an interconnect between devices from a file. A level is a kind of link: within a node, or between nodes. MP_PARSE:
 * the file has no level, more than two, or two of the same kind, or a field is
 * missing or not a positive number. */
mp_status mp_network_json_read(const char *path, mp_interconnect *out, mp_error *err);
/* Writes an interconnect that has the single level `level` to a file. `how` describes the measurement. MP_IO, MP_NOMEM. */
mp_status mp_network_json_write(const char *path, const mp_fabric *level, const char *how, const mp_network_row *rows, size_t n,
                                mp_error *err);
