/* collective_json.h - the record of a node's collectives (memplan/ranks/collective.h) in a graph file. The lists of storages
 * are not written: the executor, which needs them, builds its graphs itself. */
#pragma once

#include "formats/json/json.h"
#include "memplan/graph.h"

/* Reads the field "collective" of a node's row; a row without it has no record. *total is the sum over all legs (operations of
 * collectives) read so far of the number of ranks times the bytes. This sum is limited. MP_PARSE, MP_NOMEM. */
mp_status mp_collective_read(mp_graph *graph, const mp_json_record *row, int64_t *total, mp_node *node);
/* Returns the record as a new JSON reference; NULL: out of memory. */
json_t *mp_collective_json(const mp_collective_record *record);
