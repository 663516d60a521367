/* chain.h - calls of consecutive steps of a plan that a backend runs as one launch.
 *
 * Example: Dropout, Add and LayerNormalization. The launch keeps intermediate results in registers, so it moves fewer bytes.
 * The results have the bits of the separate calls. A plan may therefore run a node in a chain, and later recompute it alone. */
#pragma once

#include "executor/kernel/backend.h"

enum { MP_CHAIN_LINKS = 3 };

/* One call of a chain, with its operands. The operands have addresses when a backend chooses the launch and when it runs. */
typedef struct mp_call_chain_link {
    const mp_call *call;
    mp_operands *x;
    bool is_read; /* true: a step after the chain reads the first result of the call; false: the launch need not write it */
    bool uses_workspace; /* set by the backend: the launch uses the workspace of this call */
} mp_call_chain_link;

typedef struct mp_call_chain mp_call_chain;
struct mp_call_chain {
    size_t n;
    mp_call_chain_link links[MP_CHAIN_LINKS];
};

/* True if the addresses permit one launch: a result of one call and an operand or result of another call are disjoint or the
 * same array. A launch of a chain reads all of a row of its operands before it writes that row of its results. */
bool mp_call_chain_is_safe(const mp_call_chain *chain);
