/* settings.h - the settings of a GPU backend's arithmetic, for files that do not need CUDA's headers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/target.h"

/* The user's settings of the GPU's arithmetic. Set once, before a program is built. A prepared call keeps the settings that
 * were in force when it was prepared. */
typedef struct mp_cuda_settings {
    /* true: float32 products and convolutions may use tensor cores, which round operands to TF32 (10 bits of mantissa) */
    bool tf32;
    /* true: permits algorithms whose results may differ in the last bits from run to run, and algorithms with larger
     * rounding errors (large Winograd tiles, FFT) */
    bool fast;
    int64_t workspace_limit; /* limit in bytes for the workspace of one library call */
    mp_rates rates;          /* rates of the device's profile */
} mp_cuda_settings;

/* Returns the settings of the calling thread's backend. */
const mp_cuda_settings *mp_cuda_settings_get(void);
