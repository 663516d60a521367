/* linear.c - a linear programme by GLPK's dual simplex. The programme lies in our memory, and GLPK has a copy for each call
 * only, so that what GLPK loses when it fails is nothing that anybody holds. */
#include "planner/math/linear.h"

#include <math.h>
#include <string.h>

#include <glpk.h>

#include "estimator/base/memory.h"
#include "planner/math/glpk_session.h"

enum { SLICE = 256 /* iterations between two looks at the work and at `stop` */ };

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
    l->row[l->n_entries] = row + 1;
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

/* ---- in GLPK's session ---- */

struct call {
    mp_linear *l;
    int64_t work_limit;
    int iterations; /* in all; 0: by the work alone */
    bool reads;     /* x and dual too */
};

static glp_prob *build(const mp_linear *l)
{
    glp_prob *problem = glp_create_prob();
    mp_glpk_point();
    glp_add_rows(problem, l->n_rows);
    glp_add_cols(problem, l->n_columns);
    for (int r = 0; r < l->n_rows; r++) glp_set_row_bnds(problem, r + 1, GLP_LO, l->row_lower[r], 0);
    for (int c = 0; c < l->n_columns; c++) {
        const double lower = l->column_lower[c], upper = l->column_upper[c];
        glp_set_col_bnds(problem, c + 1, isinf(upper) ? GLP_LO : lower < upper ? GLP_DB : GLP_FX, lower, upper);
        glp_set_obj_coef(problem, c + 1, l->cost[c]);
    }
    glp_load_matrix(problem, (int)l->n_entries, l->row, l->column, l->coefficient);
    glp_scale_prob(problem, GLP_SF_EQ);
    return problem;
}

static void write_basis(const mp_linear *l, glp_prob *problem)
{
    for (int r = 0; r < l->n_rows; r++) glp_set_row_stat(problem, r + 1, l->basis[r]);
    for (int c = 0; c < l->n_columns; c++) glp_set_col_stat(problem, c + 1, l->basis[l->n_rows + c]);
}

static double or_zero(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

static void read_answer(const struct call *call, glp_prob *problem)
{
    mp_linear *l = call->l;
    l->value = glp_get_obj_val(problem);
    for (int r = 0; r < l->n_rows; r++) l->basis[r] = (unsigned char)glp_get_row_stat(problem, r + 1);
    for (int c = 0; c < l->n_columns; c++) l->basis[l->n_rows + c] = (unsigned char)glp_get_col_stat(problem, c + 1);
    for (int c = 0; c < l->n_columns && call->reads; c++) l->x[c] = or_zero(glp_get_col_prim(problem, c + 1));
    for (int r = 0; r < l->n_rows && call->reads; r++) l->dual[r] = or_zero(glp_get_row_dual(problem, r + 1));
}

/* Some iterations further. GLPK's code; GLP_EITLIM: there are more to come. */
static int iterate(mp_linear *l, glp_prob *problem, int iterations)
{
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.meth = GLP_DUAL;
    options.it_lim = iterations;
    const int before = glp_get_it_cnt(problem);
    const int code = glp_simplex(problem, &options);
    l->work += (int64_t)(glp_get_it_cnt(problem) - before + 1) * l->n_rows;
    return code;
}

static void simplex(void *data)
{
    const struct call *call = data;
    mp_linear *l = call->l;
    glp_prob *problem = build(l);
    int code = GLP_EITLIM;
    write_basis(l, problem);
    if (call->iterations)
        code = iterate(l, problem, call->iterations);
    else
        while (code == GLP_EITLIM && l->work < call->work_limit && !(l->stop && l->stop(l->stop_data)))
            code = iterate(l, problem, SLICE);
    mp_glpk_point();
    l->infeasible = !code && glp_get_status(problem) == GLP_NOFEAS;
    l->solved = !code && glp_get_status(problem) == GLP_OPT;
    read_answer(call, problem);
    glp_delete_prob(problem);
}

/* A basis that GLPK can begin with: the slacks. */
static void reset_basis(mp_linear *l)
{
    memset(l->basis, GLP_BS, (size_t)l->n_rows);
    memset(l->basis + l->n_rows, GLP_NL, (size_t)l->n_columns);
}

mp_status mp_linear_solve(mp_linear *l, int64_t work_limit, mp_error *err)
{
    mp_status st = MP_OK;
    struct call call = {.l = l, .work_limit = work_limit, .reads = true};
    mp_free(l->x);
    mp_free(l->dual);
    l->solved = l->infeasible = false;
    l->x = mp_alloc((size_t)l->n_columns, sizeof *l->x);
    l->dual = mp_alloc((size_t)l->n_rows, sizeof *l->dual);
    if (!l->basis && (l->basis = mp_alloc((size_t)l->n_rows + (size_t)l->n_columns, 1))) reset_basis(l);
    MP_REQUIRE(!l->failed && l->x && l->dual && l->basis, err, MP_NOMEM, "no memory for a linear programme of %d rows",
               l->n_rows);
    l->work = 0;
    if (l->n_rows == 0 || l->n_columns == 0 || l->n_entries >= INT32_MAX) return MP_OK;
    mp_glpk_session(simplex, &call, NULL);
done:
    return st;
}

void mp_linear_advance(mp_linear *l, int iterations)
{
    struct call call = {.l = l, .iterations = iterations};
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
    mp_free(l->basis);
    memset(l, 0, sizeof *l);
}
