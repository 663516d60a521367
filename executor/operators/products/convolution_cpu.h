/* convolution_cpu.h - what a convolution is to oneDNN: sizes, padding, and the descriptors of its operands. Private to
 * executor/cpu/. */
#pragma once

#include "executor/cpu/base/dnnl.h"
#include "executor/kernel/kernel.h"

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

/* mp_convolution_desc with `any` for what oneDNN may choose: the weights, and activations too where it has nothing fast for the
 * layout they have. */
mp_status mp_convolution_best(const mp_convolution *c, mp_convolution_pass pass, dnnl_primitive_desc_t *out, mp_error *err);

/* An algorithm is an implementation of oneDNN's, on activations as they lie or reordered to what it wants: "jit:avx512_core",
 * "jit_wino_4x3:avx512_core reordered". One of each kind but those that it falls back to, mp_convolution_best's first.
 * MP_NOMEM. */
mp_status mp_convolution_algorithms(const mp_convolution *c, mp_convolution_pass pass, mp_algorithms *out, mp_error *err);
/* The descriptor of one of them. MP_UNSUPPORTED: there is none of this name here. */
mp_status mp_convolution_named(const mp_convolution *c, mp_convolution_pass pass, const char *name, dnnl_primitive_desc_t *out,
                               mp_error *err);

/* Which algorithms oneDNN has for the convolution of a node, as in mp_backend; none for other operators. */
mp_status mp_cpu_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
