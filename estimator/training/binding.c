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
