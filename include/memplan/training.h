/* training.h - builds the training graph of a model for a target: forward, loss, backward and update nodes over storages.
 *
 *     // given: mp_model *model; mp_error *err
 *     mp_graph *graph = NULL;
 *     const mp_training_options options = {.loss = MP_LOSS_AUTO, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
 *     const mp_target target = mp_roofline(mp_device_find("a100"));
 *     int loss;
 *     MP_CHECK(mp_model_add_loss(model, &options, &loss, err));
 *     MP_CHECK(mp_training_graph(model, &options, loss, &target, &graph, err));
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/model.h"
#include "memplan/target.h"

/* A loss function that compares an output of the model with a target tensor. */
typedef enum mp_loss {
    MP_LOSS_AUTO,
    MP_LOSS_CROSS_ENTROPY,
    MP_LOSS_MSE,
    MP_LOSS_L1,
    MP_LOSS_SMOOTH_L1,
    MP_LOSS_HUBER,
    MP_LOSS_BCE,    /* binary cross-entropy of logits */
    MP_LOSS_KL_DIV, /* Kullback-Leibler divergence: the output has log-probabilities, the target has probabilities */
    MP_LOSS_COSINE, /* 1 - cosine similarity of output and target along the last dimension */
    MP_LOSS_NONE,
    MP_N_LOSSES
} mp_loss;
enum { MP_LOSS_IGNORED = -100 }; /* label value that cross-entropy ignores by default, as in PyTorch */

typedef enum mp_optimizer {
    MP_OPTIMIZER_ADAMW,
    MP_OPTIMIZER_ADAM,
    MP_OPTIMIZER_SGD,
    MP_OPTIMIZER_MOMENTUM,
    MP_OPTIMIZER_NONE,
    MP_OPTIMIZER_ADAMW_8BIT, /* AdamW with 8-bit moments, as in bitsandbytes' AdamW8bit. For plans only; no backend executes it
                              */
    MP_N_OPTIMIZERS
} mp_optimizer;

/* Return the name on the command line: "cross-entropy", "adamw", "pytorch". Never NULL for values of the enums. */
const char *mp_loss_name(mp_loss loss);
const char *mp_optimizer_name(mp_optimizer optimizer);
const char *mp_rules_name(mp_rules rules);
int mp_loss_find(const char *name), mp_optimizer_find(const char *name),
    mp_rules_find(const char *name); /* return the loss, optimizer or rules with this name; -1: the name is unknown */

/* The parameters of a loss, named as in PyTorch's functions. A zeroed struct means PyTorch's defaults. mp_model_add_loss
 * reads the arrays and does not keep them. */
typedef struct mp_loss_options {
    double label_smoothing;      /* cross-entropy: label smoothing, the weight of the mean over all classes, in [0, 1] */
    const int64_t *ignore_index; /* cross-entropy: the ignored label; NULL: MP_LOSS_IGNORED */
    const double *class_weights; /* cross-entropy: a weight per class; NULL: all weights are 1 */
    size_t n_class_weights;
    const double
        *pos_weight; /* bce: weight of positive labels: one value, or one value per index of the last dimension; NULL: 1 */
    size_t n_pos_weight;
    double beta; /* parameter beta of smooth-l1, or delta of huber; 0: 1 */
} mp_loss_options;

typedef struct mp_training_options {
    mp_loss loss; /* loss to append. AUTO: the model's own loss, else cross-entropy on the first output. If that output has no
                     classes, mean squared error */
    mp_loss_options loss_options;
    const char *output; /* name of the tensor to which the loss is applied; NULL: the first output */
    mp_optimizer optimizer;
    mp_fuse fuse;
    mp_dtype dtype; /* element type of activations, gradients and working parameters: FLOAT, FLOAT16 or BFLOAT16 */
    mp_dtype amp;   /* FLOAT16 or BFLOAT16: mixed precision as with torch.autocast; parameters are float32 and dtype is FLOAT.
                       UNDEFINED: no mixed precision */
    mp_rules rules;
    bool for_gpu;              /* true, only under PyTorch's rules: dropout as on a GPU, with a mask of one byte per element */
    const char *const *freeze; /* shell patterns: parameters with a matching name are frozen */
    size_t n_freeze;
    bool inexact;     /* true: allow alternatives that round differently. Results of the training then depend on the plan */
    double clip_norm; /* limit on the global gradient norm; 0: no clipping. Not allowed with fuse backward */
    int accumulate;   /* number of micro-batches per update; 0 means 1. With more than 1, gradients are persistent */
    /* true, only with amp: ranks gather parameters and scatter gradients in the amp type, and store their shards in float32 */
    bool gathers_low;
    /* true: ranks sum gradients after each micro-batch and keep only shards of the sums (zero=2 and 3) */
    bool sums_each_pass;
    const char *options_json; /* JSON text that is stored in the graph unchanged; NULL: "{}" */
} mp_training_options;

/* Appends the requested loss to a model that has no loss. *loss receives the index of the loss tensor, -1 for MP_LOSS_NONE.
 * A model already has a loss if one of its outputs is a float scalar that depends on a parameter. Values and gradients equal
 * PyTorch's functions with reduction mean (kl_div: batchmean). The target becomes a data input "target" with the output's
 * shape; for cross-entropy, without the class dimension. With `amp`, the function then inserts the casts of torch.autocast.
 * MP_INVALID: the output does not exist or does not fit the loss, or an option belongs to another loss. MP_NOMEM. Changes
 * the model. O(operators). */
mp_status mp_model_add_loss(mp_model *model, const mp_training_options *options, int *loss, mp_error *err);

/* Builds the training graph of a simplified model with inferred shapes. `loss` is the result of mp_model_add_loss. On MP_OK
 * *out is a finished graph (mp_graph_finish); release it with mp_graph_free. The model is only read and need not outlive the
 * graph. MP_UNSUPPORTED: an operator on a path from a parameter to the loss has no gradient, or the target cannot run an
 * operator. The message names the operator. MP_INVALID: the model has no trained parameter, or a freeze pattern matches no
 * name. MP_NOMEM. O(operands). */
mp_status mp_training_graph(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                            mp_graph **out, mp_error *err);

/* ---- offloading: optional copies of activations to other tiers (docs/internals/offload.md) ----
 *
 * For each activation, the extended graph has an optional node that copies it out, which a plan runs at most once. The producer
 * of the activation has an additional alternative that copies it back. The steps of a plan decide whether an activation is
 * kept, recomputed or copied (docs/internals/plan-rules.md). Keep-all copies nothing.
 *
 *     // given: mp_graph *graph; mp_answer *answer; mp_error *err
 *     const mp_offload offload = {.host = mp_link_find("pcie4")};
 *     MP_CHECK(mp_graph_offload(graph, &offload, NULL, err));
 *     const int64_t device_bytes = INT64_C(8) << 30, host_bytes = INT64_C(64) << 30;
 *     const mp_request request = {.graph = graph, .budget_bytes = device_bytes, .tier_bytes = {[1] = host_bytes}};
 *     MP_CHECK(mp_solve(&request, answer, err));
 */

/* Default of least_bytes: smaller storages are not copied. For a copy of this size at 24 GB/s, latency is a fifth of the
 * time. */
enum { MP_OFFLOAD_LEAST_BYTES = 1 << 20 };

/* The block size of a disk in bytes: file offsets are multiples of it. */
enum { MP_DISK_BLOCK_BYTES = 4096 };

/* The memories to which storages are offloaded. Each link from the device defines one tier. */
typedef struct mp_offload {
    const mp_link *host, *disk; /* links from the device to the tiers "host" and "disk"; NULL: this tier is not added. If both
                                   are given, the host is the first tier */
    int64_t least_bytes;        /* indices of the storages that may be copied or moved; NULL: all storages */
    const int *storages;        /* indices of the storages that may be copied or moved; NULL: all storages */
    size_t n_storages;
    bool moves_state; /* true: optimizer state is stored in the first of these tiers and copied to the device for its update */
} mp_offload;

/* Extends a graph for offloading. Adds the tiers and their channels. For each copied storage x and tier it adds a storage "x on
 * the host" and an optional node "x to the host" that copies x out. It also adds a returning alternative to the producer of x.
 *
 * A storage may be copied if all of the following hold: it is on the device; it is an activation or saved; it is not
 * persistent; it has at least least_bytes; one forward node writes it in its base alternative; it is read by a loss node, a
 * backward node or at least two nodes. Existing nodes and storages keep their numbers. The time of a copy is latency + bytes /
 * rate in its direction, rounded up to ticks. A link with is_shared has one channel; other links have two. *n_copied (may be
 * NULL) is the number of storages that may be copied.
 *
 * moves_state applies to optimizer state of at least least_bytes that a single update reads and writes. This state s is stored
 * in the first tier ("s on the host"). A node copies it in as "old s", the update writes s in the memory of "old s", and
 * another node copies s out (docs/internals/plan-rules.md). *n_copied includes these states. Their copies are required, not
 * optional.
 *
 * Finishes the graph, which must be finished before and must not have these tiers. MP_INVALID: no tier requested, or the ticks
 * of a copy overflow. MP_PARSE: the tiers exist already. MP_NOMEM. After an error the graph can only be released. O(graph). */
mp_status mp_graph_offload(mp_graph *graph, const mp_offload *offload, size_t *n_copied, mp_error *err);
/* True if mp_graph_offload with this least_bytes would make copies of the storage possible. O(readers of the storage). */
bool mp_may_be_copied(const mp_graph *graph, int storage, int64_t least_bytes);
