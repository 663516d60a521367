/* randoms_cuda.h - dropout and random numbers on the GPU. All only enqueue. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/randoms/dropout.h"
#include "executor/operators/randoms/random_source.h"

/* to[i] = from[i] where it is kept; `given` (NULL: none) receives 1 and 0, `mask` (NULL: draw) is read instead of drawing. */
void mp_cuda_drop(const mp_dropout *dropout, const mp_run *run, uint32_t op, const mp_array *from, const mp_array *to,
                  const uint8_t *mask, uint8_t *keeps, uint8_t *given);

/* Each element from its own words; `probabilities`: read for Bernoulli only. */
void mp_cuda_draw(const mp_random_source *source, const mp_run *run, uint32_t op, const mp_array *probabilities,
                  const mp_array *to);

MP_C_END
