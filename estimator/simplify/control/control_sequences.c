/* control_sequences.c - splits a tensor into one tensor per iteration, joins such tensors, and replaces sequences by their
 * tensors.
 *
 * A sequence is a list of tensor indices. If a sequence grows at its end, as in loops, it shares memory with the shorter
 * sequences from which it was built. */
#include "estimator/simplify/control/control.h"

#include <inttypes.h>
#include <string.h>

enum { VERSION = 11 }; /* operator set of the operators that this file creates; in it, axes and sizes are attributes */

mp_status mp_control_number(mp_inference *w, const char *stem, mp_dtype dtype, int64_t number, int *tensor)
{
    mp_value *value;
    MP_CHECK(mp_model_constant(w->model, stem, dtype, 0, NULL, tensor, &value, w->err));
    value->i[0] = number;
    return MP_OK;
}

/* Adds a Squeeze or Unsqueeze operator for one dimension. */
static mp_status reshape(mp_inference *w, const char *kind, int from, int64_t axis, const char *stem, int *to)
{
    const mp_attribute axes = mp_attribute_ints("axes", &axis, 1);
    return mp_inference_emit(w, mp_draft(kind, "", VERSION, &from, 1, &axes, 1), stem, to, 1);
}

static mp_status concat(mp_inference *w, const int *items, int n, int64_t axis, const char *stem, int *to)
{
    const mp_attribute at = mp_attribute_int("axis", axis);
    return mp_inference_emit(w, mp_draft("Concat", "", VERSION, items, n, &at, 1), stem, to, 1);
}

mp_status mp_control_join(mp_inference *w, const int *items, int n, int64_t axis, bool stacked, const char *stem, int to,
                          int *out)
{
    MP_OWNED int *list = mp_alloc((size_t)n, sizeof *list);
    MP_ENSURE(list, w->err, MP_NOMEM, "no memory to join %d tensors", n);
    *out = to;
    for (int k = 0; k < n; k++) {
        list[k] = stacked ? n == 1 ? to : -1 : items[k];
        if (stacked) MP_CHECK(reshape(w, "Unsqueeze", items[k], axis, stem, &list[k]));
    }
    for (; n > MP_JOINED_MAX; n = (n + MP_JOINED_MAX - 1) / MP_JOINED_MAX) {
        for (int k = 0; k < n; k += MP_JOINED_MAX) {
            int made = -1;
            MP_CHECK(concat(w, list + k, n - k < MP_JOINED_MAX ? n - k : MP_JOINED_MAX, axis, stem, &made));
            list[k / MP_JOINED_MAX] = made;
        }
    }
    if (n == 1 && stacked)
        *out = list[0];
    else
        MP_CHECK(concat(w, list, n, axis, stem, out));
    return MP_OK;
}

mp_status mp_control_part(mp_inference *w, int tensor, int axis, const int64_t *sizes, int n, bool squeezed, int *parts)
{
    const char *stem = w->model->tensors[tensor].name;
    MP_OWNED int64_t *ones = mp_alloc((size_t)n, sizeof *ones);
    MP_ENSURE(ones, w->err, MP_NOMEM, "no memory for %d parts of '%s'", n, stem);
    for (int k = 0; k < n; k++) {
        ones[k] = sizes ? sizes[k] : 1;
        parts[k] = -1;
    }
    const mp_attribute attributes[] = {mp_attribute_int("axis", axis), mp_attribute_ints("split", ones, (size_t)n)};
    MP_CHECK(mp_inference_emit(w, mp_draft("Split", "", VERSION, &tensor, 1, attributes, 2), stem, parts, n));
    for (int k = 0; squeezed && k < n; k++) {
        int squeezed_part = -1;
        MP_CHECK(reshape(w, "Squeeze", parts[k], axis, stem, &squeezed_part));
        parts[k] = squeezed_part;
    }
    return MP_OK;
}

enum { COPIED_MAX = 1 << 22 }; /* limit of the number of sequence elements that are copied per model */

/* Builds the sequence of output 0. `from` is the sequence of input 0, or an empty list if the operator reads no sequence. */
typedef mp_status (*resolver)(mp_inference *w, const mp_operator *op, const mp_sequence *from);

static mp_status refuse(const mp_inference *w, const mp_operator *op, mp_status code, const char *what)
{
    return MP_FAIL(w->err, code, "%s '%s' %s", op->kind, op->name, what);
}

static const mp_sequence nothing = {.n = 0};

/* Sets output 0 to the sequence `from` with tensor `item` appended (-1: unchanged). */
static mp_status set_sequence(mp_inference *w, const mp_operator *op, const mp_sequence *from, int item)
{
    mp_pool *pool = w->model->pool;
    mp_sequence *made = mp_pool_alloc(pool, 1, sizeof *made);
    const int n = from->n;
    MP_ENSURE(made, w->err, MP_NOMEM, "no memory for a sequence");
    *made = *from;
    made->n += item >= 0;
    if (item >= 0 && (!made->block || made->block->used != n || n == made->block->size)) {
        const int size = 2 * n + 4;
        MP_ENSURE((w->n_copied += n) <= COPIED_MAX, w->err, MP_UNSUPPORTED,
                  "%s '%s': sequences of more than %d elements in all", op->kind, op->name, COPIED_MAX);
        MP_ENSURE((made->block = mp_pool_alloc(pool, 1, sizeof *made->block)) &&
                      (made->items = mp_pool_alloc(pool, (size_t)size, sizeof *made->items)),
                  w->err, MP_NOMEM, "no memory for a sequence of %d tensors", made->n);
        if (n) memcpy(made->items, from->items, (size_t)n * sizeof *made->items);
        *made->block = (mp_sequence_block){.used = n, .size = size};
    }
    if (item >= 0) made->items[made->block->used++] = item;
    w->model->tensors[op->out[0]].sequence = made;
    return MP_OK;
}

static mp_status append(mp_inference *w, const mp_operator *op, int item)
{
    return set_sequence(w, op, w->model->tensors[op->out[0]].sequence, item);
}

/* Reads the position in input k, at most `last`. A negative position counts from the end of a list of n. If the input is
 * omitted, returns `otherwise`. */
static mp_status position(const mp_inference *w, const mp_operator *op, int k, int n, int last, int otherwise, int *at)
{
    const mp_tensor *t = mp_operator_in(w->model, op, k);
    int64_t number = otherwise;
    if (t) {
        if (!t->value) return mp_inference_dynamic(w, op, "its position", op->in[k]);
        if (t->value->n != 1 || t->value->is_real)
            return refuse(w, op, MP_PARSE, "has a position that is not a single integer");
        number = t->value->i[0] < 0 ? t->value->i[0] + n : t->value->i[0];
    }
    if (number < 0 || number > last) return refuse(w, op, MP_PARSE, "has a position outside its sequence");
    *at = (int)number;
    return MP_OK;
}

static mp_status empty(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    return set_sequence(w, op, from, -1);
}

static mp_status construct(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    MP_CHECK(set_sequence(w, op, from, -1));
    for (int k = 0; k < op->n_in; k++) {
        if (op->in[k] < 0) MP_CHECK(refuse(w, op, MP_PARSE, "lacks an input"));
        MP_CHECK(append(w, op, op->in[k]));
    }
    return MP_OK;
}

/* Sets output 0 to the sequence `from` after an insertion of tensor `item` at a position. item -1: the tensor at that
 * position is removed instead. */
static mp_status rebuild(mp_inference *w, const mp_operator *op, const mp_sequence *from, int at, int item)
{
    MP_CHECK(set_sequence(w, op, &nothing, -1));
    for (int k = 0; k <= from->n; k++) {
        if (k == at && item >= 0) MP_CHECK(append(w, op, item));
        if (k < from->n && !(k == at && item < 0)) MP_CHECK(append(w, op, from->items[k]));
    }
    MP_ENSURE((w->n_copied += from->n) <= COPIED_MAX, w->err, MP_UNSUPPORTED,
              "%s '%s': sequences of more than %d elements in all", op->kind, op->name, COPIED_MAX);
    return MP_OK;
}

static mp_status insert(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    int at;
    MP_CHECK(position(w, op, 2, from->n, from->n, from->n, &at));
    return at == from->n ? set_sequence(w, op, from, op->in[1]) : rebuild(w, op, from, at, op->in[1]);
}

static mp_status erase(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    int at;
    MP_CHECK(position(w, op, 1, from->n, from->n - 1, from->n - 1, &at));
    return rebuild(w, op, from, at, -1);
}

static mp_status pick(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    int at;
    MP_CHECK(position(w, op, 1, from->n, from->n - 1, 0, &at));
    return mp_inference_alias(w, from->items[at], op->out[0]);
}

static mp_status count(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    int number;
    MP_CHECK(mp_control_number(w, op->name, MP_DTYPE_INT64, from->n, &number));
    return mp_inference_alias(w, number, op->out[0]);
}

static mp_status concatenate(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    int made;
    if (!from->n) MP_CHECK(refuse(w, op, MP_UNSUPPORTED, "reads an empty sequence, so the shape of its output is unknown"));
    return mp_control_join(w, from->items, from->n, mp_operator_int(op, "axis", 0), mp_operator_int(op, "new_axis", 0) != 0,
                           op->name, op->out[0], &made);
}

/* Reads the sizes of the tensors into which a SplitToSequence splits its input. Release *sizes with mp_free. */
static mp_status read_sizes(const mp_inference *w, const mp_operator *op, int64_t length, int64_t **sizes, int *n)
{
    const mp_tensor *split = mp_operator_in(w->model, op, 1);
    const mp_value *value = split ? split->value : NULL;
    int64_t *list = NULL, each = 1, parts = length;
    if (split && !value) return mp_inference_dynamic(w, op, "its sizes", op->in[1]);
    if (value && value->is_real) MP_CHECK(refuse(w, op, MP_PARSE, "has sizes that are not integers"));
    if (value && split->rank == 0) {
        each = value->i[0];
        if (each < 1) MP_CHECK(refuse(w, op, MP_PARSE, "has parts of size 0"));
        parts = length / each + (length % each != 0);
    } else if (value) {
        parts = value->n;
    }
    if (parts < 1) MP_CHECK(refuse(w, op, MP_UNSUPPORTED, "splits into 0 parts"));
    if (parts > MP_UNROLLED_MAX) MP_CHECK(refuse(w, op, MP_UNSUPPORTED, "splits into more parts than MP_UNROLLED_MAX"));
    MP_ENSURE(list = mp_alloc((size_t)parts, sizeof *list), w->err, MP_NOMEM, "no memory for %" PRId64 " parts", parts);
    for (int64_t k = 0; k < parts; k++)
        list[k] = value && split->rank ? value->i[k] : (k + 1) * each <= length ? each : length - k * each;
    *sizes = list;
    *n = (int)parts;
    return MP_OK;
}

static mp_status divide(mp_inference *w, const mp_operator *op, const mp_sequence *from)
{
    const mp_tensor *x = mp_operator_in(w->model, op, 0);
    int64_t axis = mp_operator_int(op, "axis", 0);
    MP_OWNED int64_t *sizes = NULL;
    MP_OWNED int *parts = NULL;
    int n = 0;
    bool keeps = mp_operator_int(op, "keepdims", 1) != 0 || (op->n_in > 1 && op->in[1] >= 0);
    if (!x || x->sequence || x->rank < 0) MP_CHECK(refuse(w, op, MP_PARSE, "does not read a tensor"));
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) MP_CHECK(refuse(w, op, MP_PARSE, "splits along an axis that does not exist"));
    MP_CHECK(read_sizes(w, op, x->dims[axis], &sizes, &n));
    MP_ENSURE(parts = mp_alloc((size_t)n, sizeof *parts), w->err, MP_NOMEM, "no memory for %d parts", n);
    MP_CHECK(mp_control_part(w, op->in[0], (int)axis, sizes, n, !keeps, parts));
    MP_CHECK(set_sequence(w, op, from, -1));
    for (int k = 0; k < n; k++) MP_CHECK(append(w, op, parts[k]));
    return MP_OK;
}

static const struct {
    const char *kind;
    resolver resolve;
    bool reads;  /* true if input 0 of the operator is a sequence */
    int n_least; /* minimum number of inputs that the operator needs */
} operators[] = {{"SequenceEmpty", empty, false, 0},    {"SequenceConstruct", construct, false, 0},
                 {"SequenceInsert", insert, true, 2},   {"SequenceErase", erase, true, 1},
                 {"SequenceAt", pick, true, 2},         {"SequenceLength", count, true, 1},
                 {"SplitToSequence", divide, false, 0}, {"ConcatFromSequence", concatenate, true, 1}};

enum { N_OPERATORS = sizeof operators / sizeof *operators };

static int find(const mp_operator *op)
{
    int k = N_OPERATORS;
    while (k-- > 0 && strcmp(operators[k].kind, op->kind) != 0) {
    }
    return *op->domain && strcmp(op->domain, "ai.onnx") != 0 ? -1 : k;
}

bool mp_is_sequence_operator(const mp_operator *op)
{
    return find(op) >= 0;
}

mp_status mp_sequence_resolve(mp_inference *w, int index)
{
    const mp_operator op = w->model->operators[index];
    const int kind = find(&op);
    const mp_tensor *first = mp_operator_in(w->model, &op, 0);
    if (op.n_out != 1 || op.out[0] < 0) return refuse(w, &op, MP_PARSE, "must have one output");
    mp_inference_remove(w, index);
    if (first && !first->sequence && operators[kind].reads)
        return refuse(w, &op, MP_PARSE, "reads a tensor where a sequence is needed");
    for (int k = 0; k < operators[kind].n_least; k++)
        if (!mp_operator_in(w->model, &op, k)) return refuse(w, &op, MP_PARSE, "lacks an input");
    return operators[kind].resolve(w, &op, operators[kind].reads ? first->sequence : &nothing);
}
