/* packing_cpu.c - chooses the layout of weights in which their convolution runs fastest, and copies between any layouts. */
#include "executor/operators/products/packing_cpu.h"

#include <string.h>

#include "estimator/model/order.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/products/convolution_cpu.h"

/* Returns the convolution that reads tensor t as its weights, if it is the only reader of t; else NULL. */
static const mp_operator *only_reader(const mp_model *model, const mp_consumers *consumers, int t)
{
    int first = consumers->start[t];
    if (consumers->start[t + 1] != first + 1) return NULL;
    const mp_operator *op = &model->operators[consumers->list[first]];
    return (op->op->traits & MP_TRAIT_CONVOLVES) && op->n_in > 1 && op->in[1] == t ? op : NULL;
}

static mp_status pack(mp_model *model, int t, const mp_operator *op, mp_dtype dtype, mp_error *err)
{
    mp_array x, w, y;
    mp_convolution c;
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t desc = NULL;
    MP_CHECK(mp_array_of(&model->tensors[op->in[0]], dtype, &x, err));
    MP_CHECK(mp_array_of(&model->tensors[t], dtype, &w, err));
    MP_CHECK(mp_array_of(&model->tensors[op->out[0]], dtype, &y, err));
    MP_CHECK(mp_convolution_read(model, op, &x, &w, &y, NULL, &c, err));
    MP_CHECK(mp_convolution_best(&c, MP_CONVOLVE_FORWARD, &desc, err));
    const dnnl_memory_desc_t *best = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    if (dnnl_memory_desc_equal(best, &c.weights)) return MP_OK;
    mp_dnnl_packing *kept = mp_pool_alloc(model->pool, 1, sizeof *kept);
    MP_ENSURE(kept, err, MP_NOMEM, "out of memory");
    *kept = (mp_dnnl_packing){*best, c.is_transposed};
    model->tensors[t].stored.packed = kept;
    model->tensors[t].stored.packed_elements = (int64_t)dnnl_memory_desc_get_size(best) / (mp_dtype_bits(dtype) / 8);
    return MP_OK;
}

mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err)
{
    MP_CLEARED_BY(mp_consumers_free) mp_consumers consumers = {0};
    MP_CHECK(mp_model_consumers(model, &consumers, err));
    for (size_t t = 0; t < model->n_tensors; t++) {
        if (model->tensors[t].role != MP_ROLE_PARAMETER || model->tensors[t].dtype != MP_DTYPE_FLOAT) continue;
        const mp_operator *op = only_reader(model, &consumers, (int)t);
        if (op) MP_CHECK(pack(model, (int)t, op, dtype, err));
    }
    return MP_OK;
}

static void copy_row(const double *p, int64_t n, const float *const *in, float *out)
{
    (void)p;
    memmove(out, in[0], (size_t)n * sizeof *out);
}
static void copy_whole_row(const double *p, int64_t n, const int64_t *const *in, int64_t *out)
{
    (void)p;
    memmove(out, in[0], (size_t)n * sizeof *out);
}

/* Permutes the dimensions of a row-major array of weights to the order of the packed layout: (groups,) outputs, inputs,
 * window. */
static void match_dims(mp_array *plain, const mp_dnnl_packing *packing)
{
    const dnnl_memory_desc_t *packed = &packing->desc;
    mp_array a = *plain;
    int extra = packed->ndims - a.rank, r = 0;
    int64_t groups = extra ? packed->dims[0] : 1, part = a.dims[0] / groups;
    bool turned = packing->inputs_first;
    if (extra) {
        plain->dims[r] = groups;
        plain->strides[r++] = part * a.strides[0];
    }
    plain->dims[r] = turned ? a.dims[1] : part;
    plain->strides[r++] = turned ? a.strides[1] : a.strides[0];
    plain->dims[r] = turned ? part : a.dims[1];
    plain->strides[r++] = turned ? a.strides[0] : a.strides[1];
    for (int d = 2; d < a.rank; d++, r++) {
        plain->dims[r] = a.dims[d];
        plain->strides[r] = a.strides[d];
    }
    plain->rank = r;
}

static mp_status reorder_packed(const mp_array *from, const mp_array *to, mp_error *err)
{
    mp_array a = *from, b = *to;
    dnnl_memory_desc_t ad, bd;
    MP_CLEARED_BY(mp_dnnl_release) mp_dnnl_op op = {0};
    MP_OWNED void *scratchpad = NULL;
    if (a.packed && !b.packed) match_dims(&b, a.packed);
    if (b.packed && !a.packed) match_dims(&a, b.packed);
    MP_CHECK(mp_dnnl_desc(&a, NULL, &ad, err));
    MP_CHECK(mp_dnnl_desc(&b, NULL, &bd, err));
    MP_CHECK(mp_dnnl_reorder(&ad, &bd, NULL, &op, err));
    MP_ENSURE(scratchpad = mp_alloc((size_t)op.scratchpad_bytes + 64, 1), err, MP_NOMEM, "out of memory");
    mp_dnnl_address(&op, DNNL_ARG_FROM, from->data);
    mp_dnnl_address(&op, DNNL_ARG_TO, to->data);
    return mp_dnnl_run(&op, (char *)scratchpad + (64 - (uintptr_t)scratchpad % 64), NULL, err);
}

mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err)
{
    if (from->packed || to->packed) return reorder_packed(from, to, err);
    if (!mp_elementwise_knows(from->dtype) || !mp_elementwise_knows(to->dtype))
        return MP_FAIL(err, MP_UNSUPPORTED, "the CPU backend cannot pack weights of type %s", mp_dtype_name(from->dtype));
    if (mp_dtype_is_float(to->dtype))
        mp_elementwise(copy_row, NULL, &from, 1, to);
    else
        mp_elementwise_whole(copy_whole_row, NULL, &from, 1, to);
    return MP_OK;
}
