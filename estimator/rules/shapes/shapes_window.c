/* shapes_window.c - shapes of convolutions and other operators on windows, n >= 1 spatial dimensions.
 *
 * Convolution: X (N, C, D1..Dn), W (M, C/group, k1..kn) -> Y (N, M, D1'..Dn'). In transposed convolution W is (C, M/group,
 * k1..kn). The file also contains operators without weights that read windows or sample points. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/window.h"

/* The operands of a convolution: X, W, the window, and the number of groups. M is the number of output channels. */
typedef struct operands {
    const mp_tensor *x, *w;
    mp_window window;
    int64_t group, n_out;
} operands;

static mp_status read_operands(mp_infer *c, bool transposed, operands *o)
{
    MP_CHECK(mp_rule_input(c, 0, 3, MP_RANK_MAX, &o->x));
    MP_CHECK(mp_rule_input(c, 1, o->x->rank, o->x->rank, &o->w));
    o->group = mp_operator_int(c->op, "group", 1);
    MP_FIT(o->group >= 1, "group may not be %" PRId64, o->group);

    int64_t n_in;
    if (transposed) {
        n_in = o->w->dims[0];
        MP_FIT(n_in % o->group == 0, "%" PRId64 " input channels cannot be split into %" PRId64 " groups", n_in, o->group);
        MP_FIT(mp_multiply(o->w->dims[1], o->group, &o->n_out), "too many channels");
    } else {
        o->n_out = o->w->dims[0];
        MP_FIT(o->n_out % o->group == 0, "%" PRId64 " output channels cannot be split into %" PRId64 " groups", o->n_out,
               o->group);
        MP_FIT(mp_multiply(o->w->dims[1], o->group, &n_in), "too many channels");
    }
    MP_FIT(o->x->dims[1] == n_in, "input '%s' has %" PRId64 " channels, the weight '%s' in %" PRId64 " group%s takes %" PRId64,
           o->x->name, o->x->dims[1], o->w->name, o->group, o->group == 1 ? "" : "s", n_in);
    return mp_window_read(c, o->x->rank - 2, o->w->dims + 2, &o->window);
}

static mp_status check_bias(mp_infer *c, int64_t n_out)
{
    const mp_tensor *b;
    if (!mp_infer_in(c, 2)) return MP_OK;
    MP_CHECK(mp_rule_input(c, 2, 1, 1, &b));
    MP_FIT(b->dims[0] == n_out, "the bias '%s' has %" PRId64 " elements for %" PRId64 " output channels", b->name, b->dims[0],
           n_out);
    return MP_OK;
}

/* Returns the output type: products of 8-bit integers are summed in 32 bits. */
static mp_dtype sum_dtype(mp_dtype dtype)
{
    return dtype == MP_DTYPE_UINT8 || dtype == MP_DTYPE_INT8 ? MP_DTYPE_INT32 : dtype;
}

mp_status mp_shape_conv(mp_infer *c)
{
    operands o;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(read_operands(c, false, &o));
    mp_dtype dtype = sum_dtype(o.x->dtype);
    if (dtype == o.x->dtype)
        MP_CHECK(check_bias(c, o.n_out)); /* in the integer form of a convolution, input 2 is a zero point */
    dims[0] = o.x->dims[0];
    dims[1] = o.n_out;
    MP_CHECK(mp_window_slide(c, &o.window, o.x->dims + 2, dims + 2));
    return mp_infer_set(c, 0, dtype, o.x->rank, dims);
}

mp_status mp_shape_conv_transpose(mp_infer *c)
{
    operands o;
    int64_t dims[MP_RANK_MAX];
    size_t n_padding, n_shape;
    MP_CHECK(read_operands(c, true, &o));
    MP_CHECK(check_bias(c, o.n_out));
    size_t n = (size_t)o.window.n;
    const int64_t *padding = mp_operator_ints(c->op, "output_padding", &n_padding);
    const int64_t *shape = mp_operator_ints(c->op, "output_shape", &n_shape);
    MP_FIT(!padding || n_padding == n, "output_padding has %zu values instead of %zu", n_padding, n);
    for (size_t k = 0; padding && k < n; k++) MP_FIT(padding[k] >= 0, "output_padding may not be %" PRId64, padding[k]);
    dims[0] = o.x->dims[0];
    dims[1] = o.n_out;
    if (shape) { /* if the file states the output shape, it determines the pads */
        MP_FIT(n_shape == n, "output_shape has %zu values instead of %zu", n_shape, n);
        for (size_t k = 0; k < n; k++) MP_FIT(shape[k] >= 1, "output_shape may not be %" PRId64, shape[k]);
        memcpy(dims + 2, shape, n * sizeof *shape);
    } else {
        MP_CHECK(mp_window_unslide(c, &o.window, o.x->dims + 2, padding, dims + 2));
    }
    return mp_infer_set(c, 0, o.x->dtype, o.x->rank, dims);
}

/* Shapes of weightless operators on windows or sample points of X (N, C, D1..Dn): pooling and its inverse, regions of interest,
 * and grid sampling. */

mp_status mp_shape_pool(mp_infer *c)
{
    const mp_tensor *x;
    mp_window window;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 3, MP_RANK_MAX, &x));
    MP_CHECK(mp_window_read(c, x->rank - 2, NULL, &window));
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    MP_CHECK(mp_window_slide(c, &window, x->dims + 2, dims + 2));
    MP_CHECK(mp_infer_set(c, 0, x->dtype, x->rank, dims));
    return mp_infer_set(c, 1, MP_DTYPE_INT64, x->rank, dims); /* output 1 contains the index of each maximum */
}

mp_status mp_shape_global_pool(mp_infer *c)
{
    const mp_tensor *x;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 2, MP_RANK_MAX, &x));
    for (int k = 0; k < x->rank; k++) dims[k] = k < 2 ? x->dims[k] : 1;
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

mp_status mp_shape_max_unpool(mp_infer *c)
{
    const mp_tensor *x, *indices, *shape;
    const int64_t *sizes;
    size_t n;
    mp_window window;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 3, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_input(c, 1, x->rank, x->rank, &indices));
    MP_FIT(!memcmp(x->dims, indices->dims, (size_t)x->rank * sizeof *x->dims),
           "the indices '%s' do not have the shape of the input '%s'", indices->name, x->name);
    MP_CHECK(mp_window_read(c, x->rank - 2, NULL, &window));
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    MP_CHECK(mp_window_unslide(c, &window, x->dims + 2, NULL, dims + 2));
    if (mp_infer_in(c, 2)) {
        MP_CHECK(mp_rule_input(c, 2, 1, 1, &shape));
        MP_FIT(shape->dims[0] == x->rank, "the output shape '%s' has %" PRId64 " sizes instead of %d", shape->name,
               shape->dims[0], x->rank);
        MP_CHECK(mp_infer_integers(c, 2, &sizes, &n));
        if (!sizes) return mp_infer_defer(c, 0, x->dtype);
        for (int k = 0; k < x->rank; k++) {
            MP_FIT(sizes[k] >= dims[k] && (k > 1 || sizes[k] == dims[k]),
                   "the output shape '%s' has a size of %" PRId64 " where what was pooled has %" PRId64, shape->name, sizes[k],
                   dims[k]);
            dims[k] = sizes[k];
        }
    }
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

/* Sets the shape of the image that Col2Im computes. */
mp_status mp_shape_col2im(mp_infer *c)
{
    mp_columns columns;
    bool known;
    const mp_tensor *x = mp_infer_in(c, 0);
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_columns_read(c, &columns, &known));
    if (!known) return mp_infer_defer(c, 0, x->dtype);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1] / columns.n_taps;
    for (int k = 0; k < columns.window.n; k++) dims[k + 2] = columns.image[k];
    return mp_infer_set(c, 0, x->dtype, columns.window.n + 2, dims);
}

mp_status mp_shape_max_roi_pool(mp_infer *c)
{
    const mp_tensor *x, *rois;
    size_t n;
    MP_CHECK(mp_rule_input(c, 0, 4, 4, &x));
    MP_CHECK(mp_rule_input(c, 1, 2, 2, &rois));
    MP_FIT(rois->dims[1] == 5, "the regions '%s' have %" PRId64 " numbers each instead of 5", rois->name, rois->dims[1]);
    const int64_t *pooled = mp_operator_ints(c->op, "pooled_shape", &n);
    MP_FIT(pooled && n == 2 && pooled[0] >= 1 && pooled[1] >= 1, "pooled_shape must have two sizes");
    return mp_infer_set(c, 0, x->dtype, 4, (int64_t[]){rois->dims[0], x->dims[1], pooled[0], pooled[1]});
}

mp_status mp_shape_roi_align(mp_infer *c)
{
    const mp_tensor *x, *rois, *images;
    MP_CHECK(mp_rule_input(c, 0, 4, 4, &x));
    MP_CHECK(mp_rule_input(c, 1, 2, 2, &rois));
    MP_CHECK(mp_rule_input(c, 2, 1, 1, &images));
    MP_FIT(rois->dims[1] == 4, "the regions '%s' have %" PRId64 " numbers each instead of 4", rois->name, rois->dims[1]);
    MP_FIT(rois->dims[0] == images->dims[0], "%" PRId64 " regions come with %" PRId64 " batch indices", rois->dims[0],
           images->dims[0]);
    int64_t height = mp_operator_int(c->op, "output_height", 1), width = mp_operator_int(c->op, "output_width", 1);
    MP_FIT(height >= 1 && width >= 1, "the output size %" PRId64 " x %" PRId64 " is not positive", height, width);
    return mp_infer_set(c, 0, x->dtype, 4, (int64_t[]){rois->dims[0], x->dims[1], height, width});
}

mp_status mp_shape_grid_sample(mp_infer *c)
{
    const mp_tensor *x, *grid;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 3, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_input(c, 1, x->rank, x->rank, &grid));
    MP_FIT(grid->dims[0] == x->dims[0], "the grid '%s' is for %" PRId64 " samples, the input '%s' has %" PRId64, grid->name,
           grid->dims[0], x->name, x->dims[0]);
    MP_FIT(grid->dims[x->rank - 1] == x->rank - 2, "the grid '%s' has points of %" PRId64 " coordinates instead of %d",
           grid->name, grid->dims[x->rank - 1], x->rank - 2);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (int k = 2; k < x->rank; k++) dims[k] = grid->dims[k - 1];
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}
