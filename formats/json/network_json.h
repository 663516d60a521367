/* network_json.h - networks as files: what was measured, or what somebody knows of one's own (docs/reference/formats.md). */
#pragma once

#include "memplan/ranks/network.h"

/* The seconds of a collective that were measured; a file may have them, and nobody reads them. */
typedef struct mp_network_row {
    const char *collective;
    int64_t bytes;
    double seconds;
} mp_network_row;

/* Reads a network. MP_PARSE, one sentence: no level, three, two of a kind, a field that is missing or no positive number. */
mp_status mp_network_json_read(const char *path, mp_interconnect *out, mp_error *err);
/* Writes one of one level, `level`, measured as `how` says. MP_IO, MP_NOMEM. */
mp_status mp_network_json_write(const char *path, const mp_fabric *level, const char *how, const mp_network_row *rows, size_t n,
                                mp_error *err);
