/* settings.h - what the user may decide about the GPU's arithmetic. Set once, before a program is built; what was prepared
 * keeps what it was prepared with. */
#ifndef EXECUTOR_CUDA_SETTINGS_H
#define EXECUTOR_CUDA_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mp_cuda_settings {
    bool tf32; /* products and convolutions of float32 may round their factors to 10 bits of mantissa, and use tensor cores */
    bool fast; /* algorithms may differ from run to run in their last bits, and may be less exact (large Winograd tiles, FFT) */
    int64_t workspace_limit; /* bytes that one call of a library may ask for */
} mp_cuda_settings;

/* Neither TF32 nor fast, 256 MiB, until something else is set. */
const mp_cuda_settings *mp_cuda_settings_get(void);
void mp_cuda_settings_set(const mp_cuda_settings *settings);

#endif
