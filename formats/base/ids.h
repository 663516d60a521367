/* ids.h - maps the ids of a file, which may be any distinct integers, to indices. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_ids {
    size_t n;
    struct mp_id {
        int64_t id;
        int index;
    } * rows; /* pairs of an id and its index, sorted by id */
} mp_ids;

/* Collect the ids of a graph's storages, or of its nodes. Release with mp_ids_free (a zeroed struct is allowed). MP_NOMEM.
 * O(n log n). */
mp_status mp_ids_of_storages(const mp_graph *graph, mp_ids *out, mp_error *err);
mp_status mp_ids_of_nodes(const mp_graph *graph, mp_ids *out, mp_error *err);
void mp_ids_free(mp_ids *ids);
/* Returns the index that belongs to an id; -1: the id does not occur. O(log n). */
int mp_ids_find(const mp_ids *ids, int64_t id);
