/* attention.c - recognises attention that is written as several operators, and fuses it into one operator. The search starts
 * at the last product and goes backwards. */
#include "estimator/simplify/patterns/attention.h"

#include <string.h>

#include "estimator/model/order.h"
#include "estimator/rules/operands/attention.h"
#include "memplan/simplify.h"

/* The reason why a product of a softmax and a matrix is not recognised as attention. */
typedef struct attention_gap {
    int op, tensor;  /* index of the operator or tensor that prevents the match; -1: unknown */
    const char *why; /* the reason, as the end of a sentence about this operator or tensor; NULL: there is no product of a
                        softmax and a matrix */
} attention_gap;

/* Skips multiplications by known scalars that compute `tensor`, and returns the tensor before them. *scale is multiplied by
 * these scalars. The multiplications become part of the pattern. If another operator reads the result of a multiplication, the
 * search ends at this result. */
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
        if (from < 0 || !mp_same_shape(mp_rewriter_tensor(r, from), mp_rewriter_tensor(r, tensor)) ||
            !mp_pattern_add(pattern, index))
            return tensor;
        *scale *= factor;
        tensor = from;
    }
}

static bool gap_at(attention_gap *gap, int op, int tensor, const char *why)
{
    *gap = (attention_gap){.op = op, .tensor = tensor, .why = why};
    return false;
}

/* Matches the product of queries and keys that computes the scores. */
static bool match_product(const mp_rewriter *r, mp_pattern *pattern, int scores, mp_attention_found *f, attention_gap *gap)
{
    int index = mp_producer(r, scores);
    if (index < 0) return gap_at(gap, -1, scores, "is not a product of queries and keys");
    const mp_operator *op = &r->model->operators[index];
    bool fused = !strcmp(op->kind, "FusedMatMul") && !strcmp(op->domain, "com.microsoft");
    if (!fused && !mp_is_kind(op, "MatMul"))
        return gap_at(gap, index, -1, "is between the product and the softmax, where it is not supported");
    gap_at(gap, index, -1, "multiplies operands of an unsupported form");
    if (mp_operator_int(op, "transA", 0) || mp_operator_int(op, "transBatchA", 0) || mp_operator_int(op, "transBatchB", 0))
        return false;
    if (!mp_pattern_add(pattern, index)) return false;
    f->scale *= mp_operator_float(op, "alpha", 1);
    f->k_is_turned = !mp_operator_int(op, "transB", 0);
    f->scale_q = f->scale_k = 1;
    f->q = without_scale(r, pattern, op->in[0], &f->scale_q);
    f->k = without_scale(r, pattern, op->in[1], &f->scale_k);
    const mp_operator *turned = mp_written_by(r, f->k, "Transpose");
    if (f->k_is_turned && turned && mp_swaps_last_two(r->model, turned)) {
        if (r->n_readers[f->k] == 1 && !mp_pattern_add(pattern, mp_producer(r, f->k))) return false;
        f->k = without_scale(r, pattern, turned->in[0], &f->scale_k);
        f->k_is_turned = false;
    }
    f->scale *= f->scale_q * f->scale_k;
    return true;
}

/* Matches a Where operator that replaces scores by a constant, as a boolean mask. */
static bool match_choice(const mp_rewriter *r, mp_pattern *pattern, int *scores, mp_attention_found *f)
{
    const mp_operator *op = mp_pattern_written_by(r, pattern, *scores, "Where");
    for (int k = 1; op && k <= 2; k++) {
        if (!mp_known_scalar(r, op->in[k], &f->fill) ||
            !mp_same_shape(mp_rewriter_tensor(r, op->in[3 - k]), mp_rewriter_tensor(r, *scores)))
            continue;
        f->positions = op->in[0];
        f->keeps = k == 2;
        *scores = op->in[3 - k];
        return true;
    }
    return !op;
}

/* Matches the operators between the product of queries and keys and the softmax. `added` is the operand of an addition that
 * is taken as the mask; -1: no addition. */
static bool match_scores(const mp_rewriter *r, mp_pattern *pattern, int scores, int added, mp_attention_found *f,
                         attention_gap *gap)
{
    if (added >= 0) {
        const mp_operator *op = mp_pattern_written_by(r, pattern, scores, "Add");
        if (!op || op->version < 7 || !mp_same_shape(mp_rewriter_tensor(r, op->in[1 - added]), mp_rewriter_tensor(r, scores)))
            return false;
        f->added = op->in[added];
        scores = op->in[1 - added];
    }
    if (!match_choice(r, pattern, &scores, f))
        return gap_at(gap, mp_producer(r, scores), -1, "masks scores with more than one number");
    return match_product(r, pattern, without_scale(r, pattern, scores, &f->scale), f, gap);
}

/* Matches a dropout between the softmax and the product with V. *tensor becomes the input of the dropout. Returns false if
 * the dropout rate is unknown. */
static bool match_dropout(const mp_rewriter *r, mp_pattern *pattern, int *tensor, double *ratio)
{
    const mp_operator *op = mp_pattern_written_by(r, pattern, *tensor, "Dropout");
    if (!op) return true;
    *ratio = mp_operator_float(op, "ratio", 0.5);
    if (op->version >= 12 && mp_operator_in(r->model, op, 1) && !mp_known_scalar(r, op->in[1], ratio)) return false;
    *tensor = op->in[0];
    return *ratio >= 0 && *ratio < 1;
}

/* Matches a softmax, or a SafeSoftmax, which returns zeros for rows in which every score is masked. */
static const mp_operator *match_softmax(const mp_rewriter *r, mp_pattern *pattern, int tensor, mp_attention_found *f)
{
    const int index = mp_producer(r, tensor);
    if (index < 0) return NULL;
    const mp_operator *op = &r->model->operators[index];
    f->is_safe = !strcmp(op->kind, "SafeSoftmax") && !strcmp(op->domain, "memplan");
    return (f->is_safe || mp_is_kind(op, "Softmax")) && mp_pattern_add(pattern, index) ? op : NULL;
}

static bool is_along_last(const mp_rewriter *r, const mp_operator *softmax)
{
    int rank = mp_rewriter_tensor(r, softmax->in[0])->rank;
    int64_t axis = mp_operator_int(softmax, "axis", !softmax->domain[0] && softmax->version < 13 ? 1 : -1);
    return axis == -1 || axis == rank - 1;
}

/* True if Q, K and V are stacks of matrices with the same floating-point type and batch. Under PyTorch's rules all heads may
 * share one K and V. */
static bool fits(const mp_rewriter *r, const mp_attention_found *f)
{
    const mp_tensor *q = mp_rewriter_tensor(r, f->q), *k = mp_rewriter_tensor(r, f->k), *v = mp_rewriter_tensor(r, f->v);
    if (q->rank < 2 || k->rank != q->rank || v->rank != q->rank || !mp_dtype_is_float(q->dtype)) return false;
    if (k->dtype != q->dtype || v->dtype != q->dtype) return false;
    for (int d = 0; d < q->rank - 2; d++) {
        const bool shares = r->rules == MP_RULES_PYTORCH && d == q->rank - 3 && v->dims[d] == 1;
        if (k->dims[d] != v->dims[d] || (v->dims[d] != q->dims[d] && !shares)) return false;
    }
    return true;
}

/* True if the file shows PyTorch's own attention function, executed as one kernel. Evidence is the safe softmax, or the
 * square root of the scale on both operands. With dropout, or with a gradient of the mask, PyTorch runs separate kernels. */
static bool is_of_pytorch(const mp_attention_found *f)
{
    return f->ratio == 0 && (f->is_safe || (f->scale_q != 1 && mp_near(f->scale_q, f->scale_k)));
}

/* Returns the tensor among Q, K and V whose depth dimension is not innermost in memory; -1: none. PyTorch has no fused
 * kernel for such a tensor, on the CPU or on a GPU. It then computes two separate products and stores the scores. */
static int read_by_columns(const mp_rewriter *r, const mp_attention_found *f)
{
    const int last = mp_rewriter_tensor(r, f->q)->rank - 1;
    if (!mp_attention_reads_rows(r, f->q, last)) return f->q;
    if (!mp_attention_reads_rows(r, f->k, last - f->k_is_turned)) return f->k;
    return mp_attention_reads_rows(r, f->v, last) ? -1 : f->v;
}

/* Tries to match attention. `added` is the operand of an addition that is assumed to be the mask; -1: no mask is added. */
static bool match_with(const mp_rewriter *r, int root, int added, const bool *has_gradient, mp_pattern *pattern,
                       mp_attention_found *f, attention_gap *gap)
{
    const mp_operator *op = &r->model->operators[root];
    *pattern = (mp_pattern){.ops = {root}, .n = 1};
    *f = (mp_attention_found){.v = op->in[1], .added = -1, .positions = -1, .scale = 1, .groups = 1};
    int tensor = op->in[0];
    gap_at(gap, -1, -1, NULL);
    if (!match_dropout(r, pattern, &tensor, &f->ratio)) return false;
    const mp_operator *softmax = match_softmax(r, pattern, tensor, f);
    if (!softmax || !is_along_last(r, softmax) || !match_scores(r, pattern, softmax->in[0], added, f, gap)) return false;
    if (!fits(r, f)) return gap_at(gap, root, -1, "has queries, keys and values of different batches or types");
    if (f->added >= 0 && has_gradient[f->added]) return gap_at(gap, -1, f->added, "is added to the scores and has a gradient");
    if (!mp_pattern_is_closed(r, pattern, root))
        return gap_at(gap, root, -1, "is not the only reader of the probabilities or scores");
    if (r->rules != MP_RULES_PYTORCH) return true;
    if (!is_of_pytorch(f)) return gap_at(gap, -1, -1, NULL);
    if (f->added >= 0 && mp_rewriter_tensor(r, f->added)->rank % 2)
        return gap_at(gap, -1, f->added,
                      "is a mask of neither two nor four dimensions, for which PyTorch has no fused attention");
    const int columns = read_by_columns(r, f);
    return columns < 0 ||
           gap_at(gap, -1, columns, "has rows that are not contiguous, for which PyTorch has no fused attention");
}

/* True if operator `root` is the last product (with V) of an attention. `pattern` then contains the operators of the
 * attention, and `f` its operands. Otherwise `gap` contains the reason. If several matches were tried, the reason is from
 * the one with the most matched operators. A tensor with has_gradient cannot be the mask. O(pattern). */
static bool match(const mp_rewriter *r, int root, const bool *has_gradient, mp_pattern *pattern, mp_attention_found *f,
                  attention_gap *gap)
{
    int furthest = 0;
    *gap = (attention_gap){.op = -1, .tensor = -1};
    for (int added = -1; added < 2; added++) {
        attention_gap here;
        if (match_with(r, root, added, has_gradient, pattern, f, &here)) return true;
        if (!here.why || pattern->n < furthest) continue;
        furthest = pattern->n;
        *gap = here;
    }
    return false;
}

static mp_status become(mp_rewriter *r, mp_pattern *pattern, int root, mp_attention_found *f)
{
    mp_attribute a[12];
    const int rank = mp_rewriter_tensor(r, f->q)->rank;
    if (r->rules == MP_RULES_PYTORCH) {
        mp_attention_take_out_groups(r, root, f);
        mp_attention_take_mask(r, root, f);
    } else {
        mp_attention_take_causal(r, f);
    }
    mp_attention_take_in_operands(r, pattern, f);
    const int in[5] = {f->q, f->k, f->v, f->added, f->positions};
    mp_operator_draft draft = {
        .kind = "ScaledDotProductAttention", .domain = "memplan", .version = 1, .in = in, .attributes = a};
    draft.n_in = f->positions >= 0 ? 5 : f->added >= 0 ? 4 : 3;
    a[draft.n_attributes++] = mp_attribute_float("scale", f->scale);
    for (int k = 0; k < 3; k++)
        if (f->has_perm[k]) a[draft.n_attributes++] = mp_attribute_ints(mp_attention_perm_name(k), f->perm[k], (size_t)rank);
    if (f->k_is_turned) a[draft.n_attributes++] = mp_attribute_int("transK", 1);
    if (f->is_causal) a[draft.n_attributes++] = mp_attribute_int("causal", 1);
    if (f->groups > 1) a[draft.n_attributes++] = mp_attribute_int("groups", f->groups);
    if (f->is_safe) a[draft.n_attributes++] = mp_attribute_int("safe", 1);
    if (f->n_converted) a[draft.n_attributes++] = mp_attribute_int("converted", f->n_converted);
    if (f->ratio > 0) a[draft.n_attributes++] = mp_attribute_float("ratio", f->ratio);
    if (f->positions >= 0) {
        a[draft.n_attributes++] = mp_attribute_int("keeps", f->keeps);
        a[draft.n_attributes++] = mp_attribute_float("fill", f->fill);
    }
    return mp_pattern_fuse(r, pattern, root, &draft);
}

static mp_status fuse_attention(mp_rewriter *r, int root, const bool *has_gradient, mp_attention_report *report)
{
    mp_pattern pattern;
    mp_attention_found found;
    attention_gap gap;
    if (!mp_is_kind(&r->model->operators[root], "MatMul")) return MP_OK;
    if (match(r, root, has_gradient, &pattern, &found, &gap)) {
        MP_CHECK(become(r, &pattern, root, &found));
        const bool is_masked = found.added >= 0 || found.positions >= 0;
        report->n_masked += is_masked;
        report->n_unmasked += found.is_safe && !is_masked && !found.is_causal && !r->model->is_of_transformers;
        return MP_OK;
    }
    if (!gap.why || report->n_missed++) return MP_OK;
    report->missed = r->model->operators[root].name;
    report->breaks = gap.tensor >= 0 ? mp_rewriter_tensor(r, gap.tensor)->name
                     : gap.op >= 0   ? r->model->operators[gap.op].name
                                     : "";
    report->kind = gap.op >= 0 ? r->model->operators[gap.op].kind : "";
    report->why = gap.why;
    return MP_OK;
}

mp_status mp_model_fuse_attention(mp_model *model, mp_rules rules, bool mask_gradients, mp_attention_report *report,
                                  mp_error *err)
{
    mp_attention_report counted = {0};
    MP_OWNED bool *has_gradient = mp_alloc(model->n_tensors, sizeof *has_gradient);
    MP_OWNED int *n_readers = mp_alloc(model->n_tensors, sizeof *n_readers);
    mp_rewriter r = {.model = model, .n_readers = n_readers, .rules = rules, .err = err};
    MP_ENSURE(n_readers && has_gradient, err, MP_NOMEM, "no memory to simplify %zu tensors", model->n_tensors);
    mp_rewriter_start(&r);
    if (!mask_gradients || rules == MP_RULES_PYTORCH) mp_model_mark_trained(model, has_gradient);
    for (size_t k = 0; k < model->n_operators; k++) {
        if (model->operators[k].removed) continue;
        mp_rewriter_update(&r, (int)k);
        MP_CHECK(fuse_attention(&r, (int)k, has_gradient, &counted));
        if (mp_is_kind(&model->operators[k], "Transpose")) MP_CHECK(mp_attention_take_in_result(&r, (int)k));
    }
    counted.n = r.changes;
    mp_rewriter_start(&r);
    MP_CHECK(mp_rewrite_dead(&r));
    mp_rewriter_start(&r);
    MP_CHECK(mp_model_sort(model, err));
    if (report) *report = counted;
    return MP_OK;
}
