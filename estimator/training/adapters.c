/* adapters.c - adds low-rank adapters to the products of a model. */
#include "estimator/training/adapters.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/simplify/infer.h"

enum { ALPHA = 8, NAME_MAX_BYTES = 512, STEPS_MAX = 4 };

typedef struct pair {
    int a, b; /* indices of the tensors A and B of a matrix's adapter; -1: the matrix has no adapter so far */
} pair;

typedef struct writer {
    mp_model *model;
    const mp_adapters *asked;
    pair *of;   /* per tensor of the model: its adapter (only for matrices) */
    int *owner; /* per added operator: index of the product to which it was added */
    size_t n;   /* number of operators before the adapters were added */
    mp_error *err;
} writer;

bool mp_adapter_read(const char *text, int *rank, const char **pattern)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    const long value = strtol(text, &end, 10);
    if (*end != ':' || !end[1] || value < 1 || value > MP_ADAPTER_RANK_MAX) return false;
    *rank = (int)value;
    *pattern = end + 1;
    return true;
}

/* Returns the matrix by which an operator multiplies its first operand; -1: the operator is no such product. */
static int matrix_of(const mp_model *model, const mp_operator *op)
{
    if (op->removed || op->n_in < 2 || op->in[1] < 0 || mp_op_input_of(op->op, 1).initial != MP_INITIAL_RIGHT_MATRIX) return -1;
    const mp_tensor *w = &model->tensors[op->in[1]];
    return w->role == MP_ROLE_PARAMETER && w->rank == 2 && mp_dtype_is_float(w->dtype) ? op->in[1] : -1;
}

static bool is_named(const mp_model *model, const mp_operator *op, const char *pattern)
{
    return !fnmatch(pattern, model->tensors[op->in[1]].name, 0) || !fnmatch(pattern, op->name, 0);
}

size_t mp_adapter_matrices(const mp_model *model, const char *pattern)
{
    size_t n = 0;
    for (size_t k = 0; k < model->n_operators; k++)
        n += matrix_of(model, &model->operators[k]) >= 0 && is_named(model, &model->operators[k], pattern);
    return n;
}

/* Fails because a pattern matches no matrix. The message names another tensor that matches, or a matrix that an adapter could
 * have. */
static mp_status no_matrix(const mp_model *model, const char *wanted, const char *pattern, mp_error *err)
{
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        for (int i = 0; !op->removed && i < op->n_in; i++)
            if (op->in[i] >= 0 && model->tensors[op->in[i]].role == MP_ROLE_PARAMETER &&
                !fnmatch(pattern, model->tensors[op->in[i]].name, 0))
                return MP_FAIL(err, MP_INVALID,
                               "the adapter '%s' needs matrices of products (MatMul, Gemm), but '%s' is read by %s '%s'",
                               wanted, model->tensors[op->in[i]].name, op->kind, op->name);
    }
    for (size_t k = 0; k < model->n_operators; k++) {
        const int matrix = matrix_of(model, &model->operators[k]);
        if (matrix >= 0)
            return MP_FAIL(err, MP_INVALID, "the adapter '%s' matches no matrix and no operator; one of the matrices is '%s'",
                           wanted, model->tensors[matrix].name);
    }
    return MP_FAIL(err, MP_INVALID, "the adapter '%s': the network contains no product with a parameter", wanted);
}

/* Adds an adapter parameter of rows x columns for a matrix: "h.0.q_proj.lora_A.weight" for "h.0.q_proj.weight". */
static mp_status put_parameter(const writer *w, int matrix, const char *what, int64_t rows, int64_t columns, int *out)
{
    char name[NAME_MAX_BYTES];
    const mp_tensor *t = &w->model->tensors[matrix];
    static const char ending[] = ".weight";
    const size_t n = strlen(t->name), tail = sizeof ending - 1;
    const bool ends = n > tail && !strcmp(t->name + n - tail, ending);
    snprintf(name, sizeof name, "%.*s.%s%s", (int)(ends ? n - tail : n), t->name, what, ends ? ending : "");
    const mp_dtype dtype = t->dtype;
    MP_CHECK(mp_model_fresh_tensor(w->model, name, out, w->err));
    MP_CHECK(mp_tensor_set(w->model, *out, dtype, 2, (int64_t[]){rows, columns}, w->err));
    w->model->tensors[*out].role = MP_ROLE_PARAMETER;
    w->model->tensors[*out].role_reason = "an adapter (--lora)";
    return MP_OK;
}

/* Adds one operator for the adapter of product `op`. It writes *out; if *out is -1, a new tensor. */
static mp_status put(writer *w, int op, const char *what, const mp_operator_draft *draft, int *out)
{
    char name[NAME_MAX_BYTES], stem[NAME_MAX_BYTES + 16];
    const char *slash = strrchr(w->model->operators[op].name, '/'), *whole = w->model->operators[op].name;
    const int length = slash ? (int)(slash - whole) : (int)strlen(whole);
    mp_operator_draft own = *draft;
    snprintf(name, sizeof name, "%.*s/%s", length, whole, what);
    snprintf(stem, sizeof stem, "%s_output_0", name);
    own.name = name;
    MP_CHECK(mp_operator_put(w->model, own, stem, out, w->err));
    w->owner[w->model->tensors[*out].producer] = op;
    w->model->tensors[*out].source = w->model->tensors[w->model->operators[op].out[0]].source;
    return MP_OK;
}

static mp_status put_scale(const writer *w, mp_dtype dtype, double value, int *out)
{
    mp_value *scale;
    MP_CHECK(mp_model_constant(w->model, "lora_scale", dtype, 0, NULL, out, &scale, w->err));
    scale->f[0] = value;
    return MP_OK;
}

/* Changes y = x W to y = base + scale * (x A) B. y keeps its name and its readers. */
static mp_status adapt(writer *w, int op, int rank)
{
    mp_model *m = w->model;
    const mp_operator *product = &m->operators[op];
    const int x = product->in[0], matrix = product->in[1], y = product->out[0];
    const bool turned = mp_operator_int(product, "transB", 0) != 0;
    const int64_t in = m->tensors[matrix].dims[turned], out = m->tensors[matrix].dims[!turned];
    const double scale = (double)ALPHA / rank;
    const mp_attribute alpha = mp_attribute_float("alpha", scale);
    const bool apart = w->asked->rules == MP_RULES_PYTORCH;
    pair *p = &w->of[matrix];
    int base, low = -1, high = -1, scaled = -1, factor, sum = y;
    MP_ENSURE(!mp_operator_int(product, "transA", 0) && !mp_operator_int(product, "transBatchA", 0) &&
                  !mp_operator_int(product, "transBatchB", 0),
              w->err, MP_UNSUPPORTED, "operator '%s' reads a transposed input, but adapters support plain products only",
              product->name);
    if (p->a < 0) {
        MP_CHECK(put_parameter(w, matrix, "lora_A", in, rank, &p->a));
        MP_CHECK(put_parameter(w, matrix, "lora_B", rank, out, &p->b));
        m->tensors[p->b].starts_at_zero = true;
    }
    char stem[NAME_MAX_BYTES];
    snprintf(stem, sizeof stem, "%.480s_base", m->tensors[y].name);
    MP_CHECK(mp_model_fresh_tensor(m, stem, &base, w->err));
    m->operators[op].out[0] = base;
    m->tensors[base].producer = op;
    m->tensors[base].source = m->tensors[y].source;
    m->tensors[y].producer = -1;
    MP_CHECK(mp_tensor_set(m, base, m->tensors[y].dtype, m->tensors[y].rank, m->tensors[y].dims, w->err));
    const mp_operator_draft down = {.kind = "MatMul", .version = 13, .in = (int[]){x, p->a}, .n_in = 2};
    MP_CHECK(put(w, op, "lora_A/MatMul", &down, &low));
    const int reads[] = {low, p->b};
    const mp_operator_draft up = apart ? mp_draft("MatMul", "", 13, reads, 2, NULL, 0)
                                       : mp_draft("FusedMatMul", "com.microsoft", 1, reads, 2, &alpha, 1);
    MP_CHECK(put(w, op, "lora_B/MatMul", &up, &high));
    if (apart) {
        MP_CHECK(put_scale(w, m->tensors[high].dtype, scale, &factor));
        const mp_operator_draft multiply = {.kind = "Mul", .version = 14, .in = (int[]){high, factor}, .n_in = 2};
        MP_CHECK(put(w, op, "lora/Mul", &multiply, &scaled));
    }
    const mp_operator_draft add = {.kind = "Add", .version = 14, .in = (int[]){base, apart ? scaled : high}, .n_in = 2};
    return put(w, op, "lora/Add", &add, &sum);
}

/* Moves the added operators from the end of the list to the positions after their products. */
static mp_status place(writer *w)
{
    mp_model *m = w->model;
    size_t n = 0, added = w->n;
    MP_OWNED mp_operator *placed = mp_alloc(m->n_operators, sizeof *placed);
    MP_ENSURE(placed, w->err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < w->n; k++) { /* the operators added for a product are moved to directly after it; they are listed in
                                           the order of their products */
        placed[n++] = m->operators[k];
        while (added < m->n_operators && w->owner[added] == (int)k) placed[n++] = m->operators[added++];
    }
    memcpy(m->operators, placed, n * sizeof *placed);
    for (size_t k = 0; k < n; k++)
        for (int o = 0; !m->operators[k].removed && o < m->operators[k].n_out; o++)
            if (m->operators[k].out[o] >= 0) m->tensors[m->operators[k].out[o]].producer = (int)k;
    return MP_OK;
}

static void freeze_others(writer *w, size_t n_tensors)
{
    for (size_t t = 0; t < n_tensors; t++) {
        mp_tensor *x = &w->model->tensors[t];
        bool trained = false;
        for (size_t k = 0; k < w->asked->n_train; k++) trained |= !fnmatch(w->asked->train[k], x->name, 0);
        if (x->role == MP_ROLE_PARAMETER) x->is_frozen = !trained;
    }
}

mp_status mp_model_add_adapters(mp_model *model, const mp_adapters *adapters, mp_error *err)
{
    const size_t n_tensors = model->n_tensors, n = model->n_operators;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    writer w = {.model = model, .asked = adapters, .n = n, .err = err};
    w.of = mp_pool_alloc(pool, n_tensors, sizeof *w.of);
    w.owner = mp_pool_alloc(pool, n * (STEPS_MAX + 1), sizeof *w.owner);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory");
    memset(w.of, -1, n_tensors * sizeof *w.of);
    for (size_t p = 0; p < adapters->n; p++) {
        int rank;
        const char *pattern;
        MP_ENSURE(mp_adapter_read(adapters->wanted[p], &rank, &pattern), err, MP_INVALID,
                  "the adapter '%s' is not RANK:PATTERN with a rank of 1 to %d, such as 8:*q_proj*", adapters->wanted[p],
                  MP_ADAPTER_RANK_MAX);
        if (!mp_adapter_matrices(model, pattern)) MP_CHECK(no_matrix(model, adapters->wanted[p], pattern, err));
    }
    for (size_t k = 0; k < n; k++) {
        int rank = 0;
        for (size_t p = 0; !rank && p < adapters->n && matrix_of(model, &model->operators[k]) >= 0; p++) {
            const char *pattern;
            int wanted;
            if (mp_adapter_read(adapters->wanted[p], &wanted, &pattern) && is_named(model, &model->operators[k], pattern))
                rank = wanted;
        }
        if (rank) MP_CHECK(adapt(&w, (int)k, rank));
    }
    freeze_others(&w, n_tensors);
    return place(&w);
}
