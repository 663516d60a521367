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

/* work(data) may call GLPK, which prints nothing. MP_LIMIT: GLPK broke off with an error, or needs more memory than 1 GiB or
 * than there is. MP_NOMEM: there was none to begin with. Threads may have sessions at once: GLPK's environment is each thread's
 * own (glp_config("TLS")). One that the thread had before is left as it is, except after an error, which costs it. */
mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err);

/* Called by the work where a test may want GLPK to fail. */
void mp_glpk_point(void);
/* For tests: GLPK fails after this many points (-1: never); the most memory that it may take. */
extern _Thread_local int mp_glpk_fail_after, mp_glpk_most_mib;

typedef struct mp_linear {
    int n_columns, n_rows;    /* both are numbered from 0 */
    bool (*stop)(void *data); /* asked every some hundred iterations; NULL: never */
    void *stop_data;
    /* set by mp_linear_solve */
    double *x, *dual;        /* per column, per row; >= 0; dual values that prove `value` */
    double value;            /* no more than the optimum, but for rounding; 0: GLPK failed */
    bool solved, infeasible; /* neither: broken off */
    int64_t work;            /* iterations * rows that GLPK knew */
    /* its own */
    size_t n_entries;
    double *cost, *row_lower;            /* per column, per row */
    double *column_lower, *column_upper; /* per column */
    int *row, *column;                   /* per entry, from 1 on; columns are numbered from 1, as by GLPK */
    double *coefficient;                 /* per entry, from 1 on */
    size_t capacity[7];
    bool failed;          /* no memory for something that was added */
    size_t *row_start;    /* from the first solve on: entries of row r are row_start[r] + 1 .. row_start[r + 1] */
    int *active;          /* the rows that GLPK knows */
    bool *is_active;      /* per row */
    int n_active;         /* their number */
    unsigned char *basis; /* per row, then per column: its status; rows that are not active are basic */
} mp_linear;

/* The number of the new one; without memory `failed` is set, and the next solve reports it. Nothing is added after a solve. */
int mp_linear_column(mp_linear *linear, double cost);
int mp_linear_row(mp_linear *linear, double lower);
/* At most once for a row and column. */
void mp_linear_entry(mp_linear *linear, int row, int column, double coefficient);

/* Begins at the basis where the last solve ended, and breaks off after about so much work. The same calls give the same answer,
 * unless `stop` breaks it off. MP_NOMEM: for what it holds; where GLPK fails, for memory or otherwise, it is broken off. Dual
 * simplex with steepest edges (Forrest and Goldfarb 1992). */
mp_status mp_linear_solve(mp_linear *linear, int64_t work_limit, mp_error *err);
/* After a solve: some iterations further, for `value`, `infeasible` and `work`. `x` and `dual` are lost until the next. */
void mp_linear_advance(mp_linear *linear, int iterations);
/* The bounds of a column from the next solve on; at first 0 and INFINITY. */
void mp_linear_limit(mp_linear *linear, int column, double lower, double upper);
/* After a solve: the basis that it ended with and the next begins with, to be copied from and to; of *size bytes. */
unsigned char *mp_linear_basis(const mp_linear *linear, size_t *size);
/* Releases what it holds and makes it empty. */
void mp_linear_clear(mp_linear *linear);
