/* shapes_source.c - shape rules of operators that create tensors from shapes, attributes or random numbers, or return a
 * shape. */
#include <math.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* Reads the attribute `name`, whose value must be the number of a known element type. */
static mp_status dtype_attribute(mp_infer *c, const char *name, mp_dtype otherwise, mp_dtype *dtype)
{
    int64_t number = mp_operator_int(c->op, name, otherwise);
    MP_FIT(number > MP_DTYPE_UNDEFINED && number < MP_N_DTYPES, "the attribute '%s' names no element type", name);
    *dtype = (mp_dtype)number;
    return MP_OK;
}

mp_status mp_shape_constant(mp_infer *c)
{
    static const struct {
        const char *name;
        mp_attribute_kind kind;
        mp_dtype dtype;
        int rank;
    } forms[] = {{"value_float", MP_ATTRIBUTE_FLOAT, MP_DTYPE_FLOAT, 0},
                 {"value_floats", MP_ATTRIBUTE_FLOATS, MP_DTYPE_FLOAT, 1},
                 {"value_int", MP_ATTRIBUTE_INT, MP_DTYPE_INT64, 0},
                 {"value_ints", MP_ATTRIBUTE_INTS, MP_DTYPE_INT64, 1},
                 {"value_string", MP_ATTRIBUTE_TEXT, MP_DTYPE_STRING, 0}};
    const mp_attribute *a = mp_operator_attribute(c->op, "value");
    if (a && a->kind == MP_ATTRIBUTE_TENSOR) return mp_infer_set(c, 0, a->dtype, a->rank, a->dims);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        a = mp_operator_attribute(c->op, forms[k].name);
        if (!a || a->kind != forms[k].kind) continue;
        int64_t n = (int64_t)a->n;
        return mp_infer_set(c, 0, forms[k].dtype, forms[k].rank, &n);
    }
    return MP_FAIL(c->err, MP_UNSUPPORTED, "Constant '%s' contains neither a tensor nor numbers", c->op->name);
}

mp_status mp_shape_constant_of_shape(mp_infer *c)
{
    const mp_attribute *a = mp_operator_attribute(c->op, "value");
    mp_dtype dtype = a && a->kind == MP_ATTRIBUTE_TENSOR ? a->dtype : MP_DTYPE_FLOAT;
    const int64_t *dims;
    size_t rank;
    MP_CHECK(mp_infer_integers(c, 0, &dims, &rank));
    if (!dims) return mp_infer_defer(c, 0, dtype);
    MP_FIT(rank <= MP_RANK_MAX, "a shape of %zu dimensions is not supported", rank);
    return mp_infer_set(c, 0, dtype, (int)rank, dims);
}

/* Converts a bound of the range that Shape returns: a negative bound counts from the end; the result is clamped. */
static int64_t clamped(int64_t bound, int rank)
{
    if (bound < 0) bound += rank;
    return bound < 0 ? 0 : bound > rank ? rank : bound;
}

mp_status mp_shape_shape(mp_infer *c)
{
    int rank = mp_infer_in(c, 0)->rank;
    int64_t from = clamped(mp_operator_int(c->op, "start", 0), rank), to = clamped(mp_operator_int(c->op, "end", rank), rank);
    int64_t n = to > from ? to - from : 0;
    return mp_infer_set(c, 0, MP_DTYPE_INT64, 1, &n);
}

mp_status mp_shape_size(mp_infer *c)
{
    return mp_infer_set(c, 0, MP_DTYPE_INT64, 0, NULL);
}

/* Computes the length of a Range, ceil((limit - start) / delta) and at least 0, without overflow. */
static mp_status range_length(mp_infer *c, const mp_value *start, const mp_value *limit, const mp_value *delta, int64_t *n)
{
    const int64_t most = INT64_C(1) << 60;
    *n = 0;
    if (start->is_real) {
        double length = ceil((limit->f[0] - start->f[0]) / delta->f[0]);
        MP_FIT(delta->f[0] != 0 && !isnan(length), "a range from %g to %g in steps of %g is impossible", start->f[0],
               limit->f[0], delta->f[0]);
        if (length > 0) *n = length < (double)most ? (int64_t)length : most;
        return MP_OK;
    }
    MP_FIT(delta->i[0] != 0, "a range in steps of 0 is impossible");
    __int128 way = (__int128)limit->i[0] - start->i[0], step = delta->i[0];
    if (step < 0) {
        way = -way;
        step = -step;
    }
    __int128 length = way > 0 ? (way + step - 1) / step : 0;
    *n = length < most ? (int64_t)length : most;
    return MP_OK;
}

mp_status mp_shape_range(mp_infer *c)
{
    mp_dtype dtype = mp_infer_in(c, 0)->dtype;
    const mp_value *bounds[3];
    int64_t n;
    for (int k = 0; k < 3; k++) {
        bounds[k] = mp_infer_value(c, k);
        if (!bounds[k]) return mp_infer_defer(c, 0, dtype);
        MP_FIT(bounds[k]->n == 1 && bounds[k]->is_real == bounds[0]->is_real, "the bounds must be three numbers of one type");
    }
    MP_CHECK(range_length(c, bounds[0], bounds[1], bounds[2], &n));
    return mp_infer_set(c, 0, dtype, 1, &n);
}

mp_status mp_shape_eye_like(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    MP_CHECK(dtype_attribute(c, "dtype", x->dtype, &dtype));
    MP_FIT(x->rank == 2, "the input has %d dimensions instead of 2", x->rank);
    return mp_infer_set(c, 0, dtype, x->rank, x->dims);
}

mp_status mp_shape_random(mp_infer *c)
{
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    size_t rank;
    const int64_t *dims = mp_operator_ints(c->op, "shape", &rank);
    MP_CHECK(dtype_attribute(c, "dtype", MP_DTYPE_FLOAT, &dtype));
    MP_FIT(dims && rank <= MP_RANK_MAX, "the attribute 'shape' is missing or has too many dimensions");
    return mp_infer_set(c, 0, dtype, (int)rank, dims);
}

mp_status mp_shape_random_like(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    MP_CHECK(dtype_attribute(c, "dtype", x->dtype, &dtype));
    return mp_infer_set(c, 0, dtype, x->rank, x->dims);
}

mp_status mp_shape_multinomial(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    MP_CHECK(dtype_attribute(c, "dtype", MP_DTYPE_INT32, &dtype));
    MP_FIT(x->rank == 2, "the input has %d dimensions instead of 2", x->rank);
    return mp_infer_set(c, 0, dtype, 2, (int64_t[]){x->dims[0], mp_operator_int(c->op, "sample_size", 1)});
}

mp_status mp_shape_window(mp_infer *c)
{
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    const int64_t *size;
    size_t n;
    MP_CHECK(dtype_attribute(c, "output_datatype", MP_DTYPE_FLOAT, &dtype));
    MP_CHECK(mp_infer_integers(c, 0, &size, &n));
    if (!size) return mp_infer_defer(c, 0, dtype);
    MP_FIT(n == 1, "the size must be a single number");
    return mp_infer_set(c, 0, dtype, 1, size);
}
