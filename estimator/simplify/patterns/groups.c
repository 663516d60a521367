/* groups.c - group normalization, recognised in what both exporters of PyTorch write it as.
 *
 *     y = Reshape(InstanceNormalization(Reshape(x, [N, groups, rest]), ones, zeros), shape of x) * scale + bias
 *
 * with one scale and one bias for each channel: [channels, 1, ...], either a parameter of that shape, as the newer exporter
 * stores it, or a parameter [channels] with an Unsqueeze behind it. The operator takes [channels].
 */
#include "estimator/simplify/rewrite.h"

/* The tensor [channels] that stands behind one that is broadcast over all that follows the channels; -1: it is none. */
static int per_channel(const mp_rewriter *r, int tensor, const mp_tensor *x)
{
    const mp_tensor *t = &r->model->tensors[tensor];
    const int index = mp_producer(r, tensor);
    const mp_operator *op = index >= 0 ? &r->model->operators[index] : NULL;
    if (t->rank != x->rank - 1 || t->dtype != x->dtype || t->dims[0] != x->dims[1]) return -1;
    for (int d = 1; d < t->rank; d++)
        if (t->dims[d] != 1) return -1;
    if (!op) return t->role == MP_ROLE_PARAMETER && (t->rank == 1 || r->n_readers[tensor] == 1) ? tensor : -1;
    return mp_is_kind(op, "Unsqueeze") && mp_operator_in(r->model, op, 0)->rank == 1 ? op->in[0] : -1;
}

/* x, of which the tensor is the normalization in groups without scale and bias; -1: it is none. */
static int normalized(const mp_rewriter *r, mp_pattern *pattern, int tensor, int64_t *groups, double *epsilon)
{
    double one, zero;
    const mp_operator *back = mp_pattern_written_by(r, pattern, tensor, "Reshape");
    const mp_operator *norm = back ? mp_pattern_written_by(r, pattern, back->in[0], "InstanceNormalization") : NULL;
    const mp_operator *there = norm ? mp_pattern_written_by(r, pattern, norm->in[0], "Reshape") : NULL;
    if (!there || !mp_known_scalar(r, norm->in[1], &one) || one != 1 || !mp_known_scalar(r, norm->in[2], &zero) || zero != 0)
        return -1;
    const mp_tensor *x = mp_operator_in(r->model, there, 0), *parts = mp_operator_out(r->model, there, 0);
    if (x->rank < 3 || parts->rank != 3 || parts->dims[0] != x->dims[0] || parts->dims[1] < 1 ||
        x->dims[1] % parts->dims[1] != 0 || !mp_same_shape(x, mp_operator_out(r->model, back, 0)))
        return -1;
    *groups = parts->dims[1];
    *epsilon = mp_operator_float(norm, "epsilon", 1e-5);
    return there->in[0];
}

static mp_status fuse_group_normalization(mp_rewriter *r, int root)
{
    const mp_operator *sum = &r->model->operators[root];
    if (!mp_is_kind(sum, "Add")) return MP_OK;
    for (int way = 0; way < 4; way++) { /* which operands the product and the normalization are */
        mp_pattern pattern = {.ops = {root}, .n = 1};
        int64_t groups;
        double epsilon;
        const mp_operator *product = mp_pattern_written_by(r, &pattern, sum->in[way & 1], "Mul");
        const int x = product ? normalized(r, &pattern, product->in[way >> 1], &groups, &epsilon) : -1;
        if (x < 0) continue;
        const int scale = per_channel(r, product->in[1 - (way >> 1)], &r->model->tensors[x]);
        const int bias = per_channel(r, sum->in[1 - (way & 1)], &r->model->tensors[x]);
        if (scale < 0 || bias < 0 || !mp_pattern_is_closed(r, &pattern, root)) continue;
        if (r->rules == MP_RULES_PYTORCH && mp_pattern_called(r, &pattern) == MP_CALLS_SEVERAL) continue;
        r->model->tensors[scale].rank = r->model->tensors[bias].rank = 1;
        mp_attribute attributes[] = {{.name = "num_groups", .kind = MP_ATTRIBUTE_INT, .i = groups},
                                     {.name = "epsilon", .kind = MP_ATTRIBUTE_FLOAT, .f = epsilon}};
        const mp_operator_draft draft = {.kind = "GroupNormalization",
                                         .domain = "",
                                         .version = 21,
                                         .in = (int[]){x, scale, bias},
                                         .n_in = 3,
                                         .attributes = attributes,
                                         .n_attributes = 2};
        return mp_pattern_fuse(r, &pattern, root, &draft);
    }
    return MP_OK;
}

mp_status mp_rewrite_group_normalizations(mp_rewriter *r)
{
    return mp_rewriter_each(r, fuse_group_normalization);
}
