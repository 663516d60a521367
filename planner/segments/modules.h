/* modules.h - the searcher "modules": which modules to wrap in torch.utils.checkpoint. */
#pragma once

#include "memplan/search.h"

/* All its plans are those of module_schedule.h. If `moves` allows, it tries all sets of modules. Otherwise sets grow by the
 * module that saves the most bytes over the budget for its time, or start with all modules of equal names ("layers.*.attn");
 * then modules are removed and exchanged one by one. MP_NOT_APPLICABLE: no backward phase, or no modules. */
extern const mp_solver mp_modules_solver;
