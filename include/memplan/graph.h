/* graph.h - the training graph: nodes (forward, loss, backward, update) over storages. All parts of memplan share this type.
 *
 * Bytes are allocated sizes, rounded up to the graph's alignment. Costs are integer ticks of tick_seconds each, so sums and
 * comparisons are exact. The API identifies a node or storage by its index in `nodes` or `storages`. Its `id` is its number in
 * the graph's file; graphs that memplan builds use the index. timeline.h has the rules that an order of nodes must obey.
 *
 * There are three ways to get a graph: from a model (training.h), from a file (graph_json.h, graph_dot.h), or through calls.
 * To build a graph through calls, call mp_graph_new, add storages and nodes, then call mp_graph_finish, which checks the
 * graph. Example: examples/own_graph.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"
#include "memplan/ranks/collective.h"

#define MP_KIND_LIST(X)                                                                \
    X(PARAMETER, "parameter", true)                                                    \
    X(OPTIMIZER_STATE, "optimizer_state", true)                                        \
    X(BUFFER, "buffer", true)                                                          \
    X(CONSTANT, "constant", true)                                                      \
    X(INPUT, "input", true) /* the batch, and model outputs that the user requested */ \
    X(ACTIVATION, "activation", false)                                                 \
    X(SAVED, "saved", false) /* masks, indices, statistics */                          \
    X(GRADIENT, "gradient", false)                                                     \
    X(ACTIVATION_GRADIENT, "activation_gradient", false)
#define MP_KIND_ENUM(name, text, always) MP_KIND_##name,
typedef enum mp_kind { MP_KIND_LIST(MP_KIND_ENUM) MP_N_KINDS } mp_kind;
#undef MP_KIND_ENUM

/* Every graph has channels 0 and 1 and tier 0. A graph may add channels and tiers. */
enum { MP_CHANNEL_COMPUTE, MP_CHANNEL_SECOND_STREAM, MP_MAX_CHANNELS = 16 };
enum { MP_TIER_DEVICE, MP_MAX_TIERS = 8 };

typedef enum mp_phase { MP_PHASE_FORWARD, MP_PHASE_LOSS, MP_PHASE_BACKWARD, MP_PHASE_UPDATE, MP_N_PHASES } mp_phase;
typedef enum mp_fuse { MP_FUSE_NONE, MP_FUSE_BACKWARD, MP_FUSE_FORWARD, MP_N_FUSES } mp_fuse;

const char *mp_kind_name(mp_kind kind);    /* "activation_gradient" */
const char *mp_phase_name(mp_phase phase); /* "backward" */
const char *mp_fuse_name(mp_fuse fuse);    /* "none" */
/* Return the enum value with this name, or -1 if no value has this name. */
int mp_kind_find(const char *name), mp_phase_find(const char *name), mp_fuse_find(const char *name);
bool mp_kind_is_static(mp_kind kind); /* returns true if storages of this kind are static */

typedef struct mp_storage {
    int64_t id;
    const char *name;
    int64_t bytes;         /* allocated size */
    int64_t payload_bytes; /* size before rounding to the alignment; equal to `bytes` if the graph was read from a file */
    mp_kind kind;
    int tier;         /* index of the memory tier in which the storage is */
    size_t n_tensors; /* number of the model's tensors that share this storage (views) */
    const char **tensors;
    /* true: gradient of an update that runs in the next forward pass. Live from step 0 to its update, and again from its first
     * contribution to the last step */
    bool carried;
    bool persistent;    /* true: live throughout, whatever its kind */
    bool is_output;     /* true: contains an output of the model, which the variables of a training script keep */
    bool any_sum_order; /* true: nodes may add their contributions to this gradient in any order */
    /* true: each tensor-parallel rank holds a partial sum of this gradient. mp_graph_exchange sums these parts and clears the
     * flag */
    bool is_part;
    bool is_spread; /* true: gradient or frozen value of experts that not all ranks hold. mp_graph_exchange clears the flag */
    /* true: 16-bit value or gradient whose shards the ranks store in float32. mp_graph_exchange clears the flag */
    bool is_lowered;
} mp_storage;

typedef struct mp_in_place {
    int from,
        to; /* indices of storages: `to` may take over the memory of `from` in the step that reads `from` for the last time */
} mp_in_place;

/* One way to run a node (docs/reference/glossary.md, alternative). */
typedef struct mp_alternative {
    size_t n_reads, n_writes, n_adds, n_in_place;
    int *reads, *writes,
        *adds; /* indices of the storages that the node reads, writes and adds to; each storage occurs at most once per list */
    mp_in_place *in_place;
    int64_t workspace_bytes; /* workspace: device memory in bytes that is used only while the node runs */
    int64_t ticks;
    int channel; /* channel on which the step runs if a plan issues it. For updates never compute: mp_graph_finish changes it to
                    the second stream */
    bool returns; /* true: this alternative copies some outputs of the node back from another tier. It is never the first run of
                     the node */
    const char *algorithm; /* name of the algorithm in the target; NULL: the target's default algorithm */
} mp_alternative;

#define MP_NODE_ONCE 1u     /* may not be recomputed */
#define MP_NODE_RANDOM 2u   /* the node uses random numbers. They are counter-based, so a second run draws the same numbers */
#define MP_NODE_VIEW 4u     /* a view: copies no data */
#define MP_NODE_OPTIONAL 8u /* the node is optional (a copy out): a plan runs it at most once */

typedef struct mp_node {
    int64_t id;
    const char *name;
    const char *op;     /* operator type, such as "Conv" */
    const char *source; /* source line in the user's program, such as "net.py:12: return x"; NULL: unknown */
    mp_phase phase;
    double flops;
    int forward_of; /* index of the forward node that this backward node differentiates; -1: unknown, or not a backward node */
    unsigned flags;
    size_t n_alternatives;        /* number of alternatives, >= 1; alternative 0 is the base alternative */
    mp_alternative *alternatives; /* A node has either only algorithms (and returning alternatives), or no algorithms.
                                     Algorithms of a node differ in ticks and workspace only. All runs of a node in a plan use
                                     the same algorithm, because algorithms round differently. */
    const mp_collective_record
        *collective; /* the data that a run exchanges with other ranks; NULL: none. Not part of the hash */
} mp_node;

typedef struct mp_graph {
    const char *name;
    const char *options; /* JSON text with all options needed to build the graph again; "{}": the options are unknown */
    const char *target;  /* name of the target (target.h) that estimated the costs; "": no target */
    int64_t alignment;
    double tick_seconds;
    mp_fuse fuse;
    size_t n_channels, n_tiers;                                  /* numbers of channels (>= 2) and of tiers (>= 1) */
    const char *channels[MP_MAX_CHANNELS], *tiers[MP_MAX_TIERS]; /* names: "compute", "second stream"; "device" */
    int64_t tier_alignment[MP_MAX_TIERS]; /* per tier: alignment of offsets, such as a disk's block size; 0: the graph's
                                             alignment. Not part of the hash */
    char hash[33];                        /* hash of storages and nodes, 32 hexadecimal digits; set by mp_graph_finish */
    size_t n_storages, storages_capacity;
    mp_storage *storages;
    size_t n_nodes, nodes_capacity;
    mp_node *nodes; /* all nodes. The nodes of each phase are in a valid execution order; keep-all executes this order */
    /* derived by mp_graph_finish */
    bool has_copies; /* true if the graph has more than two channels, more than one tier, an optional node or a returning
                        alternative */
    int *producer;   /* per storage: the node that writes it; -1: no node writes it (a static kind, or a sum) */
    int *writer;     /* per static storage: the only non-update node that writes the storage without reading it. All readers
                        run after this node, except updates at the start of a step (MP_FUSE_FORWARD). -1: no such node */
    int *awaiter;    /* per node, only in graphs with more than two channels: the first later node of keep-all that uses its
                        outputs or modifies its inputs; -1: no such node. NULL in other graphs */
    int *adders_start, *adders; /* nodes that add to storage s, in list order: adders[adders_start[s] .. adders_start[s+1]) */
    int *readers_start,
        *readers;     /* nodes that read storage s in some alternative: readers[readers_start[s] .. readers_start[s+1]) */
    mp_pool *derived; /* owns the derived lists */
    mp_pool *pool;    /* memory pool that owns all arrays of nodes and storages, including names */
} mp_graph;

/* Creates an empty graph with alignment 1, a tick of 1 s, channels 0 and 1, and tier 0. Release with mp_graph_free (NULL is
 * allowed). MP_NOMEM. O(1). */
mp_status mp_graph_new(const char *name, mp_graph **out, mp_error *err);
void mp_graph_free(mp_graph *graph);
MP_OWNER(mp_graph_free, mp_graph)

/* Appends a zeroed storage or node whose id is its index. The pointer is valid until the next append. A new node has one zeroed
 * alternative. MP_NOMEM. Amortised O(1). */
mp_status mp_graph_storage(mp_graph *graph, mp_storage **out, mp_error *err);
mp_status mp_graph_node(mp_graph *graph, mp_node **out, mp_error *err);
/* Adds a channel or tier; *number is its index. MP_PARSE: too many, or the name exists. MP_NOMEM. */
mp_status mp_graph_channel(mp_graph *graph, const char *name, int *number, mp_error *err);
mp_status mp_graph_tier(mp_graph *graph, const char *name, int *number, mp_error *err);
/* Copies a list of n storage indices into the graph's memory pool. NULL: out of memory. */
int *mp_graph_list(mp_graph *graph, const int *storages, size_t n);
/* Copies a record of collectives, with its lists, into the graph's memory pool. NULL: out of memory. */
const mp_collective_record *mp_graph_collective(mp_graph *graph, const mp_collective_record *record);

/* Checks the structure of the graph, then derives producer, writer, adders, readers and hash. The checks:
 *
 * - ids are distinct; every list is in range and has no repetition
 * - a storage has at most one producer, unless its kind is static; sums are not written
 * - only loss and backward nodes add; an alternative adds only storages that the base alternative adds
 * - algorithms of a node have distinct names and differ in ticks and workspace only
 * - bytes and ticks are >= 0, and their sums fit in an int64_t
 * - no node reads and writes the same storage, unless its kind is static
 * - an in-place pair leads from a storage that the node reads to a storage that it writes or adds to. Both are in the same
 *   tier; the first is not a carried gradient
 * - no storage is both carried and static
 * - a returning alternative is not alternative 0, adds to no storage and writes only outputs of alternative 0
 * - an optional node is a forward node that runs once and returns nothing
 * - copies of state are last in the node list; each copies between the device and another tier for one update
 * - keep-all can run; there is no dependency cycle
 *
 * MP_PARSE: a check failed; the message names the node or storage. MP_NOMEM. O(total list length + n log n). */
mp_status mp_graph_finish(mp_graph *graph, mp_error *err);

/* Computes 32 hexadecimal digits (128-bit XXH3) over all plan-relevant data: fuse, alignment, tick, storages and nodes.
 * payload_bytes is excluded, because files do not store it. The hash is the same on every machine. MP_NOMEM. O(total list
 * length). */
mp_status mp_graph_hash(const mp_graph *graph, char hash[33], mp_error *err);

/* The label of a node or storage in messages, with its number in the graph file: "node 12 (Conv_3)". */
typedef struct mp_label {
    char text[160];
} mp_label;
mp_label mp_node_label(const mp_graph *graph, int node);
mp_label mp_storage_label(const mp_graph *graph, int storage);
/* Returns the name of a storage for reports. The name of its first tensor is used, else the storage's own name, else its
 * number (written to *space). */
const char *mp_storage_title(const mp_graph *graph, int storage, mp_label *space);

/* True if the alternatives of the node are algorithms. If so, a plan must use the same algorithm in every run of the node. */
bool mp_node_has_algorithms(const mp_node *node);

/* True if a plan may recompute the node: a forward node without MP_NODE_ONCE and MP_NODE_OPTIONAL. */
static inline bool mp_node_may_rerun(const mp_node *node)
{
    return node->phase == MP_PHASE_FORWARD && !(node->flags & (MP_NODE_ONCE | MP_NODE_OPTIONAL));
}
/* True if the node copies optimizer state between its tier and the device: an update that reads one storage and writes
 * another one. Exactly one of the two is on the device (docs/internals/plan-rules.md). O(1). */
bool mp_node_copies_state(const mp_graph *graph, int node);
/* Returns the direction in which a run of a node copies between tiers. Optional nodes copy out. Returning alternatives copy in.
 * Copies of state exist in both directions. O(1). */
typedef enum mp_copy_way { MP_COPY_NONE, MP_COPY_OUT, MP_COPY_IN } mp_copy_way;
mp_copy_way mp_copy_way_of(const mp_graph *graph, int node, int alternative);
/* True if nodes add to the storage (a sum). A sum has a single instance, which starts at its first adder. Requires a
 * finished graph. */
static inline bool mp_storage_is_sum(const mp_graph *graph, int storage)
{
    return graph->adders_start[storage + 1] > graph->adders_start[storage];
}

/* True if a storage is static, by its kind or because it is persistent. */
bool mp_storage_is_static(const mp_storage *storage);
/* Returns the bytes of all static storages on the device or in a tier. O(storages). */
int64_t mp_graph_static_bytes(const mp_graph *graph), mp_graph_static_bytes_in(const mp_graph *graph, int tier);
/* Writes the sum of the bytes of all storages by kind, in all tiers. O(storages). */
void mp_graph_kind_bytes(const mp_graph *graph, int64_t bytes[MP_N_KINDS]);
/* Returns the alignment of the offsets in a tier. O(1). */
int64_t mp_graph_tier_alignment(const mp_graph *graph, int tier);
/* Returns the number of nodes that every plan runs: all except optional nodes. O(nodes). */
size_t mp_graph_n_required(const mp_graph *graph);
/* Returns the number of nodes that copy state. In a finished graph these nodes are last in the node list. O(result). */
size_t mp_graph_n_state_copies(const mp_graph *graph);
