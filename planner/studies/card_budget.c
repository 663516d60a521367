/* card_budget.c - tries budgets until a whole process fits its card. */
#include "memplan/studies/card_budget.h"

mp_status mp_card_budget(int64_t budget_bytes, bool is_first_enough, mp_card_trial trial, void *data, mp_error *err)
{
    enum { MOST_AGAIN = 3 };
    /* low: the largest budget without excess, -1: none is known; high: the smallest budget with an excess */
    int64_t low = -1, high = budget_bytes, excess = 0;
    bool goes_on = true;
    MP_CHECK(trial(data, high, &excess, &goes_on, err));
    if (excess <= 0) return MP_OK;
    for (int k = 0; k < MOST_AGAIN && goes_on; k++) {
        const int64_t next = low < 0 ? high - excess : low + (high - low) / 2;
        int64_t found = 0;
        if (next <= 0) break;
        MP_CHECK(trial(data, next, &found, &goes_on, err));
        if (found > 0) {
            high = next;
            excess = found;
            continue;
        }
        low = next;
        if (is_first_enough) break;
    }
    return MP_OK;
}
