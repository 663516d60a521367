/* addresses.h - where everything of a plan lies: the two blocks of an execution, and for each step the addresses of its
 * operands.
 */
#pragma once

#include "executor/run/program.h"
#include "memplan/plan.h"

/* One step made ready. */
typedef struct mp_ready_step {
    int node, alternative;
    bool first_run; /* of its node within a pass */
    size_t n_slots, n_dead, n_guarded;
    char **slots; /* per slot of the node, NULL: not at hand */
    char *workspace;
    char *source, *target; /* accumulate, update */
    char *state, *clip;
    const int *dead;    /* places of instances that end here */
    const int *guarded; /* with guards: places that the node may write to, its workspace among them */
} mp_ready_step;

typedef struct mp_addresses {
    const mp_program *program;
    const mp_plan *plan;
    char *fixed, *arena; /* blocks of fixed_bytes and arena_bytes */
    int64_t fixed_bytes, arena_bytes;
    int64_t *fixed_at;    /* per storage: offset in the block of what is always live, -1: it is not */
    int64_t *constant_at; /* per constant of the program: likewise, after the storages */
    int64_t *place_at;    /* per place of the plan: offset in the arena */
    int64_t guard_bytes;
    mp_ready_step *steps; /* per step of the plan */
} mp_addresses;

enum { MP_UNUSED_BYTE = 0xa5 }; /* the arena is filled with it at first */

/* Takes both blocks from the program's backend and fills *out, whose lists lie in the pool; blocks are released with
 * mp_addresses_free, even after a failure. `guards`: places are laid out side by side instead of as planned, with bytes between
 * them that nobody may write to. MP_NOMEM says how much was asked for; MP_INVALID: a plan without offsets. O(slots). */
mp_status mp_addresses_of(const mp_program *program, const mp_plan *plan, bool guards, mp_pool *pool, mp_addresses *out,
                          mp_error *err);
void mp_addresses_free(mp_addresses *addresses); /* a zeroed one is fine */

/* With guards: whether the bytes around what step t may have written are still untouched. MP_REFUTED names the node. */
mp_status mp_addresses_check_guards(const mp_addresses *addresses, int t, mp_error *err);
/* Overwrites what has ended with step t with NaNs, except where something live lies by now. O(places). */
void mp_addresses_poison(const mp_addresses *addresses, int t);
