/* chains.c - finds chains among the steps of a plan. */
#include "executor/run/chains.h"

#include "executor/program/program_nodes.h"

mp_call_chain_link mp_ready_step_bind(const mp_program *program, const mp_ready_step *r)
{
    mp_program_node *node = mp_program_node_at(program, r->node);
    mp_operands *x = &node->operands;
    for (size_t k = 0; k < r->n_slots; k++) node->slots[k].array->data = r->slots[k];
    x->workspace = r->workspace;
    x->alternative = r->alternative;
    x->algorithm = program->graph->nodes[r->node].alternatives[r->alternative].algorithm;
    return (mp_call_chain_link){node->n_algorithms ? &node->algorithms[r->alternative].call : &node->call, x, true, true};
}

/* Returns the storage of the first result of a node; -1: none. */
static int result_of(const mp_program_node *node)
{
    const mp_operands *x = &node->operands;
    const mp_array *result = x->is_backward ? x->d_in : x->out;
    for (size_t k = 0; k < node->n_slots; k++)
        if (node->slots[k].array == result) return node->slots[k].storage;
    return -1;
}

static bool ends_in(const mp_addresses *a, int storage, size_t from, size_t to)
{
    for (size_t t = from; t < to; t++)
        for (size_t k = 0; k < a->steps[t].n_dead; k++)
            if (storage >= 0 && a->places[a->steps[t].dead[k]].storage == storage) return true;
    return false;
}

static bool runs_operator(const mp_addresses *a, size_t t)
{
    const mp_ready_step *r = &a->steps[t];
    return mp_ready_step_does(r, a->program, MP_TASK_FORWARD) || mp_ready_step_does(r, a->program, MP_TASK_BACKWARD);
}

mp_call_chain_launch mp_call_chain_at(const mp_addresses *a, size_t t, size_t most)
{
    const mp_backend *b = a->program->backend;
    mp_call_chain_launch launch = {0};
    size_t n = 0;
    if (!b->chain) return launch;
    for (; n < most && n < MP_CHAIN_LINKS && t + n < a->plan->n_steps && runs_operator(a, t + n); n++) {
        mp_call_chain_link *link = &launch.chain.links[n];
        *link = mp_ready_step_bind(a->program, &a->steps[t + n]);
        for (size_t k = 0; k < n; k++)
            if (launch.chain.links[k].x == link->x) return launch; /* a node that runs twice has one set of operands */
        if (link->x->is_backward && (link->x->adds & ~link->call->adds)) break;
    }
    for (; n > 1 && !launch.run; n--) {
        launch.chain.n = n;
        for (size_t k = 0; k < n; k++) {
            mp_call_chain_link *link = &launch.chain.links[k];
            link->is_read = !ends_in(a, result_of(mp_program_node_at(a->program, a->steps[t + k].node)), t + k, t + n);
            link->uses_workspace = true;
        }
        launch.run = b->chain(b, &launch.chain);
        if (launch.run && !mp_call_chain_is_safe(&launch.chain)) launch.run = NULL;
    }
    return launch;
}
