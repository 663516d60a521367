/* program.h - the content of a program: for each node of the training graph, a kernel call that is ready to run, and the
 * call's operands. See memplan/program.h. */
#pragma once

#include <stddef.h>

#include "estimator/training/accuracy.h"
#include "executor/kernel/backend.h"
#include "executor/ranks/communicator.h"
#include "memplan/plan.h"
#include "memplan/program.h"
#include "memplan/ranks/exchange.h"

/* An operand of a node, and the storage that holds it. `storage` -1: none. A number below -1 denotes a constant of the program
 * (MP_SLOT_CONSTANT). */
typedef struct mp_slot {
    mp_array *array;
    int storage;
    int64_t offset; /* first byte of the operand in the storage */
    /* index of a constant of zeros, which all ranks of tp except the first read instead of the operand; 0: all ranks read
     * the operand */
    int zeros;
} mp_slot;
#define MP_SLOT_CONSTANT(k) (-2 - (k)) /* storage number of constant k; -1 means no storage. The macro is its own inverse */

/* A constant value that no node produces and no storage of the graph holds. An execution copies it into its `fixed` block,
 * from which calls read it. */
typedef struct mp_constant {
    const void *bytes;
    int64_t n_bytes;
} mp_constant;

typedef struct mp_program_algorithm {
    mp_call call;
    /* true: the algorithm computes the same bits in every run. Set only for algorithms that the backend lists */
    bool is_deterministic;
} mp_program_algorithm;

typedef struct mp_program_node {
    mp_call call;                     /* the prepared kernel call; empty for nodes without an operator */
    mp_operands operands;             /* the operands of the call; empty for nodes without an operator */
    size_t n_algorithms;              /* number of the node's alternatives, if the alternatives are algorithms; else 0 */
    mp_program_algorithm *algorithms; /* the algorithms of the node, one per alternative; if present, they replace `call` */
    size_t n_slots;
    mp_slot *slots;
} mp_program_node;

struct mp_program {
    const mp_backend *backend;
    const mp_model *model;
    mp_training_options options;
    mp_graph *graph;
    mp_bindings *bindings;
    mp_spending spending; /* seconds of the nodes per family of kernels, if the device has achieved rates */
    size_t n_nodes, capacity;
    mp_program_node *nodes; /* the nodes of the program, one per node of the graph */
    mp_pool *pool;          /* the memory pool that owns all arrays of the program */
    mp_constant *constants; /* constants that kernels read: first the initial gradient of the loss, then constant operands */
    size_t n_constants;
    int *constant_of; /* per tensor of the model: index in `constants` of its value; 0: none */
    int loss_parts;   /* number of tp ranks over which the positions (targets) of the loss are split; 1: every rank computes the
                         whole loss */
    /* if loss_parts > 1: true: the losses of the tp ranks are added; false: each rank has a mean, and the means are averaged */
    bool adds_losses;
    float one_value;                /* initial gradient of the loss: 1 / (passes of a step on all ranks); set by an execution */
    mp_mesh mesh;                   /* the mesh of ranks; the program is the program of one rank */
    bool fast_sums;                 /* true: the network library sums in its own order */
    bool shares_statistics;         /* true: the statistics of a batch cover the samples of all ranks */
    struct mp_program_stage *stage; /* the pipeline stage that this program runs; NULL: the program runs a whole network */
    char target_name[48];
};

/* Returns in *out the type, shape and layout of a tensor in memory, without an address. */
mp_status mp_program_array(const mp_program *program, int tensor, mp_array *out, mp_error *err);

/* True if whole gradients stay in memory from one micro-batch to the next, and the next micro-batch adds to them. */
bool mp_program_keeps_gradients(const mp_program *program);

/* mp_program_has: true if a tensor has a storage on this rank. mp_program_lacks: true if only other stages of the pipeline
 * hold the tensor. */
bool mp_program_has(const mp_program *program, int tensor);
bool mp_program_lacks(const mp_program *program, int tensor);

/* Inserts the collectives of dp and shard into the graph (mp_graph_exchange) and into the calls, and sets their workspaces.
 * `fast`: sums use the order of the network library. Must be called before any other function adds nodes to the graph. Errors:
 * as mp_graph_exchange. */
mp_status mp_program_exchange(mp_program *program, const mp_ranks *ranks, bool fast, mp_error *err);
/* The position of a process in the mesh of ranks. For a single process, all sizes are 1. */
typedef struct mp_rank_position {
    int n_data, data_index; /* number of ranks with different samples (dp x shard), and this rank's index among them */
    int data_stride;        /* difference of the process numbers of two consecutive ranks with different samples */
    int n_shards, shard_index;
    int n_parts, part_index; /* number of ranks over which operators are split (tp), and this rank's index among them */
    int n_stages,
        stage_stride; /* number of stages of the pipeline, and difference of the process numbers of consecutive stages */
} mp_rank_position;
/* Finds the position of this process. MP_INVALID: the number of ranks in the mesh differs from the number of processes. */
mp_status mp_rank_position_of(const mp_program *program, const mp_communicator *world, mp_rank_position *out, mp_error *err);
/* True if the network library computes the sums over a dimension of the mesh, in its own order. */
bool mp_program_sums_fast(const mp_program *program, mp_dim dim);
/* True for a gather of parameters in forward. Gathered parameters are the same for all micro-batches. */
bool mp_program_gathers(const mp_program *program, int node);
/* Returns the storage of this rank's part of a parameter that is gathered in forward; -1: the parameter is not gathered.
 * O(nodes). */
int mp_program_part(const mp_program *program, int storage);
/* Computes the bytes that a rank sends in a training step of a plan. MP_NOMEM. O(gathers * steps). */
mp_status mp_program_sent_bytes(const mp_program *program, const mp_plan *plan, const mp_rank_position *place, int64_t *bytes,
                                mp_error *err);
/* Fails with MP_UNSUPPORTED if memplan can plan a program for this mesh, but cannot run it. */
mp_status mp_program_check_ranks(const mp_program *program, mp_error *err);

/* Asks the backend for the algorithms of every node. If there are several, they become the node's alternatives, in the
 * backend's order with its default as the base. Each alternative has the workspace that its algorithm needs. Until their costs
 * are measured, all alternatives have the seconds of the base. Nodes that already have alternatives are unchanged. The graph
 * gets a new hash. MP_NOMEM, and the errors of the backend. */
mp_status mp_program_list_algorithms(mp_program *program, mp_error *err);

/* Prepares a call for every alternative that is an algorithm (memplan/costs_json.h), and sets the alternative's workspace to
 * that of the call. The graph gets a new hash. MP_UNSUPPORTED: the backend has no algorithm of that name. MP_NOMEM. */
mp_status mp_program_take_algorithms(mp_program *program, mp_error *err);

/* For reports: operators that run on the same provider for the same reason. A provider is a library, or memplan's own kernels.
 */
typedef struct mp_provider_group {
    const char *provider; /* such as "cuDNN" */
    const char *reason;   /* reason for the choice of this provider; "": the backend has no better provider */
    size_t n_operators;
} mp_provider_group;

enum { MP_PROVIDER_GROUPS = 16 };

/* Groups the operators of ONNX type `kind` by provider, in the order of first occurrence. Each operator counts once, by its
 * forward node. Returns the number of groups; 0: the network has no such operator, or the backend has only one provider for
 * them. If there are more than MP_PROVIDER_GROUPS groups, the last one also counts the remaining operators. The strings live
 * as long as the program. O(nodes x groups). */
size_t mp_program_providers(const mp_program *program, const char *kind, mp_provider_group groups[MP_PROVIDER_GROUPS]);
