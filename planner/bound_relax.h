/* bound_relax.h - the linear programme over overlapping intervals (bound_overlap.h), whose rows' prices make the bound. For the
 * bound's own use.
 */
#ifndef PLANNER_BOUND_RELAX_H
#define PLANNER_BOUND_RELAX_H

#include "planner/bound_linear.h"
#include "planner/bound_overlap.h"

typedef struct mp_bound_relax mp_bound_relax;

/* The programme over the boundaries and pairs there are, which stay as they are until it is released, with mp_bound_relax_free
 * (NULL is fine). MP_NOMEM. O(pairs * graph). */
mp_status mp_bound_relax_new(mp_bound_overlap *o, mp_bound_relax **out, mp_error *err);
void mp_bound_relax_free(mp_bound_relax *r);
/* Sets the prices of o, for whose pairs there is room; *solved false: there is no answer, and they are left. MP_NOMEM. */
mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err);
/* For all pairs there are not, how far the last solution falls short in them: more[from * (boundaries + 1) + to]; 0 for others. */
void mp_bound_relax_shortfalls(const mp_bound_relax *r, double *more);
/* Adds rows that the last solution breaks and no choice of what is held wholly does: covers of the rooms. O(boundaries *
 * storages^2). */
void mp_bound_relax_cover(mp_bound_relax *r, int *n_added);
/* The programme itself, and the column that says whether a storage is held at a boundary, negative: none. */
mp_bound_linear *mp_bound_relax_linear(mp_bound_relax *r);
int mp_bound_relax_held(const mp_bound_relax *r, int boundary, int storage);
/* How many rows a pair adds, at most about. O(graph). */
int64_t mp_bound_relax_rows(const mp_bound_order *order);

#endif
