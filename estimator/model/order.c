/* order.c - sorts the operators of a model, and lists the readers of each tensor.
 *
 * The sort is a depth-first search in file order. An operator is placed after the producers of all its inputs. A valid file
 * therefore keeps its order, and a misplaced operator moves before its first reader. The search has an explicit stack, so a
 * chain of a million operators does not overflow the call stack. O(operators + operands). */
#include "estimator/model/order.h"

#include <string.h>

#include "estimator/model/ops.h"

enum { NEW, OPEN, PLACED };

/* An operator on the path of the search. The search has visited its first `next` operands. */
struct visit {
    int op, next;
};

/* The state of the depth-first search: a mark per operator, the path from the root, and the operators that are already placed
 * in the new order. */
struct search {
    unsigned char *mark;
    struct visit *path;
    size_t depth;
    int *order;
    size_t n_placed;
    bool *is_input; /* per tensor: true if the model declares it as an input */
};

/* Returns the operator that must run before `reader` can read a tensor; -1: no operator. `reader` NULL: the tensor is read
 * as an output of the model. */
static mp_status producer_of(const mp_model *model, const struct search *s, const mp_operator *reader, int tensor,
                             int *producer, mp_error *err)
{
    const mp_tensor *t = &model->tensors[tensor];
    *producer = t->producer;
    if (*producer >= 0 && !model->operators[*producer].removed) return MP_OK;
    *producer = -1;
    if (t->role != MP_ROLE_ACTIVATION || s->is_input[tensor] || t->is_formal) return MP_OK;
    if (!reader) return MP_FAIL(err, MP_PARSE, "no operator writes the declared output '%s'", t->name);
    return MP_FAIL(err, MP_PARSE, "operator '%s' reads tensor '%s', which no operator, input or initializer produces",
                   reader->name, t->name);
}

/* Places an operator in the execution order, after all operators on which it depends. */
static mp_status place(const mp_model *model, struct search *s, int root, mp_error *err)
{
    s->mark[root] = OPEN;
    s->path[0] = (struct visit){root, 0};
    s->depth = 1;
    while (s->depth) {
        struct visit *v = &s->path[s->depth - 1];
        const mp_operator *op = &model->operators[v->op];
        if (v->next == op->n_in) {
            s->mark[v->op] = PLACED;
            s->order[s->n_placed++] = v->op;
            s->depth--;
            continue;
        }
        int producer, tensor = op->in[v->next++];
        if (tensor < 0) continue;
        MP_CHECK(producer_of(model, s, op, tensor, &producer, err));
        if (producer < 0 || s->mark[producer] == PLACED) continue;
        if (s->mark[producer] == OPEN)
            return MP_FAIL(err, MP_PARSE, "operator '%s' is on a cycle: it reads tensor '%s', which depends on this operator",
                           op->name, model->tensors[tensor].name);
        s->mark[producer] = OPEN;
        s->path[s->depth++] = (struct visit){producer, 0};
    }
    return MP_OK;
}

mp_status mp_model_reorder(mp_model *model, const int *order, size_t n, mp_error *err)
{
    MP_OWNED mp_operator *moved = mp_alloc(n, sizeof *moved);
    if (!moved) return MP_FAIL(err, MP_NOMEM, "no memory to order %zu operators", n);
    for (size_t k = 0; k < model->n_tensors; k++) model->tensors[k].producer = -1;
    for (size_t k = 0; k < n; k++) {
        moved[k] = model->operators[order[k]];
        for (int j = 0; j < moved[k].n_out; j++)
            if (moved[k].out[j] >= 0) model->tensors[moved[k].out[j]].producer = (int)k;
    }
    if (n) memcpy(model->operators, moved, n * sizeof *moved);
    model->n_operators = n;
    return MP_OK;
}

mp_status mp_model_sort(mp_model *model, mp_error *err)
{
    size_t n = model->n_operators;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    struct search s = {.mark = mp_pool_alloc(pool, n, sizeof *s.mark),
                       .path = mp_pool_alloc(pool, n, sizeof *s.path),
                       .order = mp_pool_alloc(pool, n, sizeof *s.order),
                       .is_input = mp_pool_alloc(pool, model->n_tensors, sizeof *s.is_input)};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory to order %zu operators", n);
    for (size_t k = 0; k < model->n_inputs; k++) s.is_input[model->inputs[k]] = true;
    for (size_t k = 0; k < n; k++)
        if (s.mark[k] == NEW && !model->operators[k].removed) MP_CHECK(place(model, &s, (int)k, err));
    for (size_t k = 0; k < model->n_outputs; k++) {
        int producer;
        MP_CHECK(producer_of(model, &s, NULL, model->outputs[k], &producer, err));
    }
    return mp_model_reorder(model, s.order, s.n_placed, err);
}

mp_status mp_model_consumers(const mp_model *model, mp_consumers *out, mp_error *err)
{
    size_t n = model->n_tensors;
    MP_OWNED int *start = NULL, *list = NULL;
    /* start[t + 2] first counts the readers of t. After the sums, start[t + 1] is the begin of t's readers; storing the
     * readers advances it to their end */
    MP_ENSURE(start = mp_alloc(n + 2, sizeof *start), err, MP_NOMEM, "no memory for the readers of %zu tensors", n);
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        for (int j = 0; !op->removed && j < op->n_in; j++)
            if (op->in[j] >= 0) start[op->in[j] + 2]++;
    }
    for (size_t t = 0; t < n; t++) start[t + 2] += start[t + 1];
    MP_ENSURE(list = mp_alloc((size_t)start[n + 1], sizeof *list), err, MP_NOMEM, "no memory for %d operands", start[n + 1]);
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        for (int j = 0; !op->removed && j < op->n_in; j++)
            if (op->in[j] >= 0) list[start[op->in[j] + 1]++] = (int)k;
    }
    *out = (mp_consumers){start, list};
    start = list = NULL;
    return MP_OK;
}

void mp_consumers_free(mp_consumers *consumers)
{
    mp_free(consumers->start);
    mp_free(consumers->list);
    *consumers = (mp_consumers){NULL, NULL};
}

void mp_model_mark_trained(const mp_model *model, bool *trained)
{
    for (size_t t = 0; t < model->n_tensors; t++) trained[t] = model->tensors[t].role == MP_ROLE_PARAMETER;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        bool any = false;
        if (op->removed || !op->op || op->op->gradient == MP_GRADIENT_NONE) continue;
        for (int i = 0; i < op->n_in; i++) any |= op->in[i] >= 0 && trained[op->in[i]];
        for (int o = 0; any && o < op->n_out; o++)
            if (op->out[o] >= 0) trained[op->out[o]] = true;
    }
}
