/* framework_selective.h - settings for PyTorch's selective checkpointing. */
#pragma once

#include "formats/frameworks/framework_lines.h"

/* Writes a policy for PyTorch's selective checkpointing, and the blocks to which it applies. Errors as mp_module_blocks_find.
 * O(2^8 * log(blocks)) timelines. */
mp_status mp_framework_selective(mp_framework_writer *x, mp_error *err);
