/* test_budgets.c - budgets and links as users write them. The texts with their bytes are a table that the tests of the Python
 * package read as well. */
#include "memplan/budget.h"
#include "memplan/planning.h"
#include "memplan/studies/card_budget.h"
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

/* A card of 1000 bytes. The process of a plan requires fragments besides the bytes of its budget. */
typedef struct trial_card {
    int64_t fragment_every, least_plan; /* one byte of fragments per `fragment_every` bytes; no plan is below `least_plan` */
    int64_t stops_after;                /* number of trials after which the caller ends; 0: none */
    int64_t budgets[8];
    int n;
} trial_card;

static int64_t excess_of(const trial_card *card, int64_t budget)
{
    return budget < card->least_plan ? 0 : budget + budget / card->fragment_every - 1000;
}

static mp_status try_card(void *data, int64_t budget_bytes, int64_t *excess_bytes, bool *goes_on, mp_error *err)
{
    trial_card *card = data;
    (void)err;
    assert_true(card->n < 8);
    card->budgets[card->n++] = budget_bytes;
    *excess_bytes = excess_of(card, budget_bytes);
    *goes_on = card->n != card->stops_after;
    return MP_OK;
}

/* Compares the trials with the largest budget whose process fits, found by trying all budgets. */
TEST(budgets_are_lowered_until_the_process_fits)
{
    for (int64_t every = 2; every <= 64; every++)
        for (int64_t least = 1; least <= 1001; least += 100) {
            trial_card card = {.fragment_every = every, .least_plan = least}, first = card;
            int64_t best = -1, all = -1, before = INT64_MAX;
            assert_int_equal(mp_card_budget(1000, false, try_card, &card, NULL), MP_OK);
            assert_int_equal(mp_card_budget(1000, true, try_card, &first, NULL), MP_OK);
            for (int64_t b = least; b <= 1000; b++)
                if (excess_of(&card, b) <= 0) all = b;
            for (int k = 0; k < card.n; k++) {
                const bool fits = excess_of(&card, card.budgets[k]) <= 0 && card.budgets[k] >= least;
                assert_true(card.budgets[k] > 0 && card.budgets[k] <= 1000);
                assert_true(!fits || card.budgets[k] > best); /* so the last trial that fits is the best */
                if (fits) best = card.budgets[k];
            }
            for (int k = 0; k < first.n; k++) {
                assert_int_equal(first.budgets[k], card.budgets[k]);
                assert_true(first.budgets[k] < before);
                before = first.budgets[k];
            }
            assert_true(first.n == 4 || excess_of(&first, before) <= 0);
            assert_true(best <= all);
            if (least <= 400 && best < 0) fail_msg("every %lld: no trial fits", (long long)every);
            if (least <= 400 && all - best > 1000 / every / 2 + 1)
                fail_msg("every %lld: %lld instead of %lld", (long long)every, (long long)best, (long long)all);
        }
}

TEST(trials_of_budgets_end_early)
{
    trial_card fits = {.fragment_every = 2, .least_plan = 1}, stopped = fits, tiny = {.fragment_every = 1, .least_plan = 1};
    assert_int_equal(mp_card_budget(600, false, try_card, &fits, NULL), MP_OK);
    assert_int_equal(fits.n, 1);
    stopped.stops_after = 2;
    assert_int_equal(mp_card_budget(1000, false, try_card, &stopped, NULL), MP_OK);
    assert_int_equal(stopped.n, 2);
    assert_int_equal(mp_card_budget(1000, false, try_card, &tiny, NULL), MP_OK); /* the excess is the whole budget */
    assert_int_equal(tiny.n, 1);
}

/* Each trial has a smaller excess than the one before, but none fits. */
static mp_status try_in_vain(void *data, int64_t budget_bytes, int64_t *excess_bytes, bool *goes_on, mp_error *err)
{
    static const int64_t excesses[] = {100, 50, 20, 1};
    trial_card *card = data;
    (void)goes_on;
    (void)err;
    assert_true(card->n < 4);
    *excess_bytes = excesses[card->n];
    card->budgets[card->n++] = budget_bytes;
    return MP_OK;
}

TEST(a_budget_is_lowered_by_the_excess_of_the_last_trial)
{
    static const int64_t budgets[] = {1000, 900, 850, 830};
    trial_card card = {0};
    assert_int_equal(mp_card_budget(1000, false, try_in_vain, &card, NULL), MP_OK);
    assert_int_equal(card.n, 4);
    assert_memory_equal(card.budgets, budgets, sizeof budgets);
}

int main(void)
{
    return test_run(NULL, NULL);
}
