/* chains.h - binds the operands of a step to their addresses, and finds consecutive steps that the backend runs as one launch.
 */
#pragma once

#include "executor/kernel/chain.h"
#include "executor/run/addresses.h"

/* Returns the call of a step that runs an operator, whose operands get the step's addresses and alternative. */
mp_call_chain_link mp_ready_step_bind(const mp_program *program, const mp_ready_step *step);

/* The launch of a chain; run NULL: none. */
typedef struct mp_call_chain_launch {
    mp_call_chain chain;
    mp_call_chain_run run;
} mp_call_chain_launch;

/* Finds the longest chain of at most `most` steps that begins with step t. O(operands). */
mp_call_chain_launch mp_call_chain_at(const mp_addresses *addresses, size_t t, size_t most);
