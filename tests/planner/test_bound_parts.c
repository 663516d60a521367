/* test_bound_parts.c - what planner/bound is made of: cuts and linear programmes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/math/glpk_session.h"
#include "planner/math/linear.h"
#include "planner/math/mincut.h"
#include "tests/oracles/random_graph.h"

/* Small networks against all of their cuts. */
static void cuts_are_minimal(void **state)
{
    (void)state;
    enum { MOST = 9, ARCS = 30 };
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        random_source random = {seed};
        int n = 1 + random_below(&random, MOST), n_arcs = random_below(&random, ARCS), from[ARCS], to[ARCS];
        mp_mincut *cut;
        for (int k = 0; k < n_arcs; k++) {
            from[k] = random_below(&random, n);
            to[k] = (from[k] + random_below(&random, n)) % n;
        }
        assert_int_equal(mp_mincut_new(n, from, to, (size_t)n_arcs, &cut, NULL), MP_OK);
        for (int round = 0; round < 3; round++) { /* the same network with other capacities */
            int64_t least = INT64_MAX, found;
            int largest = 0;
            for (int k = 0; k < n_arcs; k++)
                cut->capacity[k] = random_chance(&random, 20) ? INT64_C(1) << 55 : random_below(&random, 20);
            for (int v = 0; v < n; v++) {
                cut->supply[v] = random_chance(&random, 40) ? random_below(&random, 30) : 0;
                cut->drain[v] = random_chance(&random, 40) ? random_below(&random, 30) : 0;
            }
            found = mp_mincut_run(cut);
            int side = 0;
            for (int v = 0; v < n; v++) side |= cut->source_side[v] << v;
            for (int set = 0; set < 1 << n; set++) {
                int64_t value = 0;
                for (int k = 0; k < n_arcs; k++)
                    if ((set >> from[k] & 1) && !(set >> to[k] & 1)) value += cut->capacity[k];
                for (int v = 0; v < n; v++) value += set >> v & 1 ? cut->drain[v] : cut->supply[v];
                if (set == side) assert_int_equal(value, found);
                if (value == least) largest |= set; /* minimum cuts are closed under union */
                if (value < least) largest = set;
                if (value < least) least = value;
            }
            assert_int_equal(found, least);
            assert_int_equal(side, largest);
        }
        mp_mincut_free(cut);
    }
}

/* minimise x + 2 y where x + y >= 3 and y - x >= -1: x = 2, y = 1, prices 1.5 and 0.5. */
static void linear_programmes_are_solved(void **state)
{
    (void)state;
    mp_linear linear = {0};
    const int x = mp_linear_column(&linear, 1), y = mp_linear_column(&linear, 2);
    const int sum = mp_linear_row(&linear, 3), difference = mp_linear_row(&linear, -1);
    mp_linear_entry(&linear, sum, x, 1);
    mp_linear_entry(&linear, sum, y, 1);
    mp_linear_entry(&linear, difference, y, 1);
    mp_linear_entry(&linear, difference, x, -1);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(fabs(linear.x[x] - 2) < 1e-4);
    assert_true(fabs(linear.x[y] - 1) < 1e-4);
    assert_true(fabs(linear.price[sum] - 1.5) < 1e-4);
    assert_true(fabs(linear.price[difference] - 0.5) < 1e-4);
    assert_true(linear.solved && fabs(linear.value - 4) < 1e-4);
    /* x at most 1: y = 2 */
    mp_linear_limit(&linear, x, 0, 1);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.solved && fabs(linear.value - 5) < 1e-4 && fabs(linear.x[y] - 2) < 1e-4);
    /* x at least 4: y = 3 */
    mp_linear_limit(&linear, x, 4, INFINITY);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.solved && fabs(linear.value - 10) < 1e-4 && fabs(linear.x[y] - 3) < 1e-4);
    /* and y at most 2: nothing */
    mp_linear_limit(&linear, y, 0, 2);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.infeasible && !linear.solved);
    mp_linear_clear(&linear);
    assert_int_equal(linear.n_columns, 0);
}

/* A chain of rows: minimise the sum of x_k where x_k + x_(k + 1) >= 1 + k % 3, which takes about an iteration a row. */
static void long_programme(mp_linear *linear, int n_rows)
{
    int last = mp_linear_column(linear, 1);
    for (int k = 0; k < n_rows; k++) {
        const int row = mp_linear_row(linear, 1 + k % 3), next = mp_linear_column(linear, 1 + 0.001 * (k % 7));
        mp_linear_entry(linear, row, last, 1);
        mp_linear_entry(linear, row, next, 1);
        last = next;
    }
}

static bool second_time(void *data)
{
    return ++*(int *)data >= 2;
}

/* One that takes too much work is broken off, and one that the caller stops; what they have by then is no more than the answer,
 * and the first can go on from there. */
static void long_programmes_are_broken_off(void **state)
{
    (void)state;
    enum { ROWS = 3000 };
    int n_asked = 0;
    mp_linear whole = {0}, limited = {0}, stopped = {.stop = second_time, .stop_data = &n_asked};
    long_programme(&whole, ROWS);
    long_programme(&limited, ROWS);
    long_programme(&stopped, ROWS);
    assert_int_equal(mp_linear_solve(&whole, INT64_MAX, NULL), MP_OK);
    assert_true(whole.solved && whole.work > (int64_t)512 * ROWS);
    assert_int_equal(mp_linear_solve(&limited, (int64_t)400 * ROWS, NULL), MP_OK);
    assert_true(!limited.solved && !limited.infeasible && limited.work < (int64_t)600 * ROWS);
    assert_true(limited.value <= whole.value * (1 + 1e-6));
    assert_int_equal(mp_linear_solve(&limited, INT64_MAX, NULL), MP_OK);
    assert_true(limited.solved && fabs(limited.value - whole.value) < 1e-6 * whole.value);
    assert_int_equal(mp_linear_solve(&stopped, INT64_MAX, NULL), MP_OK);
    assert_true(!stopped.solved && n_asked == 2);
    mp_linear_clear(&whole);
    mp_linear_clear(&limited);
    mp_linear_clear(&stopped);
}

/* A look ahead leaves no trace when the basis is put back. */
static void a_basis_can_be_put_back(void **state)
{
    (void)state;
    enum { ROWS = 200 };
    mp_linear linear = {0};
    size_t size;
    long_programme(&linear, ROWS);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    const double value = linear.value;
    unsigned char *basis = mp_linear_basis(&linear, &size), *copy = malloc(size);
    assert_int_equal(size, ROWS + ROWS + 1);
    assert_non_null(copy);
    memcpy(copy, basis, size);
    mp_linear_limit(&linear, 1, 5, INFINITY);
    mp_linear_advance(&linear, 50);
    assert_true(linear.value > value + 1);
    mp_linear_limit(&linear, 1, 0, INFINITY);
    memcpy(mp_linear_basis(&linear, &size), copy, size);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(fabs(linear.value - value) < 1e-6 && linear.work <= 3 * ROWS);
    free(copy);
    mp_linear_clear(&linear);
}

static void fail_in_session(void *data)
{
    ++*(int *)data;
    mp_glpk_point();
    ++*(int *)data;
}

/* An error of GLPK ends the session with a status, not the process; the next session works. */
static void errors_of_glpk_become_a_status(void **state)
{
    (void)state;
    int reached = 0;
    mp_error err = {0};
    mp_glpk_fail_after = 0;
    assert_int_equal(mp_glpk_session(fail_in_session, &reached, &err), MP_LIMIT);
    assert_non_null(strstr(err.message, "GLPK"));
    assert_int_equal(reached, 1);
    assert_int_equal(mp_glpk_fail_after, -1);
    assert_int_equal(mp_glpk_session(fail_in_session, &reached, &err), MP_OK);
    assert_int_equal(reached, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_minimal),
        cmocka_unit_test(linear_programmes_are_solved),
        cmocka_unit_test(long_programmes_are_broken_off),
        cmocka_unit_test(errors_of_glpk_become_a_status),
        cmocka_unit_test(a_basis_can_be_put_back),
    };
    return cmocka_run_group_tests_name("planner/bound, parts", tests, NULL, NULL);
}
