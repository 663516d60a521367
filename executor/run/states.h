/* states.h - the optimizer state of parameters, wherever it lies: for what reads and writes it between steps. */
#pragma once

#include "executor/run/addresses.h"

/* The state that was asked for last, if it lies in a file. */
typedef struct mp_states {
    float *read;
    int storage; /* what that is; -1: none */
    bool plain;  /* copied without io_uring */
} mp_states;

void mp_states_init(mp_states *states, bool plain);
void mp_states_clear(mp_states *states);

/* Returns the storage in which the state of a parameter lies; -1: it has none. O(nodes). */
int mp_states_storage(const mp_program *program, int tensor);
/* Gives the state of a parameter, NULL: it has none. That of a file is read into memory, which is valid until the next call.
 * Call mp_states_keep to write it back after a change. MP_NOMEM, MP_IO. */
mp_status mp_states_get(mp_states *states, const mp_addresses *addresses, int tensor, float **state, mp_error *err);
mp_status mp_states_keep(mp_states *states, const mp_addresses *addresses, int tensor, mp_error *err);
