/* packed_operands.c - finds packed Q, K and V in a model, and describes them to kernels as separate arrays. */
#include "executor/operators/attention/packed_operands.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/model/order.h"
#include "estimator/rules/operands/attention.h"
#include "estimator/rules/operands/layout.h"
#include "estimator/simplify/rewrite.h"

enum { OPERANDS = 3, ALIGNED_ELEMENTS = 8 }; /* offsets are multiples of 8 elements: libraries require 16 bytes */

/* ---- the model. */

/* The elements of a tensor within the packed tensor: offset, sizes and strides in elements. */
typedef struct part {
    int rank;
    int64_t offset, dims[MP_RANK_MAX], strides[MP_RANK_MAX];
} part;

/* The range [from, from + size) of dimension `axis` that one operand takes from `tensor`, the tensor that is divided. */
typedef struct range {
    int tensor, axis;
    int64_t from, size;
} range;

static mp_infer reader_of(const mp_rewriter *r, const mp_operator *op)
{
    return (mp_infer){.model = r->model, .op = (mp_operator *)op, .err = r->err, .missing_value = -1};
}

static const mp_tensor *tensor_of(const mp_rewriter *r, int tensor)
{
    return &r->model->tensors[tensor];
}

static bool is_view(const mp_operator *op)
{
    return op->op->gradient == MP_GRADIENT_VIEW;
}

static bool permutes(const mp_operator *op)
{
    return op->op->traits & MP_TRAIT_PERMUTES;
}

/* Reads the range that a Split or a Gather selects for its output `tensor`. Returns false if the operator does not select a
 * range of one dimension. */
static bool read_range(const mp_rewriter *r, const mp_operator *op, int tensor, range *out)
{
    const mp_tensor *x = tensor_of(r, op->in[0]), *index = mp_operator_in(r->model, op, 1);
    int64_t axis = mp_operator_int(op, "axis", 0);
    if (axis < 0) axis += x->rank;
    *out = (range){.tensor = op->in[0], .axis = (int)axis};
    for (int o = 0; mp_is_kind(op, "Split") && o < op->n_out; o++) {
        const mp_tensor *y = mp_operator_out(r->model, op, o);
        if (!y) return false;
        out->size = y->dims[axis];
        if (op->out[o] == tensor) return true;
        out->from += out->size;
    }
    if (!mp_is_kind(op, "Gather") || !index || !index->value || index->value->is_real || index->value->n != 1) return false;
    out->from = index->value->i[0] + (index->value->i[0] < 0 ? x->dims[axis] : 0);
    out->size = 1;
    return true;
}

/* The operators that compute one operand from the packed tensor `base`, the last one first. */
typedef struct path {
    int ops[MP_PATTERN_MAX], n;
    int base;
    range taken;
} path;

/* Follows the producers of an operand through views and transpositions to the divided tensor, and from there to the packed
 * tensor. Returns false if no operator divides a tensor. */
static bool find_path(const mp_rewriter *r, int tensor, path *out)
{
    bool divided = false;
    *out = (path){.base = tensor};
    for (;;) {
        const int index = mp_producer(r, tensor);
        const mp_operator *op = index < 0 ? NULL : &r->model->operators[index];
        if (!op || !op->op || op->in[0] < 0) break;
        if (!is_view(op) && !permutes(op)) {
            if (divided || !read_range(r, op, tensor, &out->taken)) break;
            divided = true;
        }
        if (out->n == MP_PATTERN_MAX) return false;
        out->ops[out->n++] = index;
        out->base = tensor = op->in[0];
    }
    return divided;
}

static part whole(const mp_tensor *t)
{
    part p = {.rank = t->rank};
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        p.dims[d] = t->dims[d];
        p.strides[d] = stride;
        stride *= t->dims[d];
    }
    return p;
}

/* Gives a part the sizes of tensor `to`, with the elements in the same order. Neighbouring dimensions that are contiguous in
 * memory form a run. Returns false if a dimension of `to` would span two runs, because strides cannot express this. */
static bool reshape(part *p, const mp_tensor *to)
{
    part q = {.rank = to->rank, .offset = p->offset};
    int d = to->rank - 1;
    for (int end = p->rank - 1; end >= 0;) {
        int64_t run = p->dims[end], stride = p->strides[end], made = 1;
        int first = end;
        while (first > 0 && (p->dims[first - 1] == 1 || run == 1 || p->strides[first - 1] == run * stride)) {
            first--;
            if (run == 1) stride = p->strides[first];
            run *= p->dims[first];
        }
        for (; d >= 0 && (made < run || to->dims[d] == 1); d--) {
            q.dims[d] = to->dims[d];
            q.strides[d] = made * stride;
            made *= to->dims[d];
        }
        if (made != run) return false;
        end = first - 1;
    }
    *p = q;
    return d < 0;
}

static bool apply(const mp_rewriter *r, const mp_operator *op, int to, const range *taken, part *p)
{
    const mp_tensor *y = tensor_of(r, to);
    mp_infer reader = reader_of(r, op);
    int order[MP_RANK_MAX];
    if (is_view(op)) return reshape(p, y);
    if (permutes(op)) {
        const part before = *p;
        if (mp_permutation_read(&reader, order) != MP_OK) return false;
        for (int d = 0; d < p->rank; d++) {
            p->dims[d] = before.dims[order[d]];
            p->strides[d] = before.strides[order[d]];
        }
        return true;
    }
    p->offset += taken->from * p->strides[taken->axis];
    p->dims[taken->axis] = taken->size;
    return y->rank == p->rank || reshape(p, y); /* a Gather with a scalar index removes the dimension */
}

/* Computes the part of the packed tensor that is operand k of an attention, in the operator's dimension order. */
static bool part_of(const mp_rewriter *r, const mp_operator *attention, int k, const path *way, part *out)
{
    part p = whole(tensor_of(r, way->base));
    for (int n = way->n - 1; n >= 0; n--) {
        const int to = n ? r->model->operators[way->ops[n - 1]].in[0] : attention->in[k];
        if (!apply(r, &r->model->operators[way->ops[n]], to, &way->taken, &p)) return false;
    }
    const int64_t *perm = mp_attention_perm(attention, k);
    *out = p;
    for (int d = 0; d < p.rank; d++) {
        int from = perm ? (int)perm[d] : d;
        if (k == 1 && !perm && mp_operator_int(attention, "transK", 0) && d >= p.rank - 2) from = 2 * p.rank - 3 - d;
        out->dims[d] = p.dims[from];
        out->strides[d] = p.strides[from];
    }
    return p.rank <= MP_ARRAY_RANK && out->strides[p.rank - 1] == 1 && out->offset % ALIGNED_ELEMENTS == 0;
}

/* True if the ranges are disjoint and together contain the whole dimension of one tensor. */
static bool are_all(const mp_rewriter *r, const path ways[OPERANDS])
{
    int64_t size = 0;
    for (int k = 0; k < OPERANDS; k++) {
        const range *a = &ways[k].taken;
        if (ways[k].base != ways[0].base || a->tensor != ways[0].taken.tensor || a->axis != ways[0].taken.axis) return false;
        for (int j = 0; j < k; j++) {
            const range *b = &ways[j].taken;
            if (a->from < b->from + b->size && b->from < a->from + a->size) return false;
        }
        size += a->size;
    }
    return size == tensor_of(r, ways[0].taken.tensor)->dims[ways[0].taken.axis];
}

static mp_attribute view_of(const part *p, int k, int64_t list[1 + 2 * MP_RANK_MAX])
{
    list[0] = p->offset;
    memcpy(list + 1, p->dims, (size_t)p->rank * sizeof *list);
    memcpy(list + 1 + p->rank, p->strides, (size_t)p->rank * sizeof *list);
    return mp_attribute_ints(mp_attention_view_name(k), list, 1 + 2 * (size_t)p->rank);
}

static bool is_replaced(const mp_attribute *a)
{
    bool found = !strcmp(a->name, "transK");
    for (int k = 0; k < OPERANDS; k++) found |= !strcmp(a->name, mp_attention_perm_name(k));
    return found;
}

static mp_status pack(mp_rewriter *r, int root)
{
    enum { ATTRIBUTES = 20 };
    const mp_operator *op = &r->model->operators[root];
    mp_pattern pattern = {.ops = {root}, .n = 1};
    path ways[OPERANDS];
    part parts[OPERANDS];
    int64_t lists[OPERANDS][1 + 2 * MP_RANK_MAX];
    mp_attribute a[ATTRIBUTES];
    int in[5] = {-1, -1, -1, -1, -1};
    if (!op->op || !(op->op->traits & MP_TRAIT_TILED) || op->n_in < OPERANDS || op->n_in > 5 || op->in[1] < 0) return MP_OK;
    if (mp_operator_int(op, "groups", 1) > 1) return MP_OK;
    for (int k = 0; k < OPERANDS; k++) {
        if (!find_path(r, op->in[k], &ways[k])) return MP_OK;
        for (int n = 0; n < ways[k].n; n++)
            if (!mp_pattern_add(&pattern, ways[k].ops[n])) return MP_OK;
    }
    if (tensor_of(r, ways[0].base)->stored.layout != MP_LAYOUT_PLAIN || !are_all(r, ways)) return MP_OK;
    if (!mp_pattern_is_closed(r, &pattern, root)) return MP_OK;
    mp_operator_draft draft = mp_draft_like(op, in, op->n_in);
    draft.attributes = a;
    draft.n_attributes = 0;
    for (int k = 0; k < OPERANDS; k++) {
        if (!part_of(r, op, k, &ways[k], &parts[k])) return MP_OK;
        a[draft.n_attributes++] = view_of(&parts[k], k, lists[k]);
    }
    for (size_t k = 0; k < op->n_attributes; k++) {
        if (draft.n_attributes == ATTRIBUTES) return MP_OK;
        if (!is_replaced(&op->attributes[k])) a[draft.n_attributes++] = op->attributes[k];
    }
    in[0] = ways[0].base;
    for (int i = OPERANDS; i < op->n_in; i++) in[i] = op->in[i];
    return mp_pattern_fuse(r, &pattern, root, &draft);
}

static void rewriter_free(mp_rewriter *r)
{
    mp_free(r->n_readers);
}

mp_status mp_pack_attention(mp_model *model, mp_error *err)
{
    MP_CLEARED_BY(rewriter_free) mp_rewriter r = {.model = model, .rules = MP_RULES_EXECUTOR, .err = err};
    MP_ENSURE(r.n_readers = mp_alloc(model->n_tensors, sizeof *r.n_readers), err, MP_NOMEM, "out of memory");
    mp_rewriter_start(&r);
    MP_CHECK(mp_rewriter_each(&r, pack));
    mp_rewriter_start(&r);
    return mp_model_sort(model, err);
}

/* ---- calls. */

/* The operands of a call with packed Q, K and V, described as separate arrays. */
typedef struct unpacked {
    mp_operands x;
    mp_array in[5], d_in[5];
} unpacked;

static void unpack(const mp_operands *x, unpacked *u)
{
    mp_attention_view view;
    u->x = *x;
    u->x.in = u->in;
    u->x.n_in = x->n_in < OPERANDS ? OPERANDS : x->n_in;
    for (int i = 0; i < 5; i++) {
        u->in[i] = i >= OPERANDS && i < x->n_in ? x->in[i] : (mp_array){0};
        u->d_in[i] = x->is_backward && i >= OPERANDS && i < x->n_in ? x->d_in[i] : (mp_array){0};
    }
    for (int k = 0; k < OPERANDS && mp_attention_view_read(x->op, k, &view); k++) {
        mp_array *a = &u->in[k];
        const int64_t offset = view.offset * (mp_dtype_bits(x->in[0].dtype) / 8);
        *a = (mp_array){.dtype = x->in[0].dtype, .rank = view.rank};
        memcpy(a->dims, view.dims, (size_t)view.rank * sizeof *a->dims);
        memcpy(a->strides, view.strides, (size_t)view.rank * sizeof *a->strides);
        if (x->in[0].data) a->data = (char *)x->in[0].data + offset;
        if (!x->is_backward || !x->d_in[0].dtype) continue;
        u->d_in[k] = *a;
        u->d_in[k].dtype = x->d_in[0].dtype;
        u->d_in[k].data = x->d_in[0].data ? (char *)x->d_in[0].data + offset : NULL;
    }
    if (!x->is_backward) return;
    u->x.d_in = u->d_in;
    u->x.adds = 0; /* mp_call_run adds the packed gradient as a whole */
    if (x->from == 0 && x->to < OPERANDS) u->x.to = OPERANDS;
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_call *inner = call->state;
    unpacked u;
    unpack(x, &u);
    return inner->run(inner, &u.x, err);
}

static void release(mp_call *call)
{
    mp_call_release(call->state);
}

mp_status mp_packed_attention_prepare(mp_prepare prepare, const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_view view;
    unpacked u;
    if (!mp_attention_view_read(x->op, 0, &view) || (x->n_in > 1 && x->in[1].dtype)) return prepare(x, call, err);
    unpack(x, &u);
    MP_STATE(mp_call, inner, call, err);
    call->release = release;
    MP_CHECK(prepare(&u.x, inner, err));
    call->run = run;
    call->workspace_bytes = inner->workspace_bytes;
    call->provider = inner->provider;
    memcpy(call->reason, inner->reason, sizeof call->reason);
    return MP_OK;
}
