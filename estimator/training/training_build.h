/* training_build.h - what the parts of training.c share while they build one training graph. Private to estimator/. */
#ifndef ESTIMATOR_TRAINING_BUILD_H
#define ESTIMATOR_TRAINING_BUILD_H

#include "estimator/model/order.h"
#include "estimator/training/training.h"

/* A list of storages without repetition. */
typedef struct mp_list {
    int *items;
    size_t n, capacity;
} mp_list;

/* A contribution to a gradient that needs no computing: the gradient of an output, as it is. */
typedef struct mp_pending {
    int storage;
    int forward; /* the forward node it comes from */
    struct mp_pending *next;
} mp_pending;

/* The gradient buffer of a tensor and of all views of it. */
typedef struct mp_gradient {
    int storage;         /* -1: none yet */
    int n_contributions; /* over the whole graph: one writes, several add */
    int n_started;       /* of them, those that have their node */
    mp_pending *pending; /* not yet turned into nodes, oldest first */
} mp_gradient;

typedef struct mp_builder {
    const mp_model *model;
    const mp_training_options *options;
    const mp_target *target;
    mp_consumers consumers;
    int loss; /* tensor, -1: gradients of the outputs are inputs */
    mp_graph *graph;
    mp_error *err;
    bool *relevant;                     /* per operator: the loss, or an output without one, depends on it */
    bool *has_gradient;                 /* per tensor: depends on a trained parameter, and the loss on it */
    int *storage;                       /* per tensor: the storage it lies in, -1: none */
    int *key;                           /* per tensor: the tensor it is a view of (itself if none): they share a gradient */
    mp_gradient *gradient;              /* per key */
    int *forward;                       /* per operator: its forward node, -1: none */
    int (*extras)[MP_EXTRAS_MAX];       /* per operator: its extras' storages, -1: none */
    int (*copies)[2];                   /* per operator: contiguous copies of inputs 0 and 1 (PyTorch's rules), -1: none */
    unsigned char *strides;             /* per tensor, PyTorch's rules: how it lies in its storage */
    mp_list reads, writes, adds, pairs; /* of the node at hand; pairs are flat: from, to, from, to, ... */
    mp_binding binding;                 /* likewise */
    mp_bindings *bindings;              /* of the nodes so far */
} mp_builder;

/* How a view lies in memory under PyTorch's rules. */
enum { MP_STRIDES_DENSE, MP_STRIDES_GAPS, MP_STRIDES_PERMUTED };

/* The type a tensor is computed in, and its bytes in that: mixed precision halves floats. */
mp_dtype mp_builder_dtype(const mp_builder *b, int tensor);
int64_t mp_builder_bytes(const mp_builder *b, int tensor);
/* The storage that operand k of an operator is read from, -1: none (left out, or small enough to be a kernel's argument). */
int mp_builder_operand(const mp_builder *b, int op, int k);
/* What the gradient of input k reads: MP_IN, MP_OUT, MP_EXTRA bits, MP_SELF. */
uint32_t mp_builder_needs(const mp_builder *b, const mp_operator *op, int k);

/* True if the operator's outputs lie in its first input's storage. */
bool mp_builder_is_view(const mp_builder *b, const mp_operator *op);
/* How output o of a strided view lies in it. */
unsigned char mp_builder_strides(const mp_builder *b, const mp_operator *op, int o);
/* The dense copies that a batched product makes of its operands under PyTorch's rules, as writes of the node at hand. */
mp_status mp_builder_copies(mp_builder *b, int op);

mp_status mp_builder_storage(mp_builder *b, const char *name, int64_t payload_bytes, mp_kind kind, int *index);
/* Lists without repetition, ignoring -1. */
mp_status mp_builder_put(mp_builder *b, mp_list *list, int storage);
/* An in-place pair of the node at hand, if both are freed some day and have the same size, and the rules allow it. */
mp_status mp_builder_pair(mp_builder *b, int from, int to);
/* Starts the binding of the node at hand. */
void mp_builder_task(mp_builder *b, mp_task task, int op);
/* Turns the lists and the binding at hand into a node, costs it on the target (op may be NULL), and empties the lists.
 * `unmoved_bytes` are read but not moved (a gather's table). */
mp_status mp_builder_node(mp_builder *b, const char *name, const char *kind, mp_phase phase, const mp_operator *op,
                          int forward_of, double flops, int64_t unmoved_bytes, int *index);

/* The storage in which a random operator may keep its mask, before its node; other ways to run node `index`, behind it. */
mp_status mp_build_mask(mp_builder *b, int op);
mp_status mp_build_alternative(mp_builder *b, int op, int index);

mp_status mp_build_forward(mp_builder *b);  /* storages of tensors, forward and loss nodes */
mp_status mp_build_backward(mp_builder *b); /* gradients and backward nodes */
/* Gradient storages of the trained parameters, before anything else refers to them. */
mp_status mp_build_parameter_gradients(mp_builder *b);
mp_status mp_build_updates(mp_builder *b);

#endif
