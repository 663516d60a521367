/* matmul_cpu.c - a product of matrices as an operation of oneDNN: the layouts are the strides. */
#include "executor/operators/products/matmul_cpu.h"

static mp_status describe(const mp_stack *given, int n_batch, dnnl_memory_desc_t *desc, const mp_operator *op, mp_error *err)
{
    mp_stack straight = *given, *s = &straight;
    mp_stack_straighten(s);
    mp_array a = mp_stack_array(s, n_batch);
    return mp_dnnl_desc(&a, op, desc, err);
}

mp_status mp_dnnl_matmul(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, const mp_array *bias, bool add,
                         const mp_operator *op, mp_dnnl_op *out, mp_error *err)
{
    dnnl_memory_desc_t ad, bd, cd, biasd;
    dnnl_matmul_desc_t matmul;
    MP_OWNED_BY(dnnl_primitive_attr_destroy) dnnl_primitive_attr_t attr = NULL;
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t pd = NULL;
    MP_OWNED_BY(dnnl_post_ops_destroy) dnnl_post_ops_t post = NULL;
    MP_CLEARED_BY(mp_dnnl_release) mp_dnnl_op made = {0};
    float scale = (float)alpha;
    int n_batch = c->n_batch;
    if (a->n_batch > n_batch) n_batch = a->n_batch;
    if (b->n_batch > n_batch) n_batch = b->n_batch;
    MP_CHECK(describe(a, n_batch, &ad, op, err));
    MP_CHECK(describe(b, n_batch, &bd, op, err));
    MP_CHECK(describe(c, n_batch, &cd, op, err));
    if (bias) {
        mp_stack row = {.rows = 1, .columns = c->columns, .row_stride = c->columns, .column_stride = 1, .dtype = bias->dtype};
        MP_CHECK(describe(&row, n_batch, &biasd, op, err));
    }
    MP_CHECK(mp_dnnl_attr(&attr, err));
    if (scale != 1) MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale), op, "a factor", err));
    if (add) {
        MP_CHECK(MP_DNNL_PREPARED(dnnl_post_ops_create(&post), op, "adding", err));
        MP_CHECK(MP_DNNL_PREPARED(dnnl_post_ops_append_sum(post, 1), op, "adding", err));
        MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_attr_set_post_ops(attr, post), op, "adding", err));
    }
    MP_CHECK(mp_dnnl_check(dnnl_matmul_desc_init(&matmul, &ad, &bd, bias ? &biasd : NULL, &cd), op, "the product", err));
    MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_desc_create(&pd, &matmul, attr, mp_dnnl_engine(), NULL), op, "the product", err));
    MP_CHECK(mp_dnnl_primitive(pd, op, &made, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_SRC, &ad, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_WEIGHTS, &bd, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_DST, &cd, err));
    if (bias) MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_BIAS, &biasd, err));
    *out = made;
    made = (mp_dnnl_op){0};
    return MP_OK;
}
