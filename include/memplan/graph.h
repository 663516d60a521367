/* graph.h - the training graph: nodes (forward, loss, backward, update) over storages. All parts of memplan share this type.
 *
 * Bytes are what is allocated: rounded up to the graph's alignment. Costs are integer ticks; a tick is tick_seconds long, so
 * sums and comparisons are exact. Nodes and storages are named by their index; `id` is the number the graph's file gives them
 * (the index itself for graphs that we build). The rules that an order of nodes obeys are in timeline.h.
 *
 * A graph comes from a model (training.h), from a file (graph_json.h, graph_dot.h), or from calls: mp_graph_new, then storages
 * and nodes, then mp_graph_finish, which checks it. examples/own_graph.c does that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"

#define MP_KIND_LIST(X)                                                     \
    X(PARAMETER, "parameter", true)                                         \
    X(OPTIMIZER_STATE, "optimizer_state", true)                             \
    X(BUFFER, "buffer", true)                                               \
    X(CONSTANT, "constant", true)                                           \
    X(INPUT, "input", true) /* the batch, and outputs the user asked for */ \
    X(ACTIVATION, "activation", false)                                      \
    X(SAVED, "saved", false) /* masks, indices, statistics */               \
    X(GRADIENT, "gradient", false)                                          \
    X(ACTIVATION_GRADIENT, "activation_gradient", false)
#define MP_KIND_ENUM(name, text, always) MP_KIND_##name,
typedef enum mp_kind { MP_KIND_LIST(MP_KIND_ENUM) MP_N_KINDS } mp_kind;
#undef MP_KIND_ENUM

/* Channels 0 and 1 of every graph, and tier 0. A graph may list more. */
enum { MP_CHANNEL_COMPUTE, MP_CHANNEL_SECOND_STREAM, MP_MAX_CHANNELS = 16 };
enum { MP_TIER_DEVICE, MP_MAX_TIERS = 8 };

typedef enum mp_phase { MP_PHASE_FORWARD, MP_PHASE_LOSS, MP_PHASE_BACKWARD, MP_PHASE_UPDATE, MP_N_PHASES } mp_phase;
typedef enum mp_fuse { MP_FUSE_NONE, MP_FUSE_BACKWARD, MP_FUSE_FORWARD, MP_N_FUSES } mp_fuse;

const char *mp_kind_name(mp_kind kind);    /* "activation_gradient" */
const char *mp_phase_name(mp_phase phase); /* "backward" */
const char *mp_fuse_name(mp_fuse fuse);    /* "none" */
/* Return the value of this name, -1 if there is none. */
int mp_kind_find(const char *name), mp_phase_find(const char *name), mp_fuse_find(const char *name);
bool mp_kind_is_static(mp_kind kind); /* always live */

typedef struct mp_storage {
    int64_t id;
    const char *name;
    int64_t bytes;         /* as allocated */
    int64_t payload_bytes; /* before rounding; equal to bytes in graphs read from a file */
    mp_kind kind;
    int tier;         /* the memory in which it lies */
    size_t n_tensors; /* the model's tensors that share it (views) */
    const char **tensors;
    bool carried;    /* gradient of forward-fused updates: live from step 0 to its update, and from its first contribution on */
    bool persistent; /* live throughout, whatever its kind */
    bool any_sum_order; /* contributions may come in any order */
    bool is_part;       /* gradient of which each rank that splits the model has a part, until mp_graph_exchange */
    bool is_spread;     /* gradient, or frozen value, of experts of which other ranks have others, until mp_graph_exchange */
    bool is_lowered;    /* value or gradient of 16 bits of which ranks keep their parts in float32, until mp_graph_exchange */
} mp_storage;

typedef struct mp_in_place {
    int from, to; /* storages: `to` may take over the memory of `from` in a step where `from` ends */
} mp_in_place;

/* One way to run a node. */
typedef struct mp_alternative {
    size_t n_reads, n_writes, n_adds, n_in_place;
    int *reads, *writes, *adds; /* storages, each once per list */
    mp_in_place *in_place;
    int64_t workspace_bytes; /* on the device */
    int64_t ticks;
    int channel;  /* on which an issued step runs; of updates never compute: mp_graph_finish makes it the second stream */
    bool returns; /* brings some of the node's outputs back from where they were copied; never the node's first run */
    const char *algorithm; /* the target's algorithm that computes it; NULL: the target's default */
} mp_alternative;

#define MP_NODE_ONCE 1u     /* may not be recomputed */
#define MP_NODE_RANDOM 2u   /* draws numbers: counter-based, so a second run draws the same */
#define MP_NODE_VIEW 4u     /* moves no bytes */
#define MP_NODE_OPTIONAL 8u /* runs never or once: a copy out */

typedef struct mp_node {
    int64_t id;
    const char *name;
    const char *op;     /* the operator's kind, "Conv" */
    const char *source; /* the line of the network's program that it comes from, "net.py:12: return x"; NULL: not known */
    mp_phase phase;
    double flops;
    int forward_of; /* backward: its forward node; -1: unknown or none */
    unsigned flags;
    size_t n_alternatives;        /* >= 1; alternative 0 is the base, the fastest */
    mp_alternative *alternatives; /* all or none but returning ones are algorithms, which differ in ticks and workspace only;
                                   * all runs of the node in a plan take the same one, because two round differently */
} mp_node;

typedef struct mp_graph {
    const char *name;
    const char *options; /* JSON text: all options needed to build the graph again; "{}" for none */
    const char *target;  /* name of the target it was built for; "" for none */
    int64_t alignment;
    double tick_seconds;
    mp_fuse fuse;
    size_t n_channels, n_tiers;                                  /* >= 2 and >= 1 */
    const char *channels[MP_MAX_CHANNELS], *tiers[MP_MAX_TIERS]; /* names: "compute", "second stream"; "device" */
    int64_t tier_alignment[MP_MAX_TIERS]; /* of the offsets in a tier, such as a disk's blocks; 0: the graph's. Not hashed */
    char hash[33];                        /* 32 hexadecimal digits over storages and nodes; set by mp_graph_finish */
    size_t n_storages, storages_capacity;
    mp_storage *storages;
    size_t n_nodes, nodes_capacity;
    mp_node *nodes; /* within each phase in an order in which they can run, in which keep-all runs them */
    /* derived by mp_graph_finish */
    bool has_copies;              /* more than two channels or one tier, an optional node, or an alternative that returns */
    int *producer;                /* per storage: the node that writes it, -1: none (of an always-live kind, or a sum) */
    int *writer;                  /* per always-live storage: the only node besides updates that writes it, if it does
                                   * not read it too. All readers but updates run after that node. -1: none */
    int *awaiter;                 /* with more channels, per node: the first in keep-all's order that touches what it makes, or
                                   * changes what it reads; -1: the end. NULL: two channels */
    int *adders_start, *adders;   /* nodes that add to storage s, in node order: adders[adders_start[s] .. adders_start[s+1]) */
    int *readers_start, *readers; /* nodes that read storage s in some alternative, likewise */
    mp_pool *derived;             /* owns these lists */
    mp_pool *pool;                /* owns every array of nodes and storages, names included */
} mp_graph;

/* Makes an empty graph: alignment 1, tick 1 s, the channels and the tier that every graph has. Released with mp_graph_free
 * (NULL is fine). MP_NOMEM. O(1). */
mp_status mp_graph_new(const char *name, mp_graph **out, mp_error *err);
void mp_graph_free(mp_graph *graph);
MP_OWNER(mp_graph_free, mp_graph)

/* Appends a zeroed storage or node with its id set to its index; the pointer is valid until the next one is appended. MP_NOMEM.
 * Amortised O(1). The node has one zeroed alternative. */
mp_status mp_graph_storage(mp_graph *graph, mp_storage **out, mp_error *err);
mp_status mp_graph_node(mp_graph *graph, mp_node **out, mp_error *err);
/* Lists one more channel or tier; *number is its index. MP_PARSE: too many, or the name is taken. MP_NOMEM. */
mp_status mp_graph_channel(mp_graph *graph, const char *name, int *number, mp_error *err);
mp_status mp_graph_tier(mp_graph *graph, const char *name, int *number, mp_error *err);
/* Copies n storages into the graph's pool; NULL if memory is short. */
int *mp_graph_list(mp_graph *graph, const int *storages, size_t n);

/* Checks the structure (ids distinct, every list in range and without repetition, at most one producer per storage of a kind
 * that is not always live, sums not written, adds by loss and backward nodes only and in alternatives only what the base
 * alternative adds, algorithms of a node distinct and alike but for ticks and workspace, bytes and ticks >= 0 with sums that
 * fit in an int64_t, no node that reads and writes the same storage unless its kind is always live, in-place pairs lead from a
 * read to a write or add of the same tier and not from a carried gradient, nothing both carried and always live, a returning
 * alternative is not the base, adds to nothing and writes only what the base writes, an optional node is a forward node that
 * runs once and returns nothing, copies of state come last and each between another tier and one update, keep-all can run, no
 * dependency cycle) and derives producer, writer, adders, readers and hash. MP_PARSE names the node or storage. MP_NOMEM.
 * O(total list length + n log n). */
mp_status mp_graph_finish(mp_graph *graph, mp_error *err);

/* 32 hexadecimal digits (128-bit XXH3) over everything a plan depends on: fuse, alignment, tick, and all of storages and nodes
 * but payload_bytes, which files do not carry. The same on every machine. MP_NOMEM. O(total list length). */
mp_status mp_graph_hash(const mp_graph *graph, char hash[33], mp_error *err);

/* The name of a node or storage in messages: "node 12 (Conv_3)", with its id in the file. */
typedef struct mp_label {
    char text[160];
} mp_label;
mp_label mp_node_label(const mp_graph *graph, int node);
mp_label mp_storage_label(const mp_graph *graph, int storage);
/* Returns the name of a storage in reports: its first tensor, else its own name, else its number (written into *space). */
const char *mp_storage_title(const mp_graph *graph, int storage, mp_label *space);

/* True if the node's alternatives are algorithms. A plan must use the same one in every run of the node. */
bool mp_node_has_algorithms(const mp_node *node);

/* True if a plan may compute the node more than once: a forward node that is not marked MP_NODE_ONCE or MP_NODE_OPTIONAL. */
static inline bool mp_node_may_rerun(const mp_node *node)
{
    return node->phase == MP_PHASE_FORWARD && !(node->flags & (MP_NODE_ONCE | MP_NODE_OPTIONAL));
}
/* True if the node copies the state of an update from the tier where it lies, or back there: an update that reads one storage
 * and writes one, of which one is on the device (docs/internals/plan-rules.md). O(1). */
bool mp_node_copies_state(const mp_graph *graph, int node);
/* Which way a run of a node copies between tiers: out are optional nodes, in are alternatives that return, and state has both.
 * O(1). */
typedef enum mp_copy_way { MP_COPY_NONE, MP_COPY_OUT, MP_COPY_IN } mp_copy_way;
mp_copy_way mp_copy_way_of(const mp_graph *graph, int node, int alternative);
/* True if nodes add to the storage, so that it has one life from its first adder on. Of a finished graph. */
static inline bool mp_storage_is_sum(const mp_graph *graph, int storage)
{
    return graph->adders_start[storage + 1] > graph->adders_start[storage];
}

/* True if a storage is always live: by its kind, or because it is persistent. */
bool mp_storage_is_static(const mp_storage *storage);
/* Returns the bytes of all storages that are always live: on the device, in a tier. O(storages). */
int64_t mp_graph_static_bytes(const mp_graph *graph), mp_graph_static_bytes_in(const mp_graph *graph, int tier);
/* Returns what the offsets in a tier are multiples of. O(1). */
int64_t mp_graph_tier_alignment(const mp_graph *graph, int tier);
/* Returns the number of nodes that every plan runs: all but optional ones. O(nodes). */
size_t mp_graph_n_required(const mp_graph *graph);
/* Returns the number of nodes that copy state; they are the last of a finished graph's list. O(them). */
size_t mp_graph_n_state_copies(const mp_graph *graph);
