/* convolution_cpu.h - what a convolution is to oneDNN: sizes, padding, and the descriptors of its operands. Private to
 * executor/cpu/. */
#pragma once

#include "executor/cpu/base/dnnl.h"

typedef struct mp_convolution {
    const mp_operator *op;
    bool is_transposed, has_bias;
    int n; /* spatial dimensions */
    int64_t groups;
    dnnl_dims_t strides, dilates, begin, end;   /* dilates: 0 is none */
    dnnl_memory_desc_t src, weights, dst, bias; /* as the operands lie in memory; grouped weights have a dimension more */
} mp_convolution;

/* Reads the operator's geometry and the layouts of x, weights, y and bias (bias->dtype UNDEFINED: none). The arrays need no
 * data. */
mp_status mp_convolution_read(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                              const mp_array *y, const mp_array *bias, mp_convolution *out, mp_error *err);

typedef enum mp_convolution_pass { MP_CONVOLVE_FORWARD, MP_CONVOLVE_DATA, MP_CONVOLVE_WEIGHTS } mp_convolution_pass;

/* A primitive descriptor for one pass over operands of these layouts (any: oneDNN's choice); released with
 * dnnl_primitive_desc_destroy. MP_UNSUPPORTED: oneDNN has none. */
mp_status mp_convolution_desc(const mp_convolution *c, mp_convolution_pass pass, const dnnl_memory_desc_t *src,
                              const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t *out,
                              mp_error *err);
/* Told of an implementation; keeps it by setting *desc to NULL. False ends the enumeration. */
typedef bool (*mp_convolution_visit)(void *data, dnnl_primitive_desc_t *desc);
/* All that oneDNN has for this algorithm (dnnl_convolution_direct or _winograd), in its order; there may be none. */
mp_status mp_convolution_each(const mp_convolution *c, mp_convolution_pass pass, dnnl_alg_kind_t algorithm,
                              const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *dst,
                              mp_convolution_visit visit, void *data, mp_error *err);
/* What oneDNN calls the implementation, "jit:avx512_core"; valid as long as the descriptor. */
const char *mp_convolution_implementation(const_dnnl_primitive_desc_t desc);
/* Whether it is one that oneDNN falls back to. */
bool mp_convolution_is_slow(const_dnnl_primitive_desc_t desc);

/* mp_convolution_desc with `any` for what oneDNN may choose: the weights, and activations too where it has nothing fast for the
 * layout they have. */
mp_status mp_convolution_best(const mp_convolution *c, mp_convolution_pass pass, dnnl_primitive_desc_t *out, mp_error *err);
