/* schedule.c - the schedule of a pipeline. A turn is one forward or backward pass of a micro-batch on a rank. Computes the
 * order of each rank's turns, the stash between turns, and the time at which each turn begins. */
#include "memplan/ranks/schedule.h"

#include <math.h>

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "estimator/base/names.h"

MP_NAMED(schedule, "gpipe", "1f1b", "interleaved", "zb-h1")

mp_status mp_schedule_check(const mp_pipeline_shape *s, mp_error *err)
{
    const bool interleaves = s->schedule == MP_SCHEDULE_INTERLEAVED;
    MP_ENSURE(s->n_ranks >= 1 && s->n_chunks >= 1 && s->n_micro_batches >= 1, err, MP_INVALID,
              "a pipeline needs at least one stage, one chunk and one micro-batch");
    MP_ENSURE(interleaves || s->n_chunks == 1, err, MP_INVALID, "%d chunks per rank need the schedule interleaved, not %s",
              s->n_chunks, mp_schedule_name(s->schedule));
    MP_ENSURE(!interleaves || s->n_chunks > 1, err, MP_INVALID,
              "the schedule interleaved needs at least two chunks of the network per rank");
    MP_ENSURE(!interleaves || s->n_micro_batches % s->n_ranks == 0, err, MP_INVALID,
              "%lld micro-batches are not a multiple of the %d ranks, which the schedule interleaved needs",
              (long long)s->n_micro_batches, s->n_ranks);
    return MP_OK;
}

/* ---- order ---- */

/* Returns the number of forward passes that a rank runs before its first backward pass. */
static int64_t warm_up(const mp_pipeline_shape *s, int rank)
{
    const int64_t p = s->n_ranks, all = s->n_micro_batches * s->n_chunks;
    if (p == 1) return 1; /* a pipeline of one rank waits for no other rank, so one forward pass is enough */
    if (s->schedule == MP_SCHEDULE_GPIPE) return all;
    if (s->schedule == MP_SCHEDULE_INTERLEAVED) return mp_smaller(all, 2 * (p - rank - 1) + (s->n_chunks - 1) * p + 1);
    return mp_smaller(all, p - rank);
}

/* Returns the k-th forward turn of a rank, or its k-th backward turn. */
static mp_turn turn_at(const mp_pipeline_shape *s, mp_pass pass, int64_t k)
{
    const int64_t group = (int64_t)s->n_ranks * s->n_chunks;
    if (s->n_chunks == 1) return (mp_turn){.pass = pass, .micro_batch = k};
    const int chunk = (int)(k % group / s->n_ranks);
    return (mp_turn){.pass = pass,
                     .chunk = pass == MP_PASS_FORWARD ? chunk : s->n_chunks - 1 - chunk,
                     .micro_batch = k / group * s->n_ranks + k % s->n_ranks};
}

size_t mp_schedule_turns(const mp_pipeline_shape *s)
{
    return (size_t)s->n_micro_batches * (size_t)s->n_chunks * (s->schedule == MP_SCHEDULE_ZB_H1 ? 3 : 2);
}

int mp_schedule_postpones(const mp_pipeline_shape *s, int rank)
{
    return s->schedule == MP_SCHEDULE_ZB_H1 ? rank : 0;
}

void mp_schedule_order(const mp_pipeline_shape *s, int rank, mp_turn *turns)
{
    const int64_t all = s->n_micro_batches * s->n_chunks, ahead = warm_up(s, rank);
    const int64_t waiting = s->schedule == MP_SCHEDULE_ZB_H1 ? mp_schedule_postpones(s, rank) : -1;
    size_t n = 0;
    for (int64_t f = 0, b = 0, w = 0; b < all;) {
        while (f < all && f < b + ahead) turns[n++] = turn_at(s, MP_PASS_FORWARD, f++);
        turns[n++] = turn_at(s, MP_PASS_BACKWARD, b++);
        while (waiting >= 0 && w < b && (b - w > waiting || b == all)) turns[n++] = turn_at(s, MP_PASS_WEIGHTS, w++);
    }
}

/* ---- stash ---- */

mp_status mp_schedule_held_bytes(const mp_pipeline_shape *s, int rank, const mp_kept *kept, int64_t *bytes, mp_error *err)
{
    const size_t n = mp_schedule_turns(s);
    MP_OWNED mp_turn *turns = mp_alloc(n, sizeof *turns);
    const bool waits = mp_schedule_postpones(s, rank) > 0;
    int64_t held = 0;
    if (!turns) return MP_NO_MEMORY(err);
    mp_schedule_order(s, rank, turns);
    for (int c = 0; c < s->n_chunks; c++) bytes[c] = 0;
    for (size_t t = 0; t < n; t++) {
        const int chunk = turns[t].chunk;
        int64_t own = 0;
        if (turns[t].pass == MP_PASS_WEIGHTS && !waits) continue;
        for (int c = 0; c < chunk; c++) own += kept[c].forward_bytes;
        if (turns[t].pass == MP_PASS_BACKWARD) held -= kept[chunk].forward_bytes;
        if (turns[t].pass == MP_PASS_WEIGHTS) held -= kept[chunk].weights_bytes;
        if (held - own > bytes[chunk]) bytes[chunk] = held - own;
        if (turns[t].pass == MP_PASS_FORWARD) held += kept[chunk].forward_bytes;
        if (turns[t].pass == MP_PASS_BACKWARD && waits) held += kept[chunk].weights_bytes;
    }
    return MP_OK;
}

int64_t mp_schedule_in_flight(const mp_pipeline_shape *s, int rank)
{
    return warm_up(s, rank);
}

/* ---- times ---- */

typedef struct clockwork {
    const mp_pipeline_shape *shape;
    const mp_stage_seconds *stages;
    mp_played *played;
    /* per stage and micro-batch: the time at which its forward or backward pass ends; negative: not simulated yet */
    double *forward, *backward;
    size_t *next; /* per rank: index of the turn that is simulated next */
    double *clock, *busy;
} clockwork;

/* Returns the time at which the input of a turn has arrived; negative: not simulated yet. */
static double ready_at(const clockwork *x, int stage, const mp_turn *turn)
{
    const int64_t m = x->shape->n_micro_batches;
    const bool is_forward = turn->pass == MP_PASS_FORWARD;
    const int other = is_forward ? stage - 1 : stage + 1;
    if (turn->pass == MP_PASS_WEIGHTS || other < 0 || other >= x->shape->n_ranks * x->shape->n_chunks) return 0;
    const double end = (is_forward ? x->forward : x->backward)[other * m + turn->micro_batch];
    return end < 0 ? end : end + x->stages[is_forward ? other : stage].send;
}

/* Simulates the next turn of a rank. Returns false if the turn's input has not been simulated yet, or if the rank has no
 * further turn. */
static bool advance(clockwork *x, int rank)
{
    mp_played *played = x->played;
    const size_t k = x->next[rank];
    if (k == played->n_turns) return false;
    mp_turn *turn = &played->turns[(size_t)rank * played->n_turns + k];
    const int stage = turn->chunk * x->shape->n_ranks + rank;
    const mp_stage_seconds *s = &x->stages[stage];
    const double ready = ready_at(x, stage, turn);
    const bool splits = x->shape->schedule == MP_SCHEDULE_ZB_H1;
    if (ready < 0) return false;
    const double seconds = turn->pass == MP_PASS_FORWARD    ? s->forward
                           : turn->pass == MP_PASS_BACKWARD ? s->backward + (splits ? 0 : s->weights)
                                                            : s->weights;
    const double ahead = turn->pass == MP_PASS_BACKWARD ? s->ahead : 0;
    turn->begin = ahead > 0 ? x->clock[rank] : fmax(ready, x->clock[rank]);
    x->clock[rank] = turn->end = fmax(ready, turn->begin + ahead) + seconds - ahead;
    x->busy[rank] += seconds;
    const int64_t at = stage * x->shape->n_micro_batches + turn->micro_batch;
    if (turn->pass != MP_PASS_WEIGHTS) (turn->pass == MP_PASS_FORWARD ? x->forward : x->backward)[at] = turn->end;
    x->next[rank]++;
    return true;
}

/* Simulates all turns of all ranks and adds up the times. The simulation always ends, because the orders from mp_schedule_order
 * contain no deadlock. */
static void play(clockwork *x)
{
    const int n = x->shape->n_ranks;
    double busiest = 0, last = 0;
    for (bool any = true; any;) {
        any = false;
        for (int r = 0; r < n; r++)
            while (advance(x, r)) any = true;
    }
    for (int r = 0; r < n; r++) {
        double tail = 0;
        for (int c = 0; c < x->shape->n_chunks; c++) tail += x->stages[c * n + r].tail;
        x->played->seconds = fmax(x->played->seconds, x->clock[r] + tail);
        busiest = fmax(busiest, x->busy[r]);
        last = fmax(last, x->clock[r]);
    }
    x->played->bubble_seconds = last - busiest;
}

mp_status mp_schedule_play(const mp_pipeline_shape *shape, const mp_stage_seconds *stages, mp_played **out, mp_error *err)
{
    MP_CHECK(mp_schedule_check(shape, err));
    const size_t n = (size_t)shape->n_ranks, n_ends = n * (size_t)shape->n_chunks * (size_t)shape->n_micro_batches;
    MP_OWNED_BY(mp_schedule_free) mp_played *played = mp_alloc(1, sizeof *played);
    if (!played) return MP_NO_MEMORY(err);
    mp_pool *pool = played->pool = mp_pool_new();
    clockwork x = {.shape = shape, .stages = stages, .played = played};
    played->n_turns = mp_schedule_turns(shape);
    played->turns = mp_pool_alloc(pool, n * played->n_turns, sizeof *played->turns);
    x.forward = mp_pool_alloc(pool, n_ends, sizeof *x.forward);
    x.backward = mp_pool_alloc(pool, n_ends, sizeof *x.backward);
    x.next = mp_pool_alloc(pool, n, sizeof *x.next);
    x.clock = mp_pool_alloc(pool, n, sizeof *x.clock);
    x.busy = mp_pool_alloc(pool, n, sizeof *x.busy);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    for (size_t k = 0; k < n_ends; k++) x.forward[k] = x.backward[k] = -1;
    for (size_t r = 0; r < n; r++) mp_schedule_order(shape, (int)r, &played->turns[r * played->n_turns]);
    play(&x);
    *out = played;
    played = NULL;
    return MP_OK;
}

void mp_schedule_free(mp_played *played)
{
    if (!played) return;
    mp_pool_free(played->pool);
    mp_free(played);
}
