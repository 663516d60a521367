/* names.h - a map from names to small integers (a thin face of uthash that reports memory shortage). */
#pragma once

#include <stdbool.h>

#include "memplan/memory.h"

typedef struct mp_names mp_names;

mp_names *mp_names_new(void); /* NULL: out of memory */
void mp_names_free(mp_names *names);
MP_OWNER(mp_names_free, mp_names)
/* The integer stored for this name, or -1. O(length). */
int mp_names_find(const mp_names *names, const char *name);
/* Stores `index` for `name`, in place of an earlier one. The name is not copied and must live as long as the map. False: out
 * of memory. */
bool mp_names_set(mp_names *names, const char *name, int index);

/* Returns the place of a name among names[0..n); -1 if it is not there. */
int mp_names_place(const char *const *names, int n, const char *name);
/* True if two names are the same but for case, spaces, dashes and underscores. */
bool mp_names_are_alike(const char *a, const char *b);
