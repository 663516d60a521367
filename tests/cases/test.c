/* test.c - runs the tests of a program in source order. */
#include "tests/cases/test.h"

enum { TESTS_MAX = 100 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t n_tests;

void test_list(const char *name, CMUnitTestFunction function)
{
    if (n_tests == TESTS_MAX) abort();
    tests[n_tests++] = (struct CMUnitTest){.name = name, .test_func = function};
}

int test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    return _cmocka_run_group_tests("tests", tests, n_tests, set_up,
                                   tear_down); /* the macro would count the elements of the whole array */
}

__attribute__((weak)) int main(void)
{
    return test_run(NULL, NULL);
}
