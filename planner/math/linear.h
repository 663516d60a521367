/* linear.h - solves linear programmes and returns the dual values of their rows, by GLPK's dual simplex. Internal to the
 * planner.
 *
 * Minimise cost * x over x >= 0, subject to lower bounds on the sums of all rows. Costs are not negative, so that the basis of
 * slacks is dual feasible. The result is approximate. Conclusions drawn from it must hold for any dual values.
 *
 * Most rows are satisfied if a few are enforced, and each GLPK iteration takes time for every row. So a row is passed to GLPK
 * when it is violated (cutting planes: Dantzig, Fulkerson and Johnson 1954). It is removed if it is slack at the begin of a
 * later solve.
 *
 * All work with GLPK runs in a session. A session converts errors that would make GLPK end the process into a status. GLPK's
 * error hook must not return, so it jumps out of the work and skips its stack frames. Memory allocated in these frames must be
 * reachable from objects of the session's caller, or belong to GLPK's environment. After an error, the environment is freed as
 * a whole. */
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

/* For tests: a place in the work where mp_glpk_fail_after can make GLPK fail. Does nothing otherwise. */
void mp_glpk_point(void);
/* For tests: the number of mp_glpk_point calls until GLPK fails (-1: never); GLPK's memory limit in MiB. */
extern _Thread_local int mp_glpk_fail_after, mp_glpk_most_mib;

typedef struct mp_linear {
    int n_columns, n_rows;    /* columns and rows are numbered from 0 */
    bool (*stop)(void *data); /* polled every few hundred iterations; returns true to stop early. NULL: never */
    void *stop_data;
    /* set by mp_linear_solve: */
    double *x, *dual;        /* solution per column; dual values per row (>= 0), from which `value` follows */
    double value;            /* a lower bound on the optimum, up to rounding errors; 0: GLPK failed */
    bool solved, infeasible; /* both false: stopped early */
    int64_t work;            /* iterations * rows of GLPK */
    /* private: */
    size_t n_entries;
    double *cost, *row_lower;            /* cost per column; lower bound per row */
    double *column_lower, *column_upper; /* bounds of x per column */
    int *row, *column;   /* row and column of each nonzero coefficient, from index 1; columns are numbered from 1, as by GLPK */
    double *coefficient; /* the coefficient at the same index */
    size_t capacity[7];
    bool failed;          /* adding a column, row or coefficient ran out of memory */
    size_t *row_start;    /* from the first solve on: entries of row r are row_start[r] + 1 .. row_start[r + 1] */
    int *active;          /* the rows passed to GLPK */
    bool *is_active;      /* per row: it has been passed to GLPK */
    int n_active;         /* the number of rows passed to GLPK */
    unsigned char *basis; /* GLPK's status per row, then per column; rows not passed to GLPK are basic */
} mp_linear;

/* Add a column and a row, and return its number. If memory runs out, `failed` is set, and the next solve reports it.
 * Precondition: no solve yet. */
int mp_linear_column(mp_linear *linear, double cost);
int mp_linear_row(mp_linear *linear, double lower);
/* Sets the coefficient of a column in a row, at most once for each pair. */
void mp_linear_entry(mp_linear *linear, int row, int column, double coefficient);

/* Solves the programme, starting from the basis of the last solve. Stops early after about work_limit (iterations * rows).
 * Deterministic, unless `stop` ends it. MP_NOMEM: memory outside GLPK ran out. If GLPK fails, for lack of memory or otherwise,
 * the solve counts as stopped early. Dual simplex with steepest edges (Forrest and Goldfarb 1992). */
mp_status mp_linear_solve(mp_linear *linear, int64_t work_limit, mp_error *err);
/* After a solve: runs up to `iterations` more. Updates `value`, `infeasible` and `work`. `x` and `dual` are invalid
 * afterwards. */
void mp_linear_advance(mp_linear *linear, int iterations);
/* Sets the bounds of a column's x for later solves. The defaults are 0 and INFINITY. */
void mp_linear_limit(mp_linear *linear, int column, double lower, double upper);
/* After a solve: returns the basis from which the next solve starts, and its size in bytes. Callers may save and restore its
 * content. */
unsigned char *mp_linear_basis(const mp_linear *linear, size_t *size);
/* Releases all memory of the programme and makes it empty. */
void mp_linear_clear(mp_linear *linear);
