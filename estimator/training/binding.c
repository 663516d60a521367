/* binding.c - bindings are one pool and the list of nodes; moments of optimizers. */
#include "estimator/training/binding.h"

void mp_bindings_free(mp_bindings *bindings)
{
    if (!bindings) return;
    mp_pool_free(bindings->pool);
    mp_free(bindings->nodes);
    mp_free(bindings);
}

int mp_optimizer_moments(mp_optimizer optimizer)
{
    static const int moments[MP_N_OPTIMIZERS] = {
        [MP_OPTIMIZER_ADAMW] = 2, [MP_OPTIMIZER_ADAM] = 2, [MP_OPTIMIZER_MOMENTUM] = 1};
    return moments[optimizer];
}

int64_t mp_optimizer_state_bytes(mp_optimizer optimizer, int64_t elements)
{
    enum { SMALLEST = 4096, BLOCK = 256 }; /* of bitsandbytes 0.50: min_8bit_size, blocksize */
    const int64_t largest = INT64_MAX / 16;
    int64_t bytes = 4 * mp_optimizer_moments(optimizer);
    if (elements > largest) return -1;
    if (optimizer != MP_OPTIMIZER_ADAMW_8BIT) return bytes * elements;
    if (elements < SMALLEST) return 8 * elements;
    return 2 * (elements + 4 * ((elements + BLOCK - 1) / BLOCK));
}
