/* selective.h - equal blocks in selective checkpoints of PyTorch. */
#pragma once

#include "cli/apply/applied.h"

/* Prints the policy, and the blocks that it is for. MP_NOT_APPLICABLE: there are no equal blocks. MP_NOMEM. O(2^8 *
 * log(blocks)) timelines. */
mp_status apply_selective(applied *x);
