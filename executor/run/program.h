/* program.h - what a program is made of: a prepared call and its operands per node of the graph. See memplan/program.h. */
#pragma once

#include <stddef.h>

#include "executor/kernel/backend.h"
#include "memplan/program.h"

/* An operand of a node that lies in a storage, or is one of the program's constants: those have negative numbers. */
typedef struct mp_slot {
    mp_array *array;
    int storage;
} mp_slot;
#define MP_SLOT_CONSTANT(k) (-2 - (k)) /* -1 is no storage at all; its own inverse */

/* A value that no node makes and no storage holds: an execution brings it to where its calls read it. */
typedef struct mp_constant {
    const void *bytes;
    int64_t n_bytes;
} mp_constant;

typedef struct mp_program_algorithm {
    mp_call call;
    bool is_deterministic; /* the same bits in every run; said of those that the backend has listed */
} mp_program_algorithm;

typedef struct mp_program_node {
    mp_call call;                     /* empty for nodes that are no operator's */
    mp_operands operands;             /* likewise */
    size_t n_algorithms;              /* as the node's alternatives, where they are algorithms; else 0 */
    mp_program_algorithm *algorithms; /* per alternative; in place of `call` */
    size_t n_slots;
    mp_slot *slots;
} mp_program_node;

struct mp_program {
    const mp_backend *backend;
    const mp_model *model;
    mp_training_options options;
    mp_graph *graph;
    mp_bindings *bindings;
    size_t n_nodes, capacity;
    mp_program_node *nodes; /* per node of the graph */
    mp_pool *pool;          /* of all arrays */
    mp_constant *constants; /* the gradient of the loss, then the kernels' arguments */
    size_t n_constants;
    int *constant_of; /* per tensor: which of them it is, 0: none */
    float one_value;  /* the gradient of the loss: 1, or 1 / accumulate */
    char target_name[48];
};

/* How tensor t lies in its storage. */
mp_status mp_program_array(const mp_program *program, int tensor, mp_array *out, mp_error *err);

/* Asks the backend for the algorithms of every node: where there are several, they become the alternatives of the graph's node
 * in the backend's order, its own choice being the base, each with the workspace of its call and the seconds of the base: to be
 * measured. Nodes that have alternatives stay as they are. The graph gets a new hash. MP_NOMEM; what the backend fails with. */
mp_status mp_program_list_algorithms(mp_program *program, mp_error *err);

/* Prepares a call for every alternative of the graph that is an algorithm (memplan/costs_json.h), and gives the alternative the
 * workspace that the call takes here; the graph gets a new hash. MP_UNSUPPORTED: the backend has no algorithm of a name.
 * MP_NOMEM. */
mp_status mp_program_take_algorithms(mp_program *program, mp_error *err);

/* For reports: operators with the same provider for the same reason. */
typedef struct mp_provider_group {
    const char *provider; /* "cuDNN" */
    const char *reason;   /* why it is this one; "": the backend has no better one */
    size_t n_operators;
} mp_provider_group;

enum { MP_PROVIDER_GROUPS = 16 };

/* The groups of the operators of this kind, in the order in which they first occur, each operator once, by its forward node;
 * their number. 0: the backend has one way for them, or the network has none. With more groups than there is room for, the
 * last one takes the rest. Texts live as long as the program. O(nodes x groups). */
size_t mp_program_providers(const mp_program *program, const char *kind, mp_provider_group groups[MP_PROVIDER_GROUPS]);
