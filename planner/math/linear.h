/* linear.h - solves linear programmes and returns the dual values of their rows, by GLPK's dual simplex. Internal to the
 * planner.
 *
 * Minimise cost * x over x >= 0, subject to every row's sum being at least its lower bound. Costs are not negative, so that the
 * basis of slacks is dual feasible. The result is approximate: conclusions drawn from it must hold for any dual values.
 *
 * Most rows are satisfied once the others are. A row is passed to GLPK when it is violated (cutting planes: Dantzig, Fulkerson
 * and Johnson 1954). It is removed when a later solve begins with the row slack. The reason is that each GLPK iteration takes
 * time for every row.
 *
 * All work with GLPK runs in a session. A session converts errors that would make GLPK end the process into a status. GLPK's
 * error hook must not return: it jumps out of the work and skips its stack frames. Memory allocated in these frames must be
 * reachable from objects of the session's caller, or belong to GLPK's environment. The environment is then freed as a whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Calls work(data), which may use GLPK. GLPK prints nothing. MP_LIMIT: GLPK failed with an error, or needs more than 1 GiB or
 * more than the available memory. MP_NOMEM: out of memory at the start. Several threads may have sessions at the same time:
 * each has its own GLPK environment (glp_config("TLS")). An environment that existed before is kept, except after an error,
 * which frees it. */
mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err);

/* A point at which a test can make GLPK fail. The work calls it. */
void mp_glpk_point(void);
/* For tests: GLPK fails after this many points (-1: never); and the limit on its memory in MiB. */
extern _Thread_local int mp_glpk_fail_after, mp_glpk_most_mib;

typedef struct mp_linear {
    int n_columns, n_rows;    /* columns and rows are numbered from 0 */
    bool (*stop)(void *data); /* polled every few hundred iterations; returns true to stop early. NULL: never */
    void *stop_data;
    /* set by mp_linear_solve: */
    double *x, *dual;        /* per column; per row (>= 0): the dual values, which prove `value` */
    double value;            /* a lower bound on the optimum, up to rounding errors; 0: GLPK failed */
    bool solved, infeasible; /* both false: stopped early */
    int64_t work;            /* iterations * rows in GLPK */
    /* private: */
    size_t n_entries;
    double *cost, *row_lower;            /* per column, per row */
    double *column_lower, *column_upper; /* per column */
    int *row, *column;                   /* per entry, from 1 on; columns are numbered from 1, as by GLPK */
    double *coefficient;                 /* per entry, from 1 on */
    size_t capacity[7];
    bool failed;          /* an addition failed for lack of memory */
    size_t *row_start;    /* from the first solve on: entries of row r are row_start[r] + 1 .. row_start[r + 1] */
    int *active;          /* the rows passed to GLPK */
    bool *is_active;      /* per row */
    int n_active;         /* the number of active rows */
    unsigned char *basis; /* GLPK's status per row, then per column; inactive rows are basic */
} mp_linear;

/* Each returns the new number. If memory ran out, sets `failed`; the next solve reports it. Precondition: no solve yet. */
int mp_linear_column(mp_linear *linear, double cost);
int mp_linear_row(mp_linear *linear, double lower);
/* Sets a coefficient, at most once per row and column. */
void mp_linear_entry(mp_linear *linear, int row, int column, double coefficient);

/* Solves, starting from the basis of the last solve. Stops early after about work_limit. Deterministic, unless `stop` ends it.
 * MP_NOMEM: for its own arrays. If GLPK fails, for lack of memory or otherwise, the solve counts as stopped early. Dual simplex
 * with steepest edges (Forrest and Goldfarb 1992). */
mp_status mp_linear_solve(mp_linear *linear, int64_t work_limit, mp_error *err);
/* After a solve: runs a few more iterations, for `value`, `infeasible` and `work`. `x` and `dual` are invalid afterwards. */
void mp_linear_advance(mp_linear *linear, int iterations);
/* Sets the bounds of a column for later solves. The defaults are 0 and INFINITY. */
void mp_linear_limit(mp_linear *linear, int column, double lower, double upper);
/* After a solve: returns the basis of *size bytes from which the next solve starts. Callers may save and restore it. */
unsigned char *mp_linear_basis(const mp_linear *linear, size_t *size);
/* Releases all memory of the programme and makes it empty. */
void mp_linear_clear(mp_linear *linear);
