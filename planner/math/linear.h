/* linear.h - a linear programme and the prices of its rows, by Clp's dual simplex. For the planner's own use.
 *
 * Minimise cost * x over x >= 0 where every row's sum is at least what it asks for; costs are not negative, so that zero prices
 * are a start. The answer is approximate: what is built on it has to hold for any prices.
 */
#ifndef PLANNER_MATH_LINEAR_H
#define PLANNER_MATH_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_linear {
    int n_columns, n_rows; /* both are numbered from 0 */
    size_t n_entries;
    double *cost;  /* per column */
    double *least; /* per row */
    int *row, *column;
    double *coefficient;      /* per entry */
    bool (*stop)(void *data); /* asked every 256 iterations; NULL: never */
    void *stop_data;
    /* set by mp_linear_solve */
    double *x, *price;       /* per column, per row (>= 0) */
    double value;            /* the sum of cost * x at the end: what rows ask for, at their prices */
    bool solved, infeasible; /* neither: broken off, and prices are as good as they were then */
    int64_t work;            /* iterations * rows */
    /* its own */
    size_t capacity[5];
    bool failed; /* no memory for something that was added */
    void *model; /* Clp's; from the first solve on, when nothing can be added any more */
} mp_linear;

/* The number of the new one; without memory `failed` is set, and the next solve tells. */
int mp_linear_column(mp_linear *linear, double cost);
int mp_linear_row(mp_linear *linear, double least);
void mp_linear_entry(mp_linear *linear, int row, int column, double coefficient);

/* Begins where the last solve ended, and breaks off when it took about so much work. The same calls give the same answer,
 * unless `stop` breaks it off. MP_NOMEM. Dual simplex with steepest edges (Forrest and Goldfarb 1992); Clp takes memory of its
 * own, and ends the process if there is none. */
mp_status mp_linear_solve(mp_linear *linear, int64_t most_work, mp_error *err);
/* After a solve: some iterations further, for `value`, `infeasible` and `work` alone. */
void mp_linear_advance(mp_linear *linear, int iterations);
/* After a solve: between what a column is from the next on; at first 0 and INFINITY. */
void mp_linear_limit(mp_linear *linear, int column, double least, double most);
/* After a solve: the basis that it ended with and the next begins with, to be copied from and to; of *size bytes. */
unsigned char *mp_linear_basis(const mp_linear *linear, size_t *size);
/* Releases what it holds and makes it empty. */
void mp_linear_clear(mp_linear *linear);

#endif
