/* attention_operands.c - removes transpositions, repeated heads and causal masks before an attention, and makes them
 * attributes of the attention. */
#include "estimator/simplify/patterns/attention.h"

#include <string.h>

#include "estimator/rules/operands/attention.h"

/* True if the attention itself shares heads (enable_gqa), so the Expand stores nothing. If a file shows that the program
 * repeats heads by an operation of its own, PyTorch stores and saves the repeated heads. PyTorch's older exporter cannot write
 * enable_gqa, so its files always contain repeated heads. */
static bool is_shared_in(const mp_rewriter *r, const mp_operator *attention, const mp_operator *expand)
{
    if (attention->call && expand->call) return !strcmp(attention->call, expand->call);
    return !r->model->is_foreign;
}

/* Finds the tensor whose heads are shared by n heads of Q: [.., heads, S, D] -> [.., heads, 1, S, D] -> Expand
 * [.., heads, n, S, D] -> [.., heads * n, S, D]. Returns n and sets *tensor to it. 1: heads are not shared. */
static int64_t without_groups(const mp_rewriter *r, const mp_operator *attention, int *tensor)
{
    const mp_tensor *all = mp_rewriter_tensor(r, *tensor);
    const int rank = all->rank;
    const mp_operator *join = mp_view(r, *tensor), *expand = join ? mp_written_by(r, join->in[0], "Expand") : NULL,
                      *split = expand ? mp_view(r, expand->in[0]) : NULL;
    if (!split || rank < 3 || !is_shared_in(r, attention, expand)) return 1;
    const mp_tensor *few = mp_rewriter_tensor(r, split->in[0]), *ones = mp_rewriter_tensor(r, expand->in[0]),
                    *many = mp_rewriter_tensor(r, join->in[0]);
    if (few->rank != rank || ones->rank != rank + 1 || many->rank != rank + 1 || ones->dims[rank - 2] != 1) return 1;
    for (int d = 0; d <= rank; d++) {
        if (d != rank - 2 && many->dims[d] != few->dims[d < rank - 2 ? d : d - 1]) return 1;
        if (d != rank - 2 && ones->dims[d] != many->dims[d]) return 1;
        if (d < rank && d != rank - 3 && all->dims[d] != few->dims[d]) return 1;
    }
    *tensor = split->in[0];
    return many->dims[rank - 2];
}

void mp_attention_take_out_groups(const mp_rewriter *r, int root, mp_attention_found *f)
{
    const mp_operator *attention = &r->model->operators[root];
    int k = f->k, v = f->v;
    const int rank = mp_rewriter_tensor(r, f->q)->rank;
    if (rank >= 3 && mp_rewriter_tensor(r, v)->dims[rank - 3] == 1) f->groups = mp_rewriter_tensor(r, f->q)->dims[rank - 3];
    const int64_t groups = f->k_is_turned ? 1 : without_groups(r, attention, &k);
    if (groups == 1 || without_groups(r, attention, &v) != groups) return;
    f->k = k;
    f->v = v;
    f->groups = groups;
}

/* Returns the length of the name of the function in a call such as "expand_1". */
static size_t function_length(const char *call)
{
    size_t n = strlen(call);
    while (n && call[n - 1] >= '0' && call[n - 1] <= '9') n--;
    return n < strlen(call) && n && call[n - 1] == '_' ? n - 1 : strlen(call);
}

/* If a Where converts a boolean mask to 0 and a value that hides, the boolean mask becomes the operand. Files of the newer
 * exporter name the call of the conversion. Equal conversions of several attentions are merged by the exporter. */
static void take_boolean_mask(const mp_rewriter *r, int root, mp_attention_found *f)
{
    const char *call = r->model->operators[root].call;
    const mp_operator *where = f->added >= 0 && f->positions < 0 ? mp_written_by(r, f->added, "Where") : NULL;
    double c[2];
    if (!where || !mp_known_scalar(r, where->in[1], &c[0]) || !mp_known_scalar(r, where->in[2], &c[1])) return;
    if (call && where->call) {
        const size_t n = function_length(call);
        if (n != function_length(where->call) || strncmp(call, where->call, n) != 0) return;
    } else if (!f->is_safe || r->model->is_of_newer_exporter) {
        return;
    }
    const int hides = c[0] == 0 ? 1 : 0;
    if (c[1 - hides] != 0 || !(c[hides] <= MP_ATTENTION_HIDES)) return;
    f->keeps = hides == 1;
    f->fill = c[hides];
    f->positions = where->in[0];
    f->added = -1;
}

void mp_attention_take_mask(const mp_rewriter *r, int root, mp_attention_found *f)
{
    const mp_tensor *mask = f->added >= 0 ? mp_rewriter_tensor(r, f->added) : NULL;
    /* only a boolean mask gives a safe softmax */
    const bool is_dropped = mask && (f->is_safe ? mask->given == MP_MASK_BY_POSITIONS || r->model->is_of_transformers
                                                : mask->given == MP_MASK_BY_FLAG);
    const bool is_unread = mask && !mask->value && (mask->producer >= 0 || r->model->is_of_newer_exporter);
    if (r->model->is_foreign && is_dropped && !f->is_safe && is_unread) /* too large to be folded, but by is_causal=True */
        f->added = -1, f->is_causal = true;
    else if (!r->model->is_foreign || !mask || is_dropped)
        mp_attention_take_causal(r, f);
    else if (f->is_safe && mask->producer < 0)
        f->n_converted = mp_tensor_elements(mask);
    take_boolean_mask(r, root, f);
}

/* Reads the permutation of a Transpose operator. */
static void order_of(const mp_rewriter *r, const mp_operator *op, int64_t order[MP_RANK_MAX])
{
    const int rank = mp_rewriter_tensor(r, op->in[0])->rank;
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    for (int d = 0; d < rank; d++) order[d] = !perm ? rank - 1 - d : perm[d] < 0 ? perm[d] + rank : perm[d];
}

/* If view y of x only adds or removes dimensions of size 1, returns the dimension of x that is dimension d of y; else -1. */
static int before_ones(const mp_tensor *x, const mp_tensor *y, int d)
{
    int from = -1, i = 0, j = 0;
    for (;; i++, j++) {
        while (i < x->rank && x->dims[i] == 1) i++;
        while (j < y->rank && y->dims[j] == 1) j++;
        if (i == x->rank || j == y->rank) return i == x->rank && j == y->rank ? from : -1;
        if (x->dims[i] != y->dims[j]) return -1;
        if (j == d) from = i;
    }
}

bool mp_attention_reads_rows(const mp_rewriter *r, int tensor, int d)
{
    for (const mp_operator *op; (op = mp_writer(r, tensor)) && op->op; tensor = op->in[0]) {
        /* elementwise operators, and operators that select a part of the input, keep the input's layout */
        const bool is_same = mp_op_is_elementwise(op->op) || op->op->traits & MP_TRAIT_PARTS;
        const mp_tensor *x = mp_rewriter_tensor(r, op->in[0]), *y = mp_rewriter_tensor(r, tensor);
        int64_t order[MP_RANK_MAX];
        if (y->dims[d] == 1) return true;
        if (op->op->traits & MP_TRAIT_PERMUTES) {
            order_of(r, op, order);
            d = (int)order[d];
        } else if (mp_view(r, tensor) && before_ones(x, y, d) >= 0) {
            d = before_ones(x, y, d);
        } else if (!is_same || x->rank != y->rank || x->dims[d] != y->dims[d]) {
            break; /* any other operator writes a new layout, so the search ends at this operator */
        }
    }
    const mp_tensor *t = mp_rewriter_tensor(r, tensor);
    int64_t inner = 1;
    for (int k = d + 1; k < t->rank; k++) inner *= t->dims[k];
    return inner == 1 || t->dims[d] == 1;
}

/* Removes the transposition that computes operand k, *tensor, if the depth dimension is also innermost before the
 * transposition. */
static void take_in_operand(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *f, int k, int *tensor)
{
    const int index = mp_producer(r, *tensor), last = mp_rewriter_tensor(r, *tensor)->rank - 1;
    const mp_operator *op = mp_written_by(r, *tensor, "Transpose");
    int64_t *order = f->perm[k];
    if (!op || r->n_readers[*tensor] != 1) return;
    order_of(r, op, order);
    if (k == 1 && f->k_is_turned) { /* K is stored as [.., depth, columns]: the last two entries are swapped, because the
                                       permutation must give [.., columns, depth] */
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

/* True if PyTorch's attention stores the heads of its result side by side. Its result has the memory layout of the query,
 * which comes from a transposed projection. Arithmetic and views preserve this layout; a concatenation (as in partial
 * rotation) does not. */
static bool writes_heads_side_by_side(const mp_rewriter *r, const mp_operator *attention)
{
    const unsigned hand_on = MP_TRAIT_IN_PLACE | MP_TRAIT_PARTS | MP_TRAIT_GATHER;
    if (mp_attention_perm(attention, 0)) return true;
    for (const mp_operator *op = mp_writer(r, attention->in[0]); op; op = mp_writer(r, op->in[0])) {
        if (op->op && op->op->traits & MP_TRAIT_PERMUTES) return true;
        if (!op->op || !(op->op->traits & hand_on || mp_is_kind(op, "Squeeze") || mp_is_kind(op, "Unsqueeze"))) return false;
    }
    return false;
}

mp_status mp_attention_take_in_result(mp_rewriter *r, int index)
{
    mp_model *model = r->model;
    const mp_operator *op = &model->operators[index];
    const int from = op->in[0], to = op->out[0], producer = mp_producer(r, from), rank = mp_rewriter_tensor(r, from)->rank;
    mp_attribute a[16];
    int64_t order[MP_RANK_MAX];
    if (producer < 0 || r->n_readers[from] != 1 || mp_rewriter_tensor(r, from)->is_output) return MP_OK;
    const mp_operator *attention = &model->operators[producer];
    if (strcmp(attention->kind, "ScaledDotProductAttention") != 0 || strcmp(attention->domain, "memplan") != 0 ||
        mp_attention_perm(attention, MP_ATTENTION_Y) || attention->n_attributes >= sizeof a / sizeof *a)
        return MP_OK;
    if (r->rules == MP_RULES_PYTORCH && !writes_heads_side_by_side(r, attention)) return MP_OK;
    order_of(r, op, order);
    if (order[rank - 1] != rank - 1) return MP_OK;
    mp_operator_draft draft = mp_draft_like(attention, attention->in, attention->n_in);
    draft.attributes = a;
    memcpy(a, attention->attributes, attention->n_attributes * sizeof *a);
    a[draft.n_attributes++] = mp_attribute_ints(mp_attention_perm_name(MP_ATTENTION_Y), order, (size_t)rank);
    mp_rewriter_remove(r, index);
    model->operators[producer].out[0] = to;
    model->tensors[from].producer = -1;
    model->tensors[to].producer = producer;
    mp_rewriter_replace(r, from, to);
    return mp_rewriter_become(r, producer, &draft);
}

/* Returns 1 if element k of a mask hides its score, 0 if it keeps the score, -1 if the value means neither. */
static int hidden(const mp_attention_found *f, const mp_value *value, int64_t k, bool is_choice)
{
    if (is_choice) return value->is_real ? -1 : (value->i[k] != 0) != f->keeps;
    double x = value->is_real ? value->f[k] : (double)value->i[k];
    return x == 0 ? 0 : x <= MP_ATTENTION_HIDES ? 1 : -1;
}

/* True if input k is omitted, or all its elements are the integer `wanted`. */
static bool are_all(const mp_rewriter *r, const mp_operator *op, int k, int64_t wanted)
{
    const mp_tensor *t = mp_operator_in(r->model, op, k);
    if (!t) return true;
    bool all = t->value && !t->value->is_real;
    for (int64_t e = 0; all && e < t->value->n; e++) all = t->value->i[e] == wanted;
    return all;
}

/* True if the tensor contains the positions 0, 1, 2, ... along the dimension that is `back` from the end. */
static bool counts_along(const mp_rewriter *r, int tensor, int back)
{
    const mp_tensor *t = mp_rewriter_tensor(r, tensor);
    const int64_t n = t->rank >= back ? t->dims[t->rank - back] : 0;
    if (!t->value || t->value->n != n) return false;
    for (int64_t k = 0; k < n; k++)
        if ((t->value->is_real ? t->value->f[k] : (double)t->value->i[k]) != (double)k) return false;
    return true;
}

/* Returns the structure (mp_mask) of a mask that operators compute by comparing row numbers with column numbers. Such a mask
 * may be too large to fold. */
static mp_mask mask_of_comparison(const mp_rewriter *r, const mp_operator *op)
{
    static const struct {
        const char *kind;
        bool rows_first;
        mp_mask mask;
    } forms[] = {{"GreaterOrEqual", true, MP_MASK_PAST},
                 {"LessOrEqual", false, MP_MASK_PAST},
                 {"Less", true, MP_MASK_FUTURE},
                 {"Greater", false, MP_MASK_FUTURE}};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        if (mp_is_kind(op, forms[k].kind) && counts_along(r, op->in[!forms[k].rows_first], 2) &&
            counts_along(r, op->in[forms[k].rows_first], 1))
            return forms[k].mask;
    return MP_MASK_UNKNOWN;
}

/* Returns the structure (mp_mask) of a mask whose values are unknown. The mask may be a slice, from the first element on, of
 * a larger mask. */
static mp_mask mask_of(const mp_rewriter *r, int tensor)
{
    for (const mp_operator *op; (op = mp_writer(r, tensor));) {
        const mp_mask compared = mask_of_comparison(r, op);
        if (compared != MP_MASK_UNKNOWN) return compared;
        bool from_front = mp_is_kind(op, "Slice") && op->version >= 10 && are_all(r, op, 1, 0) && are_all(r, op, 4, 1);
        if (!from_front && !mp_is_kind(op, "Cast")) return MP_MASK_UNKNOWN;
        tensor = op->in[0];
    }
    return mp_rewriter_tensor(r, tensor)->mask;
}

/* True if the mask of a Where hides, in row i of the scores, exactly the columns j > i. Only for masks without known values, by
 * their mp_mask. */
static bool chooses_past(const mp_rewriter *r, const mp_attention_found *f)
{
    const mp_tensor *t = mp_rewriter_tensor(r, f->positions), *q = mp_rewriter_tensor(r, f->q),
                    *v = mp_rewriter_tensor(r, f->v);
    const int64_t rows = q->dims[q->rank - 2], columns = v->dims[v->rank - 2];
    if (!(f->fill <= MP_ATTENTION_HIDES) || t->rank < 2 || t->dims[t->rank - 2] != rows || t->dims[t->rank - 1] != columns)
        return false;
    return mask_of(r, f->positions) == (f->keeps ? MP_MASK_PAST : MP_MASK_FUTURE);
}

/* True if the mask hides, in row i of the scores, exactly the columns j > i, and does so in every sample. */
static bool hides_what_follows(const mp_rewriter *r, const mp_attention_found *f, int mask, bool is_choice)
{
    const mp_tensor *t = mp_rewriter_tensor(r, mask), *q = mp_rewriter_tensor(r, f->q), *v = mp_rewriter_tensor(r, f->v);
    bool is_fixed = t->role == MP_ROLE_CONSTANT || (is_choice && t->role == MP_ROLE_BUFFER);
    int64_t rows = q->dims[q->rank - 2], columns = v->dims[v->rank - 2];
    if (!is_fixed || !t->value || t->rank < 2 || t->dims[t->rank - 2] != rows || t->dims[t->rank - 1] != columns) return false;
    if (t->value->n != rows * columns || (is_choice && !(f->fill <= MP_ATTENTION_HIDES))) return false;
    for (int64_t k = 0; k < t->value->n; k++)
        if (hidden(f, t->value, k, is_choice) != (k % columns > k / columns)) return false;
    return true;
}

void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *f)
{
    if (f->positions >= 0 && (hides_what_follows(r, f, f->positions, true) || chooses_past(r, f)))
        f->positions = -1, f->is_causal = true;
    if (f->positions < 0 && f->added >= 0 && hides_what_follows(r, f, f->added, false)) f->added = -1, f->is_causal = true;
}
