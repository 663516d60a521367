/* factor_case.c - the elements of each rank, the rank's operator as text, and the combination of results and gradients. */
#include "tests/cases/factor_case.h"

#include "estimator/rules/factors/factors.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

enum { TEXT = 512, PARTS = 8 };

/* A case split over n ranks by a factor. */
typedef struct cutting {
    const factor_case *c;
    const kernel_run *whole;
    const mp_operator *op;
    mp_operand_factors f;
    int factor, n;
} cutting;

static const mp_tensor *input_of(const cutting *x, int k)
{
    return mp_operator_in(x->whole->model, x->op, k);
}

static const mp_tensor *output_of(const cutting *x, int o)
{
    return mp_operator_out(x->whole->model, x->op, o);
}

static int dim_of_input(const cutting *x, int k)
{
    return mp_factor_of_input(x->whole->model, x->op, &x->f, k, x->factor);
}

static int dim_of_output(const cutting *x, int o)
{
    return mp_factor_of_output(x->whole->model, x->op, &x->f, o, x->factor);
}

static bool is(const cutting *x, const char *kind)
{
    return !strcmp(x->op->kind, kind);
}

static bool is_summed(const cutting *x)
{
    for (int o = 0; o < x->op->n_out; o++)
        if (dim_of_output(x, o) >= 0) return false;
    return true;
}

/* Returns the weight of a rank's result. A rank's mean is over its own elements, so the sum over ranks is divided by n. */
static double share_of(const cutting *x)
{
    const bool is_loss = x->op->op->traits & MP_TRAIT_LOSS,
               is_mean = is(x, "ReduceMean") || (is_loss && strcmp(mp_operator_text(x->op, "reduction", "mean"), "sum") != 0);
    return is_mean && is_summed(x) ? 1.0 / x->n : 1;
}

/* ---- the elements of a rank ---- */

/* Lists the runs of a dimension that are split over the ranks separately: inputs of Concat, and pieces of Split and Slice. So
 * each rank has its share of every piece. Other dimensions are one run. */
static int runs_of(const cutting *x, bool is_input, int k, int d, int64_t runs[PARTS])
{
    const mp_tensor *t = is_input ? input_of(x, k) : output_of(x, k);
    const bool joins = is(x, "Concat") && !is_input, splits = is(x, "Split") && is_input;
    int64_t axis = mp_operator_int(x->op, "axis", 0);
    if (axis < 0) axis += t->rank;
    runs[0] = t->dims[d];
    if ((joins || splits) && d == axis) {
        const int n = joins ? x->op->n_in : x->op->n_out;
        for (int j = 0; j < n; j++) runs[j] = (joins ? input_of(x, j) : output_of(x, j))->dims[d];
        return n;
    }
    if (is(x, "Slice") && is_input && k == 0)
        for (int64_t j = 0; j < input_of(x, 3)->value->n; j++)
            if (input_of(x, 3)->value->i[j] == d) {
                const int64_t start = input_of(x, 1)->value->i[j], end = input_of(x, 2)->value->i[j];
                runs[0] = start;
                runs[1] = end - start;
                runs[2] = t->dims[d] - end;
                return 3;
            }
    return 1;
}

static bool divides(const cutting *x, bool is_input, int k)
{
    const int d = is_input ? dim_of_input(x, k) : dim_of_output(x, k);
    int64_t runs[PARTS];
    if (d < 0) return true;
    for (int j = runs_of(x, is_input, k, d, runs); j-- > 0;)
        if (runs[j] % x->n) return false;
    return true;
}

static bool all_divide(const cutting *x)
{
    bool fits = true;
    for (int k = 0; k < x->op->n_in; k++) fits &= divides(x, true, k);
    for (int o = 0; o < x->op->n_out; o++) fits &= divides(x, false, o);
    return fits;
}

/* Returns the index in the whole array of element i of a rank's part. */
static int64_t in_whole(const cutting *x, bool is_input, int k, int rank, int64_t i)
{
    const mp_tensor *t = is_input ? input_of(x, k) : output_of(x, k);
    const int d = is_input ? dim_of_input(x, k) : dim_of_output(x, k);
    int64_t runs[PARTS], inner = 1, begin = 0;
    if (d < 0) return i;
    for (int e = d + 1; e < t->rank; e++) inner *= t->dims[e];
    const int64_t size = t->dims[d], part = size / x->n, outer = i / inner / part, rest = i % inner;
    int64_t at = i / inner % part;
    const int n = runs_of(x, is_input, k, d, runs);
    for (int j = 0; j < n; j++) {
        const int64_t share = runs[j] / x->n;
        if (at < share) return (outer * size + begin + rank * share + at) * inner + rest;
        at -= share;
        begin += runs[j];
    }
    fail_msg("element %d of a part is nowhere", (int)i);
    return -1;
}

/* ---- a rank's operator ---- */

/* Returns whether operand k is the same constant on every rank. `known` may reduce its values. */
static bool is_known(const cutting *x, int k)
{
    const bool is_looked_up = k == 1 && x->factor == x->f.rows;
    return input_of(x, k)->value && dim_of_input(x, k) < 0 && !is_looked_up;
}

/* Returns element e of the constant operand k. Sizes and positions in a split dimension are divided by n. */
static int64_t known(const cutting *x, int k, int64_t e)
{
    const mp_tensor *t = input_of(x, k), *y = output_of(x, 0);
    int d = -1;
    if (is(x, "Expand") && k == 1) d = (int)(y->rank - t->value->n + e);
    if (is(x, "Resize") && k == 3) d = (int)e;
    if (is(x, "Slice") && (k == 1 || k == 2)) d = (int)input_of(x, 3)->value->i[e];
    if (is(x, "Split") && k == 1) d = (int)mp_operator_int(x->op, "axis", 0);
    return d >= 0 && x->f.out[0][d] == x->factor ? t->value->i[e] / x->n : t->value->i[e];
}

static void write_inputs(const cutting *x, char text[TEXT])
{
    size_t n = 0;
    text[0] = '\0';
    for (int k = 0; k < x->op->n_in; k++) {
        const mp_tensor *t = input_of(x, k);
        const int cut = dim_of_input(x, k);
        if (!t) n += (size_t)snprintf(text + n, TEXT - n, "- ");
        if (!t) continue;
        n += (size_t)snprintf(text + n, TEXT - n, "%s[", mp_dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++) /* a table's part has an extra row of zeros for rows of other ranks */
            n += (size_t)snprintf(text + n, TEXT - n, "%s%d", d ? "," : "",
                                  (int)(d == cut ? t->dims[d] / x->n + (k == 0 && x->factor == x->f.rows) : t->dims[d]));
        n += (size_t)snprintf(text + n, TEXT - n, "]");
        for (int64_t e = 0; is_known(x, k) && e < t->value->n; e++)
            n += t->value->is_real ? (size_t)snprintf(text + n, TEXT - n, "%s%g", e ? "," : "={", t->value->f[e])
                                   : (size_t)snprintf(text + n, TEXT - n, "%s%d", e ? "," : "={", (int)known(x, k, e));
        n += (size_t)snprintf(text + n, TEXT - n, "%s ", is_known(x, k) ? "}" : "");
        assert_true(n < TEXT);
    }
}

/* Splitting channels of a grouped convolution divides the number of groups. */
static const char *attributes_of(const cutting *x, char text[TEXT])
{
    const int64_t groups = mp_operator_int(x->op, "group", 1);
    const bool is_cut = groups > 1 && x->factor == x->f.out[0][1];
    if (!is_cut) return x->c->attributes;
    snprintf(text, TEXT, "group=%d", (int)(groups / x->n));
    return text;
}

static void fill_inputs(const cutting *x, kernel_run *part, int rank)
{
    const bool looks_up = x->factor == x->f.rows;
    for (int k = 0; k < x->op->n_in; k++) {
        const mp_array *to = &part->forward.in[k], *from = &x->whole->forward.in[k];
        const mp_tensor *t = input_of(x, k);
        if (!t || is_known(x, k)) continue;
        const int64_t n = mp_array_elements(to), rows = input_of(x, 0)->dims[0] / x->n;
        for (int64_t i = 0; i < n; i++) {
            const bool is_zero = looks_up && k == 0 && i / (n / (rows + 1)) == rows,
                       adds_once = is_summed(x) && x->op->op->gradient == MP_GRADIENT_SPLIT && k >= 2 && rank > 0;
            double value = is_zero || adds_once ? 0 : kernel_get(from, in_whole(x, true, k, rank, i));
            if (looks_up && k == 1) value = floor(value / (double)rows) == rank ? value - (double)(rank * rows) : (double)rows;
            kernel_set(to, i, value);
        }
    }
}

/* ---- comparing ---- */

typedef struct result {
    double *values;
    bool *is_there;
} result;

static void put(result *r, int64_t at, double value, bool adds)
{
    r->values[at] = adds && r->is_there[at] ? r->values[at] + value : value;
    r->is_there[at] = true;
}

static bool is_close(double a, double b, double most)
{
    return fabs(a - b) <= most || (isnan(a) && isnan(b));
}

static void compare(const cutting *x, const char *what, int k, const mp_array *whole, const result *r)
{
    double largest = 1e-3;
    for (int64_t i = 0; i < mp_array_elements(whole); i++) largest = fmax(largest, fabs(kernel_get(whole, i)));
    for (int64_t i = 0; i < mp_array_elements(whole); i++)
        if (!r->is_there[i] || !is_close(kernel_get(whole, i), r->values[i], 3e-5 * largest))
            fail_msg("%s(%s)(%s) by factor %d over %d ranks: element %d of %s %d is %.7g, and of the parts %.7g%s", x->c->kind,
                     x->c->inputs, x->c->attributes, x->factor, x->n, (int)i, what, k, kernel_get(whole, i), r->values[i],
                     r->is_there[i] ? "" : " (it is not there)");
}

static result new_result(const mp_array *whole)
{
    const size_t n = (size_t)mp_array_elements(whole) + 1;
    return (result){calloc(n, sizeof(double)), calloc(n, sizeof(bool))};
}

static void free_result(result *r)
{
    free(r->values);
    free(r->is_there);
}

static bool has_backward(const cutting *x)
{
    const int g = x->op->op->gradient;
    return g == MP_GRADIENT_ONE || g == MP_GRADIENT_SPLIT;
}

static void take_output(const cutting *x, const kernel_run *part, int o, int rank, result *to)
{
    const mp_array *y = &part->forward.out[o];
    const int64_t n = mp_array_elements(y), of = mp_array_elements(&x->whole->forward.out[o]);
    if (dim_of_output(x, o) < 0 && n != of)
        fail_msg("%s(%s)(%s): factor %d is not in result %d, of which a rank has %d elements of %d", x->c->kind, x->c->inputs,
                 x->c->attributes, x->factor, o, (int)n, (int)of);
    for (int64_t i = 0; i < n; i++)
        put(to, in_whole(x, false, o, rank, i), kernel_get(y, i) * share_of(x), dim_of_output(x, o) < 0);
}

static void take_gradient(const cutting *x, const kernel_run *part, int k, int rank, result *to)
{
    const mp_array *d = &part->backward.d_in[k];
    const int64_t n = mp_array_elements(d), of = mp_array_elements(&x->whole->backward.d_in[k]);
    const bool is_same = is_summed(x) && x->op->op->gradient == MP_GRADIENT_SPLIT && k >= 2; /* equal on every rank */
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = in_whole(x, true, k, rank, i);
        if (at < of &&
            (k || x->factor != x->f.rows || i / (n / (input_of(x, 0)->dims[0] / x->n + 1)) < input_of(x, 0)->dims[0] / x->n))
            put(to, at, kernel_get(d, i), dim_of_input(x, k) < 0 && !is_same);
    }
}

static void run_parts(const cutting *x)
{
    char inputs[TEXT], attributes[TEXT];
    result out[4], d_in[MP_OP_INPUTS];
    const kernel_run *w = x->whole;
    write_inputs(x, inputs);
    const kernel_case c = {.kind = x->c->kind,
                           .version = x->c->version,
                           .inputs = inputs,
                           .attributes = attributes_of(x, attributes),
                           .n_outputs = x->c->n_outputs,
                           .wanted = x->c->wanted};
    for (int o = 0; o < x->op->n_out; o++) out[o] = new_result(&w->forward.out[o]);
    for (int k = 0; has_backward(x) && k < x->op->n_in; k++) d_in[k] = new_result(&w->backward.d_in[k]);
    for (int rank = 0; rank < x->n; rank++) {
        kernel_run *part = kernel_begin(&c, MP_MODE_AS_WRITTEN, has_backward(x) ? KERNEL_BACKWARD : 0);
        fill_inputs(x, part, rank);
        kernel_forward(part);
        for (int o = 0; o < x->op->n_out; o++) take_output(x, part, o, rank, &out[o]);
        for (int o = 0; has_backward(x) && o < x->op->n_out; o++)
            for (int64_t i = 0; part->backward.d_out[o].dtype && i < mp_array_elements(&part->backward.d_out[o]); i++)
                kernel_set(&part->backward.d_out[o], i,
                           share_of(x) * kernel_get(&w->backward.d_out[o], in_whole(x, false, o, rank, i)));
        if (has_backward(x)) kernel_backward(part);
        for (int k = 0; has_backward(x) && k < x->op->n_in; k++)
            if (part->backward.d_in[k].dtype) take_gradient(x, part, k, rank, &d_in[k]);
        kernel_end(part);
    }
    for (int o = 0; o < x->op->n_out; o++) {
        const bool counts_places = is(x, "MaxPool") && o == 1; /* indices of maxima refer to the rank's own image */
        if (!counts_places) compare(x, "result", o, &w->forward.out[o], &out[o]);
        free_result(&out[o]);
    }
    for (int k = 0; has_backward(x) && k < x->op->n_in; k++) {
        if (w->backward.d_in[k].dtype) compare(x, "the gradient of operand", k, &w->backward.d_in[k], &d_in[k]);
        free_result(&d_in[k]);
    }
}

/* Returns the largest factor of any dimension. */
static int most(const cutting *x)
{
    int factor = 0;
    for (int k = 0; k < x->op->n_in; k++)
        for (int d = 0; input_of(x, k) && d < input_of(x, k)->rank; d++)
            if (x->f.in[k][d] > factor) factor = x->f.in[k][d];
    return factor;
}

static bool is_carried(const cutting *x)
{
    for (int k = 0; k < x->op->n_in; k++)
        if (dim_of_input(x, k) >= 0) return true;
    return false;
}

enum { MOST_CHECKED = 512 };
static const mp_op *checked[MOST_CHECKED];
static size_t n_checked;

void factors_check(const factor_case *row)
{
    const kernel_case c = {.kind = row->kind,
                           .version = row->version,
                           .inputs = row->inputs,
                           .attributes = row->attributes,
                           .n_outputs = row->n_outputs,
                           .wanted = row->wanted};
    cutting x = {.c = row};
    int n_factors = 0;
    kernel_run *whole = kernel_begin(&c, MP_MODE_AS_WRITTEN, 0);
    const bool differentiates = has_backward(&(cutting){.op = whole->forward.op});
    if (differentiates) {
        kernel_end(whole);
        whole = kernel_begin(&c, MP_MODE_AS_WRITTEN, KERNEL_BACKWARD);
    }
    x.whole = whole;
    x.op = whole->forward.op;
    assert_true(n_checked < MOST_CHECKED);
    checked[n_checked++] = x.op->op;
    kernel_forward(whole);
    if (differentiates) kernel_backward(whole);
    if (!x.op->op->factors || !x.op->op->factors(whole->model, x.op, &x.f)) memset(&x.f, 0, sizeof x.f);
    for (x.factor = 1; x.factor <= most(&x); x.factor++) {
        int n_tried = 0;
        if (x.factor == x.f.exchanged || !is_carried(&x)) continue; /* the operator itself exchanges values along this factor */
        for (x.n = 2; x.n <= 4; x.n++)
            if (all_divide(&x)) {
                run_parts(&x);
                n_tried++;
            }
        n_factors += n_tried > 0;
    }
    if (n_factors != row->n_factors)
        fail_msg("%s(%s)(%s) has been split by %d factors, and should by %d", row->kind, row->inputs, row->attributes,
                 n_factors, row->n_factors);
    kernel_end(whole);
}

bool factors_were_checked(const mp_op *op)
{
    for (size_t k = 0; k < n_checked; k++)
        if (checked[k] == op) return true;
    return false;
}
