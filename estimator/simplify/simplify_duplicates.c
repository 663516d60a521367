/* simplify_duplicates.c - merges equal operators with equal inputs (common subexpression elimination).
 *
 * The key of an operator is a text: its row, its attributes sorted by name, its inputs. Constants are equal if type, shape and
 * elements are equal. The first operator with a key is kept. Operators that draw random numbers or update statistics are never
 * merged. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/names.h"
#include "estimator/simplify/rewrite.h"

enum {
    CONSTANT_IN_KEY_MAX = 64
}; /* limit of the number of elements of constants that are compared; a larger constant counts as equal only to itself */

/* A text (the key of an operator) under construction. `whole` is false after a failed allocation. */
struct key {
    char *text;
    size_t n, capacity;
    bool whole;
};

static void add(struct key *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct key *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    key->whole = key->whole && n >= 0 && mp_grow(&key->text, &key->capacity, key->n + (size_t)n + 1, 1);
    if (!key->whole) return;
    va_start(args, format);
    vsnprintf(key->text + key->n, (size_t)n + 1, format, args);
    va_end(args);
    key->n += (size_t)n;
}

static void add_text(struct key *key, const char *text)
{
    add(key, "%zu:%s ", strlen(text), text);
}

static void add_value(struct key *key, mp_dtype dtype, int rank, const int64_t *dims, const mp_value *value)
{
    add(key, "%d[", (int)dtype);
    for (int k = 0; k < rank; k++) add(key, "%lld ", (long long)dims[k]);
    add(key, "]");
    for (int64_t k = 0; k < value->n; k++) {
        if (value->is_real)
            add(key, "%a ", value->f[k]);
        else
            add(key, "%lld ", (long long)value->i[k]);
    }
}

/* Adds an attribute to the key. Returns false if different attributes could give the same key. */
static bool add_attribute(struct key *key, const mp_attribute *a)
{
    add_text(key, a->name);
    add(key, "%d=%lld %a ", (int)a->kind, (long long)a->i, a->f);
    if (a->text) add_text(key, a->text);
    for (size_t k = 0; a->ints && k < a->n; k++) add(key, "%lld ", (long long)a->ints[k]);
    for (size_t k = 0; a->floats && k < a->n; k++) add(key, "%a ", a->floats[k]);
    if (a->kind == MP_ATTRIBUTE_TENSOR && a->value) add_value(key, a->dtype, a->rank, a->dims, a->value);
    return a->kind != MP_ATTRIBUTE_OTHER && (a->kind != MP_ATTRIBUTE_TENSOR || a->value);
}

static int by_name(const void *a, const void *b)
{
    const mp_attribute *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static mp_status add_attributes(struct key *key, const mp_operator *op, bool *comparable, mp_error *err)
{
    MP_OWNED const mp_attribute **sorted = mp_alloc(op->n_attributes, sizeof *sorted);
    if (!sorted) return MP_FAIL(err, MP_NOMEM, "no memory to compare operator '%s'", op->name);
    for (size_t k = 0; k < op->n_attributes; k++) sorted[k] = &op->attributes[k];
    qsort(sorted, op->n_attributes, sizeof *sorted, by_name);
    for (size_t k = 0; k < op->n_attributes; k++) *comparable &= add_attribute(key, sorted[k]);
    return MP_OK;
}

static void add_operand(struct key *key, const mp_model *model, int tensor)
{
    const mp_tensor *t = tensor >= 0 ? &model->tensors[tensor] : NULL;
    if (t && t->role == MP_ROLE_CONSTANT && t->value && t->value->n <= CONSTANT_IN_KEY_MAX && t->rank >= 0)
        add_value(key, t->dtype, t->rank, t->dims, t->value);
    else
        add(key, "t%d ", tensor);
}

/* Writes the key that identifies the computation of an operator. *comparable is false if the operator must not be merged. */
static mp_status write_key(const mp_model *model, const mp_operator *op, struct key *key, bool *comparable, mp_error *err)
{
    bool commutes = op->op && (op->op->traits & MP_TRAIT_COMMUTES) && op->n_in == 2, swap = commutes && op->in[0] > op->in[1];
    key->n = 0;
    key->whole = true;
    *comparable = op->op && !(op->op->traits & (MP_TRAIT_RANDOM | MP_TRAIT_STATISTICS));
    if (!*comparable) return MP_OK;
    add_text(key, op->domain);
    add_text(key, op->kind);
    add(key, "%d ", op->version);
    for (int k = 0; k < op->n_out; k++) add(key, "%c", op->out[k] < 0 ? '-' : 'y');
    for (int k = 0; k < op->n_in; k++) add_operand(key, model, op->in[swap ? 1 - k : k]);
    MP_CHECK(add_attributes(key, op, comparable, err));
    MP_ENSURE(key->whole, err, MP_NOMEM, "no memory to compare operator '%s'", op->name);
    return MP_OK;
}

/* Replaces operator `index` by the equal operator `first`. Declared outputs keep their names. If both operators write a
 * declared output, neither is removed. */
static bool merge(mp_rewriter *r, int first, int index)
{
    mp_model *model = r->model;
    mp_operator *a = &model->operators[first], *b = &model->operators[index];
    for (int k = 0; k < b->n_out; k++)
        if (b->out[k] >= 0 && model->tensors[b->out[k]].is_output && model->tensors[a->out[k]].is_output) return false;
    mp_rewriter_remove(r, index);
    for (int k = 0; k < b->n_out; k++) {
        int kept = a->out[k], gone = b->out[k];
        if (gone < 0) continue;
        if (model->tensors[gone].is_output) {
            gone = kept;
            kept = a->out[k] = b->out[k];
            model->tensors[gone].producer = -1;
            model->tensors[kept].producer = first;
        }
        mp_rewriter_replace(r, gone, kept);
    }
    return true;
}

struct state {
    struct key key;
    mp_names *firsts; /* map from the key of an operator to the first operator with this key */
    mp_pool *pool;    /* memory pool that owns the texts of the keys */
};

static mp_status merge_with_equal(mp_rewriter *r, struct state *s, int index)
{
    const char *own;
    bool comparable;
    MP_CHECK(write_key(r->model, &r->model->operators[index], &s->key, &comparable, r->err));
    if (!comparable) return MP_OK;
    int first = mp_names_find(s->firsts, s->key.text);
    if (first >= 0) {
        r->changes += merge(r, first, index);
        return MP_OK;
    }
    MP_ENSURE((own = mp_pool_text(s->pool, s->key.text, s->key.n)) && mp_names_set(s->firsts, own, index), r->err, MP_NOMEM,
              "no memory to compare operators");
    return MP_OK;
}

static void clear(struct state *s)
{
    mp_free(s->key.text);
    mp_names_free(s->firsts);
    mp_pool_free(s->pool);
}

mp_status mp_rewrite_duplicates(mp_rewriter *r)
{
    MP_CLEARED_BY(clear) struct state s = {.firsts = mp_names_new(), .pool = mp_pool_new()};
    MP_ENSURE(s.firsts && s.pool, r->err, MP_NOMEM, "no memory to compare operators");
    for (size_t k = 0; k < r->model->n_operators; k++) {
        if (r->model->operators[k].removed) continue;
        mp_rewriter_update(r, (int)k);
        MP_CHECK(merge_with_equal(r, &s, (int)k));
    }
    return MP_OK;
}
