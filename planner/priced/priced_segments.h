/* priced_segments.h - the forward list cut into segments of about equal bytes, each where the fewest bytes cross. For priced.c.
 */
#pragma once

#include "planner/order/boundaries.h"
#include "planner/priced/cut_labels.h"

typedef struct mp_priced_segments {
    mp_boundaries *boundaries;
    int64_t *produced_bytes; /* per position */
    int64_t total_bytes;     /* of all positions */
    bool *ends;              /* per position: a segment ends there; by the last cut */
    int *n_ends;             /* work: per position, how many ends come before */
} mp_priced_segments;

/* On MP_OK *out is released with mp_priced_segments_free (NULL is fine). MP_NOT_APPLICABLE: no forward or no backward nodes.
 * MP_NOMEM. O(list lengths). */
mp_status mp_priced_segments_new(const mp_graph *graph, mp_priced_segments **out, mp_error *err);
void mp_priced_segments_free(mp_priced_segments *segments);

/* Cuts the list into segments that produce about size_bytes each. O(n). */
void mp_priced_segments_cut(mp_priced_segments *segments, int64_t size_bytes);

/* Sets `is_kept` of the labels: what crosses an end is kept. O(n + storages). */
void mp_priced_segments_keep(mp_priced_segments *segments, mp_cut_labels *labels);
