/* attention_operands.h - what stands in front of Q, K and V and behind the result, and may be taken in.
 *
 * Transpositions bring heads to the front and back. Where the innermost dimension stays so and nobody else reads between,
 * attention reads and writes what the projections have, and no copy with heads in front is made, or kept for backward.
 */
#pragma once

#include "estimator/simplify/patterns/attention_pattern.h"

/* Reads K and V before they are repeated for the heads that share them, where both are alike, or as the one that all share. */
void mp_attention_take_out_groups(const mp_rewriter *r, mp_attention_found *found);
/* Takes in the transpositions in front of Q, K and V. */
void mp_attention_take_in_operands(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *found);
/* A Transpose, operator `index`, behind an attention that nobody else reads: the attention writes what the Transpose does.
 * Under PyTorch's rules only where its result lies in memory as the Transpose has it. MP_NOMEM. */
mp_status mp_attention_take_in_result(mp_rewriter *r, int index);
