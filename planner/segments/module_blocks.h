/* module_blocks.h - finds the sequence of equal blocks of a network, such as "h.0" to "h.11". Hugging Face, Megatron and
 * DeepSpeed checkpoint the first k blocks. */
#pragma once

#include "planner/segments/module_tree.h"

typedef struct mp_module_blocks {
    const mp_modules *modules;
    int n, *module; /* indices of the modules that are blocks, in the order of the network */
    int prefix;     /* length in bytes of the common prefix of all block names: 2 for "h.0" */
} mp_module_blocks;

/* Finds the blocks. Of all sequences of modules whose names differ only in the last number, the blocks are the sequence with
 * the most operators. MP_NOT_APPLICABLE: there is no sequence of two or more modules. MP_NOMEM. Release with
 * mp_module_blocks_free on any status. */
mp_status mp_module_blocks_find(const mp_modules *modules, mp_module_blocks *out, mp_error *err);
void mp_module_blocks_free(mp_module_blocks *b);

/* Computes peak and ticks of a training step in which the first k blocks are wrapped in torch.utils.checkpoint. Operators with
 * kept[node] are not recomputed; kept NULL: all operators of these blocks are recomputed. MP_NOT_APPLICABLE: no backward phase.
 * MP_NOMEM. */
mp_status mp_module_blocks_judge(const mp_module_blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks,
                                 mp_error *err);
/* Finds the smallest k with which the training step fits the budget. *k is -1 if it does not fit even with all blocks
 * checkpointed. */
mp_status mp_module_blocks_fewest(const mp_module_blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks,
                                  mp_error *err);
