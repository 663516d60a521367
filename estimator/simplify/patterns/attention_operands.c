/* attention_operands.c - transpositions, and heads that share keys and values. */
#include "estimator/simplify/patterns/attention_operands.h"

#include <string.h>

#include "estimator/rules/operands/attention.h"

static const mp_tensor *tensor_of(const mp_rewriter *r, int t)
{
    return &r->model->tensors[t];
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

void mp_attention_take_out_groups(const mp_rewriter *r, mp_attention_found *f)
{
    int k = f->k, v = f->v;
    const int rank = tensor_of(r, f->q)->rank;
    if (rank >= 3 && tensor_of(r, v)->dims[rank - 3] == 1) f->groups = tensor_of(r, f->q)->dims[rank - 3];
    const int64_t groups = f->k_is_turned ? 1 : without_groups(r, &k);
    if (groups == 1 || without_groups(r, &v) != groups) return;
    f->k = k;
    f->v = v;
    f->groups = groups;
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
static void take_in_operand(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *f, int k, int *tensor)
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

void mp_attention_take_in_operands(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *f)
{
    take_in_operand(r, pattern, f, 0, &f->q);
    take_in_operand(r, pattern, f, 1, &f->k);
    take_in_operand(r, pattern, f, 2, &f->v);
}

/* Does PyTorch's attention write heads side by side? Its result lies in memory in the order of its query: that of a transposed
 * projection, which arithmetic and views hand on, but not that of what is put together anew, as a rotation of a part is. */
static bool writes_heads_side_by_side(const mp_rewriter *r, const mp_operator *attention)
{
    const unsigned hand_on = MP_TRAIT_IN_PLACE | MP_TRAIT_PARTS | MP_TRAIT_GATHER;
    if (mp_attention_perm(attention, 0)) return true;
    for (int index, tensor = attention->in[0]; (index = mp_producer(r, tensor)) >= 0;
         tensor = r->model->operators[index].in[0]) {
        const mp_operator *op = &r->model->operators[index];
        if (op->op && op->op->traits & MP_TRAIT_PERMUTES) return true;
        if (!op->op || !(op->op->traits & hand_on || mp_is_kind(op, "Squeeze") || mp_is_kind(op, "Unsqueeze"))) return false;
    }
    return false;
}

mp_status mp_attention_take_in_result(mp_rewriter *r, int index)
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
    if (r->rules == MP_RULES_PYTORCH && !writes_heads_side_by_side(r, attention)) return MP_OK;
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
