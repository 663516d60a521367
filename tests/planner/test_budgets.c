/* test_budgets.c - budgets and links as users write them. The texts with their bytes are a table that the tests of the Python
 * package read as well. */
#include "memplan/budget.h"
#include "memplan/planning.h"
#include "memplan/target.h"
#include "tests/cases/test.h"

enum { KEEP_ALL = 1000, SMALLEST = 200, ROWS_MIN = 60 };

static void check_budget(const char *text, const char *kind, int64_t expected)
{
    int64_t bytes = 0;
    const char *found = mp_planning_budget(text, KEEP_ALL, SMALLEST, &bytes);
    if (strcmp(found ? found : "none", kind) || bytes != expected)
        fail_msg("'%s' is %s of %lld bytes", text, found ? found : "none", (long long)bytes);
}

TEST(texts_mean_the_bytes_of_the_table)
{
    FILE *table = fopen("tests/oracles/budgets.csv", "r");
    char line[200];
    int n = 0;
    assert_non_null(table);
    for (; fgets(line, sizeof line, table); n++) {
        char *kind = strchr(line, ';'), *number = strrchr(line, ';');
        assert_true(kind && number > kind);
        *kind++ = *number++ = 0;
        const int64_t expected = strtoll(number, NULL, 10);
        if (strcmp(kind, "link"))
            check_budget(line, kind, expected);
        else if (mp_planning_link_rate(line) != (double)expected)
            fail_msg("the link '%s' has a rate of %g", line, mp_planning_link_rate(line));
    }
    fclose(table);
    assert_true(n >= ROWS_MIN);
}

TEST(a_link_has_the_latency_of_the_usual_one_or_its_own)
{
    const mp_link usual = {.name = "usual", .latency_seconds = 7e-6, .is_shared = true};
    mp_link link;
    assert_true(mp_link_parse("24GB/s", &usual, &link));
    assert_true(link.out_bytes_per_second == 24e9 && link.in_bytes_per_second == 24e9);
    assert_true(link.latency_seconds == 7e-6 && link.is_shared);
    assert_true(mp_link_parse("5.1GB/s,4.9GB/s,12us", &usual, &link));
    assert_true(link.out_bytes_per_second == 5.1e9 && link.in_bytes_per_second == 4.9e9);
    assert_true(link.latency_seconds == 12e-6 && !link.is_shared);
    assert_true(mp_link_parse("5.1GB/s,4.9GB/s,12us,turns", &usual, &link) && link.is_shared);
    assert_true(mp_link_parse("NVIDIA H100 80GB HBM3", &usual, &link));
    assert_string_equal(link.name, mp_device_find("h100")->link);
}

TEST(a_reserve_is_that_of_the_profile)
{
    assert_int_equal(mp_planning_reserve("NVIDIA A100-SXM4-80GB"), (INT64_C(5) << 30) / 4);
    assert_int_equal(mp_planning_reserve("a100"), (INT64_C(5) << 30) / 4);
    assert_int_equal(mp_planning_reserve("an unknown card"), -1);
}

int main(void)
{
    return test_run(NULL, NULL);
}
