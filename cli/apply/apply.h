/* apply.h - shows how a user can come close to a plan in a framework (PyTorch, Hugging Face, JAX, ...). Prints lines of code
 * for the framework, and the memory and time of a training step with these lines. */
#pragma once

#include <stdio.h>

#include "executor/workload/workload.h"
#include "memplan/architecture.h"
#include "planner/segments/module_tree.h"

typedef struct applied_means {
    bool fits; /* true: some checkpointing setting of the framework needs at most the plan's budget */
    /* peak bytes with the best setting that fits the budget; if none fits, the smallest peak of all settings */
    int64_t peak_bytes;
    int64_t ticks; /* ticks of one training step with the best setting; -1: no setting fits */
} applied_means;

/* Prints the lines of code for the workload's plan and the framework named by --for. If no setting of the framework fits the
 * plan's budget, found->fits is false and a sentence says so. MP_NOT_APPLICABLE: the network has no modules or blocks that the
 * framework can checkpoint, or no backward phase. MP_NOMEM. */
mp_status report_apply(const mp_workload *s, const char *framework, FILE *to, applied_means *found, mp_error *err);

/* ---- functions that several files of this folder use ---- */

typedef struct applied {
    const mp_workload *workload;
    const mp_graph *graph;
    const mp_plan *plan;
    mp_modules *modules;
    /* the architecture of a network that memplan knows by name (memplan models); NULL: the network is from a file */
    const mp_architecture *architecture;
    bool *chosen;         /* per module: it is wrapped */
    int64_t budget_bytes; /* bytes of the plan's budget; if the plan has no budget, its peak */
    FILE *to;
    applied_means *found;
    mp_error *err;
} applied;

enum { APPLIED_TEXT_MAX = 1024 };

/* Copies the first n bytes of a name (or all of it) to `text`, escaped for a Python string, so that no name can end the string.
 * `formatted`: the string is an f-string. Text beyond APPLIED_TEXT_MAX bytes is truncated. Returns `text`. */
const char *applied_quoted(const char *name, int n, bool formatted, char *text);
/* Prints one element of a Python list of names on its own line, such as: "layers.3", */
void applied_list(const applied *x, const char *name);
/* Returns the name of a module in the user's program. A network known by name has the module paths of Hugging Face's
 * transformers, such as "transformer.h.3". The text is valid until the next call. */
const char *applied_module(const applied *x, int module);
/* Prints the peak and time of a setting, as "peak 4.79 GiB, time +10.0 %". */
void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks);
/* Prints the first lines of the answer: peak and time of the plan, and peak and time of the framework's setting that comes
 * closest to it. */
void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks);
/* Prints where the names of modules come from, if they are not from the user's file. */
void applied_origin(const applied *x);
/* Prints that no setting of the framework fits the budget. `what` is the kind of setting. peak_bytes is the smallest peak of
 * all settings of this kind. */
mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes);

/* ---- the sequence of equal blocks of a network, "h.0" to "h.11". Hugging Face, Megatron and DeepSpeed checkpoint the first k
 * blocks ---- */

typedef struct blocks {
    const mp_modules *modules;
    int n, *module; /* indices of the modules that are blocks, in the order of the network */
    int prefix;     /* length in bytes of the common prefix of all block names: 2 for "h.0" */
} blocks;

/* Finds the blocks: the longest sequence, by operators, of modules whose names differ only in the last number.
 * MP_NOT_APPLICABLE: there is no sequence of two or more modules. MP_NOMEM. Release with blocks_free on any status. */
mp_status blocks_find(const mp_modules *modules, blocks *out, mp_error *err);
void blocks_free(blocks *b);

/* Computes peak and ticks of a training step in which the first k blocks are wrapped in torch.utils.checkpoint. Operators with
 * kept[node] are not recomputed; kept NULL: all operators of these blocks are recomputed. MP_NOT_APPLICABLE: no backward phase.
 * MP_NOMEM. */
mp_status blocks_judge(const blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks, mp_error *err);
/* Finds the smallest k with which the training step fits the budget. *k is -1 if it does not fit even with all blocks
 * checkpointed. */
mp_status blocks_fewest(const blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks, mp_error *err);

/* Prints a policy for PyTorch's selective checkpointing, and the blocks to which it applies. Errors as blocks_find. O(2^8 *
 * log(blocks)) timelines. */
mp_status apply_selective(applied *x);
