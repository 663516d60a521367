/* addresses.h - the addresses of a plan: the two memory blocks of an execution, and the operands of every step. */
#pragma once

#include "executor/run/program.h"
#include "memplan/plan.h"

/* One step with its addresses. */
typedef struct mp_ready_step {
    int node, alternative;
    bool first_run; /* true: the node's first run within a pass */
    size_t n_slots, n_dead, n_guarded;
    char **slots; /* per slot of the node its address; NULL: not live */
    char *workspace;
    char *source, *target; /* of accumulate and update nodes */
    char *state, *clip;
    const int *dead;    /* places of the instances whose last step is this one */
    const int *guarded; /* with guards: places that the node may write to, its workspace included */
} mp_ready_step;

typedef struct mp_addresses {
    const mp_program *program;
    const mp_plan *plan;
    char *fixed, *arena; /* blocks of fixed_bytes and arena_bytes */
    int64_t fixed_bytes, arena_bytes;
    int64_t *fixed_at;    /* per storage: offset in `fixed` if it is always live, else -1 */
    int64_t *constant_at; /* per constant of the program: offset in `fixed`, behind the storages */
    int64_t *place_at;    /* per place of the plan: offset in the arena */
    int64_t guard_bytes;
    mp_ready_step *steps; /* per step of the plan */
} mp_addresses;

enum { MP_UNUSED_BYTE = 0xa5 }; /* initial content of every byte of the arena */

/* Allocates both blocks from the program's backend and fills *out, whose lists lie in the pool; the caller releases the
 * blocks with mp_addresses_free, even after a failure. `guards`: places are laid out side by side instead of as planned,
 * with guard bytes between them that nothing may write to. MP_NOMEM says how much was asked for; MP_INVALID: the plan has no
 * offsets. O(slots). */
mp_status mp_addresses_of(const mp_program *program, const mp_plan *plan, bool guards, mp_pool *pool, mp_addresses *out,
                          mp_error *err);
void mp_addresses_free(mp_addresses *addresses); /* does nothing for a zeroed one */

/* Checks with guards that the bytes around what step t may have written are untouched. MP_REFUTED names the node. */
mp_status mp_addresses_check_guards(const mp_addresses *addresses, int t, mp_error *err);
/* Fills the instances that end with step t with NaNs, except where other live instances overlap them. O(places). */
void mp_addresses_poison(const mp_addresses *addresses, int t);
