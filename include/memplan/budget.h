/* budget.h - a memory budget as users write it. The command line, the library and the Python package share this grammar:
 *
 *     8GiB  800MB  16e9  1.5 GiB   bytes; K, M, G and T are binary units, as for GPUs.
 *     60%                          per cent of the peak of keep-all.
 *     min                          the memory of the smallest plan that the search finds; "floor" means the same.
 *     min+50%                      half-way between the smallest plan and keep-all.
 *     device                       all memory of the device minus its reserve.
 *     auto                         the free memory of the device minus its reserve.
 *
 * Blanks at the ends, around "+" and before a unit or "%" have no meaning.
 *
 *     // given: const mp_timeline *keep_all; const mp_plan *smallest; mp_request *request; mp_error *err
 *     mp_budget budget;
 *     const char *why;
 *     if (!mp_budget_parse("min+50%", &budget, &why)) return MP_FAIL(err, MP_INVALID, "the budget %s", why);
 *     request->budget_bytes = mp_budget_resolve(&budget, keep_all->peak_bytes, mp_plan_need(smallest));
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum mp_budget_kind {
    MP_BUDGET_BYTES,
    MP_BUDGET_OF_PEAK, /* the budget is `percent` of the peak of keep-all */
    /* the budget is the bytes of the smallest plan, plus `percent` of the difference between keep-all's peak and these bytes */
    MP_BUDGET_ABOVE_MIN,
    MP_BUDGET_FREE,  /* the budget is the free memory of the device */
    MP_BUDGET_DEVICE /* the budget is the whole memory of the device */
} mp_budget_kind;

typedef struct mp_budget {
    mp_budget_kind kind;
    int64_t bytes;
    double percent;
    const char *bare; /* the user's text, if it is a number of bytes without a unit; otherwise NULL */
} mp_budget;

/* Parses a budget. On failure returns false, and *why is the reason, as the end of a sentence. O(length). */
bool mp_budget_parse(const char *text, mp_budget *out, const char **why);
/* True if the budget depends on the device's memory (auto, device). */
bool mp_budget_is_of_device(const mp_budget *b);
/* Returns the bytes of a budget that does not depend on the device, rounded down. peak_bytes is the peak of keep-all;
 * smallest_bytes is the memory of the smallest plan. For a budget of the device the result is meaningless. */
int64_t mp_budget_resolve(const mp_budget *b, int64_t peak_bytes, int64_t smallest_bytes);
