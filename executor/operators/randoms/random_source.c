/* random_source.c - reads the distribution and its parameters. */
#include "executor/operators/randoms/random_source.h"

#include <string.h>

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
    mp_random_source *s;
    mp_dtype dtype = x->out[0].dtype, from = x->n_in ? x->in[0].dtype : MP_DTYPE_FLOAT;
    if (!row) return MP_NO_KERNEL(x, err, "its distribution");
    if (mp_dtype_bits(dtype) < 8 || dtype == MP_DTYPE_FLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (row->distribution == MP_BERNOULLI && from != MP_DTYPE_FLOAT && from != MP_DTYPE_BFLOAT16)
        return MP_NO_KERNEL(x, err, "its type");
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    s->distribution = row->distribution;
    s->n = mp_array_elements(&x->out[0]);
    if (row->attribute[0]) {
        s->a = mp_operator_float(x->op, row->attribute[0], row->otherwise[0]);
        s->b = mp_operator_float(x->op, row->attribute[1], row->otherwise[1]);
    }
    return MP_OK;
}
