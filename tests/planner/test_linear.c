/* test_linear.c - linear programmes against hand-computed results and against all vertices, and failures of GLPK. */
#include <glpk.h>

#include "estimator/base/memory.h"
#include "planner/math/linear.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

/* minimise x + 2 y with x + y >= 3 and y - x >= -1: x = 2, y = 1, prices 1.5 and 0.5. */
TEST(linear_programmes_are_solved)
{
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
    assert_true(fabs(linear.dual[sum] - 1.5) < 1e-4);
    assert_true(fabs(linear.dual[difference] - 0.5) < 1e-4);
    assert_true(linear.solved && fabs(linear.value - 4) < 1e-4);
    /* x at most 1: y = 2 */
    mp_linear_limit(&linear, x, 0, 1);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.solved && fabs(linear.value - 5) < 1e-4 && fabs(linear.x[y] - 2) < 1e-4);
    /* x at least 4: y = 3 */
    mp_linear_limit(&linear, x, 4, INFINITY);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.solved && fabs(linear.value - 10) < 1e-4 && fabs(linear.x[y] - 3) < 1e-4);
    /* and y at most 2: infeasible */
    mp_linear_limit(&linear, y, 0, 2);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.infeasible && !linear.solved);
    mp_linear_clear(&linear);
    assert_int_equal(linear.n_columns, 0);
}

/* A chain of rows: minimise the sum of x_k with x_k + x_(k + 1) >= 1 + k % 3. It takes about one iteration per row. */
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

/* A programme is stopped by a limit of work, another one by the caller. Their values so far must not exceed the optimum, and
 * the first can be resumed. */
TEST(long_programmes_are_broken_off)
{
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

/* Restoring a basis undoes all effects of a trial solve. */
TEST(a_basis_can_be_put_back)
{
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

/* Each thread needs its own GLPK environment, because the proof runs in parallel with a search. */
TEST(glpk_is_thread_local)
{
    assert_non_null(glp_config("TLS"));
}

/* ---- compared with all vertices ---- */

enum { COLUMNS = 3, ROWS = 4, PLANES = ROWS + 2 * COLUMNS };

/* Small integer programmes. As half-spaces a * x >= b: the rows, then the lower and the upper bounds. */
typedef struct programme {
    int n, n_rows;
    int64_t cost[COLUMNS], a[PLANES][COLUMNS], b[PLANES];
    bool is_plane[PLANES];
} programme;

static programme random_programme(uint64_t seed)
{
    random_source random = {seed};
    programme p = {.n = 1 + random_below(&random, COLUMNS), .n_rows = 1 + random_below(&random, ROWS)};
    for (int c = 0; c < p.n; c++) p.cost[c] = random_below(&random, 6);
    for (int r = 0; r < p.n_rows; r++) {
        for (int c = 0; c < p.n; c++) p.a[r][c] = random_chance(&random, 70) ? random_below(&random, 9) - 4 : 0;
        p.b[r] = random_below(&random, 13) - 6;
        p.is_plane[r] = true;
    }
    for (int c = 0; c < p.n; c++) {
        const int lower = ROWS + c, upper = lower + COLUMNS;
        p.a[lower][c] = 1;
        p.a[upper][c] = -1;
        p.b[lower] = random_chance(&random, 30) ? random_below(&random, 3) : 0;
        p.b[upper] = -(p.b[lower] + random_below(&random, 3));
        p.is_plane[lower] = true;
        p.is_plane[upper] = random_chance(&random, 40);
    }
    return p;
}

/* Solves a * x = b for three planes by Cramer's rule: x = top / bottom. Returns 0 if they do not meet in exactly one point. */
static int64_t determinant(int64_t m[3][3])
{
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
           m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

static int64_t meet(const programme *p, const int planes[3], int64_t top[3])
{
    int64_t m[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, b[3] = {0}; /* unused columns are 0 */
    for (int i = 0; i < p->n; i++) {
        for (int c = 0; c < 3; c++) m[i][c] = c < p->n ? p->a[planes[i]][c] : 0;
        b[i] = p->b[planes[i]];
    }
    const int64_t bottom = determinant(m);
    for (int c = 0; c < 3; c++) {
        int64_t replaced[3][3];
        memcpy(replaced, m, sizeof m);
        for (int i = 0; i < 3; i++) replaced[i][c] = b[i];
        top[c] = bottom < 0 ? -determinant(replaced) : determinant(replaced);
    }
    return bottom < 0 ? -bottom : bottom;
}

static bool is_inside(const programme *p, const int64_t top[3], int64_t bottom)
{
    for (int k = 0; k < PLANES; k++) {
        int64_t sum = 0;
        for (int c = 0; c < p->n && p->is_plane[k]; c++) sum += p->a[k][c] * top[c];
        if (p->is_plane[k] && sum < p->b[k] * bottom) return false;
    }
    return true;
}

/* Finds the lowest cost of all feasible vertices; false: there is none, so the programme is infeasible. Because x >= 0, every
 * feasible programme has a vertex. Because costs are not negative, an optimum is at a vertex. */
static bool cheapest_vertex(const programme *p, double *value)
{
    bool found = false;
    for (int code = 0; code < PLANES * PLANES * PLANES; code++) {
        const int planes[3] = {code % PLANES, code / PLANES % PLANES, code / PLANES / PLANES};
        int64_t top[3], cost = 0;
        bool planar = true;
        for (int i = 0; i < 3; i++) planar = planar && (i < p->n ? p->is_plane[planes[i]] : planes[i] == 0);
        const int64_t bottom = planar ? meet(p, planes, top) : 0;
        if (!bottom || !is_inside(p, top, bottom)) continue;
        for (int c = 0; c < p->n; c++) cost += p->cost[c] * top[c];
        if (!found || (double)cost / (double)bottom < *value) *value = (double)cost / (double)bottom;
        found = true;
    }
    return found;
}

static mp_linear linear_of(const programme *p)
{
    mp_linear linear = {0};
    for (int c = 0; c < p->n; c++) mp_linear_column(&linear, (double)p->cost[c]);
    for (int r = 0; r < p->n_rows; r++) {
        mp_linear_row(&linear, (double)p->b[r]);
        for (int c = 0; c < p->n; c++)
            if (p->a[r][c]) mp_linear_entry(&linear, r, c, (double)p->a[r][c]);
    }
    return linear;
}

static void limit(mp_linear *linear, const programme *p)
{
    for (int c = 0; c < p->n; c++) {
        const int lower = ROWS + c, upper = lower + COLUMNS;
        mp_linear_limit(linear, c, (double)p->b[lower], p->is_plane[upper] ? (double)-p->b[upper] : INFINITY);
    }
}

/* Asserts that dual values are not negative, and that together with the reduced costs at the bounds they prove the optimum. */
static void assert_duals(const mp_linear *linear, const programme *p)
{
    double proved = 0;
    for (int r = 0; r < p->n_rows; r++) {
        assert_true(linear->dual[r] >= 0);
        proved += linear->dual[r] * (double)p->b[r];
    }
    for (int c = 0; c < p->n; c++) {
        const int lower = ROWS + c, upper = lower + COLUMNS;
        double reduced = (double)p->cost[c];
        for (int r = 0; r < p->n_rows; r++) reduced -= linear->dual[r] * (double)p->a[r][c];
        if (!p->is_plane[upper]) assert_true(reduced > -1e-6);
        proved += reduced * (double)(reduced > 0 || !p->is_plane[upper] ? p->b[lower] : -p->b[upper]);
    }
    assert_true(fabs(proved - linear->value) < 1e-6 * (1 + fabs(proved)));
}

TEST(solutions_are_the_cheapest_vertices)
{
    int n_infeasible = 0, n_dear = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        programme p = random_programme(seed), open = p;
        for (int c = 0; c < p.n; c++) open.b[ROWS + c] = open.is_plane[ROWS + COLUMNS + c] = 0;
        mp_linear linear = linear_of(&p);
        for (int round = 0; round < 3;
             round++) { /* without bounds on columns, with bounds, and again without, starting from there */
            const programme *present = round == 1 ? &p : &open;
            double value = 0;
            const bool is_feasible = cheapest_vertex(present, &value);
            limit(&linear, present);
            assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
            assert_int_equal(linear.solved, is_feasible);
            assert_int_equal(linear.infeasible, !is_feasible);
            n_infeasible += !is_feasible;
            if (!linear.solved) continue;
            if (fabs(linear.value - value) > 1e-6 * (1 + value))
                fail_msg("seed %llu: %g, vertices %g", (unsigned long long)seed, linear.value, value);
            assert_duals(&linear, present);
            n_dear += value > 0;
        }
        mp_linear_clear(&linear);
    }
    if (n_infeasible < 4000 || n_dear < 1500) fail_msg("%d infeasible, %d dear", n_infeasible, n_dear);
}

/* ---- without memory ---- */

TEST(every_allocation_may_fail)
{
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_linear linear = {0};
        mp_alloc_budget = k;
        long_programme(&linear, 40);
        st = mp_linear_solve(&linear, INT64_MAX, NULL);
        mp_alloc_budget = -1;
        assert_int_equal(linear.solved, st == MP_OK);
        assert_true(st == MP_OK || st == MP_NOMEM);
        mp_linear_clear(&linear);
        assert_int_equal(mp_alloc_live, live);
    }
}

/* A basis with too many columns, or a singular one, must be ignored. */
TEST(bad_bases_do_no_harm)
{
    enum { N_ROWS = 60 };
    size_t size;
    mp_linear linear = {0};
    long_programme(&linear, N_ROWS);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    const double value = linear.value;
    for (int k = 0; k < 2; k++) {
        unsigned char *basis = mp_linear_basis(&linear, &size);
        if (k == 0) memset(basis, GLP_BS, size);
        for (int r = 0; r < N_ROWS && k == 1; r++)
            basis[r] = r < 3 ? GLP_NL : GLP_BS; /* columns 7 .. 9 have no entry in these rows */
        for (int c = 0; c <= N_ROWS && k == 1; c++) basis[N_ROWS + c] = c >= 7 && c < 10 ? GLP_BS : GLP_NL;
        assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
        assert_true(linear.solved && fabs(linear.value - value) < 1e-6 * value);
    }
    mp_linear_clear(&linear);
}

static void fail_in_session(void *data)
{
    ++*(int *)data;
    mp_glpk_point();
    ++*(int *)data;
}

/* An error of GLPK ends the session with a status, not the process; the next session works. */
TEST(errors_of_glpk_become_a_status)
{
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

/* GLPK fails while the programme is built or solved. That solve is stopped, and the next one finds the optimum. */
TEST(a_programme_outlives_failures)
{
    enum { N_ROWS = 500 };
    mp_linear linear = {0};
    long_programme(&linear, N_ROWS);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    const double value = linear.value;
    for (int points = 0; points < 2; points++) {
        mp_linear_limit(&linear, 1, 3, INFINITY);
        mp_glpk_fail_after = points;
        assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
        assert_int_equal(mp_glpk_fail_after, -1);
        assert_true(!linear.solved && !linear.infeasible);
        for (int r = 0; r < N_ROWS; r++) assert_true(linear.dual[r] == 0);
        mp_glpk_fail_after = points;
        mp_linear_advance(&linear, 10);
        assert_int_equal(mp_glpk_fail_after, -1);
        assert_false(linear.infeasible);
        mp_linear_limit(&linear, 1, 0, INFINITY);
        assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
        assert_true(linear.solved && fabs(linear.value - value) < 1e-6 * value);
    }
    mp_linear_clear(&linear);
}

/* With increasing memory GLPK fails later and later, until it has enough. */
TEST(glpk_may_run_out_of_memory_anywhere)
{
    enum { N_ROWS = 8000, MOST_MIB = 64 };
    const int usual = mp_glpk_most_mib;
    int n_failed = 0;
    mp_linear linear = {0};
    long_programme(&linear, N_ROWS);
    for (int mib = 1; mib <= MOST_MIB && !linear.solved; mib++) {
        mp_glpk_most_mib = mib;
        assert_int_equal(mp_linear_solve(&linear, (int64_t)600 * N_ROWS, NULL), MP_OK);
        assert_false(linear.infeasible);
        if (linear.work) break; /* the memory was enough for the permitted work */
        n_failed++;
    }
    mp_glpk_most_mib = usual;
    assert_in_range(n_failed, 3, MOST_MIB - 1);
    assert_int_equal(mp_linear_solve(&linear, INT64_MAX, NULL), MP_OK);
    assert_true(linear.solved);
    mp_linear_clear(&linear);
}
