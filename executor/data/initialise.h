/* initialise.h - first values of parameters that the model's file does not carry. */
#pragma once

#include "estimator/model/model.h"
#include "estimator/model/order.h"

/* Fills to[0 .. elements of t) in the order of its dimensions. What a parameter is for says how it starts: weights of products
 * and convolutions uniform within 1 / sqrt(fan-in) (He et al. 2015 with the gain that PyTorch's layers take by default), biases
 * and shifts 0, scales and running variances 1, running means 0, tables and whatever else 0.02 N(0, 1). Drawn with Philox keyed
 * by the seed and the parameter's name, so the values do not depend on the order of the file. */
void mp_initialise(const mp_model *model, const mp_consumers *consumers, int tensor, uint64_t seed, float *to);
