/* test_philox.c - Philox4x32-10 compared with its authors' published answers, and memplan's random numbers checked by
 * statistics. */
#include "executor/kernel/philox.h"
#include "tests/cases/test.h"

TEST(philox_gives_the_published_answers)
{
    /* counter, key, answer: the vectors "philox4x32 10" of the authors' library */
    static const uint32_t vectors[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) {
        const uint32_t *v = vectors[k];
        mp_philox_block r = mp_philox((mp_philox_block){{v[0], v[1], v[2], v[3]}}, v[4], v[5]);
        for (int w = 0; w < 4; w++) assert_int_equal(r.word[w], v[6 + w]);
    }
}

TEST(a_word_depends_on_seed_step_operator_and_element)
{
    uint32_t word = mp_random_word(1, 2, 3, 4);
    assert_int_equal(word, mp_random_word(1, 2, 3, 4));
    assert_int_not_equal(word, mp_random_word(9, 2, 3, 4));
    assert_int_not_equal(word, mp_random_word(UINT64_C(1) << 32 | 1, 2, 3, 4));
    assert_int_not_equal(word, mp_random_word(1, 9, 3, 4));
    assert_int_not_equal(word, mp_random_word(1, 2, 9, 4));
    for (uint64_t element = 5; element < 12; element++) assert_int_not_equal(word, mp_random_word(1, 2, 3, element));
    assert_int_not_equal(word, mp_random_word(1, 2, 3, (UINT64_C(1) << 34) + 4));
}

/* The first element's word is the first word of the published answer: counter (0, 0, 0, 0) and key (0, 0). */
TEST(elements_of_a_block_are_its_words)
{
    static const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (uint64_t element = 0; element < 4; element++) assert_int_equal(mp_random_word(0, 0, 0, element), zero[element]);
}

/* The published answer for all bits set. Each seed, step and operator has its own random seed. */
TEST(the_seed_of_an_operator_is_two_words_that_no_element_has)
{
    assert_true(mp_random_seed(UINT64_MAX, UINT32_MAX, UINT32_MAX) == INT64_C(0x41c83b0e408f276d));
    const int64_t seed = mp_random_seed(1, 2, 3);
    assert_true(seed == mp_random_seed(1, 2, 3));
    assert_true(seed != mp_random_seed(9, 2, 3) && seed != mp_random_seed(1, 9, 3) && seed != mp_random_seed(1, 2, 9));
}

/* Chi-squared over 256 cells with 2^18 draws: 255 degrees of freedom have mean 255 and deviation 22.6. The limit is five
 * deviations. */
TEST(uniform_numbers_fill_the_unit_interval_evenly)
{
    enum { CELLS = 256, DRAWS = 1 << 18 };
    double sum = 0, chi = 0, expected = (double)DRAWS / CELLS;
    int count[CELLS] = {0};
    for (uint64_t element = 0; element < DRAWS; element++) {
        float x = mp_random_uniform(42, 7, 3, element);
        assert_true(x >= 0 && x < 1);
        count[(int)(x * CELLS)]++;
        sum += x;
    }
    for (int k = 0; k < CELLS; k++) chi += (count[k] - expected) * (count[k] - expected) / expected;
    assert_true(fabs(chi - 255) < 5 * 22.6);
    assert_true(fabs(sum / DRAWS - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS));
}
