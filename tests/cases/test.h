/* test.h - what every file of tests begins with: the headers, and TEST.
 *
 *     TEST(an_empty_heap_has_no_top)
 *     {
 *         assert_null(mp_heap_top(&heap));
 *     }
 *
 * The tests of a program run in the order in which they are written; none is listed anywhere else. Where something is set up
 * before all of them, the program has a main of its own that calls test_run.
 */
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

#define TEST(name)                                                  \
    static void name(void **state);                                 \
    __attribute__((constructor)) static void name##_is_listed(void) \
    {                                                               \
        test_list(#name, name);                                     \
    }                                                               \
    static void name(void **state __attribute__((unused)))

/* Adds a test to those that the program's main runs. */
void test_list(const char *name, CMUnitTestFunction function);

/* Runs them between set_up and tear_down (cmocka's group fixtures; NULL: none). Returns how many failed. */
int test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);
