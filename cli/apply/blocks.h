/* blocks.h - the equal blocks of a network, "h.0" to "h.11", and what it comes to if the first of them are checkpointed: what
 * Hugging Face, Megatron and DeepSpeed can do. */
#pragma once

#include "planner/segments/module_tree.h"

typedef struct blocks {
    const mp_modules *modules;
    int n, *module; /* in the order of the network */
    int prefix;     /* bytes of their names before the number: 2 for "h.0" */
} blocks;

/* The row of modules, of names that differ in their last number only, that has most operators; n 0: there is none of two or
 * more. Release with blocks_free in any case. MP_NOMEM. */
mp_status blocks_find(const mp_modules *modules, blocks *out, mp_error *err);
void blocks_free(blocks *b);

/* Peak and ticks with the first k blocks in torch.utils.checkpoint; of their operators those of kept[node] do not run again
 * (NULL: all do). MP_NOT_APPLICABLE: no backward phase. MP_NOMEM. */
mp_status blocks_judge(const blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks, mp_error *err);

/* The fewest first blocks with which the step fits; -1: not even all do. */
mp_status blocks_fewest(const blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks, mp_error *err);
