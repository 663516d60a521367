/* module_tree.h - the modules of a network, from the names of its forward nodes, and where each is called.
 *
 * "/layers.0/attn/q/MatMul" is in the modules layers.0, layers.0.attn and layers.0.attn.q. An exporter that meets a module
 * again numbers the second call, "/relu_1/Relu". If `relu` exists as well, and no parameter is called "relu_1.", both are calls
 * of one module, and wrapping it wraps all of them.
 *
 * Modules whose operators are not consecutive in the list are left out: torch.utils.checkpoint reruns a contiguous piece of it.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* A call of a module: the forward nodes at positions [first, end). When backward needs something of it,
 * torch.utils.checkpoint reruns [first, again_end): it stops as soon as all that backward reads is recomputed. */
typedef struct mp_module_call {
    int module;
    int first, end, again_end;
} mp_module_call;

typedef struct mp_module {
    const char *name; /* its name in PyTorch, "layers.0.attn" */
    int parent;       /* the module around it, which has a smaller index; -1: none */
    int n_calls;
    bool is_split; /* true if its operators are not consecutive: never chosen */
} mp_module;

typedef struct mp_modules {
    const mp_graph *graph;
    int n_positions, *node; /* the forward nodes, in list order */
    int n;
    mp_module *modules; /* parents before what they contain */
    int n_calls;
    mp_module_call *calls; /* sorted by first position; a call comes before those inside it */
    mp_pool *pool;         /* owns everything */
} mp_modules;

/* Finds the modules of a graph. A module with the same operators as the one around it is left out. On MP_OK *out is released
 * with mp_modules_free (NULL is fine). MP_NOMEM. O(nodes * depth + reads * depth). */
mp_status mp_modules_new(const mp_graph *graph, mp_modules **out, mp_error *err);
void mp_modules_free(mp_modules *modules);
MP_OWNER(mp_modules_free, mp_modules)

/* True if this storage, which backward reads, was saved by forward, that is, if it is no gradient. O(1). */
bool mp_module_is_saved(const mp_storage *storage);

/* True if the modules are the same, or one is inside the other. O(depth). */
bool mp_modules_related(const mp_modules *modules, int a, int b);
