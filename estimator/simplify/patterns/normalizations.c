/* normalizations.c - recognises layer, RMS and group normalization, and softmax, in the operators that exporters write for
 * them.
 *
 *     mean = ReduceMean(x);  d = x - mean          (RMS: d = x)
 *     y = d / sqrt(ReduceMean(d^2) + epsilon)      (or d * reciprocal(sqrt(..)), d * (..)^-0.5)
 *
 * over trailing axes is a normalization without scale. If a product with a scale follows, it is fused into the normalization,
 * and then a sum with a bias. Each of these is a rule of its own, so a file may contain any combination. Half-precision exports
 * convert tensors to float32 within the pattern; these conversions become part of the normalization.
 *
 * ONNX has no normalization without scale; memplan defines one in its own domain. A normalization whose scale is all ones is
 * converted to it. */
#include <string.h>

#include "estimator/simplify/rewrite.h"

static const char own_domain[] = "memplan";

/* A recognised normalization of x over its last n_axes dimensions. */
struct core {
    int x, n_axes;
    double epsilon;
    bool is_centred;
};

/* If a conversion between floating-point types writes the tensor, returns the input of the conversion; else the tensor
 * itself. */
static int before_cast(const mp_rewriter *r, int tensor)
{
    const mp_operator *cast = mp_written_by(r, tensor, "Cast");
    const mp_tensor *tensors = r->model->tensors;
    if (!cast || !mp_dtype_is_float(tensors[cast->in[0]].dtype) || !mp_dtype_is_float(tensors[tensor].dtype)) return tensor;
    return cast->in[0];
}

/* Like before_cast, and adds the conversion to the pattern. */
static int pass_cast(const mp_rewriter *r, mp_pattern *pattern, int tensor)
{
    int from = before_cast(r, tensor);
    return from == tensor || mp_pattern_add(pattern, mp_producer(r, tensor)) ? from : tensor;
}

static bool equal_but_for_cast(const mp_rewriter *r, int a, int b)
{
    return before_cast(r, a) == before_cast(r, b);
}

/* Returns the number of dimensions over which a reduction computes the mean. They must be the last dimensions and be kept
 * with size 1; else returns 0. */
static int trailing_axes(const mp_rewriter *r, const mp_operator *op)
{
    const mp_tensor *x = mp_operator_in(r->model, op, 0), *axes_input = mp_operator_in(r->model, op, 1);
    size_t n;
    const int64_t *axes = mp_operator_ints(op, "axes", &n);
    uint64_t reduced = 0;
    if (!mp_operator_int(op, "keepdims", 1)) return 0;
    if (axes_input) {
        if (!axes_input->value || axes_input->value->is_real) return 0;
        axes = axes_input->value->i;
        n = (size_t)axes_input->value->n;
    }
    if (!axes || !n) return mp_operator_int(op, "noop_with_empty_axes", 0) ? 0 : x->rank;
    for (size_t k = 0; k < n; k++) reduced |= (uint64_t)1 << (axes[k] < 0 ? axes[k] + x->rank : axes[k]);
    int count = 0;
    while (count < x->rank && reduced >> (x->rank - 1 - count) & 1) count++;
    return reduced == (((uint64_t)1 << count) - 1) << (x->rank - count) ? count : 0;
}

/* If the tensor is a square root, or the reciprocal of one, returns the tensor under the root; else -1. */
static int radicand(const mp_rewriter *r, mp_pattern *pattern, int tensor, bool is_reciprocal)
{
    const mp_operator *op;
    double c;
    if ((op = mp_pattern_written_by(r, pattern, tensor, "Pow")))
        return mp_known_scalar(r, op->in[1], &c) && c == (is_reciprocal ? -0.5 : 0.5) ? op->in[0] : -1;
    if (!is_reciprocal) return (op = mp_pattern_written_by(r, pattern, tensor, "Sqrt")) ? op->in[0] : -1;
    if ((op = mp_pattern_written_by(r, pattern, tensor, "Reciprocal"))) return radicand(r, pattern, op->in[0], false);
    op = mp_pattern_written_by(r, pattern, tensor, "Div");
    return op && mp_known_scalar(r, op->in[0], &c) && c == 1 ? radicand(r, pattern, op->in[1], false) : -1;
}

/* If the tensor is epsilon plus the mean of the squares of a tensor d, returns d; else -1. */
static int squared(const mp_rewriter *r, mp_pattern *pattern, int tensor, struct core *core)
{
    const mp_operator *sum = mp_pattern_written_by(r, pattern, tensor, "Add"), *mean, *square;
    double c;
    int variance = -1;
    for (int k = 0; sum && variance < 0 && k < 2; k++)
        if (mp_known_scalar(r, sum->in[k], &core->epsilon)) variance = sum->in[1 - k];
    if (variance < 0 || !(core->epsilon >= 0 && core->epsilon < 1)) return -1;
    mean = mp_pattern_written_by(r, pattern, pass_cast(r, pattern, variance), "ReduceMean");
    if (!mean || !(core->n_axes = trailing_axes(r, mean))) return -1;
    if ((square = mp_pattern_written_by(r, pattern, mean->in[0], "Pow")))
        return mp_known_scalar(r, square->in[1], &c) && c == 2 ? square->in[0] : -1;
    square = mp_pattern_written_by(r, pattern, mean->in[0], "Mul");
    return square && square->in[0] == square->in[1] ? square->in[0] : -1;
}

/* If `d` is x minus the mean of x over the same axes, returns x. If `d` subtracts another mean, returns -1 (not a
 * normalization). If `d` is not a difference, returns `d` itself. */
static int centred(const mp_rewriter *r, mp_pattern *pattern, int d, struct core *core)
{
    mp_pattern attempt = *pattern;
    const mp_operator *sub = mp_pattern_written_by(r, &attempt, pass_cast(r, &attempt, d), "Sub"), *mean;
    if (!sub || !(mean = mp_pattern_written_by(r, &attempt, pass_cast(r, &attempt, sub->in[1]), "ReduceMean"))) return d;
    *pattern = attempt;
    core->is_centred = true;
    return equal_but_for_cast(r, mean->in[0], sub->in[0]) && trailing_axes(r, mean) == core->n_axes ? sub->in[0] : -1;
}

/* Matches the last operator of a normalization without scale: d / root, or d * (1 / root). Operand k of the operator is the
 * root or its reciprocal. */
static bool match_core(const mp_rewriter *r, mp_pattern *pattern, int root, int k, struct core *core)
{
    const mp_operator *op = &r->model->operators[root];
    bool is_product = mp_is_kind(op, "Mul");
    if ((!is_product && !(mp_is_kind(op, "Div") && k == 1)) || !mp_pattern_add(pattern, root)) return false;
    *core = (struct core){.x = -1};
    int under_root = radicand(r, pattern, op->in[k], is_product);
    int base = under_root < 0 ? -1 : squared(r, pattern, under_root, core), d = op->in[1 - k];
    if (base < 0) return false;
    if (base != d) {
        if (!equal_but_for_cast(r, base, d)) return false;
        if (base == before_cast(r, d))
            d = pass_cast(r, pattern, d);
        else if (pass_cast(r, pattern, base) != d)
            d = pass_cast(r, pattern, d);
    }
    core->x = centred(r, pattern, d, core);
    return core->x >= 0;
}

/* The draft of a normalization operator. Without scale, the operator belongs to memplan's domain; with scale, to ONNX's. */
struct normalization {
    mp_operator_draft draft;
    mp_attribute attributes[2];
    int in[3];
};
static void draft_normalization(struct normalization *n, bool is_centred, int n_axes, double epsilon, const int *in, int n_in)
{
    n->attributes[0] = mp_attribute_int("axis", -n_axes);
    n->attributes[1] = mp_attribute_float("epsilon", epsilon);
    for (int k = 0; k < n_in; k++) n->in[k] = in[k];
    const int version = n_in == 1 ? 1 : is_centred ? 17 : 23;
    n->draft = mp_draft(is_centred ? "LayerNormalization" : "RMSNormalization", n_in == 1 ? own_domain : "", version, n->in,
                        n_in, n->attributes, 2);
}

/* Returns the normalization operator that writes the tensor, whether the file contains it or a pattern created it. NULL:
 * another operator writes the tensor. */
static const mp_operator *normalization_of(const mp_rewriter *r, int tensor, bool has_scale, struct core *core)
{
    const mp_operator *op = mp_writer(r, tensor);
    if (!op) return NULL;
    core->is_centred = !strcmp(op->kind, "LayerNormalization");
    if ((!core->is_centred && strcmp(op->kind, "RMSNormalization") != 0) || !strcmp(op->domain, own_domain) == has_scale ||
        op->out[0] != tensor)
        return NULL;
    int64_t axis = mp_operator_int(op, "axis", -1);
    core->x = op->in[0];
    core->n_axes = (int)(axis < 0 ? -axis : r->model->tensors[core->x].rank - axis);
    core->epsilon = mp_operator_float(op, "epsilon", 1e-5);
    return op;
}

/* True if the tensor can be a scale or bias: it has one element per normalized element and the type of x. If its rank makes
 * this ambiguous, it must not be an activation, because a residual sum is not a bias. */
static bool is_per_element(const mp_rewriter *r, int tensor, const struct core *core)
{
    const mp_tensor *t = &r->model->tensors[tensor], *x = &r->model->tensors[core->x];
    int lead = t->rank - core->n_axes;
    if (lead < 0 || t->rank > x->rank || t->dtype != x->dtype) return false;
    if ((lead > 0 || core->n_axes == x->rank) && (t->role == MP_ROLE_ACTIVATION || t->role == MP_ROLE_DATA)) return false;
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] != (k < lead ? 1 : x->dims[x->rank - t->rank + k])) return false;
    return true;
}

static bool fuse(mp_rewriter *r, const mp_pattern *pattern, int root, const struct core *core, const int *in, int n_in,
                 mp_status *st)
{
    const mp_tensor *y = mp_operator_out(r->model, &r->model->operators[root], 0);
    struct normalization n;
    if (!mp_same_shape(y, &r->model->tensors[in[0]]) || !mp_pattern_is_closed(r, pattern, root)) return false;
    draft_normalization(&n, core->is_centred, core->n_axes, core->epsilon, in, n_in);
    *st = mp_pattern_fuse(r, pattern, root, &n.draft);
    return true;
}

/* Fuses a normalization. `root` is the index of its last operator (d divided by the square root), or the conversion after that
 * operator. */
static bool fuse_core(mp_rewriter *r, int root, mp_status *st)
{
    struct core core;
    const mp_operator *op = &r->model->operators[root];
    bool is_cast = mp_is_kind(op, "Cast");
    int last = is_cast ? mp_producer(r, op->in[0]) : root;
    for (int k = 0; last >= 0 && k < 2; k++) {
        mp_pattern pattern = {.n = 0};
        if (is_cast) mp_pattern_add(&pattern, root);
        if (!match_core(r, &pattern, last, k, &core)) continue;
        /* under PyTorch's rules nothing is fused, because PyTorch runs RMS normalization operator by operator */
        if (!core.is_centred && r->rules == MP_RULES_PYTORCH) continue;
        if (fuse(r, &pattern, root, &core, &core.x, 1, st)) return true;
    }
    return false;
}

/* If a normalization without scale is converted back to the original type, fuses the conversion into it. */
static bool fuse_casts(mp_rewriter *r, int root, mp_status *st)
{
    struct core core;
    const mp_operator *op = &r->model->operators[root];
    if (!mp_is_kind(op, "Cast") || !normalization_of(r, op->in[0], false, &core)) return false;
    mp_pattern pattern = {.ops = {root, mp_producer(r, op->in[0])}, .n = 2};
    int x = before_cast(r, core.x);
    return x != core.x && fuse(r, &pattern, root, &core, &x, 1, st);
}

/* Fuses the product with a scale, or the sum with a bias, that follows a normalization into the normalization. */
static bool fuse_scale_or_bias(mp_rewriter *r, int root, mp_status *st)
{
    const mp_operator *op = &r->model->operators[root], *before;
    bool is_bias = mp_is_kind(op, "Add");
    if (!is_bias && !mp_is_kind(op, "Mul")) return false;
    for (int k = 0; k < 2; k++) {
        struct core core;
        before = normalization_of(r, op->in[k], is_bias, &core);
        if (!before || !is_per_element(r, op->in[1 - k], &core)) continue;
        if (is_bias && (!core.is_centred || mp_operator_in(r->model, before, 2))) continue;
        mp_pattern pattern = {.ops = {root, mp_producer(r, op->in[k])}, .n = 2};
        int in[3] = {core.x, is_bias ? before->in[1] : op->in[1 - k], op->in[1 - k]};
        if (fuse(r, &pattern, root, &core, in, is_bias ? 3 : 2, st)) return true;
    }
    return false;
}

/* Removes a scale whose elements are all 1, and a bias whose elements are all 0. */
static bool drop_plain_scale(mp_rewriter *r, int root, mp_status *st)
{
    struct core core;
    double scale, bias = 0;
    mp_operator *op = &r->model->operators[root];
    if (!mp_operator_out(r->model, op, 0) || !normalization_of(r, op->out[0], true, &core)) return false;
    if (!mp_known_scalar(r, op->in[1], &scale) || scale != 1 || !is_per_element(r, op->in[1], &core)) return false;
    if (mp_operator_in(r->model, op, 2) && !mp_known_scalar(r, op->in[2], &bias)) return false;
    for (int k = 1; k < op->n_out; k++)
        if (op->out[k] >= 0) return false;
    mp_pattern pattern = {.ops = {root}, .n = 1};
    op->n_out =
        1; /* here nothing reads the statistics of the normalization, so memplan's operator without outputs for them suffices */
    return bias == 0 && fuse(r, &pattern, root, &core, &core.x, 1, st);
}

mp_status mp_rewrite_normalization(mp_rewriter *r, int root)
{
    mp_status st = MP_OK;
    if (!fuse_core(r, root, &st) && !fuse_casts(r, root, &st) && !fuse_scale_or_bias(r, root, &st))
        drop_plain_scale(r, root, &st);
    return st;
}

/* Group normalization, as written by both of PyTorch's exporters:
 *
 *     y = Reshape(InstanceNormalization(Reshape(x, [N, groups, rest]), ones, zeros), shape of x) * scale + bias
 *
 * Scale and bias have one element per channel, [channels, 1, ...]. The newer exporter stores a parameter of that shape; the
 * older one writes an Unsqueeze of a parameter [channels]. */

/* If the tensor has one value per channel, broadcast over the dimensions after the channels, returns the vector of these
 * values (one dimension); else -1. */
static int per_channel(const mp_rewriter *r, int tensor, const mp_tensor *x)
{
    const mp_tensor *t = &r->model->tensors[tensor];
    const mp_operator *op = mp_writer(r, tensor);
    if (t->rank != x->rank - 1 || t->dtype != x->dtype || t->dims[0] != x->dims[1]) return -1;
    for (int d = 1; d < t->rank; d++)
        if (t->dims[d] != 1) return -1;
    if (!op)
        return t->role == MP_ROLE_PARAMETER ? tensor : -1; /* a parameter is accepted even if other operators read it too,
                                                              because exporters merge equal parameters */
    return mp_is_kind(op, "Unsqueeze") && mp_operator_in(r->model, op, 0)->rank == 1 ? op->in[0] : -1;
}

/* If the tensor is the group normalization of a tensor x, without scale and bias, returns x; else -1. */
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

mp_status mp_rewrite_group_normalization(mp_rewriter *r, int root)
{
    const mp_operator *sum = &r->model->operators[root];
    if (!mp_is_kind(sum, "Add")) return MP_OK;
    for (int way = 0; way < 4; way++) { /* tries both operands of the sum as the product with the scale, and both operands of
                                           the product as the normalization */
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
        mp_attribute attributes[] = {mp_attribute_int("num_groups", groups), mp_attribute_float("epsilon", epsilon)};
        const int in[] = {x, scale, bias};
        const mp_operator_draft draft = mp_draft("GroupNormalization", "", 21, in, 3, attributes, 2);
        return mp_pattern_fuse(r, &pattern, root, &draft);
    }
    return MP_OK;
}

/* A softmax with zeros in fully hidden rows:
 *
 *     Softmax(x) -> IsNaN; Where(IsNaN, 0, Softmax(x))
 *
 * If all scores of a row are -infinity, its softmax is 0 / 0 = NaN. The file replaces this row by zeros, but the gradient is
 * still NaN, because it is 0 times NaN. SafeSoftmax returns zeros. Its gradient is computed from the output and is also
 * zero. */

/* If a Where selects 0 at elements where a tensor is NaN, and the tensor elsewhere, returns the tensor; else -1. */
static int made_safe(const mp_rewriter *r, mp_pattern *pattern, const mp_operator *where)
{
    double zero;
    const mp_operator *is_nan = mp_pattern_written_by(r, pattern, where->in[0], "IsNaN");
    if (!is_nan || is_nan->in[0] != where->in[2] || !mp_known_scalar(r, where->in[1], &zero) || zero != 0) return -1;
    return is_nan->in[0];
}

mp_status mp_rewrite_softmax(mp_rewriter *r, int root)
{
    const mp_operator *where = &r->model->operators[root];
    mp_pattern pattern = {.ops = {root}, .n = 1};
    if (!mp_is_kind(where, "Where")) return MP_OK;
    const mp_operator *softmax = mp_pattern_written_by(r, &pattern, made_safe(r, &pattern, where), "Softmax");
    if (!softmax || !mp_pattern_is_closed(r, &pattern, root)) return MP_OK;
    const mp_tensor *x = mp_operator_in(r->model, softmax, 0);
    const int64_t axis = mp_operator_int(softmax, "axis", softmax->version < 13 ? 1 : -1);
    const bool is_last =
        axis == -1 || axis == x->rank - 1; /* before version 13, a softmax runs over all dimensions from the axis on */
    if ((softmax->version < 13 && !is_last) || !mp_same_shape(x, mp_operator_out(r->model, where, 0))) return MP_OK;
    mp_attribute along = mp_attribute_int("axis", axis);
    const mp_operator_draft draft = mp_draft("SafeSoftmax", "memplan", 1, &softmax->in[0], 1, &along, 1);
    return mp_pattern_fuse(r, &pattern, root, &draft);
}
