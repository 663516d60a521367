/* shapes_pooling.c - shapes of what looks at windows or sample points of X (N, C, D1..Dn) without weights: pooling and its
 * inverse, regions of interest, and grid sampling. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/columns.h"
#include "estimator/rules/operands/window.h"

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
    MP_CHECK(mp_infer_set(c, 1, MP_DTYPE_INT64, x->rank, dims)); /* where the maximum was */
    return MP_OK;
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
        if (!sizes) {
            mp_infer_defer(c, 0, x->dtype);
            return MP_OK;
        }
        for (int k = 0; k < x->rank; k++) {
            MP_FIT(sizes[k] >= dims[k] && (k > 1 || sizes[k] == dims[k]),
                   "the output shape '%s' has a size of %" PRId64 " where what was pooled has %" PRId64, shape->name, sizes[k],
                   dims[k]);
            dims[k] = sizes[k];
        }
    }
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

/* The image that the windows are summed into. */
mp_status mp_shape_col2im(mp_infer *c)
{
    mp_columns columns;
    bool known;
    const mp_tensor *x = mp_infer_in(c, 0);
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_columns_read(c, &columns, &known));
    if (!known) {
        mp_infer_defer(c, 0, x->dtype);
        return MP_OK;
    }
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
    MP_FIT(pooled && n == 2 && pooled[0] >= 1 && pooled[1] >= 1, "pooled_shape is not two sizes");
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
