/* test_bits.c - bit sets against arrays of flags, and splitmix64 against published numbers. */
#include "planner/math/bits.h"
#include "planner/math/splitmix.h"
#include "tests/cases/test.h"

enum { MOST = 200, WORDS = 4 };

TEST(sets_are_as_arrays_of_flags)
{
    uint64_t random = 1, set[WORDS] = {0}, other[WORDS] = {0};
    bool flags[MOST] = {0}, others[MOST] = {0};
    assert_int_equal(mp_bits_words(0), 0);
    assert_int_equal(mp_bits_words(1), 1);
    assert_int_equal(mp_bits_words(64), 1);
    assert_int_equal(mp_bits_words(MOST), WORDS);
    for (int round = 0; round < 5000; round++) {
        const int k = mp_splitmix_below(&random, MOST);
        int n = 0, at = 0;
        switch (mp_splitmix_below(&random, 6)) {
        case 0:
            mp_bits_remove(set, k);
            flags[k] = false;
            break;
        case 1:
            mp_bits_add(other, k);
            others[k] = true;
            break;
        case 2:
            if (round % 50) break;
            mp_bits_unite(set, other, WORDS);
            for (int i = 0; i < MOST; i++) flags[i] |= others[i];
            break;
        default:
            mp_bits_add(set, k);
            flags[k] = true;
        }
        for (int i = 0; i < MOST; i++) {
            assert_int_equal(mp_bits_has(set, i), flags[i]);
            n += flags[i];
        }
        assert_int_equal(mp_bits_count(set, WORDS), n);
        for (size_t w = 0; w < WORDS; w++)
            for (uint64_t left = set[w]; left; at++) {
                const int taken = (int)w * 64 + mp_bits_take(&left);
                while (!flags[at]) at++;
                assert_int_equal(taken, at);
            }
        assert_true((mp_bits_hash(set, WORDS) == mp_bits_hash(other, WORDS)) == !memcmp(set, other, sizeof set));
    }
}

/* The first numbers of the reference implementation, for two seeds. */
TEST(splitmix_draws_the_published_numbers)
{
    const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                                 16408922859458223821u};
    uint64_t seed = 1234567, zero = 0;
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) assert_true(mp_splitmix_next(&seed) == expected[k]);
    assert_true(mp_splitmix_next(&zero) == UINT64_C(0xE220A8397B1DCDAF));
    for (int k = 0; k < 10000; k++) {
        const double x = mp_splitmix_uniform(&seed);
        const int n = mp_splitmix_below(&seed, 7);
        assert_true(x >= 0 && x < 1 && n >= 0 && n < 7);
    }
}
