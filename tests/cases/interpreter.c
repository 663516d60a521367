/* interpreter.c - computes operators by their definition, one element at a time. */
#include "tests/cases/interpreter.h"

#include "estimator/rules/operands/attention.h"
#include "tests/cases/test.h"

/* All tensors of a run; at[t] is NULL until t is computed. */
struct run {
    const mp_model *model;
    double **at;
};

static int64_t count(const mp_tensor *t)
{
    return mp_tensor_elements(t);
}

/* Returns the index in `from` of the element that broadcasting uses for element k of a tensor shaped like `to`. */
static int64_t broadcast_index(const mp_tensor *to, const mp_tensor *from, int64_t k)
{
    int64_t index = 0, stride = 1;
    for (int d = 1; d <= to->rank; d++) {
        int64_t size = to->dims[to->rank - d], position = k % size;
        k /= size;
        if (d > from->rank) continue;
        int64_t own = from->dims[from->rank - d];
        if (own != 1) index += position * stride;
        stride *= own;
    }
    return index;
}

static double unary(const mp_operator *op, double x)
{
    const char *kind = op->kind;
    double alpha = mp_operator_float(op, "alpha", !strcmp(kind, "HardSigmoid") ? 0.2 : 1);
    if (!strcmp(kind, "Abs")) return fabs(x);
    if (!strcmp(kind, "Exp")) return exp(x);
    if (!strcmp(kind, "IsNaN")) return isnan(x);
    if (!strcmp(kind, "Identity") || !strcmp(kind, "Cast") || !strcmp(kind, "Reshape") || !strcmp(kind, "Squeeze")) return x;
    if (!strcmp(kind, "Sqrt")) return sqrt(x);
    if (!strcmp(kind, "Reciprocal")) return 1 / x;
    if (!strcmp(kind, "Erf")) return erf(x);
    if (!strcmp(kind, "Tanh")) return tanh(x);
    if (!strcmp(kind, "Sigmoid")) return 1 / (1 + exp(-x));
    if (!strcmp(kind, "HardSigmoid")) return fmax(0, fmin(1, alpha * x + mp_operator_float(op, "beta", 0.5)));
    if (!strcmp(kind, "HardSwish")) return x * fmax(0, fmin(1, x / 6 + 0.5));
    if (!strcmp(kind, "Swish")) return x / (1 + exp(-alpha * x));
    if (strcmp(kind, "Gelu") != 0) return NAN;
    if (strcmp(mp_operator_text(op, "approximate", "none"), "tanh") != 0) return 0.5 * x * (1 + erf(x / sqrt(2)));
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static bool is_unary(const char *kind)
{
    static const char *const kinds[] = {"Abs",         "Exp",       "IsNaN",      "Identity", "Cast", "Reshape",
                                        "Squeeze",     "Sqrt",      "Reciprocal", "Erf",      "Tanh", "Sigmoid",
                                        "HardSigmoid", "HardSwish", "Swish",      "Gelu"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kind, kinds[k])) return true;
    return false;
}

static bool binary(const char *kind, double a, double b, double *y)
{
    if (!strcmp(kind, "Add"))
        *y = a + b;
    else if (!strcmp(kind, "Sub"))
        *y = a - b;
    else if (!strcmp(kind, "Mul"))
        *y = a * b;
    else if (!strcmp(kind, "Div"))
        *y = a / b;
    else if (!strcmp(kind, "Pow"))
        *y = pow(a, b);
    else if (!strcmp(kind, "GreaterOrEqual"))
        *y = a >= b;
    else if (!strcmp(kind, "And"))
        *y = a != 0 && b != 0;
    else
        return false;
    return true;
}

static bool run_binary(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *out = mp_operator_out(r->model, op, 0);
    for (int64_t k = 0; k < count(out); k++) {
        double a = r->at[op->in[0]][broadcast_index(out, mp_operator_in(r->model, op, 0), k)];
        double b = r->at[op->in[1]][broadcast_index(out, mp_operator_in(r->model, op, 1), k)];
        if (!binary(op->kind, a, b, &y[k])) return false;
    }
    return true;
}

static void run_clip(const struct run *r, const mp_operator *op, double *y)
{
    for (int64_t k = 0; k < count(mp_operator_out(r->model, op, 0)); k++)
        y[k] = fmin(fmax(r->at[op->in[0]][k], r->at[op->in[1]][0]), r->at[op->in[2]][0]);
}

/* Multiplies matrices, or batches of matrices on the left or on both sides. Either may be stored transposed. */
static void run_product(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *a = mp_operator_in(r->model, op, 0), *b = mp_operator_in(r->model, op, 1);
    const mp_tensor *out = mp_operator_out(r->model, op, 0);
    bool ta = mp_operator_int(op, "transA", 0), tb = mp_operator_int(op, "transB", 0);
    int64_t m = out->dims[out->rank - 2], n = out->dims[out->rank - 1], inner = b->dims[b->rank - (tb ? 1 : 2)];
    double alpha = mp_operator_float(op, "alpha", 1);
    for (int64_t k = 0; k < count(out); k++) {
        int64_t batch = a->rank > 2 ? k / (m * n) : 0, i = k / n % m, j = k % n;
        const double *left = r->at[op->in[0]] + batch * m * inner,
                     *right = r->at[op->in[1]] + (b->rank > 2 ? batch * inner * n : 0);
        y[k] = 0;
        for (int64_t l = 0; l < inner; l++)
            y[k] += alpha * left[ta ? l * m + i : i * inner + l] * right[tb ? j * inner + l : l * n + j];
        if (op->n_in > 2) y[k] += r->at[op->in[2]][j];
    }
}

static void run_transpose(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *x = mp_operator_in(r->model, op, 0), *out = mp_operator_out(r->model, op, 0);
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    for (int64_t k = 0; k < count(out); k++) {
        int64_t rest = k, index = 0;
        for (int d = out->rank - 1; d >= 0; d--) {
            int64_t position = rest % out->dims[d], stride = 1;
            rest /= out->dims[d];
            for (int e = (int)(perm ? perm[d] : x->rank - 1 - d) + 1; e < x->rank; e++) stride *= x->dims[e];
            index += position * stride;
        }
        y[k] = r->at[op->in[0]][index];
    }
}

/* Computes the mean over the axes with size 1 in the output. */
static void run_mean(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *x = mp_operator_in(r->model, op, 0), *out = mp_operator_out(r->model, op, 0);
    int64_t n = count(x) / count(out);
    for (int64_t k = 0; k < count(x); k++) y[broadcast_index(x, out, k)] += r->at[op->in[0]][k] / (double)n;
}

static void run_normalization(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *x = mp_operator_in(r->model, op, 0);
    const double *at = r->at[op->in[0]];
    bool centred = !strcmp(op->kind, "LayerNormalization");
    int64_t axis = mp_operator_int(op, "axis", -1), n = 1;
    for (int d = (int)(axis < 0 ? axis + x->rank : axis); d < x->rank; d++) n *= x->dims[d];
    for (int64_t row = 0; row < count(x); row += n) {
        double mean = 0, square = 0;
        for (int64_t k = 0; centred && k < n; k++) mean += at[row + k] / (double)n;
        for (int64_t k = 0; k < n; k++) square += (at[row + k] - mean) * (at[row + k] - mean) / (double)n;
        for (int64_t k = row; k < row + n; k++) {
            y[k] = (at[k] - mean) / sqrt(square + mp_operator_float(op, "epsilon", 1e-5));
            if (op->n_in > 1) y[k] *= r->at[op->in[1]][broadcast_index(x, mp_operator_in(r->model, op, 1), k)];
            if (op->n_in > 2) y[k] += r->at[op->in[2]][broadcast_index(x, mp_operator_in(r->model, op, 2), k)];
        }
    }
}

/* Returns the index of element (i, j) of matrix b in input k, or in the result (k = 3). The stored tensor may be a
 * transposition of the logical one. */
static int64_t attention_index(const struct run *r, const mp_operator *op, int k, int64_t b, int64_t i, int64_t j)
{
    const mp_tensor *t = k == MP_ATTENTION_Y ? mp_operator_out(r->model, op, 0) : mp_operator_in(r->model, op, k);
    const int64_t *perm = mp_attention_perm(op, k);
    int64_t dims[MP_RANK_MAX] = {0}, strides[MP_RANK_MAX] = {0}, step = 1;
    mp_attention_view v;
    if (mp_attention_view_read(op, k, &v)) {
        int64_t at = v.offset + i * v.strides[v.rank - 2] + j * v.strides[v.rank - 1];
        for (int d = v.rank - 3; d >= 0; b /= v.dims[d--]) at += b % v.dims[d] * v.strides[d];
        return at;
    }
    for (int d = t->rank - 1; d >= 0; step *= t->dims[d--]) {
        int meant = d; /* logical dimension stored as dimension d */
        for (int e = 0; perm && k != MP_ATTENTION_Y && e < t->rank; e++)
            if (perm[e] == d) meant = e;
        if (perm && k == MP_ATTENTION_Y) meant = (int)perm[d];
        dims[meant] = t->dims[d];
        strides[meant] = step;
    }
    int64_t at = i * strides[t->rank - 2] + j * strides[t->rank - 1];
    for (int d = t->rank - 3; d >= 0; b /= dims[d--]) at += b % dims[d] * strides[d];
    return at;
}

/* Returns the index of the input that holds operand k; packed operands are in input 0. */
static int own_input(const mp_operator *op, int k)
{
    mp_attention_view v;
    return op->in[mp_attention_view_read(op, k, &v) ? 0 : k];
}

/* Computes attention row by row, as defined in estimator/rules/operands/attention.h, without dropout. */
static void run_attention(const struct run *r, const mp_operator *op, double *y)
{
    const mp_attention a = mp_attention_read(r->model, op);
    const mp_tensor *added = mp_operator_in(r->model, op, MP_ATTENTION_ADDED);
    const mp_tensor *positions = mp_operator_in(r->model, op, MP_ATTENTION_POSITIONS);
    const bool turned = mp_operator_int(op, "transK", 0), causal = mp_operator_int(op, "causal", 0);
    mp_tensor all = {.rank = mp_attention_rank(r->model, op)}; /* the shape of the scores */
    int64_t dims[MP_RANK_MAX];
    mp_attention_dims(r->model, op, 0, dims);
    dims[all.rank - 1] = a.columns;
    all.dims = dims;
    double *p = calloc((size_t)a.columns + 1, sizeof *p);
    for (int64_t row = 0; row < a.n_batch * a.rows; row++) {
        const int64_t b = row / a.rows, i = row % a.rows;
        double sum = 0;
        for (int64_t c = 0; c < a.columns; c++) {
            const int64_t e = row * a.columns + c;
            p[c] = 0;
            for (int64_t d = 0; d < a.depth; d++)
                p[c] += r->at[op->in[0]][attention_index(r, op, 0, b, i, d)] *
                        r->at[own_input(op, 1)][attention_index(r, op, 1, b, turned ? d : c, turned ? c : d)];
            p[c] *= mp_operator_float(op, "scale", 1);
            if (positions && (r->at[op->in[MP_ATTENTION_POSITIONS]][broadcast_index(&all, positions, e)] != 0) !=
                                 (mp_operator_int(op, "keeps", 1) != 0))
                p[c] = mp_operator_float(op, "fill", -INFINITY);
            if (added) p[c] += r->at[op->in[MP_ATTENTION_ADDED]][broadcast_index(&all, added, e)];
            if (causal && c > row % a.rows) p[c] = -INFINITY;
            sum += p[c] = exp(p[c]);
        }
        if (sum == 0 && mp_operator_int(op, "safe", 0)) sum = 1; /* a fully masked row: zeros */
        for (int64_t c = 0; c < a.columns; c++)
            for (int64_t d = 0; d < a.value_depth; d++)
                y[attention_index(r, op, MP_ATTENTION_Y, b, i, d)] +=
                    p[c] / sum * r->at[own_input(op, 2)][attention_index(r, op, 2, b, c, d)];
    }
    free(p);
}

/* Computes softmax along the last dimension. */
static void run_softmax(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *x = mp_operator_in(r->model, op, 0);
    const int64_t n = x->dims[x->rank - 1];
    for (int64_t row = 0; row < count(x); row += n) {
        double sum = 0;
        for (int64_t k = row; k < row + n; k++) sum += y[k] = exp(r->at[op->in[0]][k]);
        if (sum == 0 && !strcmp(op->kind, "SafeSoftmax")) sum = 1; /* a fully masked row: zeros */
        for (int64_t k = row; k < row + n; k++) y[k] /= sum;
    }
}

static void run_where(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *out = mp_operator_out(r->model, op, 0);
    for (int64_t k = 0; k < count(out); k++) {
        int from = r->at[op->in[0]][broadcast_index(out, mp_operator_in(r->model, op, 0), k)] != 0 ? 1 : 2;
        y[k] = r->at[op->in[from]][broadcast_index(out, mp_operator_in(r->model, op, from), k)];
    }
}

static void run_expand(const struct run *r, const mp_operator *op, double *y)
{
    const mp_tensor *out = mp_operator_out(r->model, op, 0);
    for (int64_t k = 0; k < count(out); k++) y[k] = r->at[op->in[0]][broadcast_index(out, mp_operator_in(r->model, op, 0), k)];
}

/* Computes a Split, or a Gather with one index as a Split with one part: the output is that range of the axis. */
static void run_parts(const struct run *r, const mp_operator *op)
{
    const mp_tensor *x = mp_operator_in(r->model, op, 0);
    const bool is_split = !strcmp(op->kind, "Split");
    const int64_t axis = (mp_operator_int(op, "axis", 0) + x->rank) % x->rank,
                  inner = mp_product(x->dims, (int)axis + 1, x->rank);
    int64_t from = is_split ? 0 : (int64_t)r->at[op->in[1]][0];
    if (from < 0) from += x->dims[axis];
    for (int o = 0; o < op->n_out; o++) {
        const int64_t n = is_split ? mp_operator_out(r->model, op, o)->dims[axis] : 1;
        for (int64_t k = 0; k < count(mp_operator_out(r->model, op, o)); k++)
            r->at[op->out[o]][k] = r->at[op->in[0]][(k / inner / n * x->dims[axis] + from + k / inner % n) * inner + k % inner];
        from += n;
    }
}

static bool run_operator(const struct run *r, const mp_operator *op, double *y)
{
    const char *kind = op->kind;
    if (is_unary(kind)) {
        for (int64_t k = 0; k < count(mp_operator_out(r->model, op, 0)); k++) y[k] = unary(op, r->at[op->in[0]][k]);
    } else if (!strcmp(kind, "Clip")) {
        run_clip(r, op, y);
    } else if (!strcmp(kind, "MatMul") || !strcmp(kind, "FusedMatMul") || !strcmp(kind, "Gemm")) {
        run_product(r, op, y);
    } else if (!strcmp(kind, "ScaledDotProductAttention")) {
        run_attention(r, op, y);
    } else if (strstr(kind, "Softmax")) {
        run_softmax(r, op, y);
    } else if (!strcmp(kind, "Expand")) {
        run_expand(r, op, y);
    } else if (!strcmp(kind, "Where")) {
        run_where(r, op, y);
    } else if (!strcmp(kind, "Transpose")) {
        run_transpose(r, op, y);
    } else if (!strcmp(kind, "Split") || !strcmp(kind, "Gather")) {
        run_parts(r, op);
    } else if (!strcmp(kind, "ReduceMean")) {
        run_mean(r, op, y);
    } else if (strstr(kind, "Normalization")) {
        run_normalization(r, op, y);
    } else if (!run_binary(r, op, y)) {
        printf("the interpreter does not know %s\n", kind);
        return false;
    }
    return true;
}

/* Fills a tensor without a producer: known values, or numbers around 0. */
static void fill(const mp_tensor *t, uint64_t seed, double *y)
{
    for (int64_t k = 0; k < count(t); k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        y[k] = (double)(int64_t)(seed >> 40) / (1 << 23) - 1;
        if (t->value) y[k] = t->value->is_real ? t->value->f[k] : (double)t->value->i[k];
    }
}

double *interpret(const mp_model *model, int tensor)
{
    struct run r = {model, calloc(model->n_tensors, sizeof *r.at)};
    double *result = NULL;
    bool known = true;
    for (size_t t = 0; t < model->n_tensors; t++) {
        if (model->tensors[t].rank < 0) continue;
        r.at[t] = calloc((size_t)count(&model->tensors[t]) + 1, sizeof **r.at);
        if (model->tensors[t].producer < 0) fill(&model->tensors[t], t, r.at[t]);
    }
    for (size_t k = 0; known && k < model->n_operators; k++)
        if (!model->operators[k].removed) known = run_operator(&r, &model->operators[k], r.at[model->operators[k].out[0]]);
    if (known) {
        result = r.at[tensor];
        r.at[tensor] = NULL;
    }
    for (size_t t = 0; t < model->n_tensors; t++) free(r.at[t]);
    free(r.at);
    return result;
}

/* ---- ranks ---- */

/* All ranks of a split model. */
struct ranks {
    const mp_model *whole, *part;
    const mp_split *split;
    int n;
    struct run *run; /* per rank */
};

/* Returns the original tensor in the unsplit model. An exchange's result is another form of its operand. */
static const mp_tensor *before_split(const struct ranks *x, int tensor)
{
    while ((size_t)tensor >= x->whole->n_tensors) tensor = x->part->operators[x->part->tensors[tensor].producer].in[0];
    return &x->whole->tensors[tensor];
}

/* Returns the index in the whole tensor of element k of a rank's part. Each of `outer` runs of a dimension is split over the
 * ranks. */
static int64_t in_whole(const struct ranks *x, int tensor, int rank, int64_t k)
{
    const mp_shard at = x->split->placements[tensor];
    const mp_tensor *t = before_split(x, tensor);
    int64_t inner = 1;
    if (at.dim < 0) return k;
    for (int d = at.dim + 1; d < t->rank; d++) inner *= t->dims[d];
    const int64_t size = t->dims[at.dim], run = size / at.outer, piece = run / x->n, local = k / inner % (size / x->n);
    return (k / inner / (size / x->n) * size + local / piece * run + rank * piece + local % piece) * inner + k % inner;
}

static void exchange(const struct ranks *x, const mp_operator *op)
{
    const int from = op->in[0], to = op->out[0];
    const int64_t n = count(before_split(x, from)), n_from = count(&x->part->tensors[from]),
                  n_to = count(&x->part->tensors[to]);
    const bool sums = strstr(op->kind, "Reduce");
    double *all = calloc((size_t)n + 1, sizeof *all);
    for (int r = 0; r < x->n; r++)
        for (int64_t k = 0; k < n_from; k++) {
            const int64_t at = in_whole(x, from, r, k);
            all[at] = sums ? all[at] + x->run[r].at[from][k] : x->run[r].at[from][k];
        }
    for (int r = 0; r < x->n; r++)
        for (int64_t k = 0; k < n_to; k++) x->run[r].at[to][k] = all[in_whole(x, to, r, k)];
    free(all);
}

/* Runs an operator on one rank. If results are summed over ranks, only one rank adds the bias, and a mean divides by the
 * elements of all ranks. */
static bool run_on_rank(const struct ranks *x, const mp_operator *op, int rank)
{
    struct run *r = &x->run[rank];
    double *y = r->at[op->out[0]], *bias = op->n_in > 2 && op->in[2] >= 0 ? r->at[op->in[2]] : NULL;
    const mp_shard *at = x->split->placements;
    const bool is_partial = at[op->out[0]].dim < 0 && (at[op->in[0]].dim >= 0 || (op->n_in > 1 && at[op->in[1]].dim >= 0));
    const bool adds_none = is_partial && bias && rank > 0 && op->op->gradient == MP_GRADIENT_SPLIT;
    if (adds_none) r->at[op->in[2]] = calloc((size_t)count(mp_operator_in(x->part, op, 2)) + 1, sizeof *bias);
    const bool known = run_operator(r, op, y);
    if (adds_none) {
        free(r->at[op->in[2]]);
        r->at[op->in[2]] = bias;
    }
    for (int64_t k = 0; is_partial && !strcmp(op->kind, "ReduceMean") && k < count(mp_operator_out(x->part, op, 0)); k++)
        y[k] /= x->n;
    return known;
}

static void start_rank(const struct ranks *x, int rank)
{
    struct run *r = &x->run[rank];
    *r = (struct run){x->part, calloc(x->part->n_tensors, sizeof *r->at)};
    for (size_t t = 0; t < x->part->n_tensors; t++) {
        const mp_tensor *part = &x->part->tensors[t];
        if (part->rank < 0) continue;
        r->at[t] = calloc((size_t)count(part) + 1, sizeof **r->at);
        if (part->producer >= 0) continue;
        const mp_tensor *full = before_split(x, (int)t);
        double *all = calloc((size_t)count(full) + 1, sizeof *all);
        assert_string_equal(full->name, part->name);
        fill(full, t, all);
        for (int64_t k = 0; k < count(part); k++) r->at[t][k] = all[in_whole(x, (int)t, rank, k)];
        free(all);
    }
}

double *interpret_ranks(const mp_model *whole, const mp_model *part, const mp_split *split, int tensor)
{
    struct ranks x = {whole, part, split, (int)split->group.n, calloc((size_t)split->group.n, sizeof *x.run)};
    double *result = calloc((size_t)count(&whole->tensors[tensor]) + 1, sizeof *result);
    bool known = true;
    for (int r = 0; r < x.n; r++) start_rank(&x, r);
    for (size_t k = 0; known && k < part->n_operators; k++) {
        const mp_operator *op = &part->operators[k];
        if (op->removed) continue;
        const bool exchanges = op->op->collectives[0] != MP_OPERATOR_NOTHING || op->op->collectives[1] != MP_OPERATOR_NOTHING;
        if (exchanges) exchange(&x, op);
        for (int r = 0; known && !exchanges && r < x.n; r++) known = run_on_rank(&x, op, r);
    }
    for (int r = 0; r < x.n; r++)
        for (int64_t k = 0; k < count(&part->tensors[tensor]); k++) {
            const int64_t at = in_whole(&x, tensor, r, k);
            const double value = x.run[r].at[tensor][k];
            if (r && split->placements[tensor].dim < 0 && fabs(result[at] - value) > 1e-9) fail_msg("ranks differ");
            result[at] = value;
        }
    for (int r = 0; r < x.n; r++) {
        for (size_t t = 0; t < part->n_tensors; t++) free(x.run[r].at[t]);
        free(x.run[r].at);
    }
    free(x.run);
    if (known) return result;
    free(result);
    return NULL;
}

void assert_computes(const mp_model *model, double *before, const char *text)
{
    double *after = interpret(model, model->outputs[0]);
    assert_true(before && after);
    for (int64_t k = 0; k < mp_tensor_elements(&model->tensors[model->outputs[0]]); k++)
        if (!(fabs(before[k] - after[k]) <= 1e-9)) fail_msg("%s\nelement %d was %g, is %g", text, (int)k, before[k], after[k]);
    free(before);
    free(after);
}
