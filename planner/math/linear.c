/* linear.c - solves a linear programme by GLPK's dual simplex. During a session, GLPK prints nothing, its memory is limited,
 * and its error hook jumps back to the begin of the session. The programme is stored in memplan's own memory. GLPK has a copy
 * only during each call, so that the programme survives a failure of GLPK. */
#include "planner/math/linear.h"

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "estimator/base/memory.h"

#include <glpk.h>

_Thread_local int mp_glpk_fail_after = -1, mp_glpk_most_mib = 1024;

void mp_glpk_point(void)
{
    if (mp_glpk_fail_after >= 0 && mp_glpk_fail_after-- == 0) glp_error("asked to fail\n");
}

static void on_error(void *data)
{
    longjmp(*(jmp_buf *)data, 1);
}

/* Suppresses all output of GLPK, which prints error texts even if its terminal is off. */
static int say_nothing(void *data, const char *text)
{
    (void)data;
    (void)text;
    return 1;
}

mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err)
{
    jmp_buf escape;
    /* the two results of glp_init_env on success: the environment was created now, or it existed before */
    enum { CREATED = 0, PRESENT = 1 };
    const int code = glp_init_env();
    if (code > PRESENT) return MP_FAIL(err, MP_NOMEM, "no memory for GLPK");
    const bool owned = code == CREATED;
    const int terminal = glp_term_out(GLP_OFF);
    glp_term_hook(say_nothing, NULL);
    glp_mem_limit(mp_glpk_most_mib);
    if (setjmp(escape)) {
        glp_free_env(); /* also removes the hooks */
        return MP_FAIL(err, MP_LIMIT, "GLPK failed");
    }
    glp_error_hook(on_error, &escape);
    work(data);
    glp_error_hook(NULL, NULL);
    glp_term_hook(NULL, NULL);
    glp_mem_limit(INT32_MAX);
    glp_term_out(terminal);
    if (owned) glp_free_env();
    return MP_OK;
}

enum { SLICE = 256 /* iterations of the simplex algorithm between two checks of the work limit and of `stop` */ };

int mp_linear_column(mp_linear *l, double cost)
{
    const size_t n = (size_t)l->n_columns + 1;
    if (!mp_grow(&l->cost, &l->capacity[0], n, sizeof *l->cost) ||
        !mp_grow(&l->column_lower, &l->capacity[1], n, sizeof *l->column_lower) ||
        !mp_grow(&l->column_upper, &l->capacity[2], n, sizeof *l->column_upper)) {
        l->failed = true;
        return 0;
    }
    l->cost[l->n_columns] = cost;
    l->column_lower[l->n_columns] = 0;
    l->column_upper[l->n_columns] = INFINITY;
    return l->n_columns++;
}

int mp_linear_row(mp_linear *l, double lower)
{
    if (!mp_grow(&l->row_lower, &l->capacity[3], (size_t)l->n_rows + 1, sizeof *l->row_lower)) {
        l->failed = true;
        return 0;
    }
    l->row_lower[l->n_rows] = lower;
    return l->n_rows++;
}

void mp_linear_entry(mp_linear *l, int row, int column, double coefficient)
{
    const size_t n = l->n_entries + 2;
    if (l->failed || !mp_grow(&l->row, &l->capacity[4], n, sizeof *l->row) ||
        !mp_grow(&l->column, &l->capacity[5], n, sizeof *l->column) ||
        !mp_grow(&l->coefficient, &l->capacity[6], n, sizeof *l->coefficient)) {
        l->failed = true;
        return;
    }
    l->n_entries++;
    l->row[l->n_entries] = row;
    l->column[l->n_entries] = column + 1;
    l->coefficient[l->n_entries] = coefficient;
}

void mp_linear_limit(mp_linear *l, int column, double lower, double upper)
{
    l->column_lower[column] = lower;
    l->column_upper[column] = upper;
}

unsigned char *mp_linear_basis(const mp_linear *l, size_t *size)
{
    *size = (size_t)l->n_rows + (size_t)l->n_columns;
    return l->basis;
}

/* ---- before the first call of mp_linear_solve ---- */

static void activate(mp_linear *l, int row)
{
    l->is_active[row] = true;
    l->active[l->n_active++] = row;
}

/* Sorts the entries by rows. */
static bool sort_entries(mp_linear *l)
{
    MP_OWNED int *column = mp_alloc(l->n_entries + 1, sizeof *column);
    MP_OWNED double *coefficient = mp_alloc(l->n_entries + 1, sizeof *coefficient);
    MP_OWNED size_t *start = mp_alloc((size_t)l->n_rows + 2, sizeof *start);
    if (!column || !coefficient || !start) return false;
    for (size_t k = 1; k <= l->n_entries; k++) start[l->row[k] + 2]++;
    for (int r = 0; r < l->n_rows; r++) start[r + 2] += start[r + 1];
    for (size_t k = 1; k <= l->n_entries; k++) {
        const size_t place = ++start[l->row[k] + 1];
        column[place] = l->column[k];
        coefficient[place] = l->coefficient[k];
    }
    mp_free(l->row);
    mp_free(l->column);
    mp_free(l->coefficient);
    l->row = NULL;
    l->column = column;
    l->coefficient = coefficient;
    l->row_start = start;
    column = NULL;
    coefficient = NULL;
    start = NULL;
    return true;
}

/* Starts from the basis of slack variables, in which x = 0. Activates the rows that x = 0 violates. (GLPK only sees active
 * rows.) */
static mp_status start_from_slack_basis(mp_linear *l, mp_error *err)
{
    const size_t n = (size_t)l->n_rows;
    l->active = mp_alloc(n, sizeof *l->active);
    l->is_active = mp_alloc(n, sizeof *l->is_active);
    l->basis = mp_alloc(n + (size_t)l->n_columns, 1);
    MP_ENSURE(!l->failed && l->active && l->is_active && l->basis && sort_entries(l), err, MP_NOMEM,
              "no memory for a linear programme of %d rows", l->n_rows);
    memset(l->basis, GLP_BS, n);
    memset(l->basis + n, GLP_NL, (size_t)l->n_columns);
    for (int r = 0; r < l->n_rows; r++)
        if (l->row_lower[r] != 0) activate(l, r);
    return MP_OK;
}

/* Deactivates each row whose slack variable is in the basis. A deactivated row is activated again when it is violated. */
static void choose_active(mp_linear *l)
{
    const int before = l->n_active;
    l->n_active = 0;
    memset(l->is_active, 0, (size_t)l->n_rows * sizeof *l->is_active);
    for (int k = 0; k < before; k++) /* rows that stay active keep their order; newly activated rows follow them */
        if (l->basis[l->active[k]] != GLP_BS || l->row_lower[l->active[k]] != 0) activate(l, l->active[k]);
    for (int r = 0; r < l->n_rows; r++)
        if (!l->is_active[r] && l->basis[r] != GLP_BS) activate(l, r);
}

/* ---- in GLPK's session ---- */

struct call {
    mp_linear *l;
    int64_t work_limit;
    int iterations;
};

static void add_row(glp_prob *problem, const mp_linear *l, int row)
{
    const size_t start = l->row_start[row];
    const int r = glp_add_rows(problem, 1);
    glp_set_row_bnds(problem, r, GLP_LO, l->row_lower[row], 0);
    glp_set_mat_row(problem, r, (int)(l->row_start[row + 1] - start), l->column + start, l->coefficient + start);
}

/* Creates a problem of GLPK with the active rows and the current basis. */
static glp_prob *build(const mp_linear *l)
{
    glp_prob *problem = glp_create_prob();
    mp_glpk_point();
    glp_add_cols(problem, l->n_columns);
    for (int c = 0; c < l->n_columns; c++) {
        const double lower = l->column_lower[c], upper = l->column_upper[c];
        glp_set_col_bnds(problem, c + 1, isinf(upper) ? GLP_LO : lower < upper ? GLP_DB : GLP_FX, lower, upper);
        glp_set_obj_coef(problem, c + 1, l->cost[c]);
        glp_set_col_stat(problem, c + 1, l->basis[l->n_rows + c]);
    }
    for (int k = 0; k < l->n_active; k++) {
        add_row(problem, l, l->active[k]);
        glp_set_row_stat(problem, k + 1, l->basis[l->active[k]]);
    }
    return problem;
}

static double or_zero(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

static void read_columns(mp_linear *l, glp_prob *problem)
{
    for (int c = 0; c < l->n_columns; c++) l->x[c] = or_zero(glp_get_col_prim(problem, c + 1));
}

static bool is_violated(const mp_linear *l, int row)
{
    const double hardly = 1e-6;
    double sum = 0;
    for (size_t k = l->row_start[row] + 1; k <= l->row_start[row + 1]; k++) sum += l->coefficient[k] * l->x[l->column[k] - 1];
    return sum < l->row_lower[row] - hardly;
}

/* Activates the rows that the present solution violates. Returns true if there were any. */
static bool add_violated(mp_linear *l, glp_prob *problem)
{
    const int before = l->n_active;
    for (int r = 0; r < l->n_rows; r++) {
        if (l->is_active[r] || !is_violated(l, r)) continue;
        add_row(problem, l, r);
        activate(l, r);
    }
    return l->n_active > before;
}

/* Runs up to `iterations` more iterations of the simplex algorithm. Returns GLPK's code; GLP_EITLIM: the limit was reached. */
static int iterate(mp_linear *l, glp_prob *problem, int iterations)
{
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.meth = GLP_DUAL;
    options.it_lim = iterations;
    const int before = glp_get_it_cnt(problem);
    const int code = glp_simplex(problem, &options);
    l->work += (int64_t)(glp_get_it_cnt(problem) - before + 1) * l->n_active;
    return code;
}

/* Copies the solution, the dual values and the status from GLPK to the fields of l. */
static void read_answer(mp_linear *l, glp_prob *problem, int code)
{
    mp_glpk_point();
    l->infeasible = !code && glp_get_status(problem) == GLP_NOFEAS;
    l->value = glp_get_obj_val(problem);
    for (int k = 0; k < l->n_active; k++) {
        l->basis[l->active[k]] = (unsigned char)glp_get_row_stat(problem, k + 1);
        l->dual[l->active[k]] = or_zero(glp_get_row_dual(problem, k + 1));
    }
    for (int c = 0; c < l->n_columns; c++) l->basis[l->n_rows + c] = (unsigned char)glp_get_col_stat(problem, c + 1);
}

static bool is_stopped(const mp_linear *l)
{
    return l->stop && l->stop(l->stop_data);
}

/* Runs the simplex algorithm until the programme is solved or a limit is reached. */
static void simplex(void *data)
{
    const struct call *call = data;
    mp_linear *l = call->l;
    glp_prob *problem = build(l);
    int code = GLP_EITLIM, left;
    bool is_reset = false;
    while ((left = call->iterations - glp_get_it_cnt(problem)) > 0 && l->work < call->work_limit && !is_stopped(l)) {
        code = iterate(l, problem, left < SLICE ? left : SLICE);
        /* GLPK reports a singular or ill-conditioned basis, so it starts again from its standard basis */
        if (code && code != GLP_EITLIM && !is_reset) {
            glp_std_basis(problem);
            is_reset = true;
            continue;
        }
        if (code == GLP_EITLIM) continue;
        if (code || glp_get_status(problem) != GLP_OPT) break;
        read_columns(l, problem);
        l->solved = !add_violated(l, problem);
        if (l->solved) break;
    }
    read_answer(l, problem, code);
    glp_delete_prob(problem);
}

mp_status mp_linear_solve(mp_linear *l, int64_t work_limit, mp_error *err)
{
    struct call call = {.l = l, .work_limit = work_limit, .iterations = INT32_MAX};
    mp_free(l->x);
    mp_free(l->dual);
    l->solved = l->infeasible = false;
    l->work = 0;
    l->value = 0;
    l->x = mp_alloc((size_t)l->n_columns, sizeof *l->x);
    l->dual = mp_alloc((size_t)l->n_rows, sizeof *l->dual);
    MP_ENSURE(l->x && l->dual, err, MP_NOMEM, "no memory for a linear programme of %d rows", l->n_rows);
    if (!l->row_start) MP_CHECK(start_from_slack_basis(l, err));
    choose_active(l);
    if (l->n_rows == 0 || l->n_columns == 0 || l->n_entries >= INT32_MAX) return MP_OK;
    if (mp_glpk_session(simplex, &call, NULL) != MP_OK) l->solved = l->infeasible = false;
    return MP_OK;
}

void mp_linear_advance(mp_linear *l, int iterations)
{
    struct call call = {.l = l, .work_limit = INT64_MAX, .iterations = iterations};
    l->work = 0;
    l->infeasible = false;
    mp_glpk_session(simplex, &call, NULL);
}

void mp_linear_clear(mp_linear *l)
{
    mp_free(l->cost);
    mp_free(l->column_lower);
    mp_free(l->column_upper);
    mp_free(l->row_lower);
    mp_free(l->row);
    mp_free(l->column);
    mp_free(l->coefficient);
    mp_free(l->x);
    mp_free(l->dual);
    mp_free(l->row_start);
    mp_free(l->active);
    mp_free(l->is_active);
    mp_free(l->basis);
    memset(l, 0, sizeof *l);
}
