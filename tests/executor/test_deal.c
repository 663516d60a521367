/* test_deal.c - samples distributed to ranks: owner, order and offset of each sample. */
#include "executor/data/deal.h"

#include "tests/cases/test.h"

enum { SAMPLES = 103, SEED = 7, HANDS = 12 };

static mp_deal deal_of(int index, int sharers, int n_hands)
{
    return (mp_deal){.n_samples = SAMPLES, .index = index, .sharers = sharers, .n_hands = n_hands};
}

TEST(every_hand_has_each_of_its_samples_once_an_epoch_in_orders_of_its_own)
{
    const mp_deal d = deal_of(0, 1, HANDS);
    int64_t all = 0;
    for (int hand = 0; hand < HANDS; hand++) {
        const mp_range has = mp_deal_hand(&d, hand);
        int seen[SAMPLES] = {0};
        bool differs = false;
        assert_true(has.n == SAMPLES / HANDS || has.n == SAMPLES / HANDS + 1);
        assert_int_equal(has.from, all);
        all += has.n;
        for (int64_t k = 0; k < 2 * has.n; k++) { /* batches of one */
            const int64_t sample = mp_deal_sample(&d, SEED, k * HANDS + hand, 1, 0);
            assert_true(sample >= has.from && sample < has.from + has.n);
            assert_int_equal(seen[sample]++, k / has.n);
            differs |= k >= has.n && sample != mp_deal_sample(&d, SEED, (k - has.n) * HANDS + hand, 1, 0);
        }
        assert_true(differs);
    }
    assert_int_equal(all, SAMPLES);
}

TEST(ranks_see_together_what_one_process_sees_and_each_its_own_part_only)
{
    const mp_deal one = deal_of(0, 1, HANDS);
    for (int n = 1; n <= HANDS; n++) {
        int owner[SAMPLES], held[HANDS] = {0};
        if (HANDS % n) continue;
        for (int k = 0; k < SAMPLES; k++) owner[k] = -1;
        for (int64_t batch = 0; batch < 20 * HANDS; batch++) {
            const int rank = (int)(batch % n);
            const mp_deal d = deal_of(rank, n, HANDS);
            for (int row = 0; row < 5; row++) {
                const int64_t sample = mp_deal_sample(&d, SEED, batch, 5, row);
                assert_int_equal(sample, mp_deal_sample(&one, SEED, batch, 5, row));
                assert_true(owner[sample] < 0 || owner[sample] == rank);
                owner[sample] = rank;
            }
        }
        for (int k = 0; k < SAMPLES; k++) { /* samples are stored one after the other in file order, hand after hand */
            const mp_deal d = deal_of(owner[k], n, HANDS);
            assert_int_equal(mp_deal_position(&d, k), held[owner[k]]++);
        }
    }
}

TEST(a_hand_of_a_single_batch_keeps_the_order_of_its_file)
{
    const mp_deal d = {.n_samples = 12, .sharers = 1, .n_hands = 2};
    for (int64_t batch = 0; batch < 6; batch++)
        for (int row = 0; row < 6; row++) assert_int_equal(mp_deal_sample(&d, SEED, batch, 6, row), batch % 2 * 6 + row);
}
