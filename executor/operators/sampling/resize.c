/* resize.c - computes the tables of Resize and Upsample, and sorts the dimensions by stride.
 *
 * Coordinates follow ONNX's reference: a position between two elements is at a distance in (0, 1] to the right of the left
 * element. */
#include "executor/operators/sampling/resize.h"

#include <math.h>
#include <string.h>

#include "executor/kernel/element.h"
#include "executor/operators/sampling/cubic.h"

typedef enum coordinates {
    HALF_PIXEL,
    PYTORCH_HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL_FOR_NN,
    TF_CROP_AND_RESIZE,
    N_COORDINATES
} coordinates;
static const char *const coordinate_names[N_COORDINATES] = {"half_pixel",        "pytorch_half_pixel", "half_pixel_symmetric",
                                                            "align_corners",     "asymmetric",         "tf_half_pixel_for_nn",
                                                            "tf_crop_and_resize"};

typedef enum interpolation { NEAREST, LINEAR, CUBIC, N_INTERPOLATIONS } interpolation;
static const char *const interpolation_names[N_INTERPOLATIONS + 1] = {"nearest", "linear", "cubic", "bilinear"};

typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, N_ROUNDINGS } rounding;
static const char *const rounding_names[N_ROUNDINGS] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

typedef struct resize {
    coordinates where;
    interpolation how;
    rounding nearest;
    double cubic_a;
    bool exclude_outside, antialias;
} resize;

/* The sizes and the scale of one axis. */
typedef struct axis {
    int64_t n_in, n_out;
    double scale;
    double from, to; /* bounds of the region of interest along the axis, as fractions of n_in */
} axis;

static void free_taps(mp_taps *taps)
{
    mp_free(taps->start);
    mp_free(taps->index);
    mp_free(taps->weight);
    *taps = (mp_taps){0};
}

static mp_status new_taps(mp_taps *taps, int64_t n_in, int64_t n_out, int64_t room, mp_error *err)
{
    MP_CLEARED_BY(free_taps) mp_taps made = {.n_in = n_in, .n_out = n_out};
    *taps = made;
    if (n_in >= INT32_MAX || room >= INT32_MAX) return MP_UNSUPPORTED;
    made.start = mp_alloc((size_t)n_out + 1, sizeof *made.start);
    made.index = mp_alloc((size_t)room + 1, sizeof *made.index);
    made.weight = mp_alloc((size_t)room + 1, sizeof *made.weight);
    MP_ENSURE(made.start && made.index && made.weight, err, MP_NOMEM, "out of memory");
    *taps = made;
    made = (mp_taps){0};
    return MP_OK;
}

/* Sets the members `most`, `uniform` and `same` of a table, which summarise its taps (input positions with weights). */
static void look_at(mp_taps *t)
{
    t->same = t->n_in == t->n_out;
    bool equal = true;
    for (int64_t o = 0; o < t->n_out; o++) {
        int n = t->start[o + 1] - t->start[o];
        if (n > t->most) t->most = n;
        equal = equal && n == t->start[1];
        t->same = t->same && n == 1 && t->index[t->start[o]] == o && t->weight[t->start[o]] == 1;
    }
    t->uniform = equal && (t->most == 1 || t->most == 2 || t->most == 4) ? t->most : 0;
}

/* If output positions have different numbers of taps (input positions with weights), up to 4, appends taps with weight 0, so
 * that every output position has 2 or 4 taps. The added taps repeat the index of the first tap. */
static mp_status level(mp_taps *t, mp_error *err)
{
    mp_taps even = {0};
    int n = t->most <= 2 ? 2 : 4;
    if (t->uniform || t->most > 4) return MP_OK;
    for (int64_t o = 0; o < t->n_out; o++)
        if (t->start[o] == t->start[o + 1]) return MP_OK;
    MP_CHECK(new_taps(&even, t->n_in, t->n_out, t->n_out * n, err));
    for (int64_t o = 0; o < t->n_out; o++) {
        even.start[o + 1] = (int32_t)(n * (o + 1));
        for (int k = 0; k < n; k++) {
            bool there = k < t->start[o + 1] - t->start[o];
            even.index[n * o + k] = t->index[t->start[o] + (there ? k : 0)];
            even.weight[n * o + k] = there ? t->weight[t->start[o] + k] : 0;
        }
    }
    free_taps(t);
    look_at(&even);
    *t = even;
    return MP_OK;
}

/* Transposes a table: lists, for each input position, the outputs that read it. These outputs are the taps of the gradient. */
static mp_status transpose(const mp_taps *taps, mp_taps *out, mp_error *err)
{
    int32_t room = taps->start[taps->n_out];
    MP_CHECK(new_taps(out, taps->n_out, taps->n_in, room, err));
    for (int32_t k = 0; k < room; k++) out->start[taps->index[k] + 1]++;
    for (int64_t i = 0; i < out->n_out; i++) out->start[i + 1] += out->start[i];
    for (int64_t o = taps->n_out - 1; o >= 0;
         o--) /* visits outputs in descending order, because each entry of out->start is decremented to its final value */
        for (int32_t k = taps->start[o + 1] - 1; k >= taps->start[o]; k--) {
            int32_t place = --out->start[taps->index[k] + 1];
            out->index[place] = (int32_t)o;
            out->weight[place] = taps->weight[k];
        }
    memmove(out->start, out->start + 1, (size_t)out->n_out * sizeof *out->start);
    out->start[out->n_out] = room;
    look_at(out);
    return level(out, err);
}

/* Computes the input position of output position o. Returns false if it is outside of the input; this is checked only in the
 * cropping mode. */
static bool original(const resize *r, const axis *a, int64_t o, double *x)
{
    double length = a->scale * (double)a->n_in, size = (double)a->n_in, at = (double)o;
    switch (r->where) {
    case ALIGN_CORNERS:
        *x = length == 1 ? 0 : at * (size - 1) / (length - 1);
        return true;
    case ASYMMETRIC:
        *x = at / a->scale;
        return true;
    case PYTORCH_HALF_PIXEL:
        *x = length == 1 ? -0.5 : (at + 0.5) / a->scale - 0.5;
        return true;
    case HALF_PIXEL_SYMMETRIC:
        *x = size / 2 * (1 - (double)a->n_out / length) + (at + 0.5) / a->scale - 0.5;
        return true;
    case TF_HALF_PIXEL_FOR_NN:
        *x = (at + 0.5) / a->scale;
        return true;
    case TF_CROP_AND_RESIZE:
        *x = a->from * (size - 1) +
             (length == 1 ? (a->to - a->from) * (size - 1) / 2 : at * (a->to - a->from) * (size - 1) / (length - 1));
        return *x >= 0 && *x <= size - 1;
    default:
        *x = (at + 0.5) / a->scale - 0.5;
        return true;
    }
}

/* Returns the reach of the interpolation. A position with the left neighbour `base` reads base, `reach` elements to the left
 * of base, and reach + 1 elements to the right. */
static int reach_of(const resize *r, const axis *a)
{
    double scale = r->antialias && a->scale < 1 ? a->scale : 1;
    return r->how == NEAREST ? 0 : (int)-(floor(-(r->how == CUBIC ? 2 : 1) / scale) + 1);
}

static double weight_of(const resize *r, const axis *a, double distance)
{
    if (r->antialias && a->scale < 1) distance *= a->scale;
    if (r->how == CUBIC) return mp_cubic(distance, r->cubic_a);
    return fabs(distance) < 1 ? 1 - fabs(distance) : 0;
}

static int64_t nearest_of(const resize *r, double base, double ratio)
{
    bool left = ratio < 1 && (r->nearest == FLOOR || (r->nearest == PREFER_FLOOR && ratio <= 0.5) ||
                              (r->nearest == PREFER_CEIL && ratio < 0.5));
    return (int64_t)base + !left;
}

/* Adds the taps of output position o: the input positions that it reads, and their weights. A position beyond the edge is
 * replaced by the edge. */
static void put_position(const resize *r, const axis *a, int64_t o, mp_taps *t)
{
    double x;
    int32_t at = t->start[o];
    t->start[o + 1] = at;
    if (!original(r, a, o, &x)) return;
    double base = ceil(x) - 1, ratio = x - base, sum = 0;
    int64_t reach = reach_of(r, a), first = (int64_t)base - reach, n = 2 * reach + 2;
    if (r->how == NEAREST) {
        first = nearest_of(r, base, ratio);
        n = 1;
    }
    for (int64_t k = first; k < first + n; k++) {
        double weight = r->how == NEAREST ? 1 : weight_of(r, a, x - (double)k);
        int64_t place = k < 0 ? 0 : k >= a->n_in ? a->n_in - 1 : k;
        if (r->exclude_outside && place != k) weight = 0;
        sum += weight;
        if (weight == 0) continue;
        if (at > t->start[o] && t->index[at - 1] == place) {
            t->weight[at - 1] += (float)weight;
        } else {
            t->index[at] = (int32_t)place;
            t->weight[at++] = (float)weight;
        }
    }
    if (r->exclude_outside || (r->antialias && a->scale < 1))
        for (int32_t k = t->start[o]; k < at; k++) t->weight[k] /= (float)sum;
    t->start[o + 1] = at;
}

static mp_status axis_taps(const resize *r, const axis *a, mp_taps *t, mp_error *err)
{
    MP_CHECK(new_taps(t, a->n_in, a->n_out, a->n_out * (2 * (int64_t)reach_of(r, a) + 2), err));
    for (int64_t o = 0; o < a->n_out; o++) put_position(r, a, o, t);
    look_at(t);
    return level(t, err);
}

/* Reads the n numbers of operand k. Returns false if the operand is absent or has another number of elements. If the numbers
 * are known only at run time, sets *later and reads nothing. Values that the model contains are preferred, because they are
 * exact for every operand type. */
static bool given(const mp_operands *x, int k, int64_t n, double *numbers, bool *later)
{
    if (k < 0 || k >= x->n_in || !x->in[k].dtype || mp_array_elements(&x->in[k]) != n || n == 0) return false;
    const mp_value *value = x->model->tensors[x->op->in[k]].value;
    const mp_array *a = &x->in[k];
    if (!value && (!a->data || a->dtype == MP_DTYPE_FLOAT16)) *later = true;
    for (int64_t e = 0; e < n && !*later; e++) {
        if (value)
            numbers[e] = value->is_real ? value->f[e] : (double)value->i[e];
        else
            numbers[e] = mp_dtype_is_float(a->dtype) ? (double)mp_load_float(a->data, a->dtype, e)
                                                     : (double)mp_load_whole(a->data, a->dtype, e);
    }
    return true;
}

static int find_name(const char *name, const char *const *names, int n)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(names[k], name)) return k;
    return -1;
}

static mp_status read_attributes(const mp_operands *x, resize *r, mp_error *err)
{
    const mp_operator *op = x->op;
    bool old = op->version < 11;
    int how = find_name(mp_operator_text(op, "mode", "nearest"), interpolation_names, N_INTERPOLATIONS + 1);
    int where = find_name(mp_operator_text(op, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
                          coordinate_names, N_COORDINATES);
    int nearest =
        find_name(mp_operator_text(op, "nearest_mode", old ? "floor" : "round_prefer_floor"), rounding_names, N_ROUNDINGS);
    if (how < 0) return MP_NO_KERNEL(x, err, "this mode");
    if (where < 0) return MP_NO_KERNEL(x, err, "this coordinate_transformation_mode");
    if (nearest < 0) return MP_NO_KERNEL(x, err, "this nearest_mode");
    *r = (resize){.where = (coordinates)where,
                  .how = how == N_INTERPOLATIONS ? LINEAR : (interpolation)how,
                  .nearest = (rounding)nearest,
                  .cubic_a = mp_operator_float(op, "cubic_coeff_a", -0.75),
                  .exclude_outside = mp_operator_int(op, "exclude_outside", 0) != 0,
                  .antialias = mp_operator_int(op, "antialias", 0) != 0};
    return MP_OK;
}

/* Returns a common scale for all axes, which keeps the aspect ratio: the smallest or the largest of the scales to the requested
 * sizes. */
static double kept_ratio(const axis *axes, const int *which, int n, const double *sizes, bool smallest)
{
    double factor = 0;
    for (int k = 0; k < n; k++) {
        double f = sizes[k] / (double)axes[which[k]].n_in;
        if (k == 0 || (smallest ? f < factor : f > factor)) factor = f;
    }
    return factor;
}

static mp_status read_scales(const mp_operands *x, const resize *r, axis axes[MP_ARRAY_RANK], mp_error *err)
{
    const mp_operator *op = x->op;
    int rank = x->in[0].rank, which[MP_ARRAY_RANK];
    bool scales_second = op->op->max_in == 2 || op->version < 11,
         later = false; /* scales_second: true if the operands are (X, scales), as in Upsample and old versions of Resize */
    size_t n;
    const int64_t *ints = mp_operator_ints(op, "axes", &n);
    if (!ints) n = (size_t)rank;
    for (size_t k = 0; k < n; k++) which[k] = (int)(ints ? (ints[k] < 0 ? ints[k] + rank : ints[k]) : (int64_t)k);
    double scales[MP_ARRAY_RANK], sizes[MP_ARRAY_RANK], roi[2 * MP_ARRAY_RANK];
    bool by_scales = given(x, scales_second ? 1 : 2, (int64_t)n, scales, &later);
    bool to_sizes = given(x, scales_second ? -1 : 3, (int64_t)n, sizes, &later);
    bool crops = r->where == TF_CROP_AND_RESIZE && given(x, scales_second ? -1 : 1, 2 * (int64_t)n, roi, &later);
    if (later) return MP_NO_KERNEL(x, err, "a size that is computed");
    for (int d = 0; d < rank; d++)
        axes[d] = (axis){x->in[0].dims[d], x->out[0].dims[d],
                         x->in[0].dims[d] ? (double)x->out[0].dims[d] / (double)x->in[0].dims[d] : 1, 0, 1};
    const char *policy = mp_operator_text(op, "keep_aspect_ratio_policy", "stretch");
    const mp_attribute *factors = mp_operator_attribute(op, "scales");
    for (int k = 0; k < (int)n; k++) {
        axis *a = &axes[which[k]];
        if (by_scales) a->scale = scales[k];
        if (to_sizes && strcmp(policy, "stretch") != 0)
            a->scale = kept_ratio(axes, which, (int)n, sizes, !strcmp(policy, "not_larger"));
        if (crops) a->from = roi[k], a->to = roi[(int)n + k];
    }
    if (!by_scales && !to_sizes && factors && factors->kind == MP_ATTRIBUTE_FLOATS && factors->n == n)
        for (int k = 0; k < rank; k++) axes[k].scale = factors->floats[k];
    else if (!by_scales && !to_sizes && rank == 4) {
        axes[2].scale = mp_operator_float(op, "height_scale", axes[2].scale);
        axes[3].scale = mp_operator_float(op, "width_scale", axes[3].scale);
    }
    return MP_OK;
}

/* True if all positions along the axis, in the input and between elements, fit in int64_t. */
static bool has_places(const axis *a)
{
    return !a->n_out || (a->scale > 1e-9 && a->scale < 1e9 && fabs(a->from) < 1e6 && fabs(a->to) < 1e6);
}

/* Computes the taps (input positions with weights) of each dimension of input 0. The caller releases the taps, even after a
 * failure. */
static mp_status read_taps(const mp_operands *x, mp_taps taps[MP_ARRAY_RANK], mp_error *err)
{
    resize r;
    axis axes[MP_ARRAY_RANK];
    MP_CHECK(read_attributes(x, &r, err));
    MP_CHECK(read_scales(x, &r, axes, err));
    for (int d = 0; d < x->in[0].rank; d++) {
        /* an axis whose size and scale do not change keeps its elements, whatever the coordinate mode is */
        bool still = axes[d].n_in == axes[d].n_out && axes[d].scale == 1 && r.where != TF_CROP_AND_RESIZE;
        resize own = r;
        if (still || axes[d].n_in == 0) own = (resize){.where = ASYMMETRIC, .how = NEAREST, .nearest = FLOOR};
        mp_status st = has_places(&axes[d]) ? axis_taps(&own, &axes[d], &taps[d], err) : MP_UNSUPPORTED;
        if (st == MP_UNSUPPORTED) st = MP_NO_KERNEL(x, err, "an axis of this length, or this scale,");
        if (st != MP_OK) return st;
    }
    return MP_OK;
}

void mp_resizing_free(mp_resizing *resizing)
{
    for (int d = 0; d < MP_ARRAY_RANK; d++) free_taps(&resizing->taps[d]);
}

/* Sorts the dimensions by the strides of `to`, and merges dimensions that are not resized if both arrays permit it. */
static void order(mp_resizing *s, const mp_array *from, const mp_array *to)
{
    int by_stride[MP_ARRAY_RANK], n = 0;
    for (int d = 0; d < to->rank; d++) {
        if (s->taps[d].same && to->dims[d] == 1) continue;
        int k = n++;
        for (; k > 0 && (to->strides[by_stride[k - 1]] < to->strides[d] ||
                         (to->strides[by_stride[k - 1]] == to->strides[d] && to->dims[by_stride[k - 1]] < to->dims[d]));
             k--)
            by_stride[k] = by_stride[k - 1];
        by_stride[k] = d;
    }
    for (int k = 0; k < n; k++) {
        int d = by_stride[k], last = s->rank - 1;
        bool same = s->taps[d].same;
        if (same && last >= 0 && s->axis[last] < 0 && s->to_stride[last] == to->strides[d] * to->dims[d] &&
            s->from_stride[last] == from->strides[d] * from->dims[d]) {
            s->n_to[last] *= to->dims[d];
            s->n_from[last] *= from->dims[d];
        } else {
            last = s->rank++;
            s->axis[last] = same ? -1 : d;
            s->n_to[last] = to->dims[d];
            s->n_from[last] = from->dims[d];
        }
        s->to_stride[last] = to->strides[d];
        s->from_stride[last] = from->strides[d];
    }
    if (!s->rank) {
        s->rank = 1;
        s->axis[0] = -1;
        s->n_to[0] = s->n_from[0] = s->to_stride[0] = s->from_stride[0] = 1;
    }
}

mp_status mp_resizing_read(const mp_operands *x, mp_resizing *out, mp_error *err)
{
    const mp_array *from = x->is_backward ? &x->d_out[0] : &x->in[0], *to = x->is_backward ? &x->d_in[0] : &x->out[0];
    if (!mp_is_real(to->dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(read_taps(x, out->taps, err));
    for (int d = 0; d < to->rank && x->is_backward; d++) {
        mp_taps back = {0};
        MP_CHECK(transpose(&out->taps[d], &back, err));
        free_taps(&out->taps[d]);
        out->taps[d] = back;
    }
    if (!x->is_backward) out->empty = (float)mp_operator_float(x->op, "extrapolation_value", 0);
    order(out, from, to);
    out->n_lines = mp_array_elements(to) ? 1 : 0;
    for (int d = 0; d < out->rank - 1; d++) out->n_lines *= out->n_to[d];
    return MP_OK;
}
