/* network_json.h - networks as files: measurements, or a user's own data (docs/reference/formats.md). */
#pragma once

#include "memplan/ranks/network.h"

/* The measured seconds of a collective. They are optional in a file, and memplan does not use them. */
typedef struct mp_network_row {
    const char *collective;
    int64_t bytes;
    double seconds;
} mp_network_row;

/* Reads a network. MP_PARSE: no level, three levels, two of the same kind, or a field that is missing or not a positive
 * number. */
mp_status mp_network_json_read(const char *path, mp_interconnect *out, mp_error *err);
/* Writes a network with the single level `level`; `how` describes the measurement. MP_IO, MP_NOMEM. */
mp_status mp_network_json_write(const char *path, const mp_fabric *level, const char *how, const mp_network_row *rows, size_t n,
                                mp_error *err);
