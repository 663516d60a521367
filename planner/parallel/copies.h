/* copies.h - what copies to the host's memory and back take beside the compute of a stage. */
#pragma once

#include "planner/parallel/player.h"

/* The updates of a stage whose state lies on the host. */
typedef struct mp_away_updates {
    double seconds;
    int64_t moved_bytes;   /* state that is there */
    int64_t largest_bytes; /* of it, on the device at once */
} mp_away_updates;

/* Returns the bytes of a parameter's state that a rank may have on the host. */
int64_t mp_player_movable_state(const mp_step_request *r, const mp_parameter_load *p);
/* Plays the updates of the parameters that a stage reads: state comes and goes while others are updated, with no more of it on
 * the device at once than the room, and three times the largest. O(parameters). */
mp_away_updates mp_player_update_away(const mp_player *x, const mp_stage *stage, int64_t room_bytes);
/* Returns the seconds of a micro-batch's forward, or backward, in a stage: each block that is away is copied while others run;
 * it begins when all copies but the last have ended, and the pass ends with them. O(blocks). */
double mp_player_pass(const mp_player *x, const mp_stage *stage, bool is_backward);
