/* einsum.c - operands of matrix products and of Einsum. In "bij,bjk->bik" each letter labels a dimension of an operand. Labels
 * that are missing in the result are summed over.
 *
 * A label may occur several times in one term (a diagonal) and in several terms. All dimensions with the same label must
 * have the same size, or size 1 and are broadcast. "..." stands for any number of dimensions, broadcast from the right.
 * Without "->", the dimensions of the result are those of the ellipsis, followed by the labels that occur exactly once, in
 * alphabetical order (capitals first). */
#include "estimator/rules/operands/einsum.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/einsum.h"

/* Returns the position of a letter in the alphabet, capitals first. */
static int label_of(char letter)
{
    return letter <= 'Z' ? letter - 'A' : 26 + letter - 'a';
}
static char letter_of(int label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}
static bool is_letter(char ch)
{
    return (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z');
}

/* The text of one term of the equation, such as "bij". */
typedef struct term {
    const char *begin, *end;
} term;

/* Counts the letters of a term, and finds out whether it has an ellipsis. */
static mp_status count_letters(mp_infer *c, term text, int *n, bool *has_ellipsis)
{
    *n = 0;
    *has_ellipsis = false;
    for (const char *p = text.begin; p < text.end; p++) {
        if (*p == ' ') continue;
        if (*p == '.') {
            MP_FIT(!*has_ellipsis && text.end - p >= 3 && p[1] == '.' && p[2] == '.', "the equation has a misplaced '.'");
            *has_ellipsis = true;
            p += 2;
        } else {
            MP_FIT(is_letter(*p), "the equation has a misplaced '%c'", isprint((unsigned char)*p) ? *p : '?');
            ++*n;
        }
    }
    return MP_OK;
}

/* Reads the labels of a term. The ellipsis of the term stands for n_ellipsis dimensions. */
static mp_status read_term(mp_infer *c, term text, int n_ellipsis, int *labels, int *rank)
{
    *rank = 0;
    for (const char *p = text.begin; p < text.end; p++) {
        if (*p == ' ') continue;
        int n = *p == '.' ? n_ellipsis : 1;
        MP_FIT(*rank + n <= MP_RANK_MAX, "a term of the equation has more than %d dimensions", MP_RANK_MAX);
        if (*p == '.') {
            for (int k = n_ellipsis - 1; k >= 0; k--) labels[(*rank)++] = MP_EINSUM_LETTERS + k;
            p += 2;
        } else {
            labels[(*rank)++] = label_of(*p);
        }
    }
    return MP_OK;
}

/* Records the size of each label of an operand. Within one operand, all dimensions with the same label have the same size. */
static mp_status read_sizes(mp_infer *c, const mp_tensor *t, const int *labels, int64_t *size)
{
    int64_t own[MP_EINSUM_LABELS];
    memset(own, -1, sizeof own);
    for (int k = 0; k < t->rank; k++) {
        int label = labels[k];
        char letter = label < MP_EINSUM_LETTERS ? letter_of(label) : '.';
        int64_t n = t->dims[k];
        MP_FIT(own[label] < 0 || own[label] == n, "'%s' has sizes %" PRId64 " and %" PRId64 " for '%c'", t->name, own[label], n,
               letter);
        own[label] = n;
        if (size[label] < 0 || size[label] == 1) size[label] = n;
        MP_FIT(n == size[label] || n == 1, "'%c' is %" PRId64 " and %" PRId64, letter, size[label], n);
    }
    return MP_OK;
}

/* Builds the term of the result for an equation without "->". */
static mp_status imply_result(mp_infer *c, mp_einsum *e, int n_ellipsis)
{
    int times[MP_EINSUM_LETTERS] = {0}, *rank = &e->rank[e->n_operands];
    int *labels = e->labels[e->n_operands];
    for (int t = 0; t < e->n_operands; t++)
        for (int k = 0; k < e->rank[t]; k++)
            if (e->labels[t][k] < MP_EINSUM_LETTERS) times[e->labels[t][k]]++;
    *rank = 0;
    for (int k = n_ellipsis - 1; k >= 0; k--) labels[(*rank)++] = MP_EINSUM_LETTERS + k;
    for (int k = 0; k < MP_EINSUM_LETTERS; k++) {
        if (times[k] != 1) continue;
        MP_FIT(*rank < MP_RANK_MAX, "the result has more than %d dimensions", MP_RANK_MAX);
        labels[(*rank)++] = k;
    }
    return MP_OK;
}

/* Checks that every label of the result occurs once in the result, and in an operand. */
static mp_status check_result(mp_infer *c, const mp_einsum *e)
{
    bool seen[MP_EINSUM_LABELS] = {false};
    const int *labels = e->labels[e->n_operands];
    for (int k = 0; k < e->rank[e->n_operands]; k++) {
        char letter = labels[k] < MP_EINSUM_LETTERS ? letter_of(labels[k]) : '.';
        MP_FIT(e->size[labels[k]] >= 0, "the result names '%c', which no operand contains", letter);
        MP_FIT(!seen[labels[k]], "the result names '%c' twice", letter);
        seen[labels[k]] = true;
    }
    return MP_OK;
}

mp_status mp_einsum_read(mp_infer *c, mp_einsum *e)
{
    const char *equation = mp_operator_text(c->op, "equation", NULL);
    MP_FIT(equation, "the equation is missing");
    if (c->op->n_in < 1 || c->op->n_in > MP_EINSUM_OPERANDS)
        return mp_rule_raise(c, MP_UNSUPPORTED, __FILE__, __LINE__,
                             "an equation with %d operands is not supported, only with 1 or 2", c->op->n_in);
    e->n_operands = c->op->n_in;
    memset(e->size, -1, sizeof e->size);

    const char *arrow = strstr(equation, "->"), *end = equation + strlen(equation), *p = equation;
    const char *operands_end = arrow ? arrow : end;
    int n_ellipsis = 0, n;
    bool has_ellipsis;
    for (int t = 0; t < e->n_operands; t++) {
        const mp_tensor *x;
        MP_CHECK(mp_rule_input(c, t, 0, MP_RANK_MAX, &x));
        const char *comma = p ? memchr(p, ',', (size_t)(operands_end - p)) : NULL;
        MP_FIT(p && !!comma == (t + 1 < e->n_operands), "the equation does not have %d terms for %d operands", e->n_operands,
               e->n_operands);
        term text = {p, comma ? comma : operands_end};
        MP_CHECK(count_letters(c, text, &n, &has_ellipsis));
        MP_FIT(has_ellipsis ? x->rank >= n : x->rank == n, "the equation names %d dimensions of '%s', which has %d", n, x->name,
               x->rank);
        int own = x->rank - n;
        if (own > n_ellipsis) n_ellipsis = own;
        MP_CHECK(read_term(c, text, own, e->labels[t], &e->rank[t]));
        MP_CHECK(read_sizes(c, x, e->labels[t], e->size));
        p = comma ? comma + 1 : NULL;
    }
    if (arrow) {
        term text = {arrow + 2, end};
        MP_CHECK(count_letters(c, text, &n, &has_ellipsis));
        MP_CHECK(read_term(c, text, n_ellipsis, e->labels[e->n_operands], &e->rank[e->n_operands]));
    } else {
        MP_CHECK(imply_result(c, e, n_ellipsis));
    }
    return check_result(c, e);
}

mp_status mp_shape_einsum(mp_infer *c)
{
    mp_einsum e;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_einsum_read(c, &e));
    for (int k = 0; k < e.rank[e.n_operands]; k++) dims[k] = e.size[e.labels[e.n_operands][k]];
    return mp_infer_set(c, 0, mp_infer_in(c, 0)->dtype, e.rank[e.n_operands], dims);
}

mp_matrix mp_matmul_operand(const mp_model *model, const mp_operator *op, int k)
{
    const mp_tensor *t = mp_operator_in(model, op, k);
    mp_matrix m = {0};
    if (t->rank == 1) {
        m.is_vector = true;
        m.rows = k == 0 ? 1 : t->dims[0];
        m.columns = k == 0 ? t->dims[0] : 1;
        return m;
    }
    bool transposed = mp_operator_int(op, k == 0 ? "transA" : "transB", 0) != 0;
    bool batch_behind = mp_operator_int(op, k == 0 ? "transBatchA" : "transBatchB", 0) != 0;
    m.n_batch = t->rank - 2;
    memcpy(m.batch, t->dims + batch_behind, (size_t)m.n_batch * sizeof *m.batch);
    m.rows = t->dims[batch_behind ? 0 : t->rank - 2];
    m.columns = t->dims[t->rank - 1];
    if (transposed) {
        int64_t rows = m.rows;
        m.rows = m.columns;
        m.columns = rows;
    }
    return m;
}
