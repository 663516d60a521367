/* estimate_savings.h - what would help: other options of the same model, each built and measured with everything kept. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "cli/subject/subject.h"

enum { SAVINGS_MAX = 7 };

typedef struct saving {
    char what[64];      /* "--optimizer sgd" */
    int64_t peak_bytes; /* with it */
    int64_t ticks;      /* of a step; -1: not compared, because it is another step */
} saving;

typedef struct savings {
    int64_t peak_bytes, ticks; /* without any */
    size_t n;
    saving rows[SAVINGS_MAX];
} savings;

/* Tries what the options have not chosen: updates within backward, SGD without state, bf16, autocast, half the batch, adapters
 * beside the products of attention, and segments recomputed between evenly spread checkpoints. What the model or the device
 * does not have is left out. MP_NOMEM, or a failure of building the graph as asked. */
mp_status savings_find(const options *o, const subject *s, int64_t peak_bytes, savings *out, mp_error *err);
/* Prints those that save most, at most so many. */
void report_savings(const savings *s, size_t most);
/* A new reference; NULL: memory is short. */
json_t *savings_json(const savings *s);
