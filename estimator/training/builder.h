/* builder.h - builds one training graph: storages, forward nodes, backward nodes, alternatives. Private to
 * estimator/training. */
#pragma once

#include "estimator/model/order.h"
#include "estimator/training/target.h"

/* A list of storages without duplicates. */
typedef struct mp_list {
    int *items;
    size_t n, capacity;
} mp_list;

/* A contribution to a gradient that needs no node of its own: the unchanged gradient of an output, or a gradient that already
 * exists. */
typedef struct mp_pending {
    int storage;
    int forward; /* index of the forward node whose backward contributes */
    struct mp_pending *next;
} mp_pending;

/* The gradient buffer of a tensor and of all views of it. */
typedef struct mp_gradient_buffer {
    int storage;         /* storage of the gradient; -1: it has no storage so far */
    int n_contributions; /* number of contributions in the whole graph; the first one writes the storage, the others add to it
                          */
    int n_started;       /* number of contributions whose node exists already */
    bool starts_as_view; /* PyTorch's rules: the first contribution is a view, to which autograd does not add in place */
    mp_pending *pending; /* list of contributions that have no node so far, oldest first */
    mp_pending *latest;  /* the last element of `pending`; NULL: the list is empty */
} mp_gradient_buffer;

typedef struct mp_builder {
    mp_pool *pool; /* memory pool that owns the arrays, except those of the bindings */
    const mp_model *model;
    const mp_training_options *options;
    const mp_target *target;
    const char *optimizer_name; /* name of the optimizer, used as the operator type of update nodes */
    mp_consumers consumers;
    int loss; /* index of the loss tensor; -1: no loss, and the gradients of the outputs are inputs of the graph */
    mp_graph *graph;
    mp_error *err;
    bool *relevant;     /* per operator: the loss (without a loss: an output) depends on it */
    bool *has_gradient; /* per tensor: it depends on a trained parameter, and the loss depends on it */
    int *storage;       /* index of each tensor's storage; -1: the tensor has no storage */
    int *key;           /* per tensor: the tensor that it is a view of (itself if it is no view); views share a gradient */
    mp_gradient_buffer *gradient;       /* per tensor index in `key`: its gradient buffer */
    int *forward;                       /* per operator: its forward node; -1: none */
    int (*extras)[MP_EXTRAS_MAX];       /* per operator: storages of its extras; -1: none */
    int (*copies)[2];                   /* per operator, PyTorch's rules: contiguous copies of inputs 0 and 1; -1: none */
    int64_t **strides;                  /* per tensor, PyTorch's rules: strides of a view within its storage; NULL: dense */
    mp_list reads, writes, adds, pairs; /* lists of the current node; pairs are flat: from, to, from, to, ... */
    mp_binding binding;                 /* binding (training.h) of the node under construction */
    mp_bindings *bindings;              /* bindings of the nodes built so far */
} mp_builder;

/* Return the compute type of a tensor, and its bytes in that type. Mixed precision halves floats. */
mp_dtype mp_builder_dtype(const mp_builder *b, int tensor);
int64_t mp_builder_bytes(const mp_builder *b, int tensor);
/* True for a parameter that ranks gather in 16 bits and whose shards are float32. */
bool mp_builder_is_lowered(const mp_builder *b, int tensor);
/* Returns the values that the gradient of input k reads: MP_IN, MP_OUT, MP_EXTRA bits, MP_INPUTS. */
uint32_t mp_builder_needs(const mp_builder *b, const mp_operator *op, int k);

/* Adds a storage to the graph, rounded up to the target's alignment. *index is its number. MP_NOMEM; name NULL also gives
 * MP_NOMEM, because the allocation of the name failed. */
mp_status mp_builder_storage(mp_builder *b, const char *name, int64_t payload_bytes, mp_kind kind, int *index);
/* Adds a storage to a list unless the list already contains it, or it is -1. */
mp_status mp_builder_put(mp_builder *b, mp_list *list, int storage);
/* Adds an in-place pair to the current node if neither storage is persistent, both have the same size, and the rules permit
 * it. */
mp_status mp_builder_pair(mp_builder *b, int from, int to);
/* Starts the binding of the current node. */
void mp_builder_task(mp_builder *b, mp_task task, int op);
/* Creates a node from the lists and the binding, computes its cost on the target (op may be NULL), and empties the lists.
 * `unmoved_bytes` are bytes of read storages that are not transferred (unused rows of a gather's table). */
mp_status mp_builder_node(mp_builder *b, const char *name, const char *kind, mp_phase phase, const mp_operator *op,
                          int forward_of, double flops, int64_t unmoved_bytes, int *index);

/* Returns the storage of operand k of an operator. -1: the operand has no storage, because it is omitted, or small enough to be
 * a kernel argument. */
int mp_builder_operand(const mp_builder *b, int op, int k);

/* Adds the storages of tensors, and the forward and loss nodes. MP_NOMEM, and errors of the target's costs. */
mp_status mp_build_forward(mp_builder *b);

/* Adds gradient storages and the nodes that produce them, in reverse order of the forward nodes. MP_NOMEM, and errors of the
 * target's costs. */
mp_status mp_build_backward(mp_builder *b);

/* True if the operator's outputs share the storage of its first input. */
bool mp_builder_is_view(const mp_builder *b, const mp_operator *op);
/* Records the strides of output t of a view operator under PyTorch's rules. MP_NOMEM. O(rank). */
mp_status mp_builder_lay_out(mp_builder *b, const mp_operator *op, int t);
/* Adds dense copies to the current node's writes: under PyTorch's rules a batched product copies its strided operands. */
mp_status mp_builder_copies(mp_builder *b, int op);

/* Adds the storage for the mask of a random operator, before its node is built. MP_NOMEM. */
mp_status mp_build_mask(mp_builder *b, int op);
/* Adds the alternatives of node `index`, which was built for operator `op`: keeping a mask instead of redrawing it, and
 * computing backward from the output. MP_NOMEM. */
mp_status mp_build_alternative(mp_builder *b, int op, int index);
