/* card_budget.h - finds a budget for tensors with which a whole process fits its card.
 *
 * A budget limits tensors, but the card also holds the allocator's fragments, the CUDA context and other buffers. The size of
 * the fragments depends on the plan. So the right budget is known only after plans with several budgets were tried.
 *
 *     // given: mp_card_trial try_budget; void *data; mp_error *err
 *     // try_budget searches for a plan within a budget and keeps the plan in `data`
 *     MP_CHECK(mp_card_budget(INT64_C(15) << 30, false, try_budget, data, err));
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"

/* The caller's function that tries a budget in bytes. *excess_bytes receives the bytes by which the process of the plan exceeds
 * its card; 0 or less: it fits, or no plan was found. Set *goes_on to false to end the trials. Before the call, *excess_bytes
 * is 0 and *goes_on is true. */
typedef mp_status (*mp_card_trial)(void *data, int64_t budget_bytes, int64_t *excess_bytes, bool *goes_on, mp_error *err);

/* Tries budget_bytes. If the process exceeds its card, tries up to three smaller budgets. As long as every trial had an excess,
 * the next budget is the last budget minus the excess of its trial. After a trial without excess, the budgets bisect the range
 * between the largest budget without excess and the smallest budget with an excess.
 *
 * is_first_enough: the trials end at the first trial without excess. If it is false, later trials without excess have larger
 * budgets. So the caller keeps the plan of the last trial without excess that has a plan. After the first trial, budgets of 0
 * or less are not tried. Errors as `trial`. Cost: at most four trials. */
mp_status mp_card_budget(int64_t budget_bytes, bool is_first_enough, mp_card_trial trial, void *data, mp_error *err);
