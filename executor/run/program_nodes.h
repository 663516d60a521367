/* program_nodes.h - the binding and the prepared call of a node, with verified indices. */
#pragma once

#include "estimator/base/invariant.h"
#include "executor/run/program.h"

/* True if the program has a call and a binding for a node of its graph. Copies to other tiers are nodes behind those of the
 * program (mp_graph_offload): they have neither. */
static inline bool mp_program_has_node(const mp_program *program, int node)
{
    return node >= 0 && (size_t)node < program->n_nodes;
}

/* Returns the binding, or the prepared call, of a node that the program has; debug builds verify this. */
static inline const mp_binding *mp_program_binding(const mp_program *program, int node)
{
    MP_INVARIANT(mp_program_has_node(program, node) && program->n_nodes == program->bindings->n_nodes);
    return &program->bindings->nodes[node];
}

static inline mp_program_node *mp_program_node_at(const mp_program *program, int node)
{
    MP_INVARIANT(mp_program_has_node(program, node));
    return &program->nodes[node];
}

/* True if a node has this task. A copy to another tier has none. */
static inline bool mp_program_does(const mp_program *program, int node, mp_task task)
{
    return mp_program_has_node(program, node) && mp_program_binding(program, node)->task == task;
}
