/* attention_masks.h - masks that hide exactly what follows. */
#pragma once

#include "estimator/simplify/patterns/attention_pattern.h"

/* Makes a mask the attribute `causal` if its elements are known, or only this is known of them (mp_mask), and it hides exactly
 * what lies above the diagonal, for every sample alike: e^-1e4 is 0. O(elements of the mask). */
void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *found);
