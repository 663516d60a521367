/* program_algorithms.c - a node may have several algorithms, which differ in time and workspace. This file prepares a call for
 * each one, and lists the algorithms of a backend. */
#include <string.h>

#include "executor/program/program_nodes.h"

static void forget(mp_program_node *node)
{
    for (size_t k = 0; k < node->n_algorithms; k++) mp_call_release(&node->algorithms[k].call);
    node->n_algorithms = 0;
}

/* Prepares the call of every alternative of node i. `drops`: alternatives whose call cannot be prepared are removed. */
static mp_status prepare(mp_program *p, size_t i, bool drops, mp_error *err)
{
    mp_program_node *node = mp_program_node_at(p, (int)i);
    mp_node *of = &p->graph->nodes[i];
    mp_operands x = node->operands;
    mp_error refusal = {0};
    size_t n = 0;
    forget(node);
    MP_ENSURE(x.op, err, MP_INVALID, "node '%s' names an algorithm, but only nodes of operators can", of->name);
    node->algorithms = mp_pool_alloc(p->pool, of->n_alternatives, sizeof *node->algorithms);
    MP_ENSURE(node->algorithms, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < of->n_alternatives; k++) {
        mp_call *call = &node->algorithms[n].call;
        mp_alternative alternative = of->alternatives[k];
        if (alternative.returns) { /* an alternative that copies an offloaded tensor back is no algorithm and has no call */
            of->alternatives[n] = alternative;
            node->n_algorithms = ++n;
            continue;
        }
        x.algorithm = alternative.algorithm;
        const mp_status st = p->backend->algorithms
                                 ? mp_call_prepare(p->backend, p->backend->kernel(p->backend, x.op), &x, call, &refusal)
                                 : MP_UNSUPPORTED;
        if (st == MP_UNSUPPORTED && drops) continue;
        MP_ENSURE(st != MP_UNSUPPORTED, err, st,
                  "the %s backend has no algorithm '%s' here for '%s' (%s); run 'memplan profile' again", p->backend->name,
                  alternative.algorithm, of->name, of->op);
        MP_ENSURE(st == MP_OK, err, st, "%s", refusal.message);
        node->n_algorithms = ++n;
        MP_ENSURE(mp_round_up(call->workspace_bytes, p->backend->alignment, &alternative.workspace_bytes), err, MP_INVALID,
                  "'%s' needs too much workspace", of->name);
        of->alternatives[n - 1] = alternative;
    }
    of->n_alternatives = n;
    return MP_OK;
}

mp_status mp_program_take_algorithms(mp_program *p, mp_error *err)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        if (mp_node_has_algorithms(&p->graph->nodes[i])) MP_CHECK(prepare(p, i, false, err));
    return mp_graph_hash(p->graph, p->graph->hash, err);
}

/* Makes the backend's algorithms the alternatives of node i. */
static mp_status list(mp_program *p, size_t i, mp_error *err)
{
    mp_program_node *node = mp_program_node_at(p, (int)i);
    mp_node *of = &p->graph->nodes[i];
    const mp_alternative base = of->alternatives[0];
    mp_algorithms found = {0};
    if (!node->operands.op || of->n_alternatives > 1) return MP_OK;
    MP_CHECK(p->backend->algorithms(p->backend, &node->operands, &found, err));
    if (found.n < 2) return MP_OK;
    mp_alternative *alternatives = mp_pool_alloc(p->graph->pool, (size_t)found.n, sizeof *alternatives);
    MP_ENSURE(alternatives, err, MP_NOMEM, "out of memory");
    for (int k = 0; k < found.n; k++) {
        alternatives[k] = base;
        alternatives[k].algorithm = mp_pool_text(p->graph->pool, found.list[k].name, strlen(found.list[k].name));
        MP_ENSURE(alternatives[k].algorithm, err, MP_NOMEM, "out of memory");
    }
    of->alternatives = alternatives;
    of->n_alternatives = (size_t)found.n;
    MP_CHECK(prepare(p, i, true, err));
    mp_program_algorithm *taken = node->algorithms;
    for (size_t k = 0; k < of->n_alternatives; k++)
        for (int f = 0; f < found.n; f++)
            if (!strcmp(found.list[f].name, of->alternatives[k].algorithm))
                taken[k].is_deterministic = found.list[f].is_deterministic;
    if (of->n_alternatives > 1) return MP_OK;
    forget(node); /* a single algorithm is no choice: it becomes the node's call */
    alternatives[0] = base;
    of->n_alternatives = 1;
    return MP_OK;
}

mp_status mp_program_list_algorithms(mp_program *p, mp_error *err)
{
    if (!p->backend->algorithms) return MP_OK;
    for (size_t i = 0; i < p->n_nodes; i++) MP_CHECK(list(p, i, err));
    return mp_graph_hash(p->graph, p->graph->hash, err);
}
