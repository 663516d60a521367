/* program_nodes.h - access to the binding and the prepared call of a node, with checked indices. */
#pragma once

#include "estimator/base/invariant.h"
#include "executor/program/program.h"

/* True if the program has a call and a binding for a node of its graph. Copies to other tiers (mp_graph_offload) have neither;
 * their nodes have higher indices than the nodes of the program. */
static inline bool mp_program_has_node(const mp_program *program, int node)
{
    return node >= 0 && (size_t)node < program->n_nodes;
}

/* Return the binding, or the prepared call, of a node of the program; debug builds check the index. */
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

/* True if a node of the program has this task. A copy to another tier has no task. */
static inline bool mp_program_does(const mp_program *program, int node, mp_task task)
{
    return mp_program_has_node(program, node) && mp_program_binding(program, node)->task == task;
}
