/* modules.h - the searcher "modules": chooses the modules to wrap in torch.utils.checkpoint. */
#pragma once

#include "memplan/search.h"

/* The searcher "modules". All its plans are schedules of module_schedule.h. If `moves` allows, it tries all sets of modules.
 * Otherwise it starts from the empty set, and adds the module that saves the most bytes over the budget per tick. Other
 * starting sets contain all modules of one name pattern ("layers.*.attn"). Then modules are removed and exchanged one by one.
 * MP_NOT_APPLICABLE: no backward phase, or no modules. */
extern const mp_solver mp_modules_solver;
