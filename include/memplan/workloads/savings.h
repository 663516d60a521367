/* savings.h - the memory that a workload needs with other settings. For each setting, the graph is built and measured with
 * everything kept. */
#pragma once

#include "memplan/workload.h"

enum { MP_SAVINGS_MAX = 7 };

typedef struct mp_saving {
    char what[64];      /* the option as a user would write it: "--optimizer sgd" */
    int64_t peak_bytes; /* peak bytes of keep-all with this option */
    /* ticks of a training step with this option; -1: the time is not comparable, because the step computes other results */
    int64_t ticks;
} mp_saving;

typedef struct mp_savings {
    int64_t peak_bytes, ticks; /* peak bytes and ticks of keep-all with the user's options */
    size_t n;
    mp_saving rows[MP_SAVINGS_MAX];
} mp_savings;

/* Computes the savings of options that the user did not give: updates within backward, SGD without state, bf16, autocast, half
 * the batch, LoRA adapters on the products of attention, and recomputed segments between evenly spread checkpoints. Skips
 * options that are impossible for the model or the device. MP_NOMEM, or a failure to build the graph. */
mp_status mp_savings_find(const mp_workload_options *o, const mp_workload *s, int64_t peak_bytes, mp_savings *out,
                          mp_error *err);
