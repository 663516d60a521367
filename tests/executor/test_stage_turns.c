/* test_stage_turns.c - the turns of a pipeline's stages: each micro-batch finds its saved bytes in place, within the reserved
 * memory, and no two stages deadlock. Checked by naive simulation of all small pipelines. */
#include <string.h>

#include "executor/run/stage_turns.h"
#include "tests/cases/test.h"

enum { MOST_STAGES = 6, MOST_BATCHES = 7, PLACES = 3, BYTES = 5000 };

static const mp_schedule schedules[] = {MP_SCHEDULE_GPIPE, MP_SCHEDULE_1F1B};

/* ---- saved bytes ---- */

static char arena[PLACES][BYTES], room[MOST_BATCHES * PLACES * BYTES + 1];

static void fill_places(int64_t micro_batch)
{
    for (int k = 0; k < PLACES; k++) memset(arena[k], (int)micro_batch * PLACES + k + 1, BYTES);
}

static bool is_of(int64_t micro_batch)
{
    for (int k = 0; k < PLACES; k++)
        for (int i = 0; i < BYTES; i++)
            if (arena[k][i] != (char)(micro_batch * PLACES + k + 1)) return false;
    return true;
}

static void run_stage(const mp_pipeline_shape *shape, int stage)
{
    mp_kept_place kept[PLACES];
    int64_t holds[MOST_BATCHES];
    mp_turn turns[2 * MOST_BATCHES];
    mp_stage_turns t = {.slots = {.n_kept = PLACES,
                                  .kept = kept,
                                  .slot_bytes = PLACES * BYTES,
                                  .n_slots = (int)mp_schedule_in_flight(shape, stage) - 1,
                                  .slots = room,
                                  .holds = holds,
                                  .micro_batch = -1}};
    for (int k = 0; k < PLACES; k++) kept[k] = (mp_kept_place){arena[k], BYTES};
    for (int k = 0; k < MOST_BATCHES; k++) holds[k] = -1;
    char *end = room + t.slots.n_slots * t.slots.slot_bytes;
    *end = 77;
    mp_schedule_order(shape, stage, turns);
    for (size_t k = 0; k < mp_schedule_turns(shape); k++) {
        mp_stage_turns_enter(&t, &turns[k]);
        if (turns[k].pass == MP_PASS_FORWARD)
            fill_places(turns[k].micro_batch);
        else
            assert_true(is_of(turns[k].micro_batch));
        if (turns[k].pass != MP_PASS_FORWARD) fill_places(MOST_BATCHES + 9); /* backward reuses the memory for other values */
    }
    assert_int_equal(*end, 77);
    for (int k = 0; k < t.slots.n_slots; k++) assert_int_equal(holds[k], -1);
}

TEST(every_micro_batch_finds_what_it_keeps)
{
    for (int s = 0; s < 2; s++)
        for (int p = 2; p <= MOST_STAGES; p++)
            for (int m = 1; m <= MOST_BATCHES; m++)
                for (int q = 0; q < p; q++) run_stage(&(mp_pipeline_shape){schedules[s], p, 1, m}, q);
}

/* ---- waiting between stages ---- */

/* Events of a stage in order: receive or send a message. With `ahead`, a forward message is delivered immediately if the
 * previous one has been received. Other messages are delivered when the other stage receives them. */
typedef struct event {
    bool sends, is_forward;
} event;

typedef struct stage {
    event events[4 * MOST_BATCHES];
    size_t n, at;
    int sent[2], taken[2]; /* backward and forward messages */
} stage;

static void list_events(const mp_pipeline_shape *shape, int q, stage *s)
{
    mp_turn turns[2 * MOST_BATCHES];
    mp_schedule_order(shape, q, turns);
    *s = (stage){.n = 0};
    for (size_t k = 0; k < mp_schedule_turns(shape); k++) {
        const bool forward = turns[k].pass == MP_PASS_FORWARD;
        if (forward ? q > 0 : q + 1 < shape->n_ranks) s->events[s->n++] = (event){false, forward};
        if (forward ? q + 1 < shape->n_ranks : q > 0) s->events[s->n++] = (event){true, forward};
    }
}

/* Receives or sends one message, if possible. */
static bool step(stage *stages, int q, bool ahead)
{
    stage *s = &stages[q];
    if (s->at == s->n) return false;
    const event e = s->events[s->at];
    stage *other = &stages[q + (e.is_forward == e.sends ? 1 : -1)];
    if (!e.sends) {
        const bool is_there = other->sent[e.is_forward] > s->taken[e.is_forward];
        const bool meets =
            other->at < other->n && other->events[other->at].sends && other->events[other->at].is_forward == e.is_forward;
        if (!is_there && !meets) return false;
        if (!is_there) other->sent[e.is_forward]++, other->at++;
        s->taken[e.is_forward]++;
    } else {
        if (!ahead || !e.is_forward || s->sent[1] > other->taken[1]) return false; /* the other stage is receiving it */
        s->sent[1]++;
    }
    s->at++;
    return true;
}

static bool ends(const mp_pipeline_shape *shape, bool ahead)
{
    stage stages[MOST_STAGES];
    bool moved = true, all = true;
    for (int q = 0; q < shape->n_ranks; q++) list_events(shape, q, &stages[q]);
    while (moved) {
        moved = false;
        for (int q = 0; q < shape->n_ranks; q++) moved |= step(stages, q, ahead);
    }
    for (int q = 0; q < shape->n_ranks; q++) all &= stages[q].at == stages[q].n;
    return all;
}

TEST(with_a_send_buffer_for_activations_no_stage_waits_for_ever)
{
    for (int s = 0; s < 2; s++)
        for (int p = 2; p <= MOST_STAGES; p++)
            for (int m = 1; m <= MOST_BATCHES; m++) assert_true(ends(&(mp_pipeline_shape){schedules[s], p, 1, m}, true));
}

TEST(without_one_two_stages_of_1f1b_do)
{
    assert_false(ends(&(mp_pipeline_shape){MP_SCHEDULE_1F1B, 2, 1, 4}, false));
    assert_true(ends(&(mp_pipeline_shape){MP_SCHEDULE_GPIPE, 2, 1, 4}, false));
}
