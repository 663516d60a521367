/* chain_table.h - the dynamic programme over (first block, last block, memory): the cheapest persistent schedule of every
 * stretch of a chain. Source: Beaumont et al. 2019.
 */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/search.h"
#include "planner/chain/chain_blocks.h"

/* The cheapest persistent schedules for every memory of 0 .. n_slots slots: dynamic programming over (first block, last block,
 * slots). */
typedef struct mp_chain_table {
    const mp_chain *chain;
    int64_t slot_bytes;
    int n_slots;
    int64_t *ticks;  /* per stretch and number of slots: the least ticks beside the first pass */
    uint8_t *choice; /* how */
} mp_chain_table;

enum { MP_CHAIN_NEVER = -1 };

/* Memory from 0 to most_bytes. All bytes are rounded up to slots, so that no schedule needs more than
 * its slots. *out is NULL if the search (NULL: none) was stopped
 * meanwhile, else released with mp_chain_table_free. MP_NOMEM. O(blocks^3 * slots) time, 9 * blocks^2 * slots bytes. */
mp_status mp_chain_solve(const mp_chain *chain, int64_t most_bytes, mp_search *search, mp_chain_table **out, mp_error *err);
void mp_chain_table_free(mp_chain_table *table);
MP_OWNER(mp_chain_table_free, mp_chain_table)
/* Bytes, without what is always live, in which the chain runs with everything kept that backward reads. */
int64_t mp_chain_whole_bytes(const mp_chain *chain);
/* The ticks of recomputation that a memory of so many slots costs; MP_CHAIN_NEVER: it does not suffice. */
int64_t mp_chain_ticks(const mp_chain_table *table, int slots);

/* The blocks [begin, end) and the memory for them. */
typedef struct mp_chain_stretch {
    int begin, end, slots;
    bool owns_input; /* the input of the first block is counted in these slots and may be freed */
} mp_chain_stretch;

/* How to run a stretch: without `after`, its one block at once; with an option, the first block, `after`, and the first
 * block's backward; else advance up to `after`, run that, then `before`. A stretch without blocks has begin >= end. */
typedef struct mp_chain_choice {
    int option; /* -1: none */
    mp_chain_stretch after, before;
} mp_chain_choice;
mp_chain_choice mp_chain_choose(const mp_chain_table *table, mp_chain_stretch stretch);
