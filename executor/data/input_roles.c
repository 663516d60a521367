/* input_roles.c - traces an input's elements through the network. The trace carries two numbers: the element's values for an
 * input of 0 and for an input of 1. */
#include "executor/data/input_roles.h"

#include <math.h>
#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/simplify/infer.h"

/* an attention score that a mask lowers to this value or less gets a softmax weight of zero */
static const double HIDES = -1e3;

/* The values that an input's element has at the current point of the trace through the network. */
typedef struct carried {
    double of[2]; /* the element's values if the input is 0 and if the input is 1 */
    /* true: a matrix product has summed the element with others, so the values in `of` are no longer meaningful */
    bool mixed;
    /* true: an operator has combined the element with values that are known only at run time. The trace replaces such a value
     * by a neutral number: 0 in sums, 1 in products. So `of` describes the element apart from these values */
    bool joined;
} carried;

typedef struct walk {
    const mp_model *model;
    const mp_consumers *consumers;
    int input;
    bool *seen; /* for each tensor: true if the trace of the input through the network has visited the tensor */
    int *todo;  /* stack of tensors to visit, and the traced values at each tensor */
    carried *what;
    size_t n_todo;
    bool is_integer; /* true: the input is integer or boolean */
    /* Results of the trace. For each role: index of the operator that decides it; -1: none. */
    int target, index, length, mask, angle, factor, added;
    int64_t n_classes, n_rows, n_steps;
    /* values of the input with which the mask masks nothing. open: for masks that replace or lower elements; factor_open: for
     * masks that are multiplied */
    double open, factor_open;
    bool named_positions; /* true: the name of an indexed table indicates that its rows are positions */
    mp_error *err;
} walk;

const char *mp_input_kind_name(mp_input_kind kind)
{
    static const char *const names[] = {"numbers", "target", "ids", "positions", "lengths", "mask"};
    return names[kind];
}

static bool names_positions(const char *name)
{
    static const char *const words[] = {"position", "pos_ids", "pos_emb", "wpe"};
    bool found = false;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) found |= strstr(name, words[k]) != NULL;
    return found;
}

/* True if all elements of a tensor are the same constant number. Writes this number to *number. */
static bool same_everywhere(const mp_tensor *t, double *number)
{
    const mp_value *v = mp_tensor_whole_value(t);
    bool same = v && v->n > 0;
    for (int64_t k = 0; same && k < v->n; k++) {
        const double each = v->is_real ? v->f[k] : (double)v->i[k];
        if (!k) *number = each;
        same = each == *number;
    }
    return same;
}

static double greatest(const mp_value *v)
{
    double most = v->is_real ? v->f[0] : (double)v->i[0];
    for (int64_t k = 1; k < v->n; k++) most = fmax(most, v->is_real ? v->f[k] : (double)v->i[k]);
    return most;
}

/* True if the tensor does not depend on the inputs: a constant, a parameter or a buffer. */
static bool is_fixed(const mp_tensor *t)
{
    return mp_tensor_whole_value(t) || t->role == MP_ROLE_CONSTANT || t->role == MP_ROLE_BUFFER;
}

static void go_on(walk *w, int tensor, carried what)
{
    if (tensor < 0 || w->seen[tensor]) return;
    w->seen[tensor] = true;
    w->todo[w->n_todo] = tensor;
    w->what[w->n_todo++] = what;
}

/* Records that the traced input values are used as indices, which must be in [0, size). The index is assumed to be a linear
 * function of the input. */
static void note_index(walk *w, int op, const carried *c, int64_t size)
{
    if (c->joined) return;
    const double b = c->of[0], a = c->of[1] - c->of[0], last = a > 0 ? floor(((double)size - 1 - b) / a) : -1;
    const int64_t rows = last >= 0 ? (int64_t)last + 1 : 1;
    const mp_operator *reader = &w->model->operators[op];
    if (reader->in[0] >= 0 && names_positions(w->model->tensors[reader->in[0]].name)) w->named_positions = true;
    if (w->index >= 0 && w->n_rows <= rows) return;
    w->index = op;
    w->n_rows = rows;
}

static int64_t axis_size(const mp_tensor *table, int64_t axis)
{
    const int64_t d = axis < 0 ? axis + table->rank : axis;
    return d >= 0 && d < table->rank ? mp_tensor_whole_dims(table)[d] : 1;
}

/* For GatherND-like operators, whose indices are tuples: returns the smallest dimension that a tuple indexes. All indices below
 * this size are valid. */
static int64_t tuple_size(const mp_operator *op, const mp_tensor *table, const mp_tensor *indices)
{
    const int64_t first = mp_operator_int(op, "batch_dims", 0), n = indices->rank ? indices->dims[indices->rank - 1] : 1;
    int64_t least = 0;
    for (int64_t d = first; d < first + n && d < table->rank; d++)
        if (!least || mp_tensor_whole_dims(table)[d] < least) least = mp_tensor_whole_dims(table)[d];
    return least ? least : 1;
}

/* Records that the input is a mask if exactly one of its values 0 and 1 masks elements. `closed_0`: the value 0 masks;
 * `closed_1`: the value 1 masks. */
static void note_mask(walk *w, int op, bool closed_0, bool closed_1)
{
    if (closed_0 == closed_1 || w->mask >= 0) return;
    w->mask = op;
    w->open = closed_0 ? 1 : 0;
}

/* Handles an input that is the condition c of Where(c, A, B). If A or B is a single number, which replaces elements of the
 * other operand, the input is a mask. */
static mp_status see_condition(walk *w, int op, const carried *c)
{
    const mp_operator *x = &w->model->operators[op];
    double number;
    const bool first = same_everywhere(&w->model->tensors[x->in[1]], &number),
               second = same_everywhere(&w->model->tensors[x->in[2]], &number);
    if (first != second) {
        note_mask(w, op, (c->of[0] != 0) == first, (c->of[1] != 0) == first);
    } else if (first) {
        carried chosen = {.joined = c->joined};
        for (int k = 0; k < 2; k++) (void)same_everywhere(&w->model->tensors[x->in[c->of[k] != 0 ? 1 : 2]], &chosen.of[k]);
        go_on(w, x->out[0], chosen);
    }
    return MP_OK;
}

static void see_hiding(walk *w, int op, const carried *c)
{
    note_mask(w, op, c->of[0] <= HIDES, c->of[1] <= HIDES);
    if (w->mask < 0) w->added = op;
}

/* Returns n if the tensor is the constant list 0, 1 ... n - 1, else 0. An input that is compared with such a list is a length.
 */
static int64_t counted(const mp_tensor *t)
{
    const mp_value *v = mp_tensor_whole_value(t);
    bool counts = v && v->n > 1;
    for (int64_t k = 0; counts && k < v->n; k++) counts = (v->is_real ? v->f[k] : (double)v->i[k]) == (double)k;
    return counts ? v->n : 0;
}

/* Evaluates an arithmetic operator for the two traced values in `c` (of an input 0 and an input 1). Every other operand that is
 * not a single known number is replaced by the number `other`. Exception: a known integer tensor is replaced by its maximum if
 * the result is an integer, which may be an index. */
static mp_status compute(walk *w, const mp_operator *x, int operand, const carried *c, double other, bool *known, carried *out)
{
    enum { OPERANDS = 8 };
    const bool whole = mp_dtype_is_integer(w->model->tensors[x->out[0]].dtype);
    *known = x->n_in <= OPERANDS;
    *out = (carried){.joined = c->joined};
    for (int k = 0; k < 2 && *known; k++) {
        double in[OPERANDS];
        for (int i = 0; i < x->n_in; i++) {
            in[i] = other;
            if (i == operand || (x->in[i] >= 0 && x->in[i] == x->in[operand]))
                in[i] = c->of[k];
            else if (x->in[i] >= 0 && !same_everywhere(&w->model->tensors[x->in[i]], &in[i]) && whole &&
                     mp_tensor_whole_value(&w->model->tensors[x->in[i]]))
                in[i] = greatest(mp_tensor_whole_value(&w->model->tensors[x->in[i]]));
        }
        MP_CHECK(mp_operator_on_numbers(w->model, x, in, known, &out->of[k], w->err));
    }
    return MP_OK;
}

/* Follows a traced element, operand number `operand`, through an arithmetic operator. If the value of another operand is
 * unknown, the neutral number replaces it: 0 in sums, 1 in products, true in And. */
static mp_status see_number(walk *w, int op, int operand, const carried *c)
{
    const mp_operator *x = &w->model->operators[op];
    const mp_tensor *y = x->out[0] < 0 ? NULL : &w->model->tensors[x->out[0]];
    bool all = true, computed = false, joined = false, known = false;
    carried out;
    if (!y) return MP_OK;
    for (int i = 0; i < x->n_in; i++) {
        const mp_tensor *t = x->in[i] < 0 || x->in[i] == x->in[operand] ? NULL : &w->model->tensors[x->in[i]];
        double number;
        if (!t || same_everywhere(t, &number)) continue;
        all &= mp_dtype_is_integer(y->dtype) && mp_tensor_whole_value(t) && mp_tensor_whole_value(t)->n;
        joined |= !is_fixed(t);
        computed |= !is_fixed(t) && mp_dtype_is_float(y->dtype);
        if (y->dtype == MP_DTYPE_BOOL && counted(t)) {
            w->length = op;
            w->n_steps = counted(t);
        }
    }
    if (all) {
        MP_CHECK(compute(w, x, operand, c, 0, &known, &out));
        if (known) go_on(w, x->out[0], out);
    }
    for (int neutral = 0; neutral < 2 && !all && !known; neutral++) {
        MP_CHECK(compute(w, x, operand, c, neutral, &known, &out));
        known = known && out.of[0] == c->of[0] && out.of[1] == c->of[1];
        if (!known) continue;
        out.joined |= joined;
        const bool hides = c->of[0] <= HIDES || c->of[1] <= HIDES;
        if (computed && !neutral && (hides || !w->is_integer)) see_hiding(w, op, c);
        if (computed && neutral && w->factor < 0 && c->of[0] != c->of[1]) {
            w->factor = op;
            w->factor_open = c->of[1] == 1 ? 1 : 0;
        }
        if (!computed) go_on(w, x->out[0], out);
    }
    if (!known && x->op->flops && w->is_integer) go_on(w, x->out[0], (carried){.mixed = true});
    return MP_OK;
}

static mp_status see_operand(walk *w, int op, int operand, const carried *c)
{
    const mp_operator *x = &w->model->operators[op];
    const mp_tensor *table = x->in[0] < 0 ? NULL : &w->model->tensors[x->in[0]], *t = &w->model->tensors[x->in[operand]];
    const mp_input_meaning meaning = mp_op_input_of(x->op, operand).meaning;
    double limit;
    if (meaning == MP_MEANS_PASSED) {
        for (int k = 0; k < x->n_out; k++) go_on(w, x->out[k], *c);
        return MP_OK;
    }
    if (meaning == MP_MEANS_ANGLE && w->angle < 0) w->angle = op;
    if (c->mixed || !table) return MP_OK;
    if ((x->op->traits & MP_TRAIT_LOSS) && operand == 1) {
        const mp_tensor *scores = table;
        w->target = op;
        w->n_classes = (x->op->traits & MP_TRAIT_CLASSES) && scores->rank > 1 ? mp_tensor_whole_dims(scores)[1] : 0;
        return MP_OK;
    }
    switch (meaning) {
    case MP_MEANS_INDEX:
        note_index(w, op, c, axis_size(table, mp_operator_int(x, "axis", 0)));
        return MP_OK;
    case MP_MEANS_INDICES:
        note_index(w, op, c, tuple_size(x, table, t));
        return MP_OK;
    case MP_MEANS_CLASS:
        if (x->in[1] >= 0 && same_everywhere(&w->model->tensors[x->in[1]], &limit)) note_index(w, op, c, (int64_t)limit);
        return MP_OK;
    case MP_MEANS_LENGTH:
        w->length = op;
        w->n_steps = axis_size(table, mp_operator_int(x, "time_axis", mp_operator_int(x, "layout", 0)));
        return MP_OK;
    case MP_MEANS_CONDITION:
        return see_condition(w, op, c);
    case MP_MEANS_HIDING:
        see_hiding(w, op, c);
        return MP_OK;
    case MP_MEANS_SEEN:
        note_mask(w, op, (c->of[0] != 0) != (mp_operator_int(x, "keeps", 1) != 0),
                  (c->of[1] != 0) != (mp_operator_int(x, "keeps", 1) != 0));
        return MP_OK;
    default:
        if (mp_op_input_of(x->op, 0).meaning != MP_MEANS_CONDITION) return see_number(w, op, operand, c);
        /* the traced tensor is one of the values that the operator selects, so the trace continues with the result */
        go_on(w, x->out[0], *c);
        return MP_OK;
    }
}

static mp_status see_all(walk *w)
{
    go_on(w, w->input, (carried){.of = {0, 1}});
    for (size_t n = 0; n < w->n_todo; n++) {
        const int t = w->todo[n];
        for (int k = w->consumers->start[t]; k < w->consumers->start[t + 1]; k++) {
            const int op = w->consumers->list[k];
            if (k > w->consumers->start[t] && op == w->consumers->list[k - 1])
                continue; /* an operator that reads the traced tensor twice is visited only once */
            for (int i = 0; i < w->model->operators[op].n_in; i++)
                if (w->model->operators[op].in[i] == t) MP_CHECK(see_operand(w, op, i, &w->what[n]));
        }
    }
    return MP_OK;
}

static mp_input_role decide(const walk *w)
{
    const mp_tensor *t = &w->model->tensors[w->input];
    const bool positions = w->is_integer && (w->named_positions || names_positions(t->name));
    if (t->is_target || w->target >= 0)
        return (mp_input_role){MP_INPUT_TARGET, !w->is_integer ? 0 : w->n_classes ? w->n_classes : w->n_rows, 0, w->target};
    if (w->is_integer && w->index >= 0)
        return (mp_input_role){positions ? MP_INPUT_POSITIONS : MP_INPUT_IDS, w->n_rows, 0, w->index};
    if (w->is_integer && positions) return (mp_input_role){MP_INPUT_POSITIONS, 0, 0, -1};
    if (w->is_integer && w->length >= 0)
        return (mp_input_role){MP_INPUT_LENGTHS, w->n_steps + 1, (double)w->n_steps, w->length};
    if (w->mask >= 0) return (mp_input_role){MP_INPUT_MASK, 0, w->open, w->mask};
    if (w->is_integer && w->angle >= 0) return (mp_input_role){MP_INPUT_POSITIONS, 0, 0, w->angle};
    if (w->is_integer && w->factor >= 0) return (mp_input_role){MP_INPUT_MASK, 0, w->factor_open, w->factor};
    if (strstr(t->name, "mask") && (w->is_integer || w->added < 0)) return (mp_input_role){MP_INPUT_MASK, 0, 1, -1};
    if (strstr(t->name, "mask")) return (mp_input_role){MP_INPUT_MASK, 0, 0, w->added};
    return (mp_input_role){MP_INPUT_PLAIN, 0, 0, -1};
}

static void walk_free(walk *w)
{
    mp_free(w->seen);
    mp_free(w->todo);
    mp_free(w->what);
}

mp_status mp_input_role_of(const mp_model *model, const mp_consumers *consumers, int tensor, mp_input_role *out, mp_error *err)
{
    MP_CLEARED_BY(walk_free)
    walk w = {.model = model,
              .consumers = consumers,
              .input = tensor,
              .is_integer = !mp_dtype_is_float(model->tensors[tensor].dtype),
              .target = -1,
              .index = -1,
              .length = -1,
              .mask = -1,
              .angle = -1,
              .factor = -1,
              .added = -1,
              .err = err};
    w.seen = mp_alloc(model->n_tensors, sizeof *w.seen);
    w.todo = mp_alloc(model->n_tensors, sizeof *w.todo);
    w.what = mp_alloc(model->n_tensors, sizeof *w.what);
    MP_ENSURE(w.seen && w.todo && w.what, err, MP_NOMEM, "out of memory");
    MP_CHECK(see_all(&w));
    *out = decide(&w);
    return MP_OK;
}
