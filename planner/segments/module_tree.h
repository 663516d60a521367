/* module_tree.h - finds the modules of a network, and the calls of each module, from the names of forward nodes.
 *
 * "/layers.0/attn/q/MatMul" is in the modules layers.0, layers.0.attn and layers.0.attn.q. If a module is called twice, the
 * exporter numbers the second call: "/relu_1/Relu". If there is also a module `relu`, and no parameter name starts with
 * "relu_1.", both are calls of the module `relu`. Wrapping the module wraps all its calls.
 *
 * A module with operators that are not consecutive in the list is never wrapped, since torch.utils.checkpoint reruns a
 * contiguous part of the list.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* A call of a module consists of the forward nodes at positions [first, end). When backward needs a storage of the call,
 * torch.utils.checkpoint recomputes the nodes at positions [first, again_end). It stops when all storages that backward reads
 * are recomputed. */
typedef struct mp_module_call {
    int module;
    int first, end, again_end;
} mp_module_call;

typedef struct mp_module {
    const char *name; /* the module's path in PyTorch, such as "layers.0.attn" */
    int parent;       /* index of the enclosing module, which is smaller than the module's own index; -1: none */
    int n_calls;
    /* true: the module's operators are not consecutive in the list, so it is never wrapped in torch.utils.checkpoint */
    bool is_split;
} mp_module;

typedef struct mp_modules {
    const mp_graph *graph;
    /* n_positions: number of positions in the forward list; node: per position its forward node, in list order */
    int n_positions, *node;
    int n;
    mp_module *modules; /* parents before their children */
    int n_calls;
    mp_module_call *calls; /* sorted by `first`; an outer call precedes the calls inside it */
    mp_pool *pool;         /* owns all arrays and names */
} mp_modules;

/* Finds the modules of a graph. A module that contains the same operators as its parent is omitted. On MP_OK release *out with
 * mp_modules_free (NULL is allowed). MP_NOMEM. O(nodes * depth + reads * depth). */
mp_status mp_modules_new(const mp_graph *graph, mp_modules **out, mp_error *err);
void mp_modules_free(mp_modules *modules);
MP_OWNER(mp_modules_free, mp_modules)

/* True if a storage that a backward node reads is an output of forward, and not a gradient. O(1). */
bool mp_module_is_saved(const mp_storage *storage);

/* True if the two modules are the same module, or if one contains the other. O(depth). */
bool mp_modules_related(const mp_modules *modules, int a, int b);
