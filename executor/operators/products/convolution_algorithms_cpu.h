/* convolution_algorithms_cpu.h - the implementations that oneDNN has for a convolution, by name. Private to executor/cpu/. */
#pragma once

#include "executor/operators/products/convolution_cpu.h"

/* An algorithm is an implementation of oneDNN's, on activations as they lie or reordered to what it wants: "jit:avx512_core",
 * "jit_wino_4x3:avx512_core reordered". One of each kind but those that it falls back to, mp_convolution_best's first.
 * MP_NOMEM. */
mp_status mp_convolution_algorithms(const mp_convolution *c, mp_convolution_pass pass, mp_algorithms *out, mp_error *err);
/* The descriptor of one of them. MP_UNSUPPORTED: there is none of this name here. */
mp_status mp_convolution_named(const mp_convolution *c, mp_convolution_pass pass, const char *name, dnnl_primitive_desc_t *out,
                               mp_error *err);
