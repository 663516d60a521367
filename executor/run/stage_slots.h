/* stage_slots.h - where what waiting micro-batches keep lies while another one runs.
 *
 * A plan is of one micro-batch, so what it keeps from its forward to its backward has one place in the arena, and others use
 * the same bytes before and after. So when another micro-batch runs in between, what is kept is copied into a slot of the
 * storage `held`, which has one for each micro-batch that can wait, and before the backward it is exchanged for what is in its
 * place (docs/ranks.md says why). */
#pragma once

#include "executor/run/addresses.h"

/* Something that a micro-batch keeps: a place in the arena, or an input. */
typedef struct mp_kept_place {
    char *at;
    int64_t bytes;
} mp_kept_place;

typedef struct mp_stage_slots {
    size_t n_kept;
    mp_kept_place *kept;
    int64_t slot_bytes;
    int n_slots;
    char *slots;
    int64_t *holds;       /* per slot: its micro-batch; -1: none */
    int64_t micro_batch;  /* that of what is in its place in the arena; -1: none */
    int64_t copied_bytes; /* so far, out of the arena and into it */
} mp_stage_slots;

/* Finds what steps before turn_around leave for the others. The lists lie in the pool. MP_INVALID: there is not as much room as
 * the plan needs. MP_NOMEM. O(places). */
mp_status mp_stage_slots_of(const mp_addresses *addresses, size_t turn_around, mp_pool *pool, mp_stage_slots *out,
                            mp_error *err);
/* Before the forward of a micro-batch: what another one keeps goes into a slot. */
void mp_stage_slots_begin(mp_stage_slots *slots, int64_t micro_batch);
/* Before its backward: what it keeps is in its place, and what was there is in a slot. After the backward it keeps nothing. */
void mp_stage_slots_turn(mp_stage_slots *slots, int64_t micro_batch);
