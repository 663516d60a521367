/* chain_measure.h - the ways to run each block of a chain, with their ticks and bytes. */
#pragma once

#include "planner/chain/chain_blocks.h"

/* Fills in what every block can do and what it takes. MP_NOMEM. O(blocks * nodes + options * list lengths), and a bounded
 * number of steps per block to order what can be dropped. */
mp_status mp_chain_measure(mp_chain *chain, mp_error *err);
