/* training.h - model + options + target -> training graph: forward, loss, backward and update nodes over storages.
 *
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

/* The loss that is appended to an output and compares it with a target. */
typedef enum mp_loss {
    MP_LOSS_AUTO,
    MP_LOSS_CROSS_ENTROPY,
    MP_LOSS_MSE,
    MP_LOSS_L1,
    MP_LOSS_SMOOTH_L1,
    MP_LOSS_HUBER,
    MP_LOSS_BCE,    /* binary cross-entropy of logits */
    MP_LOSS_KL_DIV, /* divergence of log-probabilities from the target's probabilities */
    MP_LOSS_COSINE, /* 1 - the cosine of output and target along the last dimension */
    MP_LOSS_NONE,
    MP_N_LOSSES
} mp_loss;
enum { MP_LOSS_IGNORED = -100 }; /* the label that cross-entropy does not count, as PyTorch's */

typedef enum mp_optimizer {
    MP_OPTIMIZER_ADAMW,
    MP_OPTIMIZER_ADAM,
    MP_OPTIMIZER_SGD,
    MP_OPTIMIZER_MOMENTUM,
    MP_OPTIMIZER_NONE,
    MP_OPTIMIZER_ADAMW_8BIT, /* keeps moments as bitsandbytes' AdamW8bit does; for plans only, no backend runs it */
    MP_N_OPTIMIZERS
} mp_optimizer;

/* Return the names of the command line: "cross-entropy", "adamw", "pytorch". Never NULL for values of the enums. */
const char *mp_loss_name(mp_loss loss);
const char *mp_optimizer_name(mp_optimizer optimizer);
const char *mp_rules_name(mp_rules rules);
int mp_loss_find(const char *name), mp_optimizer_find(const char *name), mp_rules_find(const char *name); /* -1: none */

/* How a loss is computed, as arguments of PyTorch's functions; all zero means PyTorch's defaults. Lists need only live
 * while mp_model_add_loss runs. */
typedef struct mp_loss_options {
    double label_smoothing;      /* cross-entropy: the weight of the mean over all classes, in [0, 1] */
    const int64_t *ignore_index; /* cross-entropy: the label that does not count; NULL: MP_LOSS_IGNORED */
    const double *class_weights; /* cross-entropy: a weight per class; NULL: 1 */
    size_t n_class_weights;
    const double *pos_weight; /* bce: weight of positives: one, or one per place of the last dimension; NULL: 1 */
    size_t n_pos_weight;
    double beta; /* smooth-l1: beta, huber: delta; 0: 1 */
} mp_loss_options;

typedef struct mp_training_options {
    mp_loss
        loss; /* AUTO: the model's own, else cross-entropy on its first output (mean squared error if that has no classes) */
    mp_loss_options loss_options;
    const char *output; /* the tensor the loss is put on; NULL: the first output */
    mp_optimizer optimizer;
    mp_fuse fuse;
    mp_dtype dtype; /* FLOAT, FLOAT16 or BFLOAT16: of activations, gradients and working parameters */
    mp_dtype amp;   /* FLOAT16 or BFLOAT16: casts as torch.autocast, parameters in float32 (dtype is FLOAT); UNDEFINED: none */
    mp_rules rules;
    bool for_gpu;              /* with the rules of PyTorch: dropout as on a GPU, where its mask has a byte an element */
    const char *const *freeze; /* shell patterns of parameters that are not trained */
    size_t n_freeze;
    bool inexact;        /* use alternatives that round differently, so that the result depends on the plan */
    double clip_norm;    /* the global norm that gradients are clipped to; 0: not clipped. Not with fuse backward */
    int accumulate;      /* micro-batches per update; 0 and 1: one. With more, gradients are persistent */
    bool gathers_low;    /* with amp: ranks gather parameters, and scatter gradients, in that type, and keep parts in float32 */
    bool sums_each_pass; /* ranks sum the gradients of each micro-batch, and keep parts of the sums (zero=2 and 3) */
    const char *options_json; /* stored in the graph as it is; NULL: "{}" */
} mp_training_options;

/* Appends the loss that the options ask for unless the model has one; *loss is its tensor, -1 for MP_LOSS_NONE. A model has a
 * loss if a declared output is a float scalar that depends on a parameter. Values and gradients are those of PyTorch's
 * functions with reduction mean, of kl_div with batchmean; the target is a data input "target" of the output's shape, of
 * cross-entropy without its classes. With `amp` the casts of torch.autocast are then inserted. MP_INVALID: no such output, one
 * that the loss does not fit, or options of another loss. MP_NOMEM. Changes the model. O(operators). */
mp_status mp_model_add_loss(mp_model *model, const mp_training_options *options, int *loss, mp_error *err);

/* Builds the training graph of a model that was inferred and simplified; `loss` is what mp_model_add_loss gave. On MP_OK *out
 * is a finished graph (mp_graph_finish), released with mp_graph_free; the model is only read and need not outlive it.
 * MP_UNSUPPORTED: an operator without a gradient stands between a parameter and the loss (it is named), or the target cannot
 * run one. MP_INVALID: nothing to train, a freeze pattern that matches nothing. MP_NOMEM. O(operands). */
mp_status mp_training_graph(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                            mp_graph **out, mp_error *err);

/* ---- copies of activations to other memories, as choices of a training graph (docs/internals/offload.md) ----
 *
 * For each activation a graph so extended has a copy out, which runs never or once, and a way back. Whether a plan keeps it,
 * recomputes it or copies it is then decided by its steps (docs/internals/plan-rules.md); keep-all copies nothing.
 *
 *     const mp_offload offload = {.host = mp_link_find("pcie4")};
 *     MP_CHECK(mp_graph_offload(graph, &offload, NULL, err));
 *     const mp_request request = {.graph = graph, .budget_bytes = INT64_C(8) << 30, .tier_bytes = {[1] = INT64_C(64) << 30}};
 */

/* Smaller storages are not copied: at 24 GB/s a fifth of the time of such a copy is its latency. */
enum { MP_OFFLOAD_LEAST_BYTES = 1 << 20 };

/* What a disk reads and writes at once: the offsets in a file are multiples of this. */
enum { MP_DISK_BLOCK_BYTES = 4096 };

/* Where to copy: a tier per link, from the device there and back; NULL: no such tier. */
typedef struct mp_offload {
    const mp_link *host, *disk; /* tiers "host" and "disk"; with both, the host comes first */
    int64_t least_bytes;        /* 0: MP_OFFLOAD_LEAST_BYTES */
    const int *storages;        /* only these may be copied, or moved; NULL: any */
    size_t n_storages;
    bool moves_state; /* optimizer state lies in the first of these tiers, and comes to the device for its update */
} mp_offload;

/* Adds the tiers, their channels, and for each storage that may be copied and each tier a storage there ("x on the host"), an
 * optional node that copies out ("x to the host"), and a returning alternative of its producer. Copied may be what lies on the
 * device, is an activation or saved, not persistent, of least_bytes and more, written by one forward node in its base form, and
 * read by the loss or backward or by two nodes. What the graph had keeps its numbers. A copy takes latency + bytes / rate of
 * its way, in ticks rounded up; a link that is_shared is one channel, else two. *n_copied (may be NULL) is how many storages
 * may be copied.
 *
 * With moves_state each optimizer state of least_bytes and more that one update alone uses, reading and writing it, lies in the
 * first of the tiers ("s on the host"): s becomes what the update makes in the memory of "old s", and two nodes copy that in
 * and s out (docs/internals/plan-rules.md). These states count in *n_copied, too, and the graph cannot run without their
 * copies.
 *
 * Finishes the graph, which has to be a finished one without these tiers. MP_INVALID: neither tier, or a copy takes more ticks
 * than can be counted; MP_PARSE: the tiers are there; MP_NOMEM. After an error the graph can only be released. O(graph). */
mp_status mp_graph_offload(mp_graph *graph, const mp_offload *offload, size_t *n_copied, mp_error *err);
/* True if mp_graph_offload may copy the storage, where such of least_bytes and more are wanted. O(its readers). */
bool mp_may_be_copied(const mp_graph *graph, int storage, int64_t least_bytes);
