/* normalizations.c - layer, root-mean-square, group, instance and mean-variance normalization: which dimensions form a row, and
 * where scale and shift belong to. */
#include "executor/cpu/normalizations.h"

#include <string.h>

#include "executor/cpu/kernels.h"
#include "executor/cpu/normalization_rows.h"

/* How rows are cut. */
typedef enum cut { FROM_AXIS, CHANNELS, GROUPS, AXES } cut;

static const struct form {
    const char *kind, *domain;
    cut cut;
    bool centered;
    double epsilon;
} forms[] = {
    {"LayerNormalization", "", FROM_AXIS, true, 1e-5f},
    {"LayerNormalization", "memplan", FROM_AXIS, true, 1e-5f},
    {"RMSNormalization", "", FROM_AXIS, false, 1e-5f},
    {"RMSNormalization", "memplan", FROM_AXIS, false, 1e-5f},
    {"SimplifiedLayerNormalization", "", FROM_AXIS, false, 1e-5f},
    {"SimplifiedLayerNormalization", "com.microsoft", FROM_AXIS, false, 1e-5f},
    {"GroupNormalization", "", GROUPS, true, 1e-5f},
    {"InstanceNormalization", "", CHANNELS, true, 1e-5f},
    {"MeanVarianceNormalization", "", AXES, true, 1e-18},
};

typedef struct state {
    mp_rows rows;
    bool centered;
    int64_t statistics_at; /* where no extra keeps them */
} state;

static const struct form *form_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        if (!strcmp(forms[k].kind, op->op->name) && !strcmp(forms[k].domain, op->op->domain)) return &forms[k];
    return NULL;
}

/* Extras come in the order mean, rstd; what is not centered has rstd only. Without extras, backward finds them in the
 * workspace. */
static float *mean_of(const state *s, const mp_operands *x)
{
    if (!s->centered) return NULL;
    return x->extra[0].data ? x->extra[0].data : (float *)((char *)x->workspace + s->statistics_at);
}
static float *rstd_of(const state *s, const mp_operands *x)
{
    const mp_array *kept = &x->extra[s->centered ? 1 : 0];
    return kept->data ? kept->data : (float *)((char *)x->workspace + s->statistics_at) + s->rows.n_rows;
}

static bool has(const mp_operands *x, int i)
{
    return i < x->n_in && x->in[i].dtype != MP_DTYPE_UNDEFINED;
}

static mp_rows_data data_of(const state *s, const mp_operands *x)
{
    return (mp_rows_data){.dtype = x->in[0].dtype,
                          .parameter_dtype = has(x, 1) ? x->in[1].dtype : MP_DTYPE_FLOAT,
                          .x = x->in[0].data,
                          .scale = has(x, 1) ? x->in[1].data : NULL,
                          .mean = mean_of(s, x),
                          .rstd = rstd_of(s, x)};
}

static void give(const mp_operands *x, int o, const float *values, int64_t n)
{
    if (o >= x->n_out || !x->out[o].data || !values) return;
    for (int64_t k = 0; k < n; k++) {
        if (x->out[o].dtype == MP_DTYPE_FLOAT)
            ((float *)x->out[o].data)[k] = values[k];
        else
            mp_floats_done(x->out[o].data, x->out[o].dtype, k, 1, &values[k]);
    }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    mp_rows_data d = data_of(s, x);
    (void)run, (void)err;
    d.shift = has(x, 2) ? x->in[2].data : NULL;
    d.out = x->out[0].data;
    mp_rows_forward(&s->rows, &d);
    give(x, s->centered ? 1 : x->n_out - 1, s->centered ? d.mean : x->n_out > 1 ? d.rstd : NULL, s->rows.n_rows);
    if (s->centered) give(x, 2, d.rstd, s->rows.n_rows);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    mp_rows_data d = data_of(s, x);
    (void)run, (void)err;
    bool from_output = x->alternative == 1;
    if (!x->extra[0].data) mp_rows_measure(&s->rows, &d); /* nothing was kept */
    if (from_output) {
        d.x = NULL;
        d.y = x->out[0].data;
        d.shift = has(x, 2) ? x->in[2].data : NULL;
    }
    d.dy = x->d_out[0].data;
    d.out = x->d_in[0].dtype ? x->d_in[0].data : NULL;
    d.d_scale = x->n_in > 1 && x->d_in[1].dtype ? x->d_in[1].data : NULL;
    d.d_shift = x->n_in > 2 && x->d_in[2].dtype ? x->d_in[2].data : NULL;
    d.add_scale = x->adds & MP_BIT(1);
    d.add_shift = x->adds & MP_BIT(2);
    d.partial = x->workspace;
    mp_rows_backward(&s->rows, &d);
    return MP_OK;
}

/* Strides of the scale along the dimensions of x, to whose end it is aligned. */
static void align(const mp_array *x, const mp_array *scale, int64_t *stride)
{
    for (int d = 0; d < x->rank; d++) {
        int own = d - (x->rank - scale->rank);
        stride[d] = own < 0 || scale->dims[own] == 1 ? 0 : scale->strides[own];
    }
}

static mp_rows cut_rows(const struct form *f, const mp_operands *x)
{
    const mp_array *a = &x->in[0];
    mp_array grouped = *a;
    int64_t stride[MP_ARRAY_RANK] = {0}, n = has(x, 1) ? mp_array_elements(&x->in[1]) : 0, axis, groups;
    double epsilon = mp_operator_float(x->op, "epsilon", f->epsilon);
    uint32_t all = (1u << a->rank) - 1, inner = 0;
    size_t n_axes;
    const int64_t *axes;
    switch (f->cut) {
    case FROM_AXIS:
        axis = mp_operator_int(x->op, "axis", -1);
        if (axis < 0) axis += a->rank;
        inner = all & ~((1u << axis) - 1);
        if (n) align(a, &x->in[1], stride);
        break;
    case CHANNELS:
        inner = all & ~3u;
        stride[1] = 1;
        break;
    case GROUPS:
        groups = mp_operator_int(x->op, "num_groups", a->dims[1]);
        grouped.rank++;
        for (int d = a->rank; d > 2; d--) {
            grouped.dims[d] = a->dims[d - 1];
            grouped.strides[d] = a->strides[d - 1];
        }
        grouped.dims[2] = a->dims[1] / groups;
        grouped.strides[2] = a->strides[1];
        grouped.dims[1] = groups;
        grouped.strides[1] = a->strides[1] * grouped.dims[2];
        inner = ((1u << grouped.rank) - 1) & ~3u;
        /* one scale per group before operator set 21, one per channel since */
        stride[1] = n == groups && n != a->dims[1] ? 1 : grouped.dims[2];
        stride[2] = n == groups && n != a->dims[1] ? 0 : 1;
        break;
    case AXES:
        axes = mp_operator_ints(x->op, "axes", &n_axes);
        inner = axes ? 0 : all & ~2u;
        for (size_t k = 0; axes && k < n_axes; k++) inner |= 1u << (axes[k] < 0 ? axes[k] + a->rank : axes[k]);
        break;
    }
    return mp_rows_of(&grouped, inner, stride, n, f->centered, epsilon);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const struct form *f = form_of(x->op);
    state *s;
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (has(x, 1) && !mp_array_is_plain(&x->in[1])) return MP_NO_KERNEL(x, err, "a scale in this layout");
    if (x->in[0].rank >= MP_ARRAY_RANK) return MP_NO_KERNEL(x, err, "so many dimensions");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    s->rows = cut_rows(f, x);
    s->centered = f->centered;
    if (x->is_backward) call->workspace_bytes = mp_rows_workspace_bytes(&s->rows);
    s->statistics_at = (call->workspace_bytes + 63) / 64 * 64;
    call->workspace_bytes = s->statistics_at + 2 * s->rows.n_rows * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
done:
    return st;
}

const mp_kernel mp_cpu_normalizations[] = {
    {"BatchNormalization", "", mp_prepare_batch_normalization, mp_prepare_batch_normalization},
    {"LayerNormalization", "", prepare, prepare},
    {"LayerNormalization", "memplan", prepare, prepare},
    {"RMSNormalization", "", prepare, prepare},
    {"RMSNormalization", "memplan", prepare, prepare},
    {"SimplifiedLayerNormalization", "", prepare, prepare},
    {"SimplifiedLayerNormalization", "com.microsoft", prepare, prepare},
    {"GroupNormalization", "", prepare, prepare},
    {"InstanceNormalization", "", prepare, prepare},
    {"MeanVarianceNormalization", "", prepare, prepare},
    {"LpNormalization", "", mp_prepare_lp_normalization, mp_prepare_lp_normalization},
    {"LRN", "", mp_prepare_lrn, mp_prepare_lrn},
    {0},
};
