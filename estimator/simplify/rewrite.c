/* rewrite.c - implements changes to a model (rewrite.h) and lists of operators that form a pattern. */
#include "estimator/simplify/rewrite.h"

#include <math.h>
#include <string.h>

#include "estimator/simplify/infer.h"

enum { UNIFORM_MAX = 1 << 14 }; /* constants with more elements than this are not checked for equal elements */

void mp_rewriter_update(mp_rewriter *r, int index)
{
    mp_operator *op = &r->model->operators[index];
    for (int k = 0; k < op->n_in; k++)
        if (op->in[k] >= 0) op->in[k] = mp_model_resolve(r->model, op->in[k]);
}

void mp_rewriter_start(mp_rewriter *r)
{
    mp_model *model = r->model;
    r->changes = 0;
    for (size_t t = 0; t < model->n_tensors; t++) {
        mp_tensor *tensor = &model->tensors[t];
        r->n_readers[t] = tensor->is_output;
        if (tensor->replaced_by >= 0) tensor->replaced_by = mp_model_resolve(model, tensor->replaced_by);
    }
    for (size_t k = 0; k < model->n_operators; k++) {
        mp_operator *op = &model->operators[k];
        if (op->removed) continue;
        mp_rewriter_update(r, (int)k);
        for (int j = 0; j < op->n_in; j++)
            if (op->in[j] >= 0) r->n_readers[op->in[j]]++;
    }
}

mp_status mp_rewriter_each(mp_rewriter *r, mp_rewrite_rule rule)
{
    for (size_t k = 0; k < r->model->n_operators; k++) {
        if (r->model->operators[k].removed) continue;
        mp_rewriter_update(r, (int)k);
        MP_CHECK(rule(r, (int)k));
    }
    return MP_OK;
}

void mp_rewriter_replace(mp_rewriter *r, int old, int by)
{
    r->model->tensors[old].replaced_by = by;
    r->n_readers[by] += r->n_readers[old];
    r->n_readers[old] = 0;
}

void mp_rewriter_remove(mp_rewriter *r, int index)
{
    mp_operator *op = &r->model->operators[index];
    op->removed = true;
    for (int k = 0; k < op->n_in; k++)
        if (op->in[k] >= 0) r->n_readers[op->in[k]]--;
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0 && r->model->tensors[op->out[k]].producer == index) r->model->tensors[op->out[k]].producer = -1;
}

bool mp_rewriter_bypass(mp_rewriter *r, int index, int from)
{
    mp_model *model = r->model;
    const mp_operator *op = &model->operators[index];
    int to = op->out[0], producer = model->tensors[from].producer;
    for (int k = 1; k < op->n_out; k++)
        if (op->out[k] >= 0 && r->n_readers[op->out[k]]) return false;
    if (!model->tensors[to].is_output) {
        mp_rewriter_remove(r, index);
        mp_rewriter_replace(r, to, from);
        return true;
    }
    if (producer < 0 || model->tensors[from].is_output) return false;
    mp_rewriter_remove(r, index);
    for (int k = 0; k < model->operators[producer].n_out; k++)
        if (model->operators[producer].out[k] == from) model->operators[producer].out[k] = to;
    model->tensors[from].producer = -1;
    model->tensors[to].producer = producer;
    mp_rewriter_replace(r, from, to);
    return true;
}

mp_status mp_rewriter_become(mp_rewriter *r, int index, const mp_operator_draft *draft)
{
    mp_model *model = r->model;
    mp_operator *op = &model->operators[index];
    mp_operator next = *op;
    next.op = NULL;
    next.n_in = draft->n_in;
    next.n_attributes = draft->n_attributes;
    next.version = strcmp(op->domain, draft->domain) || op->version < draft->version ? draft->version : op->version;
    MP_ENSURE((next.kind = mp_pool_text(model->pool, draft->kind, strlen(draft->kind))) &&
                  (next.domain = mp_pool_text(model->pool, draft->domain, strlen(draft->domain))) &&
                  (next.in = mp_pool_alloc(model->pool, (size_t)draft->n_in, sizeof *next.in)),
              r->err, MP_NOMEM, "no memory to rewrite operator '%s'", op->name);
    if (draft->n_in) memcpy(next.in, draft->in, (size_t)draft->n_in * sizeof *next.in);
    MP_CHECK(mp_attributes_copy(model, draft->attributes, draft->n_attributes, &next.attributes, r->err));
    for (int k = 0; k < op->n_in; k++)
        if (op->in[k] >= 0) r->n_readers[op->in[k]]--;
    for (int k = 0; k < next.n_in; k++)
        if (next.in[k] >= 0) r->n_readers[next.in[k]]++;
    *op = next;
    return mp_operator_infer(model, index, r->err);
}

int mp_producer(const mp_rewriter *r, int tensor)
{
    return tensor < 0 ? -1 : r->model->tensors[tensor].producer;
}

const mp_operator *mp_writer(const mp_rewriter *r, int tensor)
{
    const int index = mp_producer(r, tensor);
    return index < 0 ? NULL : &r->model->operators[index];
}

const mp_operator *mp_written_by(const mp_rewriter *r, int tensor, const char *kind)
{
    const mp_operator *op = mp_writer(r, tensor);
    return op && mp_is_kind(op, kind) ? op : NULL;
}

const mp_operator *mp_view(const mp_rewriter *r, int tensor)
{
    const mp_operator *op = mp_writer(r, tensor);
    return op && op->op && op->op->gradient == MP_GRADIENT_VIEW ? op : NULL;
}

bool mp_swaps_last_two(const mp_model *model, const mp_operator *op)
{
    const int rank = mp_operator_in(model, op, 0)->rank;
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    if (!perm) return rank == 2;
    for (int d = 0; d + 2 < rank; d++)
        if (perm[d] != d) return false;
    return rank >= 2 && perm[rank - 2] == rank - 1;
}

bool mp_is_kind(const mp_operator *op, const char *kind)
{
    return !strcmp(op->kind, kind) && (!op->domain[0] || !strcmp(op->domain, "ai.onnx"));
}

bool mp_known_scalar(const mp_rewriter *r, int tensor, double *c)
{
    if (tensor < 0) return false;
    const mp_tensor *t = &r->model->tensors[tensor];
    const mp_value *value = t->value;
    if (!value || t->role != MP_ROLE_CONSTANT || value->n < 1 || value->n > UNIFORM_MAX) return false;
    for (int64_t k = 1; k < value->n; k++)
        if (value->is_real ? !(value->f[k] == value->f[0]) : value->i[k] != value->i[0]) return false;
    *c = value->is_real ? value->f[0] : (double)value->i[0];
    return true;
}

bool mp_near(double value, double wanted)
{
    return fabs(value - wanted) <= 1e-3 * fabs(wanted);
}

bool mp_pattern_add(mp_pattern *pattern, int op)
{
    for (int k = 0; k < pattern->n; k++)
        if (pattern->ops[k] == op) return true;
    if (pattern->n == MP_PATTERN_MAX) return false;
    pattern->ops[pattern->n++] = op;
    return true;
}

const mp_operator *mp_pattern_written_by(const mp_rewriter *r, mp_pattern *pattern, int tensor, const char *kind)
{
    const mp_operator *op = mp_written_by(r, tensor, kind);
    return op && mp_pattern_add(pattern, mp_producer(r, tensor)) ? op : NULL;
}

/* Returns how many operands of the pattern's operators are this tensor. */
static int count_uses(const mp_rewriter *r, const mp_pattern *pattern, int tensor)
{
    int n = 0;
    for (int k = 0; k < pattern->n; k++) {
        const mp_operator *op = &r->model->operators[pattern->ops[k]];
        for (int j = 0; j < op->n_in; j++) n += op->in[j] == tensor;
    }
    return n;
}

bool mp_pattern_is_closed(const mp_rewriter *r, const mp_pattern *pattern, int root)
{
    for (int k = 0; k < pattern->n; k++) {
        const mp_operator *op = &r->model->operators[pattern->ops[k]];
        for (int j = 0; pattern->ops[k] != root && j < op->n_out; j++)
            if (op->out[j] >= 0 && r->n_readers[op->out[j]] != count_uses(r, pattern, op->out[j])) return false;
    }
    return true;
}

bool mp_are_of_one_call(const mp_operator *a, const mp_operator *b, bool otherwise)
{
    return a->call && b->call ? !strcmp(a->call, b->call) : otherwise;
}

mp_pattern_calls mp_pattern_called(const mp_rewriter *r, const mp_pattern *pattern)
{
    const char *first = pattern->n ? r->model->operators[pattern->ops[0]].call : NULL;
    for (int k = 0; k < pattern->n; k++) {
        const char *call = r->model->operators[pattern->ops[k]].call;
        if (!first || !call) return MP_CALLS_UNSAID;
        if (strcmp(first, call) != 0) return MP_CALLS_SEVERAL;
    }
    return MP_CALLS_ONE;
}

mp_status mp_pattern_fuse(mp_rewriter *r, const mp_pattern *pattern, int root, const mp_operator_draft *draft)
{
    for (int k = 0; k < pattern->n; k++) {
        const mp_operator *op = &r->model->operators[pattern->ops[k]];
        if (pattern->ops[k] == root) continue;
        mp_rewriter_remove(r, pattern->ops[k]);
        for (int j = 0; j < op->n_out; j++)
            if (op->out[j] >= 0) r->model->tensors[op->out[j]].replaced_by = r->model->operators[root].out[0];
    }
    r->changes++;
    return mp_rewriter_become(r, root, draft);
}
