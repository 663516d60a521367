/* node_list.c - moves the nodes of a program to new indices in the list of calls and the list of bindings. */
#include "executor/program/node_list.h"

void mp_node_list_release(mp_program_node *node)
{
    mp_call_release(&node->call);
    for (size_t a = 0; a < node->n_algorithms; a++) mp_call_release(&node->algorithms[a].call);
}

/* Moves a node to another address. Pointers from its slots to its own operands are adjusted. */
static void move(const mp_program_node *from, mp_program_node *to)
{
    *to = *from;
    for (size_t k = 0; k < to->n_slots; k++) {
        const ptrdiff_t at = (const char *)to->slots[k].array - (const char *)from;
        if (at >= 0 && at < (ptrdiff_t)sizeof *from) to->slots[k].array = (mp_array *)((char *)to + at);
    }
}

mp_status mp_node_list_renumber(mp_program *p, const int *number, size_t n, mp_error *err)
{
    mp_bindings *bound = p->bindings;
    MP_OWNED mp_program_node *nodes = mp_alloc(n, sizeof *nodes);
    MP_OWNED mp_binding *bindings = mp_alloc(n, sizeof *bindings);
    MP_ENSURE(nodes && bindings, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++)
        bindings[k] =
            (mp_binding){.task = MP_TASK_COLLECTIVE, .op = -1, .source = -1, .target = -1, .state = -1, .parameter = -1};
    for (size_t k = 0; k < p->n_nodes; k++) {
        if (number[k] < 0) {
            mp_node_list_release(&p->nodes[k]);
            continue;
        }
        move(&p->nodes[k], &nodes[number[k]]);
        bindings[number[k]] = bound->nodes[k];
    }
    mp_free(p->nodes);
    mp_free(bound->nodes);
    p->nodes = nodes;
    bound->nodes = bindings;
    p->n_nodes = p->capacity = bound->n_nodes = bound->capacity = n;
    nodes = NULL;
    bindings = NULL;
    return MP_OK;
}
