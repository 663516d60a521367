/* module_tree.h - the modules of a network, found from the names of its forward nodes, and their calls.
 *
 * "/layers.0/attn/q/MatMul" is in the modules layers.0, layers.0.attn and layers.0.attn.q. If a module is called twice, the
 * exporter numbers the second call: "/relu_1/Relu". If `relu` exists as well, and no parameter name starts with "relu_1.", both
 * are calls of one module, and wrapping it wraps all of them.
 *
 * A module with operators that are not consecutive in the list is never wrapped, since torch.utils.checkpoint reruns a
 * contiguous part of the list.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* A call of a module: the forward nodes at positions [first, end). When backward needs a storage of the call,
 * torch.utils.checkpoint reruns the nodes at [first, again_end). It stops as soon as all storages that backward reads are
 * recomputed. */
typedef struct mp_module_call {
    int module;
    int first, end, again_end;
} mp_module_call;

typedef struct mp_module {
    const char *name; /* the module's path in PyTorch, such as "layers.0.attn" */
    int parent;       /* index of the enclosing module, which is smaller; -1: none */
    int n_calls;
    bool is_split; /* the module's operators are not consecutive in the list, so it is never wrapped */
} mp_module;

typedef struct mp_modules {
    const mp_graph *graph;
    int n_positions, *node; /* number of positions; per position, its forward node, in list order */
    int n;
    mp_module *modules; /* parents before their children */
    int n_calls;
    mp_module_call *calls; /* sorted by first position; an outer call precedes the calls inside it */
    mp_pool *pool;         /* owns all arrays and names */
} mp_modules;

/* Finds the modules of a graph. A module with the same operators as its parent is left out. On MP_OK release *out with
 * mp_modules_free (NULL is allowed). MP_NOMEM. O(nodes * depth + reads * depth). */
mp_status mp_modules_new(const mp_graph *graph, mp_modules **out, mp_error *err);
void mp_modules_free(mp_modules *modules);
MP_OWNER(mp_modules_free, mp_modules)

/* True if a storage that backward reads is an output of forward rather than a gradient. O(1). */
bool mp_module_is_saved(const mp_storage *storage);

/* True if the modules are the same, or one is inside the other. O(depth). */
bool mp_modules_related(const mp_modules *modules, int a, int b);
