/* modules.h - the searcher "modules": chooses the modules to wrap in torch.utils.checkpoint. */
#pragma once

#include "memplan/search.h"

/* The searcher "modules". All its plans are schedules of module_schedule.h. If `moves` is large enough, it tries all sets of
 * modules. Otherwise it starts from the empty set, and repeatedly adds the module that removes the most bytes over the budget
 * per tick. It also starts from sets of all modules with one name pattern ("layers.*.attn"). Then it improves the sets by
 * removing or exchanging one module at a time. MP_NOT_APPLICABLE: no backward phase, or no modules. */
extern const mp_solver mp_modules_solver;
