/* linear.h - solves linear programmes and returns the dual values of their rows, by GLPK's dual simplex. Internal to the
 * planner.
 *
 * Minimise cost * x over x >= 0, subject to lower bounds on the sums of all rows. Costs are not negative, so that the basis of
 * slacks is dual feasible. The result is approximate. So callers may only use it for conclusions that are valid for any dual
 * values.
 *
 * A solution that satisfies a few rows usually satisfies all, and each iteration of GLPK takes time for every row. So a row is
 * passed to GLPK only when it is violated (cutting planes: Dantzig, Fulkerson and Johnson 1954). It is removed if it is slack
 * at the begin of a later solve.
 *
 * All work with GLPK runs in a session. A session converts errors that would make GLPK end the process into a status. GLPK's
 * error hook must not return, so it jumps out of the function `work` and skips its stack frames. Memory allocated in these
 * frames must therefore be owned by objects of the session's caller, or by GLPK's environment. After an error, the environment
 * is freed as a whole. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Runs a session: calls work(data), which may use GLPK. GLPK prints nothing. MP_LIMIT: GLPK failed with an error, or its memory
 * exceeded 1 GiB or the available memory. MP_NOMEM: there was no memory for GLPK's environment. Several threads may have
 * sessions at the same time: each has its own GLPK environment (glp_config("TLS")). An environment that existed before the
 * session is kept, unless GLPK fails. */
mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err);

/* For tests: marks a place in the function `work` of a session at which mp_glpk_fail_after can make GLPK fail. Outside of tests
 * it does nothing. */
void mp_glpk_point(void);
/* For tests. mp_glpk_fail_after: number of calls of mp_glpk_point until GLPK fails (-1: never). mp_glpk_most_mib: memory limit
 * of GLPK in MiB. */
extern _Thread_local int mp_glpk_fail_after, mp_glpk_most_mib;

typedef struct mp_linear {
    /* n_columns: number of columns of the linear programme; n_rows: number of its rows; both are numbered from 0 */
    int n_columns, n_rows;
    /* called every few hundred iterations; returns true to stop the solver early. NULL: the solver is not stopped */
    bool (*stop)(void *data);
    void *stop_data;
    /* set by mp_linear_solve: */
    double *x, *dual; /* x: the value of each column in the solution; dual: the dual value of each row (>= 0) */
    /* a lower bound on the optimum, computed from the dual values, up to rounding errors; 0: GLPK failed */
    double value;
    bool solved, infeasible; /* both false: stopped early */
    int64_t work;            /* iterations * rows of GLPK */
    /* private: */
    size_t n_entries;
    double *cost, *row_lower;            /* cost: cost of each column; row_lower: lower bound on the sum of each row */
    double *column_lower, *column_upper; /* bounds of x per column */
    /* row and column of each nonzero coefficient; the arrays begin at index 1, and columns are numbered from 1, as in GLPK */
    int *row, *column;
    double *coefficient; /* value of each nonzero coefficient, at the same index as its row and column */
    size_t capacity[7];
    bool failed; /* true: memory ran out while a column, row or coefficient was added */
    /* set by the first solve: the coefficients of row r have the indices row_start[r] + 1 .. row_start[r + 1] */
    size_t *row_start;
    int *active;     /* the rows passed to GLPK */
    bool *is_active; /* per row: GLPK's problem contains it */
    int n_active;    /* number of rows that GLPK's problem contains */
    /* GLPK's status of each row, followed by that of each column; a row that GLPK's problem does not contain is basic */
    unsigned char *basis;
} mp_linear;

/* mp_linear_column adds a column and mp_linear_row adds a row. Both return the new number. If memory runs out, they set
 * `failed`, and the next solve returns MP_NOMEM. Precondition: there was no solve yet. */
int mp_linear_column(mp_linear *linear, double cost);
int mp_linear_row(mp_linear *linear, double lower);
/* Sets the coefficient of a column in a row. It may be set only once. */
void mp_linear_entry(mp_linear *linear, int row, int column, double coefficient);

/* Solves the programme, starting from the basis of the last solve. Stops early after about work_limit (iterations * rows).
 * Deterministic, unless `stop` ends it. MP_NOMEM: memory outside GLPK ran out. If GLPK fails, for lack of memory or otherwise,
 * the solve counts as stopped early. Dual simplex with steepest edges (Forrest and Goldfarb 1992). */
mp_status mp_linear_solve(mp_linear *linear, int64_t work_limit, mp_error *err);
/* Continues after a solve with up to `iterations` more iterations. Updates `value`, `infeasible` and `work`. Afterwards `x` and
 * `dual` are invalid. */
void mp_linear_advance(mp_linear *linear, int iterations);
/* Sets the bounds of a column's value x for later solves. The defaults are 0 and INFINITY. */
void mp_linear_limit(mp_linear *linear, int column, double lower, double upper);
/* After a solve: returns the basis from which the next solve starts, and its size in bytes. The caller may save its content and
 * write it back later. */
unsigned char *mp_linear_basis(const mp_linear *linear, size_t *size);
/* Releases the memory of the linear programme. The programme is then empty. */
void mp_linear_clear(mp_linear *linear);
