#include "planner/math/linear.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <coin/Clp_C_Interface.h>

#include "estimator/base/memory.h"

int mp_linear_column(mp_linear *l, double cost)
{
    if (!mp_grow(&l->cost, &l->capacity[0], (size_t)l->n_columns + 1, sizeof *l->cost)) {
        l->failed = true;
        return 0;
    }
    l->cost[l->n_columns] = cost;
    return l->n_columns++;
}

int mp_linear_row(mp_linear *l, double least)
{
    if (!mp_grow(&l->least, &l->capacity[1], (size_t)l->n_rows + 1, sizeof *l->least)) {
        l->failed = true;
        return 0;
    }
    l->least[l->n_rows] = least;
    return l->n_rows++;
}

void mp_linear_entry(mp_linear *l, int row, int column, double coefficient)
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

static double or_zero(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

/* The entries by columns, to Clp. */
static mp_status load(mp_linear *l, mp_error *err)
{
    mp_status st = MP_OK;
    CoinBigIndex *start = mp_alloc((size_t)l->n_columns + 2, sizeof *start);
    int *row = mp_alloc(l->n_entries + 1, sizeof *row);
    double *coefficient = mp_alloc(l->n_entries + 1, sizeof *coefficient);
    l->model = Clp_newModel();
    MP_REQUIRE(l->model && start && row && coefficient, err, MP_NOMEM, "no memory for a linear programme of %d rows",
               l->n_rows);
    for (size_t k = 0; k < l->n_entries; k++) start[l->column[k] + 2]++;
    for (int c = 0; c < l->n_columns; c++) start[c + 2] += start[c + 1];
    for (size_t k = 0; k < l->n_entries; k++) {
        const CoinBigIndex at = start[l->column[k] + 1]++;
        row[at] = l->row[k];
        coefficient[at] = l->coefficient[k];
    }
    Clp_setLogLevel(l->model, 0);
    Clp_loadProblem(l->model, l->n_columns, l->n_rows, start, row, coefficient, NULL, NULL, l->cost, l->least, NULL);
done:
    mp_free(start);
    mp_free(row);
    mp_free(coefficient);
    return st;
}

/* Of Clp. */
enum { OPTIMAL = 0, INFEASIBLE = 1, STOPPED = 3 };

/* Some iterations further; what Clp makes of it. */
static int iterate(mp_linear *l, int iterations)
{
    Clp_setNumberIterations(l->model, 0);
    Clp_setMaximumIterations(l->model, iterations);
    Clp_dual(l->model, 0);
    l->work += (int64_t)(Clp_numberIterations(l->model) + 1) * l->n_rows;
    return Clp_status(l->model);
}

mp_status mp_linear_solve(mp_linear *l, int64_t most_work, mp_error *err)
{
    enum { ITERATIONS = 256 };
    mp_status st = MP_OK;
    int status = STOPPED;
    mp_free(l->x);
    mp_free(l->price);
    l->solved = false;
    l->x = mp_alloc((size_t)l->n_columns, sizeof *l->x);
    l->price = mp_alloc((size_t)l->n_rows, sizeof *l->price);
    MP_REQUIRE(!l->failed && l->x && l->price, err, MP_NOMEM, "no memory for a linear programme of %d rows", l->n_rows);
    if (l->n_rows == 0 || l->n_columns == 0 || l->n_entries >= INT32_MAX) return MP_OK;
    if (!l->model) MP_TRY(load(l, err));
    l->work = 0;
    while (status == STOPPED && l->work < most_work && !(l->stop && l->stop(l->stop_data))) status = iterate(l, ITERATIONS);
    l->infeasible = status == INFEASIBLE;
    l->solved = status == OPTIMAL;
    l->value = Clp_objectiveValue(l->model);
    for (int c = 0; c < l->n_columns; c++) l->x[c] = or_zero(Clp_primalColumnSolution(l->model)[c]);
    for (int r = 0; r < l->n_rows; r++) l->price[r] = or_zero(Clp_dualRowSolution(l->model)[r]);
done:
    return st;
}

void mp_linear_advance(mp_linear *l, int iterations)
{
    l->work = 0;
    l->infeasible = iterate(l, iterations) == INFEASIBLE;
    l->value = Clp_objectiveValue(l->model);
}

void mp_linear_limit(mp_linear *l, int column, double least, double most)
{
    Clp_columnLower(l->model)[column] = least;
    Clp_columnUpper(l->model)[column] = most;
}

unsigned char *mp_linear_basis(const mp_linear *l, size_t *size)
{
    *size = (size_t)l->n_rows + (size_t)l->n_columns;
    return Clp_statusArray(l->model);
}

void mp_linear_clear(mp_linear *l)
{
    mp_free(l->cost);
    mp_free(l->least);
    mp_free(l->row);
    mp_free(l->column);
    mp_free(l->coefficient);
    mp_free(l->x);
    mp_free(l->price);
    if (l->model) Clp_deleteModel(l->model);
    memset(l, 0, sizeof *l);
}
