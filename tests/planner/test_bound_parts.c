/* test_bound_parts.c - what planner/bound is made of: cuts. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_minimal),
    };
    return cmocka_run_group_tests_name("planner/bound, parts", tests, NULL, NULL);
}
