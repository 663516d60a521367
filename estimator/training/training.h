/* training.h - training graphs with bindings, for backends. The public part is memplan/training.h.
 *
 * A graph states which storages a node reads and writes. A binding states which operand each of these storages is. */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/target.h"
#include "memplan/training.h"

typedef enum mp_task {
    MP_TASK_FORWARD,    /* runs an operator, including the loss */
    MP_TASK_BACKWARD,   /* computes the gradients of inputs [from, to) of an operator */
    MP_TASK_ACCUMULATE, /* copies a gradient to another gradient, or adds it */
    MP_TASK_CLIP,       /* computes the factor for gradient clipping */
    MP_TASK_UPDATE,     /* updates one parameter by a step of the optimizer */
    MP_TASK_COLLECTIVE  /* a collective: sums over ranks, gathers, or sends to the next rank */
} mp_task;

typedef struct mp_binding {
    mp_task task;
    int op;             /* index of the operator; -1: the node belongs to no operator */
    int from, to;       /* for BACKWARD: the inputs [from, to) whose gradients the node computes */
    uint64_t targets;   /* BACKWARD: bit i is set if this node computes the gradient of input i (i < 64) */
    uint64_t adds;      /* BACKWARD, ACCUMULATE (bit 0): targets that are added to an earlier contribution */
    int source, target; /* ACCUMULATE, UPDATE: the storage that is read (a gradient), and the storage that is changed (a
                           gradient, a parameter) */
    int state;          /* storage of the optimizer state (UPDATE) or of the factor (CLIP); -1: none */
    int parameter;      /* for UPDATE: index of the parameter's tensor; else -1 */
    int message; /* for COLLECTIVE: the node's number among the messages between pipeline stages, from 1; 0: no such message */
} mp_binding;

/* The bindings of a graph; release with mp_bindings_free. */
typedef struct mp_bindings {
    mp_pool *pool;
    size_t n_nodes, capacity;
    mp_binding *nodes;  /* n_nodes elements: the binding of each node of the graph */
    mp_dtype *dtype;    /* per tensor: element type in which it is stored and computed */
    int *storage;       /* per tensor: its storage; -1: none (a kernel argument, or unused) */
    int *gradient;      /* per tensor: the storage of its gradient; -1: none */
    bool *has_gradient; /* per tensor. A tensor with a gradient but without a storage for it is the loss, whose gradient is 1 */
    int (*extras)[MP_EXTRAS_MAX]; /* per operator: storages that it saves for backward; -1: not required */
    int loss;                     /* index of the loss tensor; -1: no loss */
    int clip;                     /* index of the storage of the clipping factor; -1: no clipping */
} mp_bindings;

/* Returns the number of parameter-sized tensors in an optimizer's state: Adam(W) 2, momentum 1, others 0. The float32 copy of a
 * 16-bit parameter follows after them. */
int mp_optimizer_moments(mp_optimizer optimizer);
/* Returns the bytes of an optimizer's state for a parameter: its moments in fp32. An 8-bit optimizer stores, per moment, one
 * byte per element and an fp32 maximum per 256 elements. For parameters with fewer than 4096 elements it uses fp32. -1:
 * overflow. */
int64_t mp_optimizer_state_bytes(mp_optimizer optimizer, int64_t elements);

void mp_bindings_free(mp_bindings *bindings); /* releases the bindings; NULL is allowed */
MP_OWNER(mp_bindings_free, mp_bindings)

/* Like mp_training_graph; also returns the binding of each node. Release *bindings with mp_bindings_free. */
mp_status mp_training_graph_bound(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                                  mp_graph **out, mp_bindings **bindings, mp_error *err);
