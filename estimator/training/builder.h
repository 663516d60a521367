/* builder.h - builds one training graph: storages, forward nodes, backward nodes, alternatives. Private to
 * estimator/training. */
#pragma once

#include "estimator/model/order.h"
#include "estimator/training/target.h"

/* Constants with at most this number of elements are kernel arguments (axes, scalars) and have no storage. */
enum { MP_ARGUMENT_ELEMENTS = 64 };

/* A list of storages without duplicates. */
typedef struct mp_list {
    int *items;
    size_t n, capacity;
} mp_list;

/* A contribution to a gradient that no node computes: the unchanged gradient of an output, or a gradient that exists
 * already. */
typedef struct mp_pending {
    int tensor; /* the tensor whose gradient receives the contribution */
    int storage;
    int64_t offset; /* first byte of the contribution in `storage` */
    int forward;    /* index of the forward node whose backward gives this contribution */
    struct mp_pending *next;
} mp_pending;

/* The gradient buffer of a tensor and of all views of it. */
typedef struct mp_gradient_buffer {
    int storage;    /* storage of the gradient; -1: it has no storage so far */
    int64_t offset; /* first byte of the gradient in `storage` */
    /* for a gradient to whose blocks of rows nodes contribute. `split`: the Split (index of its operator, plus 1) of the latest
     * contribution to a block; 0: none. `is_started`: all rows had a contribution before the first contribution of this
     * Split */
    int split;
    bool is_started;
    int n_contributions; /* number of contributions in the whole graph. The first contribution writes the storage, the others
                            add to it */
    int n_started;       /* number of contributions for which a node exists already */
    /* true (only under PyTorch's rules): the first contribution is a view, so autograd does not add to it in place */
    bool starts_as_view;
    mp_pending *pending; /* list of the contributions without a node, oldest first */
    mp_pending *latest;  /* last element of the list `pending` of gradients without a node; NULL: the list is empty */
} mp_gradient_buffer;

/* A block of rows of a storage that the current node uses. */
typedef struct mp_rows_used {
    int storage;
    int64_t bytes;
} mp_rows_used;

typedef struct mp_builder {
    mp_pool *pool; /* memory pool that owns all arrays except those of `bindings` */
    const mp_model *model;
    const mp_training_options *options;
    const mp_target *target;
    const char *optimizer_name; /* name of the optimizer, which update nodes have as operator type */
    mp_consumers consumers;
    int loss; /* index of the loss tensor; -1: no loss, and the gradients of the outputs are inputs of the graph */
    mp_graph *graph;
    mp_error *err;
    bool *relevant;     /* per operator: true if the loss depends on it (without a loss: if an output depends on it) */
    bool *has_gradient; /* per tensor: true if it depends on a trained parameter and the loss depends on it */
    int *storage;       /* per tensor: index of its storage; -1: the tensor has no storage */
    int *key; /* per tensor: the tensor of which it is a view, or the tensor itself. All views of a tensor share one gradient */
    mp_gradient_buffer *gradient; /* gradient buffers, indexed by `key` of a tensor */
    int *rows; /* per tensor: part of a Split or Concat (mp_operator.shares_rows) of which its gradient is a view; -1: none */
    bool *has_rows_gradient; /* per tensor: true if a contribution to the gradient of this part was built */
    int *forward;            /* per operator: index of its forward node; -1: no node */
    /* per operator: storages of its saved outputs (tensors that forward saves only for backward); -1: none */
    int (*extras)[MP_EXTRAS_MAX];
    int (*copies)[2];  /* per operator, only PyTorch's rules: storages of dense copies of inputs 0 and 1; -1: no copy */
    int64_t **strides; /* per tensor, only PyTorch's rules: strides of a tensor within its storage; NULL: the tensor is dense */
    mp_list reads, writes, adds, pairs; /* storage lists of the current node. `pairs` contains from, to, from, to, ... */
    mp_rows_used *used;                 /* blocks of rows that the current node uses */
    size_t n_used, used_capacity;
    mp_binding binding;    /* binding (training.h) of the node that is being built */
    mp_bindings *bindings; /* bindings of all nodes that are built already */
} mp_builder;

/* Return the element type in which a tensor is computed, and its bytes in that type. Mixed precision halves the bytes of
 * floats. */
mp_dtype mp_builder_dtype(const mp_builder *b, int tensor);
int64_t mp_builder_bytes(const mp_builder *b, int tensor);
/* True for a parameter that ranks gather in 16 bits although its shards are float32. */
bool mp_builder_is_lowered(const mp_builder *b, int tensor);
/* Returns the values that the gradient of input k reads, as bits MP_IN, MP_OUT, MP_EXTRA and MP_INPUTS. */
uint32_t mp_builder_needs(const mp_builder *b, const mp_operator *op, int k);

/* Adds a storage to the graph. payload_bytes are rounded up to the target's alignment. *index receives its index. MP_NOMEM;
 * name NULL also gives MP_NOMEM, because the allocation of the name failed. */
mp_status mp_builder_storage(mp_builder *b, const char *name, int64_t payload_bytes, mp_kind kind, int *index);
/* Adds a storage to a list. A storage of -1, or one that is in the list already, is ignored. */
mp_status mp_builder_put(mp_builder *b, mp_list *list, int storage);
/* States that the current node uses only `tensor`, a block of rows of a storage. Does nothing for other tensors. */
mp_status mp_builder_use_rows(mp_builder *b, int storage, int tensor);
/* Adds an in-place pair to the current node. Adds none if a storage is persistent, if the sizes differ, if the node uses only a
 * block of rows of either storage, or if the graph's rules forbid it. */
mp_status mp_builder_pair(mp_builder *b, int from, int to);
/* Starts the binding of the current node, with its task and operator. */
void mp_builder_task(mp_builder *b, mp_task task, int op);
/* Creates a node from the current lists and binding, computes its cost on the target, and empties the lists. `op` may be
 * NULL. `unmoved_bytes` are bytes of the read storages that the node does not transfer (unused rows of a look-up table). */
mp_status mp_builder_node(mp_builder *b, const char *name, const char *kind, mp_phase phase, const mp_operator *op,
                          int forward_of, double flops, int64_t unmoved_bytes, int *index);

/* Returns the storage of operand k of an operator. -1: the operand has no storage, because it is omitted, or small enough to
 * be passed as a kernel argument. */
int mp_builder_operand(const mp_builder *b, int op, int k);

/* Makes each view share the gradient of its base tensor (`key`), and counts the contributions to each gradient. Call it before
 * the nodes are built. O(operands). */
void mp_builder_count_contributions(mp_builder *b);

/* Adds the storages of tensors, the forward nodes and the loss nodes. If the loss is cut into chunks, the backward nodes of a
 * chunk follow its loss node. MP_NOMEM. Other errors as mp_target.cost. */
mp_status mp_build_forward(mp_builder *b);

/* Adds the backward nodes of the chunk whose loss is operator `loss` (loss_chunks.h). MP_NOMEM. Other errors as
 * mp_target.cost. */
mp_status mp_build_chunk_backward(mp_builder *b, int loss);

/* Adds gradient storages and backward nodes, in reverse order of the forward nodes. MP_NOMEM. Other errors as
 * mp_target.cost. */
mp_status mp_build_backward(mp_builder *b);

/* True if the outputs are views of input 0 and no node runs. The gradients of the outputs are then views of the gradient of
 * input 0. */
bool mp_builder_is_free_view(const mp_operator *op);
/* True if the gradients of the inputs are views of the gradient of the output, although the inputs are not. */
bool mp_builder_joins_rows(const mp_operator *op);
/* True if the outputs of the operator share the storage of its first input. */
bool mp_builder_is_view(const mp_builder *b, const mp_operator *op);
/* Records the strides of output t of a view operator, only under PyTorch's rules. MP_NOMEM. O(rank). */
mp_status mp_builder_lay_out(mp_builder *b, const mp_operator *op, int t);
/* Records the strides of output t of an operator that is not a view, only under PyTorch's rules, if PyTorch stores the output
 * permuted. MP_NOMEM. O(rank^2). */
mp_status mp_builder_lay_out_result(mp_builder *b, const mp_operator *op, int t);
/* Adds dense copies of operands to the storages that the current node writes. Under PyTorch's rules a batched product copies
 * its strided operands. */
mp_status mp_builder_copies(mp_builder *b, int op);

/* Adds the storage for the mask of an operator that uses random numbers. Call it before the operator's node is built.
 * MP_NOMEM. */
mp_status mp_build_mask(mp_builder *b, int op);
/* Adds the alternatives of node `index`, which was built for operator `op`. One alternative saves a mask instead of drawing
 * it again; another computes backward from the output. MP_NOMEM. */
mp_status mp_build_alternative(mp_builder *b, int op, int index);
