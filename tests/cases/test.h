/* test.h - included first by every test file: the headers, and TEST.
 *
 *     TEST(an_empty_heap_has_no_top)
 *     {
 *         assert_null(mp_heap_top(&heap));
 *     }
 *
 * The tests of a program run in source order and need no other list. A program with a common set-up has its own main, which
 * calls test_run. */
#pragma once

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memplan/timeline.h"

#define TEST(name)                                                  \
    static void name(void **state);                                 \
    __attribute__((constructor)) static void name##_is_listed(void) \
    {                                                               \
        test_list(#name, name);                                     \
    }                                                               \
    static void name(void **state __attribute__((unused)))

/* Returns the traffic of a rank if nothing is recomputed. */
static inline mp_rank_traffic traffic_of_keep_all(const mp_graph *graph)
{
    mp_rank_traffic traffic;
    mp_step *steps = calloc(graph->n_nodes + 1, sizeof *steps);
    if (!steps) abort();
    mp_traffic_of(graph, steps, mp_keep_all(graph, steps), 1, NULL, &traffic);
    free(steps);
    return traffic;
}

/* Adds a test to the list that the program's main runs. */
void test_list(const char *name, CMUnitTestFunction function);

/* Runs the tests between set_up and tear_down (cmocka's group fixtures; NULL: none). Returns the number of failed tests. */
int test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);
