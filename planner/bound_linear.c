#include "planner/bound_linear.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <glpk.h>

#include "estimator/memory.h"
#include "planner/glpk_session.h"

int mp_bound_linear_column(mp_bound_linear *l, double cost)
{
    if (!mp_grow(&l->cost, &l->capacity[0], (size_t)l->n_columns + 1, sizeof *l->cost)) {
        l->failed = true;
        return 0;
    }
    l->cost[l->n_columns] = cost;
    return l->n_columns++;
}

int mp_bound_linear_row(mp_bound_linear *l, double least)
{
    if (!mp_grow(&l->least, &l->capacity[1], (size_t)l->n_rows + 1, sizeof *l->least)) {
        l->failed = true;
        return 0;
    }
    l->least[l->n_rows] = least;
    return l->n_rows++;
}

void mp_bound_linear_entry(mp_bound_linear *l, int row, int column, double coefficient)
{
    if (l->failed || !mp_grow(&l->row, &l->capacity[2], l->n_entries + 1, sizeof *l->row) ||
        !mp_grow(&l->column, &l->capacity[3], l->n_entries + 1, sizeof *l->column) ||
        !mp_grow(&l->coefficient, &l->capacity[4], l->n_entries + 1, sizeof *l->coefficient)) {
        l->failed = true;
        return;
    }
    l->row[l->n_entries] = row;
    l->column[l->n_entries] = column;
    l->coefficient[l->n_entries++] = coefficient;
}

/* The programme as GLPK takes it: numbered from 1. */
struct task {
    mp_bound_linear *linear;
    int *row, *column;
    double *coefficient;
};

static double or_zero(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

/* Whether to break off: the factor, of which GLPK 5.0 tells when its pattern is known, has too many entries (it takes a second
 * for so many), or the caller wants no more. */
static bool heard(void *data, const char *line)
{
    enum { MOST_ENTRIES = 300000 };
    const struct task *t = data;
    int n;
    if (sscanf(line, "Matrix L has %d non-zeros", &n) == 1) return n > MOST_ENTRIES;
    return t->linear->stop && t->linear->stop(t->linear->stop_data);
}

static void solve(void *data)
{
    const struct task *t = data;
    mp_bound_linear *l = t->linear;
    glp_prob *problem = glp_create_prob();
    glp_iptcp how;
    glp_add_cols(problem, l->n_columns);
    glp_add_rows(problem, l->n_rows);
    for (int c = 0; c < l->n_columns; c++) {
        glp_set_col_bnds(problem, c + 1, GLP_LO, 0, 0);
        glp_set_obj_coef(problem, c + 1, l->cost[c]);
    }
    for (int r = 0; r < l->n_rows; r++) glp_set_row_bnds(problem, r + 1, GLP_LO, l->least[r], 0);
    glp_load_matrix(problem, (int)l->n_entries, t->row, t->column, t->coefficient);
    glp_init_iptcp(&how);
    how.msg_lev = GLP_MSG_ALL; /* for `heard` */
    how.ord_alg = GLP_ORD_SYMAMD;
    mp_glpk_point();
    glp_interior(problem, &how); /* where it fails, the best it came by is as good an answer as any */
    for (int c = 0; c < l->n_columns; c++) l->x[c] = or_zero(glp_ipt_col_prim(problem, c + 1));
    for (int r = 0; r < l->n_rows; r++) l->price[r] = or_zero(glp_ipt_row_dual(problem, r + 1));
    glp_delete_prob(problem);
}

mp_status mp_bound_linear_solve(mp_bound_linear *l, mp_error *err)
{
    mp_status st = MP_OK;
    struct task t = {.linear = l};
    mp_free(l->x);
    mp_free(l->price);
    l->solved = false;
    l->x = mp_alloc((size_t)l->n_columns, sizeof *l->x);
    l->price = mp_alloc((size_t)l->n_rows, sizeof *l->price);
    t.row = mp_alloc(l->n_entries + 1, sizeof *t.row);
    t.column = mp_alloc(l->n_entries + 1, sizeof *t.column);
    t.coefficient = mp_alloc(l->n_entries + 1, sizeof *t.coefficient);
    MP_REQUIRE(!l->failed && l->x && l->price && t.row && t.column && t.coefficient, err, MP_NOMEM,
               "no memory for a linear programme of %d rows", l->n_rows);
    for (size_t k = 0; k < l->n_entries; k++) {
        t.row[k + 1] = l->row[k] + 1;
        t.column[k + 1] = l->column[k] + 1;
        t.coefficient[k + 1] = l->coefficient[k];
    }
    if (l->n_rows > 0 && l->n_columns > 0 && l->n_entries < INT32_MAX)
        l->solved = mp_glpk_session(solve, heard, &t, NULL) == MP_OK; /* if not, all stays zero */
done:
    mp_free(t.row);
    mp_free(t.column);
    mp_free(t.coefficient);
    return st;
}

void mp_bound_linear_clear(mp_bound_linear *l)
{
    mp_free(l->cost);
    mp_free(l->least);
    mp_free(l->row);
    mp_free(l->column);
    mp_free(l->coefficient);
    mp_free(l->x);
    mp_free(l->price);
    memset(l, 0, sizeof *l);
}
