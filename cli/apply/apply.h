/* apply.h - shows how to follow a plan in another framework (PyTorch, Hugging Face, JAX, ...): prints the lines to paste, and
 * the memory and time of a step with these lines. */
#pragma once

#include <stdio.h>

#include "cli/subject/subject.h"
#include "planner/segments/module_tree.h"

typedef struct applied_means {
    bool fits;          /* some checkpointing setting of the framework fits the plan's budget */
    int64_t peak_bytes; /* peak bytes with the best such setting; if none fits, the smallest peak of all settings */
    int64_t ticks;      /* ticks of one training step with the best setting; -1: none fits */
} applied_means;

/* Prints the lines for the subject's plan and the framework named by --for. If no setting of the framework fits the plan's
 * budget, found->fits is false and a sentence says so instead. MP_NOT_APPLICABLE: the network has no modules or blocks that
 * the framework can checkpoint, or no backward phase. MP_NOMEM. */
mp_status report_apply(const subject *s, const char *framework, FILE *to, applied_means *found, mp_error *err);

/* ---- shared by the files of this folder ---- */

typedef struct applied {
    const subject *subject;
    const mp_graph *graph;
    const mp_plan *plan;
    mp_modules *modules;
    /* the architecture of a network known by name (memplan models); NULL: a network from a file */
    const mp_architecture *architecture;
    bool *chosen;         /* per module: it is wrapped */
    int64_t budget_bytes; /* the plan's budget; the plan's peak if it has no budget */
    FILE *to;
    applied_means *found;
    mp_error *err;
} applied;

enum { APPLIED_TEXT_MAX = 1024 };

/* Escapes the first n bytes of a name (or all of it) for use in a Python string, so that no name can end the string.
 * `formatted`: for an f-string. Text beyond APPLIED_TEXT_MAX bytes is truncated. Returns `text`. */
const char *applied_quoted(const char *name, int n, bool formatted, char *text);
/* Prints one line of a Python list of names, such as: "layers.3", */
void applied_list(const applied *x, const char *name);
/* Returns a module's name as the user's program spells it. A network known by name has the module paths of Hugging Face's
 * transformers, such as "transformer.h.3". The text is valid until the next call. */
const char *applied_module(const applied *x, int module);
/* Prints peak and time of a setting, as "peak 4.79 GiB, time +10.0 %". */
void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks);
/* Prints the first lines: the plan's peak and time, and the same for the setting of the framework that approximates the plan.
 */
void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks);
/* Prints the origin of the module names, if they are not from the user's file. */
void applied_origin(const applied *x);
/* Prints that no setting of the framework fits the budget. `what` names the kind of setting. peak_bytes is the smallest peak
 * among all settings of that kind. */
mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes);

/* ---- the equal blocks of a network, "h.0" to "h.11"; Hugging Face, Megatron and DeepSpeed checkpoint the first k of them
 * ---- */

typedef struct blocks {
    const mp_modules *modules;
    int n, *module; /* indices of the blocks' modules, in the order of the network */
    int prefix;     /* number of bytes that all block names have in common at their start: 2 for "h.0" */
} blocks;

/* Finds the sequence of modules whose names differ only in the last number. If there are several sequences, chooses the one
 * with the most operators. MP_NOT_APPLICABLE: there is no sequence of two or more modules. MP_NOMEM. Release with blocks_free
 * on any status. */
mp_status blocks_find(const mp_modules *modules, blocks *out, mp_error *err);
void blocks_free(blocks *b);

/* Computes peak and ticks of a step with the first k blocks in torch.utils.checkpoint. Operators with kept[node] are not
 * recomputed; if kept is NULL, all operators of these blocks are. MP_NOT_APPLICABLE: no backward phase. MP_NOMEM. */
mp_status blocks_judge(const blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks, mp_error *err);
/* Finds the smallest k so that the step fits the budget if the first k blocks are checkpointed. *k is -1 if the step does not
 * fit even with all blocks. */
mp_status blocks_fewest(const blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks, mp_error *err);

/* Prints the policy for PyTorch's selective checkpointing, and the blocks that use it. Errors as blocks_find. O(2^8 *
 * log(blocks)) timelines. */
mp_status apply_selective(applied *x);
