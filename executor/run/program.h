/* program.h - the content of a program: for each node of the graph a prepared call and its operands. See memplan/program.h. */
#pragma once

#include <stddef.h>

#include "executor/kernel/backend.h"
#include "executor/ranks/communicator.h"
#include "memplan/plan.h"
#include "memplan/program.h"
#include "memplan/ranks/exchange.h"

/* An operand of a node with its storage, or with a constant of the program, which has a negative number. */
typedef struct mp_slot {
    mp_array *array;
    int storage;
    int zeros; /* the constant that ranks of tp but the first read instead; 0: none, they read the same */
} mp_slot;
#define MP_SLOT_CONSTANT(k) (-2 - (k)) /* -1 means no storage. Applied twice, it gives k again */

/* A value without node and storage: an execution copies it to where its calls read it. */
typedef struct mp_constant {
    const void *bytes;
    int64_t n_bytes;
} mp_constant;

typedef struct mp_program_algorithm {
    mp_call call;
    bool is_deterministic; /* true: the same bits in every run. Known only for algorithms that the backend lists */
} mp_program_algorithm;

typedef struct mp_program_node {
    mp_call call;                     /* empty for nodes without an operator */
    mp_operands operands;             /* empty for nodes without an operator */
    size_t n_algorithms;              /* number of the node's alternatives if they are algorithms, else 0 */
    mp_program_algorithm *algorithms; /* per alternative, instead of `call` */
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
    mp_pool *pool;          /* holds all arrays */
    mp_constant *constants; /* the gradient of the loss first, then constant operands of kernels */
    size_t n_constants;
    int *constant_of;       /* per tensor: index in `constants`, 0: none */
    int loss_parts;         /* ranks of tp that have some of the loss's positions each; 1: all have the whole loss */
    bool adds_losses;       /* each has what its positions add to the loss, and not a mean of its own */
    float one_value;        /* value of the loss's gradient: 1 over the passes of a step, on all ranks; an execution sets it */
    mp_mesh mesh;           /* of which this is the program of one rank */
    bool fast_sums;         /* the network sums in any order */
    bool has_server;        /* rank 0 sums for all */
    bool shares_statistics; /* of batches, which are the samples of all ranks then */
    struct mp_program_stage *stage; /* of a pipeline, of which this is the program; NULL: it is that of a whole network */
    char target_name[48];
};

/* Describes how tensor t lies in its storage. */
mp_status mp_program_array(const mp_program *program, int tensor, mp_array *out, mp_error *err);

/* True if whole gradients stay from one micro-batch to the next. */
bool mp_program_keeps_gradients(const mp_program *program);

/* True if a tensor is in memory; and if another stage of the pipeline has it, and this one does not. */
bool mp_program_has(const mp_program *program, int tensor);
bool mp_program_lacks(const mp_program *program, int tensor);

/* Puts the collectives of dp and shard into the graph (mp_graph_exchange) and among the calls, with the workspace that they
 * take; `fast`: sums are in the order of the network's library. Before anything else is added to the graph. Fails as
 * mp_graph_exchange. */
mp_status mp_program_exchange(mp_program *program, const mp_ranks *ranks, bool fast, mp_rank_traffic *traffic, mp_error *err);
/* Where a process stands among the ranks. Alone it is the only one. */
typedef struct mp_rank_place {
    int n_data, data_index; /* of the ranks that have data of their own, which of them this is */
    int data_stride;        /* in the world, from one of them to the next */
    int n_shards, shard_index;
    int n_parts, part_index;    /* of the ranks that split operators */
    int n_stages, stage_stride; /* of a pipeline, and in the world from one of its stages to the next */
} mp_rank_place;
/* MP_INVALID: the mesh has another number of ranks than there are processes. */
mp_status mp_rank_place_of(const mp_program *program, const mp_communicator *world, mp_rank_place *out, mp_error *err);
/* True if the network's library sums over a dimension of the mesh, in an order of its own. */
bool mp_program_sums_fast(const mp_program *program, mp_dim dim);
/* What a collective sums or gathers, whole, and this rank's parts of it; NULL: these stay in their places in the wholes. */
typedef struct mp_moved {
    size_t n;
    const int *wholes, *parts;
} mp_moved;
mp_moved mp_program_moved(const mp_node *node);
/* True for a gather of parameters in forward, which are the same for all micro-batches. */
bool mp_program_gathers(const mp_program *program, int node);
/* Returns the storage of this rank's part of a parameter that is gathered in forward; -1: it is not. O(nodes). */
int mp_program_part(const mp_program *program, int storage);
/* True if a collective sums gradients of which each rank of tp has a part. O(tensors). */
bool mp_program_sums_parts(const mp_program *program, const mp_node *node);
/* True for a collective of a step, not of each of its passes: a sum, unless ranks keep parts of sums, and what follows updates.
 */
bool mp_program_runs_once(const mp_program *program, int node);
/* Returns the bytes that a rank sends to others in a step of a plan, but for what its stage gathers again (stage_gathers.h).
 * O(steps). */
int64_t mp_program_sent_bytes(const mp_program *program, const mp_plan *plan, const mp_rank_place *place);
/* Fails with MP_UNSUPPORTED where a program of this mesh can be planned, but not run. */
mp_status mp_program_check_ranks(const mp_program *program, mp_error *err);

/* Asks the backend for the algorithms of every node. Several algorithms become the node's alternatives in the backend's
 * order, its default as the base, each with the workspace of its call and the seconds of the base, until they are measured.
 * Nodes that have alternatives already are unchanged. The graph gets a new hash. MP_NOMEM; the backend's failures. */
mp_status mp_program_list_algorithms(mp_program *program, mp_error *err);

/* Prepares a call for every alternative of the graph that is an algorithm (memplan/costs_json.h), and sets the alternative's
 * workspace to that of its call; the graph gets a new hash. MP_UNSUPPORTED: the backend has no algorithm of that name.
 * MP_NOMEM. */
mp_status mp_program_take_algorithms(mp_program *program, mp_error *err);

/* For reports: operators with the same provider and the same reason for it. */
typedef struct mp_provider_group {
    const char *provider; /* such as "cuDNN" */
    const char *reason;   /* why it was taken; "": the backend has no better one */
    size_t n_operators;
} mp_provider_group;

enum { MP_PROVIDER_GROUPS = 16 };

/* Groups the operators of this kind by provider, in the order of first occurrence, each operator once, by its forward node.
 * Returns the number of groups; 0: the backend has only one provider for them, or the network has none of them. If there are
 * more groups than fit, the last one takes the rest. The texts live as long as the program. O(nodes x groups). */
size_t mp_program_providers(const mp_program *program, const char *kind, mp_provider_group groups[MP_PROVIDER_GROUPS]);
