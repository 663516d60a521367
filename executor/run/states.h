/* states.h - access to the optimizer state of parameters between steps, in any tier. */
#pragma once

#include "executor/run/addresses.h"

/* A buffer with the most recently requested optimizer state, if that state is in a file. */
typedef struct mp_states {
    float *read;
    int storage; /* index of the storage whose content is in the buffer `read`; -1: none */
    bool plain;  /* true: files are read and written without io_uring */
} mp_states;

void mp_states_init(mp_states *states, bool plain);
void mp_states_clear(mp_states *states);

/* Returns the storage of a parameter's state; -1: the parameter has no state. O(nodes). */
int mp_states_storage(const mp_program *program, int tensor);
/* Returns the state of a parameter in *state, NULL: none. State in a file is read into a buffer that is valid until the next
 * call; mp_states_keep writes changes of the buffer back. MP_NOMEM, MP_IO. */
mp_status mp_states_get(mp_states *states, const mp_addresses *addresses, int tensor, float **state, mp_error *err);
mp_status mp_states_keep(mp_states *states, const mp_addresses *addresses, int tensor, mp_error *err);
