/* test_turns.c - the turns of pipelines: compared with their papers' formulas for equal stages, and with a simulation by
 * independent rules for stages of all lengths. */
#include "estimator/base/memory.h"
#include "memplan/ranks/schedule.h"
#include "planner/math/splitmix.h"
#include "tests/cases/test.h"

enum { RANKS = 5, CHUNKS = 3, BATCHES = 15, STAGES = RANKS * CHUNKS };

static const mp_pipeline_shape shapes[] = {
    {MP_SCHEDULE_GPIPE, 1, 1, 1},       {MP_SCHEDULE_GPIPE, 4, 1, 7},       {MP_SCHEDULE_1F1B, 1, 1, 5},
    {MP_SCHEDULE_1F1B, 2, 1, 1},        {MP_SCHEDULE_1F1B, 4, 1, 4},        {MP_SCHEDULE_1F1B, 5, 1, 13},
    {MP_SCHEDULE_ZB_H1, 2, 1, 6},       {MP_SCHEDULE_ZB_H1, 4, 1, 12},      {MP_SCHEDULE_ZB_H1, 5, 1, 15},
    {MP_SCHEDULE_ZB_H1, 5, 1, 2},       {MP_SCHEDULE_INTERLEAVED, 2, 2, 4}, {MP_SCHEDULE_INTERLEAVED, 4, 2, 8},
    {MP_SCHEDULE_INTERLEAVED, 5, 3, 5}, {MP_SCHEDULE_INTERLEAVED, 5, 3, 15}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static mp_played *play(const mp_pipeline_shape *shape, const mp_stage_seconds *stages)
{
    mp_played *played = NULL;
    mp_error err = {0};
    if (mp_schedule_play(shape, stages, &played, &err) != MP_OK) fail_msg("%s", err.message);
    return played;
}

/* Narayanan et al. 2021: the bubble is p - 1 forwards and backwards, divided by the number of chunks. Qi et al. 2024, table 2:
 * under ZB-H1 it is p - 1 times T_F + T_B - T_W, where backward is T_B + T_W. */
TEST(bubbles_of_even_stages_are_those_of_the_papers)
{
    for (int k = 0; k < N_SHAPES; k++) {
        const mp_pipeline_shape *s = &shapes[k];
        const int p = s->n_ranks;
        const double f = 2, b = 2, w = 2, forward = f / s->n_chunks, backward = b / s->n_chunks, weights = w / s->n_chunks;
        mp_stage_seconds stages[STAGES];
        for (int q = 0; q < p * s->n_chunks; q++)
            stages[q] = (mp_stage_seconds){.forward = forward, .backward = backward, .weights = weights};
        mp_played *played = play(s, stages);
        const double bubble = s->schedule == MP_SCHEDULE_ZB_H1 ? (p - 1) * (f + b - w) : (p - 1) * (f + b + w) / s->n_chunks;
        const bool is_filled = s->n_micro_batches >= p;
        assert_true(is_filled ? fabs(played->bubble_seconds - bubble) < 1e-9 : played->bubble_seconds >= bubble - 1e-9);
        assert_true(fabs(played->seconds - played->bubble_seconds - (double)s->n_micro_batches * (f + b + w)) < 1e-9);
        mp_schedule_free(played);
    }
}

/* ---- a simulation by independent rules: at each moment, every idle rank begins the turn that its schedule permits ---- */

typedef struct world {
    const mp_pipeline_shape *s;
    const mp_stage_seconds *stages;
    double done[2][STAGES][BATCHES]; /* forward, backward */
    int forwards[RANKS], backwards[RANKS], weights[RANKS];
} world;

/* Returns the number of forwards by which a rank is ahead of its backwards before it runs a backward. */
static int ahead(const mp_pipeline_shape *s, int rank)
{
    const int p = s->n_ranks, all = (int)s->n_micro_batches * s->n_chunks;
    int most = p - rank;
    if (s->schedule == MP_SCHEDULE_GPIPE && p > 1) most = all;
    if (s->schedule == MP_SCHEDULE_INTERLEAVED) most = (p - rank - 1) * 2 + (s->n_chunks - 1) * p + 1;
    return most < all ? most : all;
}

static void which(const mp_pipeline_shape *s, int k, bool is_backward, int *chunk, int *batch)
{
    const int p = s->n_ranks, round = k / (p * s->n_chunks), within = k % (p * s->n_chunks);
    *chunk = is_backward ? s->n_chunks - 1 - within / p : within / p;
    *batch = s->n_chunks == 1 ? k : round * p + within % p;
    if (s->n_chunks == 1) *chunk = 0;
}

static double finish(world *w, int rank)
{
    const mp_pipeline_shape *s = w->s;
    const int all = (int)s->n_micro_batches * s->n_chunks;
    int f = 0, b = 0, g = 0;
    double clock = 0;
    for (int done = 0; done < (s->schedule == MP_SCHEDULE_ZB_H1 ? 3 : 2) * all; done++) {
        const bool late = s->schedule == MP_SCHEDULE_ZB_H1 && g < b && (b - g > rank || b == all);
        const bool goes_back = !late && (f == all || f - b == ahead(s, rank));
        if (late) {
            clock += w->stages[rank].weights;
            g++;
            continue;
        }
        int chunk, batch;
        which(s, goes_back ? b : f, goes_back, &chunk, &batch);
        const int stage = chunk * s->n_ranks + rank, from = goes_back ? stage + 1 : stage - 1;
        const mp_stage_seconds *t = &w->stages[stage];
        const bool has_from = from >= 0 && from < s->n_ranks * s->n_chunks;
        const double arrived = has_from ? w->done[goes_back][from][batch] + w->stages[goes_back ? stage : from].send : 0;
        if (goes_back) clock += t->ahead; /* recomputation does not need the gradient */
        clock = fmax(clock, arrived) +
                (goes_back ? t->backward - t->ahead + (s->schedule == MP_SCHEDULE_ZB_H1 ? 0 : t->weights) : t->forward);
        w->done[goes_back][stage][batch] = clock;
        *(goes_back ? &b : &f) += 1;
    }
    return clock;
}

TEST(steps_take_as_long_as_rules_of_their_own_say)
{
    uint64_t random = 17;
    for (int round = 0; round < 40 * N_SHAPES; round++) {
        const mp_pipeline_shape *s = &shapes[round % N_SHAPES];
        mp_stage_seconds stages[STAGES];
        for (int q = 0; q < s->n_ranks * s->n_chunks; q++)
            stages[q] = (mp_stage_seconds){.forward = 1 + mp_splitmix_below(&random, 9),
                                           .backward = 4 + mp_splitmix_below(&random, 9),
                                           .ahead = mp_splitmix_below(&random, 4),
                                           .weights = mp_splitmix_below(&random, 9),
                                           .send = mp_splitmix_below(&random, 3)};
        world w = {.s = s, .stages = stages};
        double last = 0, before = -1;
        while (last > before) { /* times only grow until all dependencies are met */
            before = last;
            for (int r = 0; r < s->n_ranks; r++) last = fmax(last, finish(&w, r));
        }
        for (int again = 0; again < STAGES * BATCHES; again++)
            for (int r = 0; r < s->n_ranks; r++) last = fmax(last, finish(&w, r));
        mp_played *played = play(s, stages);
        assert_true(fabs(played->seconds - last) < 1e-9);
        mp_schedule_free(played);
    }
}

/* Compares held micro-batches with a count over the simulated turns, by their own times. */
TEST(what_is_held_is_what_has_gone_forward_and_not_back)
{
    for (int k = 0; k < N_SHAPES; k++) {
        const mp_pipeline_shape *s = &shapes[k];
        mp_stage_seconds stages[STAGES];
        for (int q = 0; q < STAGES; q++) stages[q] = (mp_stage_seconds){.forward = 1, .backward = 1, .weights = 1};
        mp_played *played = play(s, stages);
        for (int r = 0; r < s->n_ranks; r++) {
            const mp_turn *turns = &played->turns[(size_t)r * played->n_turns];
            mp_kept kept[CHUNKS];
            int64_t most[CHUNKS] = {0}, held[CHUNKS];
            const bool waits = s->schedule == MP_SCHEDULE_ZB_H1 && r > 0;
            for (int c = 0; c < CHUNKS; c++) kept[c] = (mp_kept){1 + 10 * c, s->schedule == MP_SCHEDULE_ZB_H1 ? 100 : 0};
            for (size_t t = 0; t < played->n_turns; t++) {
                int64_t others = 0;
                if (turns[t].pass == MP_PASS_WEIGHTS && !waits) continue;
                for (size_t u = 0; u < played->n_turns; u++) { /* a turn that has ended, while its partner has not begun */
                    const mp_pass partner = turns[u].pass == MP_PASS_FORWARD ? MP_PASS_BACKWARD : MP_PASS_WEIGHTS;
                    bool is_open = turns[u].end <= turns[t].begin && turns[u].pass != MP_PASS_WEIGHTS;
                    if (partner == MP_PASS_WEIGHTS && !waits) is_open = false;
                    if (turns[u].micro_batch == turns[t].micro_batch && turns[t].pass == MP_PASS_WEIGHTS) is_open = false;
                    for (size_t v = 0; v < played->n_turns && is_open; v++)
                        if (turns[v].pass == partner && turns[v].chunk == turns[u].chunk &&
                            turns[v].micro_batch == turns[u].micro_batch)
                            is_open = turns[v].begin > turns[t].begin;
                    if (!is_open) continue;
                    others +=
                        partner == MP_PASS_BACKWARD ? kept[turns[u].chunk].forward_bytes : kept[turns[u].chunk].weights_bytes;
                }
                for (int c = 0; c < turns[t].chunk; c++) others -= kept[c].forward_bytes;
                if (others > most[turns[t].chunk]) most[turns[t].chunk] = others;
            }
            assert_int_equal(mp_schedule_held_bytes(s, r, kept, held, NULL), MP_OK);
            for (int c = 0; c < s->n_chunks; c++) assert_int_equal(held[c], most[c]);
        }
        mp_schedule_free(played);
    }
}

/* Korthikanti et al. 2022 (section 4.2.3): with v chunks, the first of p ranks holds p (1 + (p - 1) / (p v)) times the
 * activations of its stages' forwards, which is p v + p - 1 chunks. Qi et al. 2024 (section 2.3): under ZB-H1, the i-th of p
 * ranks, from 1, holds p - i + 1 times the operands of backward, and i - 1 times the operands of parameter gradients. */
TEST(what_is_held_in_even_stages_is_what_the_papers_count)
{
    for (int p = 2; p <= 8; p++) {
        for (int v = 2; v <= 4; v++) {
            const mp_pipeline_shape s = {MP_SCHEDULE_INTERLEAVED, p, v, 3 * p};
            const mp_kept kept[] = {{12, 0}, {12, 0}, {12, 0}, {12, 0}};
            int64_t held[4];
            assert_int_equal(mp_schedule_held_bytes(&s, 0, kept, held, NULL), MP_OK);
            for (int c = 0; c < v; c++) /* includes the running micro-batch: this chunk and the previous ones */
                assert_int_equal(held[c] + 12 * (c + 1), 12 * (p * v + p - 1));
        }
        for (int i = 1; i <= p; i++) {
            const mp_pipeline_shape s = {MP_SCHEDULE_ZB_H1, p, 1, 3 * p};
            const mp_kept kept = {.forward_bytes = 100, .weights_bytes = 40};
            int64_t held;
            assert_int_equal(mp_schedule_held_bytes(&s, i - 1, &kept, &held, NULL), MP_OK);
            assert_int_equal(held + 100, (p - i + 1) * 100 + (i - 1) * 40);
        }
    }
}

TEST(shapes_that_cannot_be_are_refused)
{
    const mp_pipeline_shape bad[] = {{MP_SCHEDULE_1F1B, 0, 1, 1},
                                     {MP_SCHEDULE_1F1B, 2, 2, 4},
                                     {MP_SCHEDULE_INTERLEAVED, 2, 1, 4},
                                     {MP_SCHEDULE_INTERLEAVED, 4, 2, 6},
                                     {MP_SCHEDULE_GPIPE, 2, 1, 0}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        mp_error err = {0};
        assert_int_equal(mp_schedule_check(&bad[k], &err), MP_INVALID);
        assert_true(*err.message);
    }
}
