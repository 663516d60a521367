/* estimate_updates.h - the part of `memplan estimate --fuse` that compares where updates can run. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "memplan/update_effect.h"

typedef struct update_comparison {
    bool is_possible[MP_N_FUSES]; /* clipping by the global norm rules backward out */
    mp_update_effect effects[MP_N_FUSES];
    int64_t cache_bytes;
} update_comparison;

/* Builds the training graph of the model once per mode. As subject_load. */
mp_status compare_updates(const options *o, update_comparison *out, mp_error *err);
void print_update_comparison(const update_comparison *c);
json_t *update_comparison_json(const update_comparison *c); /* NULL: out of memory */
