/* randoms.c - reads the ratio of a dropout, whether anything is dropped, and the distributions of random numbers. */
#include "executor/operators/randoms/randoms.h"

#include <string.h>

/* What the operator itself says about whether it drops: an input since operator set 12; before it, inference is what the file
 * means. */
static bool drops_as_written(const mp_operands *x)
{
    return x->op->version >= 12 && x->n_in > 2 && x->in[2].data && *(const uint8_t *)x->in[2].data;
}

mp_status mp_dropout_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = x->is_backward ? &x->d_out[0] : &x->in[0], *y = x->is_backward ? &x->d_in[0] : &x->out[0];
    if (!mp_is_real(a->dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (!mp_array_same_layout(a, y)) return MP_NO_KERNEL(x, err, "a change of layout");
    MP_STATE(mp_dropout, out, call, err);
    *out = (mp_dropout){.n = mp_array_elements(a), .ratio = (float)mp_operator_float(x->op, "ratio", 0.5)};
    if (x->op->version >= 12) {
        bool given = x->n_in > 1 && x->in[1].dtype;
        if (given && !x->in[1].data) return MP_NO_KERNEL(x, err, "a ratio that is computed");
        out->ratio = given ? mp_load_float(x->in[1].data, x->in[1].dtype, 0) : 0.5f;
    }
    out->drops = x->mode == MP_MODE_TRAIN || (x->mode == MP_MODE_AS_WRITTEN && drops_as_written(x));
    if (out->ratio <= 0) out->drops = false;
    return MP_OK;
}

/* The attributes that are a and b, each with its default value. */
static const struct row {
    const char *name;
    mp_distribution distribution;
    const char *attribute[2];
    double otherwise[2];
} rows[] = {
    {"RandomUniform", MP_UNIFORM, {"low", "high"}, {0, 1}}, {"RandomUniformLike", MP_UNIFORM, {"low", "high"}, {0, 1}},
    {"RandomNormal", MP_NORMAL, {"mean", "scale"}, {0, 1}}, {"RandomNormalLike", MP_NORMAL, {"mean", "scale"}, {0, 1}},
    {"Bernoulli", MP_BERNOULLI, {NULL, NULL}, {0, 0}},
};

static const struct row *row_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].name, op->op->name)) return &rows[k];
    return NULL;
}

mp_status mp_random_source_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const struct row *row = row_of(x->op);
    mp_dtype dtype = x->out[0].dtype, from = x->n_in ? x->in[0].dtype : MP_DTYPE_FLOAT;
    if (!row) return MP_NO_KERNEL(x, err, "its distribution");
    if (mp_dtype_bits(dtype) < 8 || dtype == MP_DTYPE_FLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (row->distribution == MP_BERNOULLI && !mp_is_real(from)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(mp_random_source, s, call, err);
    s->distribution = row->distribution;
    s->op = (uint32_t)x->op_index;
    if (row->attribute[0]) {
        s->a = mp_operator_float(x->op, row->attribute[0], row->otherwise[0]);
        s->b = mp_operator_float(x->op, row->attribute[1], row->otherwise[1]);
    }
    return MP_OK;
}

mp_status mp_random_source_run(const mp_call *call, const mp_operands *x, const uint64_t *seed, const uint32_t *step,
                               mp_body_loop loop, mp_error *err)
{
    mp_random_source s = *(const mp_random_source *)call->state;
    s.seed = seed;
    s.step = step;
    s.out = x->out[0];
    if (s.distribution == MP_BERNOULLI) s.probabilities = x->in[0];
    return loop(&s, mp_array_elements(&s.out), 8, err);
}
