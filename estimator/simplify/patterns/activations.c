/* activations.c - recognises Gelu, Swish, HardSwish and Mish in the operators that exporters write for them.
 *
 * All of them have the form c * x * g(x): a product in any association and order, whose constants form c. The product that an
 * operator computes is expanded into constants and two other operands. One of these operands must be x, and the other one must
 * be a gate of x:
 *
 *     Gelu       1/2 * x * (1 + erf(x / sqrt 2))
 *     Gelu tanh  1/2 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
 *     Swish      x * sigmoid(alpha x)
 *     HardSwish  x * hardsigmoid(x)  or  1/6 * x * clip(x + 3, 0, 6)
 *     Mish       x * tanh(softplus(x))
 *
 * Arguments of the gates are also such products. Every intermediate tensor must have the shape of x, and no operator outside
 * the pattern may read it.
 *
 * Under PyTorch's rules the saved tensors depend on the call in the program. PyTorch's own operator saves x; a user's own
 * formula saves the tensors of each of its operators. The newer exporter records the call of each operator. Without this
 * record, memplan assumes PyTorch's own operator only if the file has exactly the form that the exporter writes for it. The
 * result is marked as a guess. These forms are:
 *
 *     Gelu       (x * (erf(x / sqrt 2) + 1)) * 1/2
 *     Gelu tanh  1/2 * (x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * (x * (x * x))))))
 *     Swish      x * sigmoid(x)
 *     Mish       x * tanh(softplus(x))
 *     HardSwish  x * hardsigmoid(x), in files too old for HardSwish
 *
 * Below operator set 20, where files lack the record, the newer exporter writes Gelu in another form:
 *
 *     Gelu       x * (1/2 * (1 + erf(x / sqrt 2)))
 *     Gelu tanh  x * (1/2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))))
 *
 * It also writes the threshold of Softplus, above which the float is x: Where(x > threshold, x, Softplus(x)).
 */
#include "estimator/simplify/rewrite.h"

enum { FACTORS_MAX = 4 };

/* A product in expanded form: coefficient * factors[0] * factors[1] * ... */
struct product {
    double coefficient;
    int n, factors[FACTORS_MAX];
};

static bool add_factor(struct product *p, int tensor)
{
    if (p->n == FACTORS_MAX) return false;
    p->factors[p->n++] = tensor;
    return true;
}

/* Expands the product that computes `tensor` into *p, and adds the visited operators to the pattern. An intermediate tensor
 * (except the root) is not expanded if operators outside the product read it. Returns false if the product has too many
 * operands or operators. */
static bool multiply_out(const mp_rewriter *r, mp_pattern *pattern, int tensor, bool is_root, struct product *p)
{
    const int index = mp_producer(r, tensor);
    const mp_operator *op = mp_writer(r, tensor);
    double c;
    if (!op || (!is_root && r->n_readers[tensor] != 1)) return add_factor(p, tensor);
    if (mp_is_kind(op, "Mul")) {
        if (!mp_pattern_add(pattern, index)) return false;
        for (int k = 0; k < 2; k++) {
            if (mp_known_scalar(r, op->in[k], &c))
                p->coefficient *= c;
            else if (!multiply_out(r, pattern, op->in[k], false, p))
                return false;
        }
        return true;
    }
    if (mp_is_kind(op, "Div") && mp_known_scalar(r, op->in[1], &c) && c != 0) {
        p->coefficient /= c;
        return mp_pattern_add(pattern, index) && multiply_out(r, pattern, op->in[0], false, p);
    }
    if (mp_is_kind(op, "Pow") && mp_known_scalar(r, op->in[1], &c) && (c == 2 || c == 3)) {
        for (int k = 0; k < (int)c; k++)
            if (!add_factor(p, op->in[0])) return false;
        return mp_pattern_add(pattern, index);
    }
    return add_factor(p, tensor);
}

/* True if the tensor is computed as coefficient * x^power. */
static bool is_power(const mp_rewriter *r, mp_pattern *pattern, int tensor, int x, int power, double *coefficient)
{
    struct product p = {.coefficient = 1};
    if (tensor == x) {
        add_factor(&p, x);
    } else if (!multiply_out(r, pattern, tensor, false, &p)) {
        return false;
    }
    *coefficient = p.coefficient;
    for (int k = 0; k < p.n; k++)
        if (p.factors[k] != x) return false;
    return p.n == power;
}

/* If the tensor is the sum of the given constant and another operand, returns the other operand; else -1. */
static int plus(const mp_rewriter *r, mp_pattern *pattern, int tensor, double constant)
{
    const mp_operator *op = mp_pattern_written_by(r, pattern, tensor, "Add");
    double c;
    for (int k = 0; op && k < 2; k++)
        if (mp_known_scalar(r, op->in[k], &c) && c == constant) return op->in[1 - k];
    return -1;
}

/* Functions that recognise a gate g(k x). They return k, the number by which the gate multiplies x in its argument, usually
 * 1. 0: the tensor is not this gate. */

static double erf_gate(const mp_rewriter *r, mp_pattern *pattern, int gate, int x)
{
    double c;
    const mp_operator *erf = mp_pattern_written_by(r, pattern, plus(r, pattern, gate, 1), "Erf");
    return erf && is_power(r, pattern, erf->in[0], x, 1, &c) && mp_near(c, 0.70710678);
}

/* True if the tensor is sqrt(2 / pi) * (x + 0.044715 x^3), written in this form or as a product of x and a sum. */
static bool is_tanh_argument(const mp_rewriter *r, mp_pattern *pattern, int tensor, int x)
{
    const double scale = 0.79788456, cubic = 0.044715;
    struct product p = {.coefficient = 1};
    if (!multiply_out(r, pattern, tensor, false, &p) || p.n < 1 || p.n > 2) return false;
    if (p.n == 1) {
        const mp_operator *sum = mp_pattern_written_by(r, pattern, p.factors[0], "Add");
        for (int k = 0; sum && k < 2; k++) {
            mp_pattern attempt = *pattern;
            double linear_part, cubic_part;
            if (!is_power(r, &attempt, sum->in[k], x, 1, &linear_part) ||
                !is_power(r, &attempt, sum->in[1 - k], x, 3, &cubic_part))
                continue;
            *pattern = attempt;
            return mp_near(p.coefficient * linear_part, scale) && mp_near(p.coefficient * cubic_part, scale * cubic);
        }
        return false;
    }
    double square_part;
    int k = p.factors[0] == x ? 1 : 0, square = plus(r, pattern, p.factors[k], 1);
    return p.factors[1 - k] == x && square >= 0 && is_power(r, pattern, square, x, 2, &square_part) &&
           mp_near(p.coefficient, scale) && mp_near(square_part, cubic);
}

static double tanh_gate(const mp_rewriter *r, mp_pattern *pattern, int gate, int x)
{
    const mp_operator *tanh = mp_pattern_written_by(r, pattern, plus(r, pattern, gate, 1), "Tanh");
    return tanh && is_tanh_argument(r, pattern, tanh->in[0], x);
}

static double sigmoid_gate(const mp_rewriter *r, mp_pattern *pattern, int gate, int x)
{
    const mp_operator *sigmoid = mp_pattern_written_by(r, pattern, gate, "Sigmoid");
    double alpha;
    return sigmoid && is_power(r, pattern, sigmoid->in[0], x, 1, &alpha) ? alpha : 0;
}

static double hard_sigmoid_gate(const mp_rewriter *r, mp_pattern *pattern, int gate, int x)
{
    const mp_operator *op = mp_pattern_written_by(r, pattern, gate, "HardSigmoid");
    return op && op->in[0] == x && mp_near(mp_operator_float(op, "alpha", 0.2), 1.0 / 6) &&
           mp_near(mp_operator_float(op, "beta", 0.5), 0.5);
}

/* True if bound k of a Clip equals `wanted`. The bound is an attribute before version 11, an input since. */
static bool is_bound(const mp_rewriter *r, const mp_operator *clip, int k, const char *name, double wanted)
{
    double c = mp_operator_float(clip, name, -1);
    if (clip->version >= 11 && !(k < clip->n_in && mp_known_scalar(r, clip->in[k], &c))) return false;
    return c == wanted;
}

static double clip_gate(const mp_rewriter *r, mp_pattern *pattern, int gate, int x)
{
    const mp_operator *clip = mp_pattern_written_by(r, pattern, gate, "Clip");
    return clip && is_bound(r, clip, 1, "min", 0) && is_bound(r, clip, 2, "max", 6) && plus(r, pattern, clip->in[0], 3) == x;
}

static double softplus_gate(const mp_rewriter *r, mp_pattern *pattern, int gate, int x)
{
    const mp_operator *tanh = mp_pattern_written_by(r, pattern, gate, "Tanh");
    const mp_operator *softplus = tanh ? mp_pattern_written_by(r, pattern, tanh->in[0], "Softplus") : NULL;
    return softplus && softplus->in[0] == x;
}

/* If `factor` is one operand of the product, returns the other operand; else -1. */
static int beside(const mp_operator *product, int factor)
{
    if (!product || (product->in[0] != factor && product->in[1] != factor)) return -1;
    return product->in[product->in[0] == factor];
}

/* If one operand of the product is a constant, returns the operand that is not; else -1. */
static int beside_constant(const mp_rewriter *r, const mp_operator *product)
{
    double c;
    for (int k = 0; product && k < 2; k++)
        if (mp_known_scalar(r, product->in[k], &c)) return product->in[1 - k];
    return -1;
}

/* If the operator computes (x * gate) * c for a constant c, returns the gate; else -1. */
static int scaled_gate(const mp_rewriter *r, int root, int x)
{
    const mp_operator *op = &r->model->operators[root];
    return mp_is_kind(op, "Mul") ? beside(mp_written_by(r, beside_constant(r, op), "Mul"), x) : -1;
}

/* If the operator computes x * (c * gate) and PyTorch's newer exporter wrote the file, returns the gate; else -1. */
static int newer_gate(const mp_rewriter *r, int root, int x)
{
    const mp_operator *op = &r->model->operators[root];
    if (!r->model->is_of_newer_exporter || !mp_is_kind(op, "Mul")) return -1;
    return beside_constant(r, mp_written_by(r, beside(op, x), "Mul"));
}

static bool is_exported_erf(const mp_rewriter *r, int root, int x)
{
    return scaled_gate(r, root, x) >= 0 ||
           newer_gate(r, root, x) >=
               0; /* the gate itself needs no check, because every exporter writes the gate with erf in the same form */
}

static bool is_exported_tanh(const mp_rewriter *r, int root, int x)
{
    const int newer = newer_gate(r, root, x);
    const mp_operator *sum = mp_written_by(r, newer >= 0 ? newer : scaled_gate(r, root, x), "Add"), *tanh = NULL, *cubes;
    for (int k = 0; sum && k < 2 && !tanh; k++) tanh = mp_written_by(r, sum->in[k], "Tanh");
    const mp_operator *argument = tanh ? mp_written_by(r, tanh->in[0], "Mul") : NULL;
    sum = mp_written_by(r, beside_constant(r, argument), "Add");
    const int cube = beside_constant(r, mp_written_by(r, beside(sum, x), "Mul"));
    if (newer >= 0) return (cubes = mp_written_by(r, cube, "Pow")) && cubes->in[0] == x;
    cubes = mp_written_by(r, cube, "Mul");
    const mp_operator *square = mp_written_by(r, beside(cubes, x), "Mul");
    return square && square->in[0] == x && square->in[1] == x;
}

/* True if the operator computes x * gate. The caller has already recognised the gate. */
static bool is_exported_product(const mp_rewriter *r, int root, int x)
{
    return mp_is_kind(&r->model->operators[root], "Mul") && beside(&r->model->operators[root], x) >= 0;
}

static bool is_exported_swish(const mp_rewriter *r, int root, int x)
{
    const mp_operator *op = &r->model->operators[root];
    const mp_operator *sigmoid = mp_written_by(r, beside(op, x), "Sigmoid");
    return sigmoid && sigmoid->in[0] == x;
}

static bool is_exported_hard_swish(const mp_rewriter *r, int root, int x)
{
    return r->model->operators[root].version < 14 && is_exported_product(r, root, x);
}

static const struct row {
    double coefficient;
    double (*gate)(const mp_rewriter *r, mp_pattern *pattern, int gate, int x);
    const char *kind;
    int version;
    const char *approximate;
    bool (*is_exported)(const mp_rewriter *r, int root, int x); /* returns true if the tensors have the form in which PyTorch's
                                                                   own operator is exported; NULL: no such form exists */
} rows[] = {
    {0.5, erf_gate, "Gelu", 20, NULL, is_exported_erf},
    {0.5, tanh_gate, "Gelu", 20, "tanh", is_exported_tanh},
    {1, sigmoid_gate, "Swish", 24, NULL, is_exported_swish},
    {1, hard_sigmoid_gate, "HardSwish", 14, NULL, is_exported_hard_swish},
    {1.0 / 6, clip_gate, "HardSwish", 14, NULL, NULL},
    {1, softplus_gate, "Mish", 18, NULL, is_exported_product},
};

/* True if PyTorch runs the pattern as one operator. *is_guessed: the file does not state this. */
static bool is_one_in_pytorch(const mp_rewriter *r, const struct row *row, const mp_pattern *pattern, int root, int x,
                              bool *is_guessed)
{
    const mp_pattern_calls calls = mp_pattern_called(r, pattern);
    *is_guessed = calls == MP_CALLS_UNSAID;
    return calls == MP_CALLS_ONE || (*is_guessed && row->is_exported && row->is_exported(r, root, x));
}

/* True if no operator of the pattern broadcasts or converts a tensor, and no operator outside the pattern reads its
 * intermediate tensors. */
static bool is_elementwise(const mp_rewriter *r, const mp_pattern *pattern, int root, int x)
{
    for (int k = 0; k < pattern->n; k++) {
        const mp_tensor *y = mp_operator_out(r->model, &r->model->operators[pattern->ops[k]], 0);
        if (!mp_same_shape(y, &r->model->tensors[x])) return false;
    }
    return mp_pattern_is_closed(r, pattern, root);
}

mp_status mp_rewrite_activation(mp_rewriter *r, int root)
{
    const mp_operator *op = &r->model->operators[root];
    mp_pattern product = {.n = 0};
    struct product p = {.coefficient = 1};
    if (!mp_is_kind(op, "Mul") && !mp_is_kind(op, "Div")) return MP_OK;
    if (!multiply_out(r, &product, op->out[0], true, &p) || p.n != 2) return MP_OK;
    for (size_t k = 0; k < 2 * sizeof rows / sizeof *rows; k++) {
        const struct row *row = &rows[k / 2];
        mp_pattern pattern = product;
        const int x = p.factors[k % 2];
        if (!mp_near(p.coefficient, row->coefficient)) continue;
        const double alpha = row->gate(r, &pattern, p.factors[1 - k % 2], x);
        if (alpha == 0 || !is_elementwise(r, &pattern, root, x)) continue;
        bool is_guessed = false;
        if (r->rules == MP_RULES_PYTORCH && !is_one_in_pytorch(r, row, &pattern, root, x, &is_guessed)) continue;
        if (is_guessed) r->model->operators[root].guess = MP_GUESS_FORMULA;
        mp_attribute attributes[2];
        mp_operator_draft draft = {.kind = row->kind, .domain = "", .version = row->version, .in = &x, .n_in = 1};
        draft.attributes = attributes;
        if (row->approximate)
            attributes[draft.n_attributes++] =
                (mp_attribute){.name = "approximate", .kind = MP_ATTRIBUTE_TEXT, .text = row->approximate};
        if (alpha != 1) attributes[draft.n_attributes++] = mp_attribute_float("alpha", alpha);
        return mp_pattern_fuse(r, &pattern, root, &draft);
    }
    return MP_OK;
}

mp_status mp_rewrite_softplus(mp_rewriter *r, int root)
{
    enum {
        LEAST = 17
    }; /* least threshold that is accepted: for larger x, softplus x + log(1 + exp(-x)) equals x in single precision */
    const mp_operator *where = &r->model->operators[root];
    mp_pattern pattern = {.ops = {root}, .n = 1};
    double threshold;
    if (!mp_is_kind(where, "Where")) return MP_OK;
    const int x = where->in[1];
    const mp_operator *above = mp_pattern_written_by(r, &pattern, where->in[0], "Greater"),
                      *softplus = mp_pattern_written_by(r, &pattern, where->in[2], "Softplus");
    if (!above || !softplus || above->in[0] != x || softplus->in[0] != x || r->model->tensors[x].dtype == MP_DTYPE_DOUBLE)
        return MP_OK;
    if (!mp_known_scalar(r, above->in[1], &threshold) || threshold < LEAST) return MP_OK;
    if (!mp_same_shape(&r->model->tensors[x], mp_operator_out(r->model, where, 0)) || !mp_pattern_is_closed(r, &pattern, root))
        return MP_OK;
    if (r->rules == MP_RULES_PYTORCH && mp_pattern_called(r, &pattern) == MP_CALLS_SEVERAL) return MP_OK;
    const mp_operator_draft draft = mp_draft("Softplus", "", 1, &softplus->in[0], 1, NULL, 0);
    return mp_pattern_fuse(r, &pattern, root, &draft);
}
