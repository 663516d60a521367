/* patterns_attention.c - attention, recognised in what exporters write it as.
 *
 *     MatMul(Q, K^T) -> Mul or Div by a scale -> Where(mask, scores, constant) -> Add(mask) -> Softmax -> Dropout -> MatMul(..,
 * V)
 *
 * Only products and softmax have to be there. The scale may be applied before the product as well, on either operand or on
 * both. Transpositions in front of Q, K and V and behind the result, which bring heads to the front and back, are taken in
 * where the innermost dimension stays so and nobody else reads between: attention then reads and writes what the
 * projections have, and no copy with heads in front is made, or kept for backward. Nobody outside may read what is inside. A
 * mask must not depend on a parameter, because the fused operator has no gradient for it.
 *
 * A mask whose elements are known and hide exactly what lies above the diagonal is the attribute `causal`: e^-1e4 is 0. So is
 * one of booleans of which only this is known (mp_mask), also through a Slice that begins at the front, and a Cast.
 */
#include <math.h>
#include <string.h>

#include "estimator/model/order.h"
#include "estimator/rules/operands/attention.h"
#include "estimator/simplify/rewrite.h"
#include "memplan/simplify.h"

/* What was recognised; operands that are not there are -1. Orders of dimensions are of Q, K and V (permQ and so on). */
struct found {
    int q, k, v, added, positions;
    int64_t perm[3][MP_RANK_MAX];
    bool has_perm[3];
    bool k_is_turned, keeps, is_causal, is_safe;
    double scale, scale_q, scale_k, ratio, fill; /* scale is the product of all; of Q and K: before their product */
    int64_t groups;                              /* heads of Q that share one of K and V */
};

static const mp_tensor *tensor_of(const mp_rewriter *r, int t)
{
    return &r->model->tensors[t];
}

/* The tensor that this one is a known multiple of, through any number of products; the operators passed join the pattern. One
 * that others read as well is not passed. */
static int without_scale(const mp_rewriter *r, mp_pattern *pattern, int tensor, double *scale)
{
    for (;;) {
        int index = mp_producer(r, tensor), from = -1;
        if (index < 0 || r->n_readers[tensor] != 1) return tensor;
        const mp_operator *op = &r->model->operators[index];
        double c = 1, factor = 1;
        for (int k = 0; k < 2 && from < 0 && mp_is_kind(op, "Mul"); k++)
            if (mp_known_scalar(r, op->in[k], &c)) from = op->in[1 - k], factor = c;
        if (mp_is_kind(op, "Div") && mp_known_scalar(r, op->in[1], &c) && c != 0) from = op->in[0], factor = 1 / c;
        if (from < 0 || !mp_same_shape(tensor_of(r, from), tensor_of(r, tensor)) || !mp_pattern_add(pattern, index))
            return tensor;
        *scale *= factor;
        tensor = from;
    }
}

/* Does this transposition swap the last two dimensions and nothing else? */
static bool swaps_last(const mp_rewriter *r, const mp_operator *op)
{
    int rank = tensor_of(r, op->in[0])->rank;
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    if (!perm) return rank == 2;
    for (int d = 0; d < rank; d++)
        if (perm[d] != (d < rank - 2 ? d : 2 * rank - 3 - d)) return false;
    return true;
}

/* The product of queries and keys. */
static bool match_product(const mp_rewriter *r, mp_pattern *pattern, int scores, struct found *f)
{
    int index = mp_producer(r, scores);
    if (index < 0) return false;
    const mp_operator *op = &r->model->operators[index];
    bool fused = !strcmp(op->kind, "FusedMatMul") && !strcmp(op->domain, "com.microsoft");
    if (!fused && !mp_is_kind(op, "MatMul")) return false;
    if (mp_operator_int(op, "transA", 0) || mp_operator_int(op, "transBatchA", 0) || mp_operator_int(op, "transBatchB", 0))
        return false;
    if (!mp_pattern_add(pattern, index)) return false;
    f->scale *= mp_operator_float(op, "alpha", 1);
    f->k_is_turned = !mp_operator_int(op, "transB", 0);
    f->scale_q = f->scale_k = 1;
    f->q = without_scale(r, pattern, op->in[0], &f->scale_q);
    f->k = without_scale(r, pattern, op->in[1], &f->scale_k);
    int before = mp_producer(r, f->k);
    if (f->k_is_turned && before >= 0 && mp_is_kind(&r->model->operators[before], "Transpose") &&
        swaps_last(r, &r->model->operators[before])) {
        if (r->n_readers[f->k] == 1 && !mp_pattern_add(pattern, before)) return false;
        f->k = without_scale(r, pattern, r->model->operators[before].in[0], &f->scale_k);
        f->k_is_turned = false;
    }
    f->scale *= f->scale_q * f->scale_k;
    return true;
}

/* Booleans that choose between the scores and a constant. */
static bool match_choice(const mp_rewriter *r, mp_pattern *pattern, int *scores, struct found *f)
{
    const mp_operator *op = mp_pattern_written_by(r, pattern, *scores, "Where");
    for (int k = 1; op && k <= 2; k++) {
        if (!mp_known_scalar(r, op->in[k], &f->fill) || !mp_same_shape(tensor_of(r, op->in[3 - k]), tensor_of(r, *scores)))
            continue;
        f->positions = op->in[0];
        f->keeps = k == 2;
        *scores = op->in[3 - k];
        return true;
    }
    return !op;
}

/* What is computed between the product and softmax: with operand `added` of an addition as a mask, or without an addition (-1).
 */
static bool match_scores(const mp_rewriter *r, mp_pattern *pattern, int scores, int added, struct found *f)
{
    if (added >= 0) {
        const mp_operator *op = mp_pattern_written_by(r, pattern, scores, "Add");
        if (!op || op->version < 7 || !mp_same_shape(tensor_of(r, op->in[1 - added]), tensor_of(r, scores))) return false;
        f->added = op->in[added];
        scores = op->in[1 - added];
    }
    if (!match_choice(r, pattern, &scores, f)) return false;
    return match_product(r, pattern, without_scale(r, pattern, scores, &f->scale), f);
}

/* The ratio of a dropout between softmax and V, whose input *tensor becomes. */
static bool match_dropout(const mp_rewriter *r, mp_pattern *pattern, int *tensor, double *ratio)
{
    const mp_operator *op = mp_pattern_written_by(r, pattern, *tensor, "Dropout");
    if (!op) return true;
    *ratio = mp_operator_float(op, "ratio", 0.5);
    if (op->version >= 12 && mp_operator_in(r->model, op, 1) && !mp_known_scalar(r, op->in[1], ratio)) return false;
    *tensor = op->in[0];
    return *ratio >= 0 && *ratio < 1;
}

/* Softmax, or the one whose closed rows are zeros. */
static const mp_operator *match_softmax(const mp_rewriter *r, mp_pattern *pattern, int tensor, struct found *f)
{
    const int index = mp_producer(r, tensor);
    if (index < 0) return NULL;
    const mp_operator *op = &r->model->operators[index];
    f->is_safe = !strcmp(op->kind, "SafeSoftmax") && !strcmp(op->domain, "memplan");
    return (f->is_safe || mp_is_kind(op, "Softmax")) && mp_pattern_add(pattern, index) ? op : NULL;
}

static bool is_along_last(const mp_rewriter *r, const mp_operator *softmax)
{
    int rank = tensor_of(r, softmax->in[0])->rank;
    int64_t axis = mp_operator_int(softmax, "axis", !softmax->domain[0] && softmax->version < 13 ? 1 : -1);
    return axis == -1 || axis == rank - 1;
}

/* Are Q, K and V stacks of matrices of one floating-point type over the same batch? */
static bool fits(const mp_rewriter *r, const struct found *f)
{
    const mp_tensor *q = tensor_of(r, f->q), *k = tensor_of(r, f->k), *v = tensor_of(r, f->v);
    if (q->rank < 2 || k->rank != q->rank || v->rank != q->rank || !mp_dtype_is_float(q->dtype)) return false;
    if (k->dtype != q->dtype || v->dtype != q->dtype) return false;
    for (int d = 0; d < q->rank - 2; d++)
        if (k->dims[d] != q->dims[d] || v->dims[d] != q->dims[d]) return false;
    return true;
}

/* Is this what PyTorch's own attention is exported as, and runs as one there? Its sign is the softmax whose closed rows are
 * zeros, or the root of the scale on both operands; with dropout, or the gradient of a mask, it runs operator by operator. */
static bool is_of_pytorch(const struct found *f)
{
    return f->ratio == 0 && (f->is_safe || (f->scale_q != 1 && mp_near(f->scale_q, f->scale_k)));
}

/* What was repeated for the heads that share it: [.., heads, S, D] -> [.., heads, 1, S, D] -> Expand [.., heads, n, S, D] ->
 * [.., heads * n, S, D]. Returns n, and in *tensor what was repeated; 1: it is not. */
static int64_t without_groups(const mp_rewriter *r, int *tensor)
{
    const mp_model *model = r->model;
    const mp_tensor *all = tensor_of(r, *tensor);
    const int joined = mp_producer(r, *tensor), rank = all->rank;
    const mp_operator *join = joined < 0 ? NULL : &model->operators[joined];
    if (!join || !join->op || join->op->gradient != MP_GRADIENT_VIEW || rank < 3) return 1;
    const int expanded = mp_producer(r, join->in[0]);
    const mp_operator *expand = expanded < 0 ? NULL : &model->operators[expanded];
    if (!expand || !mp_is_kind(expand, "Expand")) return 1;
    const int apart = mp_producer(r, expand->in[0]);
    const mp_operator *split = apart < 0 ? NULL : &model->operators[apart];
    if (!split || !split->op || split->op->gradient != MP_GRADIENT_VIEW) return 1;
    const mp_tensor *few = tensor_of(r, split->in[0]), *ones = tensor_of(r, expand->in[0]), *many = tensor_of(r, join->in[0]);
    if (few->rank != rank || ones->rank != rank + 1 || many->rank != rank + 1 || ones->dims[rank - 2] != 1) return 1;
    for (int d = 0; d <= rank; d++) {
        if (d != rank - 2 && many->dims[d] != few->dims[d < rank - 2 ? d : d - 1]) return 1;
        if (d != rank - 2 && ones->dims[d] != many->dims[d]) return 1;
        if (d < rank && d != rank - 3 && all->dims[d] != few->dims[d]) return 1;
    }
    *tensor = split->in[0];
    return many->dims[rank - 2];
}

/* Reads K and V before they are repeated, where both are alike. */
static void take_out_groups(const mp_rewriter *r, struct found *f)
{
    int k = f->k, v = f->v;
    const int64_t groups = f->k_is_turned ? 1 : without_groups(r, &k);
    if (groups == 1 || without_groups(r, &v) != groups) return;
    f->k = k;
    f->v = v;
    f->groups = groups;
}

/* Is the element hidden, as a mask with these values has it? 0: kept, 1: hidden, -1: neither. */
static int hidden(const struct found *f, const mp_value *value, int64_t k, bool is_choice)
{
    if (is_choice) return value->is_real ? -1 : (value->i[k] != 0) != f->keeps;
    double x = value->is_real ? value->f[k] : (double)value->i[k];
    return x == 0 ? 0 : x <= MP_ATTENTION_HIDES ? 1 : -1;
}

/* Are these whole numbers all `wanted`, or not there at all? */
static bool are_all(const mp_rewriter *r, const mp_operator *op, int k, int64_t wanted)
{
    const mp_tensor *t = mp_operator_in(r->model, op, k);
    if (!t) return true;
    bool all = t->value && !t->value->is_real;
    for (int64_t e = 0; all && e < t->value->n; e++) all = t->value->i[e] == wanted;
    return all;
}

/* What is known of a mask without its values, whose first rows and columns may be all that is used. */
static mp_mask mask_of(const mp_rewriter *r, int tensor)
{
    for (int index; (index = mp_producer(r, tensor)) >= 0;) {
        const mp_operator *op = &r->model->operators[index];
        bool from_front = mp_is_kind(op, "Slice") && op->version >= 10 && are_all(r, op, 1, 0) && are_all(r, op, 4, 1);
        if (!from_front && !mp_is_kind(op, "Cast")) return MP_MASK_UNKNOWN;
        tensor = op->in[0];
    }
    return tensor_of(r, tensor)->mask;
}

/* Does the choice hide exactly the columns behind the row, by a mask of which only that is known? */
static bool chooses_past(const mp_rewriter *r, const struct found *f)
{
    const mp_tensor *t = tensor_of(r, f->positions), *q = tensor_of(r, f->q), *v = tensor_of(r, f->v);
    const int64_t rows = q->dims[q->rank - 2], columns = v->dims[v->rank - 2];
    if (!(f->fill <= MP_ATTENTION_HIDES) || t->rank < 2 || t->dims[t->rank - 2] != rows || t->dims[t->rank - 1] != columns)
        return false;
    return mask_of(r, f->positions) == (f->keeps ? MP_MASK_PAST : MP_MASK_FUTURE);
}

/* Does the mask hide exactly the columns behind the row, for every sample alike? */
static bool hides_what_follows(const mp_rewriter *r, const struct found *f, int mask, bool is_choice)
{
    const mp_tensor *t = tensor_of(r, mask), *q = tensor_of(r, f->q), *v = tensor_of(r, f->v);
    bool is_fixed = t->role == MP_ROLE_CONSTANT || (is_choice && t->role == MP_ROLE_BUFFER);
    int64_t rows = q->dims[q->rank - 2], columns = v->dims[v->rank - 2];
    if (!is_fixed || !t->value || t->rank < 2 || t->dims[t->rank - 2] != rows || t->dims[t->rank - 1] != columns) return false;
    if (t->value->n != rows * columns || (is_choice && !(f->fill <= MP_ATTENTION_HIDES))) return false;
    for (int64_t k = 0; k < t->value->n; k++)
        if (hidden(f, t->value, k, is_choice) != (k % columns > k / columns)) return false;
    return true;
}

/* The order of dimensions of a Transpose. */
static void order_of(const mp_rewriter *r, const mp_operator *op, int64_t order[MP_RANK_MAX])
{
    const int rank = tensor_of(r, op->in[0])->rank;
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    for (int d = 0; d < rank; d++) order[d] = !perm ? rank - 1 - d : perm[d] < 0 ? perm[d] + rank : perm[d];
}

/* Takes in the transposition in front of operand k, *tensor, if the depth is innermost there too. */
static void take_in_operand(const mp_rewriter *r, mp_pattern *pattern, struct found *f, int k, int *tensor)
{
    const int index = mp_producer(r, *tensor), last = tensor_of(r, *tensor)->rank - 1;
    int64_t *order = f->perm[k];
    if (index < 0 || r->n_readers[*tensor] != 1) return;
    const mp_operator *op = &r->model->operators[index];
    if (!mp_is_kind(op, "Transpose")) return;
    order_of(r, op, order);
    if (k == 1 && f->k_is_turned) { /* [.., depth, columns] is read as [.., columns, depth] */
        const int64_t depth = order[last - 1];
        order[last - 1] = order[last];
        order[last] = depth;
    }
    if (order[last] != last || !mp_pattern_add(pattern, index)) return;
    if (k == 1) f->k_is_turned = false;
    f->has_perm[k] = true;
    *tensor = op->in[0];
}

/* A Transpose behind an attention that nobody else reads: the attention writes what the Transpose does. */
static mp_status take_in_result(mp_rewriter *r, int index)
{
    mp_model *model = r->model;
    const mp_operator *op = &model->operators[index];
    const int from = op->in[0], to = op->out[0], producer = mp_producer(r, from), rank = tensor_of(r, from)->rank;
    mp_attribute a[16];
    int64_t order[MP_RANK_MAX];
    if (producer < 0 || r->n_readers[from] != 1 || tensor_of(r, from)->is_output) return MP_OK;
    const mp_operator *attention = &model->operators[producer];
    if (strcmp(attention->kind, "ScaledDotProductAttention") != 0 || strcmp(attention->domain, "memplan") != 0 ||
        mp_attention_perm(attention, MP_ATTENTION_Y) || attention->n_attributes >= sizeof a / sizeof *a)
        return MP_OK;
    order_of(r, op, order);
    if (order[rank - 1] != rank - 1) return MP_OK;
    mp_operator_draft draft = {.kind = attention->kind,
                               .domain = attention->domain,
                               .version = attention->version,
                               .in = attention->in,
                               .n_in = attention->n_in,
                               .attributes = a,
                               .n_attributes = attention->n_attributes};
    memcpy(a, attention->attributes, attention->n_attributes * sizeof *a);
    a[draft.n_attributes++] = (mp_attribute){
        .name = mp_attention_perm_name(MP_ATTENTION_Y), .kind = MP_ATTRIBUTE_INTS, .n = (size_t)rank, .ints = order};
    mp_rewriter_remove(r, index);
    model->operators[producer].out[0] = to;
    model->tensors[from].producer = -1;
    model->tensors[to].producer = producer;
    mp_rewriter_replace(r, from, to);
    return mp_rewriter_become(r, producer, &draft);
}

static mp_status become(mp_rewriter *r, mp_pattern *pattern, int root, struct found *f)
{
    mp_attribute a[12];
    const int rank = tensor_of(r, f->q)->rank;
    if (f->positions >= 0 && (hides_what_follows(r, f, f->positions, true) || chooses_past(r, f)))
        f->positions = -1, f->is_causal = true;
    if (f->positions < 0 && f->added >= 0 && hides_what_follows(r, f, f->added, false)) f->added = -1, f->is_causal = true;
    if (r->rules == MP_RULES_PYTORCH) take_out_groups(r, f);
    take_in_operand(r, pattern, f, 0, &f->q);
    take_in_operand(r, pattern, f, 1, &f->k);
    take_in_operand(r, pattern, f, 2, &f->v);
    const int in[5] = {f->q, f->k, f->v, f->added, f->positions};
    mp_operator_draft draft = {
        .kind = "ScaledDotProductAttention", .domain = "memplan", .version = 1, .in = in, .attributes = a};
    draft.n_in = f->positions >= 0 ? 5 : f->added >= 0 ? 4 : 3;
    a[draft.n_attributes++] = (mp_attribute){.name = "scale", .kind = MP_ATTRIBUTE_FLOAT, .f = f->scale};
    for (int k = 0; k < 3; k++)
        if (f->has_perm[k])
            a[draft.n_attributes++] = (mp_attribute){
                .name = mp_attention_perm_name(k), .kind = MP_ATTRIBUTE_INTS, .n = (size_t)rank, .ints = f->perm[k]};
    if (f->k_is_turned) a[draft.n_attributes++] = (mp_attribute){.name = "transK", .kind = MP_ATTRIBUTE_INT, .i = 1};
    if (f->is_causal) a[draft.n_attributes++] = (mp_attribute){.name = "causal", .kind = MP_ATTRIBUTE_INT, .i = 1};
    if (f->groups > 1) a[draft.n_attributes++] = (mp_attribute){.name = "groups", .kind = MP_ATTRIBUTE_INT, .i = f->groups};
    if (f->is_safe) a[draft.n_attributes++] = (mp_attribute){.name = "safe", .kind = MP_ATTRIBUTE_INT, .i = 1};
    if (f->ratio > 0) a[draft.n_attributes++] = (mp_attribute){.name = "ratio", .kind = MP_ATTRIBUTE_FLOAT, .f = f->ratio};
    if (f->positions >= 0) {
        a[draft.n_attributes++] = (mp_attribute){.name = "keeps", .kind = MP_ATTRIBUTE_INT, .i = f->keeps};
        a[draft.n_attributes++] = (mp_attribute){.name = "fill", .kind = MP_ATTRIBUTE_FLOAT, .f = f->fill};
    }
    return mp_pattern_fuse(r, pattern, root, &draft);
}

static mp_status fuse_attention(mp_rewriter *r, int root, const bool *has_gradient)
{
    const mp_operator *op = &r->model->operators[root];
    if (!mp_is_kind(op, "MatMul")) return MP_OK;
    for (int added = -1; added < 2; added++) {
        mp_pattern pattern = {.ops = {root}, .n = 1};
        struct found f = {.v = op->in[1], .added = -1, .positions = -1, .scale = 1, .groups = 1};
        int tensor = op->in[0];
        if (!match_dropout(r, &pattern, &tensor, &f.ratio)) return MP_OK;
        const mp_operator *softmax = match_softmax(r, &pattern, tensor, &f);
        if (!softmax || !is_along_last(r, softmax)) return MP_OK;
        if (!match_scores(r, &pattern, softmax->in[0], added, &f) || !fits(r, &f)) continue;
        if ((f.added >= 0 && has_gradient[f.added]) || !mp_pattern_is_closed(r, &pattern, root)) continue;
        if (r->rules == MP_RULES_PYTORCH && !is_of_pytorch(&f)) continue;
        return become(r, &pattern, root, &f);
    }
    return MP_OK;
}

/* What depends on a parameter, and may have a gradient. */
static void find_gradients(const mp_model *model, bool *has_gradient)
{
    for (size_t t = 0; t < model->n_tensors; t++) has_gradient[t] = model->tensors[t].role == MP_ROLE_PARAMETER;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        bool any = false;
        if (op->removed || !op->op || op->op->gradient == MP_GRADIENT_NONE) continue;
        for (int i = 0; i < op->n_in; i++) any |= op->in[i] >= 0 && has_gradient[op->in[i]];
        for (int o = 0; o < op->n_out; o++)
            if (op->out[o] >= 0) has_gradient[op->out[o]] |= any;
    }
}

mp_status mp_model_fuse_attention(mp_model *model, mp_rules rules, int *n_fused, mp_error *err)
{
    mp_status st = MP_OK;
    bool *has_gradient = mp_alloc(model->n_tensors, sizeof *has_gradient);
    mp_rewriter r = {.model = model, .n_readers = mp_alloc(model->n_tensors, sizeof *r.n_readers), .rules = rules, .err = err};
    MP_REQUIRE(r.n_readers && has_gradient, err, MP_NOMEM, "no memory to simplify %zu tensors", model->n_tensors);
    mp_rewriter_start(&r);
    find_gradients(model, has_gradient);
    for (size_t k = 0; k < model->n_operators; k++) {
        if (model->operators[k].removed) continue;
        mp_rewriter_update(&r, (int)k);
        MP_TRY(fuse_attention(&r, (int)k, has_gradient));
        if (mp_is_kind(&model->operators[k], "Transpose")) MP_TRY(take_in_result(&r, (int)k));
    }
    if (n_fused) *n_fused = r.changes;
    mp_rewriter_start(&r);
    MP_TRY(mp_rewrite_dead(&r));
    mp_rewriter_start(&r);
    MP_TRY(mp_model_sort(model, err));
done:
    mp_free(r.n_readers);
    mp_free(has_gradient);
    return st;
}
