/* check_replay.h - the checker replays a plan's steps: lifetimes, bytes and ticks, derived apart from the timeline. For the
 * checker only. */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_instance {
    int storage;
    int begin, end; /* steps [begin, end) */
    int takes_over; /* the storage whose memory it takes over at `begin`, or -1 */
    bool is_locked; /* an update on the second stream uses it to its end, so that nothing takes over its memory there */
} mp_instance;

typedef struct mp_replay {
    mp_pool *pool; /* of all arrays */
    size_t n_steps;
    const mp_alternative **alternatives; /* per step */
    int *ends;                           /* per step: the first step that cannot run beside it any more */
    size_t n_instances;
    mp_instance *instances; /* grouped by storage, in the order of their beginnings */
    int *start;             /* instances of storage s: instances[start[s] .. start[s+1]) */
    bool *checkpoint;       /* per storage: some backward node reads its first production */
    int64_t static_bytes, peak_bytes, ticks;
} mp_replay;

/* Replays steps whose nodes, alternatives and waits exist. On MP_OK *out is released with mp_replay_free. MP_REFUTED: a step
 * reads what is not live, adds out of order, or uses what an update on the second stream uses at the same time; the message
 * names step, node and storage. MP_NOMEM. O(list lengths + storages). */
mp_status mp_replay_new(const mp_graph *graph, const mp_step *steps, size_t n, mp_replay **out, mp_error *err);
void mp_replay_free(mp_replay *replay); /* NULL is fine */
MP_OWNER(mp_replay_free, mp_replay)
