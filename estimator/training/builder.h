/* builder.h - one training graph that is being built: storages, forward nodes, backward nodes, alternatives. Private to
 * estimator/training. */
#pragma once

#include "estimator/model/order.h"
#include "estimator/training/target.h"

/* A list of storages without repetition. */
typedef struct mp_list {
    int *items;
    size_t n, capacity;
} mp_list;

/* A contribution to a gradient that needs no node: the gradient of an output as it is, or one that is computed already. */
typedef struct mp_pending {
    int storage;
    int forward; /* the forward node it comes from */
    struct mp_pending *next;
} mp_pending;

/* The gradient buffer of a tensor and of all views of it. */
typedef struct mp_gradient_buffer {
    int storage;         /* -1: none yet */
    int n_contributions; /* contributions in the whole graph: one writes, several add */
    int n_started;       /* contributions whose node exists */
    bool starts_as_view; /* PyTorch's rules: the first contribution is a view, to which autograd adds nothing in place */
    mp_pending *pending; /* contributions without a node yet, oldest first */
    mp_pending *latest;  /* the last pending contribution, if there is one */
} mp_gradient_buffer;

typedef struct mp_builder {
    mp_pool *pool; /* owns the arrays that are not part of the bindings */
    const mp_model *model;
    const mp_training_options *options;
    const mp_target *target;
    const char *optimizer_name; /* the kind of update nodes */
    mp_consumers consumers;
    int loss; /* tensor, -1: gradients of the outputs are inputs */
    mp_graph *graph;
    mp_error *err;
    bool *relevant;                     /* per operator: the loss (without one: an output) depends on it */
    bool *has_gradient;                 /* per tensor: it depends on a trained parameter, and the loss on it */
    int *storage;                       /* per tensor: its storage, -1: none */
    int *key;                           /* per tensor: the tensor it is a view of (itself if none): they share a gradient */
    mp_gradient_buffer *gradient;       /* per key */
    int *forward;                       /* per operator: its forward node, -1: none */
    int (*extras)[MP_EXTRAS_MAX];       /* per operator: its extras' storages, -1: none */
    int (*copies)[2];                   /* per operator: contiguous copies of inputs 0 and 1 (PyTorch's rules), -1: none */
    int64_t **strides;                  /* per tensor, PyTorch's rules: of a view within its storage, NULL: dense */
    mp_list reads, writes, adds, pairs; /* of the current node; pairs are flat: from, to, from, to, ... */
    mp_binding binding;                 /* likewise */
    mp_bindings *bindings;              /* of the nodes so far */
} mp_builder;

/* Return the type in which a tensor is computed, and its bytes in that type: mixed precision halves floats. */
mp_dtype mp_builder_dtype(const mp_builder *b, int tensor);
int64_t mp_builder_bytes(const mp_builder *b, int tensor);
/* True for a parameter that ranks gather in 16 bits, with parts in float32. */
bool mp_builder_is_lowered(const mp_builder *b, int tensor);
/* Returns what the gradient of input k reads: MP_IN, MP_OUT, MP_EXTRA bits, MP_INPUTS. */
uint32_t mp_builder_needs(const mp_builder *b, const mp_operator *op, int k);

/* Adds a storage to the graph, rounded up to the target's alignment; *index is its number. MP_NOMEM, also for name
 * NULL, which means that there was no memory for the name. */
mp_status mp_builder_storage(mp_builder *b, const char *name, int64_t payload_bytes, mp_kind kind, int *index);
/* Adds a storage to a list unless it is in it already, or is -1. */
mp_status mp_builder_put(mp_builder *b, mp_list *list, int storage);
/* Adds an in-place pair to the current node if neither storage is persistent, both have the same size, and the rules allow it.
 */
mp_status mp_builder_pair(mp_builder *b, int from, int to);
/* Starts the binding of the current node. */
void mp_builder_task(mp_builder *b, mp_task task, int op);
/* Turns the lists and the binding into a node, costs it on the target (op may be NULL), and empties the lists.
 * `unmoved_bytes` are read but not moved (a gather's table). */
mp_status mp_builder_node(mp_builder *b, const char *name, const char *kind, mp_phase phase, const mp_operator *op,
                          int forward_of, double flops, int64_t unmoved_bytes, int *index);

/* Returns the storage that operand k of an operator is read from; -1 if it has none (it is left out, or small enough to be a
 * kernel's argument). */
int mp_builder_operand(const mp_builder *b, int op, int k);

/* Adds the storages of tensors, and the forward and loss nodes. MP_NOMEM, and what the target's costs fail with. */
mp_status mp_build_forward(mp_builder *b);

/* Adds gradient storages and the nodes that produce them, in reverse order of the forward nodes. MP_NOMEM, and what the
 * target's costs fail with. */
mp_status mp_build_backward(mp_builder *b);

/* True if the operator's outputs share its first input's storage. */
bool mp_builder_is_view(const mp_builder *b, const mp_operator *op);
/* Notes the strides of output t of such an operator under PyTorch's rules. MP_NOMEM. O(rank). */
mp_status mp_builder_lay_out(mp_builder *b, const mp_operator *op, int t);
/* Adds to the writes of the current node the dense copies that a batched product makes of its operands under PyTorch's rules.
 */
mp_status mp_builder_copies(mp_builder *b, int op);

/* Adds the storage in which a random operator may keep its mask, before its node is built. MP_NOMEM. */
mp_status mp_build_mask(mp_builder *b, int op);
/* Adds the alternatives of node `index`, which was built for operator `op`: keep a mask instead of redrawing it,
 * backward from the output. MP_NOMEM. */
mp_status mp_build_alternative(mp_builder *b, int op, int index);
