/* modules.h - searcher: which modules to wrap in torch.utils.checkpoint. */
#pragma once

#include "memplan/search.h"

/* "modules": its plans are those of module_schedule.h, and nothing else. Where `moves` allows, all sets of modules are tried;
 * else sets grow by what takes away most bytes over the budget for its time, begin with all modules of equal names
 * ("layers.*.attn"), and are thinned and exchanged one by one. MP_NOT_APPLICABLE: no backward phase, or no modules. */
extern const mp_solver mp_modules_solver;
