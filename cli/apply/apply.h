/* apply.h - a plan in the words of a framework: what to paste there, and what it comes to. */
#pragma once

#include <stdio.h>

#include "cli/subject/subject.h"
#include "planner/segments/module_tree.h"

typedef struct applied_means {
    bool fits;          /* within the plan's budget */
    int64_t peak_bytes; /* of the framework's means; of the smallest there is where none fits */
    int64_t ticks;      /* of a step with it; -1: none fits */
} applied_means;

/* Prints the lines for the subject's plan and a framework of --for. found->fits is false if what the framework can do does not
 * fit the plan's budget, which is said in place of lines to paste. MP_NOT_APPLICABLE: the network has no modules or blocks that
 * the framework could take, or no backward phase. MP_NOMEM. */
mp_status report_apply(const subject *s, const char *framework, FILE *to, applied_means *found, mp_error *err);

/* ---- what the parts of it share ---- */

typedef struct applied {
    const subject *subject;
    const mp_graph *graph;
    const mp_plan *plan;
    mp_modules *modules;
    int64_t budget_bytes; /* of the plan; its peak where it has none */
    FILE *to;
    applied_means *found;
    mp_error *err;
} applied;

enum { APPLIED_TEXT_MAX = 1024 };

/* Writes the first n bytes of a name (or all there are) as they stand between the quotes of Python: no name ends the text it
 * stands in. `formatted`: of an f-string. What does not fit into APPLIED_TEXT_MAX bytes is cut. Returns text. */
const char *applied_quoted(const char *name, int n, bool formatted, char *text);
/* Prints a line of a list of names: "layers.3", */
void applied_list(const applied *x, const char *name);
/* Prints "peak 4.79 GiB, time +10.0 %". */
void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks);
/* Prints the first lines: what the plan is, and what is made of it. */
void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks);
/* Says that what the framework can do is not enough. */
mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes);

/* ---- the equal blocks of a network, "h.0" to "h.11", the first of which Hugging Face, Megatron and DeepSpeed checkpoint ----
 */

typedef struct blocks {
    const mp_modules *modules;
    int n, *module; /* in the order of the network */
    int prefix;     /* bytes of their names before the number: 2 for "h.0" */
} blocks;

/* Finds the row of modules, of names that differ in their last number only, that has most operators. MP_NOT_APPLICABLE: there
 * is none of two or more. MP_NOMEM. Release with blocks_free in any case. */
mp_status blocks_find(const mp_modules *modules, blocks *out, mp_error *err);
void blocks_free(blocks *b);

/* Gives peak and ticks with the first k blocks in torch.utils.checkpoint; of their operators those of kept[node] do not run
 * again (NULL: all do). MP_NOT_APPLICABLE: no backward phase. MP_NOMEM. */
mp_status blocks_judge(const blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks, mp_error *err);
/* Gives the fewest first blocks with which the step fits; -1: not even all do. */
mp_status blocks_fewest(const blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks, mp_error *err);

/* Prints the policy of PyTorch's selective checkpoints, and the blocks that it is for. As blocks_find. O(2^8 * log(blocks))
 * timelines. */
mp_status apply_selective(applied *x);
