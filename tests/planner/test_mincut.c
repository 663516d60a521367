/* test_mincut.c - minimum cuts: small networks against all of their cuts, larger ones against igraph's. */
#include <igraph/igraph.h>

#include "planner/math/mincut.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

/* Small networks against all of their cuts. */
TEST(cuts_are_minimal)
{
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
        for (int round = 0; round < 3; round++) { /* round 2 and 3: the same network with other capacities */
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

/* Returns the value of a minimum cut by igraph_st_mincut_value, with source n and sink n + 1. Doubles are exact for these
 * capacities. */
static int64_t igraph_value(const mp_mincut *cut, const int *from, const int *to)
{
    igraph_t graph;
    igraph_vector_int_t edges;
    igraph_vector_t capacity;
    igraph_real_t value;
    assert_int_equal(igraph_vector_int_init(&edges, 0), IGRAPH_SUCCESS);
    assert_int_equal(igraph_vector_init(&capacity, 0), IGRAPH_SUCCESS);
    for (size_t k = 0; k < cut->n_arcs + 2 * (size_t)cut->n; k++) {
        const int v = (int)((k - cut->n_arcs) / 2);
        const bool is_arc = k < cut->n_arcs, is_supply = !is_arc && (k - cut->n_arcs) % 2 == 0;
        igraph_vector_int_push_back(&edges, is_arc ? from[k] : is_supply ? cut->n : v);
        igraph_vector_int_push_back(&edges, is_arc ? to[k] : is_supply ? v : cut->n + 1);
        igraph_vector_push_back(&capacity, (double)(is_arc ? cut->capacity[k] : is_supply ? cut->supply[v] : cut->drain[v]));
    }
    assert_int_equal(igraph_create(&graph, &edges, cut->n + 2, true), IGRAPH_SUCCESS);
    assert_int_equal(igraph_st_mincut_value(&graph, &value, cut->n, cut->n + 1, &capacity), IGRAPH_SUCCESS);
    igraph_destroy(&graph);
    igraph_vector_destroy(&capacity);
    igraph_vector_int_destroy(&edges);
    return (int64_t)value;
}

/* Networks of some hundred vertices: layered ones like the planner's, and arbitrary ones. */
TEST(larger_cuts_are_those_of_igraph)
{
    enum { MOST = 300, ARCS = 2000 };
    for (uint64_t seed = 1; seed <= 120; seed++) {
        random_source random = {seed};
        const int n = 2 + random_below(&random, MOST - 1), n_arcs = random_below(&random, ARCS);
        const bool layered = random_chance(&random, 50);
        int from[ARCS], to[ARCS];
        mp_mincut *cut;
        for (int k = 0; k < n_arcs; k++) {
            from[k] = random_below(&random, n - 1);
            to[k] = layered ? from[k] + 1 + random_below(&random, n - 1 - from[k] < 8 ? n - 1 - from[k] : 8)
                            : (from[k] + 1 + random_below(&random, n - 1)) % n;
        }
        assert_int_equal(mp_mincut_new(n, from, to, (size_t)n_arcs, &cut, NULL), MP_OK);
        for (int round = 0; round < 3; round++) {
            int64_t value = 0;
            for (int k = 0; k < n_arcs; k++)
                cut->capacity[k] = random_chance(&random, 20) ? INT64_C(1) << 40 : random_below(&random, 1000000);
            for (int v = 0; v < n; v++) {
                cut->supply[v] = random_chance(&random, 30) ? random_below(&random, 1000000000) : 0;
                cut->drain[v] = random_chance(&random, 30) ? random_below(&random, 1000000000) : 0;
            }
            const int64_t found = mp_mincut_run(cut);
            for (int k = 0; k < n_arcs; k++)
                if (cut->source_side[from[k]] && !cut->source_side[to[k]]) value += cut->capacity[k];
            for (int v = 0; v < n; v++) value += cut->source_side[v] ? cut->drain[v] : cut->supply[v];
            assert_int_equal(found, value);
            assert_int_equal(found, igraph_value(cut, from, to));
        }
        mp_mincut_free(cut);
    }
}
