/* program_split.c - adapts a rank's program to operators that are split over ranks (estimator/parallel/split.h). Finds
 * unsupported splits, biases that must be added only once, and this rank's part of the loss. */
#include "executor/program/program_split.h"

#include <math.h>
#include <string.h>

#include "estimator/parallel/split.h"
#include "executor/operators/losses/losses.h"
#include "executor/program/program_nodes.h"
#include "executor/program/stage.h"

static bool is_any_of(const mp_operator *op, const char *const *kinds)
{
    while (*kinds && strcmp(op->kind, *kinds)) kinds++;
    return *kinds;
}

/* If `op` sums the result of another operator over the ranks, returns that operator, else NULL. */
static const mp_operator *summed_by(const mp_model *model, const mp_operator *op)
{
    const bool sums = !strcmp(op->domain, "memplan") && op->op->collectives[0] != MP_OPERATOR_NOTHING &&
                      op->op->collectives[0] != MP_OPERATOR_ALL_GATHER && op->op->collectives[0] != MP_OPERATOR_ALL_TO_ALL;
    const int maker = sums ? model->tensors[op->in[0]].producer : -1;
    return maker < 0 ? NULL : &model->operators[maker];
}

static mp_status refuse(const mp_operator *op, const mp_mesh *mesh, const char *what, mp_error *err)
{
    return MP_FAIL(err, MP_UNSUPPORTED, "%s ('%s') %s; this can be planned but not trained yet (mesh %s)", op->kind, op->name,
                   what, mp_mesh_write(mesh).text);
}

/* True if each rank computes the loss of its own positions (targets) only. */
static bool has_own_positions(const mp_model *model, const mp_operator *op)
{
    const mp_tensor_part *part = op->op->traits & MP_TRAIT_LOSS ? model->tensors[op->in[0]].part : NULL;
    return part && mp_class_loss_ranks(model, op) == 1;
}

static mp_status check_loss(const mp_model *model, const mp_operator *op, const mp_mesh *mesh, int loss, mp_error *err)
{
    if (!has_own_positions(model, op) || model->tensors[op->out[0]].rank) return MP_OK;
    return op->out[0] == loss ? MP_OK : refuse(op, mesh, "is split by positions over the ranks, but it is not the loss", err);
}

static mp_status check_operator(const mp_model *model, const mp_operator *op, const mp_mesh *mesh, int loss, mp_error *err)
{
    static const char *const drawn[] = {
        "RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial", NULL};
    static const char *const sums[] = {"MatMul",        "FusedMatMul", "Gemm",      "Conv", "Gather",
                                       "ConvTranspose", "ReduceMean",  "ReduceSum", NULL};
    const mp_operator *maker = summed_by(model, op);
    bool any = false;
    for (int k = 0; k < op->n_in + op->n_out; k++) {
        const int t = k < op->n_in ? op->in[k] : op->out[k - op->n_in];
        const mp_tensor_part *part = t < 0 ? NULL : model->tensors[t].part;
        if (part && part->dims[part->dim] % (part->outer * part->ranks))
            return refuse(op, mesh, "has parts of different sizes", err);
        any |= part != NULL;
    }
    if (any && is_any_of(op, drawn)) return refuse(op, mesh, "draws random numbers for a part of a tensor", err);
    if (maker && !is_any_of(maker, sums)) return refuse(maker, mesh, "is summed over ranks", err);
    return check_loss(model, op, mesh, loss, err);
}

mp_status mp_split_check(const mp_model *model, const mp_mesh *mesh, int loss, mp_error *err)
{
    for (size_t k = 0; k < model->n_operators && mesh->size[MP_DIM_TP] > 1; k++)
        if (!model->operators[k].removed) MP_CHECK(check_operator(model, &model->operators[k], mesh, loss, err));
    return MP_OK;
}

/* Makes all ranks except the first add zeros instead of the bias, if the result is summed over ranks. The bias then counts
 * once. */
static void add_once(mp_program *p, int op, int zeros, int64_t *bytes)
{
    enum { BIAS = 2 };
    for (size_t k = 0; k < p->n_nodes; k++) {
        mp_program_node *node = &p->nodes[k];
        const bool is_forward = mp_program_binding(p, (int)k)->op == op && !node->operands.is_backward;
        for (size_t s = 0; is_forward && s < node->n_slots; s++) {
            if (node->operands.n_in <= BIAS || node->slots[s].array != &node->operands.in[BIAS]) continue;
            node->slots[s].zeros = zeros;
            const int64_t n = mp_stored_elements(&p->model->tensors[node->operands.op->in[BIAS]]) *
                              (mp_dtype_bits(node->slots[s].array->dtype) / 8);
            if (n > *bytes) *bytes = n;
        }
    }
}

void mp_split_list_added_once(const mp_program *p, bool *out)
{
    for (size_t k = 0; k < p->n_nodes; k++)
        for (size_t s = 0; s < p->nodes[k].n_slots; s++)
            if (p->nodes[k].slots[s].zeros) out[mp_program_binding(p, (int)k)->op] = true;
}

mp_status mp_program_split(mp_program *p, mp_error *err)
{
    const mp_model *model = p->model;
    const int loss = p->bindings->loss, maker = loss < 0 ? -1 : model->tensors[loss].producer, zeros = (int)p->n_constants;
    int64_t bytes = 0;
    p->loss_parts = 1;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *of = model->operators[k].removed ? NULL : summed_by(model, &model->operators[k]);
        if (of) add_once(p, (int)(of - model->operators), zeros, &bytes);
    }
    if (maker >= 0 && has_own_positions(model, &model->operators[maker])) {
        const mp_operator *op = &model->operators[maker];
        p->loss_parts = (int)model->tensors[op->in[0]].part->ranks;
        p->adds_losses = op->op->traits & MP_TRAIT_CLASSES;
    }
    if (!bytes) return MP_OK;
    p->constants[p->n_constants] = (mp_constant){mp_pool_alloc(p->pool, (size_t)bytes, 1), bytes};
    MP_ENSURE(p->constants[p->n_constants++].bytes, err, MP_NOMEM, "out of memory");
    return MP_OK;
}

mp_status mp_program_price_split(mp_program *p, const mp_ranks *ranks, mp_error *err)
{
    mp_graph *g = p->graph;
    if (ranks->mesh.size[MP_DIM_TP] == 1 && !ranks->shares_statistics) return MP_OK;
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_binding *b = mp_program_binding(p, (int)k);
        const mp_work work = {.model = p->model,
                              .op = b->op < 0 ? NULL : &p->model->operators[b->op],
                              .phase = g->nodes[k].phase,
                              .binding = b,
                              .bindings = p->bindings};
        mp_alternative *a = g->nodes[k].alternatives;
        const int64_t before = a->ticks;
        mp_cost cost = {.seconds = (double)before * g->tick_seconds};
        mp_split_cost(ranks, &work, &cost);
        const int64_t more = llround(cost.seconds / g->tick_seconds) - before;
        for (size_t f = 0; f < g->nodes[k].n_alternatives; f++) a[f].ticks += more;
        if (!cost.collective.n_legs) continue;
        g->nodes[k].collective = mp_graph_collective(g, &cost.collective);
        if (!g->nodes[k].collective) return MP_NO_MEMORY(err);
    }
    return mp_graph_hash(g, g->hash, err);
}
