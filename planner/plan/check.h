/* check.h - the parts of mp_plan_check: the replay of the steps, and the places in the arena. */
#pragma once

#include "memplan/memory.h"
#include "memplan/plan.h"
#include "memplan/timeline.h"

/* ---- check_replay.c ---- */

/* Replays the steps of a plan and derives lifetimes, bytes and ticks. Does not use the code of the timeline. Internal to the
 * checker. */

typedef struct mp_instance {
    int storage;
    int begin, end; /* live in steps [begin, end) */
    int takes_over; /* the storage whose memory this instance takes over when it begins; -1: none */
    /* true if an update on the second stream uses this instance: it is in use until the update's end, so no output may take
     * over its memory */
    bool is_locked;
} mp_instance;

typedef struct mp_replay {
    mp_pool *pool; /* owns all arrays */
    size_t n_steps;
    const mp_alternative **alternatives; /* per step: the alternative that the step runs */
    int *ends;                           /* per step t: the first later step that does not overlap with t in time */
    size_t n_instances;
    mp_instance *instances; /* the instances of all storages, grouped by storage and sorted by begin */
    int *start;             /* the instances of storage s: instances[start[s] .. start[s+1]) */
    bool *checkpoint;       /* per storage: some backward node reads the instance that the storage's first production creates */
    struct {
        int64_t static_bytes, peak_bytes;
    } tiers[MP_MAX_TIERS];
    int64_t static_bytes, peak_bytes; /* on the device */
    int64_t ticks;                    /* makespan in ticks */
} mp_replay;

/* Replays steps whose nodes, alternatives and waits are valid. On MP_OK release *out with mp_replay_free. MP_REFUTED: a step
 * reads a storage that is not live, adds to a sum out of order, or conflicts with an update on the second stream. The message
 * names step, node and storage. MP_NOMEM. O(list lengths + storages). */
mp_status mp_replay_new(const mp_graph *graph, const mp_step *steps, size_t n, mp_replay **out, mp_error *err);
void mp_replay_free(mp_replay *replay); /* NULL is allowed */
MP_OWNER(mp_replay_free, mp_replay)

/* ---- check_places.c: checks the places of a plan (items with offsets). Internal to the checker ---- */

/* Checks the places of a plan in a tier. Each instance of more than 0 bytes must have a place that is aligned and has the
 * instance's size and lifetime. On the device, each workspace of more than 0 bytes must have a place as well. Two places may
 * overlap only if an output takes over the memory of an input, at the same offset. Sets *arena_bytes to the end of the highest
 * place. MP_REFUTED. MP_NOMEM. O(n log n + n m) for n places of which at most m are live at one step; the second term is
 * memmove. */
mp_status mp_check_places(const mp_graph *graph, const mp_plan *plan, int tier, const mp_replay *replay, int64_t *arena_bytes,
                          mp_error *err);
