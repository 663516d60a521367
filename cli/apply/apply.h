/* apply.h - a plan in terms of a framework: the lines to paste there, and what they cost. */
#pragma once

#include <stdio.h>

#include "cli/subject/subject.h"
#include "planner/segments/module_tree.h"

typedef struct applied_means {
    bool fits;          /* the means fit the plan's budget */
    int64_t peak_bytes; /* of the framework's means; if none fits, of the smallest */
    int64_t ticks;      /* of one step with these means; -1: none fits */
} applied_means;

/* Prints the lines for the subject's plan and a framework of --for. If the framework's means do not fit the plan's
 * budget, found->fits is false and a sentence says so instead. MP_NOT_APPLICABLE: the network has no modules or blocks
 * that the framework could take, or no backward phase. MP_NOMEM. */
mp_status report_apply(const subject *s, const char *framework, FILE *to, applied_means *found, mp_error *err);

/* ---- what the files of this folder share ---- */

typedef struct applied {
    const subject *subject;
    const mp_graph *graph;
    const mp_plan *plan;
    mp_modules *modules;
    const mp_architecture *architecture; /* of a network known by name; else NULL */
    bool *chosen;                        /* for each module: it is wrapped */
    int64_t budget_bytes;                /* of the plan; without a budget the plan's peak */
    FILE *to;
    applied_means *found;
    mp_error *err;
} applied;

enum { APPLIED_TEXT_MAX = 1024 };

/* Writes the first n bytes of a name (or all of it) for use between Python's quotes, escaped so that no name ends the
 * string. `formatted`: for an f-string. Text beyond APPLIED_TEXT_MAX bytes is cut. Returns text. */
const char *applied_quoted(const char *name, int n, bool formatted, char *text);
/* Prints one line of a list of names: "layers.3", */
void applied_list(const applied *x, const char *name);
/* Returns the name of a module in the user's program: for a network known by name its path in transformers. The text is
 * valid until the next call. */
const char *applied_module(const applied *x, int module);
/* Prints "peak 4.79 GiB, time +10.0 %". */
void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks);
/* Prints the first lines: the plan, and what the framework makes of it. */
void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks);
/* Prints whose module names follow, if they are not those of the user's file. */
void applied_origin(const applied *x);
/* Says that the framework's means do not fit the budget. */
mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes);

/* ---- the equal blocks of a network, "h.0" to "h.11", the first of which Hugging Face, Megatron and DeepSpeed checkpoint ----
 */

typedef struct blocks {
    const mp_modules *modules;
    int n, *module; /* indices of modules, in the order of the network */
    int prefix;     /* bytes of the common prefix of their names: 2 for "h.0" */
} blocks;

/* Finds the sequence of modules whose names differ only in their last number that has most operators.
 * MP_NOT_APPLICABLE: there is none of two or more. MP_NOMEM. Release with blocks_free in any case. */
mp_status blocks_find(const mp_modules *modules, blocks *out, mp_error *err);
void blocks_free(blocks *b);

/* Gives peak and ticks with the first k blocks in torch.utils.checkpoint; their operators with kept[node] are not run
 * again (NULL: all are). MP_NOT_APPLICABLE: no backward phase. MP_NOMEM. */
mp_status blocks_judge(const blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks, mp_error *err);
/* Finds the fewest first blocks to checkpoint with which the step fits; *k is -1 if not even all suffice. */
mp_status blocks_fewest(const blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks, mp_error *err);

/* Prints the policy for PyTorch's selective checkpoints, and the blocks that it is for. Errors as blocks_find. O(2^8 *
 * log(blocks)) timelines. */
mp_status apply_selective(applied *x);
