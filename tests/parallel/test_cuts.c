/* test_cuts.c - stages compared with all cuts of small networks: the slowest stage is the fastest possible, and no other such
 * cut is more even. With several stages per rank, moving a block to a neighbour never reduces the load of the busier rank. */
#include "planner/parallel/cuts.h"
#include "tests/cases/test.h"

enum { BLOCKS = 11, CASES = 400 };

typedef struct best {
    int64_t slowest;
    double squares;
} best;

static int64_t ticks_of(const mp_load *load, int begin, int end)
{
    int64_t ticks = 0;
    for (int k = begin; k < end; k++) ticks += load->blocks[k].forward_ticks + load->blocks[k].backward_ticks;
    return ticks;
}

/* Tries all cuts of [begin, n) into k stages. */
static void try_all(const mp_load *load, int begin, int k, int64_t slowest, double squares, best *out)
{
    for (int end = k == 1 ? load->n_blocks : begin + 1; end <= load->n_blocks - k + 1; end++) {
        const int64_t ticks = ticks_of(load, begin, end), most = ticks > slowest ? ticks : slowest;
        const double sum = squares + (double)ticks * (double)ticks;
        if (k > 1)
            try_all(load, end, k - 1, most, sum, out);
        else if (most < out->slowest || (most == out->slowest && sum < out->squares))
            *out = (best){most, sum};
    }
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Blocks of similar size. In every second case the last one is several times as large, like a classifier. */
static mp_load load_of(mp_block_load *blocks, uint64_t seed)
{
    uint64_t state = seed;
    mp_load load = {.tick_seconds = 1e-9, .n_blocks = 2 + (int)(seed % (BLOCKS - 1)), .blocks = blocks};
    for (int k = 0; k < load.n_blocks; k++)
        blocks[k] = (mp_block_load){.forward_ticks = 10 + (int64_t)(next(&state) % 5), .backward_ticks = 20};
    if (seed % 2) blocks[load.n_blocks - 1].forward_ticks = 120;
    return load;
}

static void check_cover(const mp_load *load, const mp_stage *stages, int n)
{
    for (int q = 0; q < n; q++) {
        assert_int_equal(stages[q].begin, q ? stages[q - 1].end : 0);
        assert_true(stages[q].end > stages[q].begin);
    }
    assert_int_equal(stages[n - 1].end, load->n_blocks);
}

TEST(no_cut_has_a_faster_slowest_stage_or_is_more_even)
{
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        mp_block_load blocks[BLOCKS + 1];
        const mp_load load = load_of(blocks, seed);
        for (int n = 1; n <= load.n_blocks; n++) {
            mp_stage stages[BLOCKS + 1] = {{0}};
            best all = {INT64_MAX, INFINITY}, here = {0, 0};
            assert_int_equal(mp_cut_stages(&load, n, 1, MP_CUT_EVEN_STAGES, stages, NULL), MP_OK);
            check_cover(&load, stages, n);
            for (int q = 0; q < n; q++) {
                const int64_t ticks = ticks_of(&load, stages[q].begin, stages[q].end);
                if (ticks > here.slowest) here.slowest = ticks;
                here.squares += (double)ticks * (double)ticks;
            }
            try_all(&load, 0, n, 0, 0, &all);
            assert_true(here.slowest == all.slowest && fabs(here.squares - all.squares) < 0.5);
        }
    }
}

TEST(ranks_of_several_stages_are_even)
{
    int n_cut = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++)
        for (int n_ranks = 2; n_ranks <= 4; n_ranks++) {
            mp_block_load blocks[BLOCKS + 1];
            const mp_load load = load_of(blocks, seed);
            mp_stage stages[BLOCKS + 1] = {{0}};
            int64_t busy[4] = {0};
            const int n = 2 * n_ranks;
            if (n > load.n_blocks) continue;
            n_cut++;
            assert_int_equal(mp_cut_stages(&load, n_ranks, 2, MP_CUT_EVEN_RANKS, stages, NULL), MP_OK);
            check_cover(&load, stages, n);
            for (int q = 0; q < n; q++) busy[q % n_ranks] += ticks_of(&load, stages[q].begin, stages[q].end);
            for (int q = 0; q + 1 < n; q++) {
                const int a = q % n_ranks, b = (q + 1) % n_ranks, at = stages[q].end;
                if (at - stages[q].begin > 1) assert_true(busy[b] + ticks_of(&load, at - 1, at) >= busy[a]);
                if (stages[q + 1].end - at > 1) assert_true(busy[a] + ticks_of(&load, at, at + 1) >= busy[b]);
            }
        }
    assert_true(n_cut > 500);
}

/* Twelve blocks of 30 ticks, and a classifier of 150. The three other ranks, with two stages each, share eleven blocks instead
 * of one each. */
TEST(a_large_last_block_leaves_no_rank_nearly_empty)
{
    mp_block_load blocks[13];
    mp_stage stages[8] = {{0}};
    for (int k = 0; k < 13; k++) blocks[k] = (mp_block_load){.forward_ticks = k < 12 ? 30 : 150};
    const mp_load load = {.tick_seconds = 1e-9, .n_blocks = 13, .blocks = blocks};
    assert_int_equal(mp_cut_stages(&load, 4, 2, MP_CUT_EVEN_RANKS, stages, NULL), MP_OK);
    for (int r = 0; r < 3; r++) {
        const int64_t busy =
            ticks_of(&load, stages[r].begin, stages[r].end) + ticks_of(&load, stages[r + 4].begin, stages[r + 4].end);
        assert_true(busy >= 90 && busy <= 120);
    }
}
