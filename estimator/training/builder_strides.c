/* builder_strides.c - strides of tensors under PyTorch's rules.
 *
 * The executor's views only change the shape. In PyTorch, transpositions, slices and expansions are also views, with
 * strides: they share their input's storage and keep all of it live. Elementwise operators and attention write their result
 * in the order of dimensions in which an operand is stored. Some operators cannot read a permuted tensor: certain reshapes,
 * and certain batched products. These operators first copy the tensor to a dense one, and the copy is then saved for
 * backward. */
#include "estimator/training/builder.h"

#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/operands/attention.h"

/* The shape of a tensor, and its stride in elements along each dimension. */
typedef struct {
    int rank;
    int64_t dims[MP_RANK_MAX], strides[MP_RANK_MAX];
} layout;

static layout dense(const int64_t *dims, int rank)
{
    layout made = {.rank = rank};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        made.dims[d] = dims[d];
        made.strides[d] = stride;
        stride *= dims[d] > 0 ? dims[d] : 1;
    }
    return made;
}

static layout layout_of(const mp_builder *b, int t)
{
    const mp_tensor *tensor = &b->model->tensors[t];
    layout found = dense(tensor->dims, tensor->rank);
    for (int d = 0; b->strides[t] && d < tensor->rank; d++) found.strides[d] = b->strides[t][d];
    return found;
}

/* Finds strides such that the elements of layout `from`, in order, have the shape of `to`. Returns false if no strides do; a
 * reshape then copies. Method: consecutive dimensions without a gap in memory form a run of elements. Each run is divided
 * into dimensions of the new shape, starting with the last one. A run must end where a dimension ends. */
static bool reshape(const layout *from, layout *to)
{
    int next = to->rank - 1;
    int64_t run = 1;
    for (int d = from->rank - 1; d >= 0; d--) {
        const int64_t step = from->strides[d];
        int first = d;
        for (run = from->dims[d]; first > 0; first--) {
            if (from->dims[first - 1] != 1 && from->strides[first - 1] != run * step) break;
            run *= from->dims[first - 1];
        }
        int64_t dealt = 1;
        for (; next >= 0 && (dealt < run || to->dims[next] == 1); next--) {
            to->strides[next] = dealt * step;
            dealt *= to->dims[next];
        }
        if (dealt != run) return false;
        d = first;
    }
    return true;
}

/* Returns the dimension of the input that becomes dimension d of a transposition's output. */
static int permuted_from(const mp_operator *op, int rank, int d)
{
    size_t n;
    const int64_t *order = mp_operator_ints(op, "perm", &n);
    return order && d < (int)n ? (int)order[d] : rank - 1 - d;
}

/* Computes the layout of a tensor after it is broadcast to the leading batch dimensions of `to`. Repeated elements have
 * stride 0. */
static void expand(const layout *from, layout *to, int n_same)
{
    for (int d = 1; d <= to->rank; d++) {
        const int at = to->rank - d, old = from->rank - d;
        if (d <= n_same) to->dims[at] = from->dims[old];
        to->strides[at] = old >= 0 && from->dims[old] == to->dims[at] ? from->strides[old] : 0;
    }
}

/* True if the operator selects a single index along one axis. */
static bool selects(const mp_model *model, const mp_operator *op)
{
    const mp_tensor *index = op->n_in == 2 && op->op->traits & MP_TRAIT_GATHER ? mp_operator_in(model, op, 1) : NULL;
    return index && index->rank == 0 && index->value && mp_operator_in(model, op, 0)->rank > 0;
}

/* True for a Pad that only pooling operators read. PyTorch's pooling pads its input itself; exporters write the padding as a
 * separate operator. */
static bool pads_for_pooling(const mp_builder *b, const mp_operator *op)
{
    int t = op->out[0];
    const int *start = b->consumers.start;
    if (!(op->op->traits & MP_TRAIT_PADS) || t < 0 || b->model->tensors[t].is_output) return false;
    for (int c = start[t]; c < start[t + 1]; c++)
        if (!(b->model->operators[b->consumers.list[c]].op->traits & MP_TRAIT_PADS_ITSELF)) return false;
    return start[t] < start[t + 1];
}

/* True for the Transpose that separates the packed projection of nn.MultiheadAttention: [1, S, B, n, E] -> [n, S, B, 1, E].
 * PyTorch makes the result contiguous. Files of the newer exporter record this copy; files of the older one do not. */
static bool unpacks_contiguously(const mp_builder *b, const mp_operator *op)
{
    static const int64_t order[] = {3, 1, 2, 0, 4};
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    const mp_tensor *x = mp_operator_in(b->model, op, 0);
    if (!(op->op->traits & MP_TRAIT_PERMUTES) || op->call || !perm || n != 5 || x->rank != 5) return false;
    return !memcmp(perm, order, sizeof order) && x->dims[0] == 1 && (x->dims[3] == 2 || x->dims[3] == 3);
}

/* Computes the layout of output t of a strided view or a reshape. Returns false if the reshape copies. */
static bool lay_out(const mp_builder *b, const mp_operator *op, int t, layout *to)
{
    const mp_tensor *y = &b->model->tensors[t];
    const layout from = layout_of(b, op->in[0]);
    *to = op->op->traits & MP_TRAIT_REPLICATES ? from : dense(y->dims, y->rank);
    if (op->op->gradient == MP_GRADIENT_VIEW) return reshape(&from, to);
    if (op->op->traits & MP_TRAIT_EXPANDS) expand(&from, to, 0);
    const int64_t axis = selects(b->model, op) ? mp_operator_int(op, "axis", 0) : from.rank;
    for (int d = 0; d < to->rank; d++) {
        if (op->op->traits & MP_TRAIT_PERMUTES) to->strides[d] = from.strides[permuted_from(op, from.rank, d)];
        if (op->op->traits & MP_TRAIT_PARTS) to->strides[d] = from.strides[d];
        if (axis < from.rank) to->strides[d] = from.strides[d + (d >= (axis < 0 ? axis + from.rank : axis))];
    }
    return true;
}

/* True if the elements are stored in another order than the order of the shape. */
static bool is_permuted(const layout *of)
{
    int64_t before = INT64_MAX;
    for (int d = 0; d < of->rank; d++) {
        if (of->dims[d] == 1) continue;
        if (of->strides[d] > before || !of->strides[d]) return true;
        before = of->strides[d];
    }
    return false;
}

static mp_status note_strides(mp_builder *b, int t, const layout *to)
{
    b->strides[t] = mp_pool_alloc(b->pool, (size_t)to->rank + 1, sizeof *to->strides);
    MP_ENSURE(b->strides[t], b->err, MP_NOMEM, "out of memory");
    memcpy(b->strides[t], to->strides, (size_t)to->rank * sizeof *to->strides);
    return MP_OK;
}

mp_status mp_builder_lay_out(mp_builder *b, const mp_operator *op, int t)
{
    layout to;
    if (b->options->rules != MP_RULES_PYTORCH || !lay_out(b, op, t, &to)) return MP_OK;
    return note_strides(b, t, &to);
}

/* Makes `made` dense, with its dimensions stored in the same order as those of `like`. Dimensions that `like` repeats keep
 * their place. */
static void store_like(const layout *like, layout *made)
{
    int order[MP_RANK_MAX];
    int64_t stride = 1;
    for (int d = 0; d < like->rank; d++) {
        int at = d;
        for (; at > 0 && like->strides[d] > like->strides[order[at - 1]] && like->strides[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int k = made->rank - 1; k >= 0; k--) {
        made->strides[order[k]] = stride;
        stride *= made->dims[order[k]] > 0 ? made->dims[order[k]] : 1;
    }
}

/* Computes the layout of the result of attention: PyTorch stores its dimensions in the order of the queries. */
static void lay_out_attention(const mp_builder *b, const mp_operator *op, layout *to)
{
    const layout stored = layout_of(b, op->in[0]), of_result = *to;
    const int64_t *in = mp_attention_perm(op, 0), *out = mp_attention_perm(op, MP_ATTENTION_Y);
    layout q = stored, y = stored;
    if (stored.rank != of_result.rank) return;
    for (int d = 0; d < q.rank; d++) {
        q.dims[d] = stored.dims[in ? in[d] : d];
        q.strides[d] = stored.strides[in ? in[d] : d];
        y.dims[out ? out[d] : d] = of_result.dims[d];
    }
    store_like(&q, &y);
    for (int d = 0; d < q.rank; d++) to->strides[d] = y.strides[out ? out[d] : d];
}

mp_status mp_builder_lay_out_result(mp_builder *b, const mp_operator *op, int t)
{
    const mp_tensor *y = &b->model->tensors[t];
    layout to = dense(y->dims, y->rank);
    if (b->options->rules != MP_RULES_PYTORCH || t != op->out[0]) return MP_OK;
    if (op->op->traits & MP_TRAIT_TILED) lay_out_attention(b, op, &to);
    for (int i = 0; mp_op_is_elementwise(op->op) && i < op->n_in; i++) {
        const mp_tensor *x = mp_operator_in(b->model, op, i);
        if (!x || x->rank != y->rank || memcmp(x->dims, y->dims, (size_t)y->rank * sizeof *y->dims) != 0) continue;
        const layout from = layout_of(b, op->in[i]);
        store_like(&from, &to);
        break;
    }
    return is_permuted(&to) ? note_strides(b, t, &to) : MP_OK;
}

/* Returns the bytes of the dense copy that a batched product makes of operand i; 0: it makes no copy. The product expands
 * the operand's batch dimensions to those of the result. It merges them into one dimension, or into the rows if the other
 * operand is a matrix. If no strides can express the merged dimensions, the product copies the operand. */
static int64_t copy_bytes(const mp_builder *b, const mp_operator *op, int i)
{
    const mp_tensor *t = mp_operator_in(b->model, op, i), *other = mp_operator_in(b->model, op, 1 - i);
    const mp_tensor *y = mp_operator_out(b->model, op, 0);
    const bool product = op->op->shape == mp_shape_matmul || op->op->shape == mp_shape_biased_matmul;
    if (t->rank < 3 || b->storage[op->in[i]] < 0) return 0;
    const layout from = layout_of(b, op->in[i]);
    const int64_t bytes = mp_builder_bytes(b, op->in[i]);
    if (op->op->shape == mp_shape_einsum) return is_permuted(&from) ? bytes : 0;
    if (!product || !other || !y) return 0; /* a convolution reads strided operands without copying them */
    const bool has_batch = other->rank >= 3;
    layout whole = has_batch ? dense(y->dims, y->rank) : from;
    if (has_batch) expand(&from, &whole, 2);
    const int64_t n = mp_product(whole.dims, 0, whole.rank - 2), rows = whole.dims[whole.rank - 2],
                  columns = whole.dims[whole.rank - 1];
    layout merged = has_batch ? dense((int64_t[]){n, rows, columns}, 3) : dense((int64_t[]){n * rows, columns}, 2);
    if (reshape(&whole, &merged)) return 0;
    const int64_t before = mp_product(from.dims, 0, from.rank - 2);
    int64_t expanded;
    return mp_multiply(bytes, before ? n / before : 1, &expanded) ? expanded : INT64_MAX / 2;
}

mp_status mp_builder_copies(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    if (b->options->rules != MP_RULES_PYTORCH || op->op->gradient != MP_GRADIENT_SPLIT) return MP_OK;
    for (int i = 0; i < 2 && i < op->n_in; i++) {
        int64_t bytes = op->in[i] >= 0 ? copy_bytes(b, op, i) : 0;
        if (!bytes) continue;
        const char *name = mp_pool_format(b->graph->pool, "%s:copy%d", op->name, i);
        MP_CHECK(mp_builder_storage(b, name, bytes, MP_KIND_SAVED, &b->copies[k][i]));
        MP_CHECK(mp_builder_put(b, &b->writes, b->copies[k][i]));
    }
    return MP_OK;
}

bool mp_builder_is_view(const mp_builder *b, const mp_operator *op)
{
    const unsigned strided = MP_TRAIT_PERMUTES | MP_TRAIT_EXPANDS | MP_TRAIT_PARTS;
    layout unused;
    if (op->op->traits & MP_TRAIT_REPLICATES) return true;
    if (b->options->rules != MP_RULES_PYTORCH) return mp_builder_is_free_view(op);
    if (op->op->gradient == MP_GRADIENT_VIEW) return lay_out(b, op, op->out[0], &unused);
    if (unpacks_contiguously(b, op)) return false;
    return op->op->traits & strided || selects(b->model, op) || pads_for_pooling(b, op);
}
