/* bound_relax.h - the linear programme over overlapping intervals (bound_overlap.h), whose rows' multipliers make the bound.
 * For the bound's own use.
 */
#pragma once

#include "memplan/memory.h"
#include "planner/bound/overlap/bound_overlap.h"
#include "planner/math/linear.h"

typedef struct mp_bound_relax mp_bound_relax;

/* The programme over the boundaries and pairs there are, which stay as they are until it is released, with mp_bound_relax_free
 * (NULL is fine). MP_NOMEM. O(pairs * graph). */
mp_status mp_bound_relax_new(mp_bound_overlap *o, mp_bound_relax **out, mp_error *err);
void mp_bound_relax_free(mp_bound_relax *r);
MP_OWNER(mp_bound_relax_free, mp_bound_relax)
/* Solves it with about so much work (linear.h) and sets the multipliers of o, for whose pairs there is memory; *solved false:
 * there is no answer, and they are left. MP_NOMEM. */
mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err);
/* Replaces *r (NULL: none) by the programme over the pairs there are now, with memory for their multipliers, and solves it; its
 * work is taken from *work_left. On any status *r is released as above. */
mp_status mp_bound_relax_renew(mp_bound_overlap *o, mp_bound_relax **r, int64_t *work_left, bool *solved, mp_error *err);
/* Adds the pairs to o in which the last solution falls short the most, until there are `most`, for the next programme.
 * MP_NOMEM. O(boundaries^2 * graph). */
mp_status mp_bound_relax_add_pairs(const mp_bound_relax *r, int most, mp_error *err);
/* The programme itself, and the column that says whether a storage is live at a boundary, negative: none. */
mp_linear *mp_bound_relax_linear(mp_bound_relax *r);
int mp_bound_relax_live(const mp_bound_relax *r, int boundary, int storage);
/* Returns about the most rows that a pair adds. O(graph). */
int64_t mp_bound_relax_rows(const mp_precedence *order);
