/* training.h - training graphs with bindings, for backends. The public part is memplan/training.h.
 *
 * A graph states which storages a node reads and writes. A binding states the operator of the node, and which operand each
 * storage is. */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/target.h"
#include "memplan/training.h"

typedef enum mp_task {
    MP_TASK_FORWARD,    /* the node runs an operator; the loss is also an operator */
    MP_TASK_BACKWARD,   /* the node computes the gradients of inputs [from, to) of an operator */
    MP_TASK_ACCUMULATE, /* copies one gradient to another, or adds it to another */
    MP_TASK_CLIP,       /* the node computes the factor for gradient clipping */
    MP_TASK_UPDATE,     /* one step of the optimizer for one parameter */
    MP_TASK_COLLECTIVE  /* the node is a collective: it sums over ranks, gathers, or sends to the next rank */
} mp_task;

typedef struct mp_binding {
    mp_task task;
    int op;           /* index of the operator in the model; -1: the node belongs to no operator */
    int from, to;     /* only for BACKWARD: the node computes gradients of inputs [from, to) */
    uint64_t targets; /* only for BACKWARD: bit i is set if the node computes the gradient of input i (i < 64) */
    uint64_t adds; /* for BACKWARD, bit i is set if the gradient of input i is added to an earlier contribution. For ACCUMULATE,
                      bit 0 has this meaning */
    /* for ACCUMULATE and UPDATE. source: the storage that is read (a gradient). target: the storage that is changed (a gradient
     * or a parameter) */
    int source, target;
    int state;     /* for UPDATE: storage of the optimizer state; for CLIP: storage of the factor; -1: none */
    int parameter; /* for UPDATE: index of the tensor of the parameter; else -1 */
    /* for ACCUMULATE: offsets of the first byte in `source` and in `target`, and the number of bytes. bytes 0: the whole
     * target */
    int64_t source_offset, target_offset, bytes;
    int message; /* for COLLECTIVE: number of this message between pipeline stages, from 1; 0: the node sends no such message */
} mp_binding;

/* The bindings of all nodes of a graph; release them with mp_bindings_free. */
typedef struct mp_bindings {
    mp_pool *pool;
    size_t n_nodes, capacity;
    mp_binding *nodes; /* per node of the graph: its binding */
    mp_dtype *dtype;   /* per tensor: the element type in which it is stored and computed */
    int *storage;      /* per tensor: index of its storage; -1: the tensor is a kernel argument, or unused */
    int *gradient;     /* per tensor: index of the storage of its gradient; -1: none */
    int64_t *offset;   /* per tensor: its first byte in `storage`; 0 except for blocks of rows (mp_operator.shares_rows) */
    int64_t *gradient_offset; /* per tensor: the first byte of its gradient in `gradient` */
    bool *has_gradient; /* per tensor: true if it has a gradient. If such a tensor has no storage for its gradient, it is the
                           loss, whose gradient is 1 */
    int (*extras)[MP_EXTRAS_MAX]; /* per operator: storages of the outputs that it saves for backward; -1: not needed */
    int loss;                     /* index of the loss tensor; -1: no loss */
    int clip;                     /* index of the storage of the clipping factor; -1: no clipping */
} mp_bindings;

/* Returns how many tensors of the parameter's size the state of an optimizer contains: 2 for Adam(W), 1 for momentum, else
 * 0. In the state, the float32 copy of a 16-bit parameter follows these tensors. */
int mp_optimizer_moments(mp_optimizer optimizer);
/* Returns the bytes of an optimizer's state for a parameter of `elements` elements. The state consists of the moments in
 * fp32. An 8-bit optimizer stores, per moment, one byte per element and an fp32 maximum per 256 elements. For parameters
 * with fewer than 4096 elements it uses fp32. -1: overflow. */
int64_t mp_optimizer_state_bytes(mp_optimizer optimizer, int64_t elements);

void mp_bindings_free(mp_bindings *bindings); /* releases the bindings; NULL is allowed */
MP_OWNER(mp_bindings_free, mp_bindings)

/* Like mp_training_graph; also returns the binding of each node. Release *bindings with mp_bindings_free. */
mp_status mp_training_graph_bound(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                                  mp_graph **out, mp_bindings **bindings, mp_error *err);
