/* convolution_cpu.h - a convolution as oneDNN describes it: sizes, padding, and descriptors of the operands. Private to
 * executor/cpu/. */
#pragma once

#include "executor/cpu/base/dnnl.h"
#include "executor/kernel/kernel.h"

typedef struct mp_convolution {
    const mp_operator *op;
    bool is_transposed, has_bias;
    int n; /* number of spatial dimensions */
    int64_t groups;
    /* as oneDNN defines them: dilates is the dilation - 1; begin and end are paddings */
    dnnl_dims_t strides, dilates, begin, end;
    dnnl_memory_desc_t src, weights, dst, bias; /* the operands' own layouts; grouped weights have an additional dimension */
} mp_convolution;

/* Reads the operator's geometry and the layouts of x, weights, y and bias (bias->dtype UNDEFINED: none). The arrays need no
 * data. */
mp_status mp_convolution_read(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                              const mp_array *y, const mp_array *bias, mp_convolution *out, mp_error *err);

typedef enum mp_convolution_pass { MP_CONVOLVE_FORWARD, MP_CONVOLVE_DATA, MP_CONVOLVE_WEIGHTS } mp_convolution_pass;

/* Creates a oneDNN primitive descriptor for one pass over operands with the given layouts. With format_kind any, oneDNN
 * chooses a layout. The caller releases the descriptor with dnnl_primitive_desc_destroy. MP_UNSUPPORTED: oneDNN has no
 * implementation. */
mp_status mp_convolution_desc(const mp_convolution *c, mp_convolution_pass pass, const dnnl_memory_desc_t *src,
                              const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t *out,
                              mp_error *err);

/* As mp_convolution_desc, but oneDNN chooses the layout of the weights. It also chooses the layout of the activations if it has
 * no fast implementation for their own layout. */
mp_status mp_convolution_best(const mp_convolution *c, mp_convolution_pass pass, dnnl_primitive_desc_t *out, mp_error *err);

/* Lists the algorithms of a pass: implementations of oneDNN, for activations in their own layout ("jit:avx512_core"), or
 * reordered to oneDNN's choice ("jit_wino_4x3:avx512_core reordered"). The first one is the choice of mp_convolution_best. This
 * algorithm is followed by one implementation of each other kind, except oneDNN's slow reference implementations. MP_NOMEM. */
mp_status mp_convolution_algorithms(const mp_convolution *c, mp_convolution_pass pass, mp_algorithms *out, mp_error *err);
/* Creates the descriptor of an algorithm by its name. MP_UNSUPPORTED: oneDNN has no algorithm of this name on this machine. */
mp_status mp_convolution_named(const mp_convolution *c, mp_convolution_pass pass, const char *name, dnnl_primitive_desc_t *out,
                               mp_error *err);

/* Implements mp_backend.algorithms for the CPU: lists the algorithms of a node that runs a single pass of a convolution. The
 * list is empty for all other nodes. */
mp_status mp_cpu_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
