/* bound_linear.h - a linear programme and the prices of its rows, by GLPK's interior point. For the planner's own use.
 *
 * Minimise cost * x over x >= 0 where every row's sum is at least what it asks for. The answer is approximate: what is built on
 * it has to hold for any prices.
 */
#ifndef PLANNER_BOUND_LINEAR_H
#define PLANNER_BOUND_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estimator/error.h"

typedef struct mp_bound_linear {
    int n_columns, n_rows; /* both are numbered from 0 */
    size_t n_entries;
    double *cost;  /* per column */
    double *least; /* per row */
    int *row, *column;
    double *coefficient;      /* per entry */
    double *x, *price;        /* per column, per row (>= 0): set by mp_bound_linear_solve */
    bool solved;              /* false: there is no answer, and both are zero */
    bool (*stop)(void *data); /* asked after each factorisation; NULL: never */
    void *stop_data;
    size_t capacity[5];
    void *model; /* as far as it was handed over */
    int n_loaded;
    int64_t work; double value; bool infeasible;
    size_t entries_loaded;
    bool failed; /* no memory for something that was added */
} mp_bound_linear;

/* The number of the new one; without memory `failed` is set, and the next solve tells. */
int mp_bound_linear_column(mp_bound_linear *linear, double cost);
int mp_bound_linear_row(mp_bound_linear *linear, double least);
void mp_bound_linear_entry(mp_bound_linear *linear, int row, int column, double coefficient);

/* x and price, as good as they could be found: zero if not at all. The same programme gives the same answer, unless it was
 * stopped. MP_NOMEM. Primal-dual interior point (Mehrotra 1992), as GLPK has it: some tens of factorisations, each in
 * proportion to the power of 1.5 of the factor's entries, if its last columns are dense; where these are too many, it is not
 * begun. */
mp_status mp_bound_linear_solve(mp_bound_linear *linear, int64_t most_work, mp_error *err);
/* Some iterations more of a solve: `value`, no x and no prices. */
void mp_bound_linear_advance(mp_bound_linear *linear, int iterations);
/* After a solve: between what a column is from the next on; at first 0 and INFINITY. */
void mp_bound_linear_limit(mp_bound_linear *linear, int column, double least, double most);
/* After a solve: the basis that it ended with and the next begins with, to be copied from and to. */
unsigned char *mp_bound_linear_basis(const mp_bound_linear *linear, size_t *size);
/* Releases what it holds and makes it empty. */
void mp_bound_linear_clear(mp_bound_linear *linear);

#endif
