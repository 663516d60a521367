/* module_tree.h - the modules of a network, as the names of its forward nodes tell them, and where each is called.
 *
 * "/layers.0/attn/q/MatMul" stands in the modules layers.0, layers.0.attn and layers.0.attn.q. An exporter that meets a module
 * again names the second call with a number, "/relu_1/Relu": where `relu` is there as well and no parameter is called
 * "relu_1.", both are calls of one module, and whoever wraps it wraps all of them.
 *
 * Left out are modules whose operators do not stand together in the list: what torch.utils.checkpoint runs again is a piece of
 * it.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* A call: the forward nodes at positions [first, end). When backward needs something of it, torch.utils.checkpoint runs
 * [first, again_end): it stops where all that backward reads is there again. */
typedef struct mp_module_call {
    int module;
    int first, end, again_end;
} mp_module_call;

typedef struct mp_module {
    const char *name; /* as PyTorch calls it, "layers.0.attn" */
    int parent;       /* a module before it; -1: none */
    int n_calls;
    bool is_split; /* not in one piece: never chosen */
} mp_module;

typedef struct mp_modules {
    const mp_graph *graph;
    int n_positions, *node; /* the forward nodes, in list order */
    int n;
    mp_module *modules; /* parents before what they contain */
    int n_calls;
    mp_module_call *calls; /* by first position, what contains others first */
    mp_pool *pool;         /* owns all of it */
} mp_modules;

/* The modules of a graph; a module with the same operators as the one around it is left out. On MP_OK *out is released with
 * mp_modules_free (NULL is fine). MP_NOMEM. O(nodes * depth + reads * depth). */
mp_status mp_modules_new(const mp_graph *graph, mp_modules **out, mp_error *err);
void mp_modules_free(mp_modules *modules);
MP_OWNER(mp_modules_free, mp_modules)

/* True if what backward reads of this storage is something that forward has saved: no gradient. O(1). */
bool mp_module_is_saved(const mp_storage *storage);

/* True if one of two modules is the other, or in it. O(depth). */
bool mp_modules_related(const mp_modules *modules, int a, int b);
