/* normalization.c - describes the rows of a normalization as a loop nest; the elements of a row share statistics. */
#include "executor/operators/normalizations/normalization.h"

#include <string.h>

/* The dimensions of a row, whose elements share statistics. FROM_AXIS: all from the attribute `axis` on. CHANNELS: all
 * except samples and channels. GROUPS: as CHANNELS, and also the channels of one group. AXES: the dimensions in the
 * attribute `axes`. */
typedef enum cut { FROM_AXIS, CHANNELS, GROUPS, AXES } cut;

#define FORM(kind, domain, cut, centered, epsilon) {kind, domain, cut, centered, epsilon},
static const struct form {
    const char *kind, *domain;
    cut cut;
    bool centered;
    double epsilon;
} forms[] = {MP_NORMALIZATIONS(FORM)};

static void put(int64_t *dims, int64_t *at, int64_t *parameter, int *n, int64_t dim, int64_t stride, int64_t step)
{
    if (*n && at[*n - 1] == stride * dim && parameter[*n - 1] == step * dim) {
        dims[*n - 1] *= dim;
        at[*n - 1] = stride;
        parameter[*n - 1] = step;
        return;
    }
    dims[*n] = dim;
    at[*n] = stride;
    parameter[(*n)++] = step;
}

mp_normalization mp_normalization_of(const mp_array *x, uint32_t inner, const int64_t *parameter_stride, int64_t n_parameters,
                                     bool centered, double epsilon)
{
    mp_normalization r = {.n_rows = 1, .length = 1, .centered = centered, .epsilon = epsilon, .n_parameters = n_parameters};
    int order[MP_ARRAY_RANK], n = 0;
    for (int d = 0; d < x->rank; d++)
        if (x->dims[d] != 1) order[n++] = d;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && x->strides[order[j - 1]] < x->strides[order[j]]; j--) {
            int t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
    for (int i = 0; i < n; i++) {
        int d = order[i];
        int64_t step = n_parameters ? parameter_stride[d] : 0;
        if (inner >> d & 1) {
            put(r.inner, r.inner_at, r.inner_parameter, &r.n_inner, x->dims[d], x->strides[d], step);
            r.length *= x->dims[d];
        } else {
            put(r.outer, r.outer_at, r.outer_parameter, &r.n_outer, x->dims[d], x->strides[d], step);
            r.n_rows *= x->dims[d];
        }
    }
    if (!r.n_inner) {
        r.inner[r.n_inner] = 1;
        r.inner_at[r.n_inner++] = 1;
    }
    r.run = r.inner[r.n_inner - 1];
    r.n_runs = r.run ? r.length / r.run : 0;
    return r;
}

static const struct form *form_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        if (!strcmp(forms[k].kind, op->op->name) && !strcmp(forms[k].domain, op->op->domain)) return &forms[k];
    return NULL;
}

static bool has_scale(const mp_operands *x)
{
    return x->n_in > 1 && x->in[1].dtype != MP_DTYPE_UNDEFINED;
}

/* Writes the stride of the scale along every dimension of x. The scale is broadcast to x; both shapes are aligned at the last
 * dimension. */
static void align(const mp_array *x, const mp_array *scale, int64_t *stride)
{
    for (int d = 0; d < x->rank; d++) {
        int own = d - (x->rank - scale->rank);
        stride[d] = own < 0 || scale->dims[own] == 1 ? 0 : scale->strides[own];
    }
}

static mp_normalization cut_rows(const struct form *f, const mp_operands *x)
{
    const mp_array *a = &x->in[0];
    mp_array grouped = *a;
    int64_t stride[MP_ARRAY_RANK] = {0}, n = has_scale(x) ? mp_array_elements(&x->in[1]) : 0, axis, groups;
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
        /* before operator set 21 there is one scale per group, since then one per channel */
        stride[1] = n == groups && n != a->dims[1] ? 1 : grouped.dims[2];
        stride[2] = n == groups && n != a->dims[1] ? 0 : 1;
        break;
    case AXES:
        axes = mp_operator_ints(x->op, "axes", &n_axes);
        inner = axes ? 0 : all & ~2u;
        for (size_t k = 0; axes && k < n_axes; k++) inner |= 1u << (axes[k] < 0 ? axes[k] + a->rank : axes[k]);
        break;
    }
    return mp_normalization_of(&grouped, inner, stride, n, f->centered, epsilon);
}

mp_status mp_normalization_types(const mp_operands *x, mp_error *err)
{
    const mp_dtype type = x->in[0].dtype;
    if (!mp_is_real(type) || (x->out[0].dtype && x->out[0].dtype != type)) return MP_NO_KERNEL(x, err, "its type");
    for (int i = 1; i < x->n_in; i++) {
        const mp_dtype own = x->in[i].dtype, scale = x->in[1].dtype;
        if (own && (!mp_is_real(own) || own != (i < 3 ? scale : i < 5 ? x->in[3].dtype : type)))
            return MP_NO_KERNEL(x, err, "operands of these types");
    }
    return MP_OK;
}

mp_status mp_normalization_read(const mp_operands *x, mp_normalization *out, mp_error *err)
{
    MP_CHECK(mp_normalization_types(x, err));
    if (has_scale(x) && !mp_array_is_plain(&x->in[1])) return MP_NO_KERNEL(x, err, "a scale in this layout");
    if (x->n_in > 2 && x->in[2].dtype && !mp_array_same_layout(&x->in[1], &x->in[2]))
        return MP_NO_KERNEL(x, err, "a shift of another shape than the scale");
    if (x->in[0].rank >= MP_ARRAY_RANK) return MP_NO_KERNEL(x, err, "this many dimensions");
    *out = cut_rows(form_of(x->op), x);
    return MP_OK;
}
