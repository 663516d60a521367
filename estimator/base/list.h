/* list.h - searches a short list of indices from begin to end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* True if x is in list[0..n). O(n). */
static inline bool mp_list_has(const int *list, size_t n, int x)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}
