/* check_replay.h - what the checker finds when it replays a plan's steps; shared by the files of the checker only. */
#ifndef PLANNER_CHECK_REPLAY_H
#define PLANNER_CHECK_REPLAY_H

#include "memplan/timeline.h"

typedef struct mp_instance {
    int storage;
    int first, last; /* steps, inclusive */
    int room_of;     /* the storage whose room it takes at `first`, or -1 */
    bool held;       /* an update on the second stream uses it up to its last step, so that nobody takes its room there */
} mp_instance;

typedef struct mp_replay {
    size_t n_steps;
    const mp_form **forms; /* per step */
    int *ends;             /* per step: the last step that may run beside it */
    size_t n_instances;
    mp_instance *instances; /* grouped by storage, in the order of their first steps */
    int *start;             /* instances of storage s: instances[start[s] .. start[s+1]) */
    bool *checkpoint;       /* per storage: some backward node reads its first production */
    int64_t static_bytes, peak_bytes, ticks;
} mp_replay;

/* Replays steps whose nodes, forms and waits exist. On MP_OK *out is released with mp_replay_free (NULL is fine). MP_REFUTED: a
 * step reads what is not there, adds out of order, or touches what an update beside it uses; the message names step, node and
 * storage. MP_NOMEM. O(list lengths + storages).
 */
mp_status mp_replay_new(const mp_graph *graph, const mp_step *steps, size_t n, mp_replay **out, mp_error *err);
void mp_replay_free(mp_replay *replay);

#endif
