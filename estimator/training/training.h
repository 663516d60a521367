/* training.h - training graphs with their bindings, for backends; the rest is in memplan/training.h.
 *
 * A graph says which storages a node reads and writes; a binding says which operand each of them is.
 */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/target.h"
#include "memplan/training.h"

typedef enum mp_task {
    MP_TASK_FORWARD,    /* runs an operator, the loss's included */
    MP_TASK_BACKWARD,   /* gives the gradients of inputs [from, to) of an operator */
    MP_TASK_ACCUMULATE, /* copies or adds one gradient to another */
    MP_TASK_CLIP,       /* computes the factor that scales the norm of all gradients down to the limit */
    MP_TASK_UPDATE,     /* a step of the optimizer on one parameter */
    MP_TASK_COLLECTIVE  /* sums over ranks, gathers from them, or hands over from one to the next */
} mp_task;

typedef struct mp_binding {
    mp_task task;
    int op;             /* operator; -1: none */
    int from, to;       /* BACKWARD */
    uint64_t targets;   /* BACKWARD: bit i: this node gives the gradient of input i (i < 64) */
    uint64_t adds;      /* BACKWARD, ACCUMULATE (bit 0): targets that are added to an earlier contribution */
    int source, target; /* ACCUMULATE, UPDATE: the storage read (a gradient); the one changed (a gradient, a parameter) */
    int state;          /* UPDATE: the optimizer state; CLIP: the factor. A storage, -1: none */
    int parameter;      /* UPDATE: the tensor, else -1 */
    int message; /* COLLECTIVE: its number among those between the stages of a pipeline, from 1; 0: it is none of these */
} mp_binding;

/* The bindings of a graph; released with mp_bindings_free. */
typedef struct mp_bindings {
    mp_pool *pool;
    size_t n_nodes, capacity;
    mp_binding *nodes;  /* per node of the graph */
    mp_dtype *dtype;    /* per tensor: the type in which it is computed */
    int *storage;       /* per tensor: its storage, -1: none (a kernel's argument, or nobody needs it) */
    int *gradient;      /* per tensor: the storage of its gradient, -1: none */
    bool *has_gradient; /* per tensor; a tensor with a gradient but no storage for it is the loss: its gradient is 1 */
    int (*extras)[MP_EXTRAS_MAX]; /* per operator: storages that it saves for backward, -1: not needed */
    int loss;                     /* tensor, -1: none */
    int clip;                     /* storage of the clipping factor, -1: none */
} mp_bindings;

/* Returns how many tensors of a parameter's size an optimizer keeps in its state: Adam(W) 2, momentum 1, others 0. The float32
 * copy of a 16-bit parameter comes behind them. */
int mp_optimizer_moments(mp_optimizer optimizer);
/* Returns the bytes that an optimizer keeps for a parameter: its moments in fp32. An 8-bit optimizer keeps a byte for each
 * element and moment and the largest of every 256 in fp32, but fp32 for parameters of less than 4096. -1 on overflow. */
int64_t mp_optimizer_state_bytes(mp_optimizer optimizer, int64_t elements);

void mp_bindings_free(mp_bindings *bindings); /* NULL is fine */
MP_OWNER(mp_bindings_free, mp_bindings)

/* As mp_training_graph, and gives the binding of each node; *bindings is released with mp_bindings_free. */
mp_status mp_training_graph_bound(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                                  mp_graph **out, mp_bindings **bindings, mp_error *err);
