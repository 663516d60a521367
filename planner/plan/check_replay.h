/* check_replay.h - replays the steps of a plan: lifetimes, bytes and ticks, without the timeline's code. Internal to the
 * checker. */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_instance {
    int storage;
    int begin, end; /* live in steps [begin, end) */
    int takes_over; /* the storage whose memory this instance takes over at `begin`; -1: none */
    bool is_locked; /* an update on the second stream uses it until its end, so that its memory cannot be taken over */
} mp_instance;

typedef struct mp_replay {
    mp_pool *pool; /* owns all arrays */
    size_t n_steps;
    const mp_alternative **alternatives; /* per step: the alternative that it runs */
    int *ends;                           /* per step t: the first step that no longer overlaps with t */
    size_t n_instances;
    mp_instance *instances; /* grouped by storage, each group sorted by begin */
    int *start;             /* storage s has instances[start[s] .. start[s+1]) */
    bool *checkpoint;       /* per storage: some backward node reads the instance from its first production */
    struct {
        int64_t static_bytes, peak_bytes;
    } tiers[MP_MAX_TIERS];
    int64_t static_bytes, peak_bytes; /* on the device */
    int64_t ticks;                    /* makespan in ticks */
} mp_replay;

/* Replays steps with valid nodes, alternatives and waits. On MP_OK release *out with mp_replay_free. MP_REFUTED: a step reads a
 * storage that is not live, adds out of order, or conflicts with an update on the second stream. The message names step, node
 * and storage. MP_NOMEM. O(list lengths + storages). */
mp_status mp_replay_new(const mp_graph *graph, const mp_step *steps, size_t n, mp_replay **out, mp_error *err);
void mp_replay_free(mp_replay *replay); /* NULL is allowed */
MP_OWNER(mp_replay_free, mp_replay)
