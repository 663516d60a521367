/* linear.h - a linear programme and the dual values of its rows, by GLPK's dual simplex. For the planner's own use.
 *
 * Minimise cost * x over x >= 0 where every row's sum is at least its lower bound; costs are not negative, so that the basis of
 * slacks is dual feasible. The answer is approximate: what is built on it has to hold for any dual values.
 *
 * Most rows hold wherever the others do. GLPK gets a row once it is violated (cutting planes: Dantzig, Fulkerson and Johnson
 * 1954) until a solve begins where it is slack, as each of GLPK's iterations takes time for every row that it knows.
 *
 * All work with GLPK is done in a session, which turns errors, on which GLPK would end the process, into a status. The error
 * hook may not return: it jumps out of the work, whose frames are skipped. What they allocate must be reachable from what the
 * caller of the session owns, or belong to GLPK's environment, which is then freed as a whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Calls work(data), which may use GLPK; GLPK prints nothing. MP_LIMIT: GLPK broke off with an error, or needs more memory
 * than 1 GiB or than there is. MP_NOMEM: there was no memory at the start. Several threads may have sessions at once: each
 * has its own GLPK environment (glp_config("TLS")). An environment from before stays, except after an error, which frees it. */
mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err);

/* A point at which a test can make GLPK fail; the work calls it. */
void mp_glpk_point(void);
/* For tests: GLPK fails after this many points (-1: never); and the most MiB that it may take. */
extern _Thread_local int mp_glpk_fail_after, mp_glpk_most_mib;

typedef struct mp_linear {
    int n_columns, n_rows;    /* columns and rows are numbered from 0 */
    bool (*stop)(void *data); /* asked every few hundred iterations; true: break off. NULL: never */
    void *stop_data;
    /* set by mp_linear_solve */
    double *x, *dual;        /* per column; per row, >= 0: the dual values, which prove `value` */
    double value;            /* a lower bound on the optimum, up to rounding; 0: GLPK failed */
    bool solved, infeasible; /* both false: broken off */
    int64_t work;            /* iterations * rows in GLPK */
    /* private */
    size_t n_entries;
    double *cost, *row_lower;            /* per column, per row */
    double *column_lower, *column_upper; /* per column */
    int *row, *column;                   /* per entry, from 1 on; columns are numbered from 1, as by GLPK */
    double *coefficient;                 /* per entry, from 1 on */
    size_t capacity[7];
    bool failed;          /* true if memory for an addition was short */
    size_t *row_start;    /* from the first solve on: entries of row r are row_start[r] + 1 .. row_start[r + 1] */
    int *active;          /* the rows that GLPK has */
    bool *is_active;      /* per row */
    int n_active;         /* the number of active rows */
    unsigned char *basis; /* GLPK's status per row, then per column; rows that are not active are basic */
} mp_linear;

/* Returns the new number. If memory is short, sets `failed`, which the next solve reports. Nothing is added after a solve. */
int mp_linear_column(mp_linear *linear, double cost);
int mp_linear_row(mp_linear *linear, double lower);
/* Sets a coefficient; at most once per row and column. */
void mp_linear_entry(mp_linear *linear, int row, int column, double coefficient);

/* Solves from the basis of the last solve, and breaks off after about work_limit. The same calls give the same answer,
 * unless `stop` breaks it off. MP_NOMEM: for its own arrays; if GLPK fails, for memory or otherwise, the solve counts as
 * broken off. Dual simplex with steepest edges (Forrest and Goldfarb 1992). */
mp_status mp_linear_solve(mp_linear *linear, int64_t work_limit, mp_error *err);
/* After a solve: a few more iterations, for `value`, `infeasible` and `work`. `x` and `dual` are then invalid. */
void mp_linear_advance(mp_linear *linear, int iterations);
/* Sets the bounds of a column for later solves; 0 and INFINITY at first. */
void mp_linear_limit(mp_linear *linear, int column, double lower, double upper);
/* After a solve: returns the basis, of *size bytes, that the next solve starts from; callers may save and restore it. */
unsigned char *mp_linear_basis(const mp_linear *linear, size_t *size);
/* Releases everything that it holds and makes it empty. */
void mp_linear_clear(mp_linear *linear);
