/* providers.h - who computes the operators of one kind, where a backend has several ways: for reports. */
#pragma once

#include <stddef.h>

#include "memplan/program.h"

/* Operators with the same provider for the same reason. */
typedef struct mp_provider_group {
    const char *provider; /* "cuDNN" */
    const char *reason;   /* why it is this one; "": the backend has no better one */
    size_t n_operators;
} mp_provider_group;

enum { MP_PROVIDER_GROUPS = 16 };

/* The groups of the operators of this kind, in the order in which they first occur, each operator once, by its forward node;
 * their number. 0: the backend has one way for them, or the network has none. With more groups than there is room for, the
 * last one takes the rest. Texts live as long as the program. O(nodes x groups). */
size_t mp_program_providers(const mp_program *program, const char *kind, mp_provider_group groups[MP_PROVIDER_GROUPS]);
