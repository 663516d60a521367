/* modules.h - the searcher "modules": chooses the modules to wrap in torch.utils.checkpoint. */
#pragma once

#include "memplan/search.h"

/* All its plans are schedules of module_schedule.h. If `moves` allows, it tries all sets of modules. Otherwise a set grows by
 * the module that saves the most bytes over the budget per tick. Other sets start with all modules of one name pattern
 * ("layers.*.attn"). Then modules are removed and exchanged one by one. MP_NOT_APPLICABLE: no backward phase, or no modules. */
extern const mp_solver mp_modules_solver;
