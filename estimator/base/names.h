/* names.h - a map from names to small integers (a thin wrapper of uthash that reports out-of-memory). */
#pragma once

#include <stdbool.h>

#include "memplan/memory.h"

typedef struct mp_names mp_names;

mp_names *mp_names_new(void); /* creates an empty map; NULL: out of memory */
void mp_names_free(mp_names *names);
MP_OWNER(mp_names_free, mp_names)
/* Returns the integer stored for this name; -1: the map does not contain the name. O(length). */
int mp_names_find(const mp_names *names, const char *name);
/* Stores `index` for `name`, replacing an earlier index. The map does not copy the name, which must outlive the map. Returns
 * false if memory is short. */
bool mp_names_set(mp_names *names, const char *name, int index);

/* Returns the position of a name in names[0..n); -1: the array does not contain it. */
int mp_names_position(const char *const *names, int n, const char *name);
/* Defines the name functions of an enum that counts from 0: MP_NAMED(loss, "auto", "mse", ...). mp_TYPE_name(value) returns
 * "unknown" past the last value. mp_TYPE_find(name) returns -1 if no value has this name. */
#define MP_NAMED(type, ...)                                                          \
    static const char *const type##_names[] = {__VA_ARGS__};                         \
    enum { N_##type##_NAMES = sizeof type##_names / sizeof *type##_names };          \
    const char *mp_##type##_name(mp_##type value)                                    \
    {                                                                                \
        return (unsigned)value < N_##type##_NAMES ? type##_names[value] : "unknown"; \
    }                                                                                \
    int mp_##type##_find(const char *name)                                           \
    {                                                                                \
        return mp_names_position(type##_names, N_##type##_NAMES, name);              \
    }
/* True if two names differ only in case, spaces, dashes and underscores. */
bool mp_names_are_alike(const char *a, const char *b);
